/*
 * upstream_pool.c - idle connections to the API, newest first, and the graveyard.
 *
 * An idle connection is watched: a byte or an end on it closes it, so does its time; TLS tickets and the like are taken
 * and are nothing. It is reused only while nothing has happened on it, and only under the terms (authorities, name,
 * certificate) that it was made under. Memory of connections and calls that are over is given back on the next turn of
 * the loop: whoever is up the stack still holds them.
 */
#include "proxy/upstream_internal.h"

#include <assert.h>
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#define SPARE_CALLS 0 /* a use after the end is to be seen */
#else
#define SPARE_CALLS 64
#endif
#define HEAD_KEPT 4096          /* bytes of memory that a spare call keeps for a head */
#define PIPE_SIZE (1024 * 1024) /* what any process may ask for: /proc/sys/fs/pipe-max-size */
#define WARM_MS   10            /* no API gives up an idle connection, or says so, within this time */

static void read_on(struct upstream_connection *connection)
{
    struct upstream_call *call = connection->call;
    if (call->state == CALL_CONNECTING) {
        if (connection->securing) /* else the writable side tells about connecting */
            connect_go_on(connection);
        return;
    }
    call_readable(connection);
    if (connection->reading && stream_has_pending(&connection->stream))
        event_active(&connection->readable, EV_READ, 0);
    else if (connection->stream.read_wants_write)
        event_add(&connection->writable, NULL);
}

static void write_on(struct upstream_connection *connection)
{
    connection->write_armed = false;
    if (connection->call->state == CALL_CONNECTING)
        connect_go_on(connection);
    else
        call_writable(connection);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct upstream_connection *connection = arg;
    if (!connection->call) {
        if (!connection->tls || !stream_is_quiet(&connection->stream))
            connection_close(connection); /* a byte that nobody asked for, or the end */
        return;
    }
    if (connection->stream.write_wants_read) {
        connection->stream.write_wants_read = false;
        if (!connection->reading)
            event_del(&connection->readable);
        write_on(connection);
    }
    if (connection->reading && connection->call)
        read_on(connection);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct upstream_connection *connection = arg;
    if (connection->stream.read_wants_write) {
        connection->stream.read_wants_write = false;
        if (connection->reading && connection->call)
            read_on(connection);
    }
    if (connection->call && connection->write_armed)
        write_on(connection);
}

static void on_idle_over(void *arg)
{
    connection_close(arg);
}

struct upstream_connection *connection_new(struct upstream_pool *pool, const struct upstream_request *request, int fd)
{
    struct upstream_connection *connection = NEW(struct upstream_connection);
    connection->pool = pool;
    connection->stream.fd = fd;
    connection->url = copy_string(request->upstream->url);
    connection->tls = tls_client_ref(request->tls);
    connection->parser = http_parser_new(HTTP_RESPONSES, &pool->limits);
    event_assign(&connection->readable, pool->base, fd, EV_READ | EV_PERSIST, on_readable, connection);
    event_assign(&connection->writable, pool->base, fd, EV_WRITE, on_writable, connection);
    deadline_init(&connection->idle, pool->base, on_idle_over, connection);
    pool->connections++;
    pool->opened++;
    return connection;
}

void connection_want_reading(struct upstream_connection *connection, bool wanted)
{
    if (connection->reading == wanted)
        return;
    connection->reading = wanted;
    if (!wanted && !connection->stream.write_wants_read)
        event_del(&connection->readable);
    if (!wanted)
        return;
    event_add(&connection->readable, NULL);
    if (stream_has_pending(&connection->stream))
        event_active(&connection->readable, EV_READ, 0);
}

void connection_wait_to_write(struct upstream_connection *connection)
{
    connection->write_armed = true;
    event_add(connection->stream.write_wants_read ? &connection->readable : &connection->writable, NULL);
}

static void unlink_idle(struct upstream_connection *connection)
{
    struct upstream_pool *pool = connection->pool;
    if (connection->prev)
        connection->prev->next = connection->next;
    else if (pool->idle == connection)
        pool->idle = connection->next;
    if (connection->next)
        connection->next->prev = connection->prev;
    connection->next = connection->prev = NULL;
    pool->idle_count--;
}

void connection_close(struct upstream_connection *connection)
{
    struct upstream_pool *pool = connection->pool;
    if (!connection->call)
        unlink_idle(connection);
    connection->call = NULL;
    event_del(&connection->readable);
    event_del(&connection->writable);
    deadline_destroy(&connection->idle);
    connection->reading = false;
    stream_close(&connection->stream);
    connection->next = pool->dead_connections;
    pool->dead_connections = connection;
    pool->connections--;
    event_active(&pool->bury, 0, 0);
}

/* An end or a byte on it would have been told by the loop; what has come since its last turn is looked for on the
 * socket. That look is left out right after an answer where the request may be sent again anyway. */
static bool is_fresh(struct upstream_connection *connection, bool resend, int64_t now)
{
    if (connection->idle.due_ms <= now) /* the timer may be late */
        return false;
    return (resend && now - connection->idle_since_ms < WARM_MS) || stream_is_quiet(&connection->stream);
}

struct upstream_connection *pool_take(struct upstream_pool *pool, const struct upstream_request *request)
{
    int64_t now = pool->idle ? monotonic_ms() : 0;
    for (struct upstream_connection *connection = pool->idle, *next; connection; connection = next) {
        next = connection->next;
        if (strcmp(connection->url, request->upstream->url) != 0 || connection->tls != request->tls)
            continue;
        if (!is_fresh(connection, request->resend, now)) {
            connection_close(connection);
            continue;
        }
        unlink_idle(connection);
        deadline_clear(&connection->idle);
        http_set_limits(connection->parser, &pool->limits);
        return connection;
    }
    return NULL;
}

static bool has_place(const struct upstream_pool *pool, const struct conf_upstream *upstream)
{
    if (pool->idle_count < upstream->keepalive)
        return true; /* fewer in all than this one may have */
    size_t count = 0;
    for (const struct upstream_connection *connection = pool->idle; connection; connection = connection->next)
        count += strcmp(connection->url, upstream->url) == 0;
    return count < upstream->keepalive;
}

void pool_give(struct upstream_connection *connection, const struct conf_upstream *upstream)
{
    struct upstream_pool *pool = connection->pool;
    int64_t keep = upstream->keepalive_idle;
    if (connection->idle_ms >= 0 && connection->idle_ms < keep)
        keep = connection->idle_ms;
    if (keep <= 0 || !has_place(pool, upstream)) {
        connection_close(connection);
        return;
    }
    connection->call = NULL;
    buffer_free(&connection->input); /* a head that came in pieces: all of it is used */
    connection->next = pool->idle;
    if (connection->next)
        connection->next->prev = connection;
    pool->idle = connection;
    pool->idle_count++;
    connection_want_reading(connection, true);
    connection->idle_since_ms = monotonic_ms();
    deadline_set(&connection->idle, connection->idle_since_ms + keep);
}

struct upstream_call *pool_new_call(struct upstream_pool *pool)
{
    struct upstream_call *call = pool->spare_calls;
    if (call) {
        pool->spare_calls = call->next;
        pool->spare_count--;
        memset(call, 0, offsetof(struct upstream_call, head));
    } else {
        call = NEW(struct upstream_call);
        deadline_init(&call->deadline, pool->base, call_on_deadline, call);
        event_assign(&call->later, pool->base, -1, 0, call_on_later, call);
    }
    call->pool = pool;
    call->read_size = UPSTREAM_INPUT_SIZE;
    pool->calls++;
    return call;
}

void pool_bury(struct upstream_call *call)
{
    call->next = call->pool->dead_calls;
    call->pool->dead_calls = call;
    call->pool->calls--;
    event_active(&call->pool->bury, 0, 0);
}

static void free_call(struct upstream_call *call)
{
    deadline_destroy(&call->deadline);
    buffer_free(&call->head);
    free(call);
}

static void bury_call(struct upstream_pool *pool, struct upstream_call *call)
{
    buffer_free(&call->streamed);
    if (pool->spare_count == SPARE_CALLS || call->head.capacity > HEAD_KEPT) {
        free_call(call);
        return;
    }
    buffer_consume(&call->head, buffer_len(&call->head));
    call->next = pool->spare_calls;
    pool->spare_calls = call;
    pool->spare_count++;
}

static void bury(struct upstream_pool *pool)
{
    while (pool->dead_connections) {
        struct upstream_connection *connection = pool->dead_connections;
        pool->dead_connections = connection->next;
        http_parser_free(connection->parser);
        buffer_free(&connection->input);
        tls_client_unref(connection->tls);
        free(connection->url);
        free(connection);
    }
    while (pool->dead_calls) {
        struct upstream_call *call = pool->dead_calls;
        pool->dead_calls = call->next;
        bury_call(pool, call);
    }
}

static void close_pipe(struct upstream_pool *pool)
{
    for (int i = 0; i < 2 && pool->pipe[i] >= 0; i++) {
        close(pool->pipe[i]);
        pool->pipe[i] = -1;
    }
}

static void on_bury(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    bury(arg);
}

/* Where there can be none, or only a small one, bodies are copied. */
static void open_pipe(struct upstream_pool *pool)
{
    if (pipe2(pool->pipe, O_CLOEXEC | O_NONBLOCK) != 0)
        pool->pipe[0] = pool->pipe[1] = -1;
    else if (fcntl(pool->pipe[1], F_SETPIPE_SZ, PIPE_SIZE) < 0)
        close_pipe(pool);
}

struct upstream_pool *upstream_pool_new(struct event_base *base, struct resolver_client *resolver,
                                        const struct http_limits *limits)
{
    struct upstream_pool *pool = NEW(struct upstream_pool);
    pool->base = base;
    pool->resolver = resolver;
    pool->limits = *limits;
    pool->fresh = must_allocate(malloc(UPSTREAM_INPUT_MAX));
    open_pipe(pool);
    event_assign(&pool->bury, base, -1, 0, on_bury, pool);
    return pool;
}

void upstream_pool_set_limits(struct upstream_pool *pool, const struct http_limits *limits)
{
    pool->limits = *limits;
}

size_t upstream_pool_connections(const struct upstream_pool *pool)
{
    return pool->connections;
}

uint64_t upstream_pool_opened(const struct upstream_pool *pool)
{
    return pool->opened;
}

void upstream_pool_drop_idle(struct upstream_pool *pool)
{
    while (pool->idle)
        connection_close(pool->idle);
}

void upstream_pool_free(struct upstream_pool *pool)
{
    assert(pool->calls == 0 && "every call has ended");
    upstream_pool_drop_idle(pool);
    bury(pool);
    assert(pool->connections == 0);
    event_del(&pool->bury);
    while (pool->spare_calls) {
        struct upstream_call *call = pool->spare_calls;
        pool->spare_calls = call->next;
        free_call(call);
    }
    close_pipe(pool);
    free(pool->fresh);
    free(pool);
}
