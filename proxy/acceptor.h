/*
 * acceptor.h - one listening socket per address, on the control thread; accepts, keeps the connection limit, hands
 * descriptors on.
 *
 * No SO_REUSEPORT: a second process on the same address fails (contract §9). A stale unix socket (connect refused) is
 * removed, a live one or another kind of file is an error; the mode is set safely; our own is unlinked at the end only
 * if still ours. At the connection limit accepting pauses without spinning; EMFILE is survived the same way.
 */
#pragma once

#include "conf/conf.h"
#include <event2/event.h>

struct acceptor;

/* A connection was accepted: non-blocking, close-on-exec, TCP_NODELAY. `peer` is its address as text, `listener` the
 * index of the address where it came in. */
typedef void acceptor_cb(void *arg, size_t listener, int fd, const char *peer);

/* Listens on `count` addresses; `limit` is the number of connections (acceptor_set_limit). NULL: `error` says which
 * address and why. */
struct acceptor *acceptor_new(struct event_base *base, const struct conf_listen *addresses, size_t count,
                              uint32_t limit, acceptor_cb *accepted, void *arg, char *error, size_t error_size);
/* A connection that was handed on is over. Any thread. */
void acceptor_connection_closed(struct acceptor *acceptor);
uint32_t acceptor_connections(const struct acceptor *acceptor); /* any thread */
void acceptor_set_limit(struct acceptor *acceptor, uint32_t connections);
void acceptor_stop(struct acceptor *acceptor); /* listeners closed; counting goes on */
void acceptor_free(struct acceptor *acceptor); /* NULL is fine */
