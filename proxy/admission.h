/*
 * admission.h - PURE. What becomes of a request before the store is asked: protected, passed on unprotected, or refused
 * (contract §3, §4.1, §4.2).
 *
 * The running proxy and `einmal explain` both ask here, so the one cannot say what the other does not do.
 */
#pragma once

#include "proxy/key.h"

enum admission {
    ADMISSION_NO_UPSTREAM,    /* no route and no default upstream: 404 */
    ADMISSION_NO_ROUTE,       /* no route for this method: passes unprotected */
    ADMISSION_NO_KEY,         /* no key is to be had and none required: passes unprotected */
    ADMISSION_READ_BODY,      /* a key is to be had or may be: ask again when the whole body is here */
    ADMISSION_PROTECTED,      /* the identity is filled: ask the store */
    ADMISSION_KEY_MISSING,    /* none is to be had and one required: 400 */
    ADMISSION_KEY_INVALID,    /* a bad key was sent: 400 */
    ADMISSION_SCOPE_LINES,    /* who asks is said more than once: 400 */
    ADMISSION_BODY_TOO_LARGE, /* a key may be had, but the body is over max_request_body: 413 */
};

/* Host and path in normal form, as routes match and keys bind them. Both lie in `normal`, which is empty before. */
void admission_normalise(struct buffer *normal, const struct http_message *message, struct span *host,
                         struct span *path);

/* From the head alone. Never ADMISSION_PROTECTED. *why is set where the answer has one, a sentence for the client. */
enum admission admission_of_head(const struct route_choice *choice, const struct key_request *request,
                                 const char **why);
/* The whole request is here. Of what is above only NO_KEY, PROTECTED and the refusals. */
enum admission admission_of_request(const struct conf_route *route, const struct key_request *request,
                                    struct key_identity *identity, const char **why);
