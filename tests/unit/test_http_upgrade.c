/*
 * test_http_upgrade.c - which requests may become a tunnel, which 101 makes one, and what the heads of both look like.
 */
#include <criterion/criterion.h>

#include "proxy/headers.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define OFFER        "Host: a\r\nConnection: Upgrade\r\n"

static const struct http_limits limits = {.header_bytes = 32768, .headers = 100, .request_target = 8192};

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

Test(http_upgrade, what_is_an_offer)
{
    static const struct {
        const char *name, *head;
        bool offered;
    } rows[] = {
        {"websocket", "GET / HTTP/1.1\r\n" OFFER "Upgrade: websocket\r\n\r\n", true},
        {"case does not count", "GET / HTTP/1.1\r\nHost: a\r\nconnection: UPGRADE\r\nupgrade: WebSocket\r\n\r\n", true},
        {"with a version", "GET / HTTP/1.1\r\n" OFFER "Upgrade: IRC/6.9\r\n\r\n", true},
        {"several", "GET / HTTP/1.1\r\n" OFFER "Upgrade: a, b\r\nUpgrade: c\r\n\r\n", true},
        {"any method", "POST / HTTP/1.1\r\n" OFFER "Upgrade: a\r\n\r\n", true},
        {"an empty body is none", "POST / HTTP/1.1\r\n" OFFER "Upgrade: a\r\nContent-Length: 0\r\n\r\n", true},
        {"a body", "POST / HTTP/1.1\r\n" OFFER "Upgrade: a\r\nContent-Length: 1\r\n\r\n", false},
        {"a chunked body", "POST / HTTP/1.1\r\n" OFFER "Upgrade: a\r\nTransfer-Encoding: chunked\r\n\r\n", false},
        {"HTTP/1.0", "GET / HTTP/1.0\r\n" OFFER "Upgrade: websocket\r\n\r\n", false},
        {"no Connection", "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n", false},
        {"no Upgrade", "GET / HTTP/1.1\r\n" OFFER "\r\n", false},
        {"empty Upgrade", "GET / HTTP/1.1\r\n" OFFER "Upgrade:\r\n\r\n", false},
        {"no protocol", "GET / HTTP/1.1\r\n" OFFER "Upgrade: web socket\r\n\r\n", false},
        {"empty version", "GET / HTTP/1.1\r\n" OFFER "Upgrade: a/\r\n\r\n", false},
        {"h2c", "GET / HTTP/1.1\r\n" OFFER "Upgrade: h2c\r\n\r\n", false},
        {"H2C in a list", "GET / HTTP/1.1\r\n" OFFER "Upgrade: websocket, H2C\r\n\r\n", false},
        {"h2c in a second line", "GET / HTTP/1.1\r\n" OFFER "Upgrade: websocket\r\nUpgrade: h2c\r\n\r\n", false},
        {"h2", "GET / HTTP/1.1\r\n" OFFER "Upgrade: h2\r\n\r\n", false},
        {"HTTP/2.0", "GET / HTTP/1.1\r\n" OFFER "Upgrade: HTTP/2.0\r\n\r\n", false},
        {"TLS/1.3", "GET / HTTP/1.1\r\n" OFFER "Upgrade: TLS/1.3\r\n\r\n", false},
        {"h2co is another", "GET / HTTP/1.1\r\n" OFFER "Upgrade: h2co\r\n\r\n", true},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct parsed request = parse(HTTP_REQUESTS, rows[i].head);

        cr_expect_eq(http_upgrade_offered(&request.message), rows[i].offered, "%s", rows[i].name);
        http_parser_free(request.parser);
    }
}

Test(http_upgrade, what_answers_it)
{
    static const struct {
        const char *name, *head;
        bool answers;
    } rows[] = {
        {"taken up", "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", true},
        {"case does not count", "HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: WEBSOCKET\r\n\r\n", true},
        {"the other one", "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: chat/2\r\n\r\n", true},
        {"both", "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: chat/2, websocket\r\n\r\n", true},
        {"not offered", "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", false},
        {"another version", "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: chat/3\r\n\r\n", false},
        {"one not offered", "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket, h2c\r\n\r\n", false},
        {"two lines", "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\nUpgrade: chat/2\r\n\r\n", false},
        {"no Upgrade", "HTTP/1.1 101 S\r\nConnection: upgrade\r\n\r\n", false},
        {"empty Upgrade", "HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: ,\r\n\r\n", false},
        {"no Connection", "HTTP/1.1 101 S\r\nUpgrade: websocket\r\n\r\n", false},
        {"HTTP/1.0", "HTTP/1.0 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n", false},
    };
    struct parsed request = parse(HTTP_REQUESTS, "GET / HTTP/1.1\r\n" OFFER "Upgrade: websocket, chat/2\r\n\r\n");

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct parsed response = parse(HTTP_RESPONSES, rows[i].head);

        cr_expect_eq(http_upgrade_answers(&request.message, &response.message), rows[i].answers, "%s", rows[i].name);
        http_parser_free(response.parser);
    }
    http_parser_free(request.parser);
}

struct tunnel {
    char bytes[200];
    size_t len;
};

static void collect(void *arg, const char *data, size_t len)
{
    struct tunnel *tunnel = arg;

    memcpy(tunnel->bytes + tunnel->len, data, len);
    tunnel->len += len;
}

/* Whatever follows the switch is handed on untouched, also what looks like HTTP; its end is the connection's. */
Test(http_upgrade, after_the_switch_all_bytes_are_the_tunnels)
{
    static const char bytes[] = "\0\r\n\r\nGET / HTTP/1.1\r\n\r\n";
    static const char head[] = "GET / HTTP/1.1\r\n" OFFER "Upgrade: websocket\r\n\r\n";

    for (size_t cut = 0; cut < sizeof bytes; cut++) {
        struct parsed request = parse(HTTP_REQUESTS, head);
        struct tunnel tunnel = {.len = 0};
        size_t used;

        cr_assert_eq(http_read_body(request.parser, NULL, 0, &used, collect, &tunnel), HTTP_BODY_END);
        http_switch(request.parser);
        cr_expect_eq(http_read_body(request.parser, bytes, cut, &used, collect, &tunnel), HTTP_BODY_MORE);
        cr_expect_eq(used, cut, "all of the first piece, cut %zu", cut);
        cr_expect_eq(http_read_body(request.parser, bytes + cut, sizeof bytes - cut, &used, collect, &tunnel),
                     HTTP_BODY_MORE);
        cr_expect(tunnel.len == sizeof bytes && memcmp(tunnel.bytes, bytes, sizeof bytes) == 0, "cut %zu", cut);
        cr_expect(http_read_end(request.parser), "a tunnel may end anywhere");
        http_parser_free(request.parser);
    }
}

Test(http_upgrade, heads_on_the_wire)
{
    static const char at_api[] = "GET /c HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Key: x\r\nConnection: upgrade\r\n"
                                 "Upgrade: websocket\r\nUpgrade: chat\r\n\r\n";
    static const char at_client[] = "HTTP/1.1 101 Switching\r\nSec-WebSocket-Accept: y\r\nX-Request-Id: r\r\n"
                                    "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    struct conf_upstream upstream = {0};
    struct parsed request = parse(HTTP_REQUESTS, "GET /c HTTP/1.1\r\n" OFFER "Upgrade: websocket\r\nSec-WebSocket-Key: "
                                                 "x\r\nUpgrade: chat\r\nHTTP2-Settings: z\r\n\r\n");
    struct http_field fields[] = {{SPAN("Sec-WebSocket-Accept"), SPAN("y")}};
    struct buffer out = {0};

    headers_write_request(
        &out, &(struct forward_head){
                  .message = &request.message, .upstream = &upstream, .forwarded = FORWARDED_PASS, .upgrade = true});
    cr_expect(span_equal(buffer_span(&out), SPAN(at_api)), "%.*s", (int)buffer_len(&out), buffer_data(&out));
    buffer_free(&out);
    headers_write_response(&out, &(struct response_head){.parts = {101, SPAN("Switching"), fields, 1},
                                                         .framing = RESPONSE_NO_BODY,
                                                         .client_minor = 1,
                                                         .request_id = SPAN("r"),
                                                         .upgrade = SPAN("websocket")});
    cr_expect(span_equal(buffer_span(&out), SPAN(at_client)), "%.*s", (int)buffer_len(&out), buffer_data(&out));
    buffer_free(&out);
    http_parser_free(request.parser);
}
