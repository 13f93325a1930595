/*
 * stored_response.h - PURE. A response ↔ bytes that can be replayed.
 *
 * Written once when the response is complete; read back as a view whose spans point into the bytes. Versioned,
 * bounds-checked: what a disk returns is not trusted. A field value never holds CR, LF or NUL: writing asserts it,
 * reading refuses it.
 */
#pragma once

#include "proxy/headers.h"

/* Length of the encoding without the body. */
size_t stored_response_head_size(const struct response_parts *parts);
/* Writes the head at `to` (head_size bytes); the body_len bytes of the body follow it, written by the caller. */
void stored_response_write_head(uint8_t *to, const struct response_parts *parts, uint64_t body_len);

struct stored_response {
    struct response_parts parts; /* parts.fields points to fields */
    struct http_field fields[HTTP_MAX_FIELDS];
    struct span body;
};
/* False: not an encoding of ours, or damaged. */
bool stored_response_read(struct stored_response *out, const uint8_t *bytes, size_t len);
