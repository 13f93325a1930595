/*
 * test_upstream.c - a call to the API: exactly one ending, the right one, whatever the API does and wherever its bytes
 * are cut; a connection is used again only where nothing can be left of the last answer.
 */
#include "upstream_run.h"

#include <sys/stat.h>
#include <sys/un.h>

#define OK      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

/* ---- endings ---------------------------------------------------------------------------------- */

enum then { KEEP, FIN, RST };

struct ending_row {
    const char *name, *answer;
    enum then then;
    const char *log;
    bool reused;
};

#define THIRTY_TWO(n) n n n n n n n n n n n n n n n n n n n n n n n n n n n n n n n n
#define INTERIMS      "HTTP/1.1 103 Early Hints\r\n\r\n"
#define LOG_32        THIRTY_TWO("1xx 103|")

static const struct ending_row endings[] = {
    {"length", OK, KEEP, "head 200|body ok|end answered|", true},
    {"chunks", CHUNKED "2\r\nok\r\n0\r\n\r\n", KEEP, "head 200|body ok|end answered|", true},
    {"no body by length", "HTTP/1.1 201 Made\r\nContent-Length: 0\r\n\r\n", KEEP, "head 201|end answered|", true},
    {"204", "HTTP/1.1 204 No Content\r\n\r\n", KEEP, "head 204|end answered|", true},
    {"304 with a length", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", KEEP, "head 304|end answered|",
     true},
    {"says close", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", KEEP,
     "head 200|body ok|end answered|", false},
    {"1.0 without keep-alive", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", KEEP, "head 200|body ok|end answered|",
     false},
    {"1.0 with keep-alive", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", KEEP,
     "head 200|body ok|end answered|", true},
    {"timeout=1 is over at once", "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok", KEEP,
     "head 200|body ok|end answered|", false},
    {"timeout=9", "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=9\r\nContent-Length: 2\r\n\r\nok", KEEP,
     "head 200|body ok|end answered|", true},
    {"a byte too many", OK "\r", KEEP, "head 200|body ok|end answered|", false},
    {"another answer behind", OK "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", KEEP,
     "head 200|body ok|end answered|", false},
    {"until close, FIN", "HTTP/1.1 200 OK\r\n\r\nok", FIN, "head 200|body ok|end answered|", false},
    {"until close, nothing, FIN", "HTTP/1.1 200 OK\r\n\r\n", FIN, "head 200|end answered|", false},
    {"until close, reset", "HTTP/1.1 200 OK\r\n\r\nok", RST, "head 200|body ok|end broken invalid|", false},
    {"length cut", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", FIN, "head 200|body ok|end broken invalid|",
     false},
    {"length reset", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", RST, "head 200|body ok|end broken invalid|",
     false},
    {"body cut before its first byte", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", FIN,
     "head 200|end broken invalid|", false},
    {"cut between chunks", CHUNKED "2\r\nok\r\n", FIN, "head 200|body ok|end broken invalid|", false},
    {"last chunk without its end", CHUNKED "2\r\nok\r\n0\r\n", FIN, "head 200|body ok|end broken invalid|", false},
    {"bad chunk", CHUNKED "2\r\nokXX", KEEP, "head 200|body ok|end broken invalid|", false},
    {"nothing, FIN", "", FIN, "end broken closed|", false},
    {"nothing, reset", "", RST, "end broken closed|", false},
    {"half a status line, FIN", "HTTP/1.1 2", FIN, "end broken invalid|", false},
    {"half a head, reset", "HTTP/1.1 200 OK\r\nContent-Le", RST, "end broken invalid|", false},
    {"garbage", "SSH-2.0-OpenSSH_9.2\r\n", KEEP, "end broken invalid|", false},
    {"HTTP/2", "HTTP/2 200 OK\r\n\r\n", KEEP, "end broken invalid|", false},
    {"length and chunked", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n", KEEP,
     "end broken invalid|", false},
    {"1xx then an answer", INTERIMS "HTTP/1.1 100 Continue\r\n\r\n" OK, KEEP,
     "1xx 103|1xx 100|head 200|body ok|end answered|", true},
    {"1xx only, FIN", INTERIMS, FIN, "1xx 103|end broken closed|", false},
    {"1xx only, reset", INTERIMS, RST, "1xx 103|end broken closed|", false},
    {"1xx, half a head, FIN", INTERIMS "HTTP/1.1 20", FIN, "1xx 103|end broken invalid|", false},
    {"32 times 1xx", THIRTY_TWO(INTERIMS) OK, KEEP, LOG_32 "head 200|body ok|end answered|", true},
    {"33 times 1xx", THIRTY_TWO(INTERIMS) INTERIMS, KEEP, LOG_32 "end broken invalid|", false},
    {"101 unasked", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", KEEP,
     "end broken invalid|", false},
};

/* Without turns, and pieces of the body as one: what does not depend on the cuts. */
static void flatten(const struct buffer *log, struct buffer *flat)
{
    bool in_body = false;
    for (const char *at = buffer_data(log), *end = at + buffer_len(log); at < end;) {
        const char *bar = memchr(at, '|', (size_t)(end - at));
        size_t len = (size_t)(bar - at);
        bool body = len > 5 && memcmp(at, "body ", 5) == 0;
        if (len != 4 || memcmp(at, "turn", 4) != 0) {
            if (in_body && !body)
                buffer_append(flat, "|", 1);
            if (body && in_body)
                buffer_append(flat, at + 5, len - 5);
            else
                buffer_append(flat, at, body ? len : len + 1);
            in_body = body;
        }
        at = bar + 1;
    }
}

static void then_do(int *fd, enum then then)
{
    if (then == KEEP)
        return;
    if (then == RST) {
        nap(2); /* what was said before is there first: a peer that reads gets it */
        net_run(5);
        net_reset(*fd);
    } else {
        close(*fd);
    }
    *fd = -1;
}

static void ending(const struct ending_row *row, bool byte_by_byte)
{
    struct run run = {0};
    struct buffer flat = {0};
    pool_begin();
    struct upstream_request request = post();
    run_start(&run, &request);
    int fd = api_accept();
    api_hear(fd, "abc");
    if (byte_by_byte) {
        for (const char *at = row->answer; *at && run.call; at++) {
            send(fd, at, 1, MSG_NOSIGNAL);
            net_turn();
        }
    } else {
        cr_assert(net_say(fd, row->answer) || run.ends);
    }
    then_do(&fd, row->then);
    run_wait(&run, row->name);
    flatten(&run.log, &flat);
    cr_assert(buffer_is(&flat, row->log), "%s%s: %s", row->name, byte_by_byte ? ", byte by byte" : "",
              buffer_text(&flat));
    cr_assert(run.sents <= 1);
    bool stray = byte_by_byte && strncmp(row->answer, OK, strlen(OK)) == 0 && row->answer[strlen(OK)];
    if (!stray) { /* a byte at a time the stray ones come to an idle connection: another test */
        bool kept = upstream_pool_connections(pool) == 1;
        cr_assert_eq(kept, row->reused, "%s: connection %s", row->name, kept ? "kept" : "not kept");
    }
    if (fd >= 0)
        close(fd);
    buffer_free(&flat);
    run_free(&run);
    net_turn();
    pool_end();
}

Test(upstream, reports_exactly_one_ending)
{
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        ending(&endings[i], false);
}

Test(upstream, reports_the_same_ending_byte_by_byte)
{
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        ending(&endings[i], true);
}

Test(upstream, reports_what_one_read_brought_in_one_go)
{
    struct run run = {0};
    struct upstream_request request = post();
    pool_begin();
    run_start(&run, &request);
    int fd = api_accept();
    api_hear(fd, "abc");
    cr_assert(net_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab"));
    cr_assert(NET_UNTIL(buffer_has(&run.log, "turn|")));
    cr_assert(net_say(fd, "cd"));
    run_wait(&run, "two reads");
    cr_assert(buffer_is(&run.log, "head 200|body ab|turn|body cd|end answered|"), "%s", buffer_text(&run.log));
    run_free(&run);
    close(fd);
    pool_end();
}

Test(upstream, expects_no_body_after_head)
{
    struct run run = {0};
    struct upstream_request request = get();
    request.no_body_in_response = true;
    pool_begin();
    run_start(&run, &request);
    int fd = api_accept();
    api_hear(fd, "\r\n\r\n");
    cr_assert(net_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"));
    run_wait(&run, "HEAD");
    cr_assert(buffer_is(&run.log, "head 200|end answered|"), "%s", buffer_text(&run.log));
    request.no_body_in_response = false;
    buffer_free(&run.log);
    exchange_on(fd, &run, &request, OK);
    cr_assert(buffer_is(&run.log, "head 200|body ok|end answered|"), "the next one has a body: %s",
              buffer_text(&run.log));
    run_free(&run);
    close(fd);
    pool_end();
}

/* ---- reuse ------------------------------------------------------------------------------------ */

Test(upstream, uses_a_connection_again)
{
    struct run run = {0};
    struct upstream_request request = post();
    pool_begin();
    run_start(&run, &request);
    int fd = api_accept();
    api_hear(fd, "abc");
    cr_assert(net_say(fd, OK));
    run_wait(&run, "first");
    for (int i = 0; i < 5; i++)
        exchange_on(fd, &run, &request, OK);
    cr_assert(!api_has_another());
    run_free(&run);
    close(fd);
    pool_end();
}

/* A head that came in pieces waits in a buffer. What is left of it must not meet the next answer. */
Test(upstream, forgets_the_pieces_of_the_last_answer)
{
    struct run run = {0};
    struct buffer flat = {0};
    struct upstream_request request = post();
    pool_begin();
    run_start(&run, &request);
    int fd = api_accept();
    api_hear(fd, "abc");
    cr_assert(net_say(fd, "HTTP/1.1 201 First\r\nContent-"));
    net_run(20);
    cr_assert(net_say(fd, "Length: 5\r\n\r\nfirst"));
    run_wait(&run, "first");
    buffer_free(&run.log);
    run_start(&run, &request);
    api_hear(fd, "abc");
    net_run(20);
    cr_assert_eq(run.ends, 0, "answered by the last answer: %s", buffer_text(&run.log));
    cr_assert(net_say(fd, "HTTP/1.1 202 Sec"));
    net_run(20);
    cr_assert(net_say(fd, "ond\r\nContent-Length: 6\r\n\r\nsecond"));
    run_wait(&run, "second");
    flatten(&run.log, &flat);
    cr_assert(buffer_is(&flat, "head 202|body second|end answered|"), "%s", buffer_text(&flat));
    buffer_free(&flat);
    run_free(&run);
    close(fd);
    pool_end();
}

struct idle_row {
    const char *name, *bytes; /* what the API does on the idle connection */
    bool fin;
    bool seen; /* the loop has had time to notice */
};

Test(upstream, never_uses_a_connection_on_which_something_happened)
{
    static const struct idle_row rows[] = {
        {"another answer", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", false, true},
        {"another answer, unseen", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", false, false},
        {"an empty line", "\r\n", false, true},
        {"an empty line, unseen", "\r\n", false, false},
        {"408 and the end", "HTTP/1.1 408 Request Timeout\r\n\r\n", true, true},
        {"the end", "", true, true},
        {"the end, unseen", "", true, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run run = {0};
        struct upstream_request request = post();
        pool_begin();
        run_start(&run, &request);
        int fd = api_accept();
        api_hear(fd, "abc");
        cr_assert(net_say(fd, OK));
        run_wait(&run, rows[i].name);
        cr_assert_eq(upstream_pool_connections(pool), 1);
        send(fd, rows[i].bytes, strlen(rows[i].bytes), MSG_NOSIGNAL);
        if (rows[i].fin)
            close(fd);
        nap(5);
        if (rows[i].seen)
            cr_assert(NET_UNTIL(upstream_pool_connections(pool) == 0), "%s: it stays in the pool", rows[i].name);
        buffer_free(&run.log);
        run_start(&run, &request);
        int other = api_accept();
        api_hear(other, "abc");
        cr_assert(net_say(other, "HTTP/1.1 202 OK\r\nContent-Length: 4\r\n\r\ngood"));
        run_wait(&run, rows[i].name);
        cr_assert(buffer_is(&run.log, "head 202|body good|end answered|"), "%s: %s", rows[i].name,
                  buffer_text(&run.log));
        if (!rows[i].fin)
            close(fd);
        close(other);
        run_free(&run);
        pool_end();
    }
}

Test(upstream, keeps_idle_connections_only_so_long_and_so_many)
{
    struct run runs[4] = {0};
    int fds[4];
    struct upstream_request request = post();
    pool_begin();
    upstream.keepalive = 2;
    upstream.keepalive_idle = 200;
    for (int i = 0; i < 4; i++) {
        run_start(&runs[i], &request);
        fds[i] = api_accept();
        api_hear(fds[i], "abc");
    }
    for (int i = 0; i < 4; i++) {
        cr_assert(net_say(fds[i], OK));
        run_wait(&runs[i], "one of four");
    }
    net_turn();
    cr_assert_eq(upstream_pool_connections(pool), 2, "`keepalive` bounds them");
    exchange_on(fds[1], &runs[0], &request, OK); /* the newest: the older ones may grow old */
    int64_t start = monotonic_ms();
    cr_assert(NET_UNTIL(upstream_pool_connections(pool) == 0), "keepalive_idle ends them");
    cr_assert_geq(monotonic_ms() - start, 150);
    for (int i = 0; i < 4; i++) {
        close(fds[i]);
        run_free(&runs[i]);
    }
    pool_end();
}

Test(upstream, never_uses_a_connection_whose_time_is_over_though_the_timer_is_late)
{
    struct run run = {0};
    struct upstream_request request = post();
    pool_begin();
    upstream.keepalive_idle = 30;
    run_start(&run, &request);
    int fd = api_accept();
    api_hear(fd, "abc");
    cr_assert(net_say(fd, OK));
    run_wait(&run, "first");
    nap(60); /* the loop is busy elsewhere */
    run_start(&run, &request);
    int other = api_accept();
    api_hear(other, "abc");
    cr_assert(net_say(other, OK));
    run_wait(&run, "second");
    close(fd);
    close(other);
    run_free(&run);
    pool_end();
}

Test(upstream, keeps_connections_to_different_upstreams_apart)
{
    struct run run = {0};
    struct upstream_request request = post();
    pool_begin();
    run_start(&run, &request);
    int fd = api_accept();
    api_hear(fd, "abc");
    cr_assert(net_say(fd, OK));
    run_wait(&run, "first");

    struct conf_upstream same = upstream, other = upstream;
    char url[64];
    same.name = (char *)"another object of the same upstream, as after a reload";
    request.upstream = &same;
    exchange_on(fd, &run, &request, OK);

    uint16_t port;
    int listener = net_listen(&port), first = api.listener;
    snprintf(url, sizeof url, "http://127.0.0.1:%u", port);
    other.url = url;
    other.port = port;
    request.upstream = &other;
    run_start(&run, &request);
    api.listener = listener;
    int second = api_accept();
    api_hear(second, "abc");
    cr_assert(net_say(second, OK));
    run_wait(&run, "other upstream");
    cr_assert_eq(upstream_pool_connections(pool), 2);
    upstream_pool_drop_idle(pool);
    cr_assert_eq(upstream_pool_connections(pool), 0);
    api.listener = first;
    close(listener);
    close(fd);
    close(second);
    run_free(&run);
    pool_end();
}

/* ---- what may be sent twice ------------------------------------------------------------------- */

struct again_row {
    const char *name;
    bool get;           /* else POST */
    const char *answer; /* before the end */
    bool reset, listens, again;
    const char *log;
};

Test(upstream, sends_nothing_twice_that_may_not_be)
{
    static const struct again_row rows[] = {
        {"POST, FIN after reading", false, "", false, true, false, "end broken closed|"},
        {"POST, reset after reading", false, "", true, true, false, "end broken closed|"},
        {"POST, a byte of the answer", false, "H", true, true, false, "end broken invalid|"},
        {"GET, FIN after reading", true, "", false, true, true, "head 200|body ok|end answered|"},
        {"GET, reset after reading", true, "", true, true, true, "head 200|body ok|end answered|"},
        {"GET, a byte of the answer", true, "H", false, true, false, "end broken invalid|"},
        {"GET, a 1xx", true, INTERIMS, false, true, false, "1xx 103|end broken closed|"},
        {"GET, and the API is gone", true, "", false, false, false, "end broken closed|"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct again_row *row = &rows[i];
        struct run run = {0};
        struct buffer flat = {0};
        pool_begin();
        struct upstream_request request = row->get ? get() : post();
        run_start(&run, &request);
        int fd = api_accept();
        api_hear(fd, row->get ? "\r\n\r\n" : "abc");
        cr_assert(net_say(fd, OK));
        run_wait(&run, row->name);
        buffer_free(&run.log);
        run_start(&run, &request); /* on the same connection */
        api_hear(fd, row->get ? "\r\n\r\n" : "abc");
        cr_assert(upstream_has_sent(run.call));
        if (!row->listens) {
            close(api.listener);
            api.listener = -1;
        }
        send(fd, row->answer, strlen(row->answer), MSG_NOSIGNAL);
        then_do(&fd, row->reset ? RST : FIN);
        if (row->again) {
            int other = api_accept();
            cr_assert(upstream_has_sent(run.call), "%s: what went out once stays sent", row->name);
            api_hear(other, "\r\n\r\n");
            cr_assert(net_say(other, OK));
            run_wait(&run, row->name);
            close(other);
        } else {
            run_wait(&run, row->name);
            cr_assert(!row->listens || !api_has_another(), "%s: another connection came", row->name);
        }
        flatten(&run.log, &flat);
        cr_assert(buffer_is(&flat, row->log), "%s: %s", row->name, buffer_text(&flat));
        buffer_free(&flat);
        run_free(&run);
        pool_end();
    }
}

Test(upstream, sends_once_more_only_once)
{
    struct run run = {0};
    struct upstream_request request = get();
    pool_begin();
    run_start(&run, &request);
    int fd = api_accept();
    api_hear(fd, "\r\n\r\n");
    cr_assert(net_say(fd, OK));
    run_wait(&run, "first");
    run_start(&run, &request);
    api_hear(fd, "\r\n\r\n");
    close(fd);
    fd = api_accept();
    api_hear(fd, "\r\n\r\n");
    close(fd);
    run_wait(&run, "twice");
    cr_assert_eq(run.end.ending, UPSTREAM_BROKEN);
    cr_assert(!api_has_another());
    run_free(&run);
    pool_end();
}

/* ---- unsent ----------------------------------------------------------------------------------- */

Test(upstream, ends_unsent_where_nothing_can_have_been_sent)
{
    static const struct {
        const char *name, *host, *unix_path;
        int64_t timeout;
    } rows[] = {
        {"refused", "127.0.0.1", NULL, 2000},
        {"no such name", "none.test", NULL, 2000},
        {"a name that hangs", "hang.test", NULL, 150},
        {"no address of two", "two.test", NULL, 2000},
        {"no such socket", NULL, "/tmp/einmal-test-no-such-socket", 2000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run run = {0};
        struct upstream_request request = post();
        pool_begin();
        close(api.listener);
        api.listener = -1;
        upstream.host = (char *)rows[i].host;
        upstream.unix_path = (char *)rows[i].unix_path;
        upstream.connect_timeout = rows[i].timeout;
        run_start(&run, &request);
        cr_assert(!upstream_has_sent(run.call));
        run_wait(&run, rows[i].name);
        cr_assert(buffer_is(&run.log, "end unsent unreachable|"), "%s: %s", rows[i].name, buffer_text(&run.log));
        cr_assert(run.end.detail && *run.end.detail, "%s: the log wants to know why", rows[i].name);
        run_free(&run);
        atomic_store(&resolve_release, true);
        net_run(10);
        atomic_store(&resolve_release, false);
        pool_end();
    }
}

Test(upstream, keeps_the_connect_timeout_where_nobody_accepts)
{
    /* A full backlog: the kernel answers no further handshake. */
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    struct run run = {0};
    struct upstream_request request = post();
    int fillers[4];
    pool_begin();
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(bind(listener, (struct sockaddr *)&address, len) == 0 && listen(listener, 0) == 0);
    getsockname(listener, (struct sockaddr *)&address, &len);
    for (int i = 0; i < 4; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(fillers[i], (struct sockaddr *)&address, len);
    }
    nap(20);
    upstream.port = ntohs(address.sin_port);
    upstream.connect_timeout = 200;
    int64_t start = monotonic_ms();
    run_start(&run, &request);
    run_wait(&run, "full backlog");
    cr_assert(buffer_is(&run.log, "end unsent unreachable|"), "%s", buffer_text(&run.log));
    cr_assert_geq(monotonic_ms() - start, 190);
    for (int i = 0; i < 4; i++)
        close(fillers[i]);
    close(listener);
    run_free(&run);
    pool_end();
}

Test(upstream, tries_all_addresses)
{
    struct run run = {0};
    struct upstream_request request = post();
    pool_begin();
    upstream.host = (char *)"two.test"; /* nobody listens on the first */
    run_start(&run, &request);
    int fd = api_accept();
    api_hear(fd, "abc");
    cr_assert(net_say(fd, OK));
    run_wait(&run, "second address");
    cr_assert_eq(run.end.ending, UPSTREAM_ANSWERED);
    close(fd);
    run_free(&run);
    pool_end();
}

Test(upstream, tries_the_next_address_where_one_does_not_answer)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr("127.0.0.2")};
    struct run run = {0};
    struct upstream_request request = post();
    int fillers[4];
    pool_begin();
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_port = htons(api.port);
    cr_assert(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 0) == 0);
    for (int i = 0; i < 4; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(fillers[i], (struct sockaddr *)&address, sizeof address);
    }
    nap(20);
    upstream.host = (char *)"two.test";
    upstream.connect_timeout = 3000;
    int64_t start = monotonic_ms();
    run_start(&run, &request);
    int fd = api_accept();
    cr_assert_lt(monotonic_ms() - start, 2500, "half of the time is the second one's");
    api_hear(fd, "abc");
    cr_assert(net_say(fd, OK));
    run_wait(&run, "the first address is silent");
    cr_assert_eq(run.end.ending, UPSTREAM_ANSWERED);
    for (int i = 0; i < 4; i++)
        close(fillers[i]);
    close(listener);
    close(fd);
    run_free(&run);
    pool_end();
}

Test(upstream, talks_to_unix_sockets)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct run run = {0};
    struct upstream_request request = post();
    pool_begin();
    close(api.listener);
    snprintf(address.sun_path, sizeof address.sun_path, "/tmp/einmal-test-%d.sock", (int)getpid());
    for (int round = 0; round < 2; round++) { /* the API is started anew: its socket is another one */
        api.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        cr_assert(bind(api.listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(api.listener, 8) == 0);
        upstream.unix_path = address.sun_path;
        upstream.host = NULL;
        run_start(&run, &request);
        int fd = api_accept();
        api_hear(fd, "abc");
        cr_assert(net_say(fd, OK));
        run_wait(&run, "unix");
        cr_assert_eq(run.end.ending, UPSTREAM_ANSWERED);
        exchange_on(fd, &run, &request, OK);
        close(fd);
        if (round == 0)
            close(api.listener);
        unlink(address.sun_path);
    }
    run_free(&run);
    pool_end();
}

enum { MANY_FILLERS = 16 };

/* A unix socket that has no room for one more; returns it. */
static int full_unix_listener(struct sockaddr_un *address, int fillers[MANY_FILLERS], int *count)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof address->sun_path, "/tmp/einmal-test-%d.sock", (int)getpid());
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    cr_assert(bind(listener, (struct sockaddr *)address, sizeof *address) == 0 && listen(listener, 1) == 0);
    for (*count = 0;; ++*count) {
        cr_assert_lt(*count, MANY_FILLERS, "the backlog does not fill");
        fillers[*count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(fillers[*count], (struct sockaddr *)address, sizeof *address) != 0)
            break;
    }
    cr_assert_eq(errno, EAGAIN);
    close(fillers[*count]);
    return listener;
}

Test(upstream, waits_for_room_in_the_backlog_of_a_unix_socket)
{
    for (int room = 0; room < 2; room++) {
        struct sockaddr_un address;
        struct run run = {0};
        struct upstream_request request = post();
        int fillers[MANY_FILLERS], count, fd;
        pool_begin();
        close(api.listener);
        api.listener = full_unix_listener(&address, fillers, &count);
        upstream.unix_path = address.sun_path;
        upstream.host = NULL;
        upstream.connect_timeout = room ? 5000 : 300;
        int64_t start = monotonic_ms();
        run_start(&run, &request);
        net_run(150);
        cr_assert_eq(run.ends, 0, "a burst is no reason to fail: %s", buffer_text(&run.log));
        if (room) {
            for (int i = 0; i < count; i++)
                close(api_accept());
            fd = api_accept();
            api_hear(fd, "abc");
            cr_assert(net_say(fd, OK));
            run_wait(&run, "room");
            cr_assert_eq(run.end.ending, UPSTREAM_ANSWERED);
            close(fd);
        } else {
            int before = calls.wakes;
            (void)net_spins(100);
            cr_assert_lt(calls.wakes - before, 40, "it pauses between two tries");
            run_wait(&run, "no room");
            cr_assert(buffer_is(&run.log, "end unsent unreachable|"), "%s", buffer_text(&run.log));
            cr_assert(monotonic_ms() - start >= 290, "it has the whole of connect_timeout");
        }
        for (int i = 0; i < count; i++)
            close(fillers[i]);
        unlink(address.sun_path);
        run_free(&run);
        pool_end();
    }
}

/* ---- sending ---------------------------------------------------------------------------------- */

static struct upstream_request streaming(void)
{
    return (struct upstream_request){
        .upstream = &upstream,
        .head = SPAN("POST /s HTTP/1.1\r\nHost: h\r\nContent-Length: 52428800\r\n\r\n"),
        .streams = true,
    };
}

/* Streams until `bytes` are out or the call is over, never with more than the high water queued. */
static void stream(struct run *run, size_t bytes)
{
    static char piece[65536];
    for (int64_t end = monotonic_ms() + PATIENCE_MS; bytes && run->call && monotonic_ms() < end; net_turn())
        if (upstream_queued(run->call) <= UPSTREAM_HIGH_WATER) {
            size_t len = bytes < sizeof piece ? bytes : sizeof piece;
            upstream_write(run->call, piece, len);
            bytes -= len;
        }
}

Test(upstream, streams_a_body_as_it_comes)
{
    static const size_t sizes[] = {1, 100, 16383, 16384, 65536, 3 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct run run = {0};
        struct buffer heard = {0};
        char *body = malloc(sizes[i]);
        struct upstream_request request = streaming();
        pool_begin();
        for (size_t at = 0; at < sizes[i]; at++)
            body[at] = (char)(at * 7 + at / 251);
        run_start(&run, &request);
        for (size_t at = 0, piece = 1; at < sizes[i]; at += piece, piece = piece * 3 + 1) { /* also while connecting */
            if (piece > sizes[i] - at)
                piece = sizes[i] - at;
            upstream_write(run.call, body + at, piece);
        }
        upstream_write_end(run.call);
        int fd = api_accept();
        cr_assert(NET_UNTIL((net_take(fd, &heard), buffer_len(&heard) == request.head.len + sizes[i])), "%zu",
                  sizes[i]);
        cr_assert_eq(memcmp(buffer_data(&heard), request.head.data, request.head.len), 0);
        cr_assert_eq(memcmp(buffer_data(&heard) + request.head.len, body, sizes[i]), 0, "%zu", sizes[i]);
        cr_assert(NET_UNTIL(run.sents == 1));
        cr_assert(net_say(fd, OK));
        run_wait(&run, "streamed");
        cr_assert_eq(upstream_pool_connections(pool), 1, "all of it was sent: the connection can be used again");
        buffer_free(&heard);
        free(body);
        close(fd);
        run_free(&run);
        pool_end();
    }
}

Test(upstream, holds_back_what_the_api_does_not_take)
{
    struct run run = {0};
    struct upstream_request request = streaming();
    struct buffer heard = {0};
    pool_begin();
    run_start(&run, &request);
    int fd = api_accept();
    static char piece[65536];
    for (int i = 0; i < 2000 && upstream_queued(run.call) <= UPSTREAM_HIGH_WATER; i++) {
        upstream_write(run.call, piece, sizeof piece);
        net_turn();
    }
    cr_assert_gt(upstream_queued(run.call), UPSTREAM_HIGH_WATER, "the socket is full");
    int before = run.writables;
    cr_assert(!net_spins(200), "and nothing spins");
    cr_assert_eq(run.writables, before);
    cr_assert(NET_UNTIL((net_take(fd, &heard), run.writables > before)), "writable when it has sunk");
    cr_assert_lt(upstream_queued(run.call), UPSTREAM_LOW_WATER);
    buffer_free(&heard);
    close(fd);
    run_free(&run);
    pool_end();
}

struct early_row {
    const char *name;
    enum then then;
    bool keyed; /* the body is given at once */
};

Test(upstream, hears_an_answer_that_comes_before_the_request_is_out)
{
    static const struct early_row rows[] = {
        {"streamed, FIN", FIN, false}, {"streamed, reset", RST, false}, {"streamed, open", KEEP, false},
        {"whole, FIN", FIN, true},     {"whole, reset", RST, true},     {"whole, open", KEEP, true},
    };
    static char body[8 << 20];
    for (size_t i = 0; i < sizeof rows / sizeof *rows * 5; i++) {
        const struct early_row *row = &rows[i % (sizeof rows / sizeof *rows)];
        struct run run = {0};
        struct buffer flat = {0};
        char some[65536];
        struct upstream_request request = row->keyed ? post() : streaming();
        pool_begin();
        if (row->keyed)
            request.body = (struct span){body, sizeof body};
        run_start(&run, &request);
        int fd = api_accept();
        if (!row->keyed)
            stream(&run, 1 << 20);
        cr_assert(NET_UNTIL(recv(fd, some, sizeof some, 0) > 0));
        cr_assert(net_say(fd, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig"));
        if (row->then == RST)
            net_reset(fd); /* unread bytes would make close(2) do so anyway */
        else if (row->then == FIN)
            shutdown(fd, SHUT_WR);
        if (!row->keyed)
            stream(&run, 8 << 20);
        run_wait(&run, row->name);
        flatten(&run.log, &flat);
        cr_assert(buffer_is(&flat, "head 413|body big|end answered|"), "%s: %s", row->name, buffer_text(&flat));
        net_turn();
        cr_assert_eq(upstream_pool_connections(pool), 0, "%s: half a request was sent on it", row->name);
        if (row->then != RST)
            close(fd);
        buffer_free(&flat);
        run_free(&run);
        pool_end();
    }
}

Test(upstream, cuts_an_api_that_takes_nothing)
{
    static char body[16 << 20];
    struct run run = {0};
    struct upstream_request request = post();
    request.body = (struct span){body, sizeof body};
    pool_begin();
    upstream.send_timeout = 200;
    run_start(&run, &request);
    int fd = api_accept();
    run_wait(&run, "send timeout");
    cr_assert(buffer_is(&run.log, "end broken send-timeout|"), "%s", buffer_text(&run.log));
    cr_assert_eq(run.sents, 0);
    close(fd);
    run_free(&run);
    pool_end();
}

Test(upstream, cuts_an_api_that_takes_nothing_though_it_goes_on_talking)
{
    static char body[16 << 20];
    struct run run = {.quiet_body = true};
    struct upstream_request request = post();
    request.body = (struct span){body, sizeof body};
    pool_begin();
    upstream.send_timeout = 300;
    run_start(&run, &request);
    int fd = api_accept();
    cr_assert(net_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"));
    int64_t end = monotonic_ms() + 3000;
    while (run.call && monotonic_ms() < end) {
        send(fd, "x", 1, MSG_NOSIGNAL);
        net_run(20);
    }
    cr_assert(buffer_is(&run.log, "head 200|end broken send-timeout|"), "%s", buffer_text(&run.log));
    close(fd);
    run_free(&run);
    pool_end();
}

Test(upstream, lets_an_api_be_slow_in_taking)
{
    static char body[16 << 20];
    char some[1 << 18];
    struct run run = {0};
    struct upstream_request request = post();
    request.body = (struct span){body, sizeof body};
    pool_begin();
    upstream.send_timeout = 1000;
    run_start(&run, &request);
    int fd = api_accept();
    for (int64_t end = monotonic_ms() + 2500; monotonic_ms() < end; net_run(10)) /* a piece now and then is progress */
        (void)!recv(fd, some, sizeof some, 0);
    cr_assert_eq(run.ends, 0, "%s", buffer_text(&run.log));
    close(fd);
    run_free(&run);
    pool_end();
}

static char steps[200];

static void note_step(void *arg, const char *name)
{
    cr_assert_eq(arg, steps);
    strcat(strcat(steps, name), "|");
}

Test(upstream, passes_its_steps_in_order)
{
    struct run run = {0};
    struct upstream_request request = post();
    request.crash_point = note_step;
    request.crash_arg = steps;
    pool_begin();
    run_start(&run, &request);
    cr_assert_str_eq(steps, "granted-nothing-sent|");
    int fd = api_accept();
    api_hear(fd, "abc");
    cr_assert_str_eq(steps, "granted-nothing-sent|first-byte-sent|last-byte-sent|");
    cr_assert(NET_UNTIL(run.sents == 1));
    close(fd);
    run_wait(&run, "steps");
    run_free(&run);
    pool_end();
}

/* ---- receiving -------------------------------------------------------------------------------- */

Test(upstream, stops_reading_while_paused)
{
    static char body[16 << 20];
    struct run run = {.quiet_body = true, .pause_in = "turn"};
    struct upstream_request request = get();
    pool_begin();
    upstream.stall_timeout = 150;
    run_start(&run, &request);
    int fd = api_accept();
    api_hear(fd, "\r\n\r\n");
    cr_assert(net_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 16777216\r\n\r\n"));
    cr_assert(NET_UNTIL(run.head_seen));
    size_t sent = 0;
    for (int quiet = 0; quiet < 300; nap(1)) { /* longer than the stall timeout: it is we who do not read */
        ssize_t put = send(fd, body + sent, sizeof body - sent, MSG_NOSIGNAL);
        sent += put > 0 ? (size_t)put : 0;
        quiet = put > 0 ? 0 : quiet + 1;
        net_turn();
    }
    cr_assert_leq(run.body_bytes, UPSTREAM_INPUT_SIZE);
    cr_assert(!net_spins(200), "a paused response must not spin");
    cr_assert_eq(run.ends, 0);
    run.pause_in = NULL;
    upstream_resume(run.call);
    cr_assert(net_send(fd, body + sent, sizeof body - sent));
    run_wait(&run, "resumed");
    cr_assert_eq(run.end.ending, UPSTREAM_ANSWERED);
    cr_assert_eq(run.body_bytes, sizeof body);
    close(fd);
    run_free(&run);
    pool_end();
}

Test(upstream, cuts_a_body_that_stalls)
{
    struct run run = {0};
    struct upstream_request request = get();
    pool_begin();
    upstream.stall_timeout = 800;
    run_start(&run, &request);
    int fd = api_accept();
    api_hear(fd, "\r\n\r\n");
    net_run(1000);
    cr_assert_eq(run.ends, 0, "before the head the clock is the caller's");
    cr_assert(net_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"));
    for (int i = 0; i < 5; i++) {
        net_run(240);
        cr_assert(net_say(fd, "x"));
    }
    cr_assert_eq(run.ends, 0, "each read is progress");
    run_wait(&run, "stall");
    cr_assert_eq(run.end.fault, UPSTREAM_FAULT_STALL);
    close(fd);
    run_free(&run);
    pool_end();
}

Test(upstream, may_be_cancelled_inside_any_callback)
{
    static const char *const where[] = {"1xx", "head", "body", "turn", "sent"};
    for (size_t i = 0; i < sizeof where / sizeof *where; i++) {
        struct run run = {.cancel_in = where[i]};
        struct upstream_request request = post();
        pool_begin();
        run_start(&run, &request);
        int fd = api_accept();
        api_hear(fd, "abc");
        net_say(fd, INTERIMS CHUNKED "2\r\nok\r\n2\r\nok\r\n");
        cr_assert(NET_UNTIL(!run.call), "%s", where[i]);
        net_run(10); /* nothing more may come: came() asserts it */
        cr_assert_eq(run.ends, 0, "%s: the caller has left", where[i]);
        cr_assert_eq(upstream_pool_connections(pool), 0, "%s: closed, not kept", where[i]);
        close(fd);
        run_free(&run);
        pool_end();
    }
}

Test(upstream, may_be_cancelled_before_anything_happens)
{
    static const char *const hosts[] = {"127.0.0.1", "one.test", "none.test", "hang.test"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct run run = {0};
        struct upstream_request request = post();
        pool_begin();
        upstream.host = (char *)hosts[i];
        run_start(&run, &request);
        upstream_cancel(run.call);
        run.call = NULL;
        net_run(20);
        atomic_store(&resolve_release, true);
        net_run(20);
        atomic_store(&resolve_release, false);
        run_free(&run);
        pool_end();
    }
}

/* The next request may be started where the last one ends: on the very connection. */
static void start_next(void *owner, const struct upstream_end *end)
{
    struct run *run = owner;
    struct upstream_request request = post();
    run->call = NULL;
    run->ends++;
    cr_assert_eq(end->ending, UPSTREAM_ANSWERED);
    if (run->ends < 4) {
        static struct upstream_events chain;
        chain = events;
        chain.end = start_next;
        run->call = upstream_start(pool, &request, &chain, run);
    }
}

Test(upstream, may_start_the_next_call_where_one_ends)
{
    struct run run = {0};
    struct upstream_events chain = events;
    struct upstream_request request = post();
    chain.end = start_next;
    pool_begin();
    run.call = upstream_start(pool, &request, &chain, &run);
    int fd = api_accept();
    for (int i = 0; i < 4; i++) {
        api_hear(fd, "abc");
        cr_assert(net_say(fd, "HTTP/1.1 200 O"));
        net_run(5);
        cr_assert(net_say(fd, "K\r\nContent-Length: 2\r\n\r\nok"));
        cr_assert(NET_UNTIL(run.ends == i + 1), "round %d", i);
    }
    close(fd);
    run_free(&run);
    pool_end();
}
