/*
 * key.c - PURE, but for SHA-256 of OpenSSL. From a request to the name of its action (contract §3, §4.2).
 *
 *     key         = H("key",     sent text | derived components)
 *     scope       = H("scope",   who asks)
 *     fingerprint = H("content", method, host, path, what the key is bound to)
 *     id          = H128("action", scope name, key[, fingerprint])
 *                 ‖ H128("action", scope name, key[, fingerprint], scope)
 *
 * The first half of an id is shared by all identities that use the key, so that they are neighbours in the store.
 * Invariants: a key header that is there and bad is an error, whichever alternative would have been used; a sent key
 * never equals a derived one; credentials leave this file only hashed. Left out: what the answers mean for the request,
 * which is the exchange's.
 */
#include "proxy/key_internal.h"

#include "proxy/ascii.h"
#include "proxy/json.h"

#define ACTION_HALF 16

struct naming { /* of one action; lives within one call */
    const struct conf_route *route;
    const struct key_request *request;
    struct key_hash hash;
    struct buffer scratch;
};

/* ---- alternatives ----------------------------------------------------------------------------- */

/* The key in this header: KEY_HAVE, KEY_NONE where it is absent, KEY_INVALID. */
static enum key_answer read_sent(const struct http_message *message, const char *header, char text[KEY_MAX_LEN],
                                 size_t *len, const char **why)
{
    struct span name = span_of(header);
    const struct http_field *field = http_find(message, name);
    if (!field)
        return KEY_NONE;
    if (http_count(message, name) > 1) {
        *why = "The key header was sent several times; send exactly one.";
        return KEY_INVALID;
    }
    return key_parse(field->value, text, len, why) == KEY_OK ? KEY_HAVE : KEY_INVALID;
}

static bool sent_keys_fine(const struct conf_route *route, const struct http_message *message, const char **why)
{
    char text[KEY_MAX_LEN];
    size_t len;
    for (size_t i = 0; i < route->key_count; i++)
        if (!route->keys[i].derived && read_sent(message, route->keys[i].header, text, &len, why) == KEY_INVALID)
            return false;
    return true;
}

/* Does each component of the list say something? Those that need a body that is not there yet are left for later. With
 * `hashed` all that they say goes into the hash that was begun. */
static enum key_answer derive(struct naming *naming, const struct component_list *list, bool hashed)
{
    bool undecided = false;
    for (size_t i = 0; i < list->count; i++) {
        const struct component *component = &list->items[i];
        if (!naming->request->body_complete && component_needs_body(component)) {
            undecided = true;
            continue;
        }
        struct key_value value = key_value(component, naming->request, &naming->scratch);
        if (!key_value_names(&value))
            return KEY_NONE;
        if (hashed)
            key_hash_component(&naming->hash, component, &value);
    }
    return undecided ? KEY_NEEDS_BODY : KEY_HAVE;
}

static enum key_answer expect_alternative(struct naming *naming, const struct conf_key *key)
{
    if (key->derived)
        return derive(naming, &key->derive, false);
    return http_find(naming->request->message, span_of(key->header)) ? KEY_HAVE : KEY_NONE;
}

/* The key of that alternative, if it yields one: into out->text (sent) and `digest`. */
static enum key_answer name_by(struct naming *naming, const struct conf_key *key, struct key_identity *out,
                               uint8_t digest[KEY_HASH_LEN], const char **why)
{
    key_hash_begin(&naming->hash, SPAN("einmal key 1"));
    if (key->derived) {
        key_hash_part(&naming->hash, 'd', (struct span){0});
        if (derive(naming, &key->derive, true) != KEY_HAVE)
            return KEY_NONE;
    } else {
        size_t len;
        enum key_answer answer = read_sent(naming->request->message, key->header, out->text, &len, why);
        if (answer != KEY_HAVE)
            return answer;
        out->text[len] = '\0';
        key_hash_part(&naming->hash, 's', (struct span){out->text, len});
    }
    out->derived = key->derived;
    key_hash_end(&naming->hash, digest);
    return KEY_HAVE;
}

/* ---- scope ------------------------------------------------------------------------------------ */

static const char several_lines[] = "A header that tells who asks was sent several times; send exactly one.";

static bool scope_lines_fine(const struct conf_route *route, const struct http_message *message)
{
    if (route->scope_kind == SCOPE_AUTO)
        return http_count(message, SPAN("Authorization")) <= 1;
    for (size_t i = 0; i < route->scope.count; i++) {
        const struct component *component = &route->scope.items[i];
        if (component->kind == COMPONENT_HEADER && !span_equal_nocase(span_of(component->argument), SPAN("Cookie")) &&
            http_count(message, span_of(component->argument)) > 1)
            return false;
    }
    return true;
}

/* An empty Authorization or Cookie is nobody's credential: it must not make one identity of all who send it. */
static struct key_value credential(struct naming *naming, char *header)
{
    const struct component component = {COMPONENT_HEADER, header};
    struct key_value value = key_value(&component, naming->request, &naming->scratch);
    if (value.bytes.len == 0)
        value.kind = VALUE_ABSENT;
    return value;
}

static void hash_automatic_scope(struct naming *naming, struct key_identity *out)
{
    char authorization[] = "Authorization", cookie[] = "Cookie";
    struct key_value value = credential(naming, cookie);
    bool has_cookie = value.kind != VALUE_ABSENT;
    value = credential(naming, authorization);
    bool has_authorization = value.kind != VALUE_ABSENT;
    out->both_credentials = has_authorization && has_cookie;
    if (has_authorization) {
        out->scope = KEY_SCOPE_AUTHORIZATION;
        key_hash_part(&naming->hash, 'A', value.bytes);
    } else if (has_cookie) {
        out->scope = KEY_SCOPE_COOKIE;
        value = credential(naming, cookie);
        key_hash_part(&naming->hash, 'C', value.bytes);
    } else if (naming->request->tls_fingerprint.len) {
        out->scope = KEY_SCOPE_CERTIFICATE;
        key_hash_part(&naming->hash, 'T', naming->request->tls_fingerprint);
    } else {
        out->scope = KEY_SCOPE_ANONYMOUS;
        out->anonymous = true;
        key_hash_part(&naming->hash, 'N', (struct span){0});
    }
}

static void hash_list(struct naming *naming, const struct component_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        struct key_value value = key_value(&list->items[i], naming->request, &naming->scratch);
        key_hash_component(&naming->hash, &list->items[i], &value);
    }
}

static void hash_scope(struct naming *naming, struct key_identity *out, uint8_t digest[KEY_HASH_LEN])
{
    key_hash_begin(&naming->hash, SPAN("einmal scope 1"));
    switch (naming->route->scope_kind) {
    case SCOPE_AUTO:
        hash_automatic_scope(naming, out);
        break;
    case SCOPE_COMPONENTS:
        out->scope = KEY_SCOPE_LIST;
        key_hash_part(&naming->hash, 'L', (struct span){0});
        hash_list(naming, &naming->route->scope);
        break;
    }
    key_hash_end(&naming->hash, digest);
}

/* ---- content ---------------------------------------------------------------------------------- */

static void hash_simple(struct naming *naming, enum component_kind kind, char *argument)
{
    const struct component component = {kind, argument};
    struct key_value value = key_value(&component, naming->request, &naming->scratch);
    key_hash_component(&naming->hash, &component, &value);
}

static void begin_content(struct naming *naming)
{
    char none[] = "";
    key_hash_begin(&naming->hash, SPAN("einmal content 1"));
    hash_simple(naming, COMPONENT_METHOD, none);
    hash_simple(naming, COMPONENT_HOST, none);
    hash_simple(naming, COMPONENT_PATH, none);
}

static void hash_query_and_head(struct naming *naming)
{
    char none[] = "", type[] = "content-type", coding[] = "content-encoding";
    hash_simple(naming, COMPONENT_QUERY, none);
    hash_simple(naming, COMPONENT_HEADER, type);
    hash_simple(naming, COMPONENT_HEADER, coding);
}

/* The body in canonical form, or as it is where it has none: typed, so that the two never meet. */
static void hash_canonical_body(struct naming *naming)
{
    struct buffer *canonical = &naming->scratch;
    buffer_consume(canonical, buffer_len(canonical));
    if (!key_body_coded(naming->request->message) &&
        json_canonical(naming->request->body, naming->route->ignore, canonical))
        key_hash_part(&naming->hash, 'j', buffer_span(canonical));
    else
        key_hash_part(&naming->hash, 'b', naming->request->body);
}

enum conf_fingerprint_kind key_fingerprint_kind(const struct conf_route *route, bool derived)
{
    if (route->fingerprint_kind != FINGERPRINT_DEFAULT)
        return route->fingerprint_kind;
    return derived ? FINGERPRINT_NONE : FINGERPRINT_BODY;
}

/* Where nothing but method, host and path is bound, the query and exact body are still known to the store: another
 * identity that sends the same key with other content is somebody else. */
static void hash_unbound_content(struct naming *naming, uint8_t content[KEY_HASH_LEN])
{
    char none[] = "";
    begin_content(naming);
    hash_simple(naming, COMPONENT_QUERY, none);
    key_hash_part(&naming->hash, 'b', naming->request->body);
    key_hash_end(&naming->hash, content);
}

static void hash_content(struct naming *naming, struct key_identity *out)
{
    enum conf_fingerprint_kind kind = key_fingerprint_kind(naming->route, out->derived);
    begin_content(naming);
    switch (kind) {
    case FINGERPRINT_BODY:
        hash_query_and_head(naming);
        key_hash_part(&naming->hash, 'b', naming->request->body);
        break;
    case FINGERPRINT_JSON:
        hash_query_and_head(naming);
        hash_canonical_body(naming);
        break;
    case FINGERPRINT_COMPONENTS:
        hash_list(naming, &naming->route->fingerprint);
        break;
    case FINGERPRINT_NONE:
    case FINGERPRINT_DEFAULT: /* resolved above */
        break;
    }
    key_hash_end(&naming->hash, out->fingerprint);
    if (kind == FINGERPRINT_NONE)
        hash_unbound_content(naming, out->content);
    else
        memcpy(out->content, out->fingerprint, sizeof out->content);
}

/* ---- the action ------------------------------------------------------------------------------- */

static void hash_half(struct naming *naming, const struct key_identity *identity, const uint8_t key[KEY_HASH_LEN],
                      const uint8_t *scope, uint8_t half[ACTION_HALF])
{
    uint8_t digest[KEY_HASH_LEN];
    key_hash_begin(&naming->hash, SPAN("einmal action 1"));
    key_hash_part(&naming->hash, 'n', span_of(naming->route->scope_name));
    key_hash_part(&naming->hash, 'k', (struct span){(const char *)key, KEY_HASH_LEN});
    if (naming->route->mismatch_is_new)
        key_hash_part(&naming->hash, 'f', (struct span){(const char *)identity->fingerprint, KEY_HASH_LEN});
    if (scope)
        key_hash_part(&naming->hash, 'i', (struct span){(const char *)scope, KEY_HASH_LEN});
    key_hash_end(&naming->hash, digest);
    memcpy(half, digest, ACTION_HALF);
}

/* What a JSON literal is called where it names a task or a thing to ask for. */
static struct span value_text(const struct key_value *value)
{
    switch (value->kind) {
    case VALUE_TEXT:
    case VALUE_NUMBER:
        return value->bytes;
    case VALUE_TRUE:
        return SPAN("true");
    case VALUE_FALSE:
        return SPAN("false");
    case VALUE_ABSENT:
    case VALUE_NULL:
    case VALUE_TREE:
    case VALUE_SEVERAL:
    case VALUE_UNREADABLE:
        break;
    }
    return (struct span){0};
}

/* The task's name is shown to people and written to logs: no control characters, and not cut inside a UTF-8 sequence.
 */
static void name_task(struct naming *naming, struct key_identity *out)
{
    if (!naming->route->task)
        return;
    struct key_value value = key_value(naming->route->task, naming->request, &naming->scratch);
    struct span text = value_text(&value);
    size_t len = 0, i = 0;
    for (; i < text.len && len < sizeof out->task - 1; i++)
        if ((unsigned char)text.data[i] >= 0x20 && text.data[i] != 0x7F)
            out->task[len++] = text.data[i];
    bool cut = i < text.len && ((unsigned char)text.data[i] & 0xC0) == 0x80;
    for (int back = 0; cut && back < 4 && len; back++)
        cut = ((unsigned char)out->task[--len] & 0xC0) == 0x80;
    out->task[len] = '\0';
}

static void name_action(struct naming *naming, struct key_identity *out, const uint8_t key[KEY_HASH_LEN])
{
    uint8_t scope[KEY_HASH_LEN];
    hash_content(naming, out);
    hash_scope(naming, out, scope);
    hash_half(naming, out, key, NULL, out->id);
    hash_half(naming, out, key, scope, out->id + ACTION_HALF);
    name_task(naming, out);
}

/* ---- the two questions ------------------------------------------------------------------------ */

enum key_answer key_expected(const struct conf_route *route, const struct key_request *request, const char **why)
{
    struct naming naming = {.route = route, .request = request};
    enum key_answer answer = KEY_NONE;
    if (!sent_keys_fine(route, request->message, why))
        return KEY_INVALID;
    for (size_t i = 0; i < route->key_count && answer != KEY_HAVE; i++) {
        enum key_answer one = expect_alternative(&naming, &route->keys[i]);
        if (one != KEY_NONE)
            answer = one;
    }
    buffer_free(&naming.scratch);
    if (answer == KEY_HAVE && !scope_lines_fine(route, request->message)) {
        *why = several_lines;
        return KEY_SCOPE_LINES;
    }
    return answer;
}

enum key_answer key_identify(const struct conf_route *route, const struct key_request *request,
                             struct key_identity *out, const char **why)
{
    struct naming naming = {.route = route, .request = request};
    uint8_t key[KEY_HASH_LEN];
    enum key_answer answer = KEY_NONE;
    *out = (struct key_identity){0};
    bool only_one = route->key_count == 1 && request->body_complete; /* then name_by finds out */
    if (!only_one && !sent_keys_fine(route, request->message, why))
        return KEY_INVALID;
    if (!request->body_complete)
        return KEY_NEEDS_BODY;

    key_hash_open(&naming.hash, request->digest);
    for (size_t i = 0; i < route->key_count && answer == KEY_NONE; i++) {
        out->alternative = i;
        answer = name_by(&naming, &route->keys[i], out, key, why);
    }
    if (answer == KEY_HAVE && !scope_lines_fine(route, request->message)) {
        *why = several_lines;
        answer = KEY_SCOPE_LINES;
    }
    if (answer == KEY_HAVE)
        name_action(&naming, out, key);
    key_hash_close(&naming.hash);
    buffer_free(&naming.scratch);
    return answer;
}

bool key_component_text(const struct component *component, const struct key_request *request, struct buffer *scratch,
                        struct span *text)
{
    struct key_value value = key_value(component, request, scratch);
    *text = value_text(&value);
    return key_value_names(&value);
}

void key_id_hex(const uint8_t id[32], char out[65])
{
    ascii_hex_text(out, id, 32);
}
