/*
 * exchange_read.c - from the head to the store's answer: route, key, the whole body, look-up, reservation, waiting.
 *
 * No reservation exists while a request arrives: half a request leaves no trace. A snapshot settles what is recorded;
 * everything else is asked of the store's writer, and from then on the op stands in queue or line until it is answered
 * or cancelled.
 */
#include "proxy/exchange_internal.h"
#include "proxy/probe.h"

#include <assert.h>
#include <stdio.h>

enum { WARNED_ANONYMOUS = 1, WARNED_BOTH = 2 };

/* ---- route and key ---------------------------------------------------------------------------- */

struct key_request key_request_of(const struct exchange *exchange)
{
    const struct tls_identity *identity = exchange->client_identity;
    return (struct key_request){
        .message = &exchange->request,
        .host = exchange->host,
        .path = exchange->path,
        .values = &exchange->choice.values,
        .body = buffer_span(&exchange->body),
        .body_complete = exchange->body_complete,
        .tls_subject = identity ? span_of(identity->subject) : (struct span){0},
        .tls_fingerprint = identity ? span_of(identity->fingerprint) : (struct span){0},
        .digest = exchange->worker->digest,
    };
}

static enum flow_event refuse(struct exchange *exchange, enum problem_code code, enum outcome outcome,
                              const char *detail)
{
    exchange_problem(exchange, code, outcome);
    if (detail) {
        snprintf(exchange->detail, sizeof exchange->detail, "%s", detail);
        exchange->problem.detail = exchange->detail;
    }
    return FLOW_REFUSED;
}

static void warn_scope(struct exchange *exchange)
{
    struct conf_route *route = (struct conf_route *)exchange->choice.route; /* only its `warned` is ours to change */
    unsigned char bit = exchange->identity.anonymous          ? WARNED_ANONYMOUS
                        : exchange->identity.both_credentials ? WARNED_BOTH
                                                              : 0;
    if (!bit || (atomic_fetch_or(&route->warned, bit) & bit))
        return;
    log_line(exchange->worker->shared->log, LOG_LEVEL_WARNING,
             bit == WARNED_ANONYMOUS ? "route %s: a request carries no identity, so all such callers share their keys; "
                                       "say who is who with `scope`"
                                     : "route %s: a request carries both Authorization and Cookie; Authorization "
                                       "counts as the identity, say so with "
                                       "`scope` if that is wrong",
             route->name);
}

static bool over_limit(const struct exchange *exchange, uint64_t size)
{
    return size > exchange->choice.route->max_request_body;
}

static enum flow_event identify(struct exchange *exchange);
static enum flow_event look_up(struct exchange *exchange);
static enum flow_event start_reading(struct exchange *exchange);

static enum flow_event admit(struct exchange *exchange, enum admission admission, const char *why)
{
    switch (admission) {
    case ADMISSION_NO_ROUTE:
    case ADMISSION_NO_KEY:
        exchange->outcome = OUTCOME_PASSED;
        return FLOW_UNPROTECTED;
    case ADMISSION_READ_BODY:
        return start_reading(exchange);
    case ADMISSION_PROTECTED:
        return look_up(exchange);
    case ADMISSION_NO_UPSTREAM:
        return refuse(exchange, PROBLEM_NO_ROUTE, OUTCOME_REJECTED, NULL);
    case ADMISSION_KEY_MISSING:
        return refuse(exchange, PROBLEM_KEY_MISSING, OUTCOME_MISSING, NULL);
    case ADMISSION_KEY_INVALID:
        return refuse(exchange, PROBLEM_KEY_INVALID, OUTCOME_INVALID, why);
    case ADMISSION_SCOPE_LINES:
        return refuse(exchange, PROBLEM_BAD_REQUEST, OUTCOME_INVALID, why);
    case ADMISSION_BODY_TOO_LARGE:
        return refuse(exchange, PROBLEM_BODY_TOO_LARGE, OUTCOME_REJECTED, NULL);
    }
    assert(!"an answer that admission.h does not know");
    return FLOW_NONE;
}

/* The head promises a key: the whole body is read before anything counts. */
static enum flow_event start_reading(struct exchange *exchange)
{
    exchange->keyed = true;
    if (exchange->request.framing == HTTP_NO_BODY ||
        (exchange->request.framing == HTTP_LENGTH && exchange->request.content_length == 0)) {
        exchange->body_complete = true;
        return identify(exchange);
    }
    if (exchange->request.expect_continue) {
        exchange->continue_sent = true;
        client_write_continue(exchange->client);
    }
    client_read_body(exchange->client, CLIENT_PACE_RATE);
    return FLOW_NONE;
}

enum flow_event read_begin(struct exchange *exchange)
{
    route_choose(&exchange->choice, exchange_conf(exchange), exchange->host, exchange->path, exchange->request.method);
    cors_begin(&exchange->cors, exchange_conf(exchange), exchange->choice.route, &exchange->request, exchange->host,
               exchange->path);
    if (exchange->worker->draining)
        return refuse(exchange, PROBLEM_DRAINING, OUTCOME_REJECTED, NULL);
    const char *why = NULL;
    struct key_request request = key_request_of(exchange);
    enum admission admission = admission_of_head(&exchange->choice, &request, &why);
    return admit(exchange, admission, why);
}

/* ---- the body --------------------------------------------------------------------------------- */

static void pass_body(struct exchange *exchange, const char *data, size_t len)
{
    if (!exchange->call)
        return; /* the API answered early: what still comes is thrown away */
    if (exchange->request.framing == HTTP_CHUNKED) {
        char head[HTTP_CHUNK_HEAD_MAX];
        upstream_write(exchange->call, head, http_chunk_head(head, len));
        upstream_write(exchange->call, data, len);
        upstream_write(exchange->call, "\r\n", 2);
    } else {
        upstream_write(exchange->call, data, len);
    }
    if (upstream_queued(exchange->call) > UPSTREAM_HIGH_WATER && !exchange->client_paused) {
        exchange->client_paused = true;
        client_pause_body(exchange->client);
    }
}

void read_body(void *arg, const char *data, size_t len)
{
    struct exchange *exchange = arg;
    exchange->bytes_in += len;
    exchange->body_in += len;
    if (exchange->state == FLOW_PASSING) {
        if (exchange->tunnel)
            tunnel_touch(exchange);
        pass_body(exchange, data, len);
        return;
    }
    if (exchange->state != FLOW_READING)
        return; /* answered already: the client throws the rest away */
    if (over_limit(exchange, buffer_len(&exchange->body) + len)) {
        exchange_raise(exchange, refuse(exchange, PROBLEM_BODY_TOO_LARGE, OUTCOME_REJECTED, NULL));
    } else if (!exchange_charge(exchange, len)) {
        exchange_raise(exchange, refuse(exchange, PROBLEM_OVERLOADED, OUTCOME_REJECTED, NULL));
    } else {
        buffer_append(&exchange->body, data, len);
    }
}

static void fill_reserve(struct exchange *exchange)
{
    const struct conf_route *route = exchange->choice.route;
    struct store_op *op = &exchange->reserve;
    op->verb = STORE_RESERVE;
    memcpy(op->id.bytes, exchange->identity.id, STORE_ID_LEN);
    memcpy(op->fingerprint, exchange->identity.fingerprint, STORE_HASH_LEN);
    memcpy(op->content, exchange->identity.content, STORE_HASH_LEN);
    op->reject_other_identity = route->reject_other_identity;
    op->retry_unknown = route->on_unknown != ON_UNKNOWN_REPORT;
    op->no_wait = !route->concurrent_waits;
    op->unknown_retention_ms = route->unknown_retention;
    op->about = (struct store_about){
        .route = route->name,
        .scope_name = route->scope_name,
        .task = exchange->identity.task,
        .key = exchange->identity.derived ? NULL : exchange->identity.text,
        .key_source = exchange->identity.derived ? STORE_KEY_DERIVED : STORE_KEY_SENT,
    };
}

static enum flow_event decide(struct exchange *exchange);

static enum flow_event look_up(struct exchange *exchange)
{
    exchange->has_identity = true;
    key_id_hex(exchange->identity.id, exchange->action);
    warn_scope(exchange);
    fill_reserve(exchange);
    if (!store_look_up(exchange->worker->store, &exchange->reserve))
        return FLOW_ASKED;
    decide(exchange);
    return FLOW_LOOKED_UP;
}

/* The whole request is here. */
static enum flow_event identify(struct exchange *exchange)
{
    const char *why = NULL;
    struct key_request request = key_request_of(exchange);
    enum admission admission = admission_of_request(exchange->choice.route, &request, &exchange->identity, &why);
    return admit(exchange, admission, why);
}

void read_body_end(void *arg)
{
    struct exchange *exchange = arg;
    if (exchange->state == FLOW_PASSING) {
        exchange->body_complete = true;
        if (!exchange->call)
            return;
        if (exchange->tunnel)
            tunnel_touch(exchange);
        if (exchange->request.framing == HTTP_CHUNKED)
            upstream_write(exchange->call, "0\r\n\r\n", 5);
        upstream_write_end(exchange->call);
        return;
    }
    if (exchange->state != FLOW_READING)
        return;
    exchange->body_complete = true;
    exchange_raise(exchange, identify(exchange));
}

/* ---- the store's answer ----------------------------------------------------------------------- */

static const char *reason_text(enum store_reason reason)
{
    switch (reason) {
    case STORE_REASON_STATUS:
        return "the API answered with a status that does not tell whether it acted";
    case STORE_REASON_CLOSED:
        return "the API closed the connection without an answer";
    case STORE_REASON_INVALID:
        return "the API's answer was cut or unreadable";
    case STORE_REASON_SEND_TIMEOUT:
        return "the API stopped reading the request";
    case STORE_REASON_STALL:
        return "the API's answer stopped half-way";
    case STORE_REASON_OUTCOME_TIMEOUT:
        return "the API did not answer in time";
    case STORE_REASON_CRASH:
        return "einmal died while the API was working on it";
    case STORE_REASON_DRAIN:
        return "einmal was stopped while the API was working on it";
    case STORE_REASON_LOST:
    case STORE_REASON_NONE:
    case STORE_REASON_UNSENT:
    case STORE_REASON_WITHDRAWN:
    case STORE_REASON_PROBED:
        return "einmal lost track of it";
    }
    return "einmal lost track of it";
}

static void refuse_unknown(struct exchange *exchange, const struct store_result *result)
{
    char since[32];
    exchange_problem(exchange, PROBLEM_OUTCOME_UNKNOWN, OUTCOME_REFUSED_UNKNOWN);
    format_time(since, result->since_ms);
    snprintf(exchange->detail, sizeof exchange->detail, "Since %s it is not known whether this action happened: %s. %s",
             since, reason_text(result->reason),
             exchange->choice.route->on_unknown == ON_UNKNOWN_PROBE
                 ? "The API could not tell when it was asked, so it is not repeated."
                 : "It is not repeated; ask the API what it did.");
    exchange->problem.detail = exchange->detail;
}

/* What a recorded or shared response becomes: a replay, or the reason why there is none. */
static void take_replay(struct exchange *exchange, const struct store_result *result)
{
    struct stored_response view;
    exchange->outcome = result->waited ? OUTCOME_WAITED : OUTCOME_REPLAYED;
    if (result->response && !exchange_charge(exchange, result->response->len)) {
        exchange_problem(exchange, PROBLEM_OVERLOADED, OUTCOME_REJECTED); /* many slow readers of large answers */
        return;
    }
    if (result->response && stored_response_read(&view, result->response->data, result->response->len)) {
        exchange->answer.stored = store_bytes_ref(result->response);
        reply_with_stored(exchange, &view);
        return;
    }
    if (result->response)
        log_line(exchange->worker->shared->log, LOG_LEVEL_ERROR,
                 "action %s: its recorded response is damaged; not replayed", exchange->action);
    if (result->state == STORE_RELEASED)
        exchange_problem(exchange, PROBLEM_IN_PROGRESS, OUTCOME_IN_PROGRESS);
    else
        exchange_problem(exchange, PROBLEM_RESPONSE_NOT_KEPT, OUTCOME_REFUSED_UNKNOWN);
    if (result->state == STORE_UNKNOWN)
        exchange->problem.detail =
            "The API answered with a status that does not tell whether it acted, and its answer was too large "
            "to record. The action is not repeated; ask the API what it did.";
}

void read_report_unknown(struct exchange *exchange, const struct store_result *result)
{
    if (result->response)
        take_replay(exchange, result);
    else
        refuse_unknown(exchange, result);
}

/* In progress; or it was, and the API that was asked about it may still be working on it. */
static void take_busy(struct exchange *exchange, const struct store_result *result)
{
    const struct conf_probe *probe = exchange->choice.route->probe;
    exchange_problem(exchange, PROBLEM_IN_PROGRESS, OUTCOME_IN_PROGRESS);
    if (probe && result->state == STORE_UNKNOWN)
        exchange->problem.retry_after =
            probe_seconds_left(probe, result->forwarded_until_ms, store_now_ms(exchange->worker->store));
}

static void take_failure(struct exchange *exchange, const struct store_result *result)
{
    exchange_problem(exchange, result->failure == STORE_FAILURE_CLOSING ? PROBLEM_DRAINING : PROBLEM_STORE_UNAVAILABLE,
                     OUTCOME_REJECTED);
    if (result->failure == STORE_FAILURE_FULL)
        exchange->problem.detail =
            "The store is full: no new key can be taken until older ones expire. Try again later.";
}

/* How the attempt ended that this one waited for, where that left no response. */
static void take_ending(struct exchange *exchange, enum store_reason reason)
{
    if (reason != STORE_REASON_WITHDRAWN) {
        exchange_problem(exchange, problem_of_reason(reason), OUTCOME_WAITED);
        return;
    }
    exchange_problem(exchange, PROBLEM_IN_PROGRESS, OUTCOME_IN_PROGRESS);
    exchange->problem.detail = "The attempt that this one waited for was given up before anything was sent. Repeat the "
                               "request with the same key: it will be executed.";
}

/* Turns an answer that is no grant into what the client gets. */
static enum flow_event decide(struct exchange *exchange)
{
    struct store_result *result = &exchange->reserve.result;
    exchange->known = *result; /* with its reference to the response */
    switch (result->answer) {
    case STORE_REPLAY:
        take_replay(exchange, result);
        break;
    case STORE_ENDED:
        take_ending(exchange, result->reason);
        break;
    case STORE_BUSY:
        take_busy(exchange, result);
        break;
    case STORE_OTHER_IDENTITY:
        exchange_problem(exchange, PROBLEM_IDENTITY_CHANGED, OUTCOME_IDENTITY);
        break;
    case STORE_MISMATCH:
        exchange_problem(exchange, PROBLEM_KEY_REUSED, OUTCOME_MISMATCH);
        break;
    case STORE_REPORT_UNKNOWN:
        read_report_unknown(exchange, result);
        break;
    case STORE_FAILED:
        take_failure(exchange, result);
        break;
    case STORE_NOT_ANSWERED:
    case STORE_GRANTED:
    case STORE_GRANTED_UNKNOWN:
    case STORE_CANCELLED:
    case STORE_DONE:
    case STORE_LOST:
    case STORE_REFUSED:
        assert(!"no answer to somebody who waits for one");
    }
    return FLOW_DECIDED;
}

/* ---- reservation ------------------------------------------------------------------------------ */

static void reserve_notice(struct store_op *op)
{
    struct exchange *exchange = (struct exchange *)((char *)op - offsetof(struct exchange, reserve));
    exchange->queued = true;
    exchange->queued_us = monotonic_us();
    if (exchange->state == FLOW_RESERVING && exchange->client)
        deadline_set(&exchange->timer, monotonic_ms() + exchange->choice.route->wait_timeout);
}

static enum flow_event granted(struct exchange *exchange)
{
    const struct store_result *result = &exchange->reserve.result;
    exchange->token = result->token;
    exchange->regranted = result->answer == STORE_GRANTED_UNKNOWN;
    exchange->known = *result;
    bool late = exchange->state == FLOW_RESERVING && !exchange->client;
    bool asks = exchange->regranted && exchange->choice.route->on_unknown == ON_UNKNOWN_PROBE;
    /* What an earlier execution answered is nobody's answer now, unless the API cannot tell more. */
    if (result->response && (late || !asks || !exchange_charge(exchange, result->response->len))) {
        store_bytes_unref(result->response);
        exchange->known.response = NULL;
    }
    if (late)
        return FLOW_GRANTED_TOO_LATE;
    return asks ? FLOW_GRANTED_TO_ASK : exchange->regranted ? FLOW_GRANTED_UNKNOWN : FLOW_GRANTED;
}

static enum flow_event not_granted(struct exchange *exchange)
{
    const struct store_result *result = &exchange->reserve.result;
    bool heard = exchange->state == FLOW_RESERVING && exchange->client;
    if (heard && result->answer == STORE_FAILED && exchange->choice.route->pass_on_store_error &&
        result->failure != STORE_FAILURE_CLOSING)
        return FLOW_DEGRADED;
    if (heard)
        return decide(exchange);
    store_bytes_unref(result->response);
    return exchange->state == FLOW_RESERVING ? FLOW_DECIDED_TOO_LATE : FLOW_DECIDED;
}

static void reserve_done(struct store_op *op)
{
    struct exchange *exchange = (struct exchange *)((char *)op - offsetof(struct exchange, reserve));
    exchange->reserve_out = false;
    if (exchange->queued && exchange->wait_us < 0)
        exchange->wait_us = monotonic_us() - exchange->queued_us;
    if (exchange->state == FLOW_OVER) { /* a degraded exchange that has ended without it */
        store_bytes_unref(op->result.response);
        exchange_free_if_over(exchange);
        return;
    }
    bool grant = op->result.answer == STORE_GRANTED || op->result.answer == STORE_GRANTED_UNKNOWN;
    exchange_raise(exchange, grant ? granted(exchange) : not_granted(exchange));
}

enum flow_event reserve_submit(struct exchange *exchange)
{
    exchange->reserve.done = reserve_done;
    exchange->reserve.notice = reserve_notice;
    exchange->reserve_out = true;
    store_no_grant(&exchange->reserve, exchange->half_closed);
    store_submit(exchange->worker->store, &exchange->reserve);
    return FLOW_NONE;
}

enum flow_event reserve_cancel(struct exchange *exchange)
{
    if (exchange->outcome == OUTCOME_NONE)
        exchange->outcome = OUTCOME_IN_PROGRESS; /* it left while it waited */
    deadline_clear(&exchange->timer);
    store_cancel(exchange->worker->store, &exchange->reserve);
    return FLOW_NONE;
}

enum flow_event reserve_answer_cancel(struct exchange *exchange)
{
    if (exchange->client)
        reply_problem_now(exchange);
    return reserve_cancel(exchange);
}
