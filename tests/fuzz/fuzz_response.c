/*
 * fuzz_response.c - any bytes as an API's connection.
 *
 * Input: one byte that says where to cut and whether the request was HEAD, then the bytes. Beyond what the sanitizers
 * see: the verdict does not depend on cuts; what is accepted can be selected, recorded, read back equal, written to a
 * client, and the head that we write is accepted again with the framing that we meant.
 */
#include <assert.h>

#include "proxy/stored_response.h"
#include "tests/unit/http_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct http_limits limits = {.header_bytes = 2048, .headers = 16, .request_target = 256};

static void check_cuts(const char *bytes, size_t len, size_t seed)
{
    struct http_run whole, cut;
    size_t cuts[3] = {seed % (len + 1), 0, 0};
    bool head = seed % 2;

    cuts[1] = cuts[0] + (len - cuts[0]) / 2;
    cuts[2] = cuts[1] + (len - cuts[1]) / 3;
    http_run(&whole, HTTP_RESPONSES, &limits, bytes, len, NULL, 0, head);
    http_run(&cut, HTTP_RESPONSES, &limits, bytes, len, cuts, 3, head);
    assert(!whole.why_wrong && !cut.why_wrong);
    assert(strcmp(whole.verdict, cut.verdict) == 0);
    assert(whole.body_len == cut.body_len && memcmp(whole.body, cut.body, whole.body_len) == 0);
}

static void check_stored(const struct response_parts *parts)
{
    size_t len = stored_response_head_size(parts);
    uint8_t *bytes = must_allocate(malloc(len));
    struct stored_response read;

    stored_response_write_head(bytes, parts, 0);
    assert(stored_response_read(&read, bytes, len));
    assert(read.parts.status == parts->status && span_equal(read.parts.reason, parts->reason));
    assert(read.parts.field_count == parts->field_count && read.body.len == 0);
    for (size_t i = 0; i < parts->field_count; i++) {
        assert(span_equal(read.fields[i].name, parts->fields[i].name));
        assert(span_equal(read.fields[i].value, parts->fields[i].value));
    }
    free(bytes);
}

static void check_written(const struct response_parts *parts, bool chunked)
{
    struct http_limits wider = {.header_bytes = 65536, .headers = 64, .request_target = 256};
    struct http_parser *parser = http_parser_new(HTTP_RESPONSES, &wider);
    struct response_head head = {.parts = *parts,
                                 .framing = chunked ? RESPONSE_CHUNKED : RESPONSE_LENGTH,
                                 .length = 7,
                                 .keep_alive = true,
                                 .client_minor = 1,
                                 .request_id = SPAN("r1"),
                                 .replayed_header = "Idempotent-Replayed",
                                 .date = 784111777};
    struct http_message message;
    enum problem_code problem;
    struct buffer out = {0};
    size_t used;

    headers_write_response(&out, &head);
    assert(http_read_head(parser, buffer_data(&out), buffer_len(&out), &used, &message, &problem) == HTTP_HEAD_READY);
    assert(used == buffer_len(&out) && message.status == parts->status);
    if (parts->status >= 200 && parts->status != 204 && parts->status != 304)
        assert(chunked ? message.framing == HTTP_CHUNKED
                       : message.framing == HTTP_LENGTH && message.content_length == 7);
    assert(http_count(&message, SPAN("Idempotent-Replayed")) == 1 && http_count(&message, SPAN("Date")) == 1);
    assert(http_count(&message, SPAN("Connection")) == 0);
    buffer_free(&out);
    http_parser_free(parser);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data + 1;
    struct http_field fields[HTTP_MAX_FIELDS];
    struct http_message message;
    enum problem_code problem;
    struct http_parser *parser;
    size_t used;

    if (size < 1)
        return 0;
    check_cuts(bytes, size - 1, data[0]);
    parser = http_parser_new(HTTP_RESPONSES, &limits);
    if (http_read_head(parser, bytes, size - 1, &used, &message, &problem) == HTTP_HEAD_READY) {
        struct response_parts parts = {message.status, message.reason, fields, 0};

        parts.field_count = headers_select_response(&message, "Idempotent-Replayed", fields);
        check_stored(&parts);
        check_written(&parts, data[0] % 3 == 0);
    }
    http_parser_free(parser);
    return 0;
}
