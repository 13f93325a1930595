/*
 * digest.c - one number for what identifies the actions of a route (contract §3, end).
 *
 * Every part goes in with its length before it and every list with its count, so no two rules read alike. Two notations
 * of one rule give one digest: names of headers count in lower case, and the default fingerprint counts as what it
 * comes to where all keys are of one kind.
 */
#include "conf/check.h"
#include "conf/component.h"
#include "proxy/buffer.h"

#include <assert.h>
#include <openssl/evp.h>

static void add_number(struct buffer *out, uint64_t value)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(value >> (56 - 8 * i));
    buffer_append(out, bytes, sizeof bytes);
}

static void add_text(struct buffer *out, const char *text)
{
    size_t len = strlen(text);
    add_number(out, len);
    buffer_append(out, text, len);
}

static void add_header_name(struct buffer *out, const char *name)
{
    size_t len = strlen(name);
    add_number(out, len);
    for (; *name; name++) {
        char lower = (char)(*name >= 'A' && *name <= 'Z' ? *name | 0x20 : *name);
        buffer_append(out, &lower, 1);
    }
}

static void add_components(struct buffer *out, const struct component_list *list)
{
    add_number(out, list->count);
    for (size_t i = 0; i < list->count; i++) {
        add_number(out, list->items[i].kind);
        add_text(out, list->items[i].argument);
    }
}

static enum conf_fingerprint_kind effective_fingerprint(const struct conf_route *route)
{
    size_t derived = 0;
    for (size_t i = 0; i < route->key_count; i++)
        derived += route->keys[i].derived;
    if (route->fingerprint_kind != FINGERPRINT_DEFAULT)
        return route->fingerprint_kind;
    return derived == 0 ? FINGERPRINT_BODY : derived == route->key_count ? FINGERPRINT_NONE : FINGERPRINT_DEFAULT;
}

void route_digest(const struct conf_route *route, uint8_t digest[32])
{
    struct buffer form = {0};
    unsigned len = 0;
    add_number(&form, route->scope_kind);
    add_components(&form, &route->scope);
    add_number(&form, route->key_count);
    for (size_t i = 0; i < route->key_count; i++) {
        add_number(&form, route->keys[i].derived);
        if (route->keys[i].derived)
            add_components(&form, &route->keys[i].derive);
        else
            add_header_name(&form, route->keys[i].header);
    }
    add_number(&form, route->mismatch_is_new);
    add_number(&form, effective_fingerprint(route));
    add_components(&form, &route->fingerprint);
    size_t ignored = 0;
    while (route->ignore[ignored])
        ignored++;
    add_number(&form, ignored);
    for (size_t i = 0; i < ignored; i++)
        add_text(&form, route->ignore[i]);
    int done = EVP_Digest(buffer_data(&form), buffer_len(&form), digest, &len, EVP_sha256(), NULL);
    assert(done == 1 && len == 32);
    buffer_free(&form);
}
