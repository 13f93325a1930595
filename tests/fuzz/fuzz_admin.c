/*
 * fuzz_admin.c - the admin and health listeners, whole, before a store in memory.
 *
 * The first bytes of the input choose: which listener, with or without a token, where the bytes are cut, and whether
 * the rest is sent as it is or as the body of a resolution of an action that is unknown. What must hold, whatever the
 * input:
 *
 *     whatever comes back begins with a status line; what says that it is JSON is;
 *     an action in progress stays so, for no person decides about it;
 *     without the token nothing is changed;
 *     a response that a person gave can be replayed;
 *     when the peer has left nothing is left (admin_free asserts it).
 *
 * Left out: time (no deadline passes), backups (the store in memory has none: they fail).
 */
#include "conf/load.h"
#include "proxy/admin/internal.h"
#include "proxy/json.h"
#include "proxy/stored_response.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PATIENCE  5000 /* ms of real time until everything must be over */
#define TOKEN     "t0ken"
#define ACTIONS   3
#define KEPT      (256 * 1024)
#define UNKNOWN   0
#define COMPLETED 1
#define RUNNING   2

static char directory[] = "/tmp/einmal-fuzz-admin-XXXXXX";
static struct conf *conf;
static struct log *quiet;

struct world {
    struct store *store;
    struct admin *admin;
    struct store_id ids[ACTIONS];
    uint64_t running_token;
    bool with_token, drained;
    int fd; /* the peer's end; -1: it has left */
    struct buffer got;
};

/* ---- the world -------------------------------------------------------------------------------- */

static const char *environment(void *arg, const char *name)
{
    (void)arg, (void)name;
    return NULL;
}

static void remove_directory(void)
{
    rmdir(directory);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char format[] = "upstreams: {api: {url: \"http://127.0.0.1:1\"}}\n"
                                 "store: {path: \"%s\"}\n"
                                 "health: {address: \"unix:%s/health\"}\nadmin: {address: \"unix:%s/admin\"}\n"
                                 "routes: [{name: r, retention: 3650d, replay_headers: {drop: [X-Drop]}}]\n";
    char text[sizeof format + 200];
    (void)argc, (void)argv;
    char *made = mkdtemp(directory);
    assert(made);
    atexit(remove_directory);
    signal(SIGPIPE, SIG_IGN);
    snprintf(text, sizeof text, format, directory, directory, directory);
    conf = conf_load_text("f", text, strlen(text), NULL, environment, NULL, stderr);
    assert(conf);
    quiet = log_new();
    log_configure(quiet, LOG_LEVEL_ERROR, false);
    return 0;
}

static void store_log(void *arg, enum store_log_level level, const char *message)
{
    (void)arg, (void)level, (void)message;
}

static void no_metrics(void *arg, struct buffer *out)
{
    (void)arg;
    buffer_append_span(out, SPAN("x 1\n"));
}

static void no_connections(void *arg, struct admin_connection_counts *out)
{
    (void)arg;
    *out = (struct admin_connection_counts){1, 2};
}

static bool has_drained(void *arg)
{
    return ((struct world *)arg)->drained;
}

static void drain(void *arg)
{
    ((struct world *)arg)->drained = true;
}

struct asked {
    struct store_op op; /* first: done() knows it by this */
    bool answered;
};

static void note_answer(struct store_op *op)
{
    assert(op->result.answer == STORE_GRANTED || op->result.answer == STORE_DONE);
    ((struct asked *)op)->answered = true;
}

static void settle(struct store_handle *handle, struct asked *asked)
{
    asked->op.done = note_answer;
    store_submit(handle, &asked->op);
    while (!asked->answered) {
        struct pollfd wait = {store_handle_fd(handle), POLLIN, 0};
        int ready = poll(&wait, 1, PATIENCE);
        assert(ready == 1 || (ready < 0 && errno == EINTR)); /* libFuzzer looks at the time by a signal */
        store_handle_deliver(handle);
    }
}

/* One action in each state. */
static void record_actions(struct world *world)
{
    struct store_handle *handle = store_handle_open(world->store);
    for (uint8_t i = 0; i < ACTIONS; i++) {
        struct asked begin = {.op = {.verb = STORE_RESERVE,
                                     .unknown_retention_ms = STORE_FOREVER,
                                     .about = {"r", "s", "task", "key", STORE_KEY_SENT}}};
        memset(begin.op.id.bytes, i + 1, sizeof begin.op.id.bytes);
        world->ids[i] = begin.op.id;
        settle(handle, &begin);
        struct asked end = {.op = {.verb = i == UNKNOWN ? STORE_ABANDON : STORE_COMPLETE,
                                   .id = begin.op.id,
                                   .token = begin.op.result.token,
                                   .reason = STORE_REASON_CLOSED,
                                   .not_kept = true,
                                   .status = 200,
                                   .retention_ms = STORE_FOREVER}};
        if (i != RUNNING)
            settle(handle, &end);
        else
            world->running_token = end.op.token;
    }
    store_handle_close(handle);
}

static void end_running(struct world *world)
{
    struct store_handle *handle = store_handle_open(world->store);
    struct asked end = {.op = {.verb = STORE_ABANDON,
                               .id = world->ids[RUNNING],
                               .token = world->running_token,
                               .reason = STORE_REASON_CLOSED,
                               .retention_ms = STORE_FOREVER}};
    settle(handle, &end);
    store_handle_close(handle);
}

static void open_world(struct world *world)
{
    char error[256];
    const struct admin_hooks hooks = {world, no_metrics, no_connections, has_drained, has_drained, drain};
    struct admin_token token = {world->with_token ? copy_string(TOKEN) : NULL};
    world->store = store_open(
        &(struct store_config){
            .engine = "memory", .max_size = 64 << 20, .waiters = 10, .waiters_per_action = 10, .log = store_log},
        error, sizeof error);
    assert(world->store);
    record_actions(world);
    world->admin = admin_new(conf, token, world->store, quiet, &hooks, error, sizeof error);
    assert(world->admin);
}

static void close_world(struct world *world)
{
    admin_free(world->admin);
    if (world->fd >= 0)
        close(world->fd); /* it was reset, not ended */
    end_running(world);   /* its token has been held all the while */
    bool closed = store_close(world->store, PATIENCE);
    assert(closed);
    buffer_free(&world->got);
}

/* ---- the peer --------------------------------------------------------------------------------- */

static void dial(struct world *world, bool health)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", directory, health ? "health" : "admin");
    world->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int failed = connect(world->fd, (const struct sockaddr *)&address, sizeof address);
    assert(!failed);
}

static void listen_to(struct world *world)
{
    for (;;) {
        char *to = buffer_reserve(&world->got, 65536);
        ssize_t got = world->fd < 0 ? 0 : read(world->fd, to, 65536);
        if (got > 0 && buffer_len(&world->got) < KEPT)
            buffer_commit(&world->got, (size_t)got);
        if (got == 0 && world->fd >= 0) {
            close(world->fd);
            world->fd = -1;
        }
        if (got <= 0)
            return;
    }
}

static bool is_over(const struct world *world)
{
    return world->admin->work_count == 0 && world->admin->everything.count == 0 && world->admin->health.count == 0;
}

static void turn(struct world *world)
{
    event_base_loop(world->admin->base, EVLOOP_NONBLOCK);
    listen_to(world);
}

static void say(struct world *world, struct span bytes, size_t cut)
{
    while (bytes.len && world->fd >= 0) {
        size_t len = bytes.len < cut ? bytes.len : cut;
        ssize_t sent = send(world->fd, bytes.data, len, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            return;
        bytes = span_after(bytes, sent > 0 ? (size_t)sent : 0);
        turn(world);
    }
}

static void wait_for_the_end(struct world *world)
{
    int64_t until = monotonic_ms() + PATIENCE;
    if (world->fd >= 0)
        shutdown(world->fd, SHUT_WR);
    for (int turns = 0; !is_over(world); turns++) {
        turn(world);
        if (turns > 3)
            usleep(50);
        assert(monotonic_ms() < until && "everything ends when the peer has left");
    }
    listen_to(world);
}

/* ---- what must hold --------------------------------------------------------------------------- */

/* Of the first answer. */
static void check_answer(const struct world *world)
{
    struct span got = buffer_span(&world->got);
    if (got.len < 15)
        return;
    assert(memcmp(got.data, "HTTP/1.1 ", 9) == 0);
    const char *end = memmem(got.data, got.len, "\r\n\r\n", 4);
    assert(end && "a head comes whole");
    struct span head = {got.data, (size_t)(end - got.data)};
    const char *length = memmem(head.data, head.len, "Content-Length: ", 16);
    bool is_json = memmem(head.data, head.len, "json\r\n", 6) != NULL;
    if (!length || !is_json)
        return;
    struct span body = span_after(got, head.len + 4);
    size_t len = strtoul(length + 16, NULL, 10);
    if (body.len >= len && len && *body.data == '{') /* else the answer to HEAD, and another one behind it */
        assert(json_valid((struct span){body.data, len}));
}

static void check_actions(const struct world *world, bool changed_by_right)
{
    static const enum store_state states[] = {STORE_UNKNOWN, STORE_COMPLETED, STORE_IN_PROGRESS};
    for (size_t i = 0; i < ACTIONS; i++) {
        struct store_action action = {0};
        struct stored_response *view = NEW(struct stored_response);
        enum store_read read = store_get(world->store, &world->ids[i], &action);
        assert(read != STORE_READ_FAILED);
        bool same = read == STORE_READ_DONE && action.state == states[i];
        assert(same || (i != RUNNING && changed_by_right));
        if (action.response)
            assert(stored_response_read(view, action.response->data, action.response->len));
        free(view);
        store_action_clear(&action);
    }
}

/* ---- the input -------------------------------------------------------------------------------- */

enum { FLAG_HEALTH = 1, FLAG_TOKEN = 2, FLAG_RESOLVE = 4, FLAG_CREDENTIALS = 8 };

static void say_resolution(struct world *world, struct span body, bool credentials, size_t cut)
{
    struct buffer text = {0};
    char id[QUERY_ID_TEXT];
    query_id_text(&world->ids[UNKNOWN], id);
    buffer_printf(&text,
                  "POST /v1/actions/%s/resolve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s"
                  "Content-Length: %zu\r\n\r\n",
                  id, credentials ? "Authorization: Bearer " TOKEN "\r\n" : "", body.len);
    buffer_append_span(&text, body);
    say(world, buffer_span(&text), cut);
    buffer_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    unsigned flags = data[0];
    size_t cut = data[1] ? data[1] * (size_t)16 : SIZE_MAX;
    struct span rest = {(const char *)data + 2, size - 2};
    struct world world = {.with_token = flags & FLAG_TOKEN};
    bool health = flags & FLAG_HEALTH, credentials = flags & FLAG_CREDENTIALS;
    bool knows_token =
        credentials || memmem(rest.data, rest.len, TOKEN, strlen(TOKEN)) || memmem(rest.data, rest.len, "Basic", 5);
    open_world(&world);
    dial(&world, health);
    if (flags & FLAG_RESOLVE)
        say_resolution(&world, rest, credentials, cut);
    else
        say(&world, rest, cut);
    wait_for_the_end(&world);
    check_answer(&world);
    check_actions(&world, !health && (!world.with_token || knows_token));
    close_world(&world);
    return 0;
}
