/*
 * server.c - `einmal run`: configuration, store, workers, listeners, signals; start, reload, drain, end.
 *
 * The control thread runs an event base of its own for signals, accepting and the drain. Start order matters:
 * everything that can fail fails before a socket listens; the store is open before a worker lives; signals are blocked
 * before any thread exists, so that only the control base sees them.
 *
 * The drain (contract §9): listeners close, workers finish what runs; at timeouts.drain they end it; then commits get
 * store.timeout more. A second signal quits at once.
 */
#include "proxy/server.h"
#include "proxy/machine.h"
#include "proxy/worker.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DRAIN_LOOK_MS 10  /* how often the drain looks whether the workers are done */
#define DECLARE_MS    250 /* how long a start or reload waits for the store's word on its rules */

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
    struct event *terminate, *interrupt, *hangup, *drain_timer;
    bool draining, limit_passed;
    int64_t limit_ms, give_up_ms;
    int code;
};

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

/* What identifies the actions of a scope name: the rules of all routes that share it, each different one once, in any
 * order. */
static void scope_digest(const struct conf *conf, size_t first, uint8_t digest[STORE_HASH_LEN])
{
    memset(digest, 0, STORE_HASH_LEN);
    for (size_t i = first; i < conf->route_count; i++) {
        bool again = strcmp(conf->routes[i].scope_name, conf->routes[first].scope_name) != 0;
        for (size_t j = first; j < i && !again; j++)
            again = strcmp(conf->routes[j].scope_name, conf->routes[i].scope_name) == 0 &&
                    memcmp(conf->routes[j].digest, conf->routes[i].digest, STORE_HASH_LEN) == 0;
        for (size_t k = 0; k < STORE_HASH_LEN && !again; k++)
            digest[k] = (uint8_t)(digest[k] + conf->routes[i].digest[k]);
    }
}

static bool scope_seen(const struct conf *conf, size_t route)
{
    for (size_t i = 0; i < route; i++)
        if (strcmp(conf->routes[i].scope_name, conf->routes[route].scope_name) == 0)
            return true;
    return false;
}

/* Records of a scope that was identified otherwise before are out of reach until they expire: said loudly. A store that
 * hangs must not hold up accepting and signals, so it is given little time to answer. */
static void declare_scopes(struct server *server, const struct conf *conf)
{
    int64_t give_up_ms = monotonic_ms() + DECLARE_MS;
    for (size_t i = 0; i < conf->route_count; i++) {
        const struct conf_route *route = &conf->routes[i];
        int64_t until = 0, left = give_up_ms - monotonic_ms();
        uint8_t digest[STORE_HASH_LEN];
        char text[32];
        if (scope_seen(conf, i))
            continue;
        scope_digest(conf, i, digest);
        enum store_declared declared =
            store_declare_scope(server->shared.store, route->scope_name, digest, left > 0 ? left : 0, &until);
        if (declared == STORE_DECLARED_NOT_ANSWERED) {
            log_line(server->shared.log, LOG_LEVEL_WARNING,
                     "the store does not answer: whether the rules of recorded actions changed is not known");
            return;
        }
        if (declared == STORE_DECLARED_SAME || !until)
            continue;
        format_time(text, until);
        log_line(server->shared.log, LOG_LEVEL_WARNING,
                 "route %s: scope, key, on_mismatch or fingerprint changed: repetitions of actions that were recorded "
                 "before are not "
                 "recognised and would execute again; such records live until %s",
                 route->name, text);
    }
}

/* ---- connections ------------------------------------------------------------------------------ */

static void on_accepted(void *arg, size_t listener, int fd, const char *peer)
{
    struct server *server = arg;
    worker_give(server->workers[server->next_worker++ % server->worker_count], fd, peer, server->secured[listener]);
}

/* Listeners stay as they were at the start; what they show their clients comes from the present configuration, if it
 * has them still. */
static void set_secured(struct server *server)
{
    for (size_t i = 0; i < server->started_with->listen_count; i++)
        for (size_t j = 0; j < server->conf->listen_count; j++) {
            if (strcmp(server->started_with->listen[i].address, server->conf->listen[j].address) != 0 ||
                server->started_with->listen[i].tls != server->conf->listen[j].tls)
                continue;
            tls_server_unref(server->secured[i]);
            server->secured[i] = tls_server_ref(tls_server_of(server->tls, j));
        }
}

static void forget_secured(struct server *server)
{
    for (size_t i = 0; i < server->started_with->listen_count; i++)
        tls_server_unref(server->secured[i]);
    free(server->secured);
}

static void set_connection_limit(struct server *server, const struct conf *conf)
{
    uint32_t wanted = conf->limits.connections, allowed = machine_allow_connections(wanted);
    if (allowed < wanted)
        log_line(server->shared.log, LOG_LEVEL_WARNING,
                 "limits.connections lowered from %u to %u: the limit of open descriptors (ulimit -n) allows no more",
                 wanted, allowed);
    acceptor_set_limit(server->shared.acceptor, allowed);
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
    set_connection_limit(server, server->conf);
    return true;
}

/* ---- reload ----------------------------------------------------------------------------------- */

/* Compared with what the process was started with: that is what is in force. */
static void name_fixed(const struct server *server, const struct conf *conf)
{
    const char *names[16];
    size_t count = conf_fixed_differences(server->started_with, conf, names, sizeof(names) / sizeof(names[0]));
    for (size_t i = 0; i < count; i++)
        log_line(server->shared.log, LOG_LEVEL_WARNING,
                 "%s cannot change while running: it takes effect at the next start", names[i]);
}

/* False: something is wrong, and told. */
static bool load(struct server *server, FILE *messages, struct conf **conf, struct tls **tls)
{
    const struct server_options *options = server->options;
    *conf = conf_load(options->file, &options->overrides, options->environment, options->environment_arg, messages);
    *tls = *conf ? tls_load(*conf, &server->ticket_keys, messages) : NULL;
    if (!*tls)
        conf_unref(*conf);
    return *tls != NULL;
}

/* The same while running: what it has to say goes through the log, which never waits for a reader. */
static bool load_again(struct server *server, struct conf **conf, struct tls **tls)
{
    char *text = NULL;
    size_t len = 0;
    FILE *messages = must_allocate(open_memstream(&text, &len));
    bool loaded = load(server, messages, conf, tls);
    fclose(messages);
    log_text(server->shared.log, text);
    free(text);
    return loaded;
}

static void on_hangup(evutil_socket_t number, short what, void *arg)
{
    (void)number, (void)what;
    struct server *server = arg;
    struct conf *conf;
    struct tls *tls;
    if (server->draining)
        return;
    if (!load_again(server, &conf, &tls)) {
        log_line(server->shared.log, LOG_LEVEL_ERROR, "the configuration is not valid: the running one stays in force");
        return;
    }
    name_fixed(server, conf);
    declare_scopes(server, conf);
    log_configure(server->shared.log, conf->log.level, conf->log.json);
    for (uint32_t i = 0; i < server->worker_count; i++)
        worker_reload(server->workers[i], conf, tls);
    set_connection_limit(server, conf);
    conf_unref(server->conf);
    tls_unref(server->tls);
    server->conf = conf;
    server->tls = tls;
    set_secured(server);
    log_line(server->shared.log, LOG_LEVEL_INFO, "configuration reloaded");
}

/* ---- drain ------------------------------------------------------------------------------------ */

static bool all(const struct server *server, bool (*test)(const struct worker *worker))
{
    for (uint32_t i = 0; i < server->worker_count; i++)
        if (!test(server->workers[i]))
            return false;
    return true;
}

static void on_drain_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct server *server = arg;
    int64_t now = monotonic_ms();
    if (all(server, worker_is_idle) || (server->limit_passed && all(server, worker_is_settled))) {
        event_base_loopbreak(server->base);
    } else if (!server->limit_passed && now >= server->limit_ms) {
        server->limit_passed = true;
        server->give_up_ms = now + server->conf->store.timeout;
        log_line(server->shared.log, LOG_LEVEL_WARNING,
                 "timeouts.drain has passed: what still runs is ended and recorded unknown");
        for (uint32_t i = 0; i < server->worker_count; i++)
            worker_drain_limit(server->workers[i]);
    } else if (server->limit_passed && now >= server->give_up_ms) {
        log_line(server->shared.log, LOG_LEVEL_ERROR, "the store has not confirmed every record in store.timeout");
        log_stop(server->shared.log);
        _exit(1); /* nothing may be freed while others still hold it */
    }
}

static void on_terminate(evutil_socket_t number, short what, void *arg)
{
    (void)what;
    struct server *server = arg;
    if (server->draining) {
        log_line(server->shared.log, LOG_LEVEL_WARNING, "second signal: quitting at once");
        log_stop(server->shared.log);
        _exit(1);
    }
    server->draining = true;
    server->limit_ms = monotonic_ms() + server->conf->timeouts.drain;
    log_line(server->shared.log, LOG_LEVEL_INFO, "signal %d: draining, at most %lld ms", (int)number,
             (long long)server->conf->timeouts.drain);
    acceptor_stop(server->shared.acceptor);
    for (uint32_t i = 0; i < server->worker_count; i++)
        worker_drain(server->workers[i]);
    event_add(server->drain_timer, &(struct timeval){0, DRAIN_LOOK_MS * 1000});
}

/* ---- start and end ---------------------------------------------------------------------------- */

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
    server->drain_timer = must_allocate(event_new(server->base, -1, EV_PERSIST, on_drain_timer, server));
}

/* Threads inherit the mask: with these blocked while they are created only the control thread is interrupted. */
static void start_workers(struct server *server)
{
    sigset_t all_signals, before;
    sigfillset(&all_signals);
    pthread_sigmask(SIG_SETMASK, &all_signals, &before);
    server->worker_count = server->conf->workers ? server->conf->workers : machine_processors();
    server->workers = NEW_ARRAY(struct worker *, server->worker_count);
    for (uint32_t i = 0; i < server->worker_count; i++)
        server->workers[i] = worker_new(&server->shared, server->conf, server->tls);
    for (uint32_t i = 0; i < server->worker_count; i++)
        worker_start(server->workers[i]);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void end_workers(struct server *server)
{
    for (uint32_t i = 0; i < server->worker_count; i++)
        worker_stop(server->workers[i]);
    for (uint32_t i = 0; i < server->worker_count; i++)
        worker_free(server->workers[i]);
    free(server->workers);
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
    event_free(server->drain_timer);
    signal(SIGHUP, SIG_IGN);
    signal(SIGTERM, quit_at_once);
    signal(SIGINT, quit_at_once);
}

static void end(struct server *server)
{
    stop_watching_signals(server);
    end_workers(server);
    acceptor_free(server->shared.acceptor);
    if (!store_close(server->shared.store, server->conf->store.timeout)) {
        log_line(server->shared.log, LOG_LEVEL_ERROR,
                 "the store has not written every record in store.timeout: actions without one will be unknown");
        log_stop(server->shared.log);
        _exit(1); /* its thread may hang in the disk: nothing of it can be freed */
    }
    resolver_free(server->shared.resolver);
}

static void run(struct server *server)
{
    log_line(server->shared.log, LOG_LEVEL_INFO, "einmal %s: %u workers, %s, store %s", EINMAL_VERSION,
             server->worker_count, server->conf->listen[0].address, server->conf->store.path);
    event_base_dispatch(server->base);
    end(server);
    log_line(server->shared.log, LOG_LEVEL_INFO, "ended");
}

/* A SIGHUP that comes before there is anything to reload must not end us; SIGTERM and SIGINT may, until the drain
 * exists. */
static void prepare_signals(void)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
}

static bool start(struct server *server)
{
    sigset_t all_signals, before;
    sigfillset(&all_signals);
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
    declare_scopes(server, server->conf);
    atomic_init(&server->shared.budget.left, (int64_t)server->conf->limits.buffer_memory);
    server->shared.crash_at = server->options->crash_at;
    watch_signals(server);
    server->worker_count = 0;
    start_workers(server);
    return true;
}

int server_run(const struct server_options *options)
{
    struct server server = {.options = options};
    prepare_signals();
    tls_make_ticket_keys(&server.ticket_keys);
    if (!load(&server, stderr, &server.conf, &server.tls))
        return 2;
    server.started_with = conf_ref(server.conf);
    server.secured = NEW_ARRAY(struct tls_server *, server.conf->listen_count);
    set_secured(&server);
    server.base = must_allocate(event_base_new());
    if (!start(&server)) {
        server.code = 1;
    } else if (!open_listeners(&server)) {
        server.code = 1;
        end(&server);
    } else {
        run(&server);
    }
    event_base_free(server.base);
    forget_secured(&server);
    tls_unref(server.tls);
    conf_unref(server.conf);
    conf_unref(server.started_with);
    log_free(server.shared.log);
    return server.code;
}
