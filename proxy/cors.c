/*
 * cors.c - PURE. Whether an origin is listed, and which names join which list.
 *
 *     preflight         Access-Control-Allow-Headers   the key headers of the route
 *     other answers     Access-Control-Expose-Headers  the marker, Retry-After, X-Request-Id
 *     einmal's own      Access-Control-Allow-Origin, Vary, and the list above
 *
 * Invariant: nothing is ever taken away, and a name that is there is not written twice. Left out: answers to requests
 * that could not be read, which have no route.
 */
#include "proxy/cors.h"

#include "proxy/http_text.h"
#include "proxy/route.h"

static const struct span allow_headers = {"Access-Control-Allow-Headers", 28};
static const struct span expose_headers = {"Access-Control-Expose-Headers", 29};

/* Origins are serialised in one way only (RFC 6454 §6.2): bytes are compared. Several lines are none. */
static bool is_listed(const struct conf_route *route, const struct http_message *request, struct span *origin)
{
    const struct http_field *field = http_find(request, SPAN("Origin"));

    if (!field || http_count(request, SPAN("Origin")) > 1)
        return false;
    for (char *const *listed = route->cors; *listed; listed++)
        if (span_equal(field->value, span_of(*listed))) {
            *origin = field->value;
            return true;
        }
    return false;
}

void cors_begin(struct cors *cors, const struct conf *conf, const struct conf_route *route,
                const struct http_message *request, struct span host, struct span path)
{
    const struct http_field *method = NULL;
    struct route_choice asked;

    if (request->method_id == HTTP_OPTIONS)
        method = http_find(request, SPAN("Access-Control-Request-Method"));
    if (method) {
        route_choose(&asked, conf, host, path, method->value);
        route = asked.route;
    }
    if (!route || !route->cors[0] || !is_listed(route, request, &cors->origin))
        return;
    cors->route = route;
    cors->preflight = method != NULL;
    cors->credentials = http_find(request, SPAN("Cookie")) != NULL;
}

/* The members of the list that the answer's kind calls for. */
static struct span next_member(const struct cors *cors, size_t *at)
{
    const struct conf_route *route = cors->route;

    if (!cors->preflight) {
        const struct span names[] = {span_of(route->replayed_header), SPAN("Retry-After"), SPAN("X-Request-Id")};
        return *at < sizeof(names) / sizeof(names[0]) ? names[(*at)++] : (struct span){NULL, 0};
    }
    while (*at < route->key_count) {
        const struct conf_key *key = &route->keys[(*at)++];
        if (!key->derived)
            return span_of(key->header);
    }
    return (struct span){NULL, 0};
}

static bool is_member(struct span list, struct span name)
{
    struct span member;

    while (http_next_member(&list, &member))
        if (span_equal_nocase(member, name))
            return true;
    return false;
}

static bool has_member(const struct http_field *fields, size_t count, struct span list, struct span name)
{
    for (size_t i = 0; i < count; i++)
        if (span_equal_nocase(fields[i].name, list) && is_member(fields[i].value, name))
            return true;
    return false;
}

static struct http_field *find(struct http_field *fields, size_t count, struct span name)
{
    for (size_t i = 0; i < count; i++)
        if (span_equal_nocase(fields[i].name, name))
            return &fields[i];
    return NULL;
}

/* Appends `name` to the list in `memory`, unless it is there. */
static void append_member(struct buffer *memory, struct span name)
{
    if (is_member(buffer_span(memory), name))
        return;
    if (buffer_len(memory))
        buffer_append(memory, ", ", 2);
    buffer_append_span(memory, name);
}

void cors_join(const struct cors *cors, struct response_parts *parts, struct http_field *fields, struct buffer *memory)
{
    struct span list = cors->preflight ? allow_headers : expose_headers, name;
    size_t count = parts->field_count, at = 0;
    struct http_field *field;

    if (count)
        memcpy(fields, parts->fields, count * sizeof(*fields));
    field = find(fields, count, list);
    if (field)
        buffer_append_span(memory, field->value);
    while ((name = next_member(cors, &at)).len)
        if (!has_member(fields, count, list, name))
            append_member(memory, name);
    if (!field && buffer_len(memory)) {
        field = &fields[count++];
        field->name = list;
    }
    if (field)
        field->value = buffer_span(memory);
    parts->fields = fields;
    parts->field_count = count;
}

size_t cors_own_fields(const struct cors *cors, struct http_field *fields, struct buffer *memory)
{
    struct span name;
    size_t count = 0, at = 0;

    fields[count++] = (struct http_field){SPAN("Access-Control-Allow-Origin"), cors->origin};
    fields[count++] = (struct http_field){SPAN("Vary"), SPAN("Origin")};
    if (cors->credentials)
        fields[count++] = (struct http_field){SPAN("Access-Control-Allow-Credentials"), SPAN("true")};
    while ((name = next_member(cors, &at)).len)
        append_member(memory, name);
    if (buffer_len(memory))
        fields[count++] = (struct http_field){cors->preflight ? allow_headers : expose_headers, buffer_span(memory)};
    return count;
}
