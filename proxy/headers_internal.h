/*
 * headers_internal.h - private to headers.c and headers_write.c: a row of the policy, and what Connection names.
 */
#pragma once

#include "proxy/headers.h"
#include "proxy/http_text.h"

/* What the writers do with a field beyond passing or dropping it. */
enum header_meaning {
    HEADER_PLAIN,
    HEADER_KEY,           /* Idempotency-Key: replaced by a derived one */
    HEADER_FORWARDED_FOR, /* contract §3 "forwarded" */
    HEADER_FORWARDED_PROTO,
    HEADER_FORWARDED_HOST,
    HEADER_FORWARDED, /* RFC 7239: says the same as X-Forwarded-*, so `replace` removes it too */
    HEADER_REQUEST_ID,
    HEADER_DATE,
};

struct header_row {
    struct span name;
    unsigned rules;
    enum header_meaning meaning;
};

/* Never NULL: a name without row has one without rules and with an empty name. */
const struct header_row *header_row(struct span name);

/* The fields that Connection asks to drop and that have no rule of their own. */
struct nominations {
    struct span options[HTTP_MAX_CONNECTION_OPTIONS];
    size_t count;
};
void nominations_collect(struct nominations *nominations, const struct http_message *message);
bool nominations_have(const struct nominations *nominations, struct span name);
