/*
 * fuzz_request.c - any bytes as a client's connection.
 *
 * Input: one byte that says where to cut, then the connection's bytes. Three laws are checked beyond what the
 * sanitizers see: the verdict does not depend on cuts; what is accepted can be forwarded, and the head that we write is
 * accepted again and says the same; and it holds exactly one framing field, or none.
 */
#include <assert.h>

#include "proxy/headers.h"
#include "tests/unit/http_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct http_limits limits = {.header_bytes = 2048, .headers = 16, .request_target = 256};

static void check_cuts(const char *bytes, size_t len, size_t seed)
{
    struct http_run whole, cut;
    size_t cuts[3] = {seed % (len + 1), 0, 0};

    cuts[1] = cuts[0] + (len - cuts[0]) / 2;
    cuts[2] = cuts[1] + (len - cuts[1]) / 3;
    http_run(&whole, HTTP_REQUESTS, &limits, bytes, len, NULL, 0, false);
    http_run(&cut, HTTP_REQUESTS, &limits, bytes, len, cuts, 3, false);
    assert(!whole.why_wrong && !cut.why_wrong);
    assert(strcmp(whole.verdict, cut.verdict) == 0);
    assert(whole.body_len == cut.body_len && memcmp(whole.body, cut.body, whole.body_len) == 0);
}

static void check_again(const struct buffer *out, const struct http_message *first)
{
    /* Host and the fields that are added may make it longer than what came. */
    struct http_limits wider = {.header_bytes = 65536, .headers = 64, .request_target = 512};
    struct http_parser *parser = http_parser_new(HTTP_REQUESTS, &wider);
    struct http_message message;
    enum problem_code problem;
    size_t used, framing;

    assert(http_read_head(parser, buffer_data(out), buffer_len(out), &used, &message, &problem) == HTTP_HEAD_READY);
    assert(used == buffer_len(out) && message.minor == 1);
    assert(span_equal(message.method, first->method) && span_equal(message.path, first->path));
    assert(span_equal(message.query, first->query));
    assert(first->host.len == 0 || span_equal(message.host, first->host));
    framing = http_count(&message, SPAN("Content-Length")) + http_count(&message, SPAN("Transfer-Encoding"));
    assert(framing <= 1 && (framing == 1 || first->framing == HTTP_NO_BODY));
    assert(message.framing == first->framing || first->framing == HTTP_NO_BODY);
    assert(message.content_length == first->content_length);
    assert(http_count(&message, SPAN("Host")) == 1 && http_count(&message, SPAN("Connection")) == 0);
    assert(http_count(&message, SPAN("X-Forwarded-For")) == 1 && http_count(&message, SPAN("X-Request-Id")) == 1);
    http_parser_free(parser);
}

static void check_forwarding(const char *bytes, size_t len, size_t seed)
{
    char authority[] = "api:3000";
    struct conf_upstream upstream = {.authority = authority};
    struct http_parser *parser = http_parser_new(HTTP_REQUESTS, &limits);
    struct http_message message;
    enum problem_code problem;
    struct buffer out = {0};
    size_t used;

    if (http_read_head(parser, bytes, len, &used, &message, &problem) == HTTP_HEAD_READY) {
        struct forward_head head = {
            .message = &message,
            .upstream = &upstream,
            .forwarded = seed % 2 ? FORWARDED_APPEND : FORWARDED_REPLACE,
            .via = seed % 3 == 0,
            .client_address = SPAN("192.0.2.1"),
            .request_id = SPAN("r1"),
            .key_header = SPAN("Idempotency-Key"),
            .derived_key = seed % 5 ? SPAN("00ff") : (struct span){NULL, 0},
            .pass_expect = seed % 7 == 0,
        };

        headers_write_request(&out, &head);
        check_again(&out, &message);
    }
    buffer_free(&out);
    http_parser_free(parser);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data + 1;

    if (size < 1)
        return 0;
    check_cuts(bytes, size - 1, data[0]);
    check_forwarding(bytes, size - 1, data[0]);
    return 0;
}
