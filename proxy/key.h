/*
 * key.h - PURE (but for SHA-256 of OpenSSL). From a request to the name of its action (contract §3 "Components", §4.2).
 *
 * What is hashed is a sequence of length-prefixed, typed parts, so that ["ab","c"] and ["a","bc"] differ, and 1 and
 * "1".
 */
#pragma once

#include "proxy/route.h"

#define KEY_MAX_LEN 255

enum key_parse { KEY_OK, KEY_BAD };
/* Parses the value of a key header (white space around it allowed): structured-field string (RFC 9651 §3.3.3) with
 * ignored parameters, or bare. The key's text goes into out (not NUL-terminated) and *len. `why` says what is wrong. */
enum key_parse key_parse(struct span value, char out[KEY_MAX_LEN], size_t *len, const char **why);

struct key_request { /* everything that a key can be made of */
    const struct http_message *message;
    struct span host, path; /* normalised */
    const struct route_values *values;
    struct span body; /* the whole body; only read where body_complete */
    bool body_complete;
    struct span tls_subject, tls_fingerprint; /* empty: none */
    struct evp_md_ctx_st *digest;             /* to hash with; NULL: one is made for the call */
};

/* Setting up a digest costs more than using it: a thread keeps one. */
struct evp_md_ctx_st *key_digest_new(void);
void key_digest_free(struct evp_md_ctx_st *digest);

enum key_answer {
    KEY_HAVE,        /* identity is filled */
    KEY_NONE,        /* no alternative yields a key */
    KEY_INVALID,     /* a bad key was sent: 400 key-invalid; why */
    KEY_SCOPE_LINES, /* several lines of a scope field: 400 bad-request; why */
    KEY_NEEDS_BODY,  /* undecided until the body is here (only when !body_complete) */
};

/* What told who asks. */
enum key_scope {
    KEY_SCOPE_LIST,
    KEY_SCOPE_AUTHORIZATION,
    KEY_SCOPE_COOKIE,
    KEY_SCOPE_CERTIFICATE,
    KEY_SCOPE_ANONYMOUS,
};

struct key_identity {
    bool derived;
    size_t alternative;         /* index in route->keys */
    char text[KEY_MAX_LEN + 1]; /* sent key, NUL-terminated; "" if derived */
    uint8_t id[32];             /* H128(scope name, key[, fingerprint]) ‖ H128(…, identity) */
    uint8_t fingerprint[32];    /* what the key is bound to; method, host and path always are */
    uint8_t content[32];        /* what OTHER_IDENTITY compares: the fingerprint; with none the query and exact body */
    enum key_scope scope;
    bool anonymous;        /* scope auto fell through to nobody */
    bool both_credentials; /* scope auto: Authorization and Cookie were there */
    char task[512];        /* "" if none; as much as the store keeps */
};

/* Is a key to be had at all, from the head alone? KEY_HAVE here only means: read the whole body, then call
 * key_identify. */
enum key_answer key_expected(const struct conf_route *route, const struct key_request *request, const char **why);
/* The action. KEY_NEEDS_BODY while the body is not complete, whatever the alternatives need. *why is set where the
 * answer has one, and is a sentence for the client. */
enum key_answer key_identify(const struct conf_route *route, const struct key_request *request,
                             struct key_identity *out, const char **why);

/* What a component says in a request whose body is complete, as text. False: it yields no value (contract §3). The text
 * lives in the request, the component or `scratch`, until that is used again. */
bool key_component_text(const struct component *component, const struct key_request *request, struct buffer *scratch,
                        struct span *text);

/* What a key of this kind is bound to on this route: never FINGERPRINT_DEFAULT. */
enum conf_fingerprint_kind key_fingerprint_kind(const struct conf_route *route, bool derived);

void key_id_hex(const uint8_t id[32], char out[65]);
