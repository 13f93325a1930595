/*
 * pattern.c - patterns of paths and hosts: from text to what proxy/route.c compares, in the same normal form.
 *
 * Invariant: a pattern that is accepted can match some request. What no request line can hold (a space, "?"), or what
 * looks like a pattern language that we do not have ("a*", "{a}b"), is refused.
 */
#include "conf/pattern.h"

#include "conf/address.h"
#include "conf/memory.h"
#include "proxy/route.h"

static const char rest_suffix[] = "/**";

/* ---- paths ------------------------------------------------------------------------------------ */

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

static const char *check_path_text(const char *text)
{
    if (text[0] != '/')
        return "a path begins with /";
    for (const char *c = text; *c; c++) {
        if (*c == '?' || *c == '#')
            return "a path ends before ? and #; neither matches";
        if ((unsigned char)*c <= 0x20 || (unsigned char)*c >= 0x7F)
            return "spaces, control characters and what is not ASCII must be written as %XX";
        if (*c == '%' && !(is_hex(c[1]) && is_hex(c[2])))
            return "% must be followed by two hexadecimal digits";
    }
    return NULL;
}

static bool is_capture_name(struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.data[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-'))
            return false;
    }
    return name.len > 0;
}

bool pattern_has_name(const struct conf_match *match, const char *name)
{
    for (size_t i = 0; i < match->segment_count; i++)
        if (match->segments[i].is_name && strcmp(match->segments[i].text, name) == 0)
            return true;
    return false;
}

static const char *add_segment(struct conf *memory, struct span text, struct conf_match *match, char *why, size_t size)
{
    struct conf_segment *segment = &match->segments[match->segment_count];
    if (memchr(text.data, '*', text.len))
        return "* is allowed only in a trailing /**";
    if (!memchr(text.data, '{', text.len) && !memchr(text.data, '}', text.len)) {
        segment->text = conf_copy(memory, text.data, text.len);
        match->segment_count++;
        return NULL;
    }
    struct span name = {text.data + 1, text.len - 2};
    if (text.len < 3 || text.data[0] != '{' || text.data[text.len - 1] != '}' || !is_capture_name(name))
        return "{name} stands for one whole segment; its name has letters, digits, - and _";
    segment->text = conf_copy(memory, name.data, name.len);
    if (pattern_has_name(match, segment->text)) {
        snprintf(why, size, "{%s} occurs twice", segment->text);
        return why;
    }
    segment->is_name = true;
    match->segment_count++;
    return NULL;
}

static const char *split_segments(struct conf *memory, struct span path, struct conf_match *match, char *why,
                                  size_t size)
{
    size_t names = 0;
    match->segments = CONF_NEW_ARRAY(memory, struct conf_segment, path.len + 1);
    while (path.len > 1) { /* path begins with "/" */
        path.data++, path.len--;
        const char *slash = memchr(path.data, '/', path.len);
        struct span segment = {path.data, slash ? (size_t)(slash - path.data) : path.len};
        const char *wrong = add_segment(memory, segment, match, why, size);
        if (wrong)
            return wrong;
        names += match->segments[match->segment_count - 1].is_name;
        if (names > ROUTE_MAX_NAMES)
            return "more than 32 {name}s";
        path.data += segment.len;
        path.len -= segment.len;
    }
    return NULL;
}

const char *pattern_parse_path(struct conf *memory, const char *text, struct conf_match *match, char *why, size_t size)
{
    const char *wrong = check_path_text(text);
    if (wrong)
        return wrong;
    struct span path = span_of(text);
    match->path_text = conf_copy(memory, text, path.len);
    match->rest = path.len >= strlen(rest_suffix) && strcmp(text + path.len - strlen(rest_suffix), rest_suffix) == 0;
    if (match->rest)
        path.len -= strlen(rest_suffix);

    struct buffer normal = {0};
    path_normalise(&normal, path);
    struct span form = buffer_span(&normal);
    bool ends_open = form.len > 1 && form.data[form.len - 1] == '/';
    match->trailing_slash = ends_open && !match->rest;
    if (ends_open)
        form.len--;
    wrong = split_segments(memory, form, match, why, size);
    buffer_free(&normal);
    return wrong;
}

/* ---- hosts ------------------------------------------------------------------------------------ */

const char *pattern_parse_host(struct conf *memory, const char *text, struct conf_match *match)
{
    match->host_wildcard = strncmp(text, "*.", 2) == 0;
    const char *name = match->host_wildcard ? text + 2 : text;
    if (!address_is_authority(name) || (match->host_wildcard && *name == '['))
        return "expected a host such as shop.example, *.example or [::1]:8080";
    struct buffer normal = {0};
    host_normalise(&normal, span_of(match->host_wildcard ? text + 1 : text));
    match->host = conf_copy(memory, buffer_data(&normal), buffer_len(&normal));
    buffer_free(&normal);
    return NULL;
}

/* ---- which covers which ----------------------------------------------------------------------- */

static struct span without_port(const char *host)
{
    const char *bracket = strrchr(host, ']');
    const char *colon = strchr(bracket ? bracket : host, ':');
    return (struct span){host, colon ? (size_t)(colon - host) : strlen(host)};
}

/* A pattern without a port matches any, as in route_match. */
static bool host_covers(const struct conf_match *outer, const struct conf_match *inner)
{
    if (!outer->host)
        return true;
    if (!inner->host || (inner->host_wildcard && !outer->host_wildcard))
        return false;
    struct span wide = without_port(outer->host), narrow = without_port(inner->host);
    if (wide.len != strlen(outer->host)) {
        wide = span_of(outer->host);
        narrow = span_of(inner->host);
    }
    if (!outer->host_wildcard)
        return span_equal(wide, narrow);
    bool longer = inner->host_wildcard ? narrow.len >= wide.len : narrow.len > wide.len;
    return longer && memcmp(narrow.data + narrow.len - wide.len, wide.data, wide.len) == 0;
}

static bool path_covers(const struct conf_match *outer, const struct conf_match *inner)
{
    bool everything = !outer->path_text || (outer->rest && outer->segment_count == 0);
    if (everything || !inner->path_text)
        return everything;
    if (outer->segment_count > inner->segment_count)
        return false;
    for (size_t i = 0; i < outer->segment_count; i++) {
        const struct conf_segment *wide = &outer->segments[i], *narrow = &inner->segments[i];
        if (!wide->is_name && (narrow->is_name || strcmp(wide->text, narrow->text) != 0))
            return false;
    }
    return outer->rest || (!inner->rest && outer->segment_count == inner->segment_count &&
                           outer->trailing_slash == inner->trailing_slash);
}

bool pattern_has_method(const struct conf_match *match, const char *method)
{
    char **found = match->methods;
    while (*found && strcmp(*found, method) != 0)
        found++;
    return *found;
}

bool pattern_covers(const struct conf_match *outer, const struct conf_match *inner)
{
    return host_covers(outer, inner) && path_covers(outer, inner);
}
