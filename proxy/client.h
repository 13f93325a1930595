/*
 * client.h - the downstream connection: reads requests one after another, writes answers in order.
 *
 *     IDLE → HEAD → REQUEST → FLUSHING → (IDLE | DRAINING → IDLE | LINGERING) → DEAD
 *
 * It knows nothing of what becomes of a request: it reports through struct client_events and is told what to write. One
 * request at a time: while one is being answered the rest of the input stays in the buffer (pipelining, in order),
 * bounded; reading from the socket stops when the buffer is full or the body is paused.
 *
 * OWNERSHIP. client_new takes the descriptor. The client frees itself when the connection is over; after gone() the
 * exchange must not use it any more, and client_finish(), client_cut() or client_abort() make it the same the other way
 * round: who dies first clears the other's pointer. `exchange` is the user's pointer for the request in hand, set by
 * what head() returns.
 *
 * THREAD: the worker's. Callbacks run from the event loop, or from inside client_finish (next pipelined request:
 * through the loop, never recursively). Raising an event is the last thing that the client does in its own callback.
 */
#pragma once

#include "proxy/deadline.h"
#include "proxy/http.h"
#include "proxy/stream.h"
#include "proxy/tls.h"

struct client;

struct client_settings { /* shared by all clients of a configuration; must outlive them */
    struct http_limits limits;
    char *fresh; /* memory to read into, CLIENT_INPUT_MAX bytes, the thread's: nothing stays in it beyond a call */
    int64_t header_timeout, body_timeout, idle_timeout, send_timeout;
};

struct client_events {
    /* A request head is complete. `message` lives in the input buffer: valid during the call only. Returns the exchange
     * (never NULL). Nothing of the body is read before client_read_body(). */
    void *(*head)(void *context, struct client *client, const struct http_message *message);
    /* A piece of the body; `data` valid during the call. */
    void (*body)(void *exchange, const char *data, size_t len);
    void (*body_end)(void *exchange);
    /* The body cannot be read on: malformed (PROBLEM_BAD_REQUEST) or too slow (PROBLEM_REQUEST_TIMEOUT). The exchange
     * answers; the connection closes after that answer whatever client_finish says. */
    void (*body_refused)(void *exchange, enum problem_code problem, const char *detail);
    /* No request could be made of the bytes. `client` waits for an answer by client_append/client_finish, after which
     * it closes. Nothing is known but what `problem` says; there is no exchange. Where not even one byte came, closing
     * for idleness is silent and never reported. */
    void (*refused)(void *context, struct client *client, enum problem_code problem, const char *detail);
    /* FIN after a complete request: still wants its answer. At most once a request. */
    void (*half_closed)(void *exchange);
    /* The connection is dead (reset, FIN in mid-request, send timeout): forget the client, it frees itself. */
    void (*gone)(void *exchange);
    /* What was to be written has gone to the socket: less than CLIENT_LOW_WATER is queued (only after client_queued()
     * was above). */
    void (*writable)(void *exchange);
    /* The TLS handshake failed; the connection ends by itself. NULL: nobody wants to know. */
    void (*not_secured)(void *context, const struct client *client, const char *why);
    /* The client is being freed (for connection counts). No exchange is attached any more. */
    void (*closed)(void *context, struct client *client);
};

#define CLIENT_INPUT_SIZE (64 * 1024)  /* read at once; an idle connection holds no input buffer */
#define CLIENT_INPUT_MAX  (384 * 1024) /* the same of a body that is taken as fast as it comes */
#define CLIENT_LOW_WATER  (32 * 1024)
#define CLIENT_HIGH_WATER (64 * 1024)

/* peer: address as text for logs and X-Forwarded-For ("192.0.2.1", "unix"). Copied. */
struct client *client_new(struct event_base *base, int fd, const char *peer, const struct client_settings *settings,
                          const struct client_events *events, void *context);
/* The connection begins with a TLS handshake, which has header_timeout. Right after client_new. */
void client_start_tls(struct client *client, struct tls_server *server);
bool client_is_tls(const struct client *client);
/* By its certificate; NULL: it showed none. Lives as long as the client. */
const struct tls_identity *client_identity(const struct client *client);
const char *client_peer(const struct client *client);
/* Bytes of the head of the request in hand. */
size_t client_head_len(const struct client *client);
/* At once, for the request in hand as well (reload): every clock that is set from now on goes by them, while one that
 * runs keeps its due time. The parser's limits hold from the next message on. */
void client_set_settings(struct client *client, const struct client_settings *settings);

enum client_pace {
    CLIENT_PACE_SILENCE, /* unkeyed: body_timeout is the longest silence */
    CLIENT_PACE_RATE,    /* keyed: cut when in a window of body_timeout less than 1 KiB a second arrived */
    CLIENT_PACE_FREE,    /* a tunnel: no clock of ours */
};
/* Starts (or goes on) reading the body: body()… body_end(). A message without body gives body_end() soon, through the
 * loop. */
void client_read_body(struct client *client, enum client_pace pace);
/* No more body() until client_read_body(), but for pieces (chunks) of the read in hand; up to CLIENT_INPUT_MAX of what
 * was read stays in the buffer. The clock stands. */
void client_pause_body(struct client *client);

/* Writing. client_append only collects (no system call); client_write writes what was collected and `data` in one go,
 * keeping (copying) what the socket does not take; client_flush the same without data. Order is kept. */
struct buffer *client_output(struct client *client); /* append to it directly, as client_append would */
void client_append(struct client *client, const void *data, size_t len);
void client_write(struct client *client, const void *data, size_t len);
void client_flush(struct client *client);
void client_write_continue(struct client *client); /* 100 (Continue): it may send its body */
size_t client_queued(const struct client *client);
/* The stream itself, to write to within this call of the loop; NULL while anything must go before, or TLS around it. */
struct stream *client_sink(struct client *client);

/*
 * A tunnel: the answer was 101, its head has been appended. From here on both directions are another protocol's bytes.
 * They come by body() as long as body is wanted (client_read_body with CLIENT_PACE_FREE, client_pause_body), the peer's
 * FIN by body_end(); its reset by gone(). client_end_writing() sends FIN when all that was collected has gone out; the
 * peer may go on sending. client_finish() or client_abort() end the tunnel.
 */
void client_tunnel(struct client *client);
void client_end_writing(struct client *client);

/*
 * The answer is complete. Flushes; the exchange is detached (no further events to it). Then: keep_alive and the whole
 * request was read → next request. Request body not read to its end → at most drain_limit bytes of it are read and
 * thrown away (with the body's deadline); where that reaches the end the connection goes on, beyond it FIN and
 * lingering close, so that the answer is never lost to a reset. Not keep_alive → FIN, lingering, closed.
 */
void client_finish(struct client *client, bool keep_alive, uint64_t drain_limit);
/*
 * The answer cannot be completed, and what was written of it shows that by itself: no last chunk, or fewer bytes than
 * its Content-Length. What is collected goes out, earlier answers with it; then FIN (with TLS no close_notify),
 * lingering, closed. Detaches; no gone().
 */
void client_cut(struct client *client);
/* The same for an answer that ends with the connection: reset, so that it cannot be taken for a complete one. What the
 * socket still holds, earlier answers too, may be lost. Detaches; no gone(). */
void client_abort(struct client *client);
/* Draining: closes if idle, but leaves one that has not asked yet, or that shows something to read, a second for it;
 * otherwise client_finish closes after the present answer. */
void client_close_when_idle(struct client *client);
/* Is it between requests with nothing read? */
bool client_is_idle(const struct client *client);
void client_free_now(struct client *client); /* teardown of the worker: no events but closed() */
