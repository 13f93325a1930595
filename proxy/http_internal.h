/*
 * http_internal.h - private to the HTTP files: the parser's state and the steps that share it.
 *
 *     http.c           the parser's life and the order of the steps
 *     http_scan.c      raw bytes of a head, each looked at once: start line, line ends, limits
 *     http_request.c   what a complete request head means      http_response.c   the same of a response
 *     http_fields.c    splitting into fields, framing and connection fields of both directions
 *     http_grammar.c   llhttp as second reader (the only file that knows it)
 *     http_body.c      bodies
 */
#pragma once

#include "proxy/http.h"
#include "proxy/http_text.h"

/* Where the parser stands in its message. */
enum http_stage {
    STAGE_BEGIN, /* nothing but perhaps one CRLF */
    STAGE_METHOD,
    STAGE_TARGET,
    STAGE_VERSION, /* "HTTP/1.1" and the line's end */
    STAGE_STATUS,  /* "HTTP/1.1 200" */
    STAGE_REASON,
    STAGE_LINE_BEGIN, /* first byte of a field line, or the CRLF that ends the head */
    STAGE_LINE,
    STAGE_HEAD_END, /* head scanned, not yet judged */
    STAGE_BODY,
    STAGE_OVER, /* the message is complete */
    STAGE_REFUSED,
};

enum http_chunk_stage {
    CHUNK_SIZE,
    CHUNK_EXTENSION_BEGIN, /* right after ";" */
    CHUNK_EXTENSION_NAME,
    CHUNK_EXTENSION_VALUE, /* right after "=" */
    CHUNK_EXTENSION_TOKEN,
    CHUNK_EXTENSION_QUOTED,
    CHUNK_EXTENSION_ESCAPED,    /* after a backslash */
    CHUNK_EXTENSION_QUOTED_END, /* after the closing quote */
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_TRAILER_BEGIN,
    CHUNK_TRAILER_NAME,
    CHUNK_TRAILER_VALUE,
    CHUNK_TRAILER_LF,
    CHUNK_LAST_LF,
};

struct http_parser {
    enum http_kind kind;
    struct http_limits limits, next_limits; /* next_limits: from the next message on */
    enum http_stage stage;
    bool no_body_expected; /* the request was HEAD */
    bool interim;          /* the message in hand is a 1xx */
    const char *refusal;

    /* Offsets into the message: the caller's memory may move between calls. */
    size_t scanned; /* everything before has been judged */
    size_t start;   /* of the start line; 2 after a leading CRLF */
    size_t target, target_end;
    size_t text; /* version or status being compared: its begin; then begin of the reason */
    size_t reason_end;
    size_t fields_begin; /* first byte after the start line */
    size_t field_lines;
    enum http_method method;
    uint8_t minor;
    uint16_t status;

    /* Body. */
    enum http_framing framing;
    uint64_t remaining; /* of the body (HTTP_LENGTH) or of the chunk */
    enum http_chunk_stage chunk;
    unsigned chunk_digits;
    size_t extension_bytes, trailer_bytes, trailer_lines;

    struct http_field *fields;
    size_t capacity;
};

/* All ways out of the parser lead here: what the answer is and why. Returns false. */
bool http_refuse(struct http_parser *parser, enum problem_code *problem, enum problem_code code, const char *why);

/* Scans on from parser->scanned. True: the stage says whether the head's end was found. False: refused. */
bool http_scan(struct http_parser *parser, const char *bytes, size_t len, enum problem_code *problem);

/* What the fields of a head say that matters to us; found in one pass. */
struct http_facts {
    size_t host_lines, length_lines, coding_lines;
    struct span host, length, coding;
    bool coding_is_raw_clean, length_is_raw_clean; /* no tab around the value */
    size_t connection_options;
    bool close, keep_alive, connection_upgrade;
    bool upgrade, expects, expects_continue, expects_other;
    bool retry_after;
    int64_t keep_alive_timeout;
};
/* Splits the field lines of a complete head into parser->fields and gathers the facts. */
bool http_split_fields(struct http_parser *parser, const char *bytes, size_t head_len, struct http_facts *facts,
                       enum problem_code *problem);
/* Content-Length and Transfer-Encoding, the same rules in both directions; fills framing, content_length,
 * has_content_length of *message (HTTP_NO_BODY where neither is there). */
bool http_judge_framing(struct http_parser *parser, const struct http_facts *facts, struct http_message *message,
                        enum problem_code *problem);

bool http_judge_request(struct http_parser *parser, const char *bytes, const struct http_facts *facts,
                        struct http_message *message, enum problem_code *problem);
bool http_judge_response(struct http_parser *parser, const char *bytes, const struct http_facts *facts,
                         struct http_message *message, enum problem_code *problem);

/* Finds a method of our list; false: not one of it. */
bool http_method_find(struct span method, enum http_method *found);
#define HTTP_METHOD_MAX 11 /* bytes of the longest one, UNSUBSCRIBE */
