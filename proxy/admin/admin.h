/*
 * admin.h - the side listeners: health (probes and metrics) and admin (those, and everything else of contract §8).
 *
 * They have a thread and an event base of their own, so they answer whatever the workers do; what may block (reading
 * the store, copying it) is done on further threads of theirs. A peer that is slow or silent holds a connection and
 * nothing else, and loses it when others need the place.
 *
 *     admin_new      binds; nothing is answered yet
 *     admin_start    the thread runs
 *     admin_reload   another configuration, another token; addresses stay
 *     admin_detach   the hooks and the store are about to go: from now on only /healthz and /readyz are answered
 *     admin_free     listeners and connections are closed
 *
 * THREADS. All calls belong to the control thread. Hooks are called on the admin thread and must not block.
 */
#pragma once

#include "conf/conf.h"
#include "proxy/admin/token.h"
#include "proxy/buffer.h"
#include "proxy/log.h"
#include "store/store.h"

struct admin;

struct admin_connection_counts {
    uint64_t clients, upstreams;
};

struct admin_hooks {
    void *arg;
    void (*metrics)(void *arg, struct buffer *out); /* appends the whole Prometheus text */
    void (*connections)(void *arg, struct admin_connection_counts *out);
    bool (*draining)(void *arg);
    bool (*idle)(void *arg);  /* draining, and nothing runs any more */
    void (*drain)(void *arg); /* begins to drain; again is harmless */
};

/* Listens where `conf` says (a configuration without side listeners is fine). Takes the token over, references to
 * conf. `hooks` is copied. NULL: `error` says which address and why; the token is freed. */
struct admin *admin_new(struct conf *conf, struct admin_token token, struct store *store, struct log *log,
                        const struct admin_hooks *hooks, char *error, size_t error_size);
void admin_start(struct admin *admin);
/* Takes the token over. */
void admin_reload(struct admin *admin, struct conf *conf, struct admin_token token);
/* Waits until nothing of it is left in the store, at most timeout_ms. False: something hangs in there; then neither the
 * store nor this may be freed, for the process is about to end. */
bool admin_detach(struct admin *admin, int64_t timeout_ms);
void admin_free(struct admin *admin); /* after admin_detach, or before admin_start; NULL is fine */
