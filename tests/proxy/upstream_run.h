/*
 * upstream_run.h - calls under test, with the test as the API: it accepts and answers by hand. What a call reports is
 * written down:
 *
 *     1xx 103|head 200|body abc|turn|sent|writable|end answered| … unsent, broken (+ the fault)
 */
#pragma once

#include "net.h"
#include "proxy/upstream.h"
#include "resolve.h"

struct api { /* the test's side */
    int listener;
    uint16_t port;
    char url[64], port_text[8];
};

struct run {
    struct upstream_call *call; /* NULL: ended */
    struct buffer log;
    size_t body_bytes, head_seen;
    int ends, writables, sents;
    struct upstream_end end;
    bool quiet_body;       /* count, do not write down */
    const char *cancel_in; /* callback in which the call is cancelled */
    const char *pause_in;  /* … or paused */
};

static struct resolver *resolver;
static struct resolver_client *resolver_client;
static struct upstream_pool *pool;
static struct api api;

static const struct http_limits limits = {32768, 100, 8192};

static struct conf_upstream upstream_of(uint16_t port)
{
    static char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
    return (struct conf_upstream){.name = (char *)"api",
                                  .url = url,
                                  .host = (char *)"127.0.0.1",
                                  .port = port,
                                  .authority = (char *)"127.0.0.1",
                                  .connect_timeout = 2000,
                                  .send_timeout = 60000,
                                  .response_timeout = 60000,
                                  .outcome_timeout = 60000,
                                  .stall_timeout = 60000,
                                  .keepalive_idle = 60000,
                                  .keepalive = 16};
}

static struct conf_upstream upstream;

static void pool_begin(void)
{
    net_begin();
    api.listener = net_listen(&api.port);
    resolver = resolver_new();
    resolver_client = resolver_client_new(resolver, base);
    pool = upstream_pool_new(base, resolver_client, &limits);
    upstream = upstream_of(api.port);
}

static void pool_end(void)
{
    upstream_pool_free(pool);
    resolver_client_free(resolver_client);
    resolver_free(resolver);
    cr_assert_eq(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 0, "events are left");
    close(api.listener);
    net_end();
}

/* ---- what a call reports ---------------------------------------------------------------------- */

static bool is(const char *a, const char *b)
{
    return a && strcmp(a, b) == 0;
}

static void came(struct run *run, const char *where)
{
    cr_assert(run->call, "%s after the end", where);
    if (is(run->cancel_in, where)) {
        upstream_cancel(run->call);
        run->call = NULL;
    }
    if (is(run->pause_in, where))
        upstream_pause(run->call);
}

static void on_informational(void *owner, const struct http_message *message)
{
    struct run *run = owner;
    buffer_printf(&run->log, "1xx %d|", message->status);
    came(run, "1xx");
}

static void on_head(void *owner, const struct http_message *message)
{
    struct run *run = owner;
    buffer_printf(&run->log, "head %d|", message->status);
    run->head_seen++;
    came(run, "head");
}

static void on_body(void *owner, const char *data, size_t len)
{
    struct run *run = owner;
    run->body_bytes += len;
    if (!run->quiet_body)
        buffer_printf(&run->log, "body %.*s|", (int)len, data);
    came(run, "body");
}

static void on_turn(void *owner)
{
    struct run *run = owner;
    if (!run->quiet_body)
        buffer_append_span(&run->log, SPAN("turn|"));
    came(run, "turn");
}

static void on_sent(void *owner)
{
    struct run *run = owner;
    run->sents++;
    came(run, "sent");
}

static void on_writable(void *owner)
{
    struct run *run = owner;
    run->writables++;
    came(run, "writable");
}

static void on_end(void *owner, const struct upstream_end *end)
{
    static const char *const endings[] = {"answered", "unsent", "broken"};
    static const char *const faults[] = {"", " unreachable", " closed", " invalid", " send-timeout", " stall"};
    struct run *run = owner;
    cr_assert(run->call, "one ending");
    run->call = NULL;
    run->end = *end;
    run->ends++;
    cr_assert_eq(end->head_seen, run->head_seen > 0);
    cr_assert((end->ending == UPSTREAM_ANSWERED) == (end->fault == UPSTREAM_FAULT_NONE));
    buffer_printf(&run->log, "end %s%s|", endings[end->ending], faults[end->fault]);
}

static const struct upstream_events events = {
    .informational = on_informational,
    .head = on_head,
    .body = on_body,
    .turn = on_turn,
    .sent = on_sent,
    .writable = on_writable,
    .end = on_end,
};

/* ---- a request and the API's side of it ------------------------------------------------------- */

#define POST_HEAD "POST /o HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n"
#define GET_HEAD  "GET /o HTTP/1.1\r\nHost: h\r\n\r\n"

static struct upstream_request post(void)
{
    return (struct upstream_request){.upstream = &upstream, .head = SPAN(POST_HEAD), .body = SPAN("abc")};
}

static struct upstream_request get(void)
{
    return (struct upstream_request){.upstream = &upstream, .head = SPAN(GET_HEAD), .resend = true};
}

static void run_start(struct run *run, const struct upstream_request *request)
{
    run->ends = 0;
    run->head_seen = run->body_bytes = 0;
    run->call = upstream_start(pool, request, &events, run);
    if (upstream_sent_at_once(run->call))
        on_sent(run);
    cr_assert_eq(run->ends, 0, "never from inside upstream_start");
}

static int api_accept(void)
{
    int fd = -1;
    cr_assert(NET_UNTIL((fd = accept4(api.listener, NULL, NULL, SOCK_NONBLOCK)) >= 0), "no connection comes");
    return fd;
}

/* Does another connection come? Looks for a while. */
static bool api_has_another(void)
{
    struct pollfd wait = {.fd = api.listener, .events = POLLIN};
    net_run(30);
    return poll(&wait, 1, 0) == 1;
}

/* Reads until `text` is there at the end of what came. */
static void api_hear(int fd, const char *text)
{
    struct buffer heard = {0};
    cr_assert(NET_UNTIL((net_take(fd, &heard), buffer_has(&heard, text))), "the API hears %s", buffer_text(&heard));
    buffer_free(&heard);
}

static void run_wait(struct run *run, const char *name)
{
    cr_assert(NET_UNTIL(run->ends == 1), "%s: no end; so far %s", name, buffer_text(&run->log));
}

/* One exchange on connection `fd`. */
static void exchange_on(int fd, struct run *run, const struct upstream_request *request, const char *answer)
{
    run_start(run, request);
    api_hear(fd, request->body.len ? "abc" : "\r\n\r\n");
    cr_assert(net_say(fd, answer));
    run_wait(run, answer);
}

static void run_free(struct run *run)
{
    if (run->call)
        upstream_cancel(run->call);
    buffer_free(&run->log);
    *run = (struct run){0};
}
