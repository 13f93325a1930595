/*
 * server_reload.c - the configuration while the process runs: read again at SIGHUP, or when watch_config sees that it
 * or a file that it names has changed, and swapped in only if wholly valid (contract §9).
 *
 * Reading makes new objects and touches nothing; swapping gives each worker a reference and drops ours. Requests that
 * run keep the one they began with. What cannot change while running stays as the process was started with and is
 * named.
 */
#include "proxy/machine.h"
#include "proxy/server_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define DECLARE_MS 250 /* how long a start or reload waits for the store's word on its rules */

/* ---- what is recorded by other rules ---------------------------------------------------------- */

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
void server_declare_scopes(struct server *server, const struct conf *conf)
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
                 "before are not recognised and would execute again; such records live until %s",
                 route->name, text);
    }
}

/* ---- what hangs from the present configuration ------------------------------------------------ */

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

void server_set_connection_limit(struct server *server, const struct conf *conf)
{
    uint32_t wanted = conf->limits.connections, allowed = machine_allow_connections(wanted);
    if (allowed < wanted)
        log_line(server->shared.log, LOG_LEVEL_WARNING,
                 "limits.connections lowered from %u to %u: the limit of open descriptors (ulimit -n) allows no more",
                 wanted, allowed);
    acceptor_set_limit(server->shared.acceptor, allowed);
}

/* ---- reading ---------------------------------------------------------------------------------- */

/* What one reading gives: all of it, or nothing (conf is NULL). */
struct loaded {
    struct conf *conf;
    struct tls *tls;
    struct admin_token token;
};

static void loaded_drop(struct loaded *loaded)
{
    conf_unref(loaded->conf);
    tls_unref(loaded->tls);
    admin_token_free(&loaded->token);
    *loaded = (struct loaded){0};
}

static void on_changed(void *arg, const char *path);

/* True: files are watched that were not before. */
static bool watch_named(struct server *server, const struct conf *conf)
{
    size_t count;
    const char **paths = conf_files(conf, &count);
    if (!server->reload.watch)
        server->reload.watch = watch_new(server->base, &watch_usual_times, on_changed, server);
    bool news = watch_set(server->reload.watch, paths, count);
    free(paths);
    return news;
}

/* One attempt. What a configuration names is watched if it says so and is valid, or if the running one says so, too: a
 * certificate that is missing yet may come. True: it is to be read once more. */
static bool read_once(struct server *server, FILE *messages, struct loaded *loaded)
{
    const struct server_options *options = server->options;
    *loaded = (struct loaded){
        .conf = conf_load(options->file, &options->overrides, options->environment, options->environment_arg, messages),
    };
    if (!loaded->conf)
        return false;
    loaded->tls = tls_load(loaded->conf, &server->ticket_keys, messages);
    bool whole = admin_token_load(loaded->conf, &loaded->token, messages) && loaded->tls;
    bool watched = loaded->conf->watch_config && (whole || (server->conf && server->conf->watch_config));
    bool again = watched && watch_named(server, loaded->conf);
    if (!whole)
        loaded_drop(loaded);
    return again;
}

/* The messages, to be freed; loaded->conf is NULL where some are errors. What was read before it was watched may be
 * older than what counts as known: it is read once more. */
static char *read_all(struct server *server, struct loaded *loaded)
{
    char *text = NULL;
    bool again = true;
    *loaded = (struct loaded){0};
    for (int attempt = 0; again && attempt < 2; attempt++) {
        size_t len = 0;
        loaded_drop(loaded);
        free(text);
        FILE *messages = must_allocate(open_memstream(&text, &len));
        again = read_once(server, messages, loaded);
        fclose(messages);
    }
    return text;
}

/* ---- swapping --------------------------------------------------------------------------------- */

/* Compared with what the process was started with: that is what is in force. */
static void name_fixed(const struct server *server, const struct conf *conf)
{
    struct conf_difference differences[16];
    size_t count =
        conf_fixed_differences(server->started_with, conf, differences, sizeof differences / sizeof *differences);
    for (size_t i = 0; i < count; i++)
        log_line(server->shared.log, LOG_LEVEL_WARNING,
                 "%s cannot change while running: %s stays in force, %s takes effect at the next start",
                 differences[i].name, differences[i].running, differences[i].wanted);
}

static void swap(struct server *server, const struct loaded *loaded)
{
    struct conf *conf = loaded->conf;
    name_fixed(server, conf);
    server_declare_scopes(server, conf);
    log_configure(server->shared.log, conf->log.level, conf->log.json);
    for (uint32_t i = 0; i < server->worker_count; i++)
        worker_reload(server->workers[i], conf, loaded->tls);
    server_reload_admin(server, conf, loaded->token);
    server_set_connection_limit(server, conf);
    conf_unref(server->conf);
    tls_unref(server->tls);
    server->conf = conf;
    server->tls = loaded->tls;
    set_secured(server);
    if (!conf->watch_config) {
        watch_free(server->reload.watch);
        server->reload.watch = NULL;
    }
}

/* `reason` completes "reading the configuration again: …". */
static void reload(struct server *server, const char *reason)
{
    struct loaded loaded;
    struct log *log = server->shared.log;
    if (server_is_draining(server)) {
        log_line(log, LOG_LEVEL_INFO, "draining: the configuration is not read again (%s)", reason);
        return;
    }
    log_line(log, LOG_LEVEL_INFO, "reading the configuration again: %s", reason);
    char *messages = read_all(server, &loaded);
    log_text(log, messages);
    free(messages);
    metrics_reloaded(&server->state, loaded.conf != NULL);
    if (loaded.conf) {
        swap(server, &loaded);
        log_line(log, LOG_LEVEL_INFO, "configuration reloaded");
    } else {
        log_line(log, LOG_LEVEL_ERROR, "the configuration is not valid: the running one stays in force");
    }
}

/* ---- who asks for it -------------------------------------------------------------------------- */

static void on_changed(void *arg, const char *path)
{
    char reason[600];
    snprintf(reason, sizeof reason, "%s has changed", path);
    reload(arg, reason);
}

static void on_wanted(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct server *server = arg;
    if (server->reload.watch)
        watch_look(server->reload.watch); /* what is read now is no news later */
    reload(server, "SIGHUP");
}

void server_reload_signal(struct server *server)
{
    event_active(server->reload.wanted, EV_TIMEOUT, 0);
}

/* ---- life ------------------------------------------------------------------------------------- */

bool server_load(struct server *server)
{
    struct loaded loaded;
    char *messages = read_all(server, &loaded);
    fputs(messages, stderr);
    free(messages);
    if (!loaded.conf)
        return false;
    server->conf = loaded.conf;
    server->tls = loaded.tls;
    server->token = loaded.token;
    server->started_with = conf_ref(loaded.conf);
    server->secured = NEW_ARRAY(struct tls_server *, loaded.conf->listen_count);
    set_secured(server);
    server->reload.wanted = must_allocate(event_new(server->base, -1, 0, on_wanted, server));
    return true;
}

void server_reload_free(struct server *server)
{
    watch_free(server->reload.watch);
    event_free(server->reload.wanted);
    forget_secured(server);
    tls_unref(server->tls);
    conf_unref(server->conf);
    conf_unref(server->started_with);
}
