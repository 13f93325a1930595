/*
 * headers_write.c - PURE. Heads as they go on the wire: to the API and to the client.
 *
 * Each head is measured first and then written in one go into memory that was reserved once: a proxied request costs
 * two passes over its fields and no more. Fields keep their order; what einmal adds comes after them, but for Host,
 * which comes first. Invariant: no name or value that leaves here holds CR, LF or NUL (case H05). Asserted for each,
 * also in release: a value that breaks it would let one client write another's response. Left out: which fields are
 * end-to-end in a response (headers.c), bodies and their framing (the connections).
 */
#include "proxy/headers_internal.h"

#include <assert.h>

#define NUMBER_MAX 20 /* digits of 2^64 - 1 */
#define DATE_LEN   29 /* "Sun, 06 Nov 1994 08:49:37 GMT" */

static const struct span crlf = {"\r\n", 2}, colon = {": ", 2};

/* Writing into reserved room: `end` only watches that the measure was right. */
struct pen {
    char *at, *end;
};

static inline void put(struct pen *pen, struct span text)
{
    assert(text.len <= (size_t)(pen->end - pen->at));
    if (text.len)
        memcpy(pen->at, text.data, text.len);
    pen->at += text.len;
}

static void put_text(struct pen *pen, struct span text)
{
    assert(http_field_text_clean(text));
    put(pen, text);
}

static void put_value(struct pen *pen, struct span value)
{
    put_text(pen, value);
    put(pen, crlf);
}

static void put_field(struct pen *pen, struct span name, struct span value)
{
    assert(name.len);
    put_text(pen, name);
    put(pen, colon);
    put_value(pen, value);
}

static struct span number_text(uint64_t number, char memory[NUMBER_MAX])
{
    char *at = memory + NUMBER_MAX;

    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    return (struct span){at, (size_t)(memory + NUMBER_MAX - at)};
}

static void put_length(struct pen *pen, uint64_t length)
{
    char memory[NUMBER_MAX];

    put(pen, SPAN("Content-Length: "));
    put(pen, number_text(length, memory));
    put(pen, crlf);
}

static struct pen pen_open(struct buffer *out, size_t size)
{
    char *at = buffer_reserve(out, size);

    return (struct pen){at, at + size};
}

static void pen_close(struct buffer *out, const struct pen *pen)
{
    buffer_commit(out, (size_t)(pen->at - (out->memory + out->end)));
}

static size_t fields_size(const struct http_field *fields, size_t count)
{
    size_t size = 0;

    for (size_t i = 0; i < count; i++)
        size += fields[i].name.len + fields[i].value.len + colon.len + crlf.len;
    return size;
}

/* ---- requests --------------------------------------------------------------------------------- */

/* What was seen while the fields were written and decides what is added. */
struct seen {
    bool forwarded_for, forwarded_proto, forwarded_host;
};

static struct span host_of(const struct forward_head *head)
{
    if (head->upstream->host_header)
        return span_of(head->upstream->host_header);
    return head->message->host.len ? head->message->host : span_of(head->upstream->authority);
}

/* Every X-Forwarded-… goes where they are set anew, also those that we do not set: they came from the same hand. */
static bool is_replaced(const struct header_row *row, struct span name)
{
    return row->meaning == HEADER_FORWARDED ||
           (name.len > 12 && span_equal_nocase((struct span){name.data, 12}, SPAN("X-Forwarded-")));
}

/* Does this field of the client go on as it is? Notes in *seen what is there. */
static bool request_field_passes(const struct forward_head *head, const struct nominations *nominations,
                                 const struct http_field *field, struct seen *seen)
{
    const struct header_row *row = header_row(field->name);
    bool is_key = row->meaning == HEADER_KEY || span_equal_nocase(field->name, head->key_header);

    if (row->rules & HEADER_DROP_REQUEST)
        return false;
    if (is_key)
        return head->derived_key.len == 0;
    if (row->meaning == HEADER_REQUEST_ID && head->request_id.len)
        return false;
    if (head->forwarded == FORWARDED_REPLACE && is_replaced(row, field->name))
        return false;
    if (nominations->count && nominations_have(nominations, field->name))
        return false;
    if (head->forwarded == FORWARDED_PASS)
        return true;
    if (row->meaning == HEADER_FORWARDED_FOR) {
        seen->forwarded_for = true;
        return false; /* all of them become one, with the peer at the end */
    }
    seen->forwarded_proto |= row->meaning == HEADER_FORWARDED_PROTO;
    seen->forwarded_host |= row->meaning == HEADER_FORWARDED_HOST;
    return true;
}

static void put_forwarded_for(struct pen *pen, const struct forward_head *head, bool chain)
{
    put(pen, SPAN("X-Forwarded-For: "));
    for (size_t i = 0; chain && i < head->message->field_count; i++) {
        const struct http_field *field = &head->message->fields[i];

        if (field->value.len == 0 || header_row(field->name)->meaning != HEADER_FORWARDED_FOR)
            continue;
        put_text(pen, field->value);
        put(pen, SPAN(", "));
    }
    put_text(pen, head->client_address);
    put(pen, crlf);
}

static void put_forwarded(struct pen *pen, const struct forward_head *head, const struct seen *seen)
{
    if (head->forwarded == FORWARDED_PASS)
        return;
    put_forwarded_for(pen, head, seen->forwarded_for);
    if (!seen->forwarded_proto)
        put(pen, head->client_tls ? SPAN("X-Forwarded-Proto: https\r\n") : SPAN("X-Forwarded-Proto: http\r\n"));
    if (!seen->forwarded_host && head->message->host.len) {
        put(pen, SPAN("X-Forwarded-Host: "));
        put_value(pen, head->message->host);
    }
}

/* POST, PUT and PATCH without a body say so (RFC 9110 §8.6); others stay without framing. */
static void put_request_framing(struct pen *pen, const struct forward_head *head)
{
    const struct http_message *message = head->message;
    bool expects_body =
        message->method_id == HTTP_POST || message->method_id == HTTP_PUT || message->method_id == HTTP_PATCH;

    if (head->whole_body && (head->body_len || message->framing != HTTP_NO_BODY || expects_body))
        put_length(pen, head->body_len);
    else if (head->whole_body)
        return;
    else if (message->framing == HTTP_LENGTH)
        put_length(pen, message->content_length);
    else if (message->framing == HTTP_CHUNKED)
        put(pen, SPAN("Transfer-Encoding: chunked\r\n"));
    else if (expects_body)
        put_length(pen, 0);
}

static void put_upgrade_offer(struct pen *pen, const struct http_message *message)
{
    put(pen, SPAN("Connection: upgrade\r\n"));
    for (size_t i = 0; i < message->field_count; i++)
        if (span_equal_nocase(message->fields[i].name, SPAN("Upgrade")))
            put_field(pen, SPAN("Upgrade"), message->fields[i].value);
}

static void put_request_additions(struct pen *pen, const struct forward_head *head, const struct seen *seen)
{
    put_forwarded(pen, head, seen);
    if (head->request_id.len) {
        put(pen, SPAN("X-Request-Id: "));
        put_value(pen, head->request_id);
    }
    if (head->derived_key.len) {
        put(pen, SPAN("Idempotency-Key: \""));
        put_text(pen, head->derived_key);
        put(pen, SPAN("\"\r\n"));
    }
    if (head->via)
        put(pen, head->message->minor == 0 ? SPAN("Via: 1.0 einmal\r\n") : SPAN("Via: 1.1 einmal\r\n"));
    if (head->pass_expect && head->message->expect_continue)
        put(pen, SPAN("Expect: 100-continue\r\n"));
    if (head->upgrade)
        put_upgrade_offer(pen, head->message);
    put_request_framing(pen, head);
    put(pen, crlf);
}

void headers_write_request(struct buffer *out, const struct forward_head *head)
{
    const struct http_message *message = head->message;
    struct span host = host_of(head);
    struct nominations nominations;
    struct seen seen = {false, false, false};
    /* Room for everything that may be added; the X-Forwarded-For chain needs a ", " where each field had its name. */
    size_t room = 512 + message->method.len + message->target.len + host.len + message->host.len +
                  head->client_address.len + head->request_id.len + head->derived_key.len +
                  fields_size(message->fields, message->field_count);
    struct pen pen = pen_open(out, room);

    assert(message->target.len);
    nominations_collect(&nominations, message);
    put_text(&pen, message->method);
    put(&pen, message->target.data[0] == '?' ? SPAN(" /") : SPAN(" "));
    put_text(&pen, message->target);
    put(&pen, SPAN(" HTTP/1.1\r\nHost: "));
    put_value(&pen, host);
    for (size_t i = 0; i < message->field_count; i++)
        if (request_field_passes(head, &nominations, &message->fields[i], &seen))
            put_field(&pen, message->fields[i].name, message->fields[i].value);
    put_request_additions(&pen, head, &seen);
    pen_close(out, &pen);
}

/* ---- responses -------------------------------------------------------------------------------- */

/* Two digits, zero-padded. */
static char *two(char *to, unsigned number)
{
    to[0] = (char)('0' + number / 10 % 10);
    to[1] = (char)('0' + number % 10);
    return to + 2;
}

/* IMF-fixdate (RFC 9110 §5.6.7) of a time since 1970. Days are counted in years that begin in March, so that the leap
 * day comes last: day d of such a year falls into month (5d + 2) / 153. */
static struct span date_text(int64_t time, char memory[DATE_LEN])
{
    static const char days[] = "ThuFriSatSunMonTueWed", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    unsigned seconds = (unsigned)(time % 86400), day = (unsigned)(time / 86400) + 719468; /* since 1 March of year 0 */
    unsigned era = day / 146097, of_era = day % 146097;
    unsigned year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned march_month = (5 * of_year + 2) / 153, month = (march_month + 2) % 12; /* 0 = January */
    unsigned year = era * 400 + year_of_era + (month < 2);
    char *at = memory;

    assert(time > 0 && time < INT64_C(253402300800)); /* before the year 10000 */
    memcpy(at, days + time / 86400 % 7 * 3, 3);
    memcpy(at + 3, ", ", 2);
    at = two(at + 5, of_year - (153 * march_month + 2) / 5 + 1);
    *at = ' ';
    memcpy(at + 1, months + month * 3, 3);
    at[4] = ' ';
    at = two(two(at + 5, year / 100), year % 100);
    *at = ' ';
    at = two(at + 1, seconds / 3600);
    *at = ':';
    at = two(at + 1, seconds / 60 % 60);
    *at = ':';
    at = two(at + 1, seconds % 60);
    memcpy(at, " GMT", 4);
    return (struct span){memory, DATE_LEN};
}

/* The parts' own fields; a fresh Date takes the place of theirs. Notes whether they hold a request id. */
static void put_parts(struct pen *pen, const struct response_head *head, struct span date, bool *has_request_id)
{
    bool dated = date.len == 0;

    for (size_t i = 0; i < head->parts.field_count; i++) {
        const struct http_field *field = &head->parts.fields[i];
        enum header_meaning meaning = header_row(field->name)->meaning;

        *has_request_id |= meaning == HEADER_REQUEST_ID;
        if (meaning != HEADER_DATE || date.len == 0) {
            put_field(pen, field->name, field->value);
        } else if (!dated) {
            put_field(pen, field->name, date);
            dated = true;
        }
    }
    if (!dated)
        put_field(pen, SPAN("Date"), date);
}

static void put_response_framing(struct pen *pen, const struct response_head *head)
{
    switch (head->framing) {
    case RESPONSE_NO_BODY:
        if (head->write_length_without_body)
            put_length(pen, head->length);
        break;
    case RESPONSE_LENGTH:
        put_length(pen, head->length);
        break;
    case RESPONSE_CHUNKED:
        assert(head->client_minor == 1);
        put(pen, SPAN("Transfer-Encoding: chunked\r\n"));
        break;
    case RESPONSE_UNTIL_CLOSE:
        assert(!head->keep_alive);
        break;
    }
}

static void put_status_line(struct pen *pen, const struct response_parts *parts)
{
    char memory[NUMBER_MAX];

    assert(parts->status >= 100 && parts->status <= 999);
    put(pen, SPAN("HTTP/1.1 "));
    put(pen, number_text(parts->status, memory));
    put(pen, SPAN(" "));
    put_text(pen, parts->reason);
    put(pen, crlf);
}

void headers_write_response(struct buffer *out, const struct response_head *head)
{
    struct span replayed = span_of(head->replayed_header), date = {NULL, 0};
    size_t room = 512 + head->parts.reason.len + head->request_id.len + replayed.len + head->upgrade.len +
                  fields_size(head->parts.fields, head->parts.field_count);
    struct pen pen = pen_open(out, room);
    char date_memory[DATE_LEN];
    bool has_request_id = false;

    if (head->date)
        date = date_text(head->date, date_memory);
    put_status_line(&pen, &head->parts);
    put_parts(&pen, head, date, &has_request_id);
    if (head->request_id.len && !has_request_id) {
        put(&pen, SPAN("X-Request-Id: "));
        put_value(&pen, head->request_id);
    }
    if (replayed.len)
        put_field(&pen, replayed, SPAN("true"));
    if (head->degraded)
        put(&pen, SPAN("Idempotency-Degraded: true\r\n"));
    put_response_framing(&pen, head);
    if (head->parts.status >= 200) { /* of a 1xx the connection is not ended: RFC 9110 §15.2 */
        if (!head->keep_alive)
            put(&pen, SPAN("Connection: close\r\n"));
        else if (head->client_minor == 0)
            put(&pen, SPAN("Connection: keep-alive\r\n"));
    } else if (head->upgrade.len) {
        put(&pen, SPAN("Connection: upgrade\r\n"));
        put_field(&pen, SPAN("Upgrade"), head->upgrade);
    }
    put(&pen, crlf);
    pen_close(out, &pen);
}
