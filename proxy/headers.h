/*
 * headers.h - PURE. Which header fields pass where (contract §4.5, §5 "Replay", §7): a table of rows, and the writers
 * that use it. Framing is always einmal's own and is written here, never copied.
 *
 * The first answer and a replay are written by the same code from the same parts (struct response_parts).
 */
#pragma once

#include "conf/conf.h"
#include "proxy/http.h"

/* Why a field does not go on. A name that has no row passes everywhere. */
enum header_rule {
    HEADER_DROP_REQUEST = 1 << 0,  /* client → API: hop-by-hop, framing */
    HEADER_DROP_RESPONSE = 1 << 1, /* API → client */
    HEADER_DROP_RECORD = 1 << 2,   /* never written to the store */
    HEADER_NOT_NOMINABLE = 1 << 3, /* Connection cannot remove it: framing, Host, Authorization … */
};
unsigned header_rules(struct span name);

/* What is said of one request when it is forwarded. */
struct forward_head {
    const struct http_message *message;
    const struct conf_upstream *upstream;
    enum conf_forwarded forwarded;
    bool via;
    struct span client_address; /* for X-Forwarded-For; "unknown" for a unix socket */
    bool client_tls;
    struct span request_id;  /* X-Request-Id that goes on: the client's valid one or ours */
    struct span key_header;  /* name of the key header of the route; empty for unkeyed requests */
    struct span derived_key; /* not empty: an Idempotency-Key: "…" is added and a sent one dropped */
    bool whole_body;         /* keyed: the body is known, Content-Length is body_len */
    uint64_t body_len;
    bool pass_expect; /* unkeyed: Expect goes on */
    bool upgrade;     /* a tunnel is offered: Upgrade goes on, with a Connection of our own */
};
/* Appends request line, fields, framing and the empty line. Unkeyed framing follows the message (length or chunked). */
void headers_write_request(struct buffer *out, const struct forward_head *head);

/* A response, ready to be written: live or recorded. */
struct response_parts {
    uint16_t status;
    struct span reason;
    const struct http_field *fields; /* end-to-end only, policy applied, in order */
    size_t field_count;
};

enum response_framing {
    RESPONSE_NO_BODY, /* 204, 304, 1xx: neither length nor coding. Of HEAD see `head_length` */
    RESPONSE_LENGTH,
    RESPONSE_CHUNKED,
    RESPONSE_UNTIL_CLOSE,
};

struct response_head {
    struct response_parts parts;
    enum response_framing framing;
    uint64_t length;
    bool write_length_without_body; /* HEAD and 304: Content-Length as metadata */
    bool keep_alive;                /* false: Connection: close */
    uint8_t client_minor;           /* HTTP/1.0 clients get Connection: keep-alive where it is kept */
    struct span request_id;         /* added unless the parts hold X-Request-Id; empty: none */
    const char *replayed_header;    /* not NULL: "NAME: true" is added */
    bool degraded;                  /* Idempotency-Degraded: true */
    struct span upgrade;            /* of a 101: the protocol; empty: none */
    int64_t date; /* seconds since 1970: a fresh Date replaces the parts' own; 0: Date passes as it is, and
                     none is added */
};
void headers_write_response(struct buffer *out, const struct response_head *head);

/* Selects the end-to-end fields of an API's response for its client: drops hop-by-hop, framing, those that Connection
 * names, our own markers. `fields` has room for message->field_count. Returns how many. */
size_t headers_select_response(const struct http_message *message, const char *replayed_header,
                               struct http_field *fields);
/* Of those, the ones that are recorded: minus the record rows and `drop` (NULL-terminated). In place; returns how many.
 */
size_t headers_select_record(struct http_field *fields, size_t count, char *const *drop);

/* A valid X-Request-Id: 1–128 of [A-Za-z0-9._~:/+=-] (contract §7). */
bool request_id_valid(struct span value);
