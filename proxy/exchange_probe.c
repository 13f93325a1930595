/*
 * exchange_probe.c - `on_unknown: probe`: before an unknown action is answered or repeated, the API is asked (contract
 * §3, §4).
 *
 * The token of the action is ours meanwhile, so others wait and nobody asks a second time. The question is a call of
 * its own to the route's upstream, without body and without effects, on behalf of the attempt: with its Host,
 * credentials and request id. A complete answer gets a verdict by its status:
 *
 *     happened                          the answer is the outcome, for everybody
 *     not happened, and settled         the action counts as new and is forwarded
 *     not happened, too early           put back; 409 in-progress: the API may still be working on it
 *     anything else, and every failure  put back; answered as on_unknown: report
 *
 * A client that leaves changes nothing: what its attempt began is brought to its end, as with a new action. Invariant:
 * whatever happens here can be put back, for nothing that acts has been sent. Left out: the words of question and
 * verdict (probe.c), what is written (exchange_settle.c).
 */
#include "proxy/probe.h"

#include "proxy/exchange_internal.h"

#include <assert.h>

void probe_free(struct exchange *exchange)
{
    struct exchange_probe *probe = exchange->probe;
    if (!probe)
        return;
    free(probe->head_memory);
    buffer_free(&probe->body);
    free(probe);
    exchange->probe = NULL;
}

/* ---- what follows ----------------------------------------------------------------------------- */

static void give_back_known(struct exchange *exchange)
{
    uint64_t size = exchange->known.response ? exchange->known.response->len : 0;
    exchange->charged -= size; /* granted() took it */
    worker_give_memory(exchange->worker, size);
}

/* As on_unknown: report. */
static enum flow_event report(struct exchange *exchange)
{
    give_back_known(exchange);
    exchange->known.state = STORE_UNKNOWN;
    read_report_unknown(exchange, &exchange->known);
    return FLOW_STILL_UNKNOWN;
}

/* For those who wait as for this attempt: come again when the API cannot be working on it any more. */
static enum flow_event not_settled(struct exchange *exchange)
{
    exchange->settle.not_happened = true;
    exchange_problem(exchange, PROBLEM_IN_PROGRESS, OUTCOME_IN_PROGRESS);
    exchange->problem.detail = "The API has not done this action yet, but may still be working on an earlier attempt. "
                               "Repeat the request when the time in Retry-After has passed.";
    exchange->problem.retry_after = probe_seconds_left(
        exchange->choice.route->probe, exchange->known.forwarded_until_ms, store_now_ms(exchange->worker->store));
    return FLOW_STILL_UNKNOWN;
}

/* From here on it is an action like a new one: unsent, or refused by a status in `release`, it is released. */
static enum flow_event not_happened(struct exchange *exchange)
{
    exchange->regranted = false;
    exchange->settle.not_happened = true;
    exchange->known.state = STORE_IN_PROGRESS;
    exchange->known.status = 0;
    give_back_known(exchange);
    store_bytes_unref(exchange->known.response);
    exchange->known.response = NULL;
    probe_free(exchange);
    return FLOW_NOT_HAPPENED;
}

static enum flow_event judge(struct exchange *exchange)
{
    const struct exchange_probe *probe = exchange->probe;
    enum probe_verdict verdict = probe_judge(exchange->choice.route->probe, probe->head.status,
                                             exchange->known.forwarded_until_ms, probe->asked_ms);
    log_line(exchange->worker->shared->log, LOG_LEVEL_INFO, "action %s: the API was asked and answered %u: %s",
             exchange->action, probe->head.status, probe_verdict_text(verdict));
    switch (verdict) {
    case PROBE_VERDICT_HAPPENED:
        return FLOW_HAPPENED;
    case PROBE_VERDICT_NOT_HAPPENED:
        return not_happened(exchange);
    case PROBE_VERDICT_NOT_SETTLED:
        return not_settled(exchange);
    case PROBE_VERDICT_UNKNOWN:
        return report(exchange);
    }
    assert(!"a verdict that probe.h does not know");
    return FLOW_NONE;
}

/* ---- the call --------------------------------------------------------------------------------- */

static void on_informational(void *owner, const struct http_message *message)
{
    (void)owner, (void)message; /* only the final answer counts */
}

static void on_head(void *owner, const struct http_message *message)
{
    struct exchange_probe *probe = ((struct exchange *)owner)->probe;
    probe->head_memory = must_allocate(malloc(http_message_size(message)));
    http_message_copy(&probe->head, message, probe->head_memory);
}

/* One that is too large is read to its end all the same: only a complete answer says anything. */
static void on_body(void *owner, const char *data, size_t len)
{
    struct exchange *exchange = owner;
    struct exchange_probe *probe = exchange->probe;
    if (probe->too_large)
        return;
    if (buffer_len(&probe->body) + len <= exchange->choice.route->max_response_body && exchange_charge(exchange, len)) {
        buffer_append(&probe->body, data, len);
        return;
    }
    probe->too_large = true;
    buffer_free(&probe->body);
}

static void on_turn(void *owner)
{
    (void)owner; /* nothing of it is passed on before it is complete and recorded */
}

static void on_sent(void *owner)
{
    crash_point(((struct exchange *)owner)->worker, "probe-sent");
}

static void on_end(void *owner, const struct upstream_end *end)
{
    struct exchange *exchange = owner;
    exchange->call = NULL;
    exchange->upstream_us = monotonic_us() - exchange->probe->began_us;
    crash_point(exchange->worker, "probe-answered");
    if (end->ending == UPSTREAM_ANSWERED) {
        exchange_raise(exchange, judge(exchange));
        return;
    }
    log_line(exchange->worker->shared->log, LOG_LEVEL_WARNING, "action %s: asking the API failed: %s; it stays unknown",
             exchange->action, end->detail ? end->detail : "no answer");
    exchange_raise(exchange, report(exchange));
}

/* No upgrade is offered and no body streams: `switched`, `half_closed` and `writable` never come. */
static const struct upstream_events events = {
    .informational = on_informational,
    .head = on_head,
    .body = on_body,
    .turn = on_turn,
    .sent = on_sent,
    .end = on_end,
};

enum flow_event probe_give_up(struct exchange *exchange)
{
    upstream_cancel(exchange->call);
    exchange->call = NULL;
    exchange->upstream_us = monotonic_us() - exchange->probe->began_us;
    log_line(exchange->worker->shared->log, LOG_LEVEL_WARNING,
             "action %s: the API was asked and has not answered within response_timeout; it stays unknown",
             exchange->action);
    return report(exchange);
}

/* ---- the question ----------------------------------------------------------------------------- */

/* What of the attempt says who asks, and how the request came; Connection, because it may name one of these. */
static bool goes_along(struct span name)
{
    static const char *const names[] = {"Authorization",     "Cookie",           "Connection", "X-Forwarded-For",
                                        "X-Forwarded-Proto", "X-Forwarded-Host", "Forwarded"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (span_equal_nocase(name, span_of(names[i])))
            return true;
    return false;
}

static void write_question(const struct exchange *exchange, struct span target, struct buffer *out)
{
    const struct conf *conf = exchange_conf(exchange);
    const struct conf_probe *probe = exchange->choice.route->probe;
    const struct http_message *request = &exchange->request;
    struct http_field *fields = NEW_ARRAY(struct http_field, request->field_count);
    struct http_message question = {
        .method_id = strcmp(probe->method, "HEAD") == 0 ? HTTP_HEAD_METHOD : HTTP_GET,
        .method = span_of(probe->method),
        .target = target,
        .host = request->host,
        .minor = request->minor,
        .framing = HTTP_NO_BODY,
        .fields = fields,
    };
    for (size_t i = 0; i < request->field_count; i++)
        if (goes_along(request->fields[i].name))
            fields[question.field_count++] = request->fields[i];
    headers_write_request(
        out, &(struct forward_head){
                 .message = &question,
                 .upstream = exchange->choice.upstream,
                 .forwarded = conf->forwarded,
                 .via = conf->via,
                 .client_address = span_of(strcmp(exchange->peer, "unix") == 0 ? "unknown" : exchange->peer),
                 .client_tls = exchange->client_tls,
                 .request_id = span_of(exchange->request_id),
             });
    free(fields);
}

static void ask(struct exchange *exchange, struct span target)
{
    struct buffer head = {0};
    const struct conf_upstream *upstream = exchange->choice.upstream;
    write_question(exchange, target, &head);
    exchange->call =
        upstream_start(exchange->worker->pool,
                       &(struct upstream_request){
                           .upstream = upstream,
                           .tls = tls_client_of(exchange->conf->tls, exchange_conf(exchange), upstream),
                           .head = buffer_span(&head),
                           .no_body_in_response = strcmp(exchange->choice.route->probe->method, "HEAD") == 0,
                           .resend = true,
                       },
                       &events, exchange);
    buffer_free(&head);
}

enum flow_event probe_start(struct exchange *exchange)
{
    struct buffer target = {0};
    struct key_request request = key_request_of(exchange);
    struct span key = span_of(exchange->identity.derived ? exchange->action : exchange->identity.text);
    exchange->reason = STORE_REASON_PROBED;
    enum probe_target made = probe_expand(exchange->choice.route->probe, &request, key,
                                          exchange_conf(exchange)->limits.request_target, &target);
    crash_point(exchange->worker, "before-probe");
    if (made == PROBE_TARGET_READY) {
        exchange->probe = NEW(struct exchange_probe);
        exchange->probe->asked_ms = store_now_ms(exchange->worker->store);
        exchange->probe->began_us = monotonic_us();
        ask(exchange, buffer_span(&target));
    } else {
        log_line(exchange->worker->shared->log, LOG_LEVEL_WARNING,
                 "action %s: the API cannot be asked: %s; it stays unknown", exchange->action, probe_target_text(made));
    }
    buffer_free(&target);
    return made == PROBE_TARGET_READY ? FLOW_NONE : report(exchange);
}
