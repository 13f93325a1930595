/*
 * http_fields.c - a complete head's lines become fields, and the few fields that matter to the connection are read.
 *
 * One pass: each line is split at its first colon, its name looked at, and what it says about framing, the connection,
 * the host and expectations is gathered in struct http_facts. The judgements follow in http_judge_framing (both
 * directions, contract §7) and in http_request.c and http_response.c. Invariant: at most one length or one coding
 * decides the framing, and it is read by our own rules alone.
 */
#include "proxy/http_internal.h"

#include <assert.h>

#define FIELDS_AT_FIRST 16

static void make_room(struct http_parser *parser, size_t count)
{
    size_t capacity = parser->capacity ? parser->capacity : FIELDS_AT_FIRST;

    while (capacity < count)
        capacity *= 2;
    if (capacity == parser->capacity)
        return;
    free(parser->fields);
    parser->fields = NEW_ARRAY(struct http_field, capacity);
    parser->capacity = capacity;
}

static void note_connection(struct http_facts *facts, struct span list)
{
    struct span option;

    while (http_next_member(&list, &option)) {
        facts->connection_options++;
        if (span_equal_nocase(option, SPAN("close")))
            facts->close = true;
        else if (span_equal_nocase(option, SPAN("keep-alive")))
            facts->keep_alive = true;
        else if (span_equal_nocase(option, SPAN("upgrade")))
            facts->connection_upgrade = true;
    }
}

static void note_expect(struct http_facts *facts, struct span list)
{
    struct span member;

    while (http_next_member(&list, &member)) {
        facts->expects = true;
        if (!span_equal_nocase(member, SPAN("100-continue")))
            facts->expects_other = true;
    }
    facts->expects_continue = facts->expects && !facts->expects_other;
}

/* timeout=N of a Keep-Alive field (RFC 2068 §19.7.1); nine digits are for ever. */
static void note_keep_alive(struct http_facts *facts, struct span list)
{
    static const struct span name = {"timeout=", 8};
    struct span member;

    while (http_next_member(&list, &member)) {
        struct span digits = {member.data + name.len, member.len - name.len};
        int64_t seconds = 0;

        if (member.len <= name.len || !span_equal_nocase((struct span){member.data, name.len}, name))
            continue;
        if (digits.len > 9 || !http_all(digits, HTTP_CHAR_DIGIT))
            continue;
        for (size_t i = 0; i < digits.len; i++)
            seconds = seconds * 10 + (digits.data[i] - '0');
        facts->keep_alive_timeout = seconds;
    }
}

/* `value` is trimmed of white space, `raw` still has it: a tab around a framing value is read differently by peers. */
static bool raw_clean(struct span raw)
{
    return raw.len == 0 || !memchr(raw.data, '\t', raw.len);
}

/* By length first: most names end here with one jump. */
static void note_field(struct http_facts *facts, const struct http_field *field, struct span raw)
{
    struct span name = field->name;

    switch (name.len) {
    case 4:
        if (span_equal_nocase(name, SPAN("Host"))) {
            facts->host_lines++;
            facts->host = field->value;
        }
        break;
    case 6:
        if (span_equal_nocase(name, SPAN("Expect")))
            note_expect(facts, field->value);
        break;
    case 7:
        if (span_equal_nocase(name, SPAN("Upgrade")))
            facts->upgrade = true;
        break;
    case 10:
        if (span_equal_nocase(name, SPAN("Connection")))
            note_connection(facts, field->value);
        else if (span_equal_nocase(name, SPAN("Keep-Alive")))
            note_keep_alive(facts, field->value);
        break;
    case 11:
        if (span_equal_nocase(name, SPAN("Retry-After")))
            facts->retry_after = true;
        break;
    case 14:
        if (span_equal_nocase(name, SPAN("Content-Length"))) {
            facts->length_lines++;
            facts->length = field->value;
            facts->length_is_raw_clean = raw_clean(raw);
        }
        break;
    case 17:
        if (span_equal_nocase(name, SPAN("Transfer-Encoding"))) {
            facts->coding_lines++;
            facts->coding = field->value;
            facts->coding_is_raw_clean = raw_clean(raw);
        }
        break;
    default:
        break;
    }
}

bool http_split_fields(struct http_parser *parser, const char *bytes, size_t head_len, struct http_facts *facts,
                       enum problem_code *problem)
{
    const char *line = bytes + parser->fields_begin, *end = bytes + head_len - 2;

    *facts = (struct http_facts){.keep_alive_timeout = -1};
    make_room(parser, parser->field_lines);
    for (size_t i = 0; i < parser->field_lines; i++) {
        const char *line_end =
            memchr(line, '\r', (size_t)(end - line)); /* the scan saw to it that a CRLF ends each line */
        const char *colon = memchr(line, ':', (size_t)(line_end - line));
        struct http_field *field = &parser->fields[i];
        struct span raw;

        if (!colon)
            return http_refuse(parser, problem, PROBLEM_BAD_REQUEST, "header line without a colon");
        field->name = (struct span){line, (size_t)(colon - line)};
        if (!http_is_token(field->name))
            return http_refuse(parser, problem, PROBLEM_BAD_REQUEST, "invalid header name");
        raw = (struct span){colon + 1, (size_t)(line_end - colon - 1)};
        field->value = span_trim(raw);
        note_field(facts, field, raw);
        line = line_end + 2;
    }
    assert(line == end);
    if (facts->connection_options > HTTP_MAX_CONNECTION_OPTIONS)
        return http_refuse(parser, problem, PROBLEM_BAD_REQUEST, "too many options in Connection");
    return true;
}

/* Digits only; leading zeros are harmless, as the number is written anew. Bounded so that sums of it cannot overflow.
 */
static bool parse_length(struct span text, uint64_t *length)
{
    uint64_t value = 0;

    if (text.len == 0 || text.len > 19 || !http_all(text, HTTP_CHAR_DIGIT))
        return false;
    for (size_t i = 0; i < text.len; i++)
        value = value * 10 + (uint64_t)(text.data[i] - '0');
    *length = value;
    return value <= INT64_MAX;
}

/* "gzip" or "gzip;q=1": exactly one coding, and not chunked. */
static bool is_one_other_coding(struct span coding)
{
    const char *semicolon = coding.len ? memchr(coding.data, ';', coding.len) : NULL;
    struct span name =
        span_trim((struct span){coding.data, semicolon ? (size_t)(semicolon - coding.data) : coding.len});

    return http_is_token(name) && !memchr(coding.data, ',', coding.len) && !span_equal_nocase(name, SPAN("chunked"));
}

bool http_judge_framing(struct http_parser *parser, const struct http_facts *facts, struct http_message *message,
                        enum problem_code *problem)
{
    if (facts->coding_lines) {
        if (facts->length_lines)
            return http_refuse(parser, problem, PROBLEM_BAD_REQUEST, "Content-Length with Transfer-Encoding");
        if (facts->coding_lines > 1)
            return http_refuse(parser, problem, PROBLEM_BAD_REQUEST, "repeated Transfer-Encoding");
        if (parser->minor == 0)
            return http_refuse(parser, problem, PROBLEM_BAD_REQUEST, "Transfer-Encoding in HTTP/1.0");
        if (is_one_other_coding(facts->coding))
            return http_refuse(parser, problem, PROBLEM_NOT_IMPLEMENTED, "transfer coding other than chunked");
        if (!facts->coding_is_raw_clean || !span_equal_nocase(facts->coding, SPAN("chunked")))
            return http_refuse(parser, problem, PROBLEM_BAD_REQUEST, "Transfer-Encoding is not chunked alone");
        message->framing = HTTP_CHUNKED;
        return true;
    }
    message->framing = HTTP_NO_BODY;
    if (facts->length_lines == 0)
        return true;
    if (facts->length_lines > 1)
        return http_refuse(parser, problem, PROBLEM_BAD_REQUEST, "repeated Content-Length");
    if (!facts->length_is_raw_clean || !parse_length(facts->length, &message->content_length))
        return http_refuse(parser, problem, PROBLEM_BAD_REQUEST, "malformed Content-Length");
    message->has_content_length = true;
    message->framing = HTTP_LENGTH;
    return true;
}
