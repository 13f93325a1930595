/*
 * test_client.c - the downstream connection: requests in order whatever the cuts, ends of every kind, and callbacks
 * that end the request wherever they like.
 */
#include "client_run.h"

#include <malloc.h>
#include <sys/eventfd.h>

#define POST(target, body) "POST " target " HTTP/1.1\r\nHost: h\r\nContent-Length: " body

/* ---- order and cuts --------------------------------------------------------------------------- */

static const char pipelined[] =
    "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n"
    "POST /2 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello"
    "POST /3 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    "POST /4 HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n";
static const char pipelined_log[] = "head GET /1|body 0|end|head POST /2|body 5|end|head POST /3|body 5|end|"
                                    "head POST /4|body 0|end|";

Test(client, reads_requests_in_order_at_every_cut)
{
    for (size_t cut = 1; cut < sizeof pipelined - 1; cut++) {
        struct run run;
        run_begin(&run);
        cr_assert(net_send(run.peer, pipelined, cut));
        net_turn();
        net_turn();
        cr_assert(net_send(run.peer, pipelined + cut, sizeof pipelined - 1 - cut));
        cr_assert(run_hear_answers(&run, 4), "cut at %zu: %s", cut, buffer_text(&run.log));
        cr_assert(buffer_is(&run.log, pipelined_log), "cut at %zu: %s", cut, buffer_text(&run.log));
        cr_assert_eq(buffer_len(&run.heard), 4 * strlen(OK_ANSWER), "cut at %zu: %s", cut, buffer_text(&run.heard));
        run_end(&run, "cut");
    }
}

Test(client, reads_a_byte_at_a_time)
{
    struct run run;
    run_begin(&run);
    for (size_t i = 0; i < sizeof pipelined - 1; i++) {
        cr_assert(net_send(run.peer, pipelined + i, 1));
        net_turn();
    }
    cr_assert(run_hear_answers(&run, 4));
    cr_assert(buffer_is(&run.log, pipelined_log), "%s", buffer_text(&run.log));
    run_end(&run, "bytes");
}

Test(client, keeps_the_next_request_waiting_while_one_is_answered)
{
    struct run run;
    run_begin(&run);
    run.on_end = ACT_NOTHING;
    cr_assert(net_say(run.peer, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n"));
    cr_assert(NET_UNTIL(run.ends == 1));
    net_run(20);
    cr_assert_eq(run.heads, 1, "the second has to wait for its turn");
    run_act(&run, ACT_FINISH);
    cr_assert_eq(run.heads, 1, "and comes through the loop, never from inside client_finish");
    cr_assert(NET_UNTIL(run.ends == 2));
    run_act(&run, ACT_FINISH);
    cr_assert(run_hear_answers(&run, 2));
    run_end(&run, "waiting");
}

/* Sends until neither the client nor the kernel takes more. */
static void flood(struct run *run)
{
    static char waste[4 << 20];
    memset(waste, 'x', sizeof waste);
    size_t taken = 0;
    for (int idle = 0; idle < 50;) {
        ssize_t put = send(run->peer, waste, sizeof waste, 0);
        taken += put > 0 ? (size_t)put : 0;
        idle = put > 0 ? 0 : idle + 1;
        net_turn();
        nap(1);
        cr_assert_lt(taken, (size_t)32 << 20, "somebody reads it all");
    }
}

static void run_begin_flooded(struct run *run)
{
    run_begin(run);
    run->on_end = ACT_NOTHING;
    cr_assert(net_say(run->peer, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n"));
    cr_assert(NET_UNTIL(run->ends == 1));
    flood(run);
}

Test(client, bounds_what_is_pipelined)
{
    struct run run;
    run_begin_flooded(&run);
    cr_assert(!net_spins(200), "a full buffer must not spin");
    run_act(&run, ACT_FINISH);
    cr_assert(NET_UNTIL(buffer_has(&run.log, "refused")), "what follows is read after the answer: %s",
              buffer_text(&run.log));
    run_end(&run, "flood");
}

Test(client, notices_a_reset_where_no_more_can_be_read)
{
    struct run run;
    run_begin_flooded(&run);
    net_reset(run.peer);
    run.peer = -1;
    cr_assert(NET_UNTIL(run.gones == 1), "a waiter that has left holds its place");
    run_end(&run, "reset behind a full buffer");
}

/* The answer does not fit into the socket: EV_WRITE is armed while there is what nobody reads. */
Test(client, answers_over_a_full_buffer_without_spinning)
{
    static char large[8 << 20];
    char some[65536];
    struct run run;
    run_begin_flooded(&run);
    client_write(run.client, large, sizeof large);
    cr_assert_gt(client_queued(run.client), 0);
    cr_assert(!net_spins(300), "before anything is read");
    cr_assert_gt(recv(run.peer, some, sizeof some, 0), 0);
    net_run(20);
    cr_assert(!net_spins(200), "between two reads");
    cr_assert(NET_UNTIL((net_take(run.peer, &run.heard), client_queued(run.client) == 0)), "all of it goes out");
    run_act(&run, ACT_FINISH);
    cr_assert(NET_UNTIL(buffer_has(&run.log, "refused")), "and reading goes on: %s", buffer_text(&run.log));
    run_end(&run, "flood and a long answer");
}

/* ---- the peer's end --------------------------------------------------------------------------- */

struct end_row {
    const char *name, *bytes;
    bool reset;      /* else FIN */
    bool waits;      /* the exchange does not answer by itself */
    const char *log; /* up to here */
};

static const struct end_row ends[] = {
    {"FIN on an idle connection", "", false, false, "closed|"},
    {"reset of an idle connection", "", true, false, "closed|"},
    {"FIN in a head", "POST /a HT", false, false, "closed|"},
    {"reset in a head", "POST /a HT", true, false, "closed|"},
    {"FIN in a body", POST("/a", "9\r\n\r\nabc"), false, true, "head POST /a|gone|closed|"},
    {"FIN in a chunk", "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc", false, true,
     "head POST /a|gone|closed|"},
    {"FIN before the last chunk's end", "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", false,
     true, "head POST /a|gone|closed|"},
    {"reset in a body", POST("/a", "9\r\n\r\nabc"), true, true, "head POST /a|gone|closed|"},
    {"reset while waiting", POST("/a", "3\r\n\r\nabc"), true, true, "head POST /a|body 3|end|gone|closed|"},
    {"FIN while waiting", POST("/a", "3\r\n\r\nabc"), false, true, "head POST /a|body 3|end|half|"},
    {"FIN after a request and half another", POST("/a", "3\r\n\r\nabcGET /b HT"), false, true,
     "head POST /a|body 3|end|half|"},
    {"FIN after an answered request", POST("/a", "3\r\n\r\nabc"), false, false, "head POST /a|body 3|end|closed|"},
};

Test(client, tells_the_ends_of_a_peer_apart)
{
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const struct end_row *row = &ends[i];
        struct run run;
        run_begin(&run);
        run.on_end = row->waits ? ACT_NOTHING : ACT_FINISH;
        cr_assert(net_say(run.peer, row->bytes));
        net_run(15);
        if (row->reset) {
            net_reset(run.peer);
            run.peer = -1;
        } else {
            shutdown(run.peer, SHUT_WR);
        }
        cr_assert(NET_UNTIL(buffer_is(&run.log, row->log)), "%s: %s", row->name, buffer_text(&run.log));
        net_run(15);
        cr_assert(buffer_is(&run.log, row->log), "%s: then %s", row->name, buffer_text(&run.log));
        run_end(&run, row->name);
    }
}

Test(client, answers_a_half_closed_client_and_does_not_spin)
{
    struct run run;
    run_begin(&run);
    run.on_end = ACT_NOTHING;
    cr_assert(net_say(run.peer, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n"));
    shutdown(run.peer, SHUT_WR);
    cr_assert(NET_UNTIL(run.halves == 1));
    cr_assert(!net_spins(300), "a socket at its end is readable for ever: the loop must not care");
    cr_assert_eq(run.halves, 1);
    run_act(&run, ACT_FINISH);
    cr_assert_eq(run_hear_out(&run), HEARD_END);
    cr_assert(buffer_is(&run.heard, OK_ANSWER));
    run_end(&run, "half-closed");
}

Test(client, notices_a_reset_after_a_half_close)
{
    struct run run;
    run_begin(&run);
    run.on_end = ACT_NOTHING;
    cr_assert(net_say(run.peer, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n"));
    shutdown(run.peer, SHUT_WR);
    cr_assert(NET_UNTIL(run.halves == 1));
    net_run(20);
    net_reset(run.peer);
    run.peer = -1;
    cr_assert(NET_UNTIL(run.gones == 1), "a waiter that has left holds its place for ever");
    run_end(&run, "reset after FIN");
}

Test(client, answers_half_closed_pipelined_requests_to_the_last)
{
    struct run run;
    run_begin(&run);
    cr_assert(net_say(run.peer, pipelined));
    shutdown(run.peer, SHUT_WR);
    cr_assert_eq(run_hear_out(&run), HEARD_END);
    cr_assert_eq(answers(&run), 4, "%s", buffer_text(&run.log));
    run_end(&run, "half-closed and pipelined");
}

Test(client, tells_each_pipelined_request_of_the_half_close)
{
    struct run run;
    run_begin(&run);
    run.on_end = ACT_NOTHING;
    cr_assert(net_say(run.peer, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n"));
    shutdown(run.peer, SHUT_WR);
    cr_assert(NET_UNTIL(run.halves == 1));
    run_act(&run, ACT_FINISH);
    cr_assert(NET_UNTIL(run.halves == 2), "%s", buffer_text(&run.log));
    run_act(&run, ACT_FINISH);
    cr_assert_eq(run_hear_out(&run), HEARD_END);
    cr_assert_eq(answers(&run), 2);
    run_end(&run, "half-closed twice");
}

static void finish_now(evutil_socket_t fd, short what, void *arg)
{
    uint64_t count;
    (void)what;
    cr_assert_eq(read(fd, &count, sizeof count), (ssize_t)sizeof count);
    run_act(arg, ACT_FINISH);
}

/* Both are found in one turn of the loop, the end of the first request's answer before the FIN. */
Test(client, processes_what_waits_before_it_heeds_a_fin)
{
    struct run run;
    run_begin(&run);
    run.on_end = ACT_NOTHING;
    int fd = eventfd(0, EFD_NONBLOCK);
    struct event *answered = event_new(base, fd, EV_READ | EV_PERSIST, finish_now, &run);
    event_add(answered, NULL);
    cr_assert(net_say(run.peer, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n"));
    cr_assert(NET_UNTIL(run.ends == 1));
    net_run(20);
    cr_assert_eq(write(fd, &(uint64_t){1}, sizeof(uint64_t)), (ssize_t)sizeof(uint64_t));
    shutdown(run.peer, SHUT_WR);
    cr_assert(NET_UNTIL(run.halves == 1), "the second request was dropped: %s", buffer_text(&run.log));
    run_act(&run, ACT_FINISH);
    cr_assert_eq(run_hear_out(&run), HEARD_END);
    cr_assert_eq(answers(&run), 2);
    event_free(answered);
    close(fd);
    run_end(&run, "FIN behind waiting requests");
}

/* The answer does not fit into the socket, so EV_WRITE is armed while the FIN is there to be read. */
Test(client, does_not_spin_when_a_half_closed_client_reads_slowly)
{
    static char large[8 << 20];
    struct run run;
    run_begin(&run);
    run.on_end = ACT_NOTHING;
    cr_assert(net_say(run.peer, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n"));
    cr_assert(NET_UNTIL(run.ends == 1));
    memset(large, 'x', sizeof large);
    client_write(run.client, large, sizeof large);
    cr_assert_gt(client_queued(run.client), 0);
    net_run(20);
    shutdown(run.peer, SHUT_WR);
    cr_assert(NET_UNTIL(run.halves == 1));
    cr_assert(!net_spins(300), "before anything is read");
    char some[1 << 20];
    for (int i = 0; i < 3; i++) {
        cr_assert_gt(recv(run.peer, some, sizeof some, 0), 0);
        net_run(20);
        cr_assert(!net_spins(200), "between two reads");
    }
    run.answer = "";
    run_act(&run, ACT_FINISH);
    cr_assert_eq(run_hear_out(&run), HEARD_END);
    run_end(&run, "slow and half-closed");
}

/* ---- early answers ---------------------------------------------------------------------------- */

struct early_row {
    const char *name;
    size_t body;
    uint64_t drain;
    bool goes_on;
};

Test(client, answers_before_the_body_without_losing_the_answer)
{
    static const struct early_row rows[] = {
        {"a byte", 1, 1 << 20, true},
        {"64 KiB", 65536, 1 << 20, true},
        {"just what is drained", 3 << 19, 3 << 19, true},
        {"more than is drained", 4 << 20, 1 << 20, false},
        {"nothing is drained", 200 << 10, 0, false},
    };
    static char body[4 << 20];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct early_row *row = &rows[i];
        struct run run;
        char head[100];
        run_begin(&run);
        run.on_head = ACT_FINISH;
        run.drain_limit = row->drain;
        snprintf(head, sizeof head, "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n", row->body);
        cr_assert(net_say(run.peer, head), "%s", row->name);
        cr_assert(net_send(run.peer, body, row->body - !row->goes_on), "%s", row->name);
        if (row->goes_on) {
            cr_assert(net_say(run.peer, "GET /b HTTP/1.1\r\nHost: h\r\n\r\n"));
            cr_assert(run_hear_answers(&run, 2), "%s: %s", row->name, buffer_text(&run.log));
        } else {
            cr_assert_eq(run_hear_out(&run), HEARD_END, "%s: a reset eats the answer", row->name);
            cr_assert_eq(answers(&run), 1, "%s", row->name);
        }
        run_end(&run, row->name);
    }
}

Test(client, refuses_and_closes_without_losing_the_answer)
{
    struct run run;
    run_begin(&run);
    cr_assert(
        net_say(run.peer, "GET / HTTP/1.1\r\nHost: h\r\nbad header\r\n\r\nGET /next HTTP/1.1\r\nHost: h\r\n\r\n"));
    cr_assert_eq(run_hear_out(&run), HEARD_END);
    cr_assert(buffer_is(&run.heard, "refused"), "%s", buffer_text(&run.heard));
    cr_assert(buffer_is(&run.log, "refused 400|"), "nothing behind it is trusted: %s", buffer_text(&run.log));
    run_end(&run, "refused");
}

Test(client, tells_a_malformed_body_and_closes_after_the_answer)
{
    struct run run;
    run_begin(&run);
    cr_assert(net_say(run.peer, "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
                                "GET /next HTTP/1.1\r\nHost: h\r\n\r\n"));
    cr_assert_eq(run_hear_out(&run), HEARD_END);
    cr_assert(buffer_is(&run.log, "head POST /a|body-refused 400|"), "%s", buffer_text(&run.log));
    cr_assert(buffer_is(&run.heard, OK_ANSWER));
    run_end(&run, "malformed body");
}

Test(client, lingers_no_longer_than_it_must)
{
    struct run run;
    run_begin(&run);
    run.on_end = ACT_CLOSE;
    cr_assert(net_say(run.peer, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    cr_assert_eq(run_hear_out(&run), HEARD_END, "FIN comes at once");
    int64_t start = monotonic_ms();
    cr_assert(NET_UNTIL(run.closed), "a peer that never closes is left after two seconds");
    cr_assert_geq(monotonic_ms() - start, 1500);
    run_end(&run, "lingering");
}

/* ---- callbacks in any order ------------------------------------------------------------------- */

struct callback_row {
    const char *name;
    enum act head, body, end, half;
    bool fin;
    enum heard heard;
    int answers;
};

static const struct callback_row callbacks[] = {
    {"finish in head", ACT_FINISH, ACT_NOTHING, ACT_NOTHING, ACT_NOTHING, true, HEARD_END, 1},
    {"close in head", ACT_CLOSE, ACT_NOTHING, ACT_NOTHING, ACT_NOTHING, true, HEARD_END, 1},
    {"abort in head", ACT_ABORT, ACT_NOTHING, ACT_NOTHING, ACT_NOTHING, false, HEARD_RESET, 0},
    {"finish in body", ACT_READ, ACT_FINISH, ACT_NOTHING, ACT_NOTHING, true, HEARD_END, 1},
    {"close in body", ACT_READ, ACT_CLOSE, ACT_NOTHING, ACT_NOTHING, true, HEARD_END, 1},
    {"abort in body", ACT_READ, ACT_ABORT, ACT_NOTHING, ACT_NOTHING, false, HEARD_RESET, 0},
    {"finish in body_end", ACT_READ, ACT_NOTHING, ACT_FINISH, ACT_NOTHING, true, HEARD_END, 1},
    {"close in body_end", ACT_READ, ACT_NOTHING, ACT_CLOSE, ACT_NOTHING, true, HEARD_END, 1},
    {"abort in body_end", ACT_READ, ACT_NOTHING, ACT_ABORT, ACT_NOTHING, false, HEARD_RESET, 0},
    {"finish in half_closed", ACT_READ, ACT_NOTHING, ACT_NOTHING, ACT_FINISH, true, HEARD_END, 1},
    {"close in half_closed", ACT_READ, ACT_NOTHING, ACT_NOTHING, ACT_CLOSE, true, HEARD_END, 1},
    {"abort in half_closed", ACT_READ, ACT_NOTHING, ACT_NOTHING, ACT_ABORT, true, HEARD_RESET, 0},
    {"half_closed while nobody reads the body", ACT_NOTHING, ACT_NOTHING, ACT_NOTHING, ACT_NOTHING, true, HEARD_END, 0},
};

Test(client, may_be_ended_inside_any_callback)
{
    static const char *const requests[] = {
        POST("/a", "6\r\n\r\nabcdef"),
        "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof callbacks / sizeof *callbacks * 2; i++) {
        const struct callback_row *row = &callbacks[i / 2];
        struct run run;
        run_begin(&run);
        run.on_head = row->head;
        run.on_body = row->body;
        run.on_end = row->end;
        run.on_half = row->half;
        cr_assert(net_say(run.peer, requests[i % 2]));
        if (row->fin)
            shutdown(run.peer, SHUT_WR);
        if (row->head ==
            ACT_NOTHING) { /* the body is here and nobody has asked for it: the client still wants its answer */
            net_run(20);
            cr_assert_eq(run.gones, 0, "%s", row->name);
            run_act(&run, ACT_ABORT);
        } else {
            cr_assert_eq(run_hear_out(&run), row->heard, "%s: %s", row->name, buffer_text(&run.log));
            cr_assert_eq(answers(&run), row->answers, "%s: %s", row->name, buffer_text(&run.log));
        }
        cr_assert_eq(run.gones, 0, "%s: who left by itself is not told", row->name);
        run_end(&run, row->name);
    }
}

Test(client, may_be_ended_when_it_becomes_writable)
{
    static char large[8 << 20];
    static const enum act acts[] = {ACT_FINISH, ACT_CLOSE, ACT_ABORT};
    for (size_t i = 0; i < 3; i++) {
        struct run run;
        run_begin(&run);
        run.on_end = ACT_NOTHING;
        run.on_writable = acts[i];
        run.answer = "";
        cr_assert(net_say(run.peer, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n"));
        cr_assert(NET_UNTIL(run.ends == 1));
        client_write(run.client, large, sizeof large);
        cr_assert_eq(run.writables, 0, "never from inside a call");
        cr_assert(NET_UNTIL((net_take(run.peer, &run.heard), run.writables == 1)));
        net_run(20);
        cr_assert_eq(run.writables, 1, "once for each time that it sinks");
        run_end(&run, "writable");
    }
}

Test(client, tells_a_broken_write_from_the_loop)
{
    static char large[1 << 20];
    struct run run;
    run_begin(&run);
    run.on_end = ACT_NOTHING;
    cr_assert(net_say(run.peer, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n"));
    cr_assert(NET_UNTIL(run.ends == 1));
    net_reset(run.peer);
    run.peer = -1;
    nap(20);
    client_write(run.client, large, sizeof large);
    cr_assert_eq(run.gones, 0, "never from inside a call");
    client_write(run.client, large, sizeof large);
    cr_assert_eq(client_queued(run.client), 0, "nothing is kept for a dead connection");
    cr_assert(NET_UNTIL(run.gones == 1));
    run_end(&run, "broken write");
}

struct cut_row {
    const char *name, *requests;
    bool half_closed;
};

/* The first answer waits in the socket when the second one cannot be completed. */
Test(client, delivers_earlier_answers_when_it_cuts_one)
{
    static char first[1 << 20];
    static const char begun[] = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc";
    static const struct cut_row rows[] = {
        {"open", "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n", false},
        {"half-closed", "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n", true},
        {"a third request waits",
         "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\nGET /3 HTTP/1.1\r\nHost: h\r\n\r\n",
         false},
    };
    memset(first, 'x', sizeof first);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run run;
        run_begin(&run);
        run.on_end = ACT_NOTHING;
        run.answer = "";
        cr_assert(net_say(run.peer, rows[i].requests));
        if (rows[i].half_closed)
            shutdown(run.peer, SHUT_WR);
        cr_assert(NET_UNTIL(run.ends == 1));
        net_run(20);
        client_append(run.client, first, sizeof first); /* the whole first answer, as far as this test goes */
        run_act(&run, ACT_FINISH);
        for (int64_t end = monotonic_ms() + PATIENCE_MS; run.ends < 2 && monotonic_ms() < end;) {
            /* the peer takes just enough for the second request to have its turn */
            char some[4096];
            ssize_t got = recv(run.peer, some, sizeof some, 0);
            if (got > 0)
                buffer_append(&run.heard, some, (size_t)got);
            net_turn();
        }
        cr_assert_eq(run.ends, 2, "%s: %s", rows[i].name, buffer_text(&run.log));
        client_append(run.client, begun, sizeof begun - 1);
        run_act(&run, ACT_CUT);
        cr_assert_eq(run_hear_out(&run), HEARD_END, "%s: a reset takes the first answer with it", rows[i].name);
        cr_assert_eq(buffer_len(&run.heard), sizeof first + sizeof begun - 1, "%s: %zu bytes", rows[i].name,
                     buffer_len(&run.heard));
        cr_assert_eq(run.heads, 2, "%s: no request after a cut", rows[i].name);
        cr_assert_eq(run.gones, 0, "%s: who left by itself is not told", rows[i].name);
        run_end(&run, rows[i].name);
    }
}

/* ---- back-pressure ---------------------------------------------------------------------------- */

Test(client, stops_reading_a_paused_body_and_goes_on)
{
    static char body[8 << 20];
    char head[100];
    struct run run;
    run_begin(&run);
    run.on_body = ACT_PAUSE;
    snprintf(head, sizeof head, "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n", sizeof body);
    cr_assert(net_say(run.peer, head));
    size_t sent = 0;
    for (int quiet = 0; quiet < 50; nap(1)) {
        ssize_t put = send(run.peer, body + sent, sizeof body - sent, MSG_NOSIGNAL);
        sent += put > 0 ? (size_t)put : 0;
        quiet = put > 0 ? 0 : quiet + 1;
        net_turn();
    }
    size_t paused_at = run.body_bytes;
    cr_assert_leq(paused_at, CLIENT_INPUT_SIZE);
    cr_assert(!net_spins(200), "a paused body must not spin");
    cr_assert_eq(run.body_bytes, paused_at, "no body while it is paused");
    run.on_body = ACT_NOTHING;
    client_read_body(run.client, CLIENT_PACE_SILENCE);
    cr_assert(net_send(run.peer, body + sent, sizeof body - sent));
    cr_assert(run_hear_answers(&run, 1));
    cr_assert(buffer_has(&run.log, "body 8388608|end|"), "%s", buffer_text(&run.log));
    run_end(&run, "paused");
}

/* ---- clocks ----------------------------------------------------------------------------------- */

Test(client, closes_an_idle_connection_silently)
{
    struct run run;
    run_begin(&run);
    run.settings.idle_timeout = 100;
    cr_assert(net_say(run.peer, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    cr_assert_eq(run_hear_out(&run), HEARD_END);
    cr_assert(buffer_is(&run.heard, OK_ANSWER), "not a word more");
    cr_assert(buffer_is(&run.log, "head GET /|body 0|end|"), "%s", buffer_text(&run.log));
    run_end(&run, "idle");
}

Test(client, limits_the_time_of_a_head_in_all)
{
    struct run run;
    run_begin(&run);
    run.settings.header_timeout = 150;
    int64_t start = monotonic_ms();
    bool open = true;
    for (int i = 0; open && i < 100; i++) { /* a byte now and then must not move the limit */
        send(run.peer,
             "GET / HTTP/1.1\r\nX-Very-Long-Name: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" + i, 1,
             MSG_NOSIGNAL);
        net_run(10);
        open = net_take(run.peer, &run.heard) == HEARD_NOTHING;
    }
    cr_assert(!open && buffer_is(&run.log, "refused 408|"), "%s", buffer_text(&run.log));
    cr_assert_geq(monotonic_ms() - start, 140);
    run_end(&run, "slow head");
}

Test(client, does_not_answer_where_nothing_was_asked)
{
    struct run run;
    run_begin(&run);
    run.settings.header_timeout = 100;
    cr_assert(net_say(run.peer, "\r\n"));
    cr_assert_eq(run_hear_out(&run), HEARD_END);
    cr_assert_eq(buffer_len(&run.heard), 0, "an empty line is no request");
    run_end(&run, "empty line");
}

struct pace_row {
    const char *name;
    enum client_pace pace;
    int every_ms, bytes; /* what the peer sends */
    bool cut;
};

Test(client, cuts_bodies_by_their_pace)
{
    static const struct pace_row rows[] = {
        /* windows of 600 ms: 614 bytes keep the pace */
        {"silence", CLIENT_PACE_SILENCE, 0, 0, true},
        {"unkeyed, a byte now and then", CLIENT_PACE_SILENCE, 40, 1, false},
        {"keyed, a byte now and then", CLIENT_PACE_RATE, 40, 1, true},
        {"keyed, enough", CLIENT_PACE_RATE, 20, 100, false},
    };
    static char body[100000];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct pace_row *row = &rows[i];
        struct run run;
        run_begin(&run);
        run.settings.body_timeout = 600;
        run.on_head = ACT_NOTHING;
        cr_assert(net_say(run.peer, "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n"));
        cr_assert(NET_UNTIL(run.heads == 1));
        net_run(800);
        cr_assert(buffer_is(&run.log, "head POST /a|"), "%s: no clock before anybody reads", row->name);
        client_read_body(run.client, row->pace);
        for (int64_t end = monotonic_ms() + 2000; monotonic_ms() < end && run.attached;) {
            send(run.peer, body, (size_t)row->bytes, MSG_NOSIGNAL);
            net_run(row->every_ms ? row->every_ms : 20);
        }
        cr_assert(buffer_is(&run.log, row->cut ? "head POST /a|body-refused 408|" : "head POST /a|"), "%s: %s",
                  row->name, buffer_text(&run.log));
        run_end(&run, row->name);
    }
}

Test(client, stops_the_body_clock_while_paused)
{
    struct run run;
    run_begin(&run);
    run.settings.body_timeout = 100;
    cr_assert(net_say(run.peer, "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc"));
    cr_assert(NET_UNTIL(run.body_bytes == 3));
    client_pause_body(run.client);
    net_run(300);
    cr_assert(buffer_is(&run.log, "head POST /a|"), "it is we who do not read: %s", buffer_text(&run.log));
    client_read_body(run.client, CLIENT_PACE_SILENCE);
    cr_assert(NET_UNTIL(buffer_has(&run.log, "body-refused 408|")));
    run_end(&run, "paused clock");
}

Test(client, cuts_a_client_that_takes_nothing)
{
    static char large[8 << 20];
    struct run run;
    run_begin(&run);
    run.settings.send_timeout = 150;
    run.on_end = ACT_NOTHING;
    cr_assert(net_say(run.peer, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    cr_assert(NET_UNTIL(run.ends == 1));
    client_write(run.client, large, sizeof large);
    cr_assert(NET_UNTIL(run.gones == 1));
    cr_assert_eq(run_hear_out(&run), HEARD_RESET, "it must not be taken for a complete answer");
    run_end(&run, "send timeout");
}

Test(client, cuts_a_client_that_takes_nothing_of_a_finished_answer)
{
    static char large[8 << 20];
    struct run run;
    run_begin(&run);
    run.settings.send_timeout = 150;
    run.on_end = ACT_NOTHING;
    run.answer = "";
    cr_assert(net_say(run.peer, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    cr_assert(NET_UNTIL(run.ends == 1));
    client_write(run.client, large, sizeof large);
    run_act(&run, ACT_FINISH);
    cr_assert(NET_UNTIL(run.closed == 1));
    cr_assert_eq(run.gones, 0, "the exchange has left");
    run_end(&run, "send timeout at the end");
}

/* ---- draining --------------------------------------------------------------------------------- */

Test(client, closes_at_once_or_after_the_answer_when_told)
{
    struct run run;
    run_begin(&run);
    client_close_when_idle(run.client);
    cr_assert_eq(run_hear_out(&run), HEARD_END);
    run_end(&run, "idle");

    run_begin(&run);
    run.on_end = ACT_NOTHING;
    cr_assert(net_say(run.peer, "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n"));
    cr_assert(NET_UNTIL(run.ends == 1));
    client_close_when_idle(run.client);
    net_run(20);
    cr_assert_eq(net_take(run.peer, &run.heard), HEARD_NOTHING, "the request in hand is answered first");
    run_act(&run, ACT_FINISH);
    cr_assert_eq(run_hear_out(&run), HEARD_END);
    cr_assert_eq(answers(&run), 1);
    run_end(&run, "busy");
}

enum { NOT_SAID, SAID_BEFORE, SAID_LATER };

struct drain_row {
    const char *name;
    int served, request; /* requests answered before; when the one in question is said */
    int answers;
    int64_t at_least, less_than; /* ms until the end */
};

static const struct drain_row drains[] = {
    {"used, quiet", 1, NOT_SAID, 1, 0, 900},
    {"used, a request in the socket", 1, SAID_BEFORE, 2, 0, 900},
    {"new, a request in the socket", 0, SAID_BEFORE, 1, 0, 900},
    {"new, a request that comes soon", 0, SAID_LATER, 1, 100, 900},
    {"new, nothing", 0, NOT_SAID, 0, 900, 2500},
};

Test(client, eats_no_request_when_it_is_told_to_close)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    for (size_t i = 0; i < sizeof drains / sizeof *drains; i++) {
        const struct drain_row *row = &drains[i];
        struct run run;
        run_begin(&run);
        if (row->served) {
            cr_assert(net_say(run.peer, request));
            cr_assert(run_hear_answers(&run, row->served), "%s", row->name);
            net_run(20);
        }
        if (row->request == SAID_BEFORE) /* and no turn of the loop: nobody has looked */
            cr_assert_eq(send(run.peer, request, sizeof request - 1, 0), (ssize_t)sizeof request - 1);
        int64_t start = monotonic_ms();
        client_close_when_idle(run.client);
        if (row->request == SAID_LATER) {
            net_run(150);
            cr_assert(net_say(run.peer, request), "%s", row->name);
        }
        cr_assert_eq(run_hear_out(&run), HEARD_END, "%s", row->name);
        int64_t took = monotonic_ms() - start;
        cr_assert(took >= row->at_least && took < row->less_than, "%s: %d ms", row->name, (int)took);
        cr_assert_eq(answers(&run), row->answers, "%s: %s", row->name, buffer_text(&run.log));
        run_end(&run, row->name);
    }
}

static void ask_now(evutil_socket_t fd, short what, void *arg)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
    uint64_t count;
    (void)what;
    cr_assert_eq(read(fd, &count, sizeof count), (ssize_t)sizeof count);
    cr_assert_eq(send(((struct run *)arg)->peer, request, sizeof request - 1, 0), (ssize_t)sizeof request - 1);
}

/* The request comes when the loop has looked at the sockets, and before the timer's turn. */
Test(client, reads_once_more_before_it_closes_for_idleness)
{
    struct run run;
    run_begin(&run);
    run.settings.idle_timeout = 100;
    cr_assert(net_say(run.peer, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"));
    cr_assert(run_hear_answers(&run, 1));
    int fd = eventfd(0, EFD_NONBLOCK);
    struct event *busy = event_new(base, fd, EV_READ | EV_PERSIST, ask_now, &run);
    event_add(busy, NULL);
    net_run(20);
    nap(200); /* the idle time is over, but nobody has looked */
    cr_assert_eq(write(fd, &(uint64_t){1}, sizeof(uint64_t)), (ssize_t)sizeof(uint64_t));
    cr_assert(run_hear_answers(&run, 2), "%s", buffer_text(&run.log));
    event_free(busy);
    close(fd);
    run_end(&run, "late timer");
}

Test(client, can_be_freed_in_every_state)
{
    static const char *const states[] = {"", "GET / HT", POST("/a", "9\r\n\r\nabc"), POST("/a", "3\r\n\r\nabc")};
    for (size_t i = 0; i < 4; i++) {
        struct run run;
        run_begin(&run);
        run.on_end = ACT_NOTHING;
        cr_assert(net_say(run.peer, states[i]));
        net_run(10);
        run.attached = false;
        client_free_now(run.client);
        run_end(&run, states[i]);
    }
}

/* ---- cost ------------------------------------------------------------------------------------- */

ssize_t recv(int fd, void *to, size_t size, int flags)
{
    calls.reads++;
    return syscall(SYS_recvfrom, fd, to, size, flags, NULL, NULL);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    calls.writes++;
    return syscall(SYS_writev, fd, parts, count);
}

Test(client, costs_one_read_and_one_write_a_request)
{
    static const char request[] = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
    struct run run;
    run_begin(&run);
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(write(run.peer, request, sizeof request - 1), (ssize_t)(sizeof request - 1));
        memset(&calls, 0, sizeof calls);
        cr_assert(NET_UNTIL(run.ends == i + 1));
        net_turn();
        if (i == 0)
            continue;
        cr_assert_eq(calls.reads, 1, "%d reads", calls.reads);
        cr_assert_eq(calls.writes, 1, "%d writes", calls.writes);
        cr_assert_eq(calls.changes, 0, "nothing is armed anew: %d", calls.changes);
    }
    run_end(&run, "cost");
}

Test(client, costs_little_while_idle)
{
    enum { MANY = 200 };
    struct client *clients[MANY];
    int peers[MANY];
    struct run run;
    run_begin(&run);
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < MANY; i++) {
        int pair[2];
        net_pair(pair);
        peers[i] = pair[1];
        clients[i] = client_new(base, pair[0], "192.0.2.7", &run.settings, &run_events, &run);
        cr_assert(net_say(peers[i], "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"));
        cr_assert(NET_UNTIL(run.ends == i + 1));
        net_turn();
    }
    size_t each = (mallinfo2().uordblks - before) / MANY;
    cr_assert_lt(each, 3072, "%zu bytes of heap for an idle connection that has served a request", each);
    for (int i = 0; i < MANY; i++) {
        client_free_now(clients[i]);
        close(peers[i]);
    }
    run.closed = 0;
    run_end(&run, "memory");
}
