/*
 * stream.h - a non-blocking byte stream on a socket: the one place that reads and writes. TLS becomes a second kind of
 * it.
 *
 * Thread: the worker's that owns it. Nothing here allocates per call, nothing blocks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct stream {
    int fd; /* -1: closed */
};

enum stream_result {
    STREAM_OK,     /* *moved > 0 bytes */
    STREAM_AGAIN,  /* not now: wait for the event */
    STREAM_END,    /* the peer said that no more comes (FIN); reading only */
    STREAM_BROKEN, /* reset, EPIPE, any other error */
};

enum stream_result stream_read(struct stream *stream, void *to, size_t size, size_t *moved);
/* Writes as much as goes; *moved may be less than all of it (then wait for the event). */
enum stream_result stream_write(struct stream *stream, const struct iovec *parts, int count, size_t *moved);
/* Is nothing waiting to be read, and has the peer not ended? For idle upstream connections at check-out. */
bool stream_is_quiet(struct stream *stream);
/* Lets the kernel ask a silent peer now and then whether it is still there (TCP only). */
void stream_watch_peer(struct stream *stream);
/* Is the connection gone in both directions (reset, or closed wholly)? After a FIN reading tells no more: it says END
 * for ever, whatever comes. */
bool stream_is_dead(const struct stream *stream);
void stream_end(struct stream *stream);   /* no more will be written: FIN */
void stream_close(struct stream *stream); /* close(2); what was written is still delivered by the kernel */
void stream_reset(struct stream *stream); /* close with RST, so that the peer cannot take it for a complete end */
