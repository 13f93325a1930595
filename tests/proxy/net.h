/*
 * net.h - both ends of a connection in one thread: the code under test runs in an event loop that the test turns by
 * hand, the peer is the test itself with plain non-blocking sockets.
 *
 * Nothing here waits for a fixed time where a condition can be waited for; every wait has an end.
 */
#pragma once

#include <criterion/criterion.h>

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "proxy/buffer.h"
#include "proxy/deadline.h"

#define PATIENCE_MS 5000 /* a condition that has not come true by then never will: machines of a test farm are slow */

static struct event_base *base;

static inline void net_begin(void)
{
    signal(SIGPIPE, SIG_IGN); /* as main does */
    struct event_config *config = event_config_new();
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
    base = event_base_new_with_config(config);
    event_config_free(config);
}

static inline void net_end(void)
{
    event_base_free(base);
}

static inline void nap(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

/* Whatever is due now. (Without ONCE it would not return while something spins.) */
static inline void net_turn(void)
{
    event_base_loop(base, EVLOOP_NONBLOCK | EVLOOP_ONCE);
}

static inline void net_run(int ms)
{
    for (int64_t end = monotonic_ms() + ms; monotonic_ms() < end; nap(1))
        net_turn();
}

/* Turns the loop until `condition` holds; false after PATIENCE_MS. */
#define NET_UNTIL(condition)                                \
    ({                                                      \
        int64_t net_end_ms = monotonic_ms() + PATIENCE_MS;  \
        bool net_holds = (condition);                       \
        while (!net_holds && monotonic_ms() < net_end_ms) { \
            net_turn();                                     \
            net_holds = (condition);                        \
            if (!net_holds)                                 \
                nap(1);                                     \
        }                                                   \
        net_holds;                                          \
    })

/* System calls of the code under test, counted on their way. */
static struct {
    int wakes, changes, reads, peeks, writes;
} calls;

int epoll_wait(int fd, struct epoll_event *ready, int size, int timeout)
{
    calls.wakes++;
    return (int)syscall(SYS_epoll_pwait, fd, ready, size, timeout, NULL, 0);
}

int epoll_ctl(int fd, int op, int watched, struct epoll_event *event)
{
    calls.changes++;
    return (int)syscall(SYS_epoll_ctl, fd, op, watched, event);
}

/* Lets the loop sleep and wake by itself for `ms`. True: it woke far more often than anything can have happened. */
static inline bool net_spins(int ms)
{
    struct timeval limit = {ms / 1000, ms % 1000 * 1000};
    int before = calls.wakes;
    event_base_loopexit(base, &limit);
    event_base_dispatch(base);
    return calls.wakes - before > ms / 10;
}

static inline void make_nonblocking(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* A listening socket on a free port of 127.0.0.1. */
static inline int net_listen(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    cr_assert(bind(fd, (struct sockaddr *)&address, len) == 0 && listen(fd, 64) == 0);
    getsockname(fd, (struct sockaddr *)&address, &len);
    *port = ntohs(address.sin_port);
    return fd;
}

/* A TCP connection: resets exist only there. */
static inline void net_pair(int pair[2])
{
    uint16_t port;
    int listener = net_listen(&port);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    pair[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(connect(pair[1], (struct sockaddr *)&address, sizeof address) == 0);
    setsockopt(pair[1], IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    struct pollfd wait = {.fd = listener, .events = POLLIN};
    poll(&wait, 1, PATIENCE_MS);
    pair[0] = accept(listener, NULL, NULL);
    cr_assert(pair[0] >= 0);
    make_nonblocking(pair[0]);
    make_nonblocking(pair[1]);
    close(listener);
}

static inline void net_reset(int fd)
{
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
    close(fd);
}

/* Sends all of it, turning the loop while the socket is full. False: the connection is broken. */
static inline bool net_send(int fd, const char *data, size_t len)
{
    for (int64_t end = monotonic_ms() + PATIENCE_MS; len && monotonic_ms() < end;) {
        ssize_t put = send(fd, data, len, MSG_NOSIGNAL);
        if (put > 0) {
            data += put;
            len -= (size_t)put;
        } else if (put < 0 && errno != EAGAIN) {
            return false;
        }
        net_turn();
    }
    return len == 0;
}

static inline bool net_say(int fd, const char *text)
{
    return net_send(fd, text, strlen(text));
}

enum heard { HEARD_NOTHING, HEARD_END, HEARD_RESET };

/* Takes what is there; never waits. */
static inline enum heard net_take(int fd, struct buffer *into)
{
    for (;;) {
        ssize_t got = recv(fd, buffer_reserve(into, 65536), 65536, 0);
        if (got > 0)
            buffer_commit(into, (size_t)got);
        else if (got == 0)
            return HEARD_END;
        else
            return errno == EAGAIN ? HEARD_NOTHING : HEARD_RESET;
    }
}

static inline bool buffer_is(const struct buffer *b, const char *text)
{
    return span_equal(buffer_span(b), span_of(text));
}

static inline bool buffer_has(const struct buffer *b, const char *text)
{
    size_t len = strlen(text);
    return buffer_len(b) >= len && memmem(buffer_data(b), buffer_len(b), text, len) != NULL;
}

/* For assertion messages; lives until the next call. */
static inline const char *buffer_text(const struct buffer *b)
{
    static char text[4096];
    size_t len = buffer_len(b) < sizeof text - 1 ? buffer_len(b) : sizeof text - 1;
    if (len)
        memcpy(text, buffer_data(b), len);
    text[len] = '\0';
    return text;
}
