/*
 * fuzz_key.c - any bytes as a key header and as everything else that a key is made of.
 *
 * Input, by lines: key header, query, Cookie, Content-Type, Content-Encoding, Authorization; the rest is the body. Laws
 * beyond what the sanitizers see: what is accepted as a key is the same key in quotes; the head's answer and the whole
 * request's answer agree; the same request has the same name, and another body never gives it another key of a header.
 */
#include <assert.h>

#include "proxy/key.h"
#include "proxy/route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the header ------------------------------------------------------------------------------- */

static void check_quoted(const char *key, size_t len)
{
    struct buffer quoted = {0};
    char out[KEY_MAX_LEN];
    size_t again;
    const char *why;
    buffer_append_span(&quoted, SPAN("\""));
    for (size_t i = 0; i < len; i++)
        buffer_printf(&quoted, "%s%c", key[i] == '"' || key[i] == '\\' ? "\\" : "", key[i]);
    buffer_append_span(&quoted, SPAN("\";p=1;q"));
    enum key_parse result = key_parse(buffer_span(&quoted), out, &again, &why);
    assert(result == KEY_OK && again == len && memcmp(out, key, len) == 0);
    buffer_free(&quoted);
}

static void check_parse(struct span value)
{
    char key[KEY_MAX_LEN];
    size_t len = 0;
    const char *why = NULL;
    switch (key_parse(value, key, &len, &why)) {
    case KEY_OK:
        assert(len >= 1 && len <= KEY_MAX_LEN);
        for (size_t i = 0; i < len; i++)
            assert(key[i] >= 0x20 && key[i] <= 0x7E);
        check_quoted(key, len);
        break;
    case KEY_BAD:
        assert(why && len == 0);
        break;
    }
}

/* ---- the action ------------------------------------------------------------------------------- */

#define TEXT(literal) ((char[]){literal})
#define LIST(...)                                                                                               \
    {                                                                                                           \
        (struct component[]){__VA_ARGS__}, sizeof((struct component[]){__VA_ARGS__}) / sizeof(struct component) \
    }

static struct component task = {COMPONENT_HEADER, TEXT("Content-Type")};
static char *ignore[] = {TEXT("/t"), TEXT("/a/0"), NULL};

static struct conf_key keys[] = {
    {.header = TEXT("Idempotency-Key")},
    {.derived = true, .derive = LIST({COMPONENT_QUERY_NAME, TEXT("id")}, {COMPONENT_COOKIE, TEXT("sid")})},
    {.derived = true, .derive = LIST({COMPONENT_FORM, TEXT("id")}, {COMPONENT_PATH, TEXT("")})},
    {.derived = true, .derive = LIST({COMPONENT_JSON, TEXT("/id")}, {COMPONENT_JSON, TEXT("/a/0")})},
};

static struct conf_route routes[] = {
    {.scope_name = TEXT("a"), .keys = keys, .key_count = 4, .fingerprint_kind = FINGERPRINT_DEFAULT, .task = &task},
    {.scope_name = TEXT("b"),
     .keys = keys,
     .key_count = 4,
     .fingerprint_kind = FINGERPRINT_JSON,
     .ignore = ignore,
     .scope_kind = SCOPE_COMPONENTS,
     .scope = LIST({COMPONENT_HEADER, TEXT("Cookie")}, {COMPONENT_JSON, TEXT("/a")})},
    {.scope_name = TEXT("c"),
     .keys = keys,
     .key_count = 4,
     .fingerprint_kind = FINGERPRINT_COMPONENTS,
     .fingerprint = LIST({COMPONENT_FORM, TEXT("a")}, {COMPONENT_JSON, TEXT("/a")}, {COMPONENT_COOKIE, TEXT("sid")}),
     .mismatch_is_new = true},
};

static void check_route(const struct conf_route *route, struct key_request *request)
{
    struct key_identity first, second;
    const char *why = NULL;
    request->body_complete = false;
    enum key_answer expected = key_expected(route, request, &why);
    request->body_complete = true;
    enum key_answer answer = key_identify(route, request, &first, &why);
    assert(answer != KEY_NEEDS_BODY);
    if (expected == KEY_NEEDS_BODY)
        assert(answer == KEY_HAVE || answer == KEY_NONE || answer == KEY_SCOPE_LINES);
    else
        assert(answer == expected);
    if (answer != KEY_HAVE)
        return;

    char hex[65];
    key_id_hex(first.id, hex);
    assert(strlen(hex) == 64 && strlen(first.task) < sizeof first.task && first.derived == !*first.text);
    answer = key_identify(route, request, &second, &why);
    assert(answer == KEY_HAVE && memcmp(first.id, second.id, sizeof first.id) == 0);
    assert(memcmp(first.fingerprint, second.fingerprint, sizeof first.fingerprint) == 0);
    assert(memcmp(first.content, second.content, sizeof first.content) == 0);
    if (first.derived || route->mismatch_is_new)
        return;
    request->body = SPAN("another");
    answer = key_identify(route, request, &second, &why);
    assert(answer == KEY_HAVE && memcmp(first.id, second.id, 16) == 0);
}

/* ---- the input -------------------------------------------------------------------------------- */

static struct span take_line(struct span *rest)
{
    const char *feed = rest->len ? memchr(rest->data, '\n', rest->len) : NULL;
    struct span line = {rest->data, feed ? (size_t)(feed - rest->data) : rest->len};
    size_t used = line.len + (feed ? 1 : 0);
    rest->data += used;
    rest->len -= used;
    return line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"Idempotency-Key", "Cookie", "Content-Type", "Content-Encoding",
                                        "Authorization"};
    struct http_field fields[6];
    struct http_message message = {.method = SPAN("POST"), .fields = fields};
    struct span rest = {size ? (const char *)data : "", size};
    struct buffer normal = {0};

    struct span key = take_line(&rest);
    check_parse(key);
    message.query = take_line(&rest);
    message.has_query = message.query.len > 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct span value = i ? take_line(&rest) : key;
        if (value.len)
            fields[message.field_count++] = (struct http_field){span_of(names[i]), span_trim(value)};
    }
    path_normalise(&normal, message.query);
    host_normalise(&normal, key);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        struct key_request request = {
            .message = &message, .host = SPAN("h"), .path = buffer_span(&normal), .body = rest};
        check_route(&routes[i], &request);
    }
    buffer_free(&normal);
    return 0;
}
