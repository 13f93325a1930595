/*
 * server.h - `einmal run`: everything that lives once in the process.
 */
#pragma once

#include "conf/conf.h"

struct server_options {
    const char *file; /* NULL: without one */
    struct conf_overrides overrides;
    conf_environment *environment;
    void *environment_arg;
    const char *crash_at; /* debug builds */
};

/* Runs until a signal ends it. Returns the exit code of contract §2: 0 fine, 1 runtime failure, 2 bad configuration. */
int server_run(const struct server_options *options);
