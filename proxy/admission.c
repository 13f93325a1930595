/*
 * admission.c - PURE. The order of the questions before the store: route, key from the head, size, key from the body.
 *
 * Left out: what asks for more than the request (draining, memory, the store), and what the answers do.
 */
#include "proxy/admission.h"

#include <assert.h>

void admission_normalise(struct buffer *normal, const struct http_message *message, struct span *host,
                         struct span *path)
{
    host_normalise(normal, message->host);
    size_t host_len = buffer_len(normal);
    path_normalise(normal, message->path);
    *host = (struct span){buffer_data(normal), host_len};
    *path = (struct span){buffer_data(normal) + host_len, buffer_len(normal) - host_len};
}

static enum admission without_key(const struct conf_route *route)
{
    return route->required ? ADMISSION_KEY_MISSING : ADMISSION_NO_KEY;
}

enum admission admission_of_head(const struct route_choice *choice, const struct key_request *request, const char **why)
{
    const struct http_message *message = request->message;
    if (!choice->upstream)
        return ADMISSION_NO_UPSTREAM;
    if (!choice->route)
        return ADMISSION_NO_ROUTE;
    switch (key_expected(choice->route, request, why)) {
    case KEY_HAVE:
    case KEY_NEEDS_BODY:
        if (message->framing == HTTP_LENGTH && message->content_length > choice->route->max_request_body)
            return ADMISSION_BODY_TOO_LARGE;
        return ADMISSION_READ_BODY;
    case KEY_NONE:
        return without_key(choice->route);
    case KEY_INVALID:
        return ADMISSION_KEY_INVALID;
    case KEY_SCOPE_LINES:
        return ADMISSION_SCOPE_LINES;
    }
    assert(!"an answer that key.h does not know");
    return ADMISSION_KEY_INVALID;
}

enum admission admission_of_request(const struct conf_route *route, const struct key_request *request,
                                    struct key_identity *identity, const char **why)
{
    assert(request->body_complete);
    switch (key_identify(route, request, identity, why)) {
    case KEY_HAVE:
        return ADMISSION_PROTECTED;
    case KEY_NONE:
    case KEY_NEEDS_BODY: /* nothing more will come */
        return without_key(route);
    case KEY_INVALID:
        return ADMISSION_KEY_INVALID;
    case KEY_SCOPE_LINES:
        return ADMISSION_SCOPE_LINES;
    }
    assert(!"an answer that key.h does not know");
    return ADMISSION_KEY_INVALID;
}
