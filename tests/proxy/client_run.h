/*
 * client_run.h - a client under test, and a scripted exchange behind it that writes down what it is told:
 *
 *     head POST /a|body 5|end|half|writable|gone|refused 400|body-refused 408|closed|
 */
#pragma once

#include "net.h"
#include "proxy/client.h"

enum act { ACT_NOTHING, ACT_READ, ACT_FINISH, ACT_CLOSE, ACT_ABORT, ACT_CUT, ACT_PAUSE };

struct run {
    int peer; /* the test's end */
    struct client *client;
    struct client_settings settings;
    struct buffer log, heard;
    enum act on_head, on_body, on_end, on_half, on_writable; /* what the exchange does there */
    const char *answer;                                      /* written before a finish */
    uint64_t drain_limit;
    size_t body_bytes;
    int heads, ends, halves, writables, gones, closed;
    bool attached;
};

static char fresh[CLIENT_INPUT_MAX];

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

static void run_act(struct run *run, enum act act)
{
    switch (act) {
    case ACT_NOTHING:
        return;
    case ACT_READ:
        client_read_body(run->client, CLIENT_PACE_SILENCE);
        return;
    case ACT_PAUSE:
        client_pause_body(run->client);
        return;
    case ACT_FINISH:
    case ACT_CLOSE:
        run->attached = false;
        client_append(run->client, run->answer, strlen(run->answer));
        client_finish(run->client, act == ACT_FINISH, run->drain_limit);
        return;
    case ACT_ABORT:
        run->attached = false;
        client_abort(run->client);
        return;
    case ACT_CUT:
        run->attached = false;
        client_cut(run->client);
        return;
    }
}

static void *run_head(void *context, struct client *client, const struct http_message *message)
{
    struct run *run = context;
    run->client = client;
    cr_assert(!run->attached, "one request at a time");
    run->attached = true;
    run->heads++;
    buffer_printf(&run->log, "head %.*s %.*s|", (int)message->method.len, message->method.data,
                  (int)message->target.len, message->target.data);
    run_act(run, run->on_head);
    return run;
}

static void run_body(void *exchange, const char *data, size_t len)
{
    struct run *run = exchange;
    (void)data;
    cr_assert(run->attached, "no body for an exchange that has left");
    run->body_bytes += len;
    run_act(run, run->on_body);
}

static void run_body_end(void *exchange)
{
    struct run *run = exchange;
    cr_assert(run->attached);
    buffer_printf(&run->log, "body %zu|end|", run->body_bytes);
    run->body_bytes = 0;
    run->ends++;
    run_act(run, run->on_end);
}

static void run_body_refused(void *exchange, enum problem_code problem, const char *detail)
{
    struct run *run = exchange;
    (void)detail;
    cr_assert(run->attached);
    buffer_printf(&run->log, "body-refused %d|", problem_row(problem)->status);
    run_act(run, ACT_FINISH); /* it closes whatever is said here */
}

static void run_refused(void *context, struct client *client, enum problem_code problem, const char *detail)
{
    struct run *run = context;
    (void)detail;
    cr_assert(!run->attached);
    run->client = client;
    buffer_printf(&run->log, "refused %d|", problem_row(problem)->status);
    client_append(client, "refused", 7);
    client_finish(client, true, 0);
}

static void run_half_closed(void *exchange)
{
    struct run *run = exchange;
    cr_assert(run->attached);
    buffer_append_span(&run->log, SPAN("half|"));
    run->halves++;
    run_act(run, run->on_half);
}

static void run_gone(void *exchange)
{
    struct run *run = exchange;
    cr_assert(run->attached, "nobody is told of a connection twice");
    run->attached = false;
    run->gones++;
    buffer_append_span(&run->log, SPAN("gone|"));
}

static void run_writable(void *exchange)
{
    struct run *run = exchange;
    cr_assert(run->attached);
    run->writables++;
    run_act(run, run->on_writable);
}

static void run_closed(void *context, struct client *client)
{
    struct run *run = context;
    (void)client;
    cr_assert(!run->attached || run->gones == 0);
    run->closed++;
    run->client = NULL;
    buffer_append_span(&run->log, SPAN("closed|"));
}

static const struct client_events run_events = {
    .head = run_head,
    .body = run_body,
    .body_end = run_body_end,
    .body_refused = run_body_refused,
    .refused = run_refused,
    .half_closed = run_half_closed,
    .gone = run_gone,
    .writable = run_writable,
    .closed = run_closed,
};

/* An exchange that reads the body and answers; change what a test is about. */
static void run_begin(struct run *run)
{
    int pair[2];
    *run = (struct run){
        .settings = {.limits = {32768, 100, 8192},
                     .fresh = fresh,
                     .header_timeout = 60000,
                     .body_timeout = 60000,
                     .idle_timeout = 60000,
                     .send_timeout = 60000},
        .on_head = ACT_READ,
        .on_end = ACT_FINISH,
        .answer = OK_ANSWER,
        .drain_limit = 1 << 20,
    };
    net_begin();
    net_pair(pair);
    run->peer = pair[1];
    run->client = client_new(base, pair[0], "192.0.2.7", &run->settings, &run_events, run);
}

/* The peer closes what it still has, and the client must then be gone by itself. */
static void run_end(struct run *run, const char *name)
{
    if (run->client && run->attached)
        run_act(run, ACT_ABORT);
    if (run->peer >= 0)
        close(run->peer);
    run->peer = -1;
    cr_assert(NET_UNTIL(run->closed == 1), "%s: the client outlives its connection", name);
    net_turn();
    cr_assert_eq(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 0, "%s: events are left", name);
    buffer_free(&run->log);
    buffer_free(&run->heard);
    net_end();
}

/* Turns the loop until the peer hears an end or a reset; what came before is in run->heard. */
static enum heard run_hear_out(struct run *run)
{
    enum heard heard = HEARD_NOTHING;
    cr_assert(NET_UNTIL((heard = net_take(run->peer, &run->heard)) != HEARD_NOTHING), "the connection stays open");
    return heard;
}

static int answers(const struct run *run)
{
    int count = 0;
    struct span rest = buffer_span(&run->heard);
    for (char *at; rest.len && (at = memmem(rest.data, rest.len, "HTTP/1.1 200", 12)) != NULL; count++)
        rest = (struct span){at + 1, rest.len - (size_t)(at + 1 - rest.data)};
    return count;
}

static bool run_hear_answers(struct run *run, int wanted)
{
    return NET_UNTIL((net_take(run->peer, &run->heard), answers(run) >= wanted));
}
