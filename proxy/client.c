/*
 * client.c - the life of a downstream connection.
 *
 * READING (client_read.c). Bytes are read into memory of the thread and judged there; only what cannot be used yet
 * (half a head, pipelined requests, a body that is paused) is copied into `input`. So a connection between two requests
 * owns no buffer. WRITING (client_write.c). Written first, waited for only when the socket is full.
 *
 * ENDING. One door out: client_die(). An answer that is complete leaves by FIN, and what the peer still sends is read
 * and thrown away for a while (lingering), because closing over unread bytes would make the kernel send a reset that
 * eats the answer (RFC 9112 §9.6). Memory is given back from the loop: whoever is up the stack still holds it.
 *
 * Invariant: an exchange is attached only in REQUEST; after gone(), client_finish(), client_cut() or client_abort() it
 * never is again for that request. Left out: noticing a reset while the body is paused, or a finished answer flushed
 * over a full buffer: the next read or write tells.
 */
#include "proxy/client_internal.h"

#include <assert.h>
#include <stdio.h>

#define LINGER_QUIET_MS 2000        /* after the last byte that came */
#define LINGER_MAX_MS   30000       /* in all */
#define LINGER_BYTES    (64u << 20) /* thrown away at most */
#define RATE_PER_SECOND 1024
#define DRAIN_GRACE_MS  1000 /* draining: for a first request, or one that is on its way */
#define OUTPUT_KEPT     1024 /* bytes of memory that an idle connection keeps: an ordinary head fits */

/* ---- death ------------------------------------------------------------------------------------ */

static void stop_events(struct client *client)
{
    event_del(&client->readable);
    event_del(&client->writable);
    client->reading = client->watching = client->write_armed = false;
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
    event_active(&client->later, 0, 0);
}

static void free_client(struct client *client)
{
    client->events->closed(client->context, client);
    event_del(&client->later);
    http_parser_free(client->parser);
    free(client->identity);
    buffer_free(&client->input);
    buffer_free(&client->output);
    free(client);
}

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
    free_client(client);
}

/* ---- the end of an answer --------------------------------------------------------------------- */

void client_look_again(struct client *client)
{
    if (!client->processing && client->state != CLIENT_DEAD)
        event_active(&client->later, 0, 0);
}

static bool has_news(const struct client *client) /* bytes or an end that nobody has looked at yet */
{
    return buffer_len(&client->input) > 0 || client->ended;
}

void client_say_end(struct client *client)
{
    if (stream_end(&client->stream) == STREAM_AGAIN)
        event_add(&client->writable, NULL);
    else
        stream_stop_understanding(&client->stream);
}

void client_begin_linger(struct client *client)
{
    int64_t now = monotonic_ms();
    if (client->cut)
        stream_stop_understanding(&client->stream);
    if (client->ended) { /* it has said all it had to say: nothing unread can turn the close into a reset */
        client_die(client, false);
        return;
    }
    client_say_end(client);
    client->state = CLIENT_LINGERING;
    client->drain_left = LINGER_BYTES;
    client->linger_until_ms = now + LINGER_MAX_MS;
    if (!client->processing) /* else the loop over these bytes frees them */
        buffer_free(&client->input);
    deadline_set(&client->deadline, now + LINGER_QUIET_MS);
    client_want_reading(client, true);
}

void client_linger_on(struct client *client)
{
    int64_t now = monotonic_ms(), due = now + LINGER_QUIET_MS;
    if (now >= client->linger_until_ms)
        client_die(client, false);
    else
        deadline_set(&client->deadline, due < client->linger_until_ms ? due : client->linger_until_ms);
}

void client_become_idle(struct client *client)
{
    http_next(client->parser);
    client->state = CLIENT_IDLE;
    client->body_wanted = client->body_done = client->body_end_due = client->told_half_closed = client->above = false;
    if (!buffer_len(&client->input)) {
        buffer_free(&client->input);
        if (client->ended) {
            client_die(client, false);
            return;
        }
    }
    if (client->output.capacity > OUTPUT_KEPT)
        buffer_free(&client->output);
    deadline_set(&client->deadline, monotonic_ms() + client->settings->idle_timeout);
    if (!client->ended)
        client_want_reading(client, true);
    if (has_news(client))
        client_look_again(client); /* pipelined requests */
    client_leave_if_idle(client);
}

/* Who has connected and not asked yet is about to ask, and what is in the socket already is to be answered: they get a
 * short while, and the answer says that it is the last. */
void client_leave_if_idle(struct client *client)
{
    if (!client->close_when_idle || !client_is_idle(client) || client->processing)
        return; /* bytes that are being processed may hold the next request: looked at again behind them */
    if (client->asked && stream_is_quiet(&client->stream)) {
        client_begin_linger(client);
        return;
    }
    deadline_set(&client->deadline, monotonic_ms() + DRAIN_GRACE_MS);
    event_active(&client->readable, EV_READ, 0); /* with TLS the look may have taken it from the socket */
}

void client_after_answer(struct client *client)
{
    if (client->closing) {
        client_begin_linger(client);
    } else if (client->body_done) {
        client_become_idle(client);
    } else {
        client->state = CLIENT_DRAINING;
        client_set_body_clock(client);
        if (!client->ended)
            client_want_reading(client, true);
        if (has_news(client))
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

void client_cut(struct client *client)
{
    assert(client->state == CLIENT_REQUEST && !client->tunnel);
    client->cut = true;
    client_finish(client, false, 0);
}

void client_abort(struct client *client)
{
    assert(client->state == CLIENT_REQUEST);
    client->exchange = NULL;
    client_die(client, true);
}

void client_close_when_idle(struct client *client)
{
    if (client->close_when_idle)
        return;
    client->close_when_idle = true;
    client_leave_if_idle(client);
}

bool client_is_idle(const struct client *client)
{
    return client->state == CLIENT_IDLE && buffer_len(&client->input) == 0;
}

void client_refuse(struct client *client, enum problem_code problem, const char *detail)
{
    client->state = CLIENT_REQUEST;
    client->closing = client->body_done = true;
    deadline_clear(&client->deadline);
    client->events->refused(client->context, client, problem, detail);
}

/* ---- TLS -------------------------------------------------------------------------------------- */

void client_start_tls(struct client *client, struct tls_server *server)
{
    tls_server_begin(server, &client->stream);
    client->tls = client->handshaking = true;
    deadline_set(&client->deadline, monotonic_ms() + client->settings->header_timeout);
}

void client_secured(struct client *client)
{
    client->handshaking = false;
    client->identity = tls_identity_new(&client->stream);
    deadline_set(&client->deadline, monotonic_ms() + client->settings->idle_timeout);
    client_leave_if_idle(client);
}

/* The peer is left the time to read the alert that tells it why. */
void client_not_secured(struct client *client)
{
    char why[200];
    tls_explain(&client->stream, why, sizeof why);
    client->handshaking = false;
    if (client->events->not_secured)
        client->events->not_secured(client->context, client, why);
    client_begin_linger(client);
}

bool client_is_tls(const struct client *client)
{
    return client->tls;
}

const struct tls_identity *client_identity(const struct client *client)
{
    return client->identity;
}

/* ---- the body's pace -------------------------------------------------------------------------- */

void client_set_body_clock(struct client *client)
{
    client->window_bytes = 0;
    deadline_set(&client->deadline, monotonic_ms() + client->settings->body_timeout);
}

/* Enough came in the window that is over: another one. */
static bool keeps_pace(const struct client *client)
{
    return client->window_bytes >= (uint64_t)client->settings->body_timeout * RATE_PER_SECOND / 1000;
}

void client_read_body(struct client *client, enum client_pace pace)
{
    assert(client->state == CLIENT_REQUEST);
    client->body_wanted = true;
    client->pace = pace;
    if (client->body_done)
        client->body_end_due = true;
    else if (pace != CLIENT_PACE_FREE)
        client_set_body_clock(client);
    if (!client->ended)
        client_want_reading(client, true);
    if (client->body_done || has_news(client))
        client_look_again(client);
}

void client_pause_body(struct client *client)
{
    client->body_wanted = false;
    client->read_size = CLIENT_INPUT_SIZE; /* what is not taken on lies in memory */
    if (!client->body_done)
        deadline_clear(&client->deadline);
}

/* ---- events of the loop ----------------------------------------------------------------------- */

/* What could not be done where it became known. */
static void on_later(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct client *client = arg;
    if (client->state == CLIENT_DEAD)
        free_client(client);
    else if (client->broken)
        client_gone(client, true);
    else
        client_process_input(client);
}

static void body_too_slow(struct client *client)
{
    if (!client->exchange || client->body_done)
        return;
    if (client->pace == CLIENT_PACE_RATE && keeps_pace(client)) {
        client_set_body_clock(client);
        return;
    }
    client->closing = true;
    client->body_wanted = false;
    client->events->body_refused(client->exchange, PROBLEM_REQUEST_TIMEOUT, NULL);
}

/* Silently, if nobody has asked for anything: a request may have come while other events had their turn. */
static void idle_too_long(struct client *client)
{
    if (!client->handshaking && !stream_is_quiet(&client->stream))
        client_on_readable(client->stream.fd, EV_READ, client);
    if (client->state == CLIENT_IDLE && !client->deadline.due_ms) /* else a request came and has been served */
        client_begin_linger(client);
}

static void on_deadline(void *arg)
{
    struct client *client = arg;
    switch (client->state) {
    case CLIENT_IDLE:
        idle_too_long(client);
        return;
    case CLIENT_HEAD:
        if (http_started(client->parser))
            client_refuse(client, PROBLEM_REQUEST_TIMEOUT, NULL);
        else
            client_begin_linger(client);
        return;
    case CLIENT_REQUEST:
        body_too_slow(client);
        return;
    case CLIENT_DRAINING:
        if (keeps_pace(client))
            client_set_body_clock(client);
        else
            client_begin_linger(client);
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

/* ---- birth ------------------------------------------------------------------------------------ */

struct client *client_new(struct event_base *base, int fd, const char *peer, const struct client_settings *settings,
                          const struct client_events *events, void *context)
{
    assert(settings->fresh);
    struct client *client = NEW(struct client);
    client->base = base;
    client->stream.fd = fd;
    client->settings = settings;
    client->events = events;
    client->context = context;
    client->read_size = CLIENT_INPUT_SIZE;
    client->parser = http_parser_new(HTTP_REQUESTS, &settings->limits);
    snprintf(client->peer, sizeof client->peer, "%s", peer);
    event_assign(&client->readable, base, fd, EV_READ | EV_PERSIST, client_on_readable, client);
    event_assign(&client->writable, base, fd, EV_WRITE, client_on_writable, client);
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
