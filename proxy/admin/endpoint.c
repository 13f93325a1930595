/*
 * endpoint.c - PURE. The table, and the look-up in it.
 *
 * A path is compared as it came, segment by segment: nothing is decoded, so an encoded slash stays inside its segment.
 * Rows of one path stand together.
 */
#include "proxy/admin/endpoint.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define LISTING      (QUERY_STATE | QUERY_ROUTE | QUERY_TASK | QUERY_KEY | QUERY_LIMIT | QUERY_AFTER)

static const struct endpoint endpoints[] = {
    {HTTP_GET, "/healthz", ENDPOINT_OPEN, 0, handle_healthz},
    {HTTP_GET, "/readyz", ENDPOINT_OPEN, 0, handle_readyz},
    {HTTP_GET, "/metrics", ENDPOINT_OPEN, 0, handle_metrics},
    {HTTP_GET, "/", 0, 0, handle_page},
    {HTTP_GET, "/v1/actions", 0, LISTING, handle_list},
    {HTTP_GET, "/v1/actions/{}", 0, 0, handle_show},
    {HTTP_DELETE, "/v1/actions/{}", ENDPOINT_CHANGES, 0, handle_forget},
    {HTTP_POST, "/v1/actions/{}/resolve", ENDPOINT_CHANGES | ENDPOINT_BODY, 0, handle_resolve},
    {HTTP_GET, "/v1/tasks/{}", 0, 0, handle_task},
    {HTTP_GET, "/v1/status", 0, 0, handle_status},
    {HTTP_POST, "/v1/drain", ENDPOINT_CHANGES, QUERY_WAIT, handle_drain},
    {HTTP_GET, "/v1/backup", ENDPOINT_NO_HEAD, 0, handle_backup},
};

/* The part of `path` up to the next "/" after its first byte, which is one. */
static struct span first_segment(struct span path)
{
    const char *slash = path.len > 1 ? memchr(path.data + 1, '/', path.len - 1) : NULL;
    return (struct span){path.data, slash ? (size_t)(slash - path.data) : path.len};
}

static bool path_matches(struct span pattern, struct span path, struct span *parameter)
{
    while (pattern.len && path.len && *path.data == '/') {
        struct span wanted = first_segment(pattern), found = first_segment(path);
        if (span_equal(wanted, SPAN("/{}")) && found.len > 1)
            *parameter = span_after(found, 1);
        else if (!span_equal(wanted, found))
            return false;
        pattern = span_after(pattern, wanted.len);
        path = span_after(path, found.len);
    }
    return pattern.len == 0 && path.len == 0;
}

static bool method_matches(const struct endpoint *endpoint, enum http_method method)
{
    if (method == HTTP_HEAD_METHOD)
        return endpoint->method == HTTP_GET && !(endpoint->flags & ENDPOINT_NO_HEAD);
    return method == endpoint->method;
}

enum allowed { ALLOWED_GET = 1, ALLOWED_HEAD = 2, ALLOWED_POST = 4, ALLOWED_DELETE = 8 };

static unsigned allowed_by(const struct endpoint *endpoint)
{
    if (endpoint->method == HTTP_GET)
        return ALLOWED_GET | (endpoint->flags & ENDPOINT_NO_HEAD ? 0 : ALLOWED_HEAD);
    return endpoint->method == HTTP_POST ? ALLOWED_POST : ALLOWED_DELETE;
}

static const char *allow_text(unsigned allowed)
{
    static const char *const texts[] = {
        [ALLOWED_GET] = "GET",
        [ALLOWED_GET | ALLOWED_HEAD] = "GET, HEAD",
        [ALLOWED_POST] = "POST",
        [ALLOWED_GET | ALLOWED_HEAD | ALLOWED_DELETE] = "GET, HEAD, DELETE",
    };
    return texts[allowed];
}

struct endpoint_match endpoint_find(enum http_method method, struct span path, bool open_only)
{
    struct endpoint_match match = {.endpoint = NULL};
    unsigned allowed = 0;
    for (size_t i = 0; i < COUNT(endpoints); i++) {
        const struct endpoint *endpoint = &endpoints[i];
        struct span parameter = {NULL, 0};
        if ((open_only && !(endpoint->flags & ENDPOINT_OPEN)) ||
            !path_matches(span_of(endpoint->path), path, &parameter))
            continue;
        match.open = endpoint->flags & ENDPOINT_OPEN;
        if (method_matches(endpoint, method)) {
            match.endpoint = endpoint;
            match.parameter = parameter;
            return match;
        }
        allowed |= allowed_by(endpoint);
    }
    if (allowed)
        match.allow = allow_text(allowed);
    return match;
}
