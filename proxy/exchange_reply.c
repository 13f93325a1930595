/*
 * exchange_reply.c - what the client gets: problems, replays, streams. One pump for all of them.
 *
 * The pump writes the head once, then the body in slices while the client takes them, and the end when it may go out:
 * with Content-Length the last byte, else the last chunk or FIN, waits until `end_allowed` (contract §4.7). A live
 * answer comes from the recording, a replay from the stored block; the head of both is written by
 * headers_write_response from the same parts.
 *
 * When all is written the client is finished and exchange->client is NULL: that is how callers see it.
 */
#include "proxy/exchange_internal.h"

#include <stdio.h>
#include <time.h>

#define SLICE             (64 * 1024)
#define DRAIN_UNPROTECTED (16u << 20) /* body left over of a request without route */

enum problem_code problem_of_fault(enum upstream_fault fault)
{
    switch (fault) {
    case UPSTREAM_FAULT_NONE:
        return PROBLEM_NONE;
    case UPSTREAM_FAULT_UNREACHABLE:
        return PROBLEM_UPSTREAM_UNREACHABLE;
    case UPSTREAM_FAULT_CLOSED:
        return PROBLEM_UPSTREAM_CLOSED;
    case UPSTREAM_FAULT_INVALID:
        return PROBLEM_UPSTREAM_INVALID;
    case UPSTREAM_FAULT_SEND_TIMEOUT:
        return PROBLEM_UPSTREAM_TIMEOUT;
    case UPSTREAM_FAULT_STALL:
        return PROBLEM_UPSTREAM_INVALID;
    }
    return PROBLEM_NONE;
}

/* The same for those who waited, who know the ending only by the store's reason. */
enum problem_code problem_of_reason(enum store_reason reason)
{
    switch (reason) {
    case STORE_REASON_UNSENT:
        return PROBLEM_UPSTREAM_UNREACHABLE;
    case STORE_REASON_CLOSED:
        return PROBLEM_UPSTREAM_CLOSED;
    case STORE_REASON_INVALID:
    case STORE_REASON_STALL:
        return PROBLEM_UPSTREAM_INVALID;
    case STORE_REASON_SEND_TIMEOUT:
    case STORE_REASON_OUTCOME_TIMEOUT:
        return PROBLEM_UPSTREAM_TIMEOUT;
    case STORE_REASON_DRAIN:
        return PROBLEM_DRAINING;
    case STORE_REASON_STATUS:
        return PROBLEM_RESPONSE_NOT_KEPT;
    case STORE_REASON_NONE:
    case STORE_REASON_CRASH:
    case STORE_REASON_LOST:
    case STORE_REASON_WITHDRAWN:
    case STORE_REASON_PROBED:
        return PROBLEM_OUTCOME_UNKNOWN;
    }
    return PROBLEM_OUTCOME_UNKNOWN;
}

void exchange_problem(struct exchange *exchange, enum problem_code code, enum outcome outcome)
{
    exchange->problem = (struct problem){.code = code};
    exchange->outcome = outcome;
}

/* ---- heads ------------------------------------------------------------------------------------ */

static bool keeps_alive(const struct exchange *exchange)
{
    return exchange->request.keep_alive && !exchange->worker->closing;
}

static void append_head(struct exchange *exchange, struct response_head *head)
{
    struct buffer *out = client_output(exchange->client);
    size_t before = buffer_len(out);
    exchange->answer.head_at = before;
    head->client_minor = exchange->request.minor;
    head->request_id = span_of(exchange->request_id);
    headers_write_response(out, head);
    exchange->bytes_out += buffer_len(out) - before;
    exchange->status = head->parts.status;
    exchange->answer.head_written = true;
}

void reply_head(struct exchange *exchange, struct response_head *head)
{
    struct http_field fields[HTTP_MAX_FIELDS + 1];
    struct buffer memory = {0};
    if (exchange->cors.route)
        cors_join(&exchange->cors, &head->parts, fields, &memory);
    append_head(exchange, head);
    buffer_free(&memory);
}

/* The answer is what `answer.stored` says, read into `view`. */
void reply_with_stored(struct exchange *exchange, const struct stored_response *view)
{
    struct answer *answer = &exchange->answer;
    size_t size = sizeof view->fields[0] * view->parts.field_count;
    answer->stored_body = view->body;
    answer->replay = view->parts;
    answer->replay.fields = memcpy(arena_take(&exchange->arena, size), view->fields, size);
    answer->complete = true;
}

static void write_replay_head(struct exchange *exchange)
{
    struct answer *answer = &exchange->answer;
    unsigned status = answer->replay.status;
    answer->no_body = exchange->request.method_id == HTTP_HEAD_METHOD || status == 204 || status == 304;
    reply_head(exchange, &(struct response_head){
                             .parts = answer->replay,
                             .framing = answer->no_body ? RESPONSE_NO_BODY : RESPONSE_LENGTH,
                             .length = answer->stored_body.len,
                             .keep_alive = keeps_alive(exchange),
                             .replayed_header = exchange->choice.route->replayed_header,
                             .date = time(NULL),
                         });
}

static uint64_t drain_limit(const struct exchange *exchange)
{
    return exchange->choice.route ? exchange->choice.route->max_request_body : DRAIN_UNPROTECTED;
}

/* Can the connection go on after an early answer? Not if the client holds its body back, waiting for a 100 that will
 * not come, nor if more is to come than will be thrown away. */
static bool body_can_drain(const struct exchange *exchange)
{
    const struct http_message *request = &exchange->request;
    if (exchange->body_complete)
        return true;
    if (request->expect_continue && !exchange->continue_sent && !exchange->body_in)
        return false;
    return request->framing != HTTP_LENGTH || request->content_length - exchange->body_in <= drain_limit(exchange);
}

static enum response_framing choose_framing(struct exchange *exchange, uint64_t *length)
{
    struct answer *answer = &exchange->answer;
    if (answer->no_body) {
        *length = exchange->response.content_length;
        return RESPONSE_NO_BODY;
    }
    if (exchange->response.framing == HTTP_LENGTH) {
        *length = exchange->response.content_length;
        return RESPONSE_LENGTH;
    }
    if (answer->complete && exchange->state != FLOW_PASSING && !exchange->response_too_large) {
        *length = answer->stored ? answer->stored_body.len : buffer_len(&answer->body);
        return RESPONSE_LENGTH; /* all of it is here: no chunks needed */
    }
    return exchange->request.minor == 0 ? RESPONSE_UNTIL_CLOSE : RESPONSE_CHUNKED;
}

static void write_live_head(struct exchange *exchange)
{
    struct answer *answer = &exchange->answer;
    uint64_t length = 0;
    enum response_framing framing = choose_framing(exchange, &length);
    answer->framed_by_length = framing == RESPONSE_LENGTH;
    answer->chunked = framing == RESPONSE_CHUNKED;
    answer->length = length;
    if (framing == RESPONSE_UNTIL_CLOSE || !body_can_drain(exchange))
        exchange->request.keep_alive = false;
    reply_head(exchange, &(struct response_head){
                             .parts = {.status = exchange->response.status,
                                       .reason = exchange->response.reason,
                                       .fields = exchange->response_fields,
                                       .field_count = exchange->response_field_count},
                             .framing = framing,
                             .length = length,
                             .write_length_without_body = answer->no_body && exchange->response.has_content_length &&
                                                          exchange->response.status != 204,
                             .keep_alive = keeps_alive(exchange),
                             .degraded = exchange->degraded,
                         });
}

/* ---- problems --------------------------------------------------------------------------------- */

#define PROBLEM_FIELDS (3 + CORS_OWN_FIELDS)

struct problem_head { /* what the fields of such an answer point into */
    struct http_field fields[PROBLEM_FIELDS];
    char retry_after[24];
    struct buffer memory;
};

static size_t problem_fields(const struct exchange *exchange, struct problem_head *head)
{
    const struct problem *problem = &exchange->problem;
    struct http_field *fields = head->fields;
    size_t count = 0;
    fields[count++] = (struct http_field){SPAN("Content-Type"), SPAN("application/problem+json")};
    fields[count++] = (struct http_field){SPAN("Cache-Control"), SPAN("no-store")};
    if (problem_row(problem->code)->retry_after) {
        snprintf(head->retry_after, sizeof head->retry_after, "%lld",
                 (long long)(problem->retry_after ? problem->retry_after : 1));
        fields[count++] = (struct http_field){SPAN("Retry-After"), span_of(head->retry_after)};
    }
    if (exchange->cors.route)
        count += cors_own_fields(&exchange->cors, fields + count, &head->memory);
    return count;
}

static void finish(struct exchange *exchange, bool keep_alive)
{
    struct client *client = exchange->client;
    exchange->client = NULL;
    client_finish(client, keep_alive && body_can_drain(exchange), drain_limit(exchange));
}

void reply_problem_now(struct exchange *exchange)
{
    struct problem *problem = &exchange->problem;
    const struct problem_row *row = problem_row(problem->code);
    struct problem_head memory = {.memory = {0}};
    struct buffer body = {0};
    if (problem->code == PROBLEM_IN_PROGRESS && !exchange->known.state)
        exchange->known.state = STORE_IN_PROGRESS; /* it left the line before the store said more */
    if (exchange->has_identity && !problem->action) {
        problem->action = exchange->action;
        problem->state = store_state_name(exchange->known.state);
        if (!problem->original_status)
            problem->original_status = exchange->known.status;
    }
    problem_write_body(&body, problem);
    bool keep_alive = keeps_alive(exchange) && !row->closes && body_can_drain(exchange);
    size_t field_count = problem_fields(exchange, &memory);
    append_head(exchange, &(struct response_head){
                              .parts = {row->status, http_reason(row->status), memory.fields, field_count},
                              .framing = RESPONSE_LENGTH,
                              .length = buffer_len(&body),
                              .keep_alive = keep_alive,
                              .degraded = exchange->degraded,
                              .date = time(NULL),
                          });
    if (exchange->request.method_id != HTTP_HEAD_METHOD) {
        client_append(exchange->client, buffer_data(&body), buffer_len(&body));
        exchange->bytes_out += buffer_len(&body);
    }
    buffer_free(&memory.memory);
    buffer_free(&body);
    finish(exchange, keep_alive);
}

/* ---- the pump --------------------------------------------------------------------------------- */

/* The next slice of the body that may go out now. */
static struct span next_slice(const struct exchange *exchange)
{
    const struct answer *answer = &exchange->answer;
    struct span rest;
    if (answer->no_body)
        return (struct span){0};
    if (answer->stored) {
        rest = span_after(answer->stored_body, answer->sent);
    } else {
        uint64_t consumed = exchange->response_too_large ? answer->sent : 0; /* see give_slice */
        rest = span_after(buffer_span(&answer->body), answer->sent - consumed);
    }
    if (answer->framed_by_length && !answer->end_allowed && rest.len && answer->sent + rest.len == answer->length)
        rest.len--; /* the last byte waits for the commit */
    if (rest.len > SLICE)
        rest.len = SLICE;
    return rest;
}

static void give_slice(struct exchange *exchange, struct span slice)
{
    struct answer *answer = &exchange->answer;
    if (answer->chunked) {
        char head[HTTP_CHUNK_HEAD_MAX];
        client_append(exchange->client, head, http_chunk_head(head, slice.len));
        if (slice.len < APPEND_BELOW)
            client_append(exchange->client, slice.data, slice.len);
        else
            client_write(exchange->client, slice.data, slice.len);
        client_append(exchange->client, "\r\n", 2); /* goes out with the next flush */
    } else {
        client_write(exchange->client, slice.data, slice.len);
    }
    answer->sent += slice.len;
    exchange->bytes_out += slice.len;
    if (exchange->response_too_large && !answer->stored)
        buffer_consume(&answer->body, slice.len); /* not recorded: what is sent is gone */
}

/* From here on nothing is recorded, so the buffer holds only what the client has not had. */
static void drop_sent(struct exchange *exchange)
{
    struct answer *answer = &exchange->answer;
    if (exchange->response_too_large && !answer->dropped_sent) {
        answer->dropped_sent = true;
        buffer_consume(&answer->body, answer->sent);
    }
}

static bool all_given(const struct exchange *exchange)
{
    const struct answer *answer = &exchange->answer;
    return answer->complete && answer->end_allowed && next_slice(exchange).len == 0;
}

static void end_answer(struct exchange *exchange)
{
    if (exchange->answer.chunked)
        client_append(exchange->client, "0\r\n\r\n", 5);
    finish(exchange, keeps_alive(exchange));
}

/* May anything of a live answer be written yet? */
static bool may_write_live(const struct exchange *exchange)
{
    const struct answer *answer = &exchange->answer;
    if (!exchange->response_seen)
        return false;
    /* HTTP/1.0 knows no chunks: a keyed answer is sent with its length once it is complete, unless it is too large to
     * keep. */
    bool needs_length = exchange->request.minor == 0 && exchange->response.framing != HTTP_LENGTH && !answer->no_body;
    return !needs_length || exchange->state == FLOW_PASSING || exchange->response_too_large ||
           (answer->complete && answer->end_allowed);
}

/* Collects the head of a live answer, if that has not been done; the first piece of the body goes out with it. */
void reply_begin(struct exchange *exchange)
{
    if (!exchange->answer.head_written)
        write_live_head(exchange);
}

void reply_pump(struct exchange *exchange)
{
    struct answer *answer = &exchange->answer;
    if (!exchange->client || exchange->problem.code != PROBLEM_NONE)
        return;
    bool replay = answer->stored && !exchange->response_seen;
    if (replay ? !answer->end_allowed : !may_write_live(exchange))
        return;
    drop_sent(exchange);
    if (!answer->head_written && replay)
        write_replay_head(exchange);
    reply_begin(exchange);
    struct span slice;
    while (client_queued(exchange->client) < CLIENT_HIGH_WATER && (slice = next_slice(exchange)).len)
        give_slice(exchange, slice);
    answer->flushed = true;
    if (all_given(exchange))
        end_answer(exchange);
    else
        client_flush(exchange->client);
}

/* ---- actions ---------------------------------------------------------------------------------- */

enum flow_event reply_stream(struct exchange *exchange)
{
    reply_pump(exchange);
    return FLOW_NONE;
}

/* What has been begun must not be taken for a complete answer. A FIN too early says so where a length or chunks frame
 * it, and leaves earlier answers alone; else only a reset does. */
static void cut(struct exchange *exchange)
{
    if (exchange->answer.chunked || exchange->answer.framed_by_length)
        client_cut(exchange->client);
    else
        client_abort(exchange->client);
    exchange->client = NULL;
}

/* A head that has only been collected (all in this turn) can still be taken back for a better answer. */
static void take_head_back(struct exchange *exchange)
{
    struct answer *answer = &exchange->answer;
    struct buffer *out = client_output(exchange->client);
    if (!answer->head_written || answer->flushed)
        return;
    exchange->bytes_out = 0;
    out->end = out->start + answer->head_at;
    answer->head_written = false;
}

/* The answer as far as it is known: a problem, the cut of a begun answer, or the end of a complete one. */
static void write_out(struct exchange *exchange)
{
    exchange->answer.end_allowed = true;
    if (!exchange->client)
        return;
    if (exchange->problem.code != PROBLEM_NONE)
        take_head_back(exchange);
    if (exchange->problem.code == PROBLEM_NONE) {
        reply_pump(exchange);
    } else if (!exchange->answer.head_written) {
        reply_problem_now(exchange);
    } else {
        cut(exchange);
    }
}

enum flow_event reply_end_early(struct exchange *exchange)
{
    if (exchange->settle_out)
        log_line(exchange->worker->shared->log, LOG_LEVEL_ERROR,
                 "action %s: the store has not confirmed its outcome in time; the answer goes out all the same",
                 exchange->action);
    write_out(exchange);
    return FLOW_NONE;
}

enum flow_event reply(struct exchange *exchange)
{
    write_out(exchange);
    if (exchange->client && exchange->worker->limit_passed) { /* the drain waits for no slow reader */
        client_abort(exchange->client);
        exchange->client = NULL;
    }
    return exchange->client ? FLOW_NONE : FLOW_WRITTEN;
}

/* The client has waited for response_timeout: it is told so, and the action goes on without it. */
enum flow_event reply_504(struct exchange *exchange)
{
    enum outcome outcome = exchange->outcome;
    exchange_problem(exchange, PROBLEM_UPSTREAM_TIMEOUT, outcome);
    exchange->problem.detail =
        "The API has not answered yet. einmal goes on listening for its answer: repeat the request with the "
        "same key to get it.";
    exchange->known.state = STORE_IN_PROGRESS;
    reply_problem_now(exchange);
    exchange->problem.code = PROBLEM_NONE;
    return FLOW_NONE;
}
