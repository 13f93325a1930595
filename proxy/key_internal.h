/*
 * key_internal.h - PURE, private to the key files and explain.c: what a component says in a request, and the hash over
 * typed parts.
 */
#pragma once

#include "proxy/key.h"

#include <openssl/evp.h>

/* ---- key_value.c ------------------------------------------------------------------------------ */

enum key_value_kind {
    VALUE_ABSENT,
    VALUE_NULL, /* JSON null, true, false: no bytes */
    VALUE_TRUE,
    VALUE_FALSE,
    VALUE_NUMBER,     /* JSON: as written */
    VALUE_TEXT,       /* may be empty */
    VALUE_TREE,       /* JSON object or array, canonical */
    VALUE_SEVERAL,    /* named more than once: all values, each after its length */
    VALUE_UNREADABLE, /* json: or form: of a body that is none: the exact body */
};

struct key_value {
    enum key_value_kind kind;
    struct span bytes;
};

/* The bytes live in the request, the component or `scratch`, until that is used again. What needs the body needs all of
 * it (body_complete). Several Cookie lines are one value, joined with "; ". */
struct key_value key_value(const struct component *component, const struct key_request *request,
                           struct buffer *scratch);
/* Can a key be derived from it: a scalar that is not empty (contract §3)? */
bool key_value_names(const struct key_value *value);
/* Is there a Content-Encoding other than identity? */
bool key_body_coded(const struct http_message *message);

/* ---- key_hash.c ------------------------------------------------------------------------------- */

#define KEY_HASH_LEN 32

struct key_hash { /* one context for all hashes of a call */
    EVP_MD_CTX *context;
    bool own; /* made by key_hash_open */
    size_t held_len;
    char held[256]; /* parts are small and many: OpenSSL gets them in blocks */
};

void key_hash_open(struct key_hash *hash, EVP_MD_CTX *digest);
void key_hash_close(struct key_hash *hash);
/* What is hashed begins with its purpose, so that hashes made for different purposes never meet. */
void key_hash_begin(struct key_hash *hash, struct span purpose);
/* One part: its type, its length in eight bytes, its bytes. */
void key_hash_part(struct key_hash *hash, char type, struct span bytes);
/* A component and what it says: three parts. */
void key_hash_component(struct key_hash *hash, const struct component *component, const struct key_value *value);
void key_hash_end(struct key_hash *hash, uint8_t out[KEY_HASH_LEN]);
