/*
 * http.h - bytes to messages (RFC 9112), and our own framing on the way out.
 *
 * A parser serves one direction of one connection, message after message. A head is parsed only when it is complete in
 * one piece: the caller keeps the bytes in one buffer and calls again with more. So every name and value is one slice
 * of that buffer and nothing is allocated per header. What is ambiguous is refused (contract §7): by our own checks of
 * the raw head (bare CR or LF, folding, versions, lengths, codings, Host, counts and sizes), and llhttp in strict mode
 * must read the same fields out of it.
 *
 *     http_read_head → MORE … → HEAD → http_read_body → MORE … → END → http_next → http_read_head …
 *
 * The caller owns the bytes; spans live as long as they do.
 */
#pragma once

#include "proxy/buffer.h"
#include "proxy/http_field.h"
#include "proxy/problem.h"
#include "proxy/span.h"

struct http_parser;

enum http_kind { HTTP_REQUESTS, HTTP_RESPONSES };

/* Our own fixed list (contract §5, 501) that llhttp 8.1 and 9.x both know. */
enum http_method {
    HTTP_GET,
    HTTP_HEAD_METHOD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_TRACE,
    HTTP_PATCH,
    HTTP_OTHER_METHOD, /* PROPFIND, REPORT, PURGE … : in `method` as text */
};

enum http_framing {
    HTTP_NO_BODY, /* none can follow: no framing field in a request; HEAD, 1xx, 204, 304 in a response */
    HTTP_LENGTH,  /* content_length (may be 0) */
    HTTP_CHUNKED,
    HTTP_UNTIL_CLOSE, /* responses, and both directions of a tunnel */
};

#define HTTP_MAX_FIELDS             256 /* limits.headers may not exceed it */
#define HTTP_MAX_CONNECTION_OPTIONS 64  /* options in all Connection fields of a message: more is refused */

struct http_message {
    /* request */
    enum http_method method_id;
    struct span method, target; /* target as it came; of absolute-form only its origin-form: "/" where empty ("*" with
                                   OPTIONS), and "?q" for "http://h?q", before which the writer puts the "/" */
    struct span path, query;    /* of the origin-form; query without "?"; has_query tells "?" with nothing from none */
    bool has_query;
    struct span host;     /* authority of absolute-form, else Host, as it came; empty: HTTP/1.0 without Host */
    bool expect_continue; /* Expect: 100-continue in HTTP/1.1 */
    /* response */
    uint16_t status;
    struct span reason;
    bool has_retry_after;
    int64_t keep_alive_timeout; /* seconds of Keep-Alive: timeout=N; -1: not said */
    /* both */
    uint8_t minor; /* HTTP/1.minor: 0 or 1 */
    enum http_framing framing;
    uint64_t content_length; /* HTTP_LENGTH; for HEAD responses what the field says, if has_content_length */
    bool has_content_length;
    bool keep_alive;           /* may the connection be used again after this message, as far as the peer says */
    bool upgrade;              /* Upgrade and Connection: upgrade */
    struct http_field *fields; /* in order, all of them */
    size_t field_count;
    struct span raw; /* the head's bytes: all spans lie in them, but for those that stand for what was left out */
};

struct http_limits {
    uint32_t header_bytes, headers, request_target;
};

struct http_parser *http_parser_new(enum http_kind kind, const struct http_limits *limits);
void http_parser_free(struct http_parser *parser);
/* From the next message on (reload). */
void http_set_limits(struct http_parser *parser, const struct http_limits *limits);

/* Is it in our own list of methods? CONNECT is not. For the configuration's check, too. */
bool http_method_known(struct span method);

enum http_head_verdict { HTTP_HEAD_MORE, HTTP_HEAD_READY, HTTP_HEAD_REFUSED };

/*
 * `bytes` starts at the first byte of the message (one leading CRLF is skipped before a request) and holds all that
 * came so far. READY: *used is the head's length, *message is filled (its fields array belongs to the parser and lives
 * until http_next). REFUSED: *problem is the answer (responses: always PROBLEM_UPSTREAM_INVALID), http_refusal() says
 * why in words; the parser is of no further use. MORE is bounded by the limits: beyond them it is REFUSED. Scans each
 * byte once.
 */
enum http_head_verdict http_read_head(struct http_parser *parser, const char *bytes, size_t len, size_t *used,
                                      struct http_message *message, enum problem_code *problem);
const char *http_refusal(const struct http_parser *parser);

/* Has any byte of a message been seen since http_next (a lone leading CRLF does not count). */
bool http_started(const struct http_parser *parser);

/* Responses: the request was HEAD, so no body follows. Call before http_read_head; it outlasts 1xx and ends with the
 * final response. */
void http_expect_no_body(struct http_parser *parser);

enum http_body_verdict { HTTP_BODY_MORE, HTTP_BODY_END, HTTP_BODY_REFUSED };
typedef void http_body_cb(void *arg, const char *data, size_t len);

/*
 * Feeds bytes of the body; `body` is called for each piece of content (chunk framing removed, trailers dropped, chunk
 * extensions bounded). *used tells how many bytes belong to this message. END at once for a message without body, also
 * with len 0. Responses until close end by http_read_end.
 */
enum http_body_verdict http_read_body(struct http_parser *parser, const char *bytes, size_t len, size_t *used,
                                      http_body_cb *body, void *arg);
/* How many of the next bytes are content and nothing else, so that they need not be looked at; not told of the last
 * ones of a message, of chunks, and outside of a body (0). After http_skip_body they count as read. */
uint64_t http_plain_body(const struct http_parser *parser);
void http_skip_body(struct http_parser *parser, size_t len);
/* The peer closed: true if that completes the message (HTTP_UNTIL_CLOSE in its body), false if it is truncated. */
bool http_read_end(struct http_parser *parser);
void http_next(struct http_parser *parser); /* after END: ready for the next message; fields of the last one are gone */

/* Upgrade (RFC 9110 §7.8). Does this request offer to become a tunnel: HTTP/1.1, no body, and no protocol that would
 * carry requests past us? */
bool http_upgrade_offered(const struct http_message *request);
/* Does this 101 take up what was offered? */
bool http_upgrade_answers(const struct http_message *request, const struct http_message *response);
/* After the head of an upgrade, or of the 101 to it: all that follows in this direction is another protocol's. It is
 * handed on as a body that ends with the connection. */
void http_switch(struct http_parser *parser);

/* A copy of a message that was read, whose spans and fields live in `memory`: of http_message_size bytes, aligned for
 * pointers, the caller's. */
size_t http_message_size(const struct http_message *message);
void http_message_copy(struct http_message *to, const struct http_message *from, void *memory);

/* First field of that name, or NULL. Case does not count. */
const struct http_field *http_find(const struct http_message *message, struct span name);
/* How many fields of that name. */
size_t http_count(const struct http_message *message, struct span name);

/* Is it sent as that media type, whatever its parameters: one Content-Type and no other? */
bool http_has_type(const struct http_message *message, struct span type);

/* The registered reason phrase of a status; empty: none. */
struct span http_reason(uint16_t status);

/* Chunk framing on the way out: "HEX CRLF" into out, returns its length. The data and CRLF follow; "0 CRLF CRLF" ends.
 */
#define HTTP_CHUNK_HEAD_MAX 20
size_t http_chunk_head(char out[HTTP_CHUNK_HEAD_MAX], size_t len);
