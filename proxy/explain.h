/*
 * explain.h - PURE. Why one request would be protected, passed or refused, and what its action would be: what `einmal
 * explain` shows (contract §2).
 *
 * Nothing is decided here: the head is read by the proxy's parser, the rest by route.h, admission.h and key.h, and each
 * step is kept. So an explanation is the proxy's own verdict with its reasons.
 */
#pragma once

#include "proxy/admission.h"

struct explain_request {
    struct span head;                         /* start line, fields and the empty line, as they would arrive */
    struct span body;                         /* without chunk framing */
    struct span tls_subject, tls_fingerprint; /* of the client's certificate; empty: none */
};

struct explanation {
    const struct conf *conf;
    struct http_parser *parser;
    enum problem_code refused; /* PROBLEM_NONE: the head is fine, and the rest is filled */
    const char *why;           /* of a refusal, by the parser or by admission.h; or NULL */
    struct http_message message;
    struct buffer normal;
    struct route_choice choice;
    struct key_request request;
    enum admission admission;
    struct key_identity identity; /* with ADMISSION_PROTECTED */
};

/* The bytes of `request` must live as long as the explanation. Give it back with explain_free. */
void explain(struct explanation *out, const struct conf *conf, const struct explain_request *request);
void explain_free(struct explanation *explanation);

/* What the route's verdict is, and whether one before it applies. */
enum route_verdict explain_route(const struct explanation *explanation, size_t index, bool *behind);
/* The answer of einmal's own that the request would get; PROBLEM_NONE: none. */
enum problem_code explain_problem(const struct explanation *explanation);

struct explain_value {
    const char *state;   /* "text", "number", "absent", "not read" … */
    const char *why_not; /* why no key can be derived from it, a clause; NULL: one can */
    bool shown;          /* false: none, or a credential */
    bool hidden;         /* a credential */
    struct span text;    /* if shown; lives in the request or in `scratch` */
};
struct explain_value explain_component(const struct explanation *explanation, const struct component *component,
                                       struct buffer *scratch);

enum explain_alternative {
    ALTERNATIVE_COUNTS,
    ALTERNATIVE_YIELDS_NONE,
    ALTERNATIVE_NOT_ASKED, /* an earlier one yields the key */
    ALTERNATIVE_BAD,       /* a header that was sent and holds no key: the request is refused, whichever counts */
    ALTERNATIVE_UNDECIDED, /* the request was refused before it was looked at */
};
/* *why: the clause that goes with BAD, else NULL. */
enum explain_alternative explain_key(const struct explanation *explanation, size_t index, const char **why);

/* Is what goes by that name a credential: Authorization, Cookie, X-Api-Key and the like? For values of headers,
 * members of a query, a form or JSON alike. */
bool explain_is_credential(struct span name);
