/*
 * resolver.h - names to addresses, off the loops (contract §7: resolved again every 30 s while used and after a connect
 * failure; the last good addresses serve while resolving fails; cases O04, O05).
 *
 * A few threads call getaddrinfo, one a name; each worker has a resolver_client with an inbox and an eventfd. IP
 * literals never get there.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct resolver;
struct resolver_client;
struct resolver_query;

#define RESOLVER_MAX_ADDRESSES 16

struct resolver_addresses {
    struct sockaddr_storage items[RESOLVER_MAX_ADDRESSES];
    socklen_t lengths[RESOLVER_MAX_ADDRESSES];
    int count; /* 0: not resolvable, and no good addresses from before */
};

typedef void resolver_cb(void *arg, const struct resolver_addresses *addresses);

struct resolver *resolver_new(void);
void resolver_free(struct resolver *resolver); /* does not wait for a getaddrinfo that hangs */
struct resolver_client *resolver_client_new(struct resolver *resolver, struct event_base *base);
void resolver_client_free(struct resolver_client *client);

/* True: *out is filled at once (literal, or fresh or last good addresses; a refresh may run behind). False: `done` will
 * run on this loop, unless cancelled through *query. The caller sets its own time limit. */
bool resolver_look_up(struct resolver_client *client, const char *host, uint16_t port, struct resolver_addresses *out,
                      struct resolver_query **query, resolver_cb *done, void *arg);
void resolver_cancel(struct resolver_query *query);
/* All addresses of this name failed to connect: it is resolved again at once (at most once a second); the old addresses
 * serve until that has succeeded. */
void resolver_failed(struct resolver_client *client, const char *host, uint16_t port);
