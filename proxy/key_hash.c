/*
 * key_hash.c - PURE, but for SHA-256 of OpenSSL. The hash over typed, length-prefixed parts.
 *
 *     purpose | part | part …        part: type (1) | length (8, big-endian) | bytes
 *
 * No sequence of parts is the beginning of another reading of the same bytes, so equal hashes mean equal parts. The
 * form names stored actions: it is pinned by test_key.c and may only change together with the number in the purposes.
 */
#include "proxy/key_internal.h"

#include "proxy/ascii.h"

#include <assert.h>
#include <endian.h>

/* What stands for a kind in the hash: enumerators may move, these may not. */
static const char *const component_names[] = {
    [COMPONENT_METHOD] = "method",
    [COMPONENT_HOST] = "host",
    [COMPONENT_PATH] = "path",
    [COMPONENT_QUERY] = "query",
    [COMPONENT_BODY] = "body",
    [COMPONENT_PATH_NAME] = "path:",
    [COMPONENT_QUERY_NAME] = "query:",
    [COMPONENT_HEADER] = "header:",
    [COMPONENT_COOKIE] = "cookie:",
    [COMPONENT_FORM] = "form:",
    [COMPONENT_JSON] = "json:",
    [COMPONENT_TLS_SUBJECT] = "tls:subject",
    [COMPONENT_TLS_FINGERPRINT] = "tls:fingerprint",
    [COMPONENT_LITERAL] = "literal:",
};

static const char value_types[] = {
    [VALUE_ABSENT] = '-', [VALUE_NULL] = '0', [VALUE_TRUE] = 't',    [VALUE_FALSE] = 'f',      [VALUE_NUMBER] = '1',
    [VALUE_TEXT] = 's',   [VALUE_TREE] = '{', [VALUE_SEVERAL] = '*', [VALUE_UNREADABLE] = '?',
};

/* OpenSSL fails here only without memory or without SHA-256 at all: neither can be answered. */
static void must(int done)
{
    assert(done == 1);
}

EVP_MD_CTX *key_digest_new(void)
{
    EVP_MD_CTX *digest = must_allocate(EVP_MD_CTX_new());
    must(EVP_DigestInit_ex(digest, EVP_sha256(), NULL));
    return digest;
}

void key_digest_free(EVP_MD_CTX *digest)
{
    EVP_MD_CTX_free(digest);
}

void key_hash_open(struct key_hash *hash, EVP_MD_CTX *digest)
{
    hash->own = !digest;
    hash->context = digest ? digest : key_digest_new();
}

void key_hash_close(struct key_hash *hash)
{
    if (hash->own)
        key_digest_free(hash->context);
}

static void flush(struct key_hash *hash)
{
    must(EVP_DigestUpdate(hash->context, hash->held, hash->held_len));
    hash->held_len = 0;
}

static inline void update(struct key_hash *hash, const void *bytes, size_t len)
{
    if (len > sizeof hash->held - hash->held_len)
        flush(hash);
    if (len > sizeof hash->held) {
        must(EVP_DigestUpdate(hash->context, bytes, len));
    } else if (len) {
        memcpy(hash->held + hash->held_len, bytes, len);
        hash->held_len += len;
    }
}

void key_hash_begin(struct key_hash *hash, struct span purpose)
{
    must(EVP_DigestInit_ex(hash->context, NULL, NULL)); /* the same algorithm again, without looking it up */
    hash->held_len = 0;
    update(hash, purpose.data, purpose.len);
}

static void part_head(struct key_hash *hash, char type, uint64_t len)
{
    struct {
        char type;
        uint64_t len;
    } __attribute__((packed)) head = {type, htobe64(len)};
    update(hash, &head, sizeof head);
}

void key_hash_part(struct key_hash *hash, char type, struct span bytes)
{
    part_head(hash, type, bytes.len);
    update(hash, bytes.data, bytes.len);
}

/* Header names have no case: a configuration that spells one differently names the same actions. */
static void part_lower(struct key_hash *hash, char type, struct span name)
{
    char lower[64];
    part_head(hash, type, name.len);
    while (name.len) {
        size_t len = name.len < sizeof lower ? name.len : sizeof lower;
        for (size_t i = 0; i < len; i++)
            lower[i] = ascii_lower(name.data[i]);
        update(hash, lower, len);
        name = span_after(name, len);
    }
}

void key_hash_component(struct key_hash *hash, const struct component *component, const struct key_value *value)
{
    key_hash_part(hash, 'c', span_of(component_names[component->kind]));
    if (component->kind == COMPONENT_HEADER)
        part_lower(hash, 'a', span_of(component->argument));
    else
        key_hash_part(hash, 'a', span_of(component->argument));
    key_hash_part(hash, value_types[value->kind], value->bytes);
}

void key_hash_end(struct key_hash *hash, uint8_t out[KEY_HASH_LEN])
{
    unsigned len = 0;
    flush(hash);
    must(EVP_DigestFinal_ex(hash->context, out, &len));
    assert(len == KEY_HASH_LEN);
}
