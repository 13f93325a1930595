/*
 * server.c - `einmal run`: configuration, store, workers, listeners, signals; start and end.
 *
 * The control thread runs an event base of its own for signals, accepting, reloads (server_reload.c) and the drain
 * (server_drain.c). Start order matters: everything that can fail fails before a socket listens; the store is open
 * before a worker lives; signals are blocked before any thread exists, so that only the control base sees them.
 */
#include "proxy/machine.h"
#include "proxy/server_internal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- the store -------------------------------------------------------------------------------- */

static void store_log(void *arg, enum store_log_level level, const char *message)
{
    static const enum conf_log_level levels[] = {
        [STORE_LOG_ERROR] = LOG_LEVEL_ERROR,
        [STORE_LOG_WARNING] = LOG_LEVEL_WARNING,
        [STORE_LOG_INFO] = LOG_LEVEL_INFO,
        [STORE_LOG_DEBUG] = LOG_LEVEL_DEBUG,
    };
    log_line(arg, levels[level], "store: %s", message);
}

static bool open_store(struct server *server)
{
    const struct conf *conf = server->conf;
    char error[1024];
    server->shared.store = store_open(
        &(struct store_config){
            .engine = "lmdb",
            .path = conf->store.path,
            .max_size = conf->store.max_size,
            .create = conf->store.create,
            .lock_wait_ms = conf->store.lock_wait,
            .strict = conf->store.strict,
            .waiters_per_action = conf->limits.waiters_per_action,
            .waiters = conf->limits.waiters,
            .log = store_log,
            .log_arg = server->shared.log,
            .crash_at = server->options->crash_at,
        },
        error, sizeof error);
    if (!server->shared.store)
        fprintf(stderr, "einmal: %s\n", error);
    return server->shared.store != NULL;
}

/* ---- connections ------------------------------------------------------------------------------ */

static void on_accepted(void *arg, size_t listener, int fd, const char *peer)
{
    struct server *server = arg;
    worker_give(server->workers[server->next_worker++ % server->worker_count], fd, peer, server->secured[listener]);
}

static bool open_listeners(struct server *server)
{
    char error[512];
    server->shared.acceptor = acceptor_new(server->base, server->conf->listen, server->conf->listen_count,
                                           server->conf->limits.connections, on_accepted, server, error, sizeof error);
    if (!server->shared.acceptor) {
        fprintf(stderr, "einmal: %s\n", error);
        return false;
    }
    server_set_connection_limit(server, server->conf);
    return true;
}

/* ---- start and end ---------------------------------------------------------------------------- */

static void on_terminate(evutil_socket_t number, short what, void *arg)
{
    (void)what;
    server_drain_signal(arg, (int)number);
}

static void on_hangup(evutil_socket_t number, short what, void *arg)
{
    (void)number, (void)what;
    server_reload_signal(arg);
}

static struct event *watch_signal(struct server *server, int number, event_callback_fn callback)
{
    struct event *event = must_allocate(evsignal_new(server->base, number, callback, server));
    event_add(event, NULL);
    return event;
}

static void watch_signals(struct server *server)
{
    server->terminate = watch_signal(server, SIGTERM, on_terminate);
    server->interrupt = watch_signal(server, SIGINT, on_terminate);
    server->hangup = watch_signal(server, SIGHUP, on_hangup);
}

static void start_workers(struct server *server)
{
    server->worker_count = server->conf->workers ? server->conf->workers : machine_processors();
    server->workers = NEW_ARRAY(struct worker *, server->worker_count);
    for (uint32_t i = 0; i < server->worker_count; i++)
        server->workers[i] = worker_new(&server->shared, server->conf, server->tls);
    for (uint32_t i = 0; i < server->worker_count; i++)
        worker_start(server->workers[i]);
}

static void set_sources(struct server *server)
{
    const struct counters **counters = NEW_ARRAY(const struct counters *, server->worker_count);
    for (uint32_t i = 0; i < server->worker_count; i++)
        counters[i] = server->workers[i]->counters;
    server->metrics = (struct metrics_sources){
        .workers = counters,
        .worker_count = server->worker_count,
        .store = server->shared.store,
        .log = server->shared.log,
        .state = &server->state,
        .version = EINMAL_VERSION,
    };
}

static void end_workers(struct server *server)
{
    for (uint32_t i = 0; i < server->worker_count; i++)
        worker_stop(server->workers[i]);
    for (uint32_t i = 0; i < server->worker_count; i++)
        worker_free(server->workers[i]);
    free(server->workers);
    free((void *)server->metrics.workers);
}

static void quit_at_once(int number)
{
    (void)number;
    _exit(1);
}

/* The loop has ended, so a second signal has to be served without it. */
static void stop_watching_signals(struct server *server)
{
    event_free(server->terminate);
    event_free(server->interrupt);
    event_free(server->hangup);
    signal(SIGHUP, SIG_IGN);
    signal(SIGTERM, quit_at_once);
    signal(SIGINT, quit_at_once);
}

static void end(struct server *server)
{
    stop_watching_signals(server);
    server_leave_admin(server);
    end_workers(server);
    server_drain_free(server);
    acceptor_free(server->shared.acceptor);
    if (!store_close(server->shared.store, server->conf->store.timeout)) {
        log_line(server->shared.log, LOG_LEVEL_ERROR,
                 "the store has not written every record in store.timeout: actions without one will be unknown");
        log_stop(server->shared.log);
        _exit(1); /* its thread may hang in the disk: nothing of it can be freed */
    }
    server_close_admin(server);
    resolver_free(server->shared.resolver);
}

static void run(struct server *server)
{
    log_line(server->shared.log, LOG_LEVEL_INFO, "einmal %s: %u workers, %s, store %s", EINMAL_VERSION,
             server->worker_count, server->conf->listen[0].address, server->conf->store.path);
    server_start_admin(server);
    if (server->options->started)
        server->options->started(server->options->started_arg, server);
    event_base_dispatch(server->base);
    end(server);
    log_line(server->shared.log, LOG_LEVEL_INFO, "ended");
}

static void leave_at_once(int number)
{
    (void)number;
    _exit(0); /* nothing was served */
}

/* A SIGHUP that comes before there is anything to reload must not end us. SIGTERM and SIGINT must, until the drain
 * exists, and by a handler of ours: process 1 of a container is spared what is left at its default. */
static void prepare_signals(void)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGTERM, leave_at_once);
    signal(SIGINT, leave_at_once);
}

static bool start(struct server *server)
{
    sigset_t all_signals, before;
    sigfillset(&all_signals);         /* threads inherit it, and none but this one is to be interrupted */
    sigdelset(&all_signals, SIGTERM); /* waiting for the store's lock can be given up */
    sigdelset(&all_signals, SIGINT);
    pthread_sigmask(SIG_SETMASK, &all_signals, &before);
    server->shared.log = log_new();
    log_configure(server->shared.log, server->conf->log.level, server->conf->log.json);
    bool opened = open_store(server);
    if (opened)
        server->shared.resolver = resolver_new();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!opened)
        return false;
    server_declare_scopes(server, server->conf);
    atomic_init(&server->shared.budget.left, (int64_t)server->conf->limits.buffer_memory);
    server->shared.crash_at = server->options->crash_at;
    server_drain_init(server);
    watch_signals(server);
    server->worker_count = 0;
    start_workers(server);
    set_sources(server);
    return true;
}

int server_run(const struct server_options *options)
{
    struct server server = {.options = options};
    prepare_signals();
    metrics_started(&server.state);
    tls_make_ticket_keys(&server.ticket_keys);
    server.base = must_allocate(event_base_new());
    if (!server_load(&server)) {
        event_base_free(server.base);
        return 2;
    }
    if (!start(&server)) {
        server.code = 1;
    } else if (!server_open_admin(&server) || !open_listeners(&server)) {
        server.code = 1;
        end(&server);
    } else {
        run(&server);
    }
    server_reload_free(&server);
    event_base_free(server.base);
    admin_token_free(&server.token);
    log_free(server.shared.log);
    return server.code;
}
