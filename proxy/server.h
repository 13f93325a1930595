/*
 * server.h - `einmal run`: everything that lives once in the process.
 *
 * server_run is the control thread. The calls below it are for other threads of the process (the admin side) and never
 * wait; they hold from before the workers start until they have ended.
 */
#pragma once

#include "conf/conf.h"

struct server;

struct server_options {
    const char *file; /* NULL: without one */
    struct conf_overrides overrides;
    conf_environment *environment;
    void *environment_arg;
    const char *crash_at; /* debug builds */
    /* Called once, on the control thread, when einmal accepts; NULL: nobody wants to know. */
    void (*started)(void *arg, struct server *server);
    void *started_arg;
};

/* Runs until a signal ends it. Returns the exit code of contract §2: 0 fine, 1 runtime failure, 2 bad configuration. */
int server_run(const struct server_options *options);

/* ---- any thread ------------------------------------------------------------------------------- */

/* Starts a drain as SIGTERM does, but the process stays when it is over, until a signal comes. Once is enough. */
void server_begin_drain(struct server *server);
/* From the first moment of a drain on, the delay included: readiness has failed. */
bool server_is_draining(const struct server *server);
/* A drain is over: listeners are closed, no request and no action runs any more. */
bool server_is_idle(const struct server *server);

/* True unless the last reload was refused. *loaded_ms gets when the present configuration was loaded, wall clock. */
bool server_last_reload(const struct server *server, int64_t *loaded_ms);
