/*
 * guard.c - PURE. The three checks.
 *
 * Comparing the token takes as long for a wrong one as for the right one. A field that comes twice where one is
 * expected is no permission.
 */
#include "proxy/admin/guard.h"
#include "proxy/admin/base64.h"
#include "proxy/http_text.h"

/* ---- fields ----------------------------------------------------------------------------------- */

enum found { FIELD_ABSENT, FIELD_ONCE, FIELD_REPEATED };

static enum found find(const struct http_message *request, struct span name, struct span *value)
{
    const struct http_field *field = http_find(request, name);
    if (!field)
        return FIELD_ABSENT;
    *value = field->value;
    return http_count(request, name) > 1 ? FIELD_REPEATED : FIELD_ONCE;
}

/* "Bearer x" with the scheme "bearer", whatever its case → "x". */
static bool after_scheme(struct span value, struct span scheme, struct span *rest)
{
    if (value.len <= scheme.len || value.data[scheme.len] != ' ' ||
        !span_equal_nocase((struct span){value.data, scheme.len}, scheme))
        return false;
    *rest = span_trim(span_after(value, scheme.len));
    return true;
}

/* ---- token ------------------------------------------------------------------------------------ */

static bool is_token(struct span given, const char *token)
{
    size_t len = strlen(token);
    unsigned difference = given.len != len;
    for (size_t i = 0; i < given.len; i++)
        difference |= (unsigned char)(given.data[i] ^ token[i % len]);
    return difference == 0;
}

/* "user:password" of Basic credentials. */
static bool read_basic(const struct http_message *request, struct buffer *memory, struct span *user,
                       struct span *password)
{
    struct span value, encoded;
    if (find(request, SPAN("Authorization"), &value) != FIELD_ONCE || !after_scheme(value, SPAN("Basic"), &encoded) ||
        !base64_decode(encoded, memory))
        return false;
    struct span pair = buffer_span(memory);
    const char *colon = pair.len ? memchr(pair.data, ':', pair.len) : NULL;
    if (!colon)
        return false;
    *user = (struct span){pair.data, (size_t)(colon - pair.data)};
    *password = span_after(pair, user->len + 1);
    return true;
}

static bool has_token(const struct http_message *request, const char *token)
{
    struct span value, given, user;
    struct buffer memory = {0};
    if (find(request, SPAN("Authorization"), &value) != FIELD_ONCE)
        return false;
    if (after_scheme(value, SPAN("Bearer"), &given))
        return is_token(given, token);
    bool right = read_basic(request, &memory, &user, &given) && is_token(given, token);
    buffer_free(&memory);
    return right;
}

void guard_user(const struct http_message *request, char user[GUARD_USER_MAX + 1])
{
    struct buffer memory = {0};
    struct span name, password;
    size_t len = 0;
    if (read_basic(request, &memory, &name, &password))
        for (; len < name.len && len < GUARD_USER_MAX; len++)
            user[len] = name.data[len] > 0x20 && name.data[len] < 0x7F ? name.data[len] : '_';
    user[len] = '\0';
    buffer_free(&memory);
}

/* ---- host and origin -------------------------------------------------------------------------- */

/* "1.2.3.4". Browsers write every form of an IPv4 address as this one. */
static bool is_ipv4(struct span host)
{
    unsigned parts = 0;
    while (parts < 4) {
        unsigned value = 0, digits = 0;
        while (digits < host.len && digits < 3 && http_is(host.data[digits], HTTP_CHAR_DIGIT))
            value = value * 10 + (unsigned)(host.data[digits++] - '0');
        host = span_after(host, digits);
        if (!digits || value > 255)
            return false;
        if (++parts == 4 || !host.len || *host.data != '.')
            break;
        host = span_after(host, 1);
    }
    return parts == 4 && host.len == 0;
}

/* No Host at all: HTTP/1.0, which no browser speaks. A unix socket is out of any browser's reach. Only an IPv6 address
 * stands in brackets, which http.c has seen to. */
static bool host_allowed(const struct guard *guard, struct span authority)
{
    if (guard->listen->unix_path || authority.len == 0 || *authority.data == '[')
        return true;
    const char *colon = memchr(authority.data, ':', authority.len);
    struct span host = {authority.data, colon ? (size_t)(colon - authority.data) : authority.len};
    return is_ipv4(host) || span_equal_nocase(host, SPAN("localhost")) ||
           span_equal_nocase(host, span_of(guard->listen->host));
}

static bool origin_allowed(const struct http_message *request)
{
    struct span origin, site;
    enum found found = find(request, SPAN("Sec-Fetch-Site"), &site);
    if (found == FIELD_REPEATED ||
        (found == FIELD_ONCE && !span_equal(site, SPAN("same-origin")) && !span_equal(site, SPAN("none"))))
        return false;
    found = find(request, SPAN("Origin"), &origin);
    if (found == FIELD_ABSENT)
        return true;
    if (found == FIELD_REPEATED || request->host.len == 0 || origin.len < request->host.len)
        return false;
    size_t scheme_len = origin.len - request->host.len;
    struct span scheme = {origin.data, scheme_len};
    return (span_equal(scheme, SPAN("http://")) || span_equal(scheme, SPAN("https://"))) &&
           span_equal_nocase(span_after(origin, scheme_len), request->host);
}

enum guard_verdict guard_check(const struct guard *guard, const struct http_message *request, bool open, bool changes)
{
    if (open)
        return GUARD_PASS;
    if (!host_allowed(guard, request->host))
        return GUARD_HOST;
    if (guard->token && !has_token(request, guard->token))
        return GUARD_TOKEN;
    return !changes || origin_allowed(request) ? GUARD_PASS : GUARD_ORIGIN;
}
