/*
 * cors.h - PURE. What browsers must be told so that scripts of listed origins can use keys (contract §3, `cors`).
 *
 * The API decides who may read its answers; einmal only adds what the API cannot know: that the key header may be sent,
 * and which fields of einmal's own may be read. For einmal's own answers it says all of it.
 */
#pragma once

#include "conf/conf.h"
#include "proxy/headers.h"

struct cors {                       /* of one request; spans into it */
    const struct conf_route *route; /* NULL: nothing to say */
    struct span origin;
    bool preflight;   /* OPTIONS that asks about another method; `route` is that method's */
    bool credentials; /* the request carries cookies, so its answer is unreadable without saying that this is fine */
};

/* `route`: of the request. A preflight finds its own. */
void cors_begin(struct cors *cors, const struct conf *conf, const struct conf_route *route,
                const struct http_message *request, struct span host, struct span path);

#define CORS_OWN_FIELDS 4
/* Fields of an answer of einmal's own. Returns how many, at most CORS_OWN_FIELDS. Values may lie in `memory`. */
size_t cors_own_fields(const struct cors *cors, struct http_field *fields, struct buffer *memory);

/* What is joined to an answer of the API, live or replayed. `fields` has room for parts->field_count + 1; *parts points
 * to them afterwards. Values may lie in `memory`. */
void cors_join(const struct cors *cors, struct response_parts *parts, struct http_field *fields, struct buffer *memory);
