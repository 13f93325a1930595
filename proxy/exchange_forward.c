/*
 * exchange_forward.c - the call to the API, and what it reports: for protected requests and for those that pass.
 *
 * Protected (FORWARDING, STREAMING): the response is recorded while it streams; the client is served from the recording
 * at its own pace, so a slow client holds up neither the API nor those who wait. Over max_response_body (or without
 * memory for it) nothing is recorded any more: the body only passes through, with back-pressure.
 *
 * Unprotected (PASSING): pieces go from one socket to the other as they come. With `on_store_error: pass` the response
 * is recorded beside that, for the case that the store grants a token late.
 */
#include "proxy/exchange_internal.h"

/* ---- the call --------------------------------------------------------------------------------- */

static bool recording(const struct exchange *exchange)
{
    return (exchange->state != FLOW_PASSING || exchange->degraded) && !exchange->response_too_large;
}

static void on_informational(void *owner, const struct http_message *message)
{
    struct exchange *exchange = owner;
    if (exchange->state != FLOW_PASSING || !exchange->client || exchange->request.minor == 0 || exchange->degraded)
        return;
    struct http_field fields[HTTP_MAX_FIELDS];
    size_t count = headers_select_response(message, "", fields);
    exchange->continue_sent |= message->status == 100;
    headers_write_response(
        client_output(exchange->client),
        &(struct response_head){
            .parts = {.status = message->status, .reason = message->reason, .fields = fields, .field_count = count},
            .framing = RESPONSE_NO_BODY,
            .keep_alive = true,
            .client_minor = 1,
        });
    client_flush(exchange->client);
}

static void on_head(void *owner, const struct http_message *message)
{
    struct exchange *exchange = owner;
    const char *marker = exchange->choice.route ? exchange->choice.route->replayed_header : "Idempotent-Replayed";
    crash_point(exchange->worker, "head-read");
    http_message_copy(&exchange->response, message, arena_take(&exchange->arena, http_message_size(message)));
    exchange->response_fields = arena_take(&exchange->arena, message->field_count * sizeof(struct http_field));
    exchange->response_field_count = headers_select_response(&exchange->response, marker, exchange->response_fields);
    exchange->response_seen = true;
    exchange->answer.no_body = exchange->response.framing == HTTP_NO_BODY;
    if (exchange->client)
        deadline_clear(&exchange->timer); /* response_timeout is met */
}

/* Too large to record, or no memory for it: what is here goes on to the client, nothing is kept. */
static void stop_recording(struct exchange *exchange)
{
    exchange->response_too_large = true;
    log_line(exchange->worker->shared->log, LOG_LEVEL_WARNING,
             "action %s: its response is too large to record; repetitions will "
             "get 409 response-not-kept",
             exchange->action);
}

static void record_body(struct exchange *exchange, const char *data, size_t len)
{
    struct buffer *body = &exchange->answer.body;
    if (!exchange->response_too_large &&
        (buffer_len(body) + len > exchange->choice.route->max_response_body || !exchange_charge(exchange, len)))
        stop_recording(exchange);
    if (exchange->response_too_large && !exchange->client)
        return; /* nobody to give it to */
    buffer_append(body, data, len);
    crash_point(exchange->worker, "mid-body");
}

static void pass_piece(struct exchange *exchange, const char *data, size_t len)
{
    struct client *client = exchange->client;
    exchange->bytes_out += len;
    if (exchange->answer.chunked) {
        char head[HTTP_CHUNK_HEAD_MAX];
        client_append(client, head, http_chunk_head(head, len));
    }
    if (len < APPEND_BELOW)
        client_append(client, data, len);
    else
        client_write(client, data, len), exchange->answer.flushed = true;
    if (exchange->answer.chunked)
        client_append(client, "\r\n", 2);
}

/* Nothing of the body is recorded: it goes to the client as it comes. */
static bool passes(const struct exchange *exchange)
{
    return exchange->state == FLOW_PASSING && !exchange->degraded;
}

static void on_body(void *owner, const char *data, size_t len)
{
    struct exchange *exchange = owner;
    if (passes(exchange)) {
        if (!exchange->client)
            return;
        if (exchange->tunnel)
            tunnel_touch(exchange);
        reply_begin(exchange);
        pass_piece(exchange, data, len);
    } else {
        record_body(exchange, data, len);
    }
}

static struct stream *on_sink(void *owner)
{
    struct exchange *exchange = owner;
    const struct answer *answer = &exchange->answer;
    bool as_it_is = !exchange->tunnel && answer->head_written && !answer->chunked && !answer->no_body;
    return passes(exchange) && as_it_is && exchange->client ? client_sink(exchange->client) : NULL;
}

static void on_moved(void *owner, size_t len)
{
    struct exchange *exchange = owner;
    exchange->bytes_out += len;
    exchange->answer.flushed = true;
}

static void hold_back(struct exchange *exchange)
{
    if (!exchange->client || exchange->upstream_paused || client_queued(exchange->client) < CLIENT_HIGH_WATER)
        return;
    if (recording(exchange))
        return; /* the recording takes it: neither the API nor those who wait depend on this client */
    exchange->upstream_paused = true;
    upstream_pause(exchange->call);
}

static void on_turn(void *owner)
{
    struct exchange *exchange = owner;
    if (!exchange->response_seen)
        return;
    if (exchange->state == FLOW_FORWARDING) {
        exchange_raise(exchange, FLOW_STARTED);
        return;
    }
    reply_pump(exchange);
    hold_back(exchange);
}

static void on_sent(void *owner)
{
    struct exchange *exchange = owner;
    if (exchange->client && !exchange->response_seen)
        deadline_set(&exchange->timer, monotonic_ms() + exchange->choice.upstream->response_timeout);
}

static void on_upstream_writable(void *owner)
{
    struct exchange *exchange = owner;
    if (exchange->client_paused && exchange->client) {
        exchange->client_paused = false;
        client_read_body(exchange->client, exchange->tunnel ? CLIENT_PACE_FREE : CLIENT_PACE_SILENCE);
    }
}

/* After a head the answer was cut, whatever cut it. */
static enum store_reason reason_of_end(const struct upstream_end *end)
{
    switch (end->fault) {
    case UPSTREAM_FAULT_NONE:
        return STORE_REASON_NONE;
    case UPSTREAM_FAULT_UNREACHABLE:
        return STORE_REASON_UNSENT;
    case UPSTREAM_FAULT_CLOSED:
        return STORE_REASON_CLOSED;
    case UPSTREAM_FAULT_INVALID:
        return STORE_REASON_INVALID;
    case UPSTREAM_FAULT_SEND_TIMEOUT:
        return end->head_seen ? STORE_REASON_INVALID : STORE_REASON_SEND_TIMEOUT;
    case UPSTREAM_FAULT_STALL:
        return STORE_REASON_STALL;
    }
    return STORE_REASON_NONE;
}

static void on_end(void *owner, const struct upstream_end *end)
{
    struct exchange *exchange = owner;
    exchange->call = NULL;
    exchange->ended = *end;
    exchange->reason = reason_of_end(end);
    exchange->upstream_us = monotonic_us() - exchange->forwarded_us;
    switch (end->ending) {
    case UPSTREAM_ANSWERED:
        exchange->answer.complete = true;
        exchange_raise(exchange, FLOW_COMPLETE);
        return;
    case UPSTREAM_UNSENT:
    case UPSTREAM_BROKEN:
        log_line(exchange->worker->shared->log, LOG_LEVEL_WARNING, "request %s: upstream %s: %s", exchange->request_id,
                 exchange->choice.upstream->name, end->detail ? end->detail : "no answer");
        exchange_raise(exchange, end->ending == UPSTREAM_UNSENT ? FLOW_UNSENT : FLOW_BROKEN);
        return;
    }
}

static const struct upstream_events events = {
    .informational = on_informational,
    .switched = tunnel_begin,
    .half_closed = tunnel_half_closed,
    .head = on_head,
    .body = on_body,
    .sink = on_sink,
    .moved = on_moved,
    .turn = on_turn,
    .sent = on_sent,
    .writable = on_upstream_writable,
    .end = on_end,
};

static void crash_at(void *arg, const char *name)
{
    crash_point(arg, name);
}

/* Only a request without a key may become a tunnel: what a key stands for ends with an answer. */
static bool may_switch(const struct exchange *exchange)
{
    return !exchange->keyed && http_upgrade_offered(&exchange->request);
}

/* The request as it goes to the API. A whole body (keyed, or read in search of a key) is sent with its length. */
static void write_request(struct exchange *exchange, struct buffer *out, bool whole_body, const char *derived_key)
{
    const struct conf *conf = exchange_conf(exchange);
    const struct conf_route *route = exchange->choice.route;
    const char *key_header = "Idempotency-Key";
    if (exchange->has_identity && !exchange->identity.derived)
        key_header = route->keys[exchange->identity.alternative].header;
    headers_write_request(
        out, &(struct forward_head){
                 .message = &exchange->request,
                 .upstream = exchange->choice.upstream,
                 .forwarded = conf->forwarded,
                 .via = conf->via,
                 .client_address = span_of(strcmp(exchange->peer, "unix") == 0 ? "unknown" : exchange->peer),
                 .client_tls = exchange->client_tls,
                 .request_id = span_of(exchange->request_id),
                 .key_header = exchange->has_identity ? span_of(key_header) : (struct span){0},
                 .derived_key = span_of(derived_key),
                 .whole_body = whole_body,
                 .body_len = buffer_len(&exchange->body),
                 .pass_expect = !whole_body,
                 .upgrade = may_switch(exchange),
             });
}

static bool may_resend(const struct exchange *exchange)
{
    const struct http_message *request = &exchange->request;
    bool safe =
        request->method_id == HTTP_GET || request->method_id == HTTP_HEAD_METHOD || request->method_id == HTTP_OPTIONS;
    return safe && request->framing == HTTP_NO_BODY;
}

static void start_call(struct exchange *exchange, bool whole_body)
{
    struct buffer *head = &exchange->worker->scratch;
    const struct http_message *request = &exchange->request;
    bool empty = request->framing == HTTP_LENGTH && request->content_length == 0;
    bool streams = !whole_body && request->framing != HTTP_NO_BODY && !empty;
    write_request(exchange, head, whole_body,
                  exchange->identity.derived && exchange->has_identity ? exchange->action : NULL);
    exchange->forwarded_us = monotonic_us();
    exchange->call = upstream_start(
        exchange->worker->pool,
        &(struct upstream_request){
            .upstream = exchange->choice.upstream,
            .tls = tls_client_of(exchange->conf->tls, exchange_conf(exchange), exchange->choice.upstream),
            .head = buffer_span(head),
            .body = whole_body ? buffer_span(&exchange->body) : (struct span){0},
            .streams = streams,
            .no_body_in_response = exchange->request.method_id == HTTP_HEAD_METHOD,
            .offer = may_switch(exchange) ? &exchange->request : NULL,
            .resend = !exchange->keyed && may_resend(exchange),
            .crash_point = exchange->keyed ? crash_at : NULL,
            .crash_arg = exchange->worker,
        },
        &events, exchange);
    buffer_consume(head, buffer_len(head));
    if (upstream_sent_at_once(exchange->call))
        on_sent(exchange);
    if (streams)
        client_read_body(exchange->client, CLIENT_PACE_SILENCE);
}

enum flow_event forward_start(struct exchange *exchange)
{
    start_call(exchange, true);
    return FLOW_NONE;
}

/* ---- unprotected ------------------------------------------------------------------------------ */

enum flow_event pass_start(struct exchange *exchange)
{
    if (exchange->keyed && exchange->has_identity) { /* only a failing store leads here with a key */
        exchange->degraded = true;
        exchange->outcome = OUTCOME_DEGRADED;
        log_line(exchange->worker->shared->log, LOG_LEVEL_WARNING,
                 "action %s: the store is not available; forwarded unprotected (on_store_error: pass)",
                 exchange->action);
    }
    exchange->answer.end_allowed = true;
    start_call(exchange, exchange->body_complete);
    return FLOW_NONE;
}

/* After the end of an unprotected life: nothing to record, unless a token came or may still come. */
static enum flow_event after_pass(struct exchange *exchange)
{
    if (exchange->token)
        return settle(exchange);
    if (exchange->reserve_out)
        return FLOW_NONE;
    return FLOW_SETTLED;
}

enum flow_event pass_end(struct exchange *exchange)
{
    reply_end_early(exchange);
    return after_pass(exchange);
}

/* Nobody listens to the API any more; whether it may have acted depends on whether it was sent anything. */
static void drop_call(struct exchange *exchange, enum store_reason reason)
{
    bool sent = upstream_has_sent(exchange->call);
    exchange->ended =
        (struct upstream_end){.ending = sent ? UPSTREAM_BROKEN : UPSTREAM_UNSENT, .head_seen = exchange->response_seen};
    exchange->reason = sent ? reason : STORE_REASON_UNSENT;
    exchange->upstream_us = monotonic_us() - exchange->forwarded_us;
    upstream_cancel(exchange->call);
    exchange->call = NULL;
}

enum flow_event pass_break(struct exchange *exchange)
{
    if (exchange->call) {
        drop_call(exchange, STORE_REASON_OUTCOME_TIMEOUT);
        if (exchange->problem.code == PROBLEM_NONE)
            exchange_problem(exchange, PROBLEM_UPSTREAM_TIMEOUT, exchange->outcome);
    } else {
        exchange_problem(exchange, problem_of_fault(exchange->ended.fault), exchange->outcome);
    }
    if (exchange->response_seen)
        exchange->problem.original_status = exchange->response.status;
    reply_end_early(exchange);
    return after_pass(exchange);
}

enum flow_event pass_stop(struct exchange *exchange)
{
    if (exchange->call)
        drop_call(exchange, STORE_REASON_DRAIN);
    if (exchange->client) {
        client_abort(exchange->client);
        exchange->client = NULL;
    }
    return exchange->state == FLOW_REPLYING ? FLOW_WRITTEN : after_pass(exchange);
}
