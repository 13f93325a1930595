/*
 * route.c - PURE. Which route a request belongs to, and what a status means there (contract §3).
 *
 * Host and path arrive in their normal form, made by the two functions at the top; the same form is what keys are bound
 * to. So two spellings of one resource find the same route and the same action. Invariant: path_normalise never makes a
 * path longer (but for the "/" of an empty one) and never decodes what would change how a path is split. Left out:
 * anything that is forwarded, which is the target as it came.
 */
#include "proxy/route.h"

#include "proxy/ascii.h"

#include <assert.h>

/* ---- normal forms ----------------------------------------------------------------------------- */

static bool is_unreserved(int byte) /* RFC 3986 §2.3 */
{
    int lower = byte | 0x20;
    return (lower >= 'a' && lower <= 'z') || (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' ||
           byte == '_' || byte == '~';
}

/* One segment in normal form to `to`; returns where it ends. A "%" that begins no %XX stays as it is. */
static char *normal_segment(char *to, struct span segment)
{
    static const char upper_hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < segment.len; i++) {
        int byte = ascii_percent_value(segment.data + i, segment.len - i);
        if (byte < 0) {
            *to++ = segment.data[i];
            continue;
        }
        i += 2;
        if (is_unreserved(byte)) {
            *to++ = (char)byte;
        } else {
            *to++ = '%';
            *to++ = upper_hex[byte >> 4];
            *to++ = upper_hex[byte & 15];
        }
    }
    return to;
}

/* Takes the segment before the next "/" off the front of *rest, which begins with "/". */
static struct span take_segment(struct span *rest)
{
    rest->data++, rest->len--;
    const char *slash = rest->len ? memchr(rest->data, '/', rest->len) : NULL;
    struct span segment = {rest->data, slash ? (size_t)(slash - rest->data) : rest->len};
    rest->data += segment.len;
    rest->len -= segment.len;
    return segment;
}

/* Each segment is written with the "/" before it and taken back when it turns out to be empty or a dot segment: decoded
 * first, so that "%2E%2E" is one. ".." takes the segment before it along, RFC 3986 §5.2.4. */
void path_normalise(struct buffer *out, struct span path)
{
    if (path.len == 0)
        path = SPAN("/");
    if (path.data[0] != '/') { /* "*" of OPTIONS */
        buffer_append_span(out, path);
        return;
    }
    char *begin = buffer_reserve(out, path.len), *end = begin;
    bool open = false; /* the last segment was taken back: the path ends in "/" */
    while (path.len) {
        char *slash = end;
        *end++ = '/';
        end = normal_segment(end, take_segment(&path));
        struct span segment = {slash + 1, (size_t)(end - slash - 1)};
        bool is_parent = span_equal(segment, SPAN(".."));
        open = is_parent || segment.len == 0 || span_equal(segment, SPAN("."));
        if (open)
            end = slash;
        if (is_parent)
            while (end > begin && *--end != '/')
                ;
    }
    if (open)
        *end++ = '/';
    buffer_commit(out, (size_t)(end - begin));
}

/* Where the port of an authority begins (at its ":"), or its length. */
static size_t port_position(struct span host)
{
    size_t from = 0;
    if (host.len && host.data[0] == '[') {
        const char *bracket = memchr(host.data, ']', host.len);
        from = bracket ? (size_t)(bracket - host.data) : host.len;
    }
    const char *colon = from < host.len ? memchr(host.data + from, ':', host.len - from) : NULL;
    return colon ? (size_t)(colon - host.data) : host.len;
}

void host_normalise(struct buffer *out, struct span host)
{
    if (host.len == 0) /* HTTP/1.0 without Host: there may be no memory behind it */
        return;
    size_t name_len = port_position(host);
    struct span port = {host.data + name_len, host.len - name_len};
    /* ":" without a number says the same, RFC 3986 §6.2.3. Which of the two is the default is not asked: who stands
     * before us may have taken the TLS off. */
    if (port.len == 1 || span_equal(port, SPAN(":80")) || span_equal(port, SPAN(":443")))
        host.len = name_len;
    if (host.len == 0)
        return;
    char *to = buffer_reserve(out, host.len);
    for (size_t i = 0; i < host.len; i++)
        to[i] = ascii_lower(host.data[i]);
    buffer_commit(out, host.len);
}

/* ---- matching --------------------------------------------------------------------------------- */

/* A pattern without a port matches any port, as everywhere: a service that is reached as shop.example:8080 must not
 * pass unprotected because the route says shop.example. */
static bool host_matches(const struct conf_match *match, struct span host)
{
    if (!match->host)
        return true;
    struct span pattern = span_of(match->host);
    if (port_position(pattern) == pattern.len)
        host.len = port_position(host);
    if (!match->host_wildcard)
        return span_equal(host, pattern);
    if (host.len <= pattern.len)
        return false;
    return memcmp(host.data + host.len - pattern.len, pattern.data, pattern.len) == 0;
}

static bool segment_matches(const struct conf_segment *pattern, struct span segment, struct route_values *values)
{
    if (segment.len == 0)
        return false;
    if (!pattern->is_name)
        return span_equal(segment, span_of(pattern->text));
    assert(values->count < ROUTE_MAX_NAMES);
    values->items[values->count].name = pattern->text;
    values->items[values->count].value = segment;
    values->count++;
    return true;
}

static bool path_matches(const struct conf_match *match, struct span path, struct route_values *values)
{
    values->count = 0;
    if (!match->path_text)
        return true;
    if (path.len == 0 || path.data[0] != '/')
        return false;
    for (size_t i = 0; i < match->segment_count; i++)
        if (path.len == 0 || !segment_matches(&match->segments[i], take_segment(&path), values))
            return false;
    if (match->rest)
        return true;
    /* What is left is "", "/" or more. The pattern "/" alone has no segments and no trailing slash, and matches "/". */
    bool wants_slash = match->trailing_slash || match->segment_count == 0;
    return wants_slash ? span_equal(path, SPAN("/")) : path.len == 0;
}

static bool method_matches(const struct conf_match *match, struct span method)
{
    for (char **name = match->methods; *name; name++)
        if (span_equal(method, span_of(*name)))
            return true;
    return false;
}

enum route_verdict route_match(const struct conf_route *route, struct span host, struct span path, struct span method,
                               struct route_values *values)
{
    values->count = 0;
    if (!host_matches(&route->match, host))
        return ROUTE_OTHER_HOST;
    if (!path_matches(&route->match, path, values))
        return ROUTE_OTHER_PATH;
    return method_matches(&route->match, method) ? ROUTE_MATCHES : ROUTE_OTHER_METHOD;
}

void route_choose(struct route_choice *out, const struct conf *conf, struct span host, struct span path,
                  struct span method)
{
    out->route = NULL;
    out->upstream = NULL;
    for (size_t i = 0; i < conf->route_count; i++) {
        const struct conf_route *route = &conf->routes[i];
        switch (route_match(route, host, path, method, &out->values)) {
        case ROUTE_MATCHES:
            out->route = route;
            out->upstream = route->upstream;
            return;
        case ROUTE_OTHER_METHOD:
            if (!out->upstream)
                out->upstream = route->upstream;
            break;
        case ROUTE_OTHER_HOST:
        case ROUTE_OTHER_PATH:
            break;
        }
    }
    out->values.count = 0;
    if (!out->upstream)
        out->upstream = conf->default_upstream;
}

enum status_class route_status_meaning(const struct conf_route *route, uint16_t status, bool has_retry_after)
{
    assert(status >= 100 && status <= 999);
    const struct conf_statuses *statuses = &route->statuses;
    return (enum status_class)(has_retry_after ? statuses->meaning_with_retry_after : statuses->meaning)[status];
}
