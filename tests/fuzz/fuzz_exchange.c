/*
 * fuzz_exchange.c - a whole worker between clients and an API that say whatever the input says, whenever it says it.
 *
 * The input is a list of small operations: connect, send these bytes, close, reset, stop reading, let time pass, drain.
 * Clients are socketpairs, the API is a unix socket of ours. Time is ours, too: clock_gettime() of the process runs
 * ahead by what the input says, so that deadlines of minutes pass in no time. What must hold, whatever the input:
 *
 *     the API gets well-formed requests only, framed once;
 *     no key reaches it twice (every status is recorded here, nothing is released, and a probe never says that
 *     something has not happened);
 *     what a client gets begins with a status line;
 *     when everybody has left and time has passed, no exchange and no connection is left.
 *
 * Left out: what answers say (tests/e2e), TLS, resolving.
 */
#include "conf/load.h"
#include "proxy/exchange_internal.h"
#include "proxy/worker.h"

#include <assert.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CLIENTS    4
#define APIS       32
#define KEPT       (64 * 1024) /* bytes that are kept of a connection to the API */
#define TURNS      3
#define STORE_WAIT 20   /* ms at most for an answer of the store's thread */
#define PATIENCE   5000 /* ms of real time until everything must be over */
#define KEYS       64
#define BIG_WRITE  40000
#define BUDGET     (64 * 1024) /* limits.buffer_memory, smaller than may be configured */

/* ---- time ------------------------------------------------------------------------------------- */

static _Atomic int64_t ahead_ms; /* how far our clocks run ahead; only ever forward */

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (failed || clock == CLOCK_REALTIME || clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID)
        return failed;
    int64_t ahead = atomic_load(&ahead_ms);
    now->tv_sec += ahead / 1000;
    now->tv_nsec += ahead % 1000 * 1000000;
    if (now->tv_nsec >= 1000000000) {
        now->tv_nsec -= 1000000000;
        now->tv_sec++;
    }
    return 0;
}

/* The store's thread waits until a time by our clock; the kernel's is behind. Only for conditions on CLOCK_MONOTONIC.
 */
int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    int64_t ahead = atomic_load(&ahead_ms), at = until->tv_sec * INT64_C(1000) + until->tv_nsec / 1000000 - ahead;
    struct timespec real = {.tv_sec = at > 0 ? at / 1000 : 0, .tv_nsec = at > 0 ? at % 1000 * 1000000 : 0};
    return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &real);
}

/* ---- the world -------------------------------------------------------------------------------- */

struct peer {
    int fd; /* -1: none */
    bool stalled;
    struct buffer got;
};

struct world {
    struct worker *worker;
    struct store *store;
    struct peer clients[CLIENTS], apis[APIS];
    size_t api_count;
    bool leaving;
};

static char directory[] = "/tmp/einmal-fuzz-XXXXXX";
static struct worker_shared shared;
static struct conf *conf;
static struct tls *contexts; /* of nothing: everything is plain here */
static struct event_base *control;
static int listener;

static const char *environment(void *arg, const char *name)
{
    (void)arg, (void)name;
    return NULL;
}

static void remove_directory(void)
{
    char path[100];
    snprintf(path, sizeof path, "%s/api", directory);
    unlink(path);
    snprintf(path, sizeof path, "%s/listen", directory);
    unlink(path);
    rmdir(directory);
}

static void load_configuration(void)
{
    static const char format[] =
        "listen: [{address: \"unix:%s/listen\"}]\n"
        "log: {access: false, level: error}\n"
        "limits: {header_bytes: 2KiB, headers: 24, request_target: 512}\n"
        "upstreams: {api: {url: \"http+unix:%s/api\"}}\n"
        "routes:\n"
        "  - {name: p, match: {path: /p/**}, scope: [], retention: 3650d, max_response_body: 16KiB, on_unknown: "
        "probe,\n"
        "     statuses: {completed: [], release: [], unknown: [500], other: completed}, cors: [\"https://a\"],\n"
        "     probe: {path: \"/q/{key}?a={json:/a}\", not_happened: []}}\n"
        "  - {name: r, match: {path: /**}, scope: [], retention: 3650d, max_request_body: 8KiB, max_response_body: "
        "16KiB,\n"
        "     statuses: {completed: [], release: [], unknown: [500], other: completed}, cors: [\"https://a\"]}\n";
    char text[sizeof format + 200];
    snprintf(text, sizeof text, format, directory, directory);
    conf = conf_load_text("f", text, strlen(text), NULL, environment, NULL, stderr);
    assert(conf);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char error[256];
    (void)argc, (void)argv;
    char *made = mkdtemp(directory);
    assert(made);
    atexit(remove_directory);
    signal(SIGPIPE, SIG_IGN); /* as the server does */
    load_configuration();
    snprintf(address.sun_path, sizeof address.sun_path, "%s/api", directory);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int failed = bind(listener, (const struct sockaddr *)&address, sizeof address) || listen(listener, 128);
    assert(!failed);
    contexts = tls_load(conf, NULL, stderr);
    assert(contexts);
    control = event_base_new();
    shared.log = log_new();
    log_configure(shared.log, LOG_LEVEL_ERROR, false);
    shared.resolver = resolver_new();
    shared.acceptor = acceptor_new(control, conf->listen, conf->listen_count, conf->limits.connections, NULL, NULL,
                                   error, sizeof error); /* only counts */
    assert(shared.acceptor);
    return 0;
}

static void store_log(void *arg, enum store_log_level level, const char *message)
{
    (void)arg, (void)level, (void)message;
}

static void open_world(struct world *world)
{
    char error[256];
    *world = (struct world){.api_count = 0};
    for (size_t i = 0; i < CLIENTS; i++)
        world->clients[i].fd = -1;
    world->store = store_open(&(struct store_config){.engine = "memory",
                                                     .path = directory,
                                                     .max_size = 64 << 20,
                                                     .create = true,
                                                     .waiters_per_action = 4,
                                                     .waiters = 8,
                                                     .log = store_log},
                              error, sizeof error);
    assert(world->store);
    shared.store = world->store;
    atomic_store(&shared.budget.left, BUDGET);
    world->worker = worker_new(&shared, conf, contexts);
}

/* ---- what comes out --------------------------------------------------------------------------- */

static void read_from(struct peer *peer)
{
    char bytes[16384];
    while (peer->fd >= 0 && !peer->stalled) {
        ssize_t got = recv(peer->fd, bytes, sizeof bytes, 0);
        if (got <= 0)
            return;
        if (buffer_len(&peer->got) + (size_t)got <= KEPT)
            buffer_append(&peer->got, bytes, (size_t)got);
        else if (buffer_len(&peer->got) < KEPT) /* what follows a gap cannot be judged */
            buffer_append(&peer->got, bytes, KEPT - buffer_len(&peer->got));
    }
}

static void close_peer(struct peer *peer)
{
    if (peer->fd >= 0)
        close(peer->fd);
    peer->fd = -1;
}

static void accept_all(struct world *world)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if (world->leaving || world->api_count == APIS)
            close(fd);
        else
            world->apis[world->api_count++].fd = fd;
    }
}

/* Is an answer of the store's thread on its way? Waiting for it keeps a run the same each time. */
static bool store_owes(const struct worker *worker)
{
    for (const struct exchange *exchange = worker->exchanges; exchange; exchange = exchange->next)
        if (exchange->settle_out || (exchange->reserve_out && !exchange->queued))
            return true;
    return false;
}

/* Lets everybody do what can be done now. */
static void turn(struct world *world)
{
    for (int i = 0; i < TURNS; i++) {
        event_base_loop(world->worker->base, EVLOOP_NONBLOCK);
        accept_all(world);
        for (size_t c = 0; c < CLIENTS; c++)
            read_from(&world->clients[c]);
        for (size_t a = 0; a < world->api_count; a++)
            read_from(&world->apis[a]);
        struct pollfd store = {store_handle_fd(world->worker->store), POLLIN, 0};
        if (store_owes(world->worker) && poll(&store, 1, STORE_WAIT) > 0)
            event_base_loop(world->worker->base, EVLOOP_NONBLOCK);
    }
}

static void ignore_body(void *arg, const char *data, size_t len)
{
    (void)arg, (void)data, (void)len;
}

struct keys {
    struct span items[KEYS];
    size_t count;
};

static void note_key(struct keys *keys, const struct http_message *message)
{
    const struct http_field *field = http_find(message, SPAN("Idempotency-Key"));
    if (!field || (message->method_id != HTTP_POST && message->method_id != HTTP_PATCH))
        return;
    for (size_t i = 0; i < keys->count; i++)
        assert(!span_equal(keys->items[i], field->value) && "a key reaches the API once");
    if (keys->count < KEYS)
        keys->items[keys->count++] = field->value;
}

/* Everything that the API got on one connection. */
static void judge_api(const struct buffer *got, struct keys *keys)
{
    static const struct http_limits limits = {.header_bytes = 1 << 16, .headers = 200, .request_target = 4096};
    struct http_parser *parser = http_parser_new(HTTP_REQUESTS, &limits);
    const char *at = buffer_data(got), *end = at + buffer_len(got);
    for (;;) {
        struct http_message message;
        enum problem_code problem;
        size_t used;
        enum http_head_verdict head = http_read_head(parser, at, (size_t)(end - at), &used, &message, &problem);
        assert(head != HTTP_HEAD_REFUSED && "the API gets well-formed heads");
        if (head == HTTP_HEAD_MORE)
            break;
        assert(message.host.len && message.minor == 1);
        note_key(keys, &message);
        at += used;
        bool tunnel = message.upgrade; /* what follows may be anything */
        enum http_body_verdict body = http_read_body(parser, at, (size_t)(end - at), &used, ignore_body, NULL);
        assert(body != HTTP_BODY_REFUSED && "the API gets well-formed bodies");
        if (tunnel || body == HTTP_BODY_MORE)
            break;
        at += used;
        http_next(parser);
    }
    http_parser_free(parser);
}

static void judge(const struct world *world)
{
    struct keys keys = {.count = 0};
    for (size_t i = 0; i < world->api_count; i++)
        if (buffer_len(&world->apis[i].got))
            judge_api(&world->apis[i].got, &keys);
}

static void judge_client(struct peer *client)
{
    size_t len = buffer_len(&client->got) < 9 ? buffer_len(&client->got) : 9;
    assert((len == 0 || memcmp(buffer_data(&client->got), "HTTP/1.1 ", len) == 0) &&
           "answers begin with a status line");
    buffer_free(&client->got);
}

/* ---- operations ------------------------------------------------------------------------------- */

static void connect_client(struct world *world, struct peer *client)
{
    int pair[2];
    close_peer(client);
    judge_client(client);
    client->stalled = false;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
        return;
    client->fd = pair[0];
    worker_give(world->worker, pair[1], "192.0.2.1", NULL);
}

static void send_to(const struct peer *peer, const void *bytes, size_t len)
{
    if (peer && peer->fd >= 0) {
        ssize_t sent = send(peer->fd, bytes, len, MSG_NOSIGNAL);
        (void)sent; /* what the socket does not take is lost, as if never said */
    }
}

static void special(struct world *world, struct peer *client, struct peer *api, uint8_t what)
{
    static char big[BIG_WRITE];
    switch (what % 6) {
    case 0:
        worker_drain(world->worker);
        break;
    case 1:
        if (world->worker->draining)
            worker_drain_limit(world->worker);
        break;
    case 2:
        client->stalled = !client->stalled;
        break;
    case 3:
        if (api)
            api->stalled = !api->stalled;
        break;
    case 4:
        memset(big, 'c', sizeof big);
        send_to(client, big, sizeof big);
        break;
    case 5:
        memset(big, 'a', sizeof big);
        send_to(api, big, sizeof big);
        break;
    }
}

/* One operation: a byte that says what and with whom, perhaps an argument, perhaps bytes. Returns how long it was. */
static size_t operate(struct world *world, const uint8_t *data, size_t size)
{
    uint8_t what = data[0] & 7, who = data[0] >> 3, argument = size > 1 ? data[1] : 0;
    size_t len = argument < size - 1 ? argument : size - 2;
    struct peer *client = &world->clients[who % CLIENTS];
    struct peer *api = world->api_count ? &world->apis[(world->api_count - 1 - who % world->api_count)] : NULL;
    if (size < 2)
        return 1;
    switch (what) {
    case 0:
        connect_client(world, client);
        return 1;
    case 1:
        send_to(client, data + 2, len);
        return 2 + len;
    case 2:
        send_to(api, data + 2, len);
        return 2 + len;
    case 3:
        if (client->fd >= 0)
            shutdown(client->fd, SHUT_WR);
        return 1;
    case 4:
        close_peer(client);
        return 1;
    case 5:
        if (api && api->fd >= 0 && who % 2)
            shutdown(api->fd, SHUT_WR);
        else if (api)
            close_peer(api);
        return 1;
    case 6:
        atomic_fetch_add(&ahead_ms, INT64_C(1) << argument % 21);
        return 2;
    default:
        special(world, client, api, argument);
        return 2;
    }
}

/* Everybody leaves, hours pass: nothing may be left. */
static void close_world(struct world *world)
{
    struct worker *worker = world->worker;
    world->leaving = true;
    for (size_t i = 0; i < CLIENTS; i++)
        world->clients[i].stalled = false;
    for (size_t i = 0; i < world->api_count; i++)
        world->apis[i].stalled = false;
    turn(world);
    judge(world);
    for (size_t i = 0; i < CLIENTS; i++)
        close_peer(&world->clients[i]);
    for (size_t i = 0; i < world->api_count; i++)
        close_peer(&world->apis[i]);
    for (int i = 0; worker->exchange_count || worker->connection_count; i++) {
        assert(i < PATIENCE && "nothing is left when everybody has left");
        turn(world);
        atomic_fetch_add(&ahead_ms, 1 << 20);
        if (i > 10)
            poll(NULL, 0, 1);
    }
    for (size_t i = 0; i < CLIENTS; i++)
        judge_client(&world->clients[i]);
    for (size_t i = 0; i < world->api_count; i++)
        buffer_free(&world->apis[i].got);
    worker_free(worker);
    bool committed = store_close(world->store, PATIENCE);
    assert(committed && "every record is committed");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world world;
    open_world(&world);
    while (size) {
        size_t used = operate(&world, data, size);
        turn(&world);
        data += used;
        size -= used;
    }
    close_world(&world);
    return 0;
}
