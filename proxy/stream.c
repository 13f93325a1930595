/*
 * stream.c - reading and writing on a plain socket; stream_tls.c does the same for TLS.
 */
#include "proxy/stream_tls.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum stream_result stream_read(struct stream *stream, void *to, size_t size, size_t *moved)
{
    if (stream->ssl)
        return stream_tls_read(stream, to, size, moved);
    *moved = 0;
    for (;;) {
        ssize_t got = recv(stream->fd, to, size, 0);
        if (got > 0) {
            *moved = (size_t)got;
            return STREAM_OK;
        }
        if (got == 0)
            return STREAM_END;
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return STREAM_AGAIN;
        if (errno != EINTR)
            return STREAM_BROKEN;
    }
}

enum stream_result stream_write(struct stream *stream, const struct iovec *parts, int count, size_t *moved)
{
    if (stream->ssl)
        return stream_tls_write(stream, parts, count, moved);
    *moved = 0;
    for (;;) {
        ssize_t put = writev(stream->fd, parts, count);
        if (put >= 0) {
            *moved = (size_t)put;
            return STREAM_OK;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return STREAM_AGAIN;
        if (errno != EINTR)
            return STREAM_BROKEN;
    }
}

bool stream_move(struct stream *from, struct stream *to, const int pipe[2], size_t size, size_t *moved, void *rest,
                 size_t *rest_len)
{
    const unsigned flags = SPLICE_F_MOVE | SPLICE_F_NONBLOCK;
    assert(!from->ssl && !to->ssl);
    *moved = *rest_len = 0;
    ssize_t got = splice(from->fd, NULL, pipe[1], NULL, size, flags), put;
    if (got <= 0)
        return false;
    while (*moved < (size_t)got && (put = splice(pipe[0], NULL, to->fd, NULL, (size_t)got - *moved, flags)) > 0)
        *moved += (size_t)put;
    while (*moved + *rest_len < (size_t)got) {
        put = read(pipe[0], (char *)rest + *rest_len, (size_t)got - *moved - *rest_len);
        if (put > 0)
            *rest_len += (size_t)put;
        else if (put == 0 || errno != EINTR)
            abort(); /* they are there: nobody else reads from this pipe */
    }
    return true;
}

bool stream_is_quiet(struct stream *stream)
{
    char byte;
    if (stream->ssl)
        return stream_tls_is_quiet(stream);
    return recv(stream->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

void stream_watch_peer(struct stream *stream)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_KEEPIDLE, 60}, /* seconds: gone peers are noticed after two minutes */
        {IPPROTO_TCP, TCP_KEEPINTVL, 15},
        {IPPROTO_TCP, TCP_KEEPCNT, 4},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        setsockopt(stream->fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

bool stream_is_dead(const struct stream *stream)
{
    struct pollfd state = {.fd = stream->fd, .events = 0}; /* these two are always told */
    return poll(&state, 1, 0) == 1 && state.revents & (POLLERR | POLLHUP);
}

enum stream_result stream_end(struct stream *stream)
{
    if (stream->ssl && stream_tls_end(stream) == STREAM_AGAIN)
        return STREAM_AGAIN;
    shutdown(stream->fd, SHUT_WR);
    return STREAM_OK;
}

void stream_stop_understanding(struct stream *stream)
{
    if (stream->ssl)
        stream_tls_free(stream);
}

void stream_close(struct stream *stream)
{
    assert(stream->fd >= 0);
    if (stream->ssl) {
        (void)stream_tls_end(stream);
        stream_tls_free(stream);
    }
    close(stream->fd);
    stream->fd = -1;
}

void stream_reset(struct stream *stream)
{
    if (stream->ssl)
        stream_tls_free(stream);
    setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1, .l_linger = 0}, sizeof(struct linger));
    stream_close(stream);
}
