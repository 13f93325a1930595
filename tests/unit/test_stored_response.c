/*
 * test_stored_response.c - what was recorded comes back byte for byte, and damage is found before it reaches a client.
 */
#include <criterion/criterion.h>
#include <signal.h>

#include "proxy/stored_response.h"

static const struct http_field fields[] = {
    {{"Content-Type", 12}, {"application/json", 16}},
    {{"X", 1}, {"", 0}},
    {{"X", 1}, {"a\tb \xff", 5}},
    {{"Location", 8}, {"/orders/1", 9}},
};
static const struct response_parts parts = {201, {"Created", 7}, fields, 4};
static const char body[] = "{\"id\":\0 1}"; /* a NUL is content like any other */

#define BODY_LEN (sizeof(body) - 1)

static uint8_t *encode(const struct response_parts *what, size_t *len)
{
    size_t head = stored_response_head_size(what);
    uint8_t *bytes = must_allocate(malloc(head + BODY_LEN));

    stored_response_write_head(bytes, what, BODY_LEN);
    memcpy(bytes + head, body, BODY_LEN);
    *len = head + BODY_LEN;
    return bytes;
}

/* From memory of exactly that size, so that reading beyond it is caught. */
static bool read_copy(struct stored_response *out, const uint8_t *bytes, size_t len)
{
    uint8_t *copy = must_allocate(malloc(len ? len : 1));
    bool good;

    memcpy(copy, bytes, len);
    good = stored_response_read(out, copy, len);
    if (good) /* every span must be readable */
        for (size_t i = 0; i < out->parts.field_count; i++)
            good = span_equal(out->fields[i].name, out->fields[i].name) && good;
    free(copy);
    return good;
}

Test(stored_response, round_trip)
{
    struct stored_response read;
    size_t len;
    uint8_t *bytes = encode(&parts, &len);

    cr_assert(stored_response_read(&read, bytes, len));
    cr_expect(read.parts.status == 201 && span_equal(read.parts.reason, parts.reason));
    cr_assert(read.parts.field_count == 4 && read.parts.fields == read.fields);
    for (size_t i = 0; i < 4; i++)
        cr_expect(span_equal(read.fields[i].name, fields[i].name) && span_equal(read.fields[i].value, fields[i].value),
                  "field %zu: order and repetition count", i);
    cr_expect(span_equal(read.body, (struct span){body, BODY_LEN}));
    free(bytes);
}

Test(stored_response, nothing_but_a_status)
{
    static const struct response_parts bare = {204, {"", 0}, NULL, 0};
    struct stored_response read;
    uint8_t bytes[64];
    size_t len = stored_response_head_size(&bare);

    cr_assert_leq(len, sizeof(bytes));
    stored_response_write_head(bytes, &bare, 0);
    cr_assert(stored_response_read(&read, bytes, len));
    cr_expect(read.parts.status == 204 && read.parts.field_count == 0 && read.body.len == 0);
}

Test(stored_response, truncated_is_refused)
{
    struct stored_response read;
    size_t len;
    uint8_t *bytes = encode(&parts, &len);

    for (size_t cut = 0; cut < len; cut++)
        cr_expect(!read_copy(&read, bytes, cut), "%zu of %zu bytes", cut, len);
    free(bytes);
}

Test(stored_response, longer_is_refused)
{
    struct stored_response read;
    size_t len;
    uint8_t *bytes = encode(&parts, &len), more[256] = {0};

    cr_assert_lt(len, sizeof(more));
    memcpy(more, bytes, len);
    cr_expect(!read_copy(&read, more, len + 1));
    free(bytes);
}

/* Each bit of it flipped, one at a time: refused, or still something that can be written to a client. */
Test(stored_response, damage_never_reaches_beyond_the_bytes_or_into_the_head)
{
    size_t len;
    uint8_t *bytes = encode(&parts, &len);

    for (size_t bit = 0; bit < len * 8; bit++) {
        struct stored_response read;
        uint8_t *copy = must_allocate(malloc(len));

        memcpy(copy, bytes, len);
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (stored_response_read(&read, copy, len)) {
            struct response_head head = {
                .parts = read.parts, .framing = RESPONSE_LENGTH, .keep_alive = true, .client_minor = 1};
            struct buffer out = {0};

            headers_write_response(&out, &head); /* asserts what must never be in a head */
            buffer_free(&out);
        }
        free(copy);
    }
    free(bytes);
}

Test(stored_response, refused_values)
{
    static const struct {
        const char *name;
        size_t at;
        uint8_t byte;
    } rows[] = {
        {"another version", 0, 2},      {"status below 100", 2, 20},    {"status above 999", 1, 8},
        {"more fields than fit", 3, 2}, {"CR in the reason", 17, '\r'}, {"LF in the reason", 18, '\n'},
        {"NUL in the reason", 19, 0},   {"space in a name", 32, ' '},   {"colon in a name", 33, ':'},
        {"LF in a value", 50, '\n'},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct stored_response read;
        size_t len;
        uint8_t *bytes = encode(&parts, &len);

        bytes[rows[i].at] = rows[i].byte;
        cr_expect(!read_copy(&read, bytes, len), "%s", rows[i].name);
        free(bytes);
    }
}

/* Ours to see to before it is written: a value with a line end would become somebody's header. */
Test(stored_response, writing_a_line_end_is_our_mistake, .signal = SIGABRT)
{
    static const struct http_field bad[] = {{{"A", 1}, {"b\r\nC: d", 7}}};
    static const struct response_parts split = {200, {"OK", 2}, bad, 1};
    uint8_t bytes[128];

    stored_response_write_head(bytes, &split, 0);
}
