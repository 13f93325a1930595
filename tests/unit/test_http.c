/*
 * test_http.c - what a message means once it is accepted, what the limits are, and when a refusal comes.
 */
#include <criterion/criterion.h>

#include "http_run.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct http_limits limits = {.header_bytes = 32768, .headers = 100, .request_target = 8192};

/* A head that was parsed, with its parser and bytes; release with parsed_free. */
struct parsed {
    struct http_parser *parser;
    char *bytes;
    size_t len, used;
    enum http_head_verdict verdict;
    enum problem_code problem;
    struct http_message message;
};

static struct parsed parse(enum http_kind kind, const struct http_limits *with, const char *text)
{
    struct parsed parsed = {.parser = http_parser_new(kind, with), .bytes = copy_string(text), .len = strlen(text)};

    parsed.verdict =
        http_read_head(parsed.parser, parsed.bytes, parsed.len, &parsed.used, &parsed.message, &parsed.problem);
    return parsed;
}

static void parsed_free(struct parsed *parsed)
{
    http_parser_free(parsed->parser);
    free(parsed->bytes);
}

static unsigned refusal_status(const struct parsed *parsed)
{
    return parsed->verdict == HTTP_HEAD_REFUSED ? problem_row(parsed->problem)->status : 0;
}

static bool is(struct span span, const char *text)
{
    return span_equal(span, span_of(text));
}

static void no_body(void *arg, const char *data, size_t len)
{
    (void)arg;
    (void)data;
    cr_expect_fail("%zu bytes of a body where there is none", len);
}

/* ---- refusals that must not wait ----------------------------------------------------------------------------------
 */

Test(http, refuses_as_soon_as_the_bytes_show_it)
{
    static const struct {
        const char *name, *bytes; /* the last byte is the one that shows it */
        size_t len;
        unsigned status;
        enum http_kind kind;
    } rows[] = {
#define AT_LAST(text) text, sizeof(text) - 1
        {"TLS client hello", AT_LAST("\x16"), 400, HTTP_REQUESTS},
        {"NUL", AT_LAST("\0"), 400, HTTP_REQUESTS},
        {"bare LF first", AT_LAST("\n"), 400, HTTP_REQUESTS},
        {"second blank line", AT_LAST("\r\n\r"), 400, HTTP_REQUESTS},
        {"unknown method", AT_LAST("FOO "), 501, HTTP_REQUESTS},
        {"a token longer than any method", AT_LAST("AAAAAAAAAAAA"), 501, HTTP_REQUESTS},
        {"CONNECT", AT_LAST("CONNECT "), 501, HTTP_REQUESTS},
        {"no target", AT_LAST("GET  "), 400, HTTP_REQUESTS},
        {"fragment", AT_LAST("GET /a#"), 400, HTTP_REQUESTS},
        {"no version", AT_LAST("GET /\r"), 400, HTTP_REQUESTS},
        {"other protocol", AT_LAST("GET / R"), 400, HTTP_REQUESTS},
        {"HTTP/2.0", AT_LAST("GET / HTTP/2.0\r\n"), 505, HTTP_REQUESTS},
        {"two-digit version", AT_LAST("GET / HTTP/1.10"), 400, HTTP_REQUESTS},
        {"fold after the request line", AT_LAST("GET / HTTP/1.1\r\n "), 400, HTTP_REQUESTS},
        {"folded field", AT_LAST("GET / HTTP/1.1\r\nA: b\r\n\t"), 400, HTTP_REQUESTS},
        {"control character", AT_LAST("GET / HTTP/1.1\r\nA: \x01"), 400, HTTP_REQUESTS},
        {"bare CR", AT_LAST("GET / HTTP/1.1\r\nA: b\rc"), 400, HTTP_REQUESTS},
        {"garbage for a response", AT_LAST("J"), 502, HTTP_RESPONSES},
        {"blank line before a response", AT_LAST("\r"), 502, HTTP_RESPONSES},
        {"HTTP/2.0 response", AT_LAST("HTTP/2.0 200 "), 502, HTTP_RESPONSES},
        {"four digits", AT_LAST("HTTP/1.1 2000"), 502, HTTP_RESPONSES},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct http_parser *parser = http_parser_new(rows[i].kind, &limits);
        enum problem_code problem;
        struct http_message message;
        size_t used;

        for (size_t len = 0; len < rows[i].len; len++)
            cr_expect_eq(http_read_head(parser, rows[i].bytes, len, &used, &message, &problem), HTTP_HEAD_MORE,
                         "%s: refused after %zu bytes already", rows[i].name, len);
        cr_expect_eq(http_read_head(parser, rows[i].bytes, rows[i].len, &used, &message, &problem), HTTP_HEAD_REFUSED,
                     "%s: waits for more", rows[i].name);
        cr_expect_eq(problem_row(problem)->status, rows[i].status, "%s: %u", rows[i].name,
                     (unsigned)problem_row(problem)->status);
        http_parser_free(parser);
    }
}

/* ---- limits ---------------------------------------------------------------------------------------------------------
 */

Test(http, limits_hold_at_their_edges_and_before_the_end_is_seen)
{
    static const struct http_limits small = {.header_bytes = 60, .headers = 2, .request_target = 8};
    static const struct {
        const char *name, *bytes;
        unsigned status; /* 0: accepted; 1: waits */
    } rows[] = {
        {"target at the limit", "GET /1234567 HTTP/1.1\r\nHost: a\r\n\r\n", 0},
        {"target beyond it", "GET /12345678", 414},
        {"target at the limit, not ended", "GET /1234567", 1},
        {"fields at the limit", "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n\r\n", 0},
        {"one field more", "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\nB", 431},
        {"60 bytes", "GET / HTTP/1.1\r\nHost: a\r\nA: 1234567890123456789012345678\r\n\r\n", 0},
        {"61 bytes", "GET / HTTP/1.1\r\nHost: a\r\nA: 12345678901234567890123456789\r\n\r\n", 431},
        {"60 bytes without an end", "GET / HTTP/1.1\r\nHost: a\r\nA: 12345678901234567890123456789012", 431},
        {"59 bytes without an end", "GET / HTTP/1.1\r\nHost: a\r\nA: 1234567890123456789012345678901", 1},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct parsed parsed = parse(HTTP_REQUESTS, &small, rows[i].bytes);

        if (rows[i].status < 2)
            cr_expect_eq(parsed.verdict, rows[i].status ? HTTP_HEAD_MORE : HTTP_HEAD_READY, "%s", rows[i].name);
        else
            cr_expect_eq(refusal_status(&parsed), rows[i].status, "%s: %u", rows[i].name, refusal_status(&parsed));
        parsed_free(&parsed);
    }
}

Test(http, responses_have_the_same_limits)
{
    static const struct http_limits small = {.header_bytes = 60, .headers = 2, .request_target = 8};
    struct parsed fields = parse(HTTP_RESPONSES, &small, "HTTP/1.1 200 OK\r\nA: b\r\nC: d\r\nE: f\r\n\r\n");
    struct parsed bytes =
        parse(HTTP_RESPONSES, &small, "HTTP/1.1 200 a reason that is longer than all that is allowed");

    cr_expect_eq(fields.verdict, HTTP_HEAD_REFUSED, "three fields where two are allowed");
    cr_expect_eq(fields.problem, PROBLEM_UPSTREAM_INVALID);
    cr_expect_eq(bytes.verdict, HTTP_HEAD_REFUSED, "61 bytes where 60 are allowed");
    parsed_free(&fields);
    parsed_free(&bytes);
}

Test(http, new_limits_count_from_the_next_message_on)
{
    static const struct http_limits tight = {.header_bytes = 32768, .headers = 1, .request_target = 8192};
    static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n";
    struct parsed parsed = parse(HTTP_REQUESTS, &limits, "GET / HT");
    size_t used;

    http_set_limits(parsed.parser, &tight);
    cr_assert_eq(http_read_head(parsed.parser, text, sizeof(text) - 1, &used, &parsed.message, &parsed.problem),
                 HTTP_HEAD_READY, "the message in hand keeps the limits that it began with");
    cr_assert_eq(http_read_body(parsed.parser, NULL, 0, &used, no_body, NULL), HTTP_BODY_END);
    http_next(parsed.parser);
    cr_expect_eq(http_read_head(parsed.parser, text, sizeof(text) - 1, &used, &parsed.message, &parsed.problem),
                 HTTP_HEAD_REFUSED);
    parsed_free(&parsed);
}

Test(http, as_many_fields_as_may_be_configured)
{
    struct http_limits wide = {.header_bytes = 1 << 20, .headers = HTTP_MAX_FIELDS, .request_target = 8192};
    struct http_parser *parser = http_parser_new(HTTP_REQUESTS, &wide);
    enum problem_code problem;
    struct http_message message;
    char text[8192] = "GET / HTTP/1.1\r\nHost: a\r\n";
    size_t len = strlen(text), used;

    for (unsigned i = 1; i < HTTP_MAX_FIELDS; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "N%u: v%u\r\n", i, i);
    len += (size_t)snprintf(text + len, sizeof(text) - len, "\r\n");
    for (unsigned round = 0; round < 3; round++) {
        cr_assert_eq(http_read_head(parser, text, len, &used, &message, &problem), HTTP_HEAD_READY, "%s",
                     http_refusal(parser));
        cr_assert_eq(message.field_count, HTTP_MAX_FIELDS);
        cr_expect(is(message.fields[HTTP_MAX_FIELDS - 1].name, "N255") && is(message.fields[255].value, "v255"));
        cr_assert_eq(http_read_body(parser, text + used, len - used, &used, no_body, NULL), HTTP_BODY_END);
        http_next(parser);
    }
    http_parser_free(parser);
}

/* ---- requests --------------------------------------------------------------------------------- */

Test(http, targets)
{
    static const struct {
        const char *line;
        unsigned status; /* 0: accepted, and then: */
        const char *host, *target, *path, *query;
    } rows[] = {
        {"GET / HTTP/1.1", 0, "h:1", "/", "/", NULL},
        {"GET /a/b?c=d&e HTTP/1.1", 0, "h:1", "/a/b?c=d&e", "/a/b", "c=d&e"},
        {"GET /? HTTP/1.1", 0, "h:1", "/?", "/", ""},
        {"GET /a?b?c HTTP/1.1", 0, "h:1", "/a?b?c", "/a", "b?c"},
        {"GET //a HTTP/1.1", 0, "h:1", "//a", "//a", NULL},
        {"GET /%zz HTTP/1.1", 0, "h:1", "/%zz", "/%zz", NULL},
        {"GET http://other/x?y HTTP/1.1", 0, "other", "/x?y", "/x", "y"},
        {"GET HTTP://Other:80/x HTTP/1.1", 0, "Other:80", "/x", "/x", NULL},
        {"GET https://other HTTP/1.1", 0, "other", "/", "/", NULL},
        {"GET http://other?y HTTP/1.1", 0, "other", "?y", "/", "y"},
        {"GET http://[::1]:8080/ HTTP/1.1", 0, "[::1]:8080", "/", "/", NULL},
        {"OPTIONS * HTTP/1.1", 0, "h:1", "*", "*", NULL},
        {"OPTIONS http://other HTTP/1.1", 0, "other", "*", "*", NULL},
        {"OPTIONS http://other/ HTTP/1.1", 0, "other", "/", "/", NULL},
        {"GET * HTTP/1.1", 400, NULL, NULL, NULL, NULL},
        {"OPTIONS */ HTTP/1.1", 400, NULL, NULL, NULL, NULL},
        {"GET a HTTP/1.1", 400, NULL, NULL, NULL, NULL},
        {"GET ?a HTTP/1.1", 400, NULL, NULL, NULL, NULL},
        {"GET h:1 HTTP/1.1", 400, NULL, NULL, NULL, NULL},
        {"GET ftp://other/ HTTP/1.1", 400, NULL, NULL, NULL, NULL},
        {"GET http:/other/ HTTP/1.1", 400, NULL, NULL, NULL, NULL},
        {"GET http:///x HTTP/1.1", 400, NULL, NULL, NULL, NULL},
        {"GET http://u@other/ HTTP/1.1", 400, NULL, NULL, NULL, NULL},
        {"GET http://u:p@other/ HTTP/1.1", 400, NULL, NULL, NULL, NULL},
        {"GET http://other:x/ HTTP/1.1", 400, NULL, NULL, NULL, NULL},
        {"GET http://other:65536/ HTTP/1.1", 400, NULL, NULL, NULL, NULL},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct parsed parsed;
        char text[200];

        snprintf(text, sizeof(text), "%s\r\nHost: h:1\r\n\r\n", rows[i].line);
        parsed = parse(HTTP_REQUESTS, &limits, text);
        cr_expect_eq(refusal_status(&parsed), rows[i].status, "%s: %u", rows[i].line, refusal_status(&parsed));
        if (parsed.verdict == HTTP_HEAD_READY && rows[i].status == 0) {
            cr_expect(is(parsed.message.host, rows[i].host), "%s: host", rows[i].line);
            cr_expect(is(parsed.message.target, rows[i].target), "%s: target", rows[i].line);
            cr_expect(is(parsed.message.path, rows[i].path), "%s: path", rows[i].line);
            cr_expect_eq(parsed.message.has_query, rows[i].query != NULL, "%s: has_query", rows[i].line);
            cr_expect(is(parsed.message.query, rows[i].query ? rows[i].query : ""), "%s: query", rows[i].line);
        }
        parsed_free(&parsed);
    }
}

Test(http, hosts)
{
    static const struct {
        const char *lines;
        unsigned status;
    } rows[] = {
        {"Host: shop.example", 0},
        {"host: shop.example:8080", 0},
        {"Host: 127.0.0.1:65535", 0},
        {"Host: [::1]", 0},
        {"Host: [fe80::1]:80", 0},
        {"Host: under_score", 0},
        {"Host: a%20b", 0},
        {"Host: a:", 0},
        {"Host: ", 400},
        {"Host: :80", 400},
        {"Host: a b", 400},
        {"Host: a,b", 400},
        {"Host: a/b", 400},
        {"Host: u@a", 400},
        {"Host: a:65536", 400},
        {"Host: a:-1", 400},
        {"Host: a:1:2", 400},
        {"Host: a%2", 400},
        {"Host: a%zz", 400},
        {"Host: []", 400},
        {"Host: [::1", 400},
        {"Host: [::1]x", 400},
        {"Host: [::1%25eth0]", 400},
        {"Host: \xC3\xA9", 400},
        {"Host: a\r\nHost: a", 400},
        {"Host: a\r\nhost: b", 400},
        {"X: y", 400},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct parsed parsed;
        char text[200];

        snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n%s\r\n\r\n", rows[i].lines);
        parsed = parse(HTTP_REQUESTS, &limits, text);
        cr_expect_eq(refusal_status(&parsed), rows[i].status, "%s: %u", rows[i].lines, refusal_status(&parsed));
        parsed_free(&parsed);
    }
}

Test(http, an_absolute_target_does_not_excuse_a_bad_host)
{
    struct parsed two = parse(HTTP_REQUESTS, &limits, "GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n");
    struct parsed none = parse(HTTP_REQUESTS, &limits, "GET http://a/ HTTP/1.1\r\n\r\n");

    cr_expect_eq(refusal_status(&two), 400);
    cr_expect_eq(refusal_status(&none), 400);
    parsed_free(&two);
    parsed_free(&none);
}

Test(http, http10_needs_no_host)
{
    struct parsed parsed = parse(HTTP_REQUESTS, &limits, "GET / HTTP/1.0\r\n\r\n");

    cr_assert_eq(parsed.verdict, HTTP_HEAD_READY);
    cr_expect_eq(parsed.message.host.len, 0);
    cr_expect_eq(parsed.message.minor, 0);
    parsed_free(&parsed);
}

Test(http, methods)
{
    static const struct {
        const char *method;
        enum http_method id;
        bool known;
    } rows[] = {
        {"GET", HTTP_GET, true},
        {"HEAD", HTTP_HEAD_METHOD, true},
        {"POST", HTTP_POST, true},
        {"PUT", HTTP_PUT, true},
        {"DELETE", HTTP_DELETE, true},
        {"OPTIONS", HTTP_OPTIONS, true},
        {"TRACE", HTTP_TRACE, true},
        {"PATCH", HTTP_PATCH, true},
        {"PROPFIND", HTTP_OTHER_METHOD, true},
        {"M-SEARCH", HTTP_OTHER_METHOD, true},
        {"UNSUBSCRIBE", HTTP_OTHER_METHOD, true},
        {"MKCALENDAR", HTTP_OTHER_METHOD, true},
        {"CONNECT", HTTP_GET, false},
        {"QUERY", HTTP_GET, false}, /* llhttp 9 knows it, 8 does not */
        {"SOURCE", HTTP_GET, false},
        {"PRI", HTTP_GET, false},
        {"Get", HTTP_GET, false},
        {"GE", HTTP_GET, false},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct parsed parsed;
        char text[100];

        snprintf(text, sizeof(text), "%s / HTTP/1.1\r\nHost: a\r\n\r\n", rows[i].method);
        parsed = parse(HTTP_REQUESTS, &limits, text);
        cr_expect_eq(http_method_known(span_of(rows[i].method)), rows[i].known, "%s", rows[i].method);
        cr_expect_eq(refusal_status(&parsed), rows[i].known ? 0 : 501, "%s: %u", rows[i].method,
                     refusal_status(&parsed));
        if (parsed.verdict == HTTP_HEAD_READY) {
            cr_expect_eq(parsed.message.method_id, rows[i].id, "%s", rows[i].method);
            cr_expect(is(parsed.message.method, rows[i].method), "%s", rows[i].method);
        }
        parsed_free(&parsed);
    }
}

Test(http, expectations)
{
    static const struct {
        const char *line, *version;
        unsigned status;
        bool expects;
    } rows[] = {
        {"Expect: 100-continue", "1.1", 0, true},
        {"expect: 100-Continue", "1.1", 0, true},
        {"Expect: 100-continue", "1.0", 0, false},
        {"Expect: foo", "1.0", 0, false},
        {"Expect: foo", "1.1", 417, false},
        {"Expect: 100-continue, foo", "1.1", 417, false},
        {"Expect: 100-continue\r\nExpect: foo", "1.1", 417, false},
        {"Expect: 100-continue=1", "1.1", 417, false},
        {"Expect:", "1.1", 0, false},
        {"Accept: x", "1.1", 0, false},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct parsed parsed;
        char text[200];

        snprintf(text, sizeof(text), "POST / HTTP/%s\r\nHost: a\r\nContent-Length: 3\r\n%s\r\n\r\n", rows[i].version,
                 rows[i].line);
        parsed = parse(HTTP_REQUESTS, &limits, text);
        cr_expect_eq(refusal_status(&parsed), rows[i].status, "%s: %u", rows[i].line, refusal_status(&parsed));
        if (parsed.verdict == HTTP_HEAD_READY)
            cr_expect_eq(parsed.message.expect_continue, rows[i].expects, "%s in HTTP/%s", rows[i].line,
                         rows[i].version);
        parsed_free(&parsed);
    }
}

/* ---- the connection after a message ----------------------------------------------------------- */

Test(http, connection_fields)
{
    static const struct {
        const char *lines, *version;
        bool keep_alive, upgrade;
    } rows[] = {
        {"A: b", "1.1", true, false},
        {"A: b", "1.0", false, false},
        {"Connection: close", "1.1", false, false},
        {"Connection: CLOSE", "1.1", false, false},
        {"Connection: closed", "1.1", true, false},
        {"Connection: x,close\t, y", "1.1", false, false},
        {"Connection: x\r\nConnection: close", "1.1", false, false},
        {"Connection: keep-alive, close", "1.1", false, false},
        {"Connection: keep-alive", "1.0", true, false},
        {"Connection: Keep-Alive, x", "1.0", true, false},
        {"Connection: keep-alive, close", "1.0", false, false},
        {"Proxy-Connection: close", "1.1", true, false},
        {"Proxy-Connection: keep-alive", "1.0", false, false},
        {"Connection: upgrade\r\nUpgrade: websocket", "1.1", true, true},
        {"Connection: upgrade", "1.1", true, false},
        {"Upgrade: websocket", "1.1", true, false},
        {"Connection: ,,", "1.1", true, false},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct parsed parsed;
        char text[200];

        snprintf(text, sizeof(text), "GET / HTTP/%s\r\nHost: a\r\n%s\r\n\r\n", rows[i].version, rows[i].lines);
        parsed = parse(HTTP_REQUESTS, &limits, text);
        cr_assert_eq(parsed.verdict, HTTP_HEAD_READY, "%s", rows[i].lines);
        cr_expect_eq(parsed.message.keep_alive, rows[i].keep_alive, "%s in HTTP/%s", rows[i].lines, rows[i].version);
        cr_expect_eq(parsed.message.upgrade, rows[i].upgrade, "%s", rows[i].lines);
        parsed_free(&parsed);
    }
}

Test(http, connection_options_are_bounded)
{
    char text[2000] = "GET / HTTP/1.1\r\nHost: a\r\nConnection: a0";
    struct parsed parsed;

    for (unsigned i = 1; i < HTTP_MAX_CONNECTION_OPTIONS; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ",a%u", i);
    strcat(text, "\r\n\r\n");
    parsed = parse(HTTP_REQUESTS, &limits, text);
    cr_expect_eq(parsed.verdict, HTTP_HEAD_READY, "64 options");
    parsed_free(&parsed);
    text[strlen(text) - 4] = '\0';
    strcat(text, "\r\nConnection: b\r\n\r\n");
    parsed = parse(HTTP_REQUESTS, &limits, text);
    cr_expect_eq(refusal_status(&parsed), 400, "65 options: matching them with fields must stay cheap");
    parsed_free(&parsed);
}

Test(http, response_heads)
{
    static const struct {
        const char *head;
        bool no_body_expected;
        enum http_framing framing;
        uint64_t length;
        bool keep_alive, retry_after;
        int64_t timeout;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 7", false, HTTP_LENGTH, 7, true, false, -1},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0", false, HTTP_LENGTH, 0, true, false, -1},
        {"HTTP/1.1 200 OK\r\nContent-Length: 7", true, HTTP_NO_BODY, 7, true, false, -1},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked", false, HTTP_CHUNKED, 0, true, false, -1},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", true, HTTP_NO_BODY, 0, true, false, -1},
        {"HTTP/1.1 200 OK\r\nA: b", false, HTTP_UNTIL_CLOSE, 0, false, false, -1},
        {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1", false, HTTP_LENGTH, 1, true, false, -1},
        {"HTTP/1.0 200 OK\r\nContent-Length: 1", false, HTTP_LENGTH, 1, false, false, -1},
        {"HTTP/1.1 204 No Content\r\nContent-Length: 5", false, HTTP_NO_BODY, 5, true, false, -1},
        {"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked", false, HTTP_NO_BODY, 0, true, false, -1},
        {"HTTP/1.1 304 Not Modified\r\nContent-Length: 5", false, HTTP_NO_BODY, 5, true, false, -1},
        {"HTTP/1.1 205 Reset\r\nContent-Length: 0", false, HTTP_LENGTH, 0, true, false, -1},
        {"HTTP/1.1 103 Early Hints\r\nLink: a", false, HTTP_NO_BODY, 0, true, false, -1},
        {"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade", false, HTTP_NO_BODY, 0, false, false, -1},
        {"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nRetry-After: 3", false, HTTP_LENGTH, 0, true, true, -1},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nKeep-Alive: timeout=5, max=9", false, HTTP_LENGTH, 0, true, false, 5},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nKeep-Alive: max=9,Timeout=15", false, HTTP_LENGTH, 0, true, false,
         15},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nKeep-Alive: timeout=", false, HTTP_LENGTH, 0, true, false, -1},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nKeep-Alive: timeout=9999999999", false, HTTP_LENGTH, 0, true, false,
         -1},
        {"HTTP/1.1 999 X\r\nContent-Length: 0", false, HTTP_LENGTH, 0, true, false, -1},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct http_parser *parser = http_parser_new(HTTP_RESPONSES, &limits);
        struct http_message message;
        enum problem_code problem;
        char text[200];
        size_t used;

        snprintf(text, sizeof(text), "%s\r\n\r\n", rows[i].head);
        if (rows[i].no_body_expected)
            http_expect_no_body(parser);
        cr_assert_eq(http_read_head(parser, text, strlen(text), &used, &message, &problem), HTTP_HEAD_READY, "%s: %s",
                     rows[i].head, http_refusal(parser));
        cr_expect_eq(message.framing, rows[i].framing, "%s: framing %d", rows[i].head, (int)message.framing);
        cr_expect_eq(message.content_length, rows[i].length, "%s: length", rows[i].head);
        cr_expect_eq(message.keep_alive, rows[i].keep_alive, "%s: keep_alive", rows[i].head);
        cr_expect_eq(message.has_retry_after, rows[i].retry_after, "%s: retry_after", rows[i].head);
        cr_expect_eq(message.keep_alive_timeout, rows[i].timeout, "%s: timeout", rows[i].head);
        http_parser_free(parser);
    }
}

/* H22, H23: the answer to HEAD is bodiless also when 1xx come before it, and only that one. */
Test(http, head_is_remembered_over_informational_answers)
{
    static const char text[] = "HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n"
                               "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
                               "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";
    static const enum http_framing expected[] = {HTTP_NO_BODY, HTTP_NO_BODY, HTTP_LENGTH};
    struct http_parser *parser = http_parser_new(HTTP_RESPONSES, &limits);
    const char *at = text;
    size_t left = sizeof(text) - 1;

    http_expect_no_body(parser);
    for (size_t i = 0; i < COUNT(expected); i++) {
        struct http_message message;
        enum problem_code problem;
        struct http_run run = {.verdict = ""};
        struct http_run_state state = {.run = &run};
        size_t used;

        cr_assert_eq(http_read_head(parser, at, left, &used, &message, &problem), HTTP_HEAD_READY, "message %zu", i);
        cr_expect_eq(message.framing, expected[i], "message %zu", i);
        at += used, left -= used;
        cr_assert_eq(http_read_body(parser, at, left, &used, http_run_body, &state), HTTP_BODY_END, "message %zu", i);
        at += used, left -= used;
        http_next(parser);
    }
    cr_expect_eq(left, 0);
    http_parser_free(parser);
}

/* ---- bodies ----------------------------------------------------------------------------------- */

#define CHUNKED_POST "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"

Test(http, chunk_framing)
{
    static const struct {
        const char *framed, *verdict, *body;
    } rows[] = {
        {"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", "ok5", "abcde"},
        {"a\r\n0123456789\r\n0\r\n\r\n", "ok10", "0123456789"},
        {"A\r\n0123456789\r\n00\r\n\r\n", "ok10", "0123456789"},
        {"2\r\n\r\n\r\n0\r\n\r\n", "ok2", "\r\n"},
        {"0000000000000001\r\na\r\n0\r\n\r\n", "ok1", "a"},
        {"00000000000000001\r\na\r\n0\r\n\r\n", "400", ""},
        {"7fffffffffffffff\r\na", "more", "a"},
        {"8000000000000000\r\na", "400", ""},
        {"ffffffffffffffff\r\na", "400", ""},
        {"1;\r\na\r\n0\r\n\r\n", "400", ""},
        {"1;=b\r\na\r\n0\r\n\r\n", "400", ""},
        {"1;a=\r\na\r\n0\r\n\r\n", "400", ""},
        {"1;a==b\r\na\r\n0\r\n\r\n", "400", ""},
        {"1;a= b\r\na\r\n0\r\n\r\n", "400", ""},
        {"1;a;b=c;d=\"e;\\\"f\"\r\na\r\n0;x\r\n\r\n", "ok1", "a"},
        {"1;a=\"b\"c\r\na\r\n0\r\n\r\n", "400", ""},
        {"1;a=\"b\nc\"\r\na\r\n0\r\n\r\n", "400", ""},
        {"1;a=\"b\\\nc\"\r\na\r\n0\r\n\r\n", "400", ""},
        {"1\r\nab\r\n0\r\n\r\n", "400", "a"},
        {"0\r\nA: b\r\nC:\r\n\r\n", "ok", ""},
        {"0\r\nA: b\r\n c\r\n\r\n", "400", ""},
        {"0\r\nA : b\r\n\r\n", "400", ""},
        {"0\r\nA\r\n\r\n", "400", ""},
        {"0\r\n: b\r\n\r\n", "400", ""},
        {"0\r\nA: b\nC: d\r\n\r\n", "400", ""},
        {"0\r\nA: \001\r\n\r\n", "400", ""},
        {"0\r\n", "more", ""},
        {"3\r\nab", "more", "ab"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[300];
        size_t len = (size_t)snprintf(text, sizeof(text), "%s%s", CHUNKED_POST, rows[i].framed);

        for (size_t cut = strlen(CHUNKED_POST); cut <= len; cut++) {
            struct http_run run;

            http_run(&run, HTTP_REQUESTS, &limits, text, len, &cut, 1, false);
            cr_expect_null(run.why_wrong, "%s", run.why_wrong);
            cr_expect_str_eq(run.verdict, rows[i].verdict, "%s cut at %zu: %s (%s)", rows[i].framed, cut, run.verdict,
                             run.refusal);
            cr_expect(is((struct span){run.body, run.body_len}, rows[i].body), "%s cut at %zu: body", rows[i].framed,
                      cut);
        }
    }
}

/* A sender could otherwise keep us busy for ever without sending a byte of content. */
Test(http, what_is_not_content_is_bounded)
{
    static const struct http_limits small = {.header_bytes = 300, .headers = 3, .request_target = 100};
    struct http_run run;
    char text[8000];
    size_t len = (size_t)snprintf(text, sizeof(text), "%s", CHUNKED_POST);

    for (unsigned i = 0; i < 50; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "1;%090d\r\na\r\n", 0);
    http_run(&run, HTTP_REQUESTS, &limits, text, len, NULL, 0, false);
    cr_expect_str_eq(run.verdict, "400", "4.5 KB of chunk extensions: %s", run.verdict);

    snprintf(text, sizeof(text), "%s0\r\nA: %0300d\r\n\r\n", CHUNKED_POST, 0);
    http_run(&run, HTTP_REQUESTS, &small, text, strlen(text), NULL, 0, false);
    cr_expect_str_eq(run.verdict, "400", "trailers beyond header_bytes: %s", run.verdict);

    snprintf(text, sizeof(text), "%s0\r\nA: b\r\nA: b\r\nA: b\r\n\r\n", CHUNKED_POST);
    http_run(&run, HTTP_REQUESTS, &small, text, strlen(text), NULL, 0, false);
    cr_expect_str_eq(run.verdict, "ok", "as many trailers as fields: %s", run.verdict);

    snprintf(text, sizeof(text), "%s0\r\nA: b\r\nA: b\r\nA: b\r\nA: b\r\n\r\n", CHUNKED_POST);
    http_run(&run, HTTP_REQUESTS, &small, text, strlen(text), NULL, 0, false);
    cr_expect_str_eq(run.verdict, "400", "one trailer more: %s", run.verdict);
}

/* H24: when the peer closes, only a body that ends by closing is complete. */
Test(http, closing_completes_only_what_ends_by_closing)
{
    static const struct {
        const char *name, *bytes, *verdict;
    } rows[] = {
        {"short of its length", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789", "more"},
        {"at a chunk's end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", "more"},
        {"before the last CRLF", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "more"},
        {"no length", "HTTP/1.1 200 OK\r\n\r\nabc", "ok3 close"},
        {"all of its length", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "ok3"},
        {"no length, nothing in it", "HTTP/1.1 200 OK\r\n\r\n", "ok close"},
        {"only a 1xx", "HTTP/1.1 100 Continue\r\n\r\n", "ok"}, /* that a final one is missing is upstream.c's to see */
        {"in the head", "HTTP/1.1 200 OK\r\nA: b\r\n", "more"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct http_run run;

        http_run(&run, HTTP_RESPONSES, &limits, rows[i].bytes, strlen(rows[i].bytes), NULL, 0, false);
        cr_expect_str_eq(run.verdict, rows[i].verdict, "%s: %s", rows[i].name, run.verdict);
    }
}

/* The end may come in the same turn as the head, before anybody asked for the body. */
Test(http, closing_right_after_a_head)
{
    static const struct {
        const char *head;
        bool complete;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", true},
        {"HTTP/1.1 204 No Content\r\n\r\n", true},
        {"HTTP/1.1 200 OK\r\n\r\n", true},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", false},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct parsed parsed = parse(HTTP_RESPONSES, &limits, rows[i].head);

        cr_assert_eq(parsed.verdict, HTTP_HEAD_READY, "%s", rows[i].head);
        cr_expect_eq(http_read_end(parsed.parser), rows[i].complete, "%s", rows[i].head);
        parsed_free(&parsed);
    }
}

/* Only what is certainly content and not the end may pass unread. */
Test(http, plain_bodies)
{
    static const struct {
        const char *head;
        uint64_t plain;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\n\r\n", UINT64_MAX},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0},
        {"HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n", 0},
        {"HTTP/1.1 200 OK\r\nContent-Length: 65537\r\n\r\n", 1},
        {"HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n", 8388608 - 65536},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 0},
        {"HTTP/1.1 204 No Content\r\n\r\n", 0},
        {"HTTP/1.1 200 OK\r\nContent-Le", 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct parsed parsed = parse(HTTP_RESPONSES, &limits, rows[i].head);
        cr_expect_eq(http_plain_body(parsed.parser), rows[i].plain, "%s", rows[i].head);
        parsed_free(&parsed);
    }
    struct parsed parsed = parse(HTTP_RESPONSES, &limits, "HTTP/1.1 200 OK\r\nContent-Length: 65538\r\n\r\n");
    http_skip_body(parsed.parser, 2);
    cr_expect_eq(http_plain_body(parsed.parser), 0);
    cr_expect(!http_read_end(parsed.parser), "the last ones are missing");
    parsed_free(&parsed);
}

/* H10: what stands in a trailer is not in the message. */
Test(http, trailers_change_nothing)
{
    static const char body[] = "3\r\nabc\r\n0\r\nIdempotency-Key: \"evil\"\r\nAuthorization: Bearer x\r\n\r\n";
    struct parsed parsed =
        parse(HTTP_REQUESTS, &limits,
              "POST / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: \"k1\"\r\nTransfer-Encoding: chunked\r\n\r\n");
    struct http_run run = {.verdict = ""};
    struct http_run_state state = {.run = &run};
    size_t used;

    cr_assert_eq(parsed.verdict, HTTP_HEAD_READY);
    cr_assert_eq(http_read_body(parsed.parser, body, sizeof(body) - 1, &used, http_run_body, &state), HTTP_BODY_END);
    cr_expect_eq(used, sizeof(body) - 1);
    cr_expect_eq(parsed.message.field_count, 3);
    cr_expect(is(http_find(&parsed.message, SPAN("idempotency-key"))->value, "\"k1\""));
    cr_expect_null(http_find(&parsed.message, SPAN("Authorization")));
    parsed_free(&parsed);
}

/* ---- the rest --------------------------------------------------------------------------------- */

Test(http, a_lone_blank_line_is_no_start)
{
    struct http_parser *parser = http_parser_new(HTTP_REQUESTS, &limits);
    struct http_message message;
    enum problem_code problem;
    size_t used;

    cr_expect(!http_started(parser));
    cr_expect_eq(http_read_head(parser, "\r\n", 2, &used, &message, &problem), HTTP_HEAD_MORE);
    cr_expect(!http_started(parser), "a client that ends its last body with a CRLF too many is idle, not late");
    cr_expect_eq(http_read_head(parser, "\r\nG", 3, &used, &message, &problem), HTTP_HEAD_MORE);
    cr_expect(http_started(parser));
    http_parser_free(parser);
}

Test(http, a_copy_needs_nothing_of_the_original)
{
    struct parsed parsed = parse(HTTP_REQUESTS, &limits, "POST /a?b HTTP/1.1\r\nHost: h\r\nA: 1\r\nB:\r\nA: 2\r\n\r\n");
    struct http_message copy;
    void *memory = malloc(http_message_size(&parsed.message));

    cr_assert_eq(parsed.verdict, HTTP_HEAD_READY);
    http_message_copy(&copy, &parsed.message, memory);
    memset(parsed.bytes, 'X', parsed.len);
    parsed_free(&parsed);
    cr_expect(is(copy.method, "POST") && is(copy.target, "/a?b") && is(copy.path, "/a") && is(copy.query, "b"));
    cr_expect(is(copy.host, "h") && copy.has_query && copy.keep_alive);
    cr_assert_eq(copy.field_count, 4);
    cr_expect(is(copy.fields[2].name, "B") && is(copy.fields[2].value, ""));
    cr_expect(is(http_find(&copy, SPAN("a"))->value, "1"), "the first one of that name");
    cr_expect_eq(http_count(&copy, SPAN("a")), 2);
    cr_expect_eq(http_count(&copy, SPAN("c")), 0);
    cr_expect_null(http_find(&copy, SPAN("c")));
    free(memory);
}

Test(http, chunk_heads)
{
    char out[HTTP_CHUNK_HEAD_MAX];

    cr_expect_eq(http_chunk_head(out, 1), 3);
    cr_expect(memcmp(out, "1\r\n", 3) == 0);
    cr_expect_eq(http_chunk_head(out, 65535), 6);
    cr_expect(memcmp(out, "FFFF\r\n", 6) == 0);
    cr_expect_eq(http_chunk_head(out, SIZE_MAX), 18);
}
