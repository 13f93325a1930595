/*
 * floor_epoll.c - the floor below every proxy on this machine: an epoll loop that understands nothing.
 *
 *     floor_epoll PORT             answers whatever a read brings with one and the same response
 *     floor_epoll PORT UPSTREAM    hands what a client sends to a connection of its own to that port, and back
 *
 * One thread, level-triggered, one read and one write for each message: four system calls for a proxied request. What a
 * real proxy costs beyond this is its own. Takes for granted that a request comes in one read and that the socket takes
 * a whole answer, as with wrk and small messages: anything else ends the program.
 */
#include "tests/bench/floor_socket.h"

#define EVENTS 256

static const char response[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 30\r\n\r\n"
                               "{\"service\":\"orders\",\"ok\":true}";

struct end { /* of a connection; with an upstream they come in pairs */
    int fd;
    struct end *other;
    struct end *next_dead;
};

static struct end *watch(int epoll, int fd)
{
    struct end *end = calloc(1, sizeof *end);
    end->fd = fd;
    watch_fd(epoll, fd, end);
    return end;
}

static void take_clients(int epoll, int listener, const char *upstream)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct end *client = watch(epoll, fd);
        if (!upstream)
            continue;
        client->other = watch(epoll, connect_to(upstream));
        client->other->other = client;
    }
}

static void bury(struct end *end, struct end **dead)
{
    if (end->fd < 0)
        return;
    close(end->fd);
    end->fd = -1;
    end->next_dead = *dead;
    *dead = end;
}

static void serve(struct end *end, struct end **dead)
{
    static char bytes[65536];
    if (end->fd < 0)
        return; /* its other end took it along in this turn */
    ssize_t got = recv(end->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0 && end->other) {
        if (send(end->other->fd, bytes, (size_t)got, MSG_NOSIGNAL) != got)
            die("the other end does not take a whole message");
    } else if (got > 0) {
        if (send(end->fd, response, sizeof response - 1, MSG_NOSIGNAL) != sizeof response - 1)
            die("a client does not take a whole answer");
    } else {
        if (end->other)
            bury(end->other, dead);
        bury(end, dead);
    }
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: floor_epoll PORT [UPSTREAM-PORT]\n");
        return 2;
    }
    struct epoll_event events[EVENTS];
    int epoll = epoll_create1(EPOLL_CLOEXEC), listener = listen_on(argv[1]);
    const char *upstream = argc > 2 ? argv[2] : NULL;
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN, .data.ptr = NULL});
    for (;;) {
        struct end *dead = NULL;
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr)
                serve(events[i].data.ptr, &dead);
            else
                take_clients(epoll, listener, upstream);
        }
        while (dead) {
            struct end *next = dead->next_dead;
            free(dead);
            dead = next;
        }
    }
}
