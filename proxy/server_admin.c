/*
 * server_admin.c - the side listeners as part of the process: what they may ask of it, and when they live.
 *
 * They are bound before the proxied ports and answer from when those listen, so that "ready" is never said too early;
 * they leave the workers and the store before these end, and close last of all.
 */
#include "proxy/server_internal.h"

#include <stdio.h>
#include <unistd.h>

/* ---- hooks: on the admin thread --------------------------------------------------------------- */

static void write_metrics(void *arg, struct buffer *out)
{
    const struct server *server = arg;
    metrics_write(&server->metrics, out);
}

static void count_connections(void *arg, struct admin_connection_counts *out)
{
    const struct server *server = arg;
    out->clients = metrics_tally(&server->metrics, TALLY_CLIENTS);
    out->upstreams = metrics_tally(&server->metrics, TALLY_UPSTREAMS);
}

static bool is_draining(void *arg)
{
    return server_is_draining(arg);
}

static bool is_idle(void *arg)
{
    return server_is_idle(arg);
}

static void drain(void *arg)
{
    server_begin_drain(arg);
}

/* ---- life ------------------------------------------------------------------------------------- */

static void say_where(const struct server *server, const char *what, const struct conf_listen *listen)
{
    if (listen->address)
        log_line(server->shared.log, LOG_LEVEL_INFO, "%s on %s", what, listen->address);
}

bool server_open_admin(struct server *server)
{
    const struct admin_hooks hooks = {.arg = server,
                                      .metrics = write_metrics,
                                      .connections = count_connections,
                                      .draining = is_draining,
                                      .idle = is_idle,
                                      .drain = drain};
    const struct conf *conf = server->started_with;
    char error[512];
    if (!conf->health.address && !conf->admin.listen.address)
        return true;
    server->admin =
        admin_new(server->conf, server->token, server->shared.store, server->shared.log, &hooks, error, sizeof error);
    server->token = (struct admin_token){NULL};
    if (!server->admin)
        fprintf(stderr, "einmal: %s\n", error);
    return server->admin != NULL;
}

void server_start_admin(struct server *server)
{
    if (!server->admin)
        return;
    say_where(server, "health", &server->started_with->health);
    say_where(server, "admin", &server->started_with->admin.listen);
    admin_start(server->admin);
    server->admin_runs = true;
}

void server_reload_admin(struct server *server, struct conf *conf, struct admin_token token)
{
    if (server->admin)
        admin_reload(server->admin, conf, token);
    else
        admin_token_free(&token);
}

void server_leave_admin(struct server *server)
{
    if (server->admin && !server->admin_runs) {
        admin_free(server->admin);
        server->admin = NULL;
    }
    if (!server->admin || admin_detach(server->admin, server->conf->store.timeout))
        return;
    log_line(server->shared.log, LOG_LEVEL_ERROR,
             "the store has not answered the admin interface in store.timeout: it cannot be closed");
    log_stop(server->shared.log);
    _exit(1); /* a thread hangs in the disk: nothing of it can be freed */
}

void server_close_admin(struct server *server)
{
    admin_free(server->admin);
}
