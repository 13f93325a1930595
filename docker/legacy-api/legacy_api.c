/*
 * legacy_api.c - an order API as they stand in the field: it charges on every POST, and nobody may change it.
 *
 *     POST /orders             charges, answers 201 with Location and the order as JSON
 *     GET  /orders             all orders
 *     GET  /orders/by-key/KEY  200 with the order that was charged under that key, else 404
 *     GET  /effects            how often it charged: in all, and per Idempotency-Key that it saw (it does not use it)
 *
 *     ?delay=MS                answers that much later (the effect comes first)
 *     ?fail=500-after-effect   charges, then answers 500
 *     ?fail=drop-after-effect  charges, then closes without an answer
 *
 * Started with `moody` it does so by itself: it charges and ships slowly (up to two seconds), and of each six orders
 * one gets 500 after the charge and one no answer at all.
 *
 * It has no idempotency of its own on purpose: the counts at /effects show what einmal in front of it is for. One
 * thread, orders in memory, bounded.
 */
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ORDERS  100000
#define KEY_SIZE    128
#define MAX_DELAY   60000
#define MOODY_DELAY 2000
#define MAX_BODY    (64 * 1024 * 1024)
#define MAX_HEADERS (64 * 1024)
#define BY_KEY      "/orders/by-key/"

struct order {
    char key[KEY_SIZE];
    size_t body_len;
};

struct api {
    struct event_base *base;
    struct order *orders;
    size_t count;
    bool moody;
};

struct pending { /* an answer that is given later */
    struct api *api;
    struct evhttp_request *request;
    struct event *timer;
    size_t number;
    char fail[32];
};

static void answer(struct evhttp_request *request, int code, struct evbuffer *body)
{
    evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type", "application/json");
    evhttp_send_reply(request, code, NULL, body);
    evbuffer_free(body);
}

static void answer_error(struct evhttp_request *request, int code, const char *message)
{
    struct evbuffer *body = evbuffer_new();
    evbuffer_add_printf(body, "{\"error\":\"%s\"}\n", message);
    answer(request, code, body);
}

static void finish_order(struct pending *pending)
{
    struct evhttp_request *request = pending->request;
    if (request && pending->timer)
        evhttp_connection_set_closecb(evhttp_request_get_connection(request), NULL, NULL);
    if (!request) {
        ;
    } else if (strcmp(pending->fail, "drop-after-effect") == 0) {
        evhttp_connection_free(evhttp_request_get_connection(request)); /* the request goes with it */
    } else if (strcmp(pending->fail, "500-after-effect") == 0) {
        answer_error(request, 500, "something broke after the charge");
    } else {
        char location[48];
        snprintf(location, sizeof location, "/orders/%zu", pending->number);
        evhttp_add_header(evhttp_request_get_output_headers(request), "Location", location);
        struct evbuffer *body = evbuffer_new();
        evbuffer_add_printf(body, "{\"order\":%zu,\"charged\":true}\n", pending->number);
        answer(request, 201, body);
    }
    if (pending->timer)
        event_free(pending->timer);
    free(pending);
}

/* The client left while we were slow: the charge stands, the answer has nowhere to go. */
static void on_client_closed(struct evhttp_connection *connection, void *arg)
{
    (void)connection;
    ((struct pending *)arg)->request = NULL;
}

static void on_delay(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    finish_order(arg);
}

static void copy_text(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
    for (char *p = to; *p; p++)
        if (*p == '"' || *p == '\\' || (unsigned char)*p < 0x20)
            *p = '_'; /* the list is JSON */
}

/* The same each time: what fails depends on the number of the order alone. Returns the delay. */
static long be_moody(struct pending *pending)
{
    static const char *const moods[] = {"", "500-after-effect", "", "", "drop-after-effect", ""};
    size_t mood = pending->number % (sizeof(moods) / sizeof(moods[0]));
    copy_text(pending->fail, sizeof pending->fail, moods[mood]);
    return (long)(pending->number * 613 % MOODY_DELAY) + 1;
}

static void create_order(struct api *api, struct evhttp_request *request, const struct evkeyvalq *query)
{
    if (api->count == MAX_ORDERS) {
        answer_error(request, 507, "this demo keeps no more orders: restart it");
        return;
    }
    struct order *order = &api->orders[api->count++]; /* the effect: money has moved */
    const char *key = evhttp_find_header(evhttp_request_get_input_headers(request), "Idempotency-Key");
    copy_text(order->key, sizeof order->key, key ? key : "(none)");
    order->body_len = evbuffer_get_length(evhttp_request_get_input_buffer(request));

    const char *delay_text = evhttp_find_header(query, "delay");
    long delay = delay_text ? strtol(delay_text, NULL, 10) : 0;
    struct pending *pending = calloc(1, sizeof *pending);
    if (!pending)
        abort();
    pending->api = api;
    pending->request = request;
    pending->number = api->count;
    copy_text(pending->fail, sizeof pending->fail, evhttp_find_header(query, "fail"));
    if (api->moody)
        delay = be_moody(pending);
    if (delay <= 0) {
        finish_order(pending);
        return;
    }
    if (delay > MAX_DELAY)
        delay = MAX_DELAY;
    evhttp_connection_set_closecb(evhttp_request_get_connection(request), on_client_closed, pending);
    pending->timer = evtimer_new(api->base, on_delay, pending);
    event_add(pending->timer, &(struct timeval){delay / 1000, delay % 1000 * 1000});
}

static void list_orders(struct api *api, struct evhttp_request *request)
{
    struct evbuffer *body = evbuffer_new();
    evbuffer_add_printf(body, "[");
    for (size_t i = 0; i < api->count; i++)
        evbuffer_add_printf(body, "%s{\"order\":%zu,\"bytes\":%zu}", i ? "," : "", i + 1, api->orders[i].body_len);
    evbuffer_add_printf(body, "]\n");
    answer(request, 200, body);
}

static void show_by_key(struct api *api, struct evhttp_request *request, const char *encoded)
{
    char *key = evhttp_uridecode(encoded, 0, NULL);
    size_t i = 0;
    while (key && i < api->count && strcmp(api->orders[i].key, key) != 0)
        i++;
    free(key);
    if (i == api->count) {
        answer_error(request, 404, "no order was charged under this key");
        return;
    }
    struct evbuffer *body = evbuffer_new();
    evbuffer_add_printf(body, "{\"order\":%zu,\"charged\":true}\n", i + 1);
    answer(request, 200, body);
}

static bool seen_before(const struct api *api, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(api->orders[i].key, api->orders[index].key) == 0)
            return true;
    return false;
}

static void list_effects(struct api *api, struct evhttp_request *request)
{
    struct evbuffer *body = evbuffer_new();
    const char *separator = "";
    evbuffer_add_printf(body, "{\"charges\":%zu,\"by_key\":{", api->count);
    for (size_t i = 0; i < api->count && i < 1000; i++) {
        if (seen_before(api, i))
            continue;
        size_t effects = 0;
        for (size_t k = i; k < api->count; k++)
            effects += strcmp(api->orders[k].key, api->orders[i].key) == 0;
        evbuffer_add_printf(body, "%s\"%s\":%zu", separator, api->orders[i].key, effects);
        separator = ",";
    }
    evbuffer_add_printf(body, "}}\n");
    answer(request, 200, body);
}

static void on_request(struct evhttp_request *request, void *arg)
{
    struct api *api = arg;
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(request);
    const char *path = evhttp_uri_get_path(uri), *query_text = evhttp_uri_get_query(uri);
    struct evkeyvalq query = {0};
    evhttp_parse_query_str(query_text ? query_text : "", &query);
    bool post = evhttp_request_get_command(request) == EVHTTP_REQ_POST;
    if (path && strcmp(path, "/orders") == 0 && post)
        create_order(api, request, &query);
    else if (path && strcmp(path, "/orders") == 0)
        list_orders(api, request);
    else if (path && strncmp(path, BY_KEY, strlen(BY_KEY)) == 0)
        show_by_key(api, request, path + strlen(BY_KEY));
    else if (path && strcmp(path, "/effects") == 0)
        list_effects(api, request);
    else
        answer_error(request, 404, "POST /orders, GET /orders, GET /orders/by-key/KEY, GET /effects");
    evhttp_clear_headers(&query);
}

static void on_signal(evutil_socket_t number, short what, void *arg)
{
    (void)number, (void)what;
    event_base_loopbreak(arg);
}

int main(int argc, char **argv)
{
    const char *host = argc > 1 ? argv[1] : "127.0.0.1";
    int port = argc > 2 ? atoi(argv[2]) : 3000;
    signal(SIGPIPE, SIG_IGN);
    struct api api = {
        .base = event_base_new(),
        .orders = calloc(MAX_ORDERS, sizeof(struct order)),
        .moody = argc == 4 && strcmp(argv[3], "moody") == 0,
    };
    struct evhttp *http = api.base ? evhttp_new(api.base) : NULL;
    if (!http || !api.orders || port <= 0 || port > 65535 || argc > 4 || (argc == 4 && !api.moody)) {
        fprintf(stderr, "usage: legacy-api [HOST [PORT [moody]]]\n");
        return 2;
    }
    evhttp_set_max_body_size(http, MAX_BODY);
    evhttp_set_max_headers_size(http, MAX_HEADERS);
    evhttp_set_allowed_methods(http, EVHTTP_REQ_GET | EVHTTP_REQ_POST);
    evhttp_set_gencb(http, on_request, &api);
    if (evhttp_bind_socket(http, host, (uint16_t)port) != 0) {
        fprintf(stderr, "legacy-api: cannot listen on %s:%d: is the port in use?\n", host, port);
        return 1;
    }
    struct event *terminate = evsignal_new(api.base, SIGTERM, on_signal, api.base);
    struct event *interrupt = evsignal_new(api.base, SIGINT, on_signal, api.base);
    event_add(terminate, NULL);
    event_add(interrupt, NULL);
    printf("legacy-api: listening on %s:%d\n", host, port);
    fflush(stdout);
    event_base_dispatch(api.base);
    event_free(terminate);
    event_free(interrupt);
    evhttp_free(http);
    event_base_free(api.base);
    free(api.orders);
    return 0;
}
