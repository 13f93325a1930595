/*
 * client_write.c - what was collected, and what comes now, to the socket.
 *
 * Collected bytes wait in `output`; a write takes them and the caller's data in one system call and keeps what the
 * socket does not take. EV_WRITE is armed only then, and the send deadline runs only while it is.
 *
 * Invariant: a failed write is told by gone(), from the loop, never from inside a call of the exchange.
 */
#include "proxy/client_internal.h"

/* Each time that the socket has taken bytes and wants to be waited for again, send_timeout begins anew. */
void client_wait_to_write(struct client *client)
{
    client->write_armed = true;
    event_add(client->stream.write_wants_read ? &client->readable : &client->writable, NULL);
    deadline_set(&client->send_deadline, monotonic_ms() + client->settings->send_timeout);
}

static void write_now(struct client *client, const void *data, size_t len)
{
    struct buffer *output = &client->output;
    size_t collected = buffer_len(output), moved;
    struct iovec parts[2] = {{buffer_data(output), collected}, {(void *)data, len}};
    enum stream_result result = collected ? stream_write(&client->stream, parts, len ? 2 : 1, &moved)
                                          : stream_write(&client->stream, parts + 1, 1, &moved);
    if (result == STREAM_BROKEN) {
        client->broken = true;
        buffer_free(output);
        event_active(&client->later, 0, 0);
        return;
    }
    size_t of_output = moved < collected ? moved : collected, of_data = moved - of_output;
    buffer_consume(output, of_output);
    if (of_data < len)
        buffer_append(output, (const char *)data + of_data, len - of_data);
    if (buffer_len(output))
        client_wait_to_write(client);
}

void client_write_out(struct client *client, const void *data, size_t len)
{
    if (client->broken || client->state == CLIENT_DEAD)
        return;
    if (client->write_armed)
        buffer_append(&client->output, data, len);
    else if (buffer_len(&client->output) + len)
        write_now(client, data, len);
    if (buffer_len(&client->output) > CLIENT_LOW_WATER)
        client->above = true;
}

static void write_waiting(struct client *client)
{
    struct buffer *output = &client->output;
    client->write_armed = false;
    client_write_out(client, NULL, 0);
    if (client->broken)
        return; /* `later` is due */
    if (!client->write_armed)
        deadline_clear(&client->send_deadline);
    client_fin_if_due(client);
    if (client->state == CLIENT_FLUSHING && !buffer_len(output)) {
        client_after_answer(client);
    } else if (client->state == CLIENT_REQUEST && client->above && buffer_len(output) < CLIENT_LOW_WATER) {
        client->above = false;
        if (client->exchange)
            client->events->writable(client->exchange);
    }
}

void client_on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct client *client = arg;
    if (client->state == CLIENT_LINGERING) {
        client_say_end(client);
        return;
    }
    if (client->stream.read_wants_write) {
        client->stream.read_wants_write = false;
        client_on_readable(fd, EV_READ, client);
    }
    if (client->write_armed)
        write_waiting(client);
}

struct buffer *client_output(struct client *client)
{
    return &client->output;
}

void client_append(struct client *client, const void *data, size_t len)
{
    buffer_append(&client->output, data, len);
}

void client_write(struct client *client, const void *data, size_t len)
{
    client_write_out(client, data, len);
}

void client_flush(struct client *client)
{
    client_write_out(client, NULL, 0);
}

void client_write_continue(struct client *client)
{
    const struct span head = SPAN("HTTP/1.1 100 Continue\r\n\r\n");
    client_write(client, head.data, head.len);
}

size_t client_queued(const struct client *client)
{
    return buffer_len(&client->output);
}

struct stream *client_sink(struct client *client)
{
    bool free = client->state == CLIENT_REQUEST && !client->broken && !client->write_armed && !client->stream.ssl;
    return free && !buffer_len(&client->output) ? &client->stream : NULL;
}
