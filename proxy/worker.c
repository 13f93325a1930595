/*
 * worker.c - a thread and its event loop.
 *
 * The loop runs turn by turn: after each turn the access log is handed on. What comes from other threads comes through
 * one inbox (descriptors, a new configuration, orders to drain or stop) or through the store's handle; both wake the
 * loop by an eventfd.
 *
 * Invariant at the end: no connection, no exchange, no upstream call is left, and the asserts say so.
 */
#include "proxy/worker.h"
#include "proxy/ascii.h"
#include "proxy/clock.h"
#include "proxy/exchange.h"
#include "proxy/key.h"
#include "proxy/thread.h"

#include <assert.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#define BUDGET_SHARES 1024 /* a worker keeps at most two of so many parts of limits.buffer_memory to itself */

enum inbox_kind { INBOX_CONNECTION, INBOX_CONF, INBOX_CLOSE, INBOX_DRAIN, INBOX_DRAIN_LIMIT, INBOX_STOP };

struct inbox_item {
    struct inbox_item *next;
    enum inbox_kind kind;
    int fd;
    char peer[64];
    struct tls_server *server; /* CONNECTION */
    struct conf *conf;         /* CONF */
    struct tls *tls;
};

int64_t monotonic_us(void)
{
    return clock_us(CLOCK_MONOTONIC);
}

void crash_point(const struct worker *worker, const char *name)
{
#ifdef EINMAL_CRASH_POINTS
    if (worker->shared->crash_at && strcmp(worker->shared->crash_at, name) == 0)
        kill(getpid(), SIGKILL);
#else
    (void)worker, (void)name;
#endif
}

/* ---- small tools ------------------------------------------------------------------------------ */

/* xorshift128+: ids must differ, nobody has to be unable to guess them. */
static uint64_t next_random(uint64_t state[2])
{
    uint64_t a = state[0], b = state[1];
    state[0] = b;
    a ^= a << 23;
    state[1] = a ^ b ^ (a >> 18) ^ (b >> 5);
    return state[1] + b;
}

void worker_request_id(struct worker *worker, char to[33])
{
    uint64_t halves[2] = {next_random(worker->random), next_random(worker->random)};
    ascii_hex_text(to, (const uint8_t *)halves, sizeof halves);
}

/* Sizes beyond what is at hand are fetched from the shared number; what gathers beyond two slices goes back. */
bool worker_take_memory(struct worker *worker, uint64_t size)
{
    int64_t need = (int64_t)size - worker->budget_left;
    if (need > 0) {
        int64_t fetch = need + worker->budget_slice;
        if (atomic_fetch_sub(&worker->shared->budget.left, fetch) < fetch) {
            atomic_fetch_add(&worker->shared->budget.left, fetch);
            fetch = need; /* no slice to spare: just what is needed */
            if (atomic_fetch_sub(&worker->shared->budget.left, fetch) < fetch) {
                atomic_fetch_add(&worker->shared->budget.left, fetch);
                return false;
            }
        }
        worker->budget_left += fetch;
    }
    worker->budget_left -= (int64_t)size;
    return true;
}

void worker_give_memory(struct worker *worker, uint64_t size)
{
    worker->budget_left += (int64_t)size;
    if (worker->budget_left > 2 * worker->budget_slice) {
        atomic_fetch_add(&worker->shared->budget.left, worker->budget_left - worker->budget_slice);
        worker->budget_left = worker->budget_slice;
    }
}

/* ---- configuration ---------------------------------------------------------------------------- */

/* Counters are found by name once a configuration, so that a request finds them by its place. */
static void find_counters(struct worker_conf *held, struct counters *counters)
{
    const struct conf *conf = held->conf;
    held->routes = NEW_ARRAY(struct route_counters *, conf->route_count);
    held->upstreams = NEW_ARRAY(struct upstream_counters *, conf->upstream_count);
    for (size_t i = 0; i < conf->route_count; i++)
        held->routes[i] = counters_route(counters, conf->routes[i].name);
    for (size_t i = 0; i < conf->upstream_count; i++)
        held->upstreams[i] = counters_upstream(counters, conf->upstreams[i].name);
}

static struct worker_conf *worker_conf_new(struct worker *worker, struct conf *conf, struct tls *tls)
{
    struct worker_conf *held = NEW(struct worker_conf);
    held->conf = conf_ref(conf);
    held->tls = tls_ref(tls);
    held->refs = 1;
    held->client_settings = (struct client_settings){
        .limits = {conf->limits.header_bytes, conf->limits.headers, conf->limits.request_target},
        .fresh = worker->fresh,
        .header_timeout = conf->timeouts.header,
        .body_timeout = conf->timeouts.body,
        .idle_timeout = conf->timeouts.idle,
        .send_timeout = conf->timeouts.send,
    };
    find_counters(held, worker->counters);
    return held;
}

struct worker_conf *worker_conf_ref(struct worker_conf *conf)
{
    conf->refs++;
    return conf;
}

void worker_conf_unref(struct worker *worker, struct worker_conf *conf)
{
    (void)worker;
    assert(conf->refs > 0);
    if (--conf->refs)
        return;
    conf_unref(conf->conf);
    tls_unref(conf->tls);
    free(conf->routes);
    free(conf->upstreams);
    free(conf);
}

/* Connections use the new settings from their next request on; requests that run keep what they began with. */
static void reload(struct worker *worker, struct conf *conf, struct tls *tls)
{
    struct worker_conf *old = worker->conf;
    worker->conf = worker_conf_new(worker, conf, tls);
    conf_unref(conf);
    tls_unref(tls);
    for (struct connection *connection = worker->connections; connection; connection = connection->next)
        client_set_settings(connection->client, &worker->conf->client_settings);
    upstream_pool_set_limits(worker->pool, &worker->conf->client_settings.limits);
    upstream_pool_drop_idle(worker->pool);
    worker_conf_unref(worker, old);
}

/* ---- connections ------------------------------------------------------------------------------ */

static void adopt(struct worker *worker, int fd, const char *peer, struct tls_server *tls)
{
    struct connection *connection = NEW(struct connection);
    connection->worker = worker;
    connection->next = worker->connections;
    if (connection->next)
        connection->next->prev = connection;
    worker->connections = connection;
    worker->connection_count++;
    counter_add(&worker->counters->tallies[TALLY_CLIENTS_OPENED], 1);
    connection->client =
        client_new(worker->base, fd, peer, &worker->conf->client_settings, &exchange_client_events, connection);
    if (tls)
        client_start_tls(connection->client, tls);
    tls_server_unref(tls);
    if (worker->draining)
        client_close_when_idle(connection->client);
}

static void drain(struct worker *worker)
{
    worker->closing = worker->draining = true;
    for (struct connection *connection = worker->connections, *next; connection; connection = next) {
        next = connection->next;
        client_close_when_idle(connection->client);
    }
}

static void drain_limit(struct worker *worker)
{
    worker->limit_passed = true;
    for (struct exchange *exchange = worker->exchanges, *next; exchange; exchange = next) {
        next = exchange_next(exchange); /* ending one never frees another */
        exchange_drain_limit(exchange);
    }
}

/* ---- inbox ------------------------------------------------------------------------------------ */

static void put(struct worker *worker, struct inbox_item *item)
{
    pthread_mutex_lock(&worker->inbox_lock);
    struct inbox_item **end = &worker->inbox;
    bool was_empty = !*end;
    while (*end)
        end = &(*end)->next;
    *end = item;
    pthread_mutex_unlock(&worker->inbox_lock);
    if (was_empty)
        waker_wake(worker->inbox_fd);
}

static void put_order(struct worker *worker, enum inbox_kind kind)
{
    struct inbox_item *item = NEW(struct inbox_item);
    item->kind = kind;
    put(worker, item);
}

static void handle(struct worker *worker, struct inbox_item *item)
{
    switch (item->kind) {
    case INBOX_CONNECTION:
        adopt(worker, item->fd, item->peer, item->server);
        break;
    case INBOX_CONF:
        reload(worker, item->conf, item->tls);
        break;
    case INBOX_CLOSE:
        worker->closing = true;
        break;
    case INBOX_DRAIN:
        drain(worker);
        break;
    case INBOX_DRAIN_LIMIT:
        drain_limit(worker);
        break;
    case INBOX_STOP:
        worker->stopping = true;
        break;
    }
    free(item);
}

static void on_inbox(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct worker *worker = arg;
    waker_heard(fd);
    pthread_mutex_lock(&worker->inbox_lock);
    struct inbox_item *item = worker->inbox;
    worker->inbox = NULL;
    pthread_mutex_unlock(&worker->inbox_lock);
    while (item) {
        struct inbox_item *next = item->next;
        handle(worker, item);
        item = next;
    }
}

static void on_store(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    store_handle_deliver(((struct worker *)arg)->store);
}

void worker_give(struct worker *worker, int fd, const char *peer, struct tls_server *tls)
{
    struct inbox_item *item = NEW(struct inbox_item);
    item->kind = INBOX_CONNECTION;
    item->fd = fd;
    item->server = tls_server_ref(tls);
    snprintf(item->peer, sizeof item->peer, "%s", peer);
    put(worker, item);
}

void worker_reload(struct worker *worker, struct conf *conf, struct tls *tls)
{
    struct inbox_item *item = NEW(struct inbox_item);
    item->kind = INBOX_CONF;
    item->conf = conf_ref(conf);
    item->tls = tls_ref(tls);
    put(worker, item);
}

void worker_close_after_answers(struct worker *worker)
{
    put_order(worker, INBOX_CLOSE);
}

void worker_drain(struct worker *worker)
{
    put_order(worker, INBOX_DRAIN);
}

void worker_drain_limit(struct worker *worker)
{
    put_order(worker, INBOX_DRAIN_LIMIT);
}

bool worker_is_settled(const struct worker *worker)
{
    return atomic_load(&worker->settled);
}

bool worker_is_idle(const struct worker *worker)
{
    return atomic_load(&worker->idle);
}

/* ---- the thread ------------------------------------------------------------------------------- */

/* What is there now. Between two turns nothing of it changes. */
static void tell(const struct worker *worker)
{
    counter *tallies = worker->counters->tallies;
    counter_set(&tallies[TALLY_CLIENTS], worker->connection_count);
    counter_set(&tallies[TALLY_UPSTREAMS], upstream_pool_connections(worker->pool));
    counter_set(&tallies[TALLY_UPSTREAMS_OPENED], upstream_pool_opened(worker->pool));
    counter_set(&tallies[TALLY_IN_FLIGHT], worker->exchange_count);
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    while (!worker->stopping) {
        event_base_loop(worker->base, EVLOOP_ONCE);
        access_log_turn(worker->access);
        tell(worker);
        if (worker->draining) {
            atomic_store(&worker->settled, worker->exchange_count == 0);
            atomic_store(&worker->idle, worker->exchange_count == 0 && worker->connection_count == 0);
        }
    }
    return NULL;
}

static struct event *watch(struct worker *worker, int fd, event_callback_fn callback)
{
    struct event *event = must_allocate(event_new(worker->base, fd, EV_READ | EV_PERSIST, callback, worker));
    event_add(event, NULL);
    return event;
}

struct worker *worker_new(struct worker_shared *shared, struct conf *conf, struct tls *tls)
{
    struct worker *worker = NEW(struct worker);
    worker->base = thread_new_base();
    worker->shared = shared;
    worker->counters = counters_new();
    worker->fresh = must_allocate(malloc(CLIENT_INPUT_MAX));
    worker->conf = worker_conf_new(worker, conf, tls);
    worker->store = store_handle_open(shared->store);
    worker->resolver = resolver_client_new(shared->resolver, worker->base);
    worker->pool = upstream_pool_new(worker->base, worker->resolver, &worker->conf->client_settings.limits);
    worker->budget_slice =
        (int64_t)(conf->limits.buffer_memory / BUDGET_SHARES); /* what may lie idle here is little of the whole */
    worker->access = access_log_open(shared->log);
    worker->digest = key_digest_new();
    pthread_mutex_init(&worker->inbox_lock, NULL);
    worker->inbox_fd = waker_open();
    ssize_t got = getrandom(worker->random, sizeof worker->random, 0);
    assert(got == sizeof worker->random);
    worker->inbox_event = watch(worker, worker->inbox_fd, on_inbox);
    worker->store_event = watch(worker, store_handle_fd(worker->store), on_store);
    return worker;
}

void worker_start(struct worker *worker)
{
    thread_start(&worker->thread, worker_main, worker);
}

void worker_stop(struct worker *worker)
{
    put_order(worker, INBOX_STOP);
    pthread_join(worker->thread, NULL);
}

void worker_free(struct worker *worker)
{
    while (worker->connections)
        client_free_now(worker->connections->client);
    assert(!worker->exchanges && "a drain ends every exchange");
    exchange_free_spares(worker);
    buffer_free(&worker->scratch);
    free(worker->fresh);
    key_digest_free(worker->digest);
    assert(!worker->inbox);
    event_free(worker->store_event);
    event_free(worker->inbox_event);
    close(worker->inbox_fd);
    upstream_pool_free(worker->pool);
    resolver_client_free(worker->resolver);
    store_handle_close(worker->store);
    access_log_close(worker->access);
    worker_conf_unref(worker, worker->conf);
    counters_free(worker->counters);
    event_base_free(worker->base);
    pthread_mutex_destroy(&worker->inbox_lock);
    free(worker);
}
