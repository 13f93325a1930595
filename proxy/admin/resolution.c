/*
 * resolution.c - PURE. A response by hand is held to the grammar of one that came over the wire: it goes to clients as
 * it stands. Framing and hop-by-hop fields are refused, since somebody may count on them; what recordings of the route
 * leave out is left out here, too.
 *
 * The text is valid JSON without duplicate members before it is walked, so the walk can rely on its form and only asks
 * for kinds. Unescaped strings are never longer than their text: one block, taken at the start, holds them all and
 * never moves.
 */
#include "proxy/admin/resolution.h"
#include "proxy/admin/base64.h"
#include "proxy/http_text.h"
#include "proxy/json.h"
#include "proxy/json_text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct walk {
    struct json_cursor cursor;
    struct resolution *resolution;
    struct span as;
    bool has_status, has_headers, has_body, has_base64;
    char *why;
};

__attribute__((format(printf, 2, 3))) static bool refuse(struct walk *walk, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(walk->why, RESOLUTION_WHY_SIZE, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- the walk --------------------------------------------------------------------------------- */

/* Moves behind the byte if it is next. */
static bool take(struct walk *walk, char byte)
{
    json_skip_space(&walk->cursor);
    if (walk->cursor.at == walk->cursor.end || *walk->cursor.at != byte)
        return false;
    walk->cursor.at++;
    return true;
}

static bool at_string(struct walk *walk)
{
    json_skip_space(&walk->cursor);
    return walk->cursor.at < walk->cursor.end && *walk->cursor.at == '"';
}

/* A string, unescaped, into the memory. */
static struct span take_string(struct walk *walk)
{
    struct buffer *memory = &walk->resolution->memory;
    struct span raw;
    size_t before = buffer_len(memory);
    bool taken = json_take_string(&walk->cursor, &raw);
    assert(taken && "the text is valid");
    json_unescape(raw, memory);
    return span_after(buffer_span(memory), before);
}

/* ---- members ---------------------------------------------------------------------------------- */

static bool read_as(struct walk *walk)
{
    if (!at_string(walk))
        return refuse(walk, "as: expected \"completed\" or \"not-executed\"");
    walk->as = take_string(walk);
    return true;
}

static bool read_status(struct walk *walk)
{
    static const char expected[] = "status: expected a number from 200 to 599";
    json_skip_space(&walk->cursor);
    const char *from = walk->cursor.at;
    if (!json_take_number(&walk->cursor))
        return refuse(walk, expected);
    struct span text = {from, (size_t)(walk->cursor.at - from)};
    if (text.len != 3 || !http_all(text, HTTP_CHAR_DIGIT) || text.data[0] < '2' || text.data[0] > '5')
        return refuse(walk, expected);
    walk->resolution->status = (uint16_t)((text.data[0] - '0') * 100 + (text.data[1] - '0') * 10 + text.data[2] - '0');
    walk->has_status = true;
    return true;
}

static bool is_field_value(struct span value)
{
    for (size_t i = 0; i < value.len; i++)
        if (((unsigned char)value.data[i] < 0x20 && value.data[i] != '\t') || value.data[i] == 0x7F)
            return false;
    return true;
}

static bool read_field(struct walk *walk)
{
    struct resolution *resolution = walk->resolution;
    size_t number = resolution->field_count;
    struct http_field field;
    if (number == HTTP_MAX_FIELDS)
        return refuse(walk, "headers: at most %d", HTTP_MAX_FIELDS);
    if (!take(walk, '[') || !at_string(walk))
        return refuse(walk, "headers[%zu]: expected [\"Name\", \"value\"]", number);
    field.name = take_string(walk);
    if (!take(walk, ',') || !at_string(walk))
        return refuse(walk, "headers[%zu]: expected [\"Name\", \"value\"]", number);
    field.value = span_trim(take_string(walk));
    if (!take(walk, ']'))
        return refuse(walk, "headers[%zu]: expected [\"Name\", \"value\"]", number);
    if (!http_is_token(field.name))
        return refuse(walk, "headers[%zu]: the name is not one of HTTP (RFC 9110: letters, digits, - and _ …)", number);
    if (!is_field_value(field.value))
        return refuse(walk, "headers[%zu]: the value holds a line break or another control character", number);
    if (header_rules(field.name) & (HEADER_DROP_RESPONSE | HEADER_DROP_RECORD))
        return refuse(walk, "headers[%zu]: %.*s is einmal's own business: leave it out", number, (int)field.name.len,
                      field.name.data);
    resolution->fields[resolution->field_count++] = field;
    return true;
}

static bool read_headers(struct walk *walk)
{
    size_t size = 0;
    walk->has_headers = true;
    if (!take(walk, '['))
        return refuse(walk, "headers: expected a list of [\"Name\", \"value\"]");
    if (take(walk, ']'))
        return true;
    do {
        if (!read_field(walk))
            return false;
        const struct http_field *field = &walk->resolution->fields[walk->resolution->field_count - 1];
        size += field->name.len + field->value.len;
        if (size > RESOLUTION_HEADER_MAX)
            return refuse(walk, "headers: at most 64 KiB together");
    } while (take(walk, ','));
    bool closed = take(walk, ']');
    assert(closed && "the text is valid");
    return true;
}

static bool read_body(struct walk *walk)
{
    struct span raw;
    walk->has_body = true;
    if (!at_string(walk))
        return refuse(walk, "body: expected a text");
    bool taken = json_take_string(&walk->cursor, &raw);
    assert(taken && "the text is valid");
    json_unescape(raw, &walk->resolution->body);
    return true;
}

static bool read_body_base64(struct walk *walk)
{
    walk->has_base64 = true;
    if (!at_string(walk) || !base64_decode(take_string(walk), &walk->resolution->body))
        return refuse(walk, "body_base64: expected base64 (RFC 4648 §4), with padding and without white space");
    return true;
}

static const struct {
    struct span name;
    bool (*read)(struct walk *walk);
} members[] = {
    {{"as", 2}, read_as},
    {{"status", 6}, read_status},
    {{"headers", 7}, read_headers},
    {{"body", 4}, read_body},
    {{"body_base64", 11}, read_body_base64},
};

static bool read_member(struct walk *walk)
{
    struct span name = take_string(walk);
    bool colon = take(walk, ':');
    assert(colon && "the text is valid");
    for (size_t i = 0; i < COUNT(members); i++)
        if (span_equal(name, members[i].name))
            return members[i].read(walk);
    return refuse(walk, "unknown member; known are as, status, headers, body and body_base64");
}

/* ---- what it means together ------------------------------------------------------------------- */

static bool check_completed(struct walk *walk)
{
    struct resolution *resolution = walk->resolution;
    resolution->to_state = STORE_COMPLETED;
    if (!walk->has_status)
        return refuse(walk, "status: missing; it is what repetitions will get");
    if (walk->has_body && walk->has_base64)
        return refuse(walk, "body and body_base64 exclude each other");
    bool bodiless = resolution->status == 204 || resolution->status == 205 || resolution->status == 304;
    if (bodiless && buffer_len(&resolution->body))
        return refuse(walk, "body: a response with status %u has none", resolution->status);
    if (buffer_len(&resolution->body) > RESOLUTION_BODY_MAX)
        return refuse(walk, "body: at most 16 MiB");
    return true;
}

static bool check(struct walk *walk)
{
    if (span_equal(walk->as, SPAN("completed")))
        return check_completed(walk);
    if (!span_equal(walk->as, SPAN("not-executed")))
        return refuse(walk, "as: expected \"completed\" or \"not-executed\"");
    walk->resolution->to_state = STORE_RELEASED;
    if (walk->has_status || walk->has_headers || walk->has_body || walk->has_base64)
        return refuse(walk, "not-executed has no response: leave status, headers and body out");
    return true;
}

bool resolution_read(struct span json, struct resolution *resolution, char why[RESOLUTION_WHY_SIZE])
{
    struct walk walk = {.resolution = resolution, .why = why};
    memset(resolution, 0, sizeof *resolution);
    if (json.len)
        walk.cursor = (struct json_cursor){json.data, json.data + json.len};
    if (!json.len || !json_valid(json))
        return refuse(&walk, "the body is not valid JSON, or has a member twice");
    if (!take(&walk, '{'))
        return refuse(&walk, "expected a JSON object");
    buffer_reserve(&resolution->memory, json.len);
    if (!take(&walk, '}'))
        do {
            if (!at_string(&walk) || !read_member(&walk))
                return false;
        } while (take(&walk, ','));
    return check(&walk);
}

void resolution_clear(struct resolution *resolution)
{
    buffer_free(&resolution->body);
    buffer_free(&resolution->memory);
}

/* ---- as a recorded response ------------------------------------------------------------------- */

struct store_bytes *resolution_response(struct resolution *resolution, const char *replayed_header, char *const *drop)
{
    struct http_field *fields = resolution->fields;
    size_t kept = 0, len = buffer_len(&resolution->body);
    for (size_t i = 0; i < resolution->field_count; i++)
        if (!span_equal_nocase(fields[i].name, span_of(replayed_header)))
            fields[kept++] = fields[i];
    resolution->field_count = headers_select_record(fields, kept, drop);
    struct response_parts parts = {resolution->status, http_reason(resolution->status), fields,
                                   resolution->field_count};
    size_t head = stored_response_head_size(&parts);
    struct store_bytes *bytes = store_bytes_new(head + len);
    stored_response_write_head(bytes->data, &parts, len);
    if (len)
        memcpy(bytes->data + head, buffer_data(&resolution->body), len);
    return bytes;
}
