/*
 * server_reload.c - the configuration while the process runs: read again at SIGHUP, swapped in only if wholly valid
 * (contract §9).
 *
 * Reading makes new objects and touches nothing; swapping gives each worker a reference and drops ours. Requests that
 * run keep the one they began with. What cannot change while running stays as the process was started with and is
 * named.
 */
#include "proxy/machine.h"
#include "proxy/server_internal.h"

#include <stdio.h>
#include <stdlib.h>

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
                 "before are not "
                 "recognised and would execute again; such records live until %s",
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

void server_forget_secured(struct server *server)
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

/* False: something is wrong, and told. */
static bool load(struct server *server, FILE *messages, struct conf **conf, struct tls **tls, struct admin_token *token)
{
    const struct server_options *options = server->options;
    *conf = conf_load(options->file, &options->overrides, options->environment, options->environment_arg, messages);
    if (!*conf)
        return false;
    *tls = tls_load(*conf, &server->ticket_keys, messages);
    bool loaded = admin_token_load(*conf, token, messages) && *tls;
    if (!loaded) {
        admin_token_free(token);
        tls_unref(*tls);
        conf_unref(*conf);
    }
    return loaded;
}

bool server_load(struct server *server)
{
    if (!load(server, stderr, &server->conf, &server->tls, &server->token))
        return false;
    server->started_with = conf_ref(server->conf);
    server->secured = NEW_ARRAY(struct tls_server *, server->conf->listen_count);
    set_secured(server);
    return true;
}

/* The same while running: what it has to say goes through the log, which never waits for a reader. */
static bool load_again(struct server *server, struct conf **conf, struct tls **tls, struct admin_token *token)
{
    char *text = NULL;
    size_t len = 0;
    FILE *messages = must_allocate(open_memstream(&text, &len));
    bool loaded = load(server, messages, conf, tls, token);
    fclose(messages);
    log_text(server->shared.log, text);
    free(text);
    return loaded;
}

/* ---- swapping --------------------------------------------------------------------------------- */

/* Compared with what the process was started with: that is what is in force. */
static void name_fixed(const struct server *server, const struct conf *conf)
{
    const char *names[16];
    size_t count = conf_fixed_differences(server->started_with, conf, names, sizeof(names) / sizeof(names[0]));
    for (size_t i = 0; i < count; i++)
        log_line(server->shared.log, LOG_LEVEL_WARNING,
                 "%s cannot change while running: it takes effect at the next start", names[i]);
}

static void swap(struct server *server, struct conf *conf, struct tls *tls, struct admin_token token)
{
    name_fixed(server, conf);
    server_declare_scopes(server, conf);
    log_configure(server->shared.log, conf->log.level, conf->log.json);
    for (uint32_t i = 0; i < server->worker_count; i++)
        worker_reload(server->workers[i], conf, tls);
    server_reload_admin(server, conf, token);
    server_set_connection_limit(server, conf);
    conf_unref(server->conf);
    tls_unref(server->tls);
    server->conf = conf;
    server->tls = tls;
    set_secured(server);
}

void server_reload(struct server *server)
{
    struct conf *conf;
    struct tls *tls;
    struct admin_token token;
    if (server_is_draining(server)) {
        log_line(server->shared.log, LOG_LEVEL_INFO, "draining: the configuration is not read again");
    } else if (!load_again(server, &conf, &tls, &token)) {
        log_line(server->shared.log, LOG_LEVEL_ERROR, "the configuration is not valid: the running one stays in force");
    } else {
        swap(server, conf, tls, token);
        log_line(server->shared.log, LOG_LEVEL_INFO, "configuration reloaded");
    }
}
