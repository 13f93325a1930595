/*
 * acceptor.c - listening sockets on the control thread.
 *
 * Accepting stops (the events are taken out, nothing spins) while the connection limit is reached or descriptors are
 * used up; a closing connection wakes it through an eventfd, a timer does for descriptors. A unix socket is ours as
 * long as its inode is.
 */
#include "proxy/acceptor.h"
#include "proxy/span.h"
#include "proxy/thread.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG         1024
#define ACCEPTS_A_TURN  64
#define OUT_OF_FD_PAUSE 100 /* ms */

struct listener {
    struct acceptor *acceptor;
    int fd;
    struct event *event;
    char *unix_path; /* ours to remove, if inode and device still match */
    dev_t device;
    ino_t inode;
};

struct acceptor {
    struct event_base *base;
    acceptor_cb *accepted;
    void *arg;
    struct listener *listeners;
    size_t listener_count;
    atomic_uint connections, limit;
    atomic_bool paused;
    bool stopped;
    int wake_fd;
    struct event *wake, *retry;
};

/* ---- accepting -------------------------------------------------------------------------------- */

static void set_listening(struct acceptor *acceptor, bool wanted)
{
    for (size_t i = 0; i < acceptor->listener_count; i++) {
        if (wanted && !acceptor->stopped)
            event_add(acceptor->listeners[i].event, NULL);
        else
            event_del(acceptor->listeners[i].event);
    }
}

static bool is_full(struct acceptor *acceptor)
{
    return atomic_load(&acceptor->connections) >= atomic_load(&acceptor->limit);
}

/* Pauses, then looks once more: a connection that closed in between would not have woken us. */
static void pause_if_full(struct acceptor *acceptor)
{
    if (!is_full(acceptor))
        return;
    set_listening(acceptor, false);
    atomic_store(&acceptor->paused, true);
    if (!is_full(acceptor) && atomic_exchange(&acceptor->paused, false))
        set_listening(acceptor, true);
}

static void peer_text(const struct sockaddr_storage *address, char *to, size_t size)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    if (address->ss_family == AF_INET)
        inet_ntop(AF_INET, &v4->sin_addr, to, (socklen_t)size);
    else if (address->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], to, (socklen_t)size);
    else if (address->ss_family == AF_INET6)
        inet_ntop(AF_INET6, &v6->sin6_addr, to, (socklen_t)size);
    else
        snprintf(to, size, "unix");
}

/* False: no more to accept now. */
static bool accept_one(struct listener *listener)
{
    struct acceptor *acceptor = listener->acceptor;
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof address;
    char peer[INET6_ADDRSTRLEN + 1];
    int fd = accept4(listener->fd, (struct sockaddr *)&address, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            set_listening(acceptor, false);
            event_add(acceptor->retry, &(struct timeval){0, OUT_OF_FD_PAUSE * 1000});
        }
        return errno == ECONNABORTED || errno == EINTR;
    }
    peer_text(&address, peer, sizeof peer);
    if (address.ss_family == AF_INET || address.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    atomic_fetch_add(&acceptor->connections, 1);
    acceptor->accepted(acceptor->arg, (size_t)(listener - acceptor->listeners), fd, peer);
    return true;
}

static void on_listener(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct listener *listener = arg;
    for (int i = 0; i < ACCEPTS_A_TURN && !is_full(listener->acceptor); i++)
        if (!accept_one(listener))
            break;
    pause_if_full(listener->acceptor);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct acceptor *acceptor = arg;
    waker_heard(fd);
    set_listening(acceptor, true);
    pause_if_full(acceptor);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct acceptor *acceptor = arg;
    if (!atomic_load(&acceptor->paused))
        set_listening(acceptor, true);
}

static void wake_if_paused(struct acceptor *acceptor)
{
    if (is_full(acceptor) || !atomic_exchange(&acceptor->paused, false))
        return;
    waker_wake(acceptor->wake_fd);
}

void acceptor_connection_closed(struct acceptor *acceptor)
{
    atomic_fetch_sub(&acceptor->connections, 1);
    wake_if_paused(acceptor);
}

uint32_t acceptor_connections(const struct acceptor *acceptor)
{
    return atomic_load(&acceptor->connections);
}

void acceptor_set_limit(struct acceptor *acceptor, uint32_t connections)
{
    atomic_store(&acceptor->limit, connections);
    wake_if_paused(acceptor);
}

/* ---- binding ---------------------------------------------------------------------------------- */

static bool refuse(char *error, size_t size, const char *address, const char *why)
{
    snprintf(error, size, "cannot listen on %s: %s", address, why);
    return false;
}

static int bind_address(const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)); /* restarts: TIME_WAIT is no other owner */
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0)
        return fd;
    int failure = errno;
    close(fd);
    errno = failure;
    return -1;
}

/* The first address of the name that this machine has. One that is in use is an error, not a reason to take another. */
static bool bind_tcp(const struct conf_listen *listen_on, int *fd, char *error, size_t error_size)
{
    char service[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *list = NULL;
    snprintf(service, sizeof service, "%u", listen_on->port);
    int failure = getaddrinfo(listen_on->host, service, &hints, &list);
    if (failure)
        return refuse(error, error_size, listen_on->address, gai_strerror(failure));
    for (const struct addrinfo *item = list; item; item = item->ai_next) {
        *fd = bind_address(item);
        failure = *fd < 0 ? errno : 0;
        if (failure != EAFNOSUPPORT && failure != EADDRNOTAVAIL)
            break;
    }
    freeaddrinfo(list);
    return !failure || refuse(error, error_size, listen_on->address, strerror(failure));
}

/* What stands at the path: nothing or a dead socket may be replaced, anything else is somebody's. */
static bool clear_unix_path(const struct conf_listen *listen_on, const struct sockaddr_un *address, char *error,
                            size_t error_size)
{
    struct stat found;
    if (lstat(listen_on->unix_path, &found) != 0)
        return errno == ENOENT || refuse(error, error_size, listen_on->address, strerror(errno));
    if (!S_ISSOCK(found.st_mode))
        return refuse(error, error_size, listen_on->address,
                      "the path exists and is no socket; remove it or choose another path");
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int result = probe < 0 ? -1 : connect(probe, (const struct sockaddr *)address, sizeof *address);
    int reason = errno;
    if (probe >= 0)
        close(probe);
    if (result == 0 || reason != ECONNREFUSED)
        return refuse(error, error_size, listen_on->address, "another process listens there");
    return unlink(listen_on->unix_path) == 0 || refuse(error, error_size, listen_on->address, strerror(errno));
}

static bool bind_unix(const struct conf_listen *listen_on, struct listener *listener, char *error, size_t error_size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat made;
    if (strlen(listen_on->unix_path) >= sizeof address.sun_path)
        return refuse(error, error_size, listen_on->address, "the path is too long for a socket");
    strcpy(address.sun_path, listen_on->unix_path);
    if (!clear_unix_path(listen_on, &address, error, error_size))
        return false;
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* The mode before bind narrows what bind creates, the one after undoes the umask: never wider than configured. */
    if (listener->fd < 0 || fchmod(listener->fd, listen_on->mode) != 0 ||
        bind(listener->fd, (const struct sockaddr *)&address, sizeof address) != 0)
        return refuse(error, error_size, listen_on->address, strerror(errno));
    if (chmod(listen_on->unix_path, listen_on->mode) != 0 || lstat(listen_on->unix_path, &made) != 0) {
        refuse(error, error_size, listen_on->address, strerror(errno));
        unlink(listen_on->unix_path); /* bind made it just now */
        return false;
    }
    listener->unix_path = copy_string(listen_on->unix_path);
    listener->device = made.st_dev;
    listener->inode = made.st_ino;
    return true;
}

static bool open_listener(struct acceptor *acceptor, const struct conf_listen *listen_on, char *error,
                          size_t error_size)
{
    struct listener *listener = &acceptor->listeners[acceptor->listener_count++];
    listener->acceptor = acceptor;
    listener->fd = -1;
    bool bound = listen_on->unix_path ? bind_unix(listen_on, listener, error, error_size)
                                      : bind_tcp(listen_on, &listener->fd, error, error_size);
    if (bound && listen(listener->fd, BACKLOG) != 0)
        bound = refuse(error, error_size, listen_on->address, strerror(errno));
    listener->event =
        must_allocate(event_new(acceptor->base, listener->fd, EV_READ | EV_PERSIST, on_listener, listener));
    return bound;
}

static void close_listener(struct listener *listener)
{
    struct stat found;
    event_free(listener->event);
    if (listener->unix_path && lstat(listener->unix_path, &found) == 0 && found.st_dev == listener->device &&
        found.st_ino == listener->inode)
        unlink(listener->unix_path);
    if (listener->fd >= 0)
        close(listener->fd);
    free(listener->unix_path);
}

struct acceptor *acceptor_new(struct event_base *base, const struct conf_listen *addresses, size_t count,
                              uint32_t limit, acceptor_cb *accepted, void *arg, char *error, size_t error_size)
{
    struct acceptor *acceptor = NEW(struct acceptor);
    acceptor->base = base;
    acceptor->accepted = accepted;
    acceptor->arg = arg;
    acceptor->limit = limit;
    acceptor->listeners = NEW_ARRAY(struct listener, count);
    acceptor->wake_fd = waker_open();
    acceptor->wake = must_allocate(event_new(base, acceptor->wake_fd, EV_READ | EV_PERSIST, on_wake, acceptor));
    acceptor->retry = must_allocate(evtimer_new(base, on_retry, acceptor));
    for (size_t i = 0; i < count; i++)
        if (!open_listener(acceptor, &addresses[i], error, error_size)) {
            acceptor_free(acceptor);
            return NULL;
        }
    event_add(acceptor->wake, NULL);
    set_listening(acceptor, true);
    return acceptor;
}

void acceptor_stop(struct acceptor *acceptor)
{
    if (acceptor->stopped)
        return;
    acceptor->stopped = true;
    for (size_t i = 0; i < acceptor->listener_count; i++)
        close_listener(&acceptor->listeners[i]);
    acceptor->listener_count = 0;
}

void acceptor_free(struct acceptor *acceptor)
{
    if (!acceptor)
        return;
    acceptor_stop(acceptor);
    event_free(acceptor->wake);
    event_free(acceptor->retry);
    close(acceptor->wake_fd);
    free(acceptor->listeners);
    free(acceptor);
}
