/*
 * client_close.c - between two answers, and the end.
 *
 * One door out: client_die(). An answer that is complete leaves by FIN, and what the peer still sends is read and
 * thrown away for a while (lingering), because closing over unread bytes would make the kernel send a reset that eats
 * the answer (RFC 9112 §9.6). The memory goes from the event loop: callers up the stack still hold the client.
 */
#include "proxy/client_internal.h"

#include <assert.h>

/* ---- death ------------------------------------------------------------------------------------ */

static void stop_events(struct client *client)
{
    event_del(&client->readable);
    event_del(&client->writable);
    client->reading = client->write_armed = false;
    deadline_destroy(&client->deadline);
    deadline_destroy(&client->send_deadline);
}

void client_die(struct client *client, bool reset)
{
    assert(client->state != CLIENT_DEAD && !client->exchange);
    stop_events(client);
    if (reset)
        stream_reset(&client->stream);
    else
        stream_close(&client->stream);
    client->state = CLIENT_DEAD;
    event_active(&client->later, 0, 0); /* freed from the loop: callers up the stack still hold it */
}

void client_free(struct client *client)
{
    client->events->closed(client->context, client);
    event_del(&client->later);
    http_parser_free(client->parser);
    buffer_free(&client->input);
    buffer_free(&client->output);
    free(client);
}

/* The connection is dead under an exchange, or under nobody. Always the last thing that a callback does. */
void client_gone(struct client *client, bool reset)
{
    void *exchange = client->exchange;
    client->exchange = NULL;
    client_die(client, reset);
    if (exchange)
        client->events->gone(exchange);
}

void client_free_now(struct client *client)
{
    if (client->state != CLIENT_DEAD) {
        client->exchange = NULL;
        stop_events(client);
        stream_close(&client->stream);
    }
    client_free(client);
}

/* ---- between requests ------------------------------------------------------------------------- */

void client_linger(struct client *client)
{
    int64_t now = monotonic_ms();
    if (client->ended) { /* it has said all it had to say: nothing unread can turn the close into a reset */
        client_die(client, false);
        return;
    }
    stream_end(&client->stream);
    client->state = CLIENT_LINGERING;
    client->drain_left = LINGER_BYTES;
    client->linger_until_ms = now + LINGER_MAX_MS;
    if (!client->processing) /* else the loop over these bytes frees them */
        buffer_free(&client->input);
    deadline_set(&client->deadline, now + LINGER_QUIET_MS);
    client_want_reading(client, true);
}

void client_become_idle(struct client *client)
{
    http_next(client->parser);
    client->state = CLIENT_IDLE;
    client->body_wanted = client->body_done = client->body_end_due = client->told_half_closed = client->above = false;
    if (client->close_when_idle && !buffer_len(&client->input)) {
        client_linger(client);
        return;
    }
    if (!buffer_len(&client->input)) {
        buffer_free(&client->input);
        if (client->ended) {
            client_die(client, false);
            return;
        }
    }
    if (!buffer_len(&client->output))
        buffer_free(&client->output);
    deadline_set(&client->deadline, monotonic_ms() + client->settings->idle_timeout);
    if (!client->ended)
        client_want_reading(client, true);
    client_look_again(client); /* pipelined requests */
}

/* The whole answer is on the socket. */
void client_after_answer(struct client *client)
{
    if (client->closing) {
        client_linger(client);
    } else if (client->body_done) {
        client_become_idle(client);
    } else {
        client->state = CLIENT_DRAINING;
        deadline_set(&client->deadline, monotonic_ms() + client->settings->body_timeout);
        if (!client->ended)
            client_want_reading(client, true);
        client_look_again(client);
    }
}

void client_finish(struct client *client, bool keep_alive, uint64_t drain_limit)
{
    assert(client->state == CLIENT_REQUEST);
    client->exchange = NULL;
    client->closing |= !keep_alive || (!client->body_done && drain_limit == 0) || client->close_when_idle;
    client->drain_left = drain_limit;
    client->state = CLIENT_FLUSHING;
    deadline_clear(&client->deadline);
    client_write_out(client, NULL, 0);
    if (!client->broken && !buffer_len(&client->output))
        client_after_answer(client);
}

void client_abort(struct client *client)
{
    assert(client->state == CLIENT_REQUEST);
    client->exchange = NULL;
    client_die(client, true);
}

void client_close_when_idle(struct client *client)
{
    client->close_when_idle = true;
    if (client_is_idle(client))
        client_linger(client);
}

bool client_is_idle(const struct client *client)
{
    return client->state == CLIENT_IDLE && buffer_len(&client->input) == 0;
}
