/*
 * stored_response.c - PURE. A response ↔ bytes that can be replayed.
 *
 *     version 1 · status 2 · number of fields 2 · reason length 4 · body length 8      (big-endian, without padding)
 *     reason · number of fields times: name length 4 · value length 4 · name · value · body
 *
 * The version is that of this encoding: another one is refused, and the store's format version says the same for all of
 * it. Invariant: what is read back is within the bytes, fits the table of fields, and could be written to a client as
 * it is. Left out: which fields are recorded (headers.c), checksums (the engine's business).
 */
#include "proxy/stored_response.h"

#include <assert.h>

#include "proxy/http_text.h"

#define VERSION       1
#define PREAMBLE_SIZE (1 + 2 + 2 + 4 + 8)
#define FIELD_SIZE    (4 + 4)

static uint8_t *write_number(uint8_t *to, uint64_t number, unsigned size)
{
    for (unsigned i = size; i-- > 0;)
        *to++ = (uint8_t)(number >> (8 * i));
    return to;
}

static uint8_t *write_text(uint8_t *to, struct span text)
{
    assert(http_field_text_clean(text) && text.len <= UINT32_MAX);
    if (text.len)
        memcpy(to, text.data, text.len);
    return to + text.len;
}

size_t stored_response_head_size(const struct response_parts *parts)
{
    size_t size = PREAMBLE_SIZE + parts->reason.len;

    for (size_t i = 0; i < parts->field_count; i++)
        size += FIELD_SIZE + parts->fields[i].name.len + parts->fields[i].value.len;
    return size;
}

void stored_response_write_head(uint8_t *to, const struct response_parts *parts, uint64_t body_len)
{
    assert(parts->status >= 100 && parts->status <= 999 && parts->field_count <= HTTP_MAX_FIELDS);
    to = write_number(to, VERSION, 1);
    to = write_number(to, parts->status, 2);
    to = write_number(to, parts->field_count, 2);
    to = write_number(to, parts->reason.len, 4);
    to = write_number(to, body_len, 8);
    to = write_text(to, parts->reason);
    for (size_t i = 0; i < parts->field_count; i++) {
        const struct http_field *field = &parts->fields[i];

        assert(field->name.len);
        to = write_number(to, field->name.len, 4);
        to = write_number(to, field->value.len, 4);
        to = write_text(to, field->name);
        to = write_text(to, field->value);
    }
}

/* What is left to read. Reading beyond it gives zeros and sets `failed`, so that one question at the end is enough. */
struct reader {
    const uint8_t *at;
    size_t left;
    bool failed;
};

static uint64_t read_number(struct reader *reader, unsigned size)
{
    uint64_t number = 0;

    if (reader->left < size) {
        reader->failed = true;
        reader->left = 0;
        return 0;
    }
    for (unsigned i = 0; i < size; i++)
        number = number << 8 | reader->at[i];
    reader->at += size;
    reader->left -= size;
    return number;
}

static struct span read_text(struct reader *reader, uint64_t len)
{
    struct span text = {(const char *)reader->at, (size_t)len};

    if (reader->left < len || !http_field_text_clean(text)) {
        reader->failed = true;
        reader->left = 0;
        return (struct span){"", 0};
    }
    reader->at += len;
    reader->left -= (size_t)len;
    return text;
}

static void read_field(struct reader *reader, struct http_field *field)
{
    uint64_t name_len = read_number(reader, 4), value_len = read_number(reader, 4);

    field->name = read_text(reader, name_len);
    field->value = read_text(reader, value_len);
    if (!http_is_token(field->name))
        reader->failed = true;
}

bool stored_response_read(struct stored_response *out, const uint8_t *bytes, size_t len)
{
    struct reader reader = {bytes, len, false};
    uint64_t version = read_number(&reader, 1), status = read_number(&reader, 2), count = read_number(&reader, 2);
    uint64_t reason_len = read_number(&reader, 4), body_len = read_number(&reader, 8);

    if (reader.failed || version != VERSION || status < 100 || status > 999 || count > HTTP_MAX_FIELDS)
        return false;
    out->parts.status = (uint16_t)status;
    out->parts.reason = read_text(&reader, reason_len);
    out->parts.fields = out->fields;
    out->parts.field_count = (size_t)count;
    for (size_t i = 0; i < count && !reader.failed; i++)
        read_field(&reader, &out->fields[i]);
    if (reader.failed || reader.left != body_len)
        return false;
    out->body = (struct span){(const char *)reader.at, reader.left};
    return true;
}
