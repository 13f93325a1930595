/*
 * upstream.c - a call: sends one request, reads one response, reports one ending.
 *
 *     start → (idle connection | connect) → write … → read head, body … → finish: ANSWERED, UNSENT or BROKEN
 *
 * Invariants: `sent_any` is set by the first write(2) that took a byte and is never taken back; with it the call cannot
 * end UNSENT, nor go to another connection (but for requests that may be sent twice, before any byte of a response).
 * finish() is the one door out; after it no callback runs. Callbacks may cancel: every step looks at the state after
 * one.
 */
#include "proxy/upstream_internal.h"

#include <assert.h>

#define MAX_INTERIM  32          /* 1xx before the final response */
#define SEND_AT_ONCE (16 * 1024) /* a streamed piece of this size is not copied */

/* ---- endings ---------------------------------------------------------------------------------- */

/* The connection is free again, or not fit to be. */
static void leave_connection(struct upstream_call *call, bool reusable)
{
    struct upstream_connection *connection = call->connection;
    call->connection = NULL;
    if (!connection)
        return;
    if (reusable) {
        http_next(connection->parser);
        pool_give(connection, call->request.upstream);
    } else {
        connection_close(connection);
    }
}

static void close_call(struct upstream_call *call, bool reusable)
{
    connect_cancel(call);
    leave_connection(call, reusable);
    deadline_clear(&call->deadline);
    if (call->later_due)
        event_del(&call->later);
    call->state = CALL_OVER;
    pool_bury(call);
}

static void finish(struct upstream_call *call, enum upstream_ending ending, enum upstream_fault fault,
                   const char *detail, bool reusable)
{
    struct upstream_end end = {.ending = ending, .fault = fault, .detail = detail, .head_seen = call->head_seen};
    const struct upstream_events *events = call->events;
    void *owner = call->owner;
    assert(ending != UPSTREAM_UNSENT || !call->sent_any);
    close_call(call, reusable);
    events->end(owner, &end);
}

/* Whatever went wrong: where nothing had been sent, nothing can have happened at the API. */
static void broken(struct upstream_call *call, enum upstream_fault fault, const char *detail)
{
    if (call->sent_any)
        finish(call, UPSTREAM_BROKEN, fault, detail, false);
    else
        finish(call, UPSTREAM_UNSENT, UPSTREAM_FAULT_UNREACHABLE, detail, false);
}

void call_tell_later(struct upstream_call *call)
{
    call->later_due = true;
    event_active(&call->later, 0, 0);
}

/* May be known before upstream_start has returned, so it is told from the loop. */
void call_unreachable(struct upstream_call *call, const char *detail)
{
    call->unreachable = detail;
    call_tell_later(call);
}

void upstream_cancel(struct upstream_call *call)
{
    assert(call->state != CALL_OVER);
    close_call(call, false);
}

/* ---- clocks ----------------------------------------------------------------------------------- */

static void set_clock(struct upstream_call *call)
{
    const struct conf_upstream *upstream = call->request.upstream;
    if (call->state != CALL_RUNNING)
        return; /* connecting has its own */
    bool stuck = call->connection->write_armed || (call->write_failed && !call->head_seen);
    assert(!stuck || call->stuck_ms);
    if (stuck)
        deadline_set(&call->deadline, call->stuck_ms + upstream->send_timeout); /* whatever the API says meanwhile */
    else if (call->head_seen && !call->paused && !call->tunnel)
        deadline_set(&call->deadline, monotonic_ms() + upstream->stall_timeout);
    else
        deadline_clear(&call->deadline);
}

void call_on_deadline(void *arg)
{
    struct upstream_call *call = arg;
    if (call->state == CALL_CONNECTING) {
        connect_timed_out(call);
    } else if (call->connection->write_armed) {
        broken(call, UPSTREAM_FAULT_SEND_TIMEOUT, "no progress in sending the request for send_timeout");
    } else if (!call->head_seen) {
        broken(call, UPSTREAM_FAULT_CLOSED, "the API closed its receiving side and did not answer");
    } else {
        broken(call, UPSTREAM_FAULT_STALL, "no progress in the response's body for stall_timeout");
    }
}

/* ---- sending ---------------------------------------------------------------------------------- */

static void crash_point(const struct upstream_call *call, const char *name)
{
    if (call->request.crash_point)
        call->request.crash_point(call->request.crash_arg, name);
}

/* A reused connection failed: where nothing of the request went out, or `resend` allows it to go out twice, a new one
 * is tried, once. */
static bool start_again(struct upstream_call *call)
{
    bool nothing_came = !call->head_seen && !call->interim && !http_started(call->connection->parser);
    if (!call->reused || !nothing_came || (call->sent_any && !call->request.resend))
        return false;
    call->reused = false;
    leave_connection(call, false);
    call->head_sent = 0;
    call->stuck_ms = 0;
    call->sent_all = call->write_failed = false;
    connect_start(call);
    return true;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns what `moved` holds beyond all that waited. */
static size_t count_sent(struct upstream_call *call, size_t moved)
{
    size_t of_head = smaller(moved, buffer_len(&call->head) - call->head_sent);
    if (!call->sent_any) {
        call->sent_any = true;
        crash_point(call, "first-byte-sent");
    }
    call->head_sent += of_head;
    moved -= of_head;
    if (!call->request.streams) {
        call->body_sent += moved;
        return 0;
    }
    size_t of_streamed = smaller(moved, buffer_len(&call->streamed));
    buffer_consume(&call->streamed, of_streamed);
    return moved - of_streamed;
}

/* The write failed. If something went out before, the API may have answered: what it sent is read first, and the read
 * tells the ending. */
static void sending_failed(struct upstream_call *call)
{
    if (!call->sent_any) {
        if (start_again(call))
            return;
        call_unreachable(call, "the connection was closed before a byte of the request was taken");
        return;
    }
    call->write_failed = true;
    call->stuck_ms = monotonic_ms();
    buffer_free(&call->streamed);
    if (!call->paused)
        connection_want_reading(call->connection, true);
    set_clock(call);
    call_tell_later(call); /* a caller that holds its body back may let it go: it is thrown away */
}

static bool has_more(const struct upstream_call *call)
{
    return call->head_sent < buffer_len(&call->head) || call->body_sent < call->request.body.len ||
           buffer_len(&call->streamed) > 0;
}

static void note_sent(struct upstream_call *call)
{
    if (call->sent_all || has_more(call) || (call->request.streams && !call->stream_ended) || call->write_failed)
        return;
    call->sent_all = true;
    crash_point(call, "last-byte-sent");
    if (!call->starting) /* else upstream_start's caller asks */
        call_tell_later(call);
}

/* send_timeout counts from the last byte that the socket took, or from when the waiting began. */
static void wait_to_write(struct upstream_call *call, bool progress)
{
    if (progress || !call->stuck_ms)
        call->stuck_ms = monotonic_ms();
    connection_wait_to_write(call->connection);
}

/* One writev: the head, what waits, and `fresh`. False: it failed. */
static bool send_once(struct upstream_call *call, struct span *fresh)
{
    struct upstream_connection *connection = call->connection;
    struct span waiting = buffer_span(&call->streamed);
    if (!call->request.streams)
        waiting = span_after(call->request.body, call->body_sent);
    struct span spans[3] = {
        {buffer_data(&call->head) + call->head_sent, buffer_len(&call->head) - call->head_sent}, waiting, *fresh};
    struct iovec parts[3];
    int count = 0;
    size_t wanted = 0, moved;
    for (size_t i = 0; i < 3; i++) {
        if (spans[i].len)
            parts[count++] = (struct iovec){(void *)spans[i].data, spans[i].len};
        wanted += spans[i].len;
    }
    if (stream_write(&connection->stream, parts, count, &moved) == STREAM_BROKEN)
        return false;
    if (moved) {
        size_t of_fresh = count_sent(call, moved);
        *fresh = span_after(*fresh, of_fresh);
    }
    if (moved < wanted)
        wait_to_write(call, moved > 0);
    else
        call->stuck_ms = 0;
    return true;
}

/* Sends what can be sent; what is left of `fresh` is kept. */
static void send_more(struct upstream_call *call, struct span fresh)
{
    if (!call->connection->write_armed && !call->write_failed && (fresh.len || has_more(call)) &&
        !send_once(call, &fresh)) {
        sending_failed(call);
        return;
    }
    buffer_append_span(&call->streamed, fresh);
    note_sent(call);
    set_clock(call);
}

/* Our half of a tunnel is over when all of it has gone out, or can no more. */
static void end_half(struct upstream_call *call)
{
    if (call->write_failed && call->read_ended) {
        finish(call, UPSTREAM_ANSWERED, UPSTREAM_FAULT_NONE, NULL, false);
        return;
    }
    if (!call->stream_ended || call->fin_sent || call->write_failed || buffer_len(&call->streamed))
        return;
    if (stream_end(&call->connection->stream) == STREAM_AGAIN) {
        wait_to_write(call, false); /* and then here again */
        return;
    }
    call->stuck_ms = 0;
    call->fin_sent = true;
    if (call->read_ended)
        finish(call, UPSTREAM_ANSWERED, UPSTREAM_FAULT_NONE, NULL, false);
}

void call_writable(struct upstream_connection *connection)
{
    struct upstream_call *call = connection->call;
    send_more(call, (struct span){0});
    if (call->state == CALL_RUNNING && call->tunnel)
        end_half(call);
    if (call->state == CALL_RUNNING && call->above && upstream_queued(call) < UPSTREAM_LOW_WATER) {
        call->above = false;
        call->events->writable(call->owner);
    }
}

void call_connected(struct upstream_call *call, struct upstream_connection *connection)
{
    assert(!buffer_len(&connection->input));
    call->state = CALL_RUNNING;
    call->connection = connection;
    connection->call = call;
    connection->idle_ms = -1;
    if (call->request.no_body_in_response)
        http_expect_no_body(connection->parser);
    call_writable(connection);
}

void upstream_write(struct upstream_call *call, const void *data, size_t len)
{
    assert(call->request.streams && !call->stream_ended);
    if (call->write_failed)
        return; /* the reading side will tell how it ended */
    if (call->state == CALL_RUNNING && upstream_queued(call) + len >= SEND_AT_ONCE) {
        send_more(call, (struct span){data, len});
    } else {
        buffer_append(&call->streamed, data, len);
        call_tell_later(call); /* small pieces of one turn go out together */
    }
    if (upstream_queued(call) > UPSTREAM_LOW_WATER)
        call->above = true;
}

void upstream_write_end(struct upstream_call *call)
{
    call->stream_ended = true;
    call_tell_later(call);
}

size_t upstream_queued(const struct upstream_call *call)
{
    return buffer_len(&call->streamed);
}

bool upstream_sent_at_once(struct upstream_call *call)
{
    call->told_sent |= call->sent_all;
    return call->sent_all;
}

bool upstream_has_sent(const struct upstream_call *call)
{
    return call->sent_any;
}

/* What must not be told from inside a call of the owner, or can wait for the end of this turn. */
void call_on_later(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct upstream_call *call = arg;
    call->later_due = false;
    if (call->unreachable) {
        broken(call, UPSTREAM_FAULT_CLOSED, call->unreachable);
        return;
    }
    if (call->state == CALL_RUNNING && call->request.streams)
        call_writable(call->connection);
    if (call->state == CALL_RUNNING && call->sent_all && !call->told_sent) {
        call->told_sent = true;
        call->events->sent(call->owner);
    }
}

/* ---- receiving -------------------------------------------------------------------------------- */

static void on_piece(void *arg, const char *data, size_t len)
{
    struct upstream_call *call = arg;
    if (call->state == CALL_RUNNING)
        call->events->body(call->owner, data, len);
}

static void on_no_piece(void *arg, const char *data, size_t len)
{
    (void)arg, (void)data, (void)len;
}

/* A 1xx: told, counted, forgotten. False: the call is over. */
static bool take_interim(struct upstream_call *call, const struct http_message *message)
{
    size_t used;
    if (++call->interim > MAX_INTERIM) {
        broken(call, UPSTREAM_FAULT_INVALID, "too many 1xx responses");
        return false;
    }
    call->events->informational(call->owner, message);
    if (call->state != CALL_RUNNING)
        return false;
    enum http_body_verdict verdict = http_read_body(call->connection->parser, NULL, 0, &used, on_no_piece, NULL);
    assert(verdict == HTTP_BODY_END);
    http_next(call->connection->parser);
    return true;
}

/* A 101. True: it is a tunnel from here on. */
static bool take_switch(struct upstream_call *call, const struct http_message *message)
{
    const struct http_message *offer = call->request.offer;
    if (!offer || !call->sent_all || !http_upgrade_answers(offer, message)) {
        broken(call, UPSTREAM_FAULT_INVALID, "101 to what was not asked for");
        return false;
    }
    call->head_seen = call->tunnel = call->request.streams = true;
    call->keep_alive = call->stream_ended = false;
    http_switch(call->connection->parser);
    stream_watch_peer(&call->connection->stream);
    call->events->switched(call->owner, message);
    return call->state == CALL_RUNNING;
}

static bool take_head(struct upstream_call *call, const struct http_message *message)
{
    call->head_seen = true;
    call->keep_alive = message->keep_alive && message->framing != HTTP_UNTIL_CLOSE;
    if (message->keep_alive_timeout >= 0)
        call->connection->idle_ms = message->keep_alive_timeout > 0 ? (message->keep_alive_timeout - 1) * 1000 : 0;
    call->events->head(call->owner, message);
    return call->state == CALL_RUNNING;
}

/* Heads in the bytes, 1xx first. True: a final head has been taken and *at stands at its body. */
static bool read_heads(struct upstream_call *call, const char *bytes, size_t len, size_t *at)
{
    struct http_message message;
    enum problem_code problem;
    size_t used;
    while (*at < len) {
        switch (http_read_head(call->connection->parser, bytes + *at, len - *at, &used, &message, &problem)) {
        case HTTP_HEAD_MORE:
            return false;
        case HTTP_HEAD_REFUSED:
            broken(call, UPSTREAM_FAULT_INVALID, http_refusal(call->connection->parser));
            return false;
        case HTTP_HEAD_READY:
            *at += used;
            if (message.status >= 200)
                return take_head(call, &message);
            if (message.status == 101)
                return take_switch(call, &message);
            if (!take_interim(call, &message))
                return false;
        }
    }
    return false;
}

static void read_body(struct upstream_call *call, const char *bytes, size_t len, size_t *at)
{
    struct http_parser *parser = call->connection->parser;
    size_t used;
    enum http_body_verdict verdict = http_read_body(parser, bytes + *at, len - *at, &used, on_piece, call);
    *at += used;
    if (call->state != CALL_RUNNING)
        return;
    switch (verdict) {
    case HTTP_BODY_MORE:
        return;
    case HTTP_BODY_END:
        finish(call, UPSTREAM_ANSWERED, UPSTREAM_FAULT_NONE, NULL, call->keep_alive && call->sent_all && *at == len);
        return;
    case HTTP_BODY_REFUSED:
        broken(call, UPSTREAM_FAULT_INVALID, http_refusal(parser));
        return;
    }
}

/* Returns how many of the bytes are used. The call may be over afterwards. */
static size_t process(struct upstream_call *call, const char *bytes, size_t len)
{
    size_t at = 0;
    if (call->head_seen || read_heads(call, bytes, len, &at))
        read_body(call, bytes, len, &at);
    if (call->state == CALL_RUNNING) {
        set_clock(call);
        call->events->turn(call->owner);
    }
    return at;
}

static void take(struct upstream_call *call, const char *fresh, size_t len)
{
    struct buffer *input = &call->connection->input;
    if (!buffer_len(input)) {
        size_t used = process(call, fresh, len);
        if (call->state == CALL_RUNNING && used < len)
            buffer_append(input, fresh + used, len - used);
        return;
    }
    buffer_append(input, fresh, len); /* the memory stays until the graveyard is emptied */
    size_t used = process(call, buffer_data(input), buffer_len(input));
    if (call->state != CALL_RUNNING)
        return;
    buffer_consume(input, used);
    if (!buffer_len(input))
        buffer_free(input);
}

/* The API's half of a tunnel is over. Where our bytes cannot be delivered any more its FIN is the end of both. */
static void half_ended(struct upstream_call *call)
{
    call->read_ended = true;
    connection_want_reading(call->connection, false);
    if (call->fin_sent || call->write_failed)
        finish(call, UPSTREAM_ANSWERED, UPSTREAM_FAULT_NONE, NULL, false);
    else
        call->events->half_closed(call->owner);
}

/* The API closed, or the connection broke. A body that ends with the connection is whole only where the API itself said
 * that this is the end: a reset does not, nor does a FIN that lacks TLS's close_notify (RFC 9112 §9.8). */
static void connection_ended(struct upstream_call *call, enum stream_result how)
{
    struct http_parser *parser = call->connection->parser;
    bool reset = how == STREAM_BROKEN;
    if (!call->head_seen && !http_started(parser)) {
        if (!start_again(call))
            broken(call, UPSTREAM_FAULT_CLOSED,
                   reset ? "connection reset without an answer" : "connection closed without an answer");
    } else if (!reset && call->tunnel) {
        half_ended(call);
    } else if (how == STREAM_END && call->head_seen && http_read_end(parser)) {
        finish(call, UPSTREAM_ANSWERED, UPSTREAM_FAULT_NONE, NULL, false);
    } else {
        broken(call, UPSTREAM_FAULT_INVALID,
               reset && call->tunnel ? "the tunnel was reset"
               : reset               ? "connection reset in the middle of the response"
               : how == STREAM_CUT   ? "truncated response: TLS ended without close_notify"
                                     : "truncated response");
    }
}

/* Much of a body that goes to the client as it is goes there within the kernel; what the client does not take at once
 * comes here after all. False: nothing was moved. */
static bool move_body(struct upstream_call *call)
{
    struct upstream_connection *connection = call->connection;
    size_t moved, rest;
    if (call->read_size == UPSTREAM_INPUT_SIZE || !call->head_seen || call->tunnel || !call->events->sink ||
        call->pool->pipe[0] < 0 || connection->stream.ssl || buffer_len(&connection->input))
        return false;
    uint64_t plain = http_plain_body(connection->parser);
    struct stream *sink = plain ? call->events->sink(call->owner) : NULL;
    if (!sink ||
        !stream_move(&connection->stream, sink, call->pool->pipe,
                     plain < UPSTREAM_INPUT_MAX ? plain : UPSTREAM_INPUT_MAX, &moved, call->pool->fresh, &rest))
        return false;
    http_skip_body(connection->parser, moved);
    if (moved)
        call->events->moved(call->owner, moved);
    process(call, call->pool->fresh, rest);
    return true;
}

void call_readable(struct upstream_connection *connection)
{
    struct upstream_call *call = connection->call;
    char *fresh = call->pool->fresh;
    size_t len;
    if (move_body(call))
        return;
    enum stream_result result = stream_read(&connection->stream, fresh, call->read_size, &len);
    switch (result) {
    case STREAM_OK:
        if (len == call->read_size)
            call->read_size = len < UPSTREAM_INPUT_MAX / 2 ? 2 * len : UPSTREAM_INPUT_MAX;
        take(call, fresh, len);
        return;
    case STREAM_AGAIN:
        return;
    case STREAM_END:
    case STREAM_CUT:
    case STREAM_BROKEN:
        connection_ended(call, result);
        return;
    }
}

void upstream_pause(struct upstream_call *call)
{
    call->paused = true;
    call->read_size = UPSTREAM_INPUT_SIZE; /* what the caller does not take lies in its memory */
    if (call->connection)
        connection_want_reading(call->connection, false);
    set_clock(call);
}

void upstream_resume(struct upstream_call *call)
{
    call->paused = false;
    if (call->connection && call->state == CALL_RUNNING && !call->read_ended)
        connection_want_reading(call->connection, true);
    set_clock(call);
}

/* ---- starting --------------------------------------------------------------------------------- */

struct upstream_call *upstream_start(struct upstream_pool *pool, const struct upstream_request *request,
                                     const struct upstream_events *events, void *owner)
{
    struct upstream_call *call = pool_new_call(pool);
    call->request = *request;
    call->events = events;
    call->owner = owner;
    buffer_append_span(&call->head, request->head);
    call->starting = true;
    crash_point(call, "granted-nothing-sent");
    struct upstream_connection *idle = pool_take(pool, request);
    call->reused = idle != NULL;
    if (idle)
        call_connected(call, idle);
    else
        connect_start(call);
    call->starting = false;
    return call;
}
