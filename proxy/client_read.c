/*
 * client_read.c - bytes of a downstream connection to events.
 *
 * process() is the one loop over bytes; it never runs inside itself: what a callback makes possible (the next pipelined
 * request, a resumed body) is found by the loop that is already running, or by client_process_input, which runs from
 * the event loop. Every callback may end the request or the connection, so every step looks at the state afterwards.
 *
 * TLS. A handshake is part of the first reads. Whether bytes are here that the socket no longer tells about is looked
 * at after each read and when reading begins again; `readable` is then raised by hand. What waits for the other
 * direction is found by the other direction's event.
 *
 * THE PEER'S FIN. A client that has sent its whole request still wants the answer (case H29); in the middle of one it
 * has gone. Afterwards the socket stays readable for ever, so from then on it is watched edge-triggered: it speaks
 * again only when something new happens, which can only be a reset. Where the buffer is full while an answer is waited
 * for, the socket is watched in the same way: more bytes are edges too, but there are only so many that the kernel
 * takes.
 */
#include "proxy/client_internal.h"

#include <assert.h>

/* ---- reading on and off ----------------------------------------------------------------------- */

static size_t input_limit(const struct client *client)
{
    return CLIENT_INPUT_SIZE + client->settings->limits.header_bytes;
}

/* Both events of a descriptor must be of one kind: a level-triggered EV_WRITE would make a FIN, or bytes that nobody
 * reads, spin. EV_READ is left out; the event that waits to write stays so. */
static void set_trigger(struct client *client, short edge)
{
    int fd = client->stream.fd;
    bool writing = event_pending(&client->writable, EV_WRITE, NULL);
    event_del(&client->readable);
    event_del(&client->writable);
    event_assign(&client->readable, client->base, fd, EV_READ | EV_PERSIST | edge, client_on_readable, client);
    event_assign(&client->writable, client->base, fd, EV_WRITE | edge, client_on_writable, client);
    if (writing)
        event_add(&client->writable, NULL);
}

/* While the answer to a request that is here wholly is waited for, a reset must be noticed even where not one byte more
 * has a place (contract §4.8). */
void client_want_reading(struct client *client, bool wanted)
{
    bool watching = !wanted && client->state == CLIENT_REQUEST && client->body_done;
    if (wanted == client->reading && watching == client->watching)
        return;
    if (watching != client->watching)
        set_trigger(client, watching ? EV_ET : 0);
    client->reading = wanted;
    client->watching = watching;
    if (wanted || watching || client->stream.write_wants_read)
        event_add(&client->readable, NULL);
    else
        event_del(&client->readable);
    if (wanted && stream_has_pending(&client->stream))
        event_active(&client->readable, EV_READ, 0);
}

/* After its FIN only a reset can come: it is what an edge tells. */
static void watch_for_reset(struct client *client)
{
    set_trigger(client, EV_ET);
    event_add(&client->readable, NULL);
    client->reading = true;
}

/* ---- steps: each returns false when it can do no more with what is here ----------------------- */

static void on_piece(void *arg, const char *data, size_t len)
{
    struct client *client = arg;
    client->window_bytes += len;
    if (client->exchange) /* also when it has just asked for a pause: these bytes are here already */
        client->events->body(client->exchange, data, len);
}

static void on_waste(void *arg, const char *data, size_t len)
{
    (void)data;
    struct client *client = arg;
    client->window_bytes += len;
    client->drain_left = len < client->drain_left ? client->drain_left - len : 0;
}

static void begin_request(struct client *client, const struct http_message *message)
{
    size_t used;
    deadline_clear(&client->deadline);
    client->state = CLIENT_REQUEST;
    client->read_size = CLIENT_INPUT_SIZE;
    client->closing = false;
    client->asked = true;
    if (message->framing == HTTP_NO_BODY || (message->framing == HTTP_LENGTH && message->content_length == 0))
        client->body_done = http_read_body(client->parser, NULL, 0, &used, on_waste, client) == HTTP_BODY_END;
    void *exchange = client->events->head(client->context, client, message);
    if (client->state == CLIENT_REQUEST)
        client->exchange = exchange;
}

static bool step_head(struct client *client, const char *bytes, size_t len, size_t *used)
{
    struct http_message message;
    enum problem_code problem;
    if (len == 0)
        return false;
    switch (http_read_head(client->parser, bytes, len, used, &message, &problem)) {
    case HTTP_HEAD_MORE:
        *used = 0;
        if (client->state == CLIENT_IDLE) {
            client->state = CLIENT_HEAD;
            deadline_set(&client->deadline, monotonic_ms() + client->settings->header_timeout);
        }
        return false;
    case HTTP_HEAD_REFUSED:
        *used = len; /* nothing of it can be trusted */
        client_refuse(client, problem, http_refusal(client->parser));
        return false;
    case HTTP_HEAD_READY:
        client->head_len = *used;
        begin_request(client, &message);
        return true;
    }
    return false;
}

static bool step_body(struct client *client, const char *bytes, size_t len, size_t *used)
{
    if (client->body_end_due && client->body_wanted) {
        client->body_end_due = false;
        client->events->body_end(client->exchange);
        return true;
    }
    if (client->body_done || !client->body_wanted || !client->exchange)
        return false;
    switch (http_read_body(client->parser, bytes, len, used, on_piece, client)) {
    case HTTP_BODY_MORE:
        return false;
    case HTTP_BODY_END:
        client->body_done = true;
        if (client->state == CLIENT_DRAINING)
            client_become_idle(client);
        if (client->state != CLIENT_REQUEST)
            return true; /* answered in the middle of it */
        deadline_clear(&client->deadline);
        client->body_end_due = true;
        return true;
    case HTTP_BODY_REFUSED:
        *used = len;
        client->closing = client->body_done = true;
        if (client->state == CLIENT_DRAINING)
            client_begin_linger(client);
        else if (client->state == CLIENT_REQUEST)
            client->events->body_refused(client->exchange, PROBLEM_BAD_REQUEST, http_refusal(client->parser));
        return false;
    }
    return false;
}

static bool step_drain(struct client *client, const char *bytes, size_t len, size_t *used)
{
    switch (http_read_body(client->parser, bytes, len, used, on_waste, client)) {
    case HTTP_BODY_MORE:
        if (client->drain_left == 0)
            client_begin_linger(client);
        return false;
    case HTTP_BODY_END:
        client->body_done = true;
        client_become_idle(client);
        return true;
    case HTTP_BODY_REFUSED:
        *used = len;
        client_begin_linger(client);
        return false;
    }
    return false;
}

static bool step(struct client *client, const char *bytes, size_t len, size_t *used)
{
    *used = 0;
    switch (client->state) {
    case CLIENT_IDLE:
    case CLIENT_HEAD:
        return step_head(client, bytes, len, used);
    case CLIENT_REQUEST:
        return step_body(client, bytes, len, used);
    case CLIENT_DRAINING:
        return step_drain(client, bytes, len, used);
    case CLIENT_LINGERING:
        *used = len;
        return false;
    case CLIENT_FLUSHING:
    case CLIENT_DEAD:
        return false;
    }
    return false;
}

/* Uses as much of the bytes as can be used now; returns how much that was. */
static size_t process(struct client *client, const char *bytes, size_t len)
{
    size_t at = 0, used;
    bool more = true;
    assert(!client->processing);
    client->processing = true;
    while (more) {
        struct span rest = span_after((struct span){bytes, len}, at);
        more = step(client, rest.data, rest.len, &used);
        at += used;
    }
    client->processing = false;
    return at;
}

/* ---- what is left when all was used that could be --------------------------------------------- */

static void end_in_request(struct client *client)
{
    if (!client->body_done && (client->body_wanted || !buffer_len(&client->input))) {
        if (client->tunnel)
            client_tunnel_end(client);
        else
            client_gone(client, false);
    } else if (client->body_done && !client->told_half_closed && client->exchange) {
        client->told_half_closed = true;
        client->events->half_closed(client->exchange);
    }
}

static void after_processing(struct client *client)
{
    if (!client->ended) {
        client_leave_if_idle(client);
        return;
    }
    switch (client->state) {
    case CLIENT_IDLE:
    case CLIENT_HEAD:
    case CLIENT_DRAINING:
    case CLIENT_LINGERING:
        client_die(client, false);
        return;
    case CLIENT_REQUEST:
        end_in_request(client);
        return;
    case CLIENT_FLUSHING:
    case CLIENT_DEAD:
        return;
    }
}

void client_process_input(struct client *client)
{
    struct buffer *input = &client->input;
    size_t used = process(client, buffer_data(input), buffer_len(input));
    if (client->state == CLIENT_LINGERING || client->state == CLIENT_DEAD)
        buffer_free(input);
    else
        buffer_consume(input, used);
    if (!buffer_len(input))
        buffer_free(input);
    if (client->state != CLIENT_DEAD && !client->ended)
        client_want_reading(client, buffer_len(input) < input_limit(client));
    after_processing(client);
}

/* ---- the socket ------------------------------------------------------------------------------- */

/* A clock of silence begins anew with every read; one of rate runs on. */
static void note_bytes(struct client *client)
{
    if (client->state == CLIENT_REQUEST && client->body_wanted && !client->body_done &&
        client->pace == CLIENT_PACE_SILENCE)
        client_set_body_clock(client);
}

/* A read that brought no bytes. */
static void no_bytes(struct client *client, enum stream_result result)
{
    if (client->handshaking && result != STREAM_AGAIN) {
        client_not_secured(client);
        return;
    }
    switch (result) {
    case STREAM_OK:
        return;
    case STREAM_AGAIN:
        if (client->stream.read_wants_write)
            event_add(&client->writable, NULL);
        return;
    case STREAM_END:
    case STREAM_CUT:
        client->ended = true;
        watch_for_reset(client);
        if (buffer_len(&client->input))
            client_process_input(client); /* what is here counts first: a body may just have been asked for again */
        else
            after_processing(client);
        return;
    case STREAM_BROKEN:
        client_gone(client, true);
        return;
    }
}

static enum stream_result read_some(struct client *client, char *to, size_t size, size_t *len)
{
    enum stream_result result = stream_read(&client->stream, to, size, len);
    if (client->handshaking && client->stream.ready)
        client_secured(client);
    return result;
}

/* Nothing is kept from before: the bytes are judged where they are, in the thread's memory. */
static void take_fresh(struct client *client)
{
    char *fresh = client->settings->fresh;
    size_t len;
    enum stream_result result = read_some(client, fresh, client->read_size, &len);
    if (result != STREAM_OK) {
        no_bytes(client, result);
        return;
    }
    if (len == client->read_size && client->body_wanted)
        client->read_size = len < CLIENT_INPUT_MAX / 2 ? 2 * len : CLIENT_INPUT_MAX;
    note_bytes(client);
    size_t used = process(client, fresh, len);
    if (client->state != CLIENT_LINGERING && client->state != CLIENT_DEAD && used < len)
        buffer_append(&client->input, fresh + used, len - used);
    client_leave_if_idle(client);
}

static void take_more(struct client *client)
{
    struct buffer *input = &client->input;
    size_t room = input_limit(client) > buffer_len(input) ? input_limit(client) - buffer_len(input) : 0, len;
    if (!room) {
        client_want_reading(client, false);
        return;
    }
    if (room > CLIENT_INPUT_SIZE)
        room = CLIENT_INPUT_SIZE;
    enum stream_result result = read_some(client, buffer_reserve(input, room), room, &len);
    if (result != STREAM_OK) {
        no_bytes(client, result);
        return;
    }
    buffer_commit(input, len);
    note_bytes(client);
    client_process_input(client);
}

static void discard(struct client *client)
{
    size_t len;
    enum stream_result result = stream_read(&client->stream, client->settings->fresh, CLIENT_INPUT_MAX, &len);
    if (result == STREAM_AGAIN)
        return;
    on_waste(client, NULL, len);
    if (result != STREAM_OK || !client->drain_left)
        client_die(client, false);
    else
        client_linger_on(client);
}

/* Writing had to read first: with what is here now it goes on. */
static void write_again(struct client *client)
{
    client->stream.write_wants_read = false;
    if (!client->reading && !client->watching)
        event_del(&client->readable);
    client_on_writable(client->stream.fd, EV_WRITE, client);
}

void client_on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct client *client = arg;
    if (client->stream.write_wants_read)
        write_again(client);
    if (client->watching && client->state == CLIENT_REQUEST && stream_is_dead(&client->stream))
        client_gone(client, true);
    if (!client->reading)
        return;
    if (client->state == CLIENT_LINGERING) {
        discard(client);
    } else if (client->ended) {
        if (stream_is_dead(&client->stream))
            client_gone(client, true);
    } else if (buffer_len(&client->input)) {
        take_more(client);
    } else {
        take_fresh(client);
    }
    if (client->reading && !client->ended && stream_has_pending(&client->stream))
        event_active(&client->readable, EV_READ, 0);
}
