/*
 * exchange_settle.c - how an action ended, and the op that says so to the store (contract §4, the table of endings).
 *
 *     not one byte sent                 RELEASE, or RESTORE where it was unknown before
 *     complete, status class completed  COMPLETE
 *     complete, release                 RELEASE with the response; an action that was unknown stays unknown
 *     complete, unknown                 ABANDON with the response
 *     anything else                     ABANDON
 *     a probe says it has happened      COMPLETE with the probe's answer
 *     a probe does not tell             RESTORE
 *
 * The invariant: exactly one of these is submitted for each token, and the exchange lives until it is answered.
 */
#include "proxy/exchange_internal.h"

#include <assert.h>

/* The response as it is recorded: policy applied to a copy of the fields, then head and body in one block. */
static void record(struct exchange *exchange, const struct http_message *message, struct http_field *fields,
                   size_t count, struct buffer *content)
{
    struct answer *answer = &exchange->answer;
    struct response_parts parts = {.status = message->status, .reason = message->reason, .fields = fields};
    parts.field_count = headers_select_record(fields, count, exchange->choice.route->replay_drop);
    size_t head = stored_response_head_size(&parts), body = buffer_len(content);
    answer->stored = store_bytes_new(head + body);
    stored_response_write_head(answer->stored->data, &parts, body);
    if (body)
        memcpy(answer->stored->data + head, buffer_data(content), body);
    answer->stored_body = (struct span){(const char *)answer->stored->data + head, body};
    buffer_free(content); /* the client gets the rest of its body from the block */
}

static void record_response(struct exchange *exchange)
{
    size_t count = exchange->response_field_count;
    struct http_field *fields = NEW_ARRAY(struct http_field, count);
    memcpy(fields, exchange->response_fields, count * sizeof *fields);
    record(exchange, &exchange->response, fields, count, &exchange->answer.body);
    free(fields);
}

static void settle_done(struct store_op *op)
{
    struct exchange *exchange = (struct exchange *)((char *)op - offsetof(struct exchange, settle));
    struct log *log = exchange->worker->shared->log;
    exchange->settle_out = false;
    switch (op->result.answer) {
    case STORE_DONE:
        break;
    case STORE_LOST:
        log_line(log, LOG_LEVEL_WARNING,
                 "action %s: settled by somebody else meanwhile; what this attempt got is not recorded",
                 exchange->action);
        break;
    case STORE_FAILED:
        log_line(
            log, LOG_LEVEL_ERROR,
            "action %s: its outcome could not be written; it is kept in memory and written again until that succeeds",
            exchange->action);
        break;
    case STORE_NOT_ANSWERED:
    case STORE_GRANTED:
    case STORE_GRANTED_UNKNOWN:
    case STORE_REPLAY:
    case STORE_ENDED:
    case STORE_BUSY:
    case STORE_OTHER_IDENTITY:
    case STORE_MISMATCH:
    case STORE_REPORT_UNKNOWN:
    case STORE_CANCELLED:
    case STORE_REFUSED:
        assert(!"no answer to a settling op");
    }
    exchange_raise(exchange, FLOW_SETTLED);
}

static enum flow_event submit(struct exchange *exchange, enum store_verb verb, enum store_reason reason)
{
    struct store_op *op = &exchange->settle;
    op->verb = verb;
    memcpy(op->id.bytes, exchange->identity.id, STORE_ID_LEN);
    op->done = settle_done;
    op->token = exchange->token;
    op->reason = reason;
    exchange->settle_out = true;
    exchange->token = 0; /* spent */
    store_submit(exchange->worker->store, op);
    return FLOW_NONE;
}

static enum flow_event release_unsent(struct exchange *exchange, enum store_reason reason)
{
    exchange->outcome = exchange->degraded ? OUTCOME_DEGRADED : OUTCOME_RELEASED;
    exchange->known.state = exchange->regranted ? STORE_UNKNOWN : STORE_RELEASED;
    return submit(exchange, exchange->regranted ? STORE_RESTORE : STORE_RELEASE, reason);
}

enum flow_event settle_withdraw(struct exchange *exchange)
{
    enum outcome outcome = exchange->outcome;
    enum flow_event next = release_unsent(exchange, STORE_REASON_WITHDRAWN);
    exchange->outcome = outcome; /* nothing was executed or released by this attempt: it had left */
    return next;
}

enum flow_event settle_put_back(struct exchange *exchange)
{
    if (exchange->call) { /* the drain's limit */
        upstream_cancel(exchange->call);
        exchange->call = NULL;
        exchange->upstream_us = monotonic_us() - exchange->probe->began_us;
    }
    crash_point(exchange->worker, "before-put-back");
    exchange->known.state = STORE_UNKNOWN;
    return submit(exchange, STORE_RESTORE, exchange->reason);
}

/* A probe's response as it is recorded, and as everybody gets it: this attempt too. */
static void record_probed(struct exchange *exchange, struct http_field *fields, size_t count)
{
    struct stored_response view;
    record(exchange, &exchange->probe->head, fields, count, &exchange->probe->body);
    bool own = stored_response_read(&view, exchange->answer.stored->data, exchange->answer.stored->len);
    assert(own && "what has just been written can be read");
    reply_with_stored(exchange, &view);
}

/* The answer of a probe is the outcome, for this attempt as for all others: a replay. It counts no execution. */
enum flow_event settle_probed(struct exchange *exchange)
{
    struct store_op *op = &exchange->settle;
    struct exchange_probe *probe = exchange->probe;
    const struct conf_route *route = exchange->choice.route;
    struct http_field *fields = NEW_ARRAY(struct http_field, probe->head.field_count);
    size_t count = headers_select_response(&probe->head, route->replayed_header, fields);
    exchange->outcome = OUTCOME_REPLAYED;
    if (probe->too_large)
        exchange_problem(exchange, PROBLEM_RESPONSE_NOT_KEPT, OUTCOME_REFUSED_UNKNOWN);
    else
        record_probed(exchange, fields, count);
    free(fields);
    exchange->answer.complete = true;
    exchange->known.state = STORE_COMPLETED;
    exchange->known.status = op->status = probe->head.status;
    op->response = exchange->answer.stored;
    op->not_kept = probe->too_large;
    op->retention_ms = route->retention;
    op->forwarded_until_ms = exchange->known.forwarded_until_ms;
    crash_point(exchange->worker, "before-complete");
    return submit(exchange, STORE_COMPLETE, STORE_REASON_PROBED);
}

static enum flow_event abandon(struct exchange *exchange, enum store_reason reason)
{
    struct store_op *op = &exchange->settle;
    crash_point(exchange->worker, "before-abandon");
    exchange->outcome = exchange->degraded ? OUTCOME_DEGRADED : OUTCOME_UNKNOWN;
    exchange->known.state = STORE_UNKNOWN;
    op->retention_ms = exchange->choice.route->unknown_retention;
    op->forwarded_until_ms = store_now_ms(exchange->worker->store);
    return submit(exchange, STORE_ABANDON, reason);
}

/* A complete response: its status says what it means. */
static enum flow_event settle_complete(struct exchange *exchange)
{
    struct store_op *op = &exchange->settle;
    const struct conf_route *route = exchange->choice.route;
    if (!exchange->response_too_large)
        record_response(exchange);
    op->response = exchange->answer.stored;
    op->not_kept = exchange->response_too_large;
    switch (route_status_meaning(route, exchange->response.status, exchange->response.has_retry_after)) {
    case STATUS_COMPLETED:
        crash_point(exchange->worker, "before-complete");
        exchange->outcome = exchange->degraded ? OUTCOME_DEGRADED : OUTCOME_EXECUTED;
        exchange->known.state = STORE_COMPLETED;
        op->retention_ms = route->retention;
        return submit(exchange, STORE_COMPLETE, STORE_REASON_NONE);
    case STATUS_RELEASE:
        if (exchange->regranted)
            return abandon(exchange, STORE_REASON_STATUS);
        exchange->outcome = exchange->degraded ? OUTCOME_DEGRADED : OUTCOME_RELEASED;
        exchange->known.state = STORE_RELEASED;
        return submit(exchange, STORE_RELEASE, STORE_REASON_STATUS);
    case STATUS_UNKNOWN:
        return abandon(exchange, STORE_REASON_STATUS);
    }
    assert(!"a class that conf.h does not know");
    return FLOW_NONE;
}

/* An ending without a complete response: what the client, if it is still there, will be told. */
static void tell_client(struct exchange *exchange)
{
    enum outcome outcome = exchange->outcome;
    exchange_problem(exchange, problem_of_reason(exchange->reason), outcome);
    exchange->problem.original_status = exchange->ended.head_seen ? exchange->response.status : 0;
}

enum flow_event settle(struct exchange *exchange)
{
    if (exchange->call) { /* outcome_timeout or the drain's limit: nobody listens any more */
        upstream_cancel(exchange->call);
        exchange->call = NULL;
        exchange->upstream_us = monotonic_us() - exchange->forwarded_us;
    }
    exchange->settle.status = exchange->response_seen ? exchange->response.status : 0;
    enum flow_event next = FLOW_NONE;
    switch (exchange->ended.ending) {
    case UPSTREAM_ANSWERED:
        next = settle_complete(exchange);
        if (exchange->answer.head_written)
            reply_pump(exchange); /* what came together with the end: only the end waits for the commit */
        return next;
    case UPSTREAM_UNSENT:
        next = release_unsent(exchange, STORE_REASON_UNSENT);
        break;
    case UPSTREAM_BROKEN:
        next = abandon(exchange, exchange->reason);
        break;
    }
    if (!exchange->degraded)
        tell_client(exchange);
    return next;
}
