/*
 * test_headers.c - which fields pass where, and the exact bytes of the heads that leave.
 *
 * Heads come in as bytes through the real parser, so that a row shows what a client's request becomes at the API.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>

#include "proxy/headers.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct http_limits limits = {.header_bytes = 32768, .headers = 256, .request_target = 8192};

struct parsed {
    struct http_parser *parser;
    struct http_message message;
};

static struct parsed parse(enum http_kind kind, const char *text)
{
    struct parsed parsed = {.parser = http_parser_new(kind, &limits)};
    enum problem_code problem;
    size_t used;

    cr_assert_eq(http_read_head(parsed.parser, text, strlen(text), &used, &parsed.message, &problem), HTTP_HEAD_READY,
                 "%s: %s", text, http_refusal(parsed.parser));
    return parsed;
}

static bool same(const struct buffer *out, const char *text)
{
    return span_equal(buffer_span(out), span_of(text));
}

Test(headers, rules)
{
    static const struct {
        const char *name;
        unsigned rules;
    } rows[] = {
#define HOP (HEADER_DROP_REQUEST | HEADER_DROP_RESPONSE | HEADER_DROP_RECORD)
        {"Connection", HOP | HEADER_NOT_NOMINABLE},
        {"Keep-Alive", HOP},
        {"Proxy-Connection", HOP},
        {"TE", HOP},
        {"Trailer", HOP},
        {"Upgrade", HOP},
        {"Transfer-Encoding", HOP | HEADER_NOT_NOMINABLE},
        {"Content-Length", HOP | HEADER_NOT_NOMINABLE},
        {"content-LENGTH", HOP | HEADER_NOT_NOMINABLE},
        {"Expect", HEADER_DROP_REQUEST},
        {"HTTP2-Settings", HEADER_DROP_REQUEST},
        {"Host", HEADER_DROP_REQUEST | HEADER_NOT_NOMINABLE},
        {"Authorization", HEADER_NOT_NOMINABLE},
        {"Proxy-Authorization", HEADER_NOT_NOMINABLE},
        {"Idempotency-Key", HEADER_NOT_NOMINABLE},
        {"Idempotency-Degraded", HEADER_DROP_RESPONSE | HEADER_DROP_RECORD},
        {"X-Forwarded-For", 0},
        {"X-Forwarded-Proto", 0},
        {"X-Forwarded-Host", 0},
        {"Forwarded", 0},
        {"X-Request-Id", 0},
        {"Date", 0},
        {"Proxy-Authenticate", 0},
        {"Set-Cookie", 0},
        {"traceparent", 0},
        {"Server", 0},
        {"", 0},
        {"t", 0},
        {"Connectiom", 0},
        {"Content_Length", 0},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        cr_expect_eq(header_rules(span_of(rows[i].name)), rows[i].rules, "%s: %u", rows[i].name,
                     header_rules(span_of(rows[i].name)));
}

/* ---- requests --------------------------------------------------------------------------------- */

#define GET          "GET / HTTP/1.1\r\nHost: h\r\n"
#define AT_API       "GET / HTTP/1.1\r\nHost: h\r\n"
#define FORWARDED_BY "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: h\r\n"

struct request_row {
    const char *name, *in, *out;
    enum conf_forwarded forwarded;
    bool via, tls, whole_body, pass_expect;
    uint64_t body_len;
    const char *host_header, *request_id, *key_header, *derived_key;
};

static void check_request(const struct request_row *row)
{
    char authority[] = "api:3000";
    struct conf_upstream upstream = {.authority = authority, .host_header = (char *)(uintptr_t)row->host_header};
    struct parsed parsed = parse(HTTP_REQUESTS, row->in);
    struct forward_head head = {
        .message = &parsed.message,
        .upstream = &upstream,
        .forwarded = row->forwarded,
        .via = row->via,
        .client_address = SPAN("192.0.2.1"),
        .client_tls = row->tls,
        .request_id = span_of(row->request_id),
        .key_header = span_of(row->key_header),
        .derived_key = span_of(row->derived_key),
        .whole_body = row->whole_body,
        .body_len = row->body_len,
        .pass_expect = row->pass_expect,
    };
    struct buffer out = {0};

    headers_write_request(&out, &head);
    cr_expect(same(&out, row->out), "%s:\n%.*s", row->name, (int)buffer_len(&out), buffer_data(&out));
    buffer_free(&out);
    http_parser_free(parsed.parser);
}

static void check_requests(const struct request_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        check_request(&rows[i]);
}

Test(headers, requests_lose_what_is_between_two_neighbours)
{
    static const struct request_row rows[] = {
        {.name = "order, repetition and unknown names are kept",
         .in = "GET /a?b HTTP/1.1\r\nB: 1\r\nHost: h\r\nA:  2 \r\nB: 3\r\ntraceparent: t\r\n\r\n",
         .out = "GET /a?b HTTP/1.1\r\nHost: h\r\nB: 1\r\nA: 2\r\nB: 3\r\ntraceparent: t\r\n\r\n",
         .forwarded = FORWARDED_PASS},
        {.name = "hop-by-hop",
         .in = GET "Connection: close\r\nKeep-Alive: timeout=3\r\nProxy-Connection: close\r\nTE: trailers\r\n"
                   "Trailer: x\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nProxy-Authorization: p\r\n\r\n",
         .out = AT_API "Proxy-Authorization: p\r\n\r\n",
         .forwarded = FORWARDED_PASS},
        {.name = "what Connection names is dropped, but not what einmal relies on",
         .in = GET
         "Connection: close, X-Drop, Idempotency-Key, Authorization, Host, My-Key\r\nConnection: x-also\r\n"
         "X-Drop: 1\r\nIdempotency-Key: \"k\"\r\nAuthorization: b\r\nX-Also: 2\r\nMy-Key: m\r\nX-Dropped: 3\r\n\r\n",
         .out = AT_API "Idempotency-Key: \"k\"\r\nAuthorization: b\r\nMy-Key: m\r\nX-Dropped: 3\r\n\r\n",
         .key_header = "my-key",
         .forwarded = FORWARDED_PASS},
        {.name = "a named length is still ours to write",
         .in = "POST / HTTP/1.1\r\nHost: h\r\nConnection: Content-Length\r\nContent-Length: 003\r\n\r\n",
         .out = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n",
         .forwarded = FORWARDED_PASS},
        {.name = "Expect ends here",
         .in = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
         .out = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n",
         .forwarded = FORWARDED_PASS},
        {.name = "Expect passes, unkeyed",
         .in = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
         .out = "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
         .pass_expect = true,
         .forwarded = FORWARDED_PASS},
    };

    check_requests(rows, COUNT(rows));
}

Test(headers, targets_and_hosts)
{
    static const struct request_row rows[] = {
        {.name = "HTTP/1.0 becomes HTTP/1.1, with the upstream's authority",
         .in = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
         .out = "GET / HTTP/1.1\r\nHost: api:3000\r\n\r\n",
         .forwarded = FORWARDED_PASS},
        {.name = "a configured Host",
         .in = GET "\r\n",
         .out = "GET / HTTP/1.1\r\nHost: api.internal\r\n\r\n",
         .host_header = "api.internal",
         .forwarded = FORWARDED_PASS},
        {.name = "absolute-form: its authority replaces Host",
         .in = "GET http://other/x?y HTTP/1.1\r\nHost: h\r\n\r\n",
         .out = "GET /x?y HTTP/1.1\r\nHost: other\r\n\r\n",
         .forwarded = FORWARDED_PASS},
        {.name = "absolute-form with a query only",
         .in = "GET http://other?y HTTP/1.1\r\nHost: h\r\n\r\n",
         .out = "GET /?y HTTP/1.1\r\nHost: other\r\n\r\n",
         .forwarded = FORWARDED_PASS},
        {.name = "the target goes on as it came",
         .in = "GET //a/../%7e?%zz HTTP/1.1\r\nHost: H:80\r\n\r\n",
         .out = "GET //a/../%7e?%zz HTTP/1.1\r\nHost: H:80\r\n\r\n",
         .forwarded = FORWARDED_PASS},
    };

    check_requests(rows, COUNT(rows));
}

Test(headers, forwarding_is_told)
{
    static const struct request_row rows[] = {
        {.name = "append to nothing", .in = GET "\r\n", .out = AT_API FORWARDED_BY "\r\n"},
        {.name = "append to what is there",
         .in = GET
         "X-Forwarded-For: a, b\r\nX-Forwarded-Proto: https\r\nX-Forwarded-For:\r\nA: b\r\nX-Forwarded-For: c\r\n"
         "Forwarded: for=a\r\n\r\n",
         .out = AT_API "X-Forwarded-Proto: https\r\nA: b\r\nForwarded: for=a\r\n"
                       "X-Forwarded-For: a, b, c, 192.0.2.1\r\nX-Forwarded-Host: h\r\n\r\n"},
        {.name = "replace",
         .in = GET "X-Forwarded-For: a\r\nX-Forwarded-Proto: ftp\r\nX-Forwarded-Host: x\r\nX-Forwarded-Port: 1\r\n"
                   "Forwarded: for=a\r\nX-Forward: y\r\n\r\n",
         .out = AT_API
         "X-Forward: y\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: h\r\n\r\n",
         .tls = true,
         .forwarded = FORWARDED_REPLACE},
        {.name = "pass",
         .in = GET "X-Forwarded-For: a\r\n\r\n",
         .out = AT_API "X-Forwarded-For: a\r\n\r\n",
         .forwarded = FORWARDED_PASS},
        {.name = "a client cannot have it dropped",
         .in = GET "Connection: X-Forwarded-For, X-Forwarded-Host\r\nX-Forwarded-For: a\r\nX-Forwarded-Host: x\r\n\r\n",
         .out = AT_API FORWARDED_BY "\r\n"},
        {.name = "without a host there is none to tell",
         .in = "GET / HTTP/1.0\r\n\r\n",
         .out = "GET / HTTP/1.1\r\nHost: api:3000\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: http\r\n\r\n"},
        {.name = "the client's host, whatever goes upstream",
         .in = GET "\r\n",
         .out = "GET / HTTP/1.1\r\nHost: api.internal\r\n" FORWARDED_BY "\r\n",
         .host_header = "api.internal"},
        {.name = "Via",
         .in = GET "Via: 1.1 other\r\n\r\n",
         .out = AT_API "Via: 1.1 other\r\nVia: 1.1 einmal\r\n\r\n",
         .via = true,
         .forwarded = FORWARDED_PASS},
        {.name = "Via tells the version that was received",
         .in = "GET / HTTP/1.0\r\nHost: h\r\n\r\n",
         .out = AT_API "Via: 1.0 einmal\r\n\r\n",
         .via = true,
         .forwarded = FORWARDED_PASS},
        {.name = "request id",
         .in = GET "X-Request-Id: a b\r\nA: c\r\n\r\n",
         .out = AT_API "A: c\r\nX-Request-Id: r1\r\n\r\n",
         .request_id = "r1",
         .forwarded = FORWARDED_PASS},
    };

    check_requests(rows, COUNT(rows));
}

Test(headers, request_framing_is_our_own)
{
    static const struct request_row rows[] = {
#define LINES(method, lines) method " / HTTP/1.1\r\nHost: h\r\n" lines "\r\n"
        {.name = "GET without body", .in = LINES("GET", ""), .out = LINES("GET", "")},
        {.name = "DELETE without body", .in = LINES("DELETE", ""), .out = LINES("DELETE", "")},
        {.name = "POST without body", .in = LINES("POST", ""), .out = LINES("POST", "Content-Length: 0\r\n")},
        {.name = "PUT without body", .in = LINES("PUT", ""), .out = LINES("PUT", "Content-Length: 0\r\n")},
        {.name = "PATCH without body", .in = LINES("PATCH", ""), .out = LINES("PATCH", "Content-Length: 0\r\n")},
        {.name = "GET with an empty body",
         .in = LINES("GET", "Content-Length: 00\r\n"),
         .out = LINES("GET", "Content-Length: 0\r\n")},
        {.name = "length",
         .in = LINES("POST", "Content-Length: 9223372036854775807\r\n"),
         .out = LINES("POST", "Content-Length: 9223372036854775807\r\n")},
        {.name = "chunks",
         .in = LINES("POST", "transfer-encoding: Chunked\r\n"),
         .out = LINES("POST", "Transfer-Encoding: chunked\r\n")},
        {.name = "chunks that were read whole",
         .in = LINES("POST", "Transfer-Encoding: chunked\r\n"),
         .out = LINES("POST", "Content-Length: 12\r\n"),
         .whole_body = true,
         .body_len = 12},
        {.name = "whole, none", .in = LINES("DELETE", ""), .out = LINES("DELETE", ""), .whole_body = true},
        {.name = "whole POST, none",
         .in = LINES("POST", ""),
         .out = LINES("POST", "Content-Length: 0\r\n"),
         .whole_body = true},
        {.name = "whole DELETE, empty",
         .in = LINES("DELETE", "Transfer-Encoding: chunked\r\n"),
         .out = LINES("DELETE", "Content-Length: 0\r\n"),
         .whole_body = true},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct request_row row = rows[i];

        row.forwarded = FORWARDED_PASS;
        check_request(&row);
    }
}

Test(headers, keys)
{
    static const struct request_row rows[] = {
        {.name = "a sent key goes on unchanged",
         .in = GET "Idempotency-Key:  \"k\";p=1\r\n\r\n",
         .out = AT_API "Idempotency-Key: \"k\";p=1\r\n\r\n",
         .key_header = "Idempotency-Key",
         .forwarded = FORWARDED_PASS},
        {.name = "a derived key replaces whatever was sent",
         .in = GET "Idempotency-Key: \"k\"\r\nX-Key: k\r\nA: b\r\n\r\n",
         .out = AT_API "A: b\r\nIdempotency-Key: \"00ff\"\r\n\r\n",
         .key_header = "X-Key",
         .derived_key = "00ff",
         .forwarded = FORWARDED_PASS},
    };

    check_requests(rows, COUNT(rows));
}

Test(headers, request_id_valid)
{
    char longest[129];
    static const struct {
        const char *value;
        bool valid;
    } rows[] = {
        {"a", true},        {"0123456789abcdefABCDEF", true},
        {"._~:/+=-", true}, {"", false},
        {"a b", false},     {"a,b", false},
        {"a\"", false},     {"a\tb", false},
        {"a\xff", false},   {"a@b", false},
    };

    for (size_t i = 0; i < COUNT(rows); i++)
        cr_expect_eq(request_id_valid(span_of(rows[i].value)), rows[i].valid, "%s", rows[i].value);
    memset(longest, 'a', sizeof(longest));
    cr_expect(request_id_valid((struct span){longest, 128}));
    cr_expect(!request_id_valid((struct span){longest, 129}));
}

/* ---- responses -------------------------------------------------------------------------------- */

Test(headers, what_of_a_response_is_end_to_end)
{
    static const char in[] =
        "HTTP/1.1 200 OK\r\nConnection: X-Hop, Location, keep-alive\r\nX-Hop: 1\r\nLocation: /x\r\n"
        "Set-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 3\r\nKeep-Alive: timeout=5\r\nDate: d\r\n"
        "Idempotent-Replayed: true\r\nidempotency-degraded: true\r\nServer: s\r\nUpgrade: h2c\r\n\r\n";
    char *drop[] = {copy_string("set-cookie"), copy_string("Server"), NULL};
    struct parsed parsed = parse(HTTP_RESPONSES, in);
    struct http_field fields[HTTP_MAX_FIELDS];
    size_t count = headers_select_response(&parsed.message, "Idempotent-Replayed", fields);

    cr_assert_eq(count, 4, "%zu", count);
    cr_expect(span_equal(fields[0].name, SPAN("Set-Cookie")) && span_equal(fields[0].value, SPAN("a")));
    cr_expect(span_equal(fields[1].name, SPAN("Set-Cookie")) && span_equal(fields[1].value, SPAN("b")));
    cr_expect(span_equal(fields[2].name, SPAN("Date")));
    cr_expect(span_equal(fields[3].name, SPAN("Server")));
    cr_assert_eq(headers_select_record(fields, count, NULL), 4, "without a list all of them are recorded");
    cr_assert_eq(headers_select_record(fields, count, drop), 1);
    cr_expect(span_equal(fields[0].name, SPAN("Date")));
    free(drop[0]);
    free(drop[1]);
    http_parser_free(parsed.parser);
}

static const struct http_field sample[] = {
    {{"A", 1}, {"1", 1}},
    {{"date", 4}, {"old", 3}},
    {{"B", 1}, {"", 0}},
    {{"Date", 4}, {"older", 5}},
};
static const struct http_field with_id[] = {{{"X-REQUEST-ID", 12}, {"theirs", 6}}};

#define PARTS(status, reason, fields)                               \
    {                                                               \
        status, {reason, sizeof(reason) - 1}, fields, COUNT(fields) \
    }
#define BARE(status, reason)                          \
    {                                                 \
        status, {reason, sizeof(reason) - 1}, NULL, 0 \
    }

Test(headers, responses)
{
    static const struct {
        const char *name;
        struct response_head head;
        const char *out;
    } rows[] = {
        {"live: everything as the API said it",
         {.parts = PARTS(201, "Created", sample),
          .framing = RESPONSE_LENGTH,
          .length = 5,
          .keep_alive = true,
          .client_minor = 1,
          .request_id = {"r1", 2}},
         "HTTP/1.1 201 Created\r\nA: 1\r\ndate: old\r\nB: \r\nDate: older\r\nX-Request-Id: r1\r\nContent-Length: "
         "5\r\n\r\n"},
        {"replay: one fresh Date in the place of theirs, the marker",
         {.parts = PARTS(201, "Created", sample),
          .framing = RESPONSE_LENGTH,
          .length = 5,
          .keep_alive = true,
          .client_minor = 1,
          .request_id = {"r1", 2},
          .replayed_header = "Idempotent-Replayed",
          .date = 784111777},
         "HTTP/1.1 201 Created\r\nA: 1\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\nB: \r\nX-Request-Id: r1\r\n"
         "Idempotent-Replayed: true\r\nContent-Length: 5\r\n\r\n"},
        {"the API's own request id stays",
         {.parts = PARTS(200, "OK", with_id),
          .framing = RESPONSE_LENGTH,
          .keep_alive = true,
          .client_minor = 1,
          .request_id = {"r1", 2},
          .date = 951825600},
         "HTTP/1.1 200 OK\r\nX-REQUEST-ID: theirs\r\nDate: Tue, 29 Feb 2000 12:00:00 GMT\r\nContent-Length: 0\r\n\r\n"},
        {"chunked, closing, degraded",
         {.parts = BARE(200, ""), .framing = RESPONSE_CHUNKED, .client_minor = 1, .degraded = true},
         "HTTP/1.1 200 \r\nIdempotency-Degraded: true\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"},
        {"until close",
         {.parts = BARE(200, "OK"), .framing = RESPONSE_UNTIL_CLOSE},
         "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"},
        {"HTTP/1.0 that is kept",
         {.parts = BARE(200, "OK"), .framing = RESPONSE_LENGTH, .length = 1, .keep_alive = true},
         "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\n"},
        {"204: neither length nor coding",
         {.parts = BARE(204, "No Content"),
          .framing = RESPONSE_NO_BODY,
          .length = 7,
          .keep_alive = true,
          .client_minor = 1},
         "HTTP/1.1 204 No Content\r\n\r\n"},
        {"HEAD: the length as metadata",
         {.parts = BARE(200, "OK"),
          .framing = RESPONSE_NO_BODY,
          .length = 1234,
          .write_length_without_body = true,
          .keep_alive = true,
          .client_minor = 1},
         "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n"},
        {"1xx: says nothing of the connection",
         {.parts = BARE(103, "Early Hints"), .framing = RESPONSE_NO_BODY, .client_minor = 1},
         "HTTP/1.1 103 Early Hints\r\n\r\n"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buffer out = {0};

        buffer_append(&out, "before", 6); /* it appends */
        headers_write_response(&out, &rows[i].head);
        buffer_consume(&out, 6);
        cr_expect(same(&out, rows[i].out), "%s:\n%.*s", rows[i].name, (int)buffer_len(&out), buffer_data(&out));
        buffer_free(&out);
    }
}

Test(headers, dates)
{
    static const struct {
        int64_t time;
        const char *date;
    } rows[] = {
        {1, "Thu, 01 Jan 1970 00:00:01 GMT"},          {86399, "Thu, 01 Jan 1970 23:59:59 GMT"},
        {951782399, "Mon, 28 Feb 2000 23:59:59 GMT"},  {951868800, "Wed, 01 Mar 2000 00:00:00 GMT"},
        {1077926400, "Sat, 28 Feb 2004 00:00:00 GMT"}, {1709164800, "Thu, 29 Feb 2024 00:00:00 GMT"},
        {1735689599, "Tue, 31 Dec 2024 23:59:59 GMT"}, {1735689600, "Wed, 01 Jan 2025 00:00:00 GMT"},
        {2147483648, "Tue, 19 Jan 2038 03:14:08 GMT"}, {4107542400, "Mon, 01 Mar 2100 00:00:00 GMT"},
        {4107456000, "Sun, 28 Feb 2100 00:00:00 GMT"}, {253402300799, "Fri, 31 Dec 9999 23:59:59 GMT"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct response_head head = {.parts = BARE(204, ""),
                                     .framing = RESPONSE_NO_BODY,
                                     .keep_alive = true,
                                     .client_minor = 1,
                                     .date = rows[i].time};
        struct buffer out = {0};
        char expected[100];

        snprintf(expected, sizeof(expected), "HTTP/1.1 204 \r\nDate: %s\r\n\r\n", rows[i].date);
        headers_write_response(&out, &head);
        cr_expect(same(&out, expected), "%s:\n%.*s", rows[i].date, (int)buffer_len(&out), buffer_data(&out));
        buffer_free(&out);
    }
}

/* Our mistakes, and never to reach a wire: a line end in a value splits a response in two. */

static void write_with(struct http_field field, struct span reason)
{
    struct response_head head = {
        .parts = {200, reason, &field, 1}, .framing = RESPONSE_LENGTH, .keep_alive = true, .client_minor = 1};
    struct buffer out = {0};

    headers_write_response(&out, &head);
}

Test(headers, no_line_feed_in_a_value, .signal = SIGABRT)
{
    write_with((struct http_field){SPAN("A"), SPAN("b\nc")}, SPAN("OK"));
}

Test(headers, no_carriage_return_in_a_value, .signal = SIGABRT)
{
    write_with((struct http_field){SPAN("A"), SPAN("0123456789\r")}, SPAN("OK"));
}

Test(headers, no_nul_in_a_name, .signal = SIGABRT)
{
    write_with((struct http_field){SPAN("A\0b"), SPAN("c")}, SPAN("OK"));
}

Test(headers, no_line_end_in_a_reason, .signal = SIGABRT)
{
    write_with((struct http_field){SPAN("A"), SPAN("c")}, SPAN("OK\r\nB: d"));
}
