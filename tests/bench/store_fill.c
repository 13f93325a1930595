/*
 * store_fill.c - fills a store with completed actions, as if their requests had come through the proxy.
 *
 *     store_fill CONFIG RUN COUNT BODY              keys "RUN-1" … "RUN-COUNT", with the retention of the route
 *     store_fill CONFIG RUN COUNT BODY expiring     until one moment soon, all together; tells how fast they are swept
 *
 * The request is that of load.lua, the rule is the route of the configuration, the identity is made by proxy/key.c: so
 * wrk can ask for any of the keys afterwards and gets a replay. Writes through the store's own API, without syncing, a
 * thousand in flight. Prints one line: actions written a second, actions swept a second, bytes in use. The proxy must
 * not run meanwhile.
 */
#include "conf/conf.h"
#include "proxy/key.h"
#include "proxy/stored_response.h"
#include "store/store.h"

#include <poll.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define IN_FLIGHT 1000
#define SLOWEST   5 /* actions a millisecond: they are to be there before they expire */

struct fill {
    struct conf *conf;
    const struct conf_route *route;
    struct key_request request;
    struct http_message message;
    struct http_field fields[3];
    const char *run;
    struct store_handle *handle;
    struct store_bytes *response;
    int64_t expire_at_ms; /* store time; 0: by the route */
    unsigned long next, count;
    unsigned out;
};

struct action {
    struct store_op op;
    struct fill *fill;
    char key[64];
};

static void die(const char *what)
{
    fprintf(stderr, "store_fill: %s\n", what);
    exit(1);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static const char *no_environment(void *arg, const char *name)
{
    (void)arg, (void)name;
    return NULL;
}

static void log_message(void *arg, enum store_log_level level, const char *message)
{
    (void)arg;
    if (level == STORE_LOG_ERROR)
        fprintf(stderr, "store_fill: %s\n", message);
}

/* ---- what is written -------------------------------------------------------------------------- */

static void make_request(struct fill *fill, const char *body)
{
    fill->fields[0] = (struct http_field){SPAN("Authorization"), SPAN("Bearer bench-5f1c0e9a7d")};
    fill->fields[1] = (struct http_field){SPAN("Content-Type"), SPAN("application/json")};
    fill->fields[2].name = SPAN("Idempotency-Key");
    fill->message = (struct http_message){.method = SPAN("POST"), .fields = fill->fields, .field_count = 3};
    fill->request = (struct key_request){.message = &fill->message,
                                         .host = SPAN("shop.example"),
                                         .path = SPAN("/v1/orders"),
                                         .body = span_of(body),
                                         .body_complete = true,
                                         .digest = key_digest_new()};
}

/* What the benchmark's API answers. */
static void make_response(struct fill *fill)
{
    static const char body[] = "{\"id\":\"1001\",\"state\":\"accepted\",\"total\":\"129.90\",\"currency\":\"EUR\"}";
    struct http_field fields[] = {{SPAN("Server"), SPAN("nginx")},
                                  {SPAN("Date"), SPAN("Wed, 02 Dec 2026 12:00:00 GMT")},
                                  {SPAN("Content-Type"), SPAN("application/json")},
                                  {SPAN("Location"), SPAN("/v1/orders/1001")}};
    struct response_parts parts = {201, SPAN("Created"), fields, 4};
    size_t head = stored_response_head_size(&parts), len = sizeof body - 1;
    fill->response = store_bytes_new(head + len);
    stored_response_write_head(fill->response->data, &parts, len);
    memcpy(fill->response->data + head, body, len);
}

/* ---- one action: reserved, completed, the next -------------------------------------------------- */

static void completed(struct store_op *op);
static void reserved(struct store_op *op);

static void start(struct action *action)
{
    struct fill *fill = action->fill;
    struct key_identity identity;
    const char *why;
    if (fill->next > fill->count) {
        fill->out--;
        return;
    }
    snprintf(action->key, sizeof action->key, "%s-%lu", fill->run, fill->next++);
    fill->fields[2].value = span_of(action->key);
    if (key_identify(fill->route, &fill->request, &identity, &why) != KEY_HAVE)
        die("the route makes no action of the request");
    action->op = (struct store_op){.verb = STORE_RESERVE,
                                   .done = reserved,
                                   .reject_other_identity = fill->route->reject_other_identity,
                                   .unknown_retention_ms = fill->route->unknown_retention,
                                   .about = {.route = fill->route->name,
                                             .scope_name = fill->route->scope_name,
                                             .key = action->key,
                                             .key_source = STORE_KEY_SENT}};
    memcpy(action->op.id.bytes, identity.id, STORE_ID_LEN);
    memcpy(action->op.fingerprint, identity.fingerprint, STORE_HASH_LEN);
    memcpy(action->op.content, identity.content, STORE_HASH_LEN);
    store_submit(fill->handle, &action->op);
}

static int64_t retention(const struct fill *fill)
{
    int64_t left = fill->expire_at_ms - store_now_ms(fill->handle);
    if (!fill->expire_at_ms)
        return fill->route->retention;
    return left > 1 ? left : 1;
}

static void reserved(struct store_op *op)
{
    struct fill *fill = ((struct action *)op)->fill;
    struct store_id id = op->id;
    if (op->result.answer != STORE_GRANTED)
        die("a key was not granted: was the run used before, or is the store full?");
    *op = (struct store_op){.verb = STORE_COMPLETE,
                            .id = id,
                            .token = op->result.token,
                            .done = completed,
                            .response = fill->response,
                            .status = 201,
                            .retention_ms = retention(fill)};
    store_submit(fill->handle, op);
}

static void completed(struct store_op *op)
{
    if (op->result.answer != STORE_DONE)
        die("an outcome was not written");
    start((struct action *)op);
}

static void run(struct fill *fill)
{
    struct action *actions = calloc(IN_FLIGHT, sizeof *actions);
    fill->next = 1;
    fill->out = IN_FLIGHT;
    for (unsigned i = 0; i < IN_FLIGHT; i++) {
        actions[i].fill = fill;
        start(&actions[i]);
    }
    while (fill->out) {
        poll(&(struct pollfd){.fd = store_handle_fd(fill->handle), .events = POLLIN}, 1, 1000);
        store_handle_deliver(fill->handle);
    }
    free(actions);
}

/* How fast is removed what expires at that moment? */
static double sweep(struct fill *fill, struct store *store, uint64_t live)
{
    struct store_status status;
    while (store_now_ms(fill->handle) < fill->expire_at_ms)
        usleep(1000);
    store_status(store, &status);
    uint64_t before = status.completed;
    double began = seconds_now();
    while (status.completed > live) {
        usleep(1000);
        store_status(store, &status);
    }
    return (double)(before - live) / (seconds_now() - began);
}

int main(int argc, char **argv)
{
    char error[500];
    if (argc < 5) {
        fprintf(stderr, "usage: store_fill CONFIG RUN COUNT BODY [expiring]\n");
        return 2;
    }
    bool expiring = argc > 5 && strcmp(argv[5], "expiring") == 0;
    struct fill fill = {.run = argv[2], .count = strtoul(argv[3], NULL, 10)};
    fill.conf = conf_load(argv[1], &(struct conf_overrides){0}, no_environment, NULL, stderr);
    if (!fill.conf || fill.conf->route_count != 1)
        die("a configuration with one route is needed");
    fill.route = &fill.conf->routes[0];
    make_request(&fill, argv[4]);
    make_response(&fill);
    struct store *store = store_open(&(struct store_config){.engine = "lmdb",
                                                            .path = fill.conf->store.path,
                                                            .max_size = fill.conf->store.max_size,
                                                            .create = true,
                                                            .waiters_per_action = 1,
                                                            .waiters = 1,
                                                            .log = log_message},
                                     error, sizeof error);
    if (!store)
        die(error);
    struct store_status status;
    store_status(store, &status);
    uint64_t live = status.completed;
    fill.handle = store_handle_open(store);
    if (expiring)
        fill.expire_at_ms = store_now_ms(fill.handle) + (int64_t)fill.count / SLOWEST + 2000;
    double began = seconds_now();
    run(&fill);
    double written = (double)fill.count / (seconds_now() - began);
    double swept = expiring ? sweep(&fill, store, live) : 0;
    store_status(store, &status);
    printf("%.0f %.0f %llu\n", written, swept, (unsigned long long)status.used_bytes);
    store_handle_close(fill.handle);
    bool all = store_close(store, 60000);
    store_bytes_unref(fill.response);
    key_digest_free(fill.request.digest);
    conf_unref(fill.conf);
    return all ? 0 : 1;
}
