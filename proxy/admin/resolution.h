/*
 * resolution.h - PURE. What a person says of an unknown action: a JSON text → an outcome that can be recorded.
 *
 *     {"as":"completed","status":201,"headers":[["Location","/orders/1"]],"body":"…" or "body_base64":"…"}
 *     {"as":"not-executed"}
 */
#pragma once

#include "proxy/stored_response.h"
#include "store/store.h"

#define RESOLUTION_BODY_MAX   (16u * 1024 * 1024)
#define RESOLUTION_HEADER_MAX (64u * 1024) /* names and values together */
#define RESOLUTION_WHY_SIZE   200

struct resolution {
    enum store_state to_state; /* STORE_COMPLETED or STORE_RELEASED */
    /* ---- completed -------------------------------------------------------------------------------- */
    uint16_t status;
    struct http_field fields[HTTP_MAX_FIELDS]; /* their text is in `memory` */
    size_t field_count;
    struct buffer body, memory;
};

/* False: `why` says what to correct. In both cases resolution_clear() gives the memory back. */
bool resolution_read(struct span json, struct resolution *resolution, char why[RESOLUTION_WHY_SIZE]);
void resolution_clear(struct resolution *resolution);

/* The response as it would be recorded had the API sent it: without our own marker and what the route drops (`drop`:
 * NULL-terminated, may be NULL). */
struct store_bytes *resolution_response(struct resolution *resolution, const char *replayed_header, char *const *drop);
