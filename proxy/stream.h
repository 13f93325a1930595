/*
 * stream.h - a non-blocking byte stream on a socket, plain or TLS: the one place that reads and writes.
 *
 * A TLS stream may hold bytes that the kernel no longer tells about, and may have to write in order to read, or the
 * other way round. Its user therefore looks at stream_has_pending() after a read that succeeded and when it begins to
 * read again, and at the two flags when it arms events after STREAM_AGAIN. On a plain stream all of them are false.
 *
 * Thread: the worker's that owns it. Nothing blocks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

enum stream_result {
    STREAM_OK,     /* *moved > 0 bytes */
    STREAM_AGAIN,  /* not now: wait for the event */
    STREAM_END,    /* the peer said that no more comes (FIN; with TLS close_notify); reading only */
    STREAM_CUT,    /* TLS to an upstream: FIN without close_notify, which anybody in between can forge; reading only */
    STREAM_BROKEN, /* reset, EPIPE, any other error */
};

struct ssl_st; /* OpenSSL's SSL */

struct stream {
    int fd;                    /* -1: closed */
    bool ready;                /* TLS: the handshake is over */
    bool read_wants_write;     /* TLS: reading waits for EV_WRITE… */
    bool write_wants_read;     /* …and writing for EV_READ */
    bool dry;                  /* TLS: the last read found the socket empty */
    bool over;                 /* TLS: behind the bytes that the last read gave there is… */
    enum stream_result ending; /* …this, which every later read tells; OK: none */
    bool said_end;             /* TLS: close_notify is out */
    struct ssl_st *ssl;        /* NULL: plain; set by tls.h */
};

/* TLS as a client, before anything else: OK (it is over), AGAIN or BROKEN. As a server reading does it. */
enum stream_result stream_handshake(struct stream *stream);
enum stream_result stream_read(struct stream *stream, void *to, size_t size, size_t *moved);
/* Are bytes here that no event will tell about? Then read again without waiting for one. */
bool stream_has_pending(const struct stream *stream);
/* Writes as much as goes; *moved may be less than all of it (then wait for the event). */
enum stream_result stream_write(struct stream *stream, const struct iovec *parts, int count, size_t *moved);
/*
 * Moves up to `size` bytes from one plain stream to another without copying them, through a pipe that is empty before
 * and after (non-blocking, of the calling thread). What `to` does not take is read into `rest`, which has room for
 * `size` bytes. False: `from` gave nothing, and reading tells why. That `to` is broken is told by its next write.
 */
bool stream_move(struct stream *from, struct stream *to, const int pipe[2], size_t size, size_t *moved, void *rest,
                 size_t *rest_len);
/* Is nothing waiting to be read, and has the peer not ended? For idle upstream connections at check-out. */
bool stream_is_quiet(struct stream *stream);
/* Lets the kernel ask a silent peer now and then whether it is still there (TCP only). */
void stream_watch_peer(struct stream *stream);
/* Is the connection gone in both directions (reset, or closed wholly)? After a FIN reading tells no more: it says END
 * for ever, whatever comes. */
bool stream_is_dead(const struct stream *stream);
/* No more will be written: FIN, with TLS after close_notify. AGAIN: that did not fit, call it again when the socket is
 * writable. Reading goes on. */
enum stream_result stream_end(struct stream *stream);
/* What still comes will only be thrown away, so it need not be understood: TLS is given up, the stream is plain. */
void stream_stop_understanding(struct stream *stream);
void stream_close(struct stream *stream); /* close(2), with TLS after a try at close_notify; what was written is still
                                             delivered by the kernel */
void stream_reset(struct stream *stream); /* close with RST, so that the peer cannot take it for a complete end */
