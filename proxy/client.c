/*
 * client.c - the downstream connection.
 *
 * READING. Bytes are read onto the stack and judged there; only what cannot be used yet (half a head, pipelined
 * requests, a body that is paused) is copied into `input`. So a connection between two requests owns no buffer.
 * process() is the one loop over bytes; it never runs inside itself: what a callback makes possible (the next pipelined
 * request, a resumed body) is found by the loop that is already running, or by `later`, which runs from the event loop.
 *
 * Invariant: an exchange is attached only in REQUEST; after gone(), client_finish() or client_abort() it never is again
 * for that request.
 */
#include "proxy/client_internal.h"

#include <assert.h>
#include <stdio.h>

#define RATE_PER_SECOND 1024

static void on_readable(evutil_socket_t fd, short what, void *arg);
static void on_writable(evutil_socket_t fd, short what, void *arg);

/* ---- reading on and off ----------------------------------------------------------------------- */

static size_t input_limit(const struct client *client)
{
    return CLIENT_INPUT_SIZE + client->settings->limits.header_bytes;
}

void client_want_reading(struct client *client, bool wanted)
{
    if (wanted == client->reading)
        return;
    client->reading = wanted;
    if (wanted)
        event_add(&client->readable, NULL);
    else
        event_del(&client->readable);
}

/* After the peer's FIN the socket stays readable for ever. Edge-triggered, it speaks again only when something new
 * happens: a reset. */
static void watch_for_reset(struct client *client)
{
    event_del(&client->readable);
    event_assign(&client->readable, client->base, client->stream.fd, EV_READ | EV_PERSIST | EV_ET, on_readable, client);
    event_add(&client->readable, NULL);
    client->reading = true;
}

void client_look_again(struct client *client)
{
    if (!client->processing && client->state != CLIENT_DEAD)
        event_active(&client->later, 0, 0);
}

/* ---- bytes to events -------------------------------------------------------------------------- */

static void refuse(struct client *client, enum problem_code problem, const char *detail)
{
    client->state = CLIENT_REQUEST;
    client->closing = client->body_done = true;
    deadline_clear(&client->deadline);
    client->events->refused(client->context, client, problem, detail);
}

static void set_body_clock(struct client *client)
{
    client->window_bytes = 0;
    deadline_set(&client->deadline, monotonic_ms() + client->settings->body_timeout);
}

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
    client->drain_left = len < client->drain_left ? client->drain_left - len : 0;
}

static void begin_request(struct client *client, const struct http_message *message)
{
    size_t used;
    deadline_clear(&client->deadline);
    client->state = CLIENT_REQUEST;
    client->closing = false;
    if (message->framing == HTTP_NO_BODY || (message->framing == HTTP_LENGTH && message->content_length == 0))
        client->body_done = http_read_body(client->parser, NULL, 0, &used, on_waste, client) == HTTP_BODY_END;
    void *exchange = client->events->head(client->context, client, message);
    if (client->state == CLIENT_REQUEST)
        client->exchange = exchange;
}

/* Each step returns false when it can do no more with what is here. */
static bool step_head(struct client *client, const char *bytes, size_t len, size_t *used)
{
    struct http_message message;
    enum problem_code problem;
    *used = 0;
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
        refuse(client, problem, http_refusal(client->parser));
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
    *used = 0;
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
        if (client->state == CLIENT_REQUEST)
            client->events->body_refused(client->exchange, PROBLEM_BAD_REQUEST, http_refusal(client->parser));
        return false;
    }
    return false;
}

static bool step_drain(struct client *client, const char *bytes, size_t len, size_t *used)
{
    *used = 0;
    switch (http_read_body(client->parser, bytes, len, used, on_waste, client)) {
    case HTTP_BODY_MORE:
        if (client->drain_left == 0)
            client_linger(client);
        return false;
    case HTTP_BODY_END:
        client->body_done = true;
        client_become_idle(client);
        return true;
    case HTTP_BODY_REFUSED:
        *used = len;
        client_linger(client);
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
        more = step(client, bytes + at, len - at, &used);
        at += used;
    }
    client->processing = false;
    return at;
}

/* What is left over when all was used that could be: after a FIN it decides between an end and a half-close. */
static void after_processing(struct client *client)
{
    if (client->state == CLIENT_IDLE && client->close_when_idle && !buffer_len(&client->input))
        client_linger(client);
    if (!client->ended || client->state == CLIENT_DEAD)
        return;
    switch (client->state) {
    case CLIENT_IDLE:
    case CLIENT_HEAD:
    case CLIENT_DRAINING:
    case CLIENT_LINGERING:
        client_die(client, false);
        return;
    case CLIENT_REQUEST:
        if (!client->body_done && (client->body_wanted || !buffer_len(&client->input))) {
            client_gone(client, false);
        } else if (client->body_done && !client->told_half_closed && client->exchange) {
            client->told_half_closed = true;
            client->events->half_closed(client->exchange);
        }
        return;
    case CLIENT_FLUSHING:
    case CLIENT_DEAD:
        return;
    }
}

static void process_input(struct client *client)
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

/* ---- events of the loop ----------------------------------------------------------------------- */

static void on_end(struct client *client)
{
    client->ended = true;
    if (client->state != CLIENT_LINGERING)
        watch_for_reset(client);
    after_processing(client);
}

static void took(struct client *client)
{
    if (client->state == CLIENT_REQUEST && client->body_wanted && !client->body_done &&
        client->pace == CLIENT_PACE_SILENCE)
        set_body_clock(client);
    else if (client->state == CLIENT_DRAINING)
        deadline_set(&client->deadline, monotonic_ms() + client->settings->body_timeout);
}

static void take_fresh(struct client *client)
{
    char fresh[CLIENT_INPUT_SIZE];
    size_t len;
    switch (stream_read(&client->stream, fresh, sizeof fresh, &len)) {
    case STREAM_OK:
        took(client);
        size_t used = process(client, fresh, len);
        if (client->state != CLIENT_LINGERING && client->state != CLIENT_DEAD && used < len)
            buffer_append(&client->input, fresh + used, len - used);
        return;
    case STREAM_END:
        on_end(client);
        return;
    case STREAM_BROKEN:
        client_gone(client, true);
        return;
    case STREAM_AGAIN:
        return;
    }
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
    switch (stream_read(&client->stream, buffer_reserve(input, room), room, &len)) {
    case STREAM_OK:
        buffer_commit(input, len);
        took(client);
        process_input(client);
        return;
    case STREAM_END:
        on_end(client);
        return;
    case STREAM_BROKEN:
        client_gone(client, true);
        return;
    case STREAM_AGAIN:
        return;
    }
}

static void discard(struct client *client)
{
    char waste[CLIENT_INPUT_SIZE];
    size_t len;
    int64_t now = monotonic_ms();
    enum stream_result result = stream_read(&client->stream, waste, sizeof waste, &len);
    if (result == STREAM_AGAIN)
        return;
    on_waste(client, waste, len);
    if (result != STREAM_OK || !client->drain_left || now > client->linger_until_ms)
        client_die(client, false);
    else
        deadline_set(&client->deadline, now + LINGER_QUIET_MS);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct client *client = arg;
    if (client->state == CLIENT_LINGERING) {
        discard(client);
    } else if (client->ended) {
        char byte;
        size_t len;
        if (stream_read(&client->stream, &byte, 1, &len) == STREAM_BROKEN)
            client_gone(client, true);
    } else if (buffer_len(&client->input)) {
        take_more(client);
    } else {
        take_fresh(client);
    }
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct client *client = arg;
    struct buffer *output = &client->output;
    size_t before = buffer_len(output);
    client->write_armed = false;
    client_write_out(client, NULL, 0);
    if (client->broken)
        return; /* `later` is due */
    if (buffer_len(output) < before && client->write_armed)
        deadline_set(&client->send_deadline, monotonic_ms() + client->settings->send_timeout);
    if (!client->write_armed)
        deadline_clear(&client->send_deadline);
    if (client->state == CLIENT_FLUSHING && !buffer_len(output)) {
        client_after_answer(client);
    } else if (client->state == CLIENT_REQUEST && client->above && buffer_len(output) < CLIENT_LOW_WATER) {
        client->above = false;
        if (client->exchange)
            client->events->writable(client->exchange);
    }
}

/* What could not be done where it became known. */
static void on_later(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct client *client = arg;
    if (client->state == CLIENT_DEAD)
        client_free(client);
    else if (client->broken)
        client_gone(client, true);
    else
        process_input(client);
}

static void on_deadline(void *arg)
{
    struct client *client = arg;
    switch (client->state) {
    case CLIENT_IDLE:
        client_linger(client); /* silently: nobody has asked for anything */
        return;
    case CLIENT_HEAD:
        if (http_started(client->parser))
            refuse(client, PROBLEM_REQUEST_TIMEOUT, NULL);
        else
            client_linger(client);
        return;
    case CLIENT_REQUEST:
        if (!client->exchange || client->body_done)
            return;
        if (client->pace == CLIENT_PACE_RATE &&
            client->window_bytes >= (uint64_t)client->settings->body_timeout * RATE_PER_SECOND / 1000) {
            set_body_clock(client);
            return;
        }
        client->closing = true;
        client->events->body_refused(client->exchange, PROBLEM_REQUEST_TIMEOUT, NULL);
        return;
    case CLIENT_DRAINING:
        client_linger(client);
        return;
    case CLIENT_LINGERING:
        client_die(client, false);
        return;
    case CLIENT_FLUSHING:
    case CLIENT_DEAD:
        return;
    }
}

static void on_send_deadline(void *arg)
{
    client_gone(arg, true);
}

/* ---- the exchange's side ---------------------------------------------------------------------- */

void client_read_body(struct client *client, enum client_pace pace)
{
    assert(client->state == CLIENT_REQUEST);
    client->body_wanted = true;
    client->pace = pace;
    if (client->body_done)
        client->body_end_due = true;
    else
        set_body_clock(client);
    if (!client->ended)
        client_want_reading(client, true);
    client_look_again(client);
}

void client_pause_body(struct client *client)
{
    client->body_wanted = false;
    if (!client->body_done)
        deadline_clear(&client->deadline);
}

struct client *client_new(struct event_base *base, int fd, const char *peer, const struct client_settings *settings,
                          const struct client_events *events, void *context)
{
    struct client *client = NEW(struct client);
    client->base = base;
    client->stream.fd = fd;
    client->settings = settings;
    client->events = events;
    client->context = context;
    client->parser = http_parser_new(HTTP_REQUESTS, &settings->limits);
    snprintf(client->peer, sizeof client->peer, "%s", peer);
    event_assign(&client->readable, base, fd, EV_READ | EV_PERSIST, on_readable, client);
    event_assign(&client->writable, base, fd, EV_WRITE, on_writable, client);
    event_assign(&client->later, base, -1, 0, on_later, client);
    deadline_init(&client->deadline, base, on_deadline, client);
    deadline_init(&client->send_deadline, base, on_send_deadline, client);
    client_want_reading(client, true);
    deadline_set(&client->deadline, monotonic_ms() + settings->idle_timeout);
    return client;
}

const char *client_peer(const struct client *client)
{
    return client->peer;
}

size_t client_head_len(const struct client *client)
{
    return client->head_len;
}

void client_set_settings(struct client *client, const struct client_settings *settings)
{
    client->settings = settings;
    http_set_limits(client->parser, &settings->limits);
}
