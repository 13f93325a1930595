/*
 * upstream.h - the connection to the API, and the pool of idle ones (one pool a worker).
 *
 * A call sends one request and reports exactly one ending:
 *
 *     ANSWERED  a complete final response
 *     UNSENT    not one byte of the request was written: safe to release
 *     BROKEN    anything else: nobody knows
 *
 * It knows nothing of keys. Reuse of an idle connection only while it is fresh: idle no longer than keepalive_idle and
 * the API's own Keep-Alive: timeout=N minus 1 s, no unread byte and no end at check-out (a request that may be sent
 * again takes the word of the loop's last turn for it, milliseconds after the last answer); unsent on a reused one: one
 * new connection is tried. All addresses of a name are tried while nothing has been written (contract §4.5). Where
 * `resend` allows, a request that fails on a reused connection before any response byte is sent once more on a new one;
 * nothing else is ever sent twice.
 *
 * OWNERSHIP. A call is owned by the pool and frees itself after end(); the caller drops its pointer there.
 * upstream_cancel() makes the caller silent: no callback follows. THREAD: the worker's.
 */
#pragma once

#include "conf/conf.h"
#include "proxy/deadline.h"
#include "proxy/http.h"
#include "proxy/resolver.h"
#include "proxy/stream.h"
#include "proxy/tls.h"

struct upstream_pool;
struct upstream_call;

enum upstream_ending { UPSTREAM_ANSWERED, UPSTREAM_UNSENT, UPSTREAM_BROKEN };

/* Why not ANSWERED. */
enum upstream_fault {
    UPSTREAM_FAULT_NONE,
    UPSTREAM_FAULT_UNREACHABLE,  /* UNSENT: not resolved, refused, connect timeout, failed TLS handshake */
    UPSTREAM_FAULT_CLOSED,       /* closed or reset without one byte of a final response */
    UPSTREAM_FAULT_INVALID,      /* unparsable, truncated, reset in the middle, over the limits */
    UPSTREAM_FAULT_SEND_TIMEOUT, /* no progress in writing the request */
    UPSTREAM_FAULT_STALL,        /* no progress in reading the body */
};

struct upstream_end {
    enum upstream_ending ending;
    enum upstream_fault fault;
    const char *detail; /* for the error log; lives during the call of end() */
    bool head_seen;     /* a final head was reported */
};

struct upstream_events {
    /* A 1xx (not 101), in order, before head(). */
    void (*informational)(void *owner, const struct http_message *message);
    /* A 101 that takes up request.offer: the call is a tunnel. What the API sends comes by body(), upstream_write()
     * sends, upstream_write_end() is our FIN. No head() follows. */
    void (*switched)(void *owner, const struct http_message *message);
    /* Tunnels: the API has said FIN and ours is not yet out; with ours the call ends as ANSWERED. */
    void (*half_closed)(void *owner);
    /* The final head; `message` is valid during the call only. */
    void (*head)(void *owner, const struct http_message *message);
    void (*body)(void *owner, const char *data, size_t len); /* valid during the call */
    /* The stream that takes what body() would be given just as it is, at once; NULL: there is none now. moved() tells
     * how many bytes went there without coming by. Both NULL: everything comes by body(). */
    struct stream *(*sink)(void *owner);
    void (*moved)(void *owner, size_t len);
    /* Everything that this read brought has been reported: time to flush. Not called after end(). */
    void (*turn)(void *owner);
    /* The last byte of the request has been written (response_timeout counts from here; the caller's timer). Not called
     * where upstream_sent_at_once() has said so. */
    void (*sent)(void *owner);
    /* Streaming request: less than UPSTREAM_LOW_WATER is queued (only after upstream_queued() was above it). */
    void (*writable)(void *owner);
    void (*end)(void *owner, const struct upstream_end *end);
};

#define UPSTREAM_LOW_WATER  (32 * 1024)
#define UPSTREAM_HIGH_WATER (64 * 1024)
#define UPSTREAM_INPUT_SIZE (64 * 1024)  /* read at once; while the caller keeps up, up to… */
#define UPSTREAM_INPUT_MAX  (384 * 1024) /* …this much, which costs a quarter less for each byte */

struct upstream_request {
    const struct conf_upstream *upstream; /* must live until end() (the caller holds the configuration) */
    struct tls_client *tls;               /* of that upstream; NULL: plain. A reference is taken */
    struct span head;                     /* serialised request head; copied */
    struct span body;                     /* keyed: the whole body, borrowed until sent() or end(); else empty */
    bool streams;                         /* body follows by upstream_write … upstream_write_end */
    bool no_body_in_response;             /* HEAD */
    const struct http_message *offer;     /* it offers an upgrade; lives until end(). NULL: a 101 is invalid */
    bool resend;                          /* unkeyed, bodiless GET, HEAD, OPTIONS */
    void (*crash_point)(void *arg, const char *name); /* debug builds: "granted-nothing-sent", "first-byte-sent",
                                                         "last-byte-sent"; may be NULL */
    void *crash_arg;
};

struct upstream_pool *upstream_pool_new(struct event_base *base, struct resolver_client *resolver,
                                        const struct http_limits *limits);
void upstream_pool_set_limits(struct upstream_pool *pool, const struct http_limits *limits);
void upstream_pool_free(struct upstream_pool *pool); /* no call may be running */
size_t upstream_pool_connections(const struct upstream_pool *pool);
uint64_t upstream_pool_opened(const struct upstream_pool *pool); /* connections, so far */
/* Closes all idle connections, to whatever upstream: after a reload none may be used that was made under older
 * settings. Connections in use stay; their calls go on. */
void upstream_pool_drop_idle(struct upstream_pool *pool);

/* Starts. Callbacks never run inside this call (an immediate failure comes through the loop). */
struct upstream_call *upstream_start(struct upstream_pool *pool, const struct upstream_request *request,
                                     const struct upstream_events *events, void *owner);
/* Right after upstream_start: has all of the request gone out already? Ask always, the usual call needs no event then.
 */
bool upstream_sent_at_once(struct upstream_call *call);
void upstream_write(struct upstream_call *call, const void *data,
                    size_t len); /* streaming body, framed by the caller */
void upstream_write_end(struct upstream_call *call);
size_t upstream_queued(const struct upstream_call *call);
/* Stops reading the response (back-pressure; the stall clock stands) and goes on. */
void upstream_pause(struct upstream_call *call);
void upstream_resume(struct upstream_call *call);
/* Has a byte of the request been handed to the kernel? */
bool upstream_has_sent(const struct upstream_call *call);
/* The caller leaves: the connection is closed, no callback follows. */
void upstream_cancel(struct upstream_call *call);
