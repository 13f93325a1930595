/*
 * server_internal.h - what server.c (start and end), server_reload.c, server_drain.c and server_admin.c share. Private
 * to these.
 *
 * All of it belongs to the control thread but what is atomic: that may be asked by any thread.
 */
#pragma once

#include "proxy/admin/admin.h"
#include "proxy/metrics.h"
#include "proxy/server.h"
#include "proxy/watch.h"
#include "proxy/worker.h"

#include <event2/event.h>

/*
 * The end of the process (contract §9). Phases follow one another, none is skipped but the delay:
 *
 *     NONE → DELAY (not ready, accepting, answers close) → RUNS (listeners closed, what runs finishes)
 *          → LIMIT (timeouts.drain has passed: what runs is ended) → OVER
 *
 * LATE is a LIMIT whose records the store has not confirmed in store.timeout. Who reaches OVER leaves if a signal has
 * asked for it; a drain by order (admin side) stays there until one does.
 */
enum drain_phase { DRAIN_NONE, DRAIN_DELAY, DRAIN_RUNS, DRAIN_LIMIT, DRAIN_LATE, DRAIN_OVER };

struct server_drain {
    _Atomic enum drain_phase phase;
    bool signalled;
    int64_t closes_ms, limit_ms, give_up_ms; /* when the delay, the limit and the store's time are over */
    struct event *timer;
    struct event *order;
    int order_fd;        /* an eventfd: other threads order a drain by it */
    atomic_bool ordered; /* readiness fails at once, before the control thread has heard of it */
};

struct server_reload {    /* how the present configuration came to be */
    struct event *wanted; /* SIGHUPs that come together are one */
    struct watch *watch;  /* NULL: watch_config is false */
};

struct server {
    const struct server_options *options;
    struct conf *conf;         /* the present one */
    struct conf *started_with; /* what cannot change is in force as it says */
    struct tls_ticket_keys ticket_keys;
    struct tls *tls;             /* of `conf` */
    struct tls_server **secured; /* the contexts of started_with->listen that new connections get; NULL: plain */
    struct worker_shared shared;
    struct worker **workers;
    uint32_t worker_count;
    uint32_t next_worker;
    struct event_base *base;
    struct event *terminate, *interrupt, *hangup;
    struct server_reload reload;
    struct server_drain drain;
    struct metrics_state state;     /* what metrics tell of this process */
    struct metrics_sources metrics; /* for whoever writes them, as long as the workers are there */
    struct admin_token token;       /* until the admin side takes it */
    struct admin *admin;            /* NULL: no side listeners */
    bool admin_runs;
    int code;
};

/* ---- server_reload.c -------------------------------------------------------------------------- */

/* The configuration and what TLS needs, for a start; false: what is wrong has been told on standard error. */
bool server_load(struct server *server);
/* Says in the log which routes' recorded actions are out of reach because what identifies them changed. */
void server_declare_scopes(struct server *server, const struct conf *conf);
void server_set_connection_limit(struct server *server, const struct conf *conf);
/* SIGHUP: reads the configuration again, once for all that come together. */
void server_reload_signal(struct server *server);
void server_reload_free(struct server *server);

/* ---- server_admin.c --------------------------------------------------------------------------- */

bool server_open_admin(struct server *server); /* listens; false: told on standard error */
void server_start_admin(struct server *server);
void server_reload_admin(struct server *server, struct conf *conf, struct admin_token token); /* takes the token */
/* It asks no more of workers and store. Does not come back if the store hangs. */
void server_leave_admin(struct server *server);
void server_close_admin(struct server *server);

/* ---- server_drain.c --------------------------------------------------------------------------- */

void server_drain_init(struct server *server); /* before a thread exists that could order one */
/* SIGTERM or SIGINT: begins a drain or goes on with one, and ends the process after it. The second quits at once. */
void server_drain_signal(struct server *server, int number);
void server_drain_free(struct server *server);
