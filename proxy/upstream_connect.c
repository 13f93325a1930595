/*
 * upstream_connect.c - from a name to a connected socket: all addresses, one after another, within connect_timeout.
 * What is left of it is shared out among the addresses that are left, so that one which does not answer leaves the
 * others their turn.
 *
 * A unix socket whose backlog is full says so at once, and no event tells when there is room: it is tried again and
 * again, with a pause, for as long as the time is not over.
 *
 * To an https upstream the TLS handshake is part of it. Not one byte of the request is written here, so whatever fails
 * here leaves it unsent.
 */
#include "proxy/upstream_internal.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG_PAUSE_MS 10

static void fail(struct upstream_call *call, const char *detail)
{
    const struct conf_upstream *upstream = call->request.upstream;
    if (upstream->host)
        resolver_failed(call->pool->resolver, upstream->host, upstream->port);
    call_unreachable(call, detail);
}

enum beginning {
    BEGUN,
    BEGIN_LATER, /* no room in the backlog */
    BEGIN_NEVER, /* this address is out of the question */
};

/* Begins to connect to one address. */
static enum beginning begin(struct upstream_call *call, const struct sockaddr *address, socklen_t len)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return BEGIN_NEVER;
    if (address->sa_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (connect(fd, address, len) != 0 && errno != EINPROGRESS) {
        bool full = errno == EAGAIN && address->sa_family == AF_UNIX;
        close(fd);
        return full ? BEGIN_LATER : BEGIN_NEVER;
    }
    struct upstream_connection *connection = connection_new(call->pool, &call->request, fd);
    connection->call = call;
    call->connection = connection;
    connection->write_armed = true;
    event_add(&connection->writable, NULL); /* also where it is connected already: the loop tells */
    return BEGUN;
}

static void try_next(struct upstream_call *call)
{
    while (call->next_address < call->addresses.count) {
        int64_t now = monotonic_ms(), left = call->connect_due_ms > now ? call->connect_due_ms - now : 0;
        deadline_set(&call->deadline, now + left / (call->addresses.count - call->next_address));
        int i = call->next_address++;
        switch (begin(call, (const struct sockaddr *)&call->addresses.items[i], call->addresses.lengths[i])) {
        case BEGUN:
            return;
        case BEGIN_LATER:
            call->next_address = i; /* connect_timed_out() comes back to it */
            deadline_set(&call->deadline, now + (left < BACKLOG_PAUSE_MS ? left : BACKLOG_PAUSE_MS));
            return;
        case BEGIN_NEVER:
            break;
        }
    }
    fail(call, *call->tls_failure ? call->tls_failure : "no address could be connected to");
}

static void give_up(struct upstream_connection *connection)
{
    struct upstream_call *call = connection->call;
    call->connection = NULL;
    connection_close(connection);
    try_next(call);
}

static void secure(struct upstream_connection *connection)
{
    struct upstream_call *call = connection->call;
    switch (stream_handshake(&connection->stream)) {
    case STREAM_OK:
        connection->securing = false;
        call_connected(call, connection);
        if (stream_has_pending(&connection->stream) && connection->call == call)
            event_active(&connection->readable, EV_READ, 0);
        return;
    case STREAM_AGAIN:
        if (connection->stream.read_wants_write)
            event_add(&connection->writable, NULL);
        return;
    case STREAM_END:
    case STREAM_CUT:
    case STREAM_BROKEN:
        tls_explain(&connection->stream, call->tls_failure, sizeof call->tls_failure);
        give_up(connection);
        return;
    }
}

void connect_go_on(struct upstream_connection *connection)
{
    int error = 0;
    socklen_t len = sizeof error;
    if (connection->securing) {
        secure(connection);
    } else if (getsockopt(connection->stream.fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 || error) {
        give_up(connection);
    } else {
        connection_want_reading(connection, true);
        if (!connection->tls) {
            call_connected(connection->call, connection);
            return;
        }
        tls_client_begin(connection->tls, &connection->stream);
        connection->securing = true;
        secure(connection);
    }
}

static void on_resolved(void *arg, const struct resolver_addresses *addresses)
{
    struct upstream_call *call = arg;
    call->query = NULL;
    if (addresses != &call->addresses)
        call->addresses = *addresses;
    if (!addresses->count)
        fail(call, "the name could not be resolved");
    else
        try_next(call);
}

static void connect_unix(struct upstream_call *call, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    assert(len < sizeof address.sun_path && "the configuration was checked");
    memcpy(address.sun_path, path, len);
    memcpy(&call->addresses.items[0], &address, sizeof address);
    call->addresses.lengths[0] = sizeof address;
    call->addresses.count = 1;
    try_next(call);
}

void connect_start(struct upstream_call *call)
{
    const struct conf_upstream *upstream = call->request.upstream;
    call->state = CALL_CONNECTING;
    call->next_address = 0;
    call->addresses.count = 0;
    *call->tls_failure = '\0';
    if (!call->connect_due_ms)
        call->connect_due_ms = monotonic_ms() + upstream->connect_timeout;
    deadline_set(&call->deadline, call->connect_due_ms);
    if (upstream->unix_path)
        connect_unix(call, upstream->unix_path);
    else if (resolver_look_up(call->pool->resolver, upstream->host, upstream->port, &call->addresses, &call->query,
                              on_resolved, call))
        on_resolved(call, &call->addresses);
}

void connect_cancel(struct upstream_call *call)
{
    if (call->query)
        resolver_cancel(call->query);
    call->query = NULL;
}

void connect_timed_out(struct upstream_call *call)
{
    bool resolving = call->query != NULL, securing = call->connection && call->connection->securing;
    connect_cancel(call);
    if (call->connection)
        connection_close(call->connection);
    call->connection = NULL;
    if (!resolving && call->next_address < call->addresses.count && monotonic_ms() < call->connect_due_ms)
        try_next(call);
    else
        fail(call, securing ? "TLS handshake not over in connect_timeout" : "not connected in connect_timeout");
}
