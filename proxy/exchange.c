/*
 * exchange.c - one request from first byte to last: birth, the driver, timers, what the client reports, death.
 *
 * The driver is exchange_raise(): it looks the pair (state, event) up in the flow table, sets the state (the only place
 * that does), and runs the row's action, which may return the next event. What an action means is in exchange_*.c; what
 * may follow what is in flow.c and nowhere else.
 *
 * Who owes whom: an exchange lives while its flow is not OVER, or while a store op, an upstream call or a client still
 * points to it. Each of the three clears its pointer when it reports its end; exchange_free_if_over() frees after the
 * last one.
 */
#include "proxy/exchange_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <time.h>

#ifdef __SANITIZE_ADDRESS__
#define SPARE_EXCHANGES 0 /* a use after the end is to be seen */
#else
#define SPARE_EXCHANGES 64
#endif
#define NORMAL_KEPT 1024 /* bytes of memory that a spare exchange keeps for host and path */

const struct conf *exchange_conf(const struct exchange *exchange)
{
    return exchange->conf->conf;
}

struct exchange *exchange_next(const struct exchange *exchange)
{
    return exchange->next;
}

bool exchange_charge(struct exchange *exchange, uint64_t size)
{
    if (!worker_take_memory(exchange->worker, size))
        return false;
    exchange->charged += size;
    return true;
}

/* ---- timers ----------------------------------------------------------------------------------- */

static void timer_passed(void *arg)
{
    struct exchange *exchange = arg;
    switch (exchange->state) {
    case FLOW_RESERVING:
        if (!exchange->client)
            return; /* already answered: the op's end is all that is awaited */
        if (exchange->queued) {
            exchange_problem(exchange, PROBLEM_IN_PROGRESS, OUTCOME_IN_PROGRESS);
        } else if (exchange->choice.route->pass_on_store_error) {
            exchange_raise(exchange, FLOW_DEGRADED);
            return;
        } else {
            exchange_problem(exchange, PROBLEM_STORE_UNAVAILABLE, OUTCOME_REJECTED);
        }
        exchange_raise(exchange, FLOW_WAIT_OVER);
        return;
    case FLOW_PROBING:
        exchange_raise(exchange, probe_give_up(exchange));
        return;
    case FLOW_FORWARDING:
    case FLOW_STREAMING:
    case FLOW_PASSING:
        if (exchange->tunnel) {
            tunnel_silent(exchange);
        } else if (exchange->client && !exchange->response_seen) {
            bool degraded = exchange->state == FLOW_PASSING && exchange->degraded;
            exchange_raise(exchange, degraded ? FLOW_DEGRADED_TIMEOUT : FLOW_RESPONSE_TIMEOUT);
        } else if (!exchange->client) {
            exchange->ended = (struct upstream_end){.ending = UPSTREAM_BROKEN, .head_seen = exchange->response_seen};
            exchange->reason = STORE_REASON_OUTCOME_TIMEOUT;
            exchange_raise(exchange, FLOW_OUTCOME_TIMEOUT);
        }
        return;
    case FLOW_SETTLING:
        exchange_raise(exchange, FLOW_SETTLE_TIMEOUT);
        return;
    case FLOW_READING:
    case FLOW_REPLYING:
    case FLOW_OVER:
    case FLOW_STATE_COUNT:
        return; /* the client's own deadlines rule there */
    }
}

/* The timer that a state starts with. Later ones: `sent` starts response_timeout, a leaving client outcome_timeout. */
static void arm_timer(struct exchange *exchange)
{
    switch (exchange->state) {
    case FLOW_RESERVING:
        deadline_set(&exchange->timer, monotonic_ms() + exchange_conf(exchange)->store.timeout);
        return;
    case FLOW_SETTLING:
        deadline_set(&exchange->timer, monotonic_ms() + exchange_conf(exchange)->store.timeout);
        return;
    case FLOW_PROBING:
        deadline_set(&exchange->timer, monotonic_ms() + exchange->choice.upstream->response_timeout);
        return;
    case FLOW_READING:
    case FLOW_PASSING:
    case FLOW_FORWARDING:
    case FLOW_STREAMING:
    case FLOW_REPLYING:
    case FLOW_OVER:
    case FLOW_STATE_COUNT:
        if (exchange->outcome_due_ms && (exchange->state == FLOW_FORWARDING || exchange->state == FLOW_STREAMING))
            deadline_set(&exchange->timer, exchange->outcome_due_ms);
        else
            deadline_clear(&exchange->timer);
        return;
    }
}

/* ---- the driver ------------------------------------------------------------------------------- */

/* The client has left an action that goes on: from now on einmal listens for outcome_timeout. */
static enum flow_event detach(struct exchange *exchange)
{
    const struct conf_upstream *upstream = exchange->choice.upstream;
    if (exchange->state == FLOW_SETTLING)
        return FLOW_NONE;
    exchange->outcome_due_ms = monotonic_ms() + upstream->outcome_timeout;
    if (exchange->state == FLOW_PROBING)
        return FLOW_NONE; /* the probe has its own time; if it leads to an execution, that has what is left of this */
    deadline_set(&exchange->timer, exchange->outcome_due_ms);
    if (exchange->call && exchange->upstream_paused) {
        exchange->upstream_paused = false;
        upstream_resume(exchange->call);
    }
    return FLOW_NONE;
}

static void account(struct exchange *exchange);

static enum flow_event close_exchange(struct exchange *exchange)
{
    assert(!exchange->client);
    account(exchange);
    return FLOW_NONE;
}

static enum flow_event act(struct exchange *exchange, enum flow_action action)
{
    switch (action) {
    case FLOW_DO_NOTHING:
    case FLOW_DO_ADOPT: /* the token is kept by whoever raised the event */
        return FLOW_NONE;
    case FLOW_DO_PASS:
        return pass_start(exchange);
    case FLOW_DO_RESERVE:
        return reserve_submit(exchange);
    case FLOW_DO_PROBE:
        return probe_start(exchange);
    case FLOW_DO_FORWARD:
        return forward_start(exchange);
    case FLOW_DO_CANCEL:
        return reserve_cancel(exchange);
    case FLOW_DO_ANSWER_CANCEL:
        return reserve_answer_cancel(exchange);
    case FLOW_DO_WITHDRAW:
        return settle_withdraw(exchange);
    case FLOW_DO_SETTLE:
        return settle(exchange);
    case FLOW_DO_RECORD_PROBE:
        return settle_probed(exchange);
    case FLOW_DO_PUT_BACK:
        return settle_put_back(exchange);
    case FLOW_DO_DETACH:
        return detach(exchange);
    case FLOW_DO_DETACH_504:
        reply_504(exchange);
        return detach(exchange);
    case FLOW_DO_STREAM:
        return reply_stream(exchange);
    case FLOW_DO_END_EARLY:
        return reply_end_early(exchange);
    case FLOW_DO_REPLY:
        return reply(exchange);
    case FLOW_DO_STOP:
        return pass_stop(exchange);
    case FLOW_DO_BREAK:
        return pass_break(exchange);
    case FLOW_DO_END_PASS:
        return pass_end(exchange);
    case FLOW_DO_CLOSE:
        return close_exchange(exchange);
    case FLOW_IMPOSSIBLE:
    case FLOW_ACTION_COUNT:
        break;
    }
    assert(!"an action that the table does not know");
    return FLOW_NONE;
}

void exchange_raise(struct exchange *exchange, enum flow_event event)
{
    while (event != FLOW_NONE) {
        const struct flow_step *step = flow_find(exchange->state, event);
        if (log_wants(exchange->worker->shared->log, LOG_LEVEL_DEBUG) || !step)
            log_line(exchange->worker->shared->log, step ? LOG_LEVEL_DEBUG : LOG_LEVEL_ERROR, "request %s: %s, %s → %s",
                     exchange->request_id, flow_state_name(exchange->state), flow_event_name(event),
                     step ? flow_state_name(step->next) : "not in the table");
        assert(step && "an event that cannot happen in this state");
        if (step->next != exchange->state) {
            exchange->state = step->next;
            arm_timer(exchange);
        }
        event = act(exchange, step->action);
    }
    exchange_free_if_over(exchange);
}

/* ---- birth and death -------------------------------------------------------------------------- */

static void link_exchange(struct exchange *exchange)
{
    struct worker *worker = exchange->worker;
    exchange->next = worker->exchanges;
    if (exchange->next)
        exchange->next->prev = exchange;
    worker->exchanges = exchange;
    worker->exchange_count++;
}

static void unlink_exchange(struct exchange *exchange)
{
    struct worker *worker = exchange->worker;
    if (exchange->prev)
        exchange->prev->next = exchange->next;
    else
        worker->exchanges = exchange->next;
    if (exchange->next)
        exchange->next->prev = exchange->prev;
    worker->exchange_count--;
}

static void set_request_id(struct exchange *exchange)
{
    const struct http_field *field = http_find(&exchange->request, SPAN("X-Request-Id"));
    if (field && request_id_valid(field->value)) {
        memcpy(exchange->request_id, field->value.data, field->value.len);
        exchange->request_id[field->value.len] = '\0';
    } else {
        worker_request_id(exchange->worker, exchange->request_id);
    }
}

static void normalise(struct exchange *exchange)
{
    admission_normalise(&exchange->normal, &exchange->request, &exchange->host, &exchange->path);
}

/* A worker's requests come one after another: what the last one leaves (memory, and a timer that may stay armed) serves
 * the next. */
static struct exchange *take_exchange(struct worker *worker)
{
    struct exchange *exchange = worker->spare_exchanges;
    if (exchange) {
        worker->spare_exchanges = exchange->next;
        worker->spare_exchange_count--;
        memset(exchange, 0, offsetof(struct exchange, timer));
        return exchange;
    }
    exchange = NEW(struct exchange);
    deadline_init(&exchange->timer, worker->base, timer_passed, exchange);
    return exchange;
}

static void exchange_free(struct exchange *exchange)
{
    deadline_destroy(&exchange->timer);
    buffer_free(&exchange->normal);
    arena_reset(&exchange->arena);
    free(exchange);
}

static void give_exchange(struct worker *worker, struct exchange *exchange)
{
    if (worker->spare_exchange_count == SPARE_EXCHANGES || exchange->normal.capacity > NORMAL_KEPT) {
        exchange_free(exchange);
        return;
    }
    deadline_clear(&exchange->timer);
    buffer_consume(&exchange->normal, buffer_len(&exchange->normal));
    arena_reset(&exchange->arena);
    exchange->next = worker->spare_exchanges;
    worker->spare_exchanges = exchange;
    worker->spare_exchange_count++;
}

void exchange_free_spares(struct worker *worker)
{
    while (worker->spare_exchanges) {
        struct exchange *exchange = worker->spare_exchanges;
        worker->spare_exchanges = exchange->next;
        exchange_free(exchange);
    }
}

static struct exchange *exchange_new(struct connection *connection, struct client *client,
                                     const struct http_message *message)
{
    struct worker *worker = connection->worker;
    struct exchange *exchange = take_exchange(worker);
    exchange->worker = worker;
    exchange->conf = worker_conf_ref(worker->conf);
    exchange->client = client;
    exchange->began_us = monotonic_us();
    exchange->bytes_in = client_head_len(client);
    exchange->upstream_us = exchange->wait_us = -1;
    http_message_copy(&exchange->request, message, arena_take(&exchange->arena, http_message_size(message)));
    strcpy(exchange->peer, client_peer(client));
    exchange->client_tls = client_is_tls(client);
    exchange->client_identity = tls_identity_copy(client_identity(client));
    set_request_id(exchange);
    normalise(exchange);
    link_exchange(exchange);
    return exchange;
}

void exchange_free_if_over(struct exchange *exchange)
{
    if (exchange->state != FLOW_OVER || exchange->reserve_out || exchange->settle_out)
        return;
    assert(!exchange->client && !exchange->call);
    unlink_exchange(exchange);
    worker_give_memory(exchange->worker, exchange->charged);
    worker_conf_unref(exchange->worker, exchange->conf);
    probe_free(exchange);
    store_bytes_unref(exchange->known.response);
    store_bytes_unref(exchange->answer.stored);
    buffer_free(&exchange->answer.body);
    buffer_free(&exchange->body);
    free(exchange->client_identity);
    give_exchange(exchange->worker, exchange);
}

/* ---- account ---------------------------------------------------------------------------------- */

/* The trace id of a W3C traceparent: 00-TRACEID-SPANID-FLAGS. */
static struct span trace_id(const struct http_message *request)
{
    const struct http_field *field = http_find(request, SPAN("traceparent"));
    if (!field || field->value.len < 55 || field->value.data[2] != '-' || field->value.data[35] != '-')
        return (struct span){0};
    for (size_t i = 3; i < 35; i++)
        if (!strchr("0123456789abcdef", field->value.data[i]))
            return (struct span){0};
    return (struct span){field->value.data + 3, 32};
}

static struct route_counters *route_counters_of(const struct exchange *exchange)
{
    const struct conf_route *route = exchange->choice.route;
    return route ? exchange->conf->routes[route - exchange_conf(exchange)->routes]
                 : exchange->worker->counters->no_route;
}

/* A tunnel's time is its peers' business: as a duration of a request it would hide all others. */
static void count(struct exchange *exchange, uint16_t code, int64_t duration_us)
{
    struct route_counters *route = route_counters_of(exchange);
    count_request(route, exchange->outcome, code);
    if (exchange->wait_us >= 0)
        count_duration(&route->wait, exchange->wait_us);
    if (exchange->tunnel)
        return;
    count_duration(&route->request, duration_us);
    if (exchange->upstream_us >= 0) {
        size_t place = (size_t)(exchange->choice.upstream - exchange_conf(exchange)->upstreams);
        count_duration(&exchange->conf->upstreams[place]->answer, exchange->upstream_us);
    }
}

/* The one place where a request is counted and logged: when its exchange is over, once. */
static void account(struct exchange *exchange)
{
    struct worker *worker = exchange->worker;
    uint16_t code = exchange->status ? exchange->status : 499;
    int64_t duration_us = monotonic_us() - exchange->began_us;
    if (exchange->outcome == OUTCOME_NONE)
        exchange->outcome = OUTCOME_REJECTED; /* gone before anything was decided */
    count(exchange, code, duration_us);
    if (!exchange_conf(exchange)->log.access)
        return;
    access_log_write(worker->access, &(struct access_entry){
                                         .method = exchange->request.method,
                                         .host = exchange->request.host,
                                         .path = exchange->request.path,
                                         .route = exchange->choice.route ? exchange->choice.route->name : "-",
                                         .outcome = outcome_name(exchange->outcome),
                                         .status = code,
                                         .action = exchange->has_identity ? exchange->action : NULL,
                                         .task = span_of(exchange->identity.task),
                                         .request_id = span_of(exchange->request_id),
                                         .trace_id = trace_id(&exchange->request),
                                         .bytes_in = exchange->bytes_in,
                                         .bytes_out = exchange->bytes_out,
                                         .duration_us = duration_us,
                                         .upstream_us = exchange->upstream_us,
                                         .wait_us = exchange->wait_us,
                                         .client = span_of(exchange->peer),
                                     });
}

/* ---- what the client reports ------------------------------------------------------------------ */

static void *on_head(void *context, struct client *client, const struct http_message *message)
{
    struct exchange *exchange = exchange_new(context, client, message);
    exchange_raise(exchange, read_begin(exchange));
    return exchange;
}

/* No request could be made of what came: there is no exchange, but an answer, a count and an access line all the same.
 */
static void on_refused(void *context, struct client *client, enum problem_code code, const char *detail)
{
    struct worker *worker = ((struct connection *)context)->worker;
    struct buffer body = {0};
    problem_write_body(&body, &(struct problem){.code = code, .detail = detail});
    const struct problem_row *row = problem_row(code);
    enum outcome outcome = row->status == 400 ? OUTCOME_INVALID : OUTCOME_REJECTED;
    size_t queued = client_queued(client); /* answers to earlier requests */
    struct http_field fields[] = {{SPAN("Content-Type"), SPAN("application/problem+json")},
                                  {SPAN("Cache-Control"), SPAN("no-store")}};
    headers_write_response(client_output(client), &(struct response_head){
                                                      .parts = {row->status, http_reason(row->status), fields, 2},
                                                      .framing = RESPONSE_LENGTH,
                                                      .length = buffer_len(&body),
                                                      .client_minor = 1,
                                                      .date = time(NULL),
                                                  });
    client_append(client, buffer_data(&body), buffer_len(&body));
    count_request(worker->counters->no_route, outcome, row->status);
    if (worker->conf->conf->log.access)
        access_log_write(worker->access, &(struct access_entry){
                                             .route = "-",
                                             .outcome = outcome_name(outcome),
                                             .status = row->status,
                                             .bytes_out = client_queued(client) - queued,
                                             .upstream_us = -1,
                                             .wait_us = -1,
                                             .client = span_of(client_peer(client)),
                                         });
    buffer_free(&body);
    client_finish(client, false, 0);
}

static void on_half_closed(void *arg)
{
    struct exchange *exchange = arg;
    exchange->half_closed = true;
    if (exchange->reserve_out)
        store_no_grant(&exchange->reserve, true);
}

static void on_gone(void *arg)
{
    struct exchange *exchange = arg;
    exchange->client = NULL;
    exchange_raise(exchange,
                   exchange->state == FLOW_PASSING && exchange->degraded ? FLOW_DEGRADED_ALONE : FLOW_CLIENT_GONE);
}

static void on_writable(void *arg)
{
    struct exchange *exchange = arg;
    reply_pump(exchange);
    if (exchange->upstream_paused && exchange->call &&
        (!exchange->client || client_queued(exchange->client) < CLIENT_LOW_WATER)) {
        exchange->upstream_paused = false;
        upstream_resume(exchange->call);
    }
    if (exchange->state == FLOW_REPLYING && !exchange->client)
        exchange_raise(exchange, FLOW_WRITTEN);
}

static void on_body_refused(void *arg, enum problem_code problem, const char *detail)
{
    struct exchange *exchange = arg;
    if (exchange->state != FLOW_READING && exchange->state != FLOW_PASSING)
        return; /* its answer is on the way already; the connection closes after it */
    exchange_problem(exchange, problem, problem == PROBLEM_BAD_REQUEST ? OUTCOME_INVALID : OUTCOME_REJECTED);
    exchange->problem.detail = detail;
    exchange_raise(exchange, FLOW_REFUSED);
}

static void on_closed(void *context, struct client *client)
{
    struct connection *connection = context;
    struct worker *worker = connection->worker;
    assert(connection->client == client);
    if (connection->prev)
        connection->prev->next = connection->next;
    else
        worker->connections = connection->next;
    if (connection->next)
        connection->next->prev = connection->prev;
    worker->connection_count--;
    acceptor_connection_closed(worker->shared->acceptor);
    free(connection);
}

static void on_not_secured(void *context, const struct client *client, const char *why)
{
    const struct connection *connection = context;
    counter_add(&connection->worker->counters->tallies[TALLY_HANDSHAKES_FAILED], 1);
    log_line(connection->worker->shared->log, LOG_LEVEL_DEBUG, "client %s: %s", client_peer(client), why);
}

const struct client_events exchange_client_events = {
    .head = on_head,
    .body = read_body,
    .body_end = read_body_end,
    .body_refused = on_body_refused,
    .refused = on_refused,
    .half_closed = on_half_closed,
    .gone = on_gone,
    .writable = on_writable,
    .not_secured = on_not_secured,
    .closed = on_closed,
};

/* ---- the drain's limit ------------------------------------------------------------------------ */

void exchange_drain_limit(struct exchange *exchange)
{
    bool sent = exchange->call && upstream_has_sent(exchange->call);
    switch (exchange->state) {
    case FLOW_FORWARDING:
    case FLOW_STREAMING:
        exchange->ended = (struct upstream_end){.ending = sent ? UPSTREAM_BROKEN : UPSTREAM_UNSENT,
                                                .head_seen = exchange->response_seen};
        exchange->reason = sent ? STORE_REASON_DRAIN : STORE_REASON_UNSENT;
        break;
    case FLOW_PROBING:
        exchange_problem(exchange, PROBLEM_DRAINING, OUTCOME_REJECTED);
        exchange->reason = STORE_REASON_DRAIN; /* for those who wait */
        break;
    case FLOW_READING:
    case FLOW_RESERVING:
        if (exchange->client) /* else it has its answer already */
            exchange_problem(exchange, PROBLEM_DRAINING, OUTCOME_REJECTED);
        break;
    case FLOW_PASSING:
    case FLOW_SETTLING:
    case FLOW_REPLYING:
    case FLOW_OVER:
    case FLOW_STATE_COUNT:
        break;
    }
    exchange_raise(exchange, FLOW_DRAIN_LIMIT);
}
