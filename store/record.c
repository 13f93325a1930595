/*
 * record.c - PURE. Stored bytes to struct record and back.
 *
 * One writer and one reader per part, in the same order of fields. The reader is a cursor that, once it has run past
 * the end, yields zeros and stays failed: so a field needs no check of its own, and one at the end tells. Text is cut
 * at RECORD_STRING_MAX when written, which is what bounds the sizes in record.h.
 */
#include "store/record.h"

#include <assert.h>
#include <string.h>

enum { FLAG_RESPONSE = 1, FLAG_NOT_KEPT = 2 };

/* ---- writing ---------------------------------------------------------------------------------- */

void record_put64(uint8_t *out, uint64_t value)
{
    for (int i = 7; i >= 0; i--, value >>= 8)
        out[i] = (uint8_t)value;
}

static uint8_t *put8(uint8_t *at, unsigned value)
{
    *at = (uint8_t)value;
    return at + 1;
}

static uint8_t *put16(uint8_t *at, unsigned value)
{
    return put8(put8(at, value >> 8), value);
}

static uint8_t *put32(uint8_t *at, uint32_t value)
{
    return put16(put16(at, value >> 16), value & 0xFFFF);
}

static uint8_t *put64(uint8_t *at, uint64_t value)
{
    record_put64(at, value);
    return at + 8;
}

static uint8_t *put_bytes(uint8_t *at, const void *data, size_t len)
{
    if (len)
        memcpy(at, data, len);
    return at + len;
}

static uint8_t *put_text(uint8_t *at, struct record_text text)
{
    size_t len = text.len < RECORD_STRING_MAX ? text.len : RECORD_STRING_MAX;
    return put_bytes(put16(at, (unsigned)len), text.data, len);
}

size_t record_write_reservation(uint8_t *out, const struct record_reservation *reservation)
{
    uint8_t *at = put8(out, RECORD_FORMAT);
    at = put8(at, reservation->key_source);
    at = put_bytes(at, reservation->id.bytes, STORE_ID_LEN);
    at = put_bytes(at, reservation->fingerprint, STORE_HASH_LEN);
    at = put_bytes(at, reservation->content, STORE_HASH_LEN);
    at = put64(at, (uint64_t)reservation->created_ms);
    at = put_text(at, reservation->route);
    at = put_text(at, reservation->scope_name);
    at = put_text(at, reservation->task);
    at = put_text(at, reservation->key);
    assert(at - out <= RECORD_RESERVED_MAX);
    return (size_t)(at - out);
}

size_t record_write_opening(uint8_t *out, const struct record_opening *opening)
{
    uint8_t *at = put8(out, RECORD_FORMAT);
    at = put_bytes(at, opening->id.bytes, STORE_ID_LEN);
    at = put64(at, opening->token);
    at = put_bytes(at, opening->boot, RECORD_BOOT_LEN);
    at = put64(at, (uint64_t)opening->since_ms);
    at = put64(at, (uint64_t)opening->unknown_retention_ms);
    assert(at - out == RECORD_OPENING_LEN);
    return (size_t)(at - out);
}

size_t record_write_outcome(uint8_t *out, const struct record_outcome *outcome)
{
    uint8_t *at = put8(out, RECORD_FORMAT);
    at = put8(at, outcome->state);
    at = put8(at, outcome->reason);
    at = put8(at, (outcome->has_response ? FLAG_RESPONSE : 0) | (outcome->not_kept ? FLAG_NOT_KEPT : 0));
    at = put16(at, outcome->status);
    at = put32(at, outcome->executions);
    at = put64(at, outcome->token);
    at = put64(at, (uint64_t)outcome->since_ms);
    at = put64(at, (uint64_t)outcome->expires_ms);
    at = put64(at, (uint64_t)outcome->forwarded_until_ms);
    at = put32(at, outcome->response_len);
    at = put_text(at, outcome->decision);
    if (outcome->has_response && record_response_inlined(outcome->response_len)) {
        assert(outcome->inlined.len == outcome->response_len);
        at = put_bytes(at, outcome->inlined.data, outcome->inlined.len);
    }
    assert(at - out <= RECORD_OUTCOME_MAX);
    return (size_t)(at - out);
}

size_t record_write_counters(uint8_t *out, const struct record_counters *counters)
{
    uint8_t *at = put8(out, RECORD_FORMAT);
    at = put64(at, counters->next_seq);
    at = put64(at, counters->next_token);
    at = put64(at, (uint64_t)counters->newest_ms);
    at = put64(at, counters->completed);
    at = put64(at, counters->merged_seq);
    assert(at - out == RECORD_COUNTERS_LEN);
    return (size_t)(at - out);
}

size_t record_write_scope(uint8_t *out, const struct record_scope *scope)
{
    uint8_t *at = put8(out, RECORD_FORMAT);
    at = put_bytes(at, scope->digest, STORE_HASH_LEN);
    at = put64(at, (uint64_t)scope->expires_ms);
    assert(at - out == RECORD_SCOPE_LEN);
    return (size_t)(at - out);
}

/* ---- reading ---------------------------------------------------------------------------------- */

struct cursor {
    const uint8_t *at, *end;
    bool failed;
};

uint64_t record_get64(const uint8_t *data)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | data[i];
    return value;
}

/* The next len bytes, or NULL beyond the end. */
static const uint8_t *take(struct cursor *cursor, size_t len)
{
    if (cursor->failed || (size_t)(cursor->end - cursor->at) < len) {
        cursor->failed = true;
        return NULL;
    }
    const uint8_t *taken = cursor->at;
    cursor->at += len;
    return taken;
}

static uint64_t take_number(struct cursor *cursor, size_t len)
{
    const uint8_t *data = take(cursor, len);
    uint64_t value = 0;
    for (size_t i = 0; data && i < len; i++)
        value = value << 8 | data[i];
    return value;
}

static void take_bytes(struct cursor *cursor, void *out, size_t len)
{
    const uint8_t *data = take(cursor, len);
    if (data)
        memcpy(out, data, len);
    else
        memset(out, 0, len);
}

static struct record_text take_text(struct cursor *cursor, size_t len)
{
    const uint8_t *data = take(cursor, len);
    return data ? (struct record_text){(const char *)data, len} : (struct record_text){"", 0};
}

static struct record_text take_string(struct cursor *cursor)
{
    size_t len = take_number(cursor, 2);
    if (len > RECORD_STRING_MAX)
        cursor->failed = true;
    return take_text(cursor, len);
}

static struct cursor begin(const uint8_t *data, size_t len)
{
    struct cursor cursor = {data, data + len, false};
    if (take_number(&cursor, 1) != RECORD_FORMAT)
        cursor.failed = true;
    return cursor;
}

static bool is_over(const struct cursor *cursor)
{
    return !cursor->failed && cursor->at == cursor->end;
}

bool record_read_reservation(struct record_reservation *out, const uint8_t *data, size_t len)
{
    struct cursor cursor = begin(data, len);
    out->key_source = (enum store_key_source)take_number(&cursor, 1);
    take_bytes(&cursor, out->id.bytes, STORE_ID_LEN);
    take_bytes(&cursor, out->fingerprint, STORE_HASH_LEN);
    take_bytes(&cursor, out->content, STORE_HASH_LEN);
    out->created_ms = (int64_t)take_number(&cursor, 8);
    out->route = take_string(&cursor);
    out->scope_name = take_string(&cursor);
    out->task = take_string(&cursor);
    out->key = take_string(&cursor);
    return is_over(&cursor) && (out->key_source == STORE_KEY_SENT || out->key_source == STORE_KEY_DERIVED);
}

bool record_read_opening(struct record_opening *out, const uint8_t *data, size_t len)
{
    struct cursor cursor = begin(data, len);
    take_bytes(&cursor, out->id.bytes, STORE_ID_LEN);
    out->token = take_number(&cursor, 8);
    take_bytes(&cursor, out->boot, RECORD_BOOT_LEN);
    out->since_ms = (int64_t)take_number(&cursor, 8);
    out->unknown_retention_ms = (int64_t)take_number(&cursor, 8);
    return is_over(&cursor) && out->token != 0;
}

bool record_read_outcome(struct record_outcome *out, const uint8_t *data, size_t len)
{
    struct cursor cursor = begin(data, len);
    out->state = (enum store_state)take_number(&cursor, 1);
    out->reason = (enum store_reason)take_number(&cursor, 1);
    unsigned flags = (unsigned)take_number(&cursor, 1);
    out->has_response = flags & FLAG_RESPONSE;
    out->not_kept = flags & FLAG_NOT_KEPT;
    out->status = (uint16_t)take_number(&cursor, 2);
    out->executions = (uint32_t)take_number(&cursor, 4);
    out->token = take_number(&cursor, 8);
    out->since_ms = (int64_t)take_number(&cursor, 8);
    out->expires_ms = (int64_t)take_number(&cursor, 8);
    out->forwarded_until_ms = (int64_t)take_number(&cursor, 8);
    out->response_len = (uint32_t)take_number(&cursor, 4);
    out->decision = take_string(&cursor);
    bool inlined = out->has_response && record_response_inlined(out->response_len);
    out->inlined = take_text(&cursor, inlined ? out->response_len : 0);
    return is_over(&cursor) && (out->state == STORE_COMPLETED || out->state == STORE_UNKNOWN) &&
           out->reason <= STORE_REASON_PROBED && flags <= (FLAG_RESPONSE | FLAG_NOT_KEPT) &&
           (out->has_response || out->response_len == 0);
}

bool record_read_counters(struct record_counters *out, const uint8_t *data, size_t len)
{
    struct cursor cursor = begin(data, len);
    out->next_seq = take_number(&cursor, 8);
    out->next_token = take_number(&cursor, 8);
    out->newest_ms = (int64_t)take_number(&cursor, 8);
    out->completed = take_number(&cursor, 8);
    out->merged_seq = take_number(&cursor, 8);
    return is_over(&cursor) && out->next_token != 0;
}

bool record_read_scope(struct record_scope *out, const uint8_t *data, size_t len)
{
    struct cursor cursor = begin(data, len);
    take_bytes(&cursor, out->digest, STORE_HASH_LEN);
    out->expires_ms = (int64_t)take_number(&cursor, 8);
    return is_over(&cursor);
}
