/*
 * worker.h - a thread: event base, upstream pool, handle on the store, connections, exchanges. No locks but the one of
 * its inbox.
 *
 * Everything that a request needs hangs from its worker; nothing of a worker is touched by another thread but through
 * the calls under "control thread".
 */
#pragma once

#include "conf/conf.h"
#include "proxy/acceptor.h"
#include "proxy/client.h"
#include "proxy/counters.h"
#include "proxy/log.h"
#include "proxy/resolver.h"
#include "proxy/tls.h"
#include "proxy/upstream.h"
#include "store/store.h"

#include <pthread.h>
#include <stdatomic.h>

struct exchange;

/* Memory for keyed bodies and recordings, shared by all workers (limits.buffer_memory). Taken in slices, so that the
 * shared number is touched rarely. */
struct budget {
    _Atomic int64_t left;
};

/* A configuration as one worker holds it: requests count their references without touching another thread's cache line.
 */
struct worker_conf {
    struct conf *conf;
    struct tls *tls;                      /* of its upstreams */
    uint32_t refs;                        /* exchanges, and 1 for being the present one */
    struct route_counters **routes;       /* the worker's, in the order of conf->routes */
    struct upstream_counters **upstreams; /* of conf->upstreams */
    struct client_settings client_settings;
};

struct worker_shared { /* what all workers have in common; the server owns it */
    struct log *log;
    struct store *store;
    struct resolver *resolver;
    struct acceptor *acceptor;
    struct budget budget;
    const char *crash_at; /* debug builds: step at which to kill ourselves; NULL: never */
};

struct connection { /* a client of ours; knows its worker */
    struct worker *worker;
    struct client *client;
    struct connection *next, *prev;
};

struct worker {
    struct worker_shared *shared;
    struct event_base *base;
    struct store_handle *store;
    struct resolver_client *resolver;
    struct upstream_pool *pool;
    struct access_log *access;
    struct counters *counters; /* read by whoever writes metrics, at any time */
    struct worker_conf *conf;  /* the present one */
    struct connection *connections;
    size_t connection_count;
    struct exchange *exchanges;
    size_t exchange_count;
    struct exchange *spare_exchanges; /* over, kept for the next requests */
    size_t spare_exchange_count;
    struct buffer scratch;             /* within one call only */
    struct evp_md_ctx_st *digest;      /* see key.h */
    char *fresh;                       /* what clients read into; pages that are never used are never there */
    int64_t budget_left, budget_slice; /* bytes of the shared budget that are ours; how much is fetched at once */
    uint64_t random[2];
    bool closing; /* answers close their connections: from the beginning of a drain on, its delay included */
    bool draining, limit_passed, stopping;

    /* ---- inbox ------------------------------------------------------------------------------------ */
    struct event *store_event, *inbox_event;
    int inbox_fd;
    pthread_mutex_t inbox_lock;
    struct inbox_item *inbox;
    atomic_bool settled, idle; /* while draining: no exchange is left; and no connection either */
    pthread_t thread;
};

/* ---- control thread --------------------------------------------------------------------------- */
/* Both take references to what they are given. No thread is started. */
struct worker *worker_new(struct worker_shared *shared, struct conf *conf, struct tls *tls);
void worker_start(struct worker *worker);
void worker_reload(struct worker *worker, struct conf *conf, struct tls *tls);
/* A client's connection. tls NULL: plain; else a reference is taken. */
void worker_give(struct worker *worker, int fd, const char *peer, struct tls_server *tls);
void worker_close_after_answers(struct worker *worker); /* serves on, but each answer closes its connection */
void worker_drain(struct worker *worker);               /* finish what runs, close what is idle */
void worker_drain_limit(struct worker *worker);         /* end what runs now */
bool worker_is_settled(const struct worker *worker);    /* draining, and no exchange runs */
bool worker_is_idle(const struct worker *worker);       /* the same, and every connection is closed */
void worker_stop(struct worker *worker); /* nothing may run any more, or the limit has passed: joins the thread */
void worker_free(struct worker *worker);

/* ---- the worker's own thread ------------------------------------------------------------------ */
bool worker_take_memory(struct worker *worker, uint64_t size); /* false: limits.buffer_memory is used up */
void worker_give_memory(struct worker *worker, uint64_t size);
struct worker_conf *worker_conf_ref(struct worker_conf *conf);
void worker_conf_unref(struct worker *worker, struct worker_conf *conf);
void worker_request_id(struct worker *worker, char to[33]); /* 128 random bits as hex */
int64_t monotonic_us(void);
void crash_point(const struct worker *worker, const char *name); /* does nothing in release builds */
