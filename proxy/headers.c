/*
 * headers.c - PURE. Which header fields pass where: the table of rows and the choices that are made with it.
 *
 * A field's row is found by one look-up: the slot is computed from the name's length, first and last letter, and the
 * table is laid out by the same expression. Two names of one slot do not compile (a designated initialiser would
 * override another). Invariant: framing never passes; what Connection names never takes away what einmal relies on
 * (case H12). Left out: writing, which is headers_write.c's.
 */
#include "proxy/headers_internal.h"

#include <assert.h>

#define SLOTS                  64
#define SLOT(len, first, last) (((len)*3u + (unsigned)((first) | 0x20) * 11u + (unsigned)((last) | 0x20)) % SLOTS)
#define ROW(first, name, last, rules, meaning) \
    [SLOT(sizeof(name) - 1, first, last)] = {{name, sizeof(name) - 1}, rules, meaning}

#define REQUEST  HEADER_DROP_REQUEST
#define RESPONSE HEADER_DROP_RESPONSE
#define RECORD   HEADER_DROP_RECORD
#define FIXED    HEADER_NOT_NOMINABLE
#define HOP      (REQUEST | RESPONSE | RECORD)

/* Hop-by-hop: RFC 9110 §7.6.1. Proxy-Authenticate and Proxy-Authorization pass, as that section and nginx let them:
 * einmal takes no part in that authentication. HTTP2-Settings belongs to an Upgrade that is not taken (RFC 7540
 * §3.2.1). */
static const struct header_row rows[SLOTS] = {
    ROW('c', "Connection", 'n', HOP | FIXED, HEADER_PLAIN),
    ROW('k', "Keep-Alive", 'e', HOP, HEADER_PLAIN),
    ROW('p', "Proxy-Connection", 'n', HOP, HEADER_PLAIN),
    ROW('t', "TE", 'e', HOP, HEADER_PLAIN),
    ROW('t', "Trailer", 'r', HOP, HEADER_PLAIN),
    ROW('u', "Upgrade", 'e', HOP, HEADER_PLAIN),
    ROW('t', "Transfer-Encoding", 'g', HOP | FIXED, HEADER_PLAIN),
    ROW('c', "Content-Length", 'h', HOP | FIXED, HEADER_PLAIN),
    ROW('e', "Expect", 't', REQUEST, HEADER_PLAIN),
    ROW('h', "HTTP2-Settings", 's', REQUEST, HEADER_PLAIN),
    ROW('h', "Host", 't', REQUEST | FIXED, HEADER_PLAIN),
    ROW('a', "Authorization", 'n', FIXED, HEADER_PLAIN),
    ROW('p', "Proxy-Authorization", 'n', FIXED, HEADER_PLAIN),
    ROW('i', "Idempotency-Key", 'y', FIXED, HEADER_KEY),
    ROW('i', "Idempotency-Degraded", 'd', RESPONSE | RECORD, HEADER_PLAIN),
    ROW('x', "X-Forwarded-For", 'r', 0, HEADER_FORWARDED_FOR),
    ROW('x', "X-Forwarded-Proto", 'o', 0, HEADER_FORWARDED_PROTO),
    ROW('x', "X-Forwarded-Host", 't', 0, HEADER_FORWARDED_HOST),
    ROW('f', "Forwarded", 'd', 0, HEADER_FORWARDED),
    ROW('x', "X-Request-Id", 'd', 0, HEADER_REQUEST_ID),
    ROW('d', "Date", 'e', 0, HEADER_DATE),
};

const struct header_row *header_row(struct span name)
{
    static const struct header_row none;
    const struct header_row *row;

    if (name.len == 0)
        return &none;
    row = &rows[SLOT(name.len, (unsigned char)name.data[0], (unsigned char)name.data[name.len - 1])];
    return span_equal_nocase(row->name, name) ? row : &none;
}

unsigned header_rules(struct span name)
{
    return header_row(name)->rules;
}

void nominations_collect(struct nominations *nominations, const struct http_message *message)
{
    nominations->count = 0;
    for (size_t i = 0; i < message->field_count; i++) {
        struct span list = message->fields[i].value, option;

        if (!span_equal_nocase(message->fields[i].name, SPAN("Connection")))
            continue;
        while (http_next_member(&list, &option)) {
            if (header_rules(option) || span_equal_nocase(option, SPAN("close")))
                continue;                                             /* dropped anyway, or not to be dropped */
            assert(nominations->count < HTTP_MAX_CONNECTION_OPTIONS); /* http.c refuses more */
            nominations->options[nominations->count++] = option;
        }
    }
}

bool nominations_have(const struct nominations *nominations, struct span name)
{
    for (size_t i = 0; i < nominations->count; i++)
        if (span_equal_nocase(nominations->options[i], name))
            return true;
    return false;
}

size_t headers_select_response(const struct http_message *message, const char *replayed_header,
                               struct http_field *fields)
{
    struct span marker = span_of(replayed_header);
    struct nominations nominations;
    size_t count = 0;

    nominations_collect(&nominations, message);
    for (size_t i = 0; i < message->field_count; i++) {
        struct span name = message->fields[i].name;

        if (header_rules(name) & HEADER_DROP_RESPONSE)
            continue;
        if (marker.len && span_equal_nocase(name, marker))
            continue;
        if (nominations_have(&nominations, name))
            continue;
        fields[count++] = message->fields[i];
    }
    return count;
}

static bool listed(char *const *names, struct span name)
{
    for (; names && *names; names++)
        if (span_equal_nocase(span_of(*names), name))
            return true;
    return false;
}

size_t headers_select_record(struct http_field *fields, size_t count, char *const *drop)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (!(header_rules(fields[i].name) & HEADER_DROP_RECORD) && !listed(drop, fields[i].name))
            fields[kept++] = fields[i];
    return kept;
}

bool request_id_valid(struct span value)
{
    return value.len >= 1 && value.len <= 128 && http_all(value, HTTP_CHAR_REQUEST_ID);
}
