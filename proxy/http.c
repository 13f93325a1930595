/*
 * http.c - the parser's life: one message after another of one direction of one connection.
 *
 * A head is scanned as it comes (http_scan.c); once its end is there, it is judged in one piece: fields, start line,
 * framing, and llhttp as a second reader. The parser keeps offsets, never pointers, until then: the caller's memory may
 * move. Invariant: a refused parser stays refused; the fields of a message live until http_next. Left out: memory of
 * the bytes, timeouts, what becomes of a message.
 */
#include "proxy/http.h"

#include <assert.h>

#include "proxy/http_grammar.h"
#include "proxy/http_internal.h"

/* Kept over http_next: a connection's usual messages need no memory of their own, and an idle one holds 1 KiB at most.
 */
#define FIELDS_KEPT 32

struct http_parser *http_parser_new(enum http_kind kind, const struct http_limits *limits)
{
    struct http_parser *parser = NEW(struct http_parser);

    parser->kind = kind;
    http_set_limits(parser, limits);
    parser->limits = parser->next_limits;
    return parser;
}

void http_parser_free(struct http_parser *parser)
{
    if (!parser)
        return;
    free(parser->fields);
    free(parser);
}

void http_set_limits(struct http_parser *parser, const struct http_limits *limits)
{
    assert(limits->headers <= HTTP_MAX_FIELDS);
    parser->next_limits = *limits;
}

bool http_refuse(struct http_parser *parser, enum problem_code *problem, enum problem_code code, const char *why)
{
    parser->stage = STAGE_REFUSED;
    parser->refusal = why;
    if (problem)
        *problem = parser->kind == HTTP_RESPONSES ? PROBLEM_UPSTREAM_INVALID : code;
    return false;
}

const char *http_refusal(const struct http_parser *parser)
{
    return parser->refusal ? parser->refusal : "not refused";
}

bool http_started(const struct http_parser *parser)
{
    return parser->stage != STAGE_BEGIN;
}

void http_expect_no_body(struct http_parser *parser)
{
    assert(parser->kind == HTTP_RESPONSES);
    parser->no_body_expected = true;
}

/* The head is complete: what does it say? */
static bool judge(struct http_parser *parser, const char *bytes, size_t head_len, struct http_message *message,
                  enum problem_code *problem)
{
    struct span head = {bytes + parser->start, head_len - parser->start};
    struct http_facts facts;

    *message = (struct http_message){.minor = parser->minor, .raw = head};
    if (!http_split_fields(parser, bytes, head_len, &facts, problem))
        return false;
    message->fields = parser->fields;
    message->field_count = parser->field_lines;
    message->keep_alive_timeout = facts.keep_alive_timeout;
    message->keep_alive = !facts.close && (parser->minor == 1 || facts.keep_alive);
    message->upgrade = facts.upgrade && facts.connection_upgrade;
    if (parser->kind == HTTP_REQUESTS) {
        if (!http_judge_request(parser, bytes, &facts, message, problem))
            return false;
    } else if (!http_judge_response(parser, bytes, &facts, message, problem)) {
        return false;
    }
    if (!http_grammar_agrees(parser->kind == HTTP_RESPONSES, head, parser->fields, parser->field_lines))
        return http_refuse(parser, problem, PROBLEM_BAD_REQUEST, "malformed head");
    return true;
}

enum http_head_verdict http_read_head(struct http_parser *parser, const char *bytes, size_t len, size_t *used,
                                      struct http_message *message, enum problem_code *problem)
{
    assert(parser->stage < STAGE_HEAD_END);
    if (!http_scan(parser, bytes, len, problem))
        return HTTP_HEAD_REFUSED;
    if (parser->stage != STAGE_HEAD_END)
        return HTTP_HEAD_MORE;
    if (!judge(parser, bytes, parser->scanned, message, problem))
        return HTTP_HEAD_REFUSED;
    *used = parser->scanned;
    parser->framing = message->framing;
    parser->remaining = message->framing == HTTP_LENGTH ? message->content_length : 0;
    parser->stage = STAGE_BODY;
    return HTTP_HEAD_READY;
}

void http_next(struct http_parser *parser)
{
    bool small = parser->capacity <= FIELDS_KEPT;

    assert(parser->stage == STAGE_OVER);
    if (!small)
        free(parser->fields);
    *parser = (struct http_parser){
        .kind = parser->kind,
        .limits = parser->next_limits,
        .next_limits = parser->next_limits,
        .no_body_expected = parser->no_body_expected && parser->interim,
        .fields = small ? parser->fields : NULL,
        .capacity = small ? parser->capacity : 0,
    };
}

void http_switch(struct http_parser *parser)
{
    assert(parser->stage == STAGE_BODY || parser->stage == STAGE_OVER);
    assert(parser->framing != HTTP_CHUNKED && parser->remaining == 0);
    parser->framing = HTTP_UNTIL_CLOSE;
    parser->stage = STAGE_BODY;
}

size_t http_message_size(const struct http_message *message)
{
    return message->field_count * sizeof(struct http_field) + message->raw.len;
}

/* A span into `from` becomes the same one into the copy; one that points elsewhere is a literal and stays. */
static struct span follow(struct span span, struct span from, const char *to)
{
    uintptr_t offset = (uintptr_t)span.data - (uintptr_t)from.data;

    return offset <= from.len ? (struct span){to + offset, span.len} : span;
}

void http_message_copy(struct http_message *to, const struct http_message *from, void *memory)
{
    struct http_field *fields = memory;
    struct span raw = from->raw;
    char *bytes = (char *)(fields + from->field_count);

    memcpy(bytes, raw.data, raw.len);
    *to = *from;
    to->raw.data = bytes;
    to->fields = fields;
    to->method = follow(from->method, raw, bytes);
    to->target = follow(from->target, raw, bytes);
    to->path = follow(from->path, raw, bytes);
    to->query = follow(from->query, raw, bytes);
    to->host = follow(from->host, raw, bytes);
    to->reason = follow(from->reason, raw, bytes);
    for (size_t i = 0; i < from->field_count; i++) {
        fields[i].name = follow(from->fields[i].name, raw, bytes);
        fields[i].value = follow(from->fields[i].value, raw, bytes);
    }
}

const struct http_field *http_find(const struct http_message *message, struct span name)
{
    for (size_t i = 0; i < message->field_count; i++)
        if (span_equal_nocase(message->fields[i].name, name))
            return &message->fields[i];
    return NULL;
}

size_t http_count(const struct http_message *message, struct span name)
{
    size_t count = 0;

    for (size_t i = 0; i < message->field_count; i++)
        count += span_equal_nocase(message->fields[i].name, name);
    return count;
}

bool http_has_type(const struct http_message *message, struct span type)
{
    const struct http_field *field = http_find(message, SPAN("Content-Type"));

    if (!field || http_count(message, SPAN("Content-Type")) != 1)
        return false;
    struct span value = field->value;
    const char *semicolon = value.len ? memchr(value.data, ';', value.len) : NULL;
    if (semicolon)
        value.len = (size_t)(semicolon - value.data);
    return span_equal_nocase(span_trim(value), type);
}

size_t http_chunk_head(char out[HTTP_CHUNK_HEAD_MAX], size_t len)
{
    size_t digits = 1;

    while (digits < 2 * sizeof len && len >> (4 * digits))
        digits++;
    for (size_t i = 0; i < digits; i++)
        out[i] = "0123456789ABCDEF"[len >> (4 * (digits - 1 - i)) & 15];
    out[digits] = '\r';
    out[digits + 1] = '\n';
    return digits + 2;
}
