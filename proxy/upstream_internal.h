/*
 * upstream_internal.h - shared by upstream*.c only.
 *
 *     upstream.c              a call: one request, one response, one ending
 *     upstream_connect.c      from a name to a connected socket, TLS handshake included
 *     upstream_pool.c         idle connections, and the graveyard of what is over
 */
#pragma once

#include "proxy/upstream.h"

struct upstream_connection {
    struct upstream_pool *pool;
    struct stream stream;
    struct event readable, writable;
    struct deadline idle; /* ends an idle one; not set while in use */
    struct http_parser *parser;
    struct upstream_call *call; /* NULL: idle */
    char *url;                  /* what it is connected to: a reload makes new conf objects */
    struct tls_client *tls;     /* and under which terms; NULL: plain */
    bool securing;              /* the TLS handshake is on its way */
    int64_t idle_ms;            /* the API's own Keep-Alive: timeout minus 1 s; -1: not said */
    int64_t idle_since_ms;      /* while idle */
    struct buffer input;        /* part of a head */
    bool reading, write_armed;
    struct upstream_connection *next, *prev; /* idle list, newest first; later the graveyard */
};

enum call_state {
    CALL_CONNECTING, /* resolving or connecting: nothing can have been sent */
    CALL_RUNNING,    /* on a connection */
    CALL_OVER,       /* end() was called, or the caller has left */
};

struct upstream_call {
    struct upstream_pool *pool;
    struct upstream_request request; /* head and body: see below */
    const struct upstream_events *events;
    void *owner;
    enum call_state state;
    struct upstream_connection *connection;
    bool starting;  /* inside upstream_start */
    bool later_due; /* `later` is active */

    /* connecting */
    struct resolver_query *query;
    int next_address;
    int64_t connect_due_ms; /* for all addresses together; `deadline` is that of the present one */
    bool reused;

    /* the request */
    size_t head_sent, body_sent;
    struct buffer streamed;
    int64_t stuck_ms; /* the socket has taken nothing more since; 0: nothing waits for it */
    bool stream_ended, sent_any, sent_all, told_sent, write_failed, above;

    /* the response */
    bool head_seen, paused, keep_alive;
    size_t read_size;                  /* grows with each read that fills it, falls back when the caller pauses */
    bool tunnel, read_ended, fin_sent; /* read_ended: the API's FIN; fin_sent: ours */
    unsigned interim;

    const char *unreachable;    /* an ending that is told by `later`: why */
    struct upstream_call *next; /* graveyard, later the spare ones */

    /* From here on kept for the next call. */
    struct buffer head;       /* of the request; not consumed while the call lives: it may be sent again */
    struct deadline deadline; /* connect, send or stall: whatever is running */
    struct event later;       /* what must not be told from inside a call of the owner */
    struct resolver_addresses addresses;
    char tls_failure[200]; /* of the last address whose handshake failed; "": none */
};

struct upstream_pool {
    struct event_base *base;
    struct resolver_client *resolver;
    struct http_limits limits;
    char *fresh; /* what a read brings, UPSTREAM_INPUT_MAX bytes; pages that are never used are never there */
    int pipe[2]; /* for bodies that nobody looks at; empty between calls; -1: there is none */
    struct upstream_connection *idle;
    size_t idle_count, connections, calls;
    uint64_t opened; /* connections, so far */
    struct event bury;
    struct upstream_connection *dead_connections;
    struct upstream_call *dead_calls, *spare_calls; /* spare: a request on a kept connection allocates nothing here */
    size_t spare_count;
};

/* upstream_pool.c */
struct upstream_connection *connection_new(struct upstream_pool *pool, const struct upstream_request *request, int fd);
void connection_close(struct upstream_connection *connection); /* its memory goes with the next turn of the loop */
void connection_want_reading(struct upstream_connection *connection, bool wanted);
void connection_wait_to_write(struct upstream_connection *connection); /* after a write that did not take all */
/* A fresh idle connection to this upstream, or NULL. */
struct upstream_connection *pool_take(struct upstream_pool *pool, const struct upstream_request *request);
void pool_give(struct upstream_connection *connection, const struct conf_upstream *upstream);
struct upstream_call *pool_new_call(struct upstream_pool *pool);
void pool_bury(struct upstream_call *call);

/* upstream_connect.c */
void connect_start(struct upstream_call *call); /* ends in call_connected or call_unreachable, perhaps at once */
void connect_cancel(struct upstream_call *call);
void connect_go_on(struct upstream_connection *connection); /* the socket of a CALL_CONNECTING has news */
void connect_timed_out(struct upstream_call *call);

/* upstream.c */
void call_connected(struct upstream_call *call, struct upstream_connection *connection);
void call_unreachable(struct upstream_call *call, const char *detail);
void call_tell_later(struct upstream_call *call); /* makes `later` due */
void call_on_later(evutil_socket_t fd, short what, void *call);
void call_on_deadline(void *call);
void call_readable(struct upstream_connection *connection);
void call_writable(struct upstream_connection *connection);
