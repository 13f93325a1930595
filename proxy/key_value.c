/*
 * key_value.c - PURE. What a component says in a request (contract §3, "Components").
 *
 * Whatever a client can send twice (header lines, cookies, members of a query or form) is collected whole. One value is
 * that value; several are a kind of their own, which names no action, but still tells one identity or content from
 * another: nothing that a client sends makes two different requests look alike. Left out: judging the values, which is
 * key.c's.
 */
#include "proxy/key_internal.h"

#include "proxy/ascii.h"
#include "proxy/json.h"

#include <assert.h>

static struct key_value text_value(struct span text)
{
    return (struct key_value){VALUE_TEXT, text};
}

bool key_value_names(const struct key_value *value)
{
    switch (value->kind) {
    case VALUE_TEXT:
        return value->bytes.len > 0;
    case VALUE_NUMBER:
    case VALUE_TRUE:
    case VALUE_FALSE:
        return true;
    case VALUE_ABSENT:
    case VALUE_NULL:
    case VALUE_TREE:
    case VALUE_SEVERAL:
    case VALUE_UNREADABLE:
        return false;
    }
    assert(!"a kind of value that key_internal.h does not know");
    return false;
}

/* ---- values that may come several times ------------------------------------------------------- */

#define LENGTH_LEN 8

struct collector {
    struct buffer *scratch; /* length (8, big-endian) | value | length | value … */
    size_t count;
};

static struct collector collector_of(struct buffer *scratch)
{
    buffer_consume(scratch, buffer_len(scratch));
    return (struct collector){scratch, 0};
}

/* The next byte of application/x-www-form-urlencoded text; -1: no more. A "%" that begins no %XX says itself. */
static int next_decoded(struct span *raw)
{
    if (raw->len == 0)
        return -1;
    int byte = (unsigned char)raw->data[0];
    size_t used = 1;
    if (byte == '+') {
        byte = ' ';
    } else if (byte == '%') {
        int coded = ascii_percent_value(raw->data, raw->len);
        if (coded >= 0) {
            byte = coded;
            used = 3;
        }
    }
    raw->data += used;
    raw->len -= used;
    return byte;
}

static void collect(struct collector *collector, struct span value, bool encoded)
{
    char *length = buffer_reserve(collector->scratch, LENGTH_LEN + value.len), *to = length + LENGTH_LEN;
    if (encoded) {
        for (int byte; (byte = next_decoded(&value)) >= 0;)
            *to++ = (char)byte;
    } else if (value.len) {
        memcpy(to, value.data, value.len);
        to += value.len;
    }
    uint64_t len = (uint64_t)(to - length) - LENGTH_LEN;
    buffer_commit(collector->scratch, (size_t)(to - length));
    for (int i = LENGTH_LEN - 1; i >= 0; i--, len >>= 8)
        length[i] = (char)len;
    collector->count++;
}

static struct key_value collected(const struct collector *collector)
{
    struct span all = buffer_span(collector->scratch);
    if (collector->count == 0)
        return (struct key_value){VALUE_ABSENT, {0}};
    if (collector->count == 1)
        return text_value((struct span){all.data + LENGTH_LEN, all.len - LENGTH_LEN});
    return (struct key_value){VALUE_SEVERAL, all};
}

/* ---- head ------------------------------------------------------------------------------------- */

/* Several Cookie lines say the same as one (RFC 9113 §8.2.3 makes them so), other fields do not. */
static struct key_value cookie_header_value(const struct http_message *message, struct buffer *scratch)
{
    bool present = false;
    buffer_consume(scratch, buffer_len(scratch));
    for (size_t i = 0; i < message->field_count; i++) {
        if (!span_equal_nocase(message->fields[i].name, SPAN("Cookie")))
            continue;
        if (present)
            buffer_append_span(scratch, SPAN("; "));
        present = true;
        buffer_append_span(scratch, message->fields[i].value);
    }
    return (struct key_value){present ? VALUE_TEXT : VALUE_ABSENT, buffer_span(scratch)};
}

static struct key_value header_value(const struct http_message *message, const char *name, struct buffer *scratch)
{
    if (span_equal_nocase(span_of(name), SPAN("Cookie")))
        return cookie_header_value(message, scratch);
    struct collector collector = collector_of(scratch);
    for (size_t i = 0; i < message->field_count; i++)
        if (span_equal_nocase(message->fields[i].name, span_of(name)))
            collect(&collector, message->fields[i].value, false);
    return collected(&collector);
}

/* Takes what stands before the next separator off the front of *list. */
static struct span take_piece(struct span *list, char separator)
{
    const char *found = list->len ? memchr(list->data, separator, list->len) : NULL;
    struct span piece = {list->data, found ? (size_t)(found - list->data) : list->len};
    size_t used = piece.len + (found ? 1 : 0);
    if (used) {
        list->data += used;
        list->len -= used;
    }
    return piece;
}

static struct key_value cookie_value(const struct http_message *message, const char *name, struct buffer *scratch)
{
    struct collector collector = collector_of(scratch);
    for (size_t i = 0; i < message->field_count; i++) {
        if (!span_equal_nocase(message->fields[i].name, SPAN("Cookie")))
            continue;
        for (struct span line = message->fields[i].value; line.len;) {
            struct span value = span_trim(take_piece(&line, ';'));
            bool named = value.len && memchr(value.data, '=', value.len);
            if (named && span_equal(span_trim(take_piece(&value, '=')), span_of(name)))
                collect(&collector, span_trim(value), false);
        }
    }
    return collected(&collector);
}

static bool decoded_equal(struct span raw, const char *name)
{
    for (; *name; name++)
        if (next_decoded(&raw) != (unsigned char)*name)
            return false;
    return raw.len == 0;
}

/* name=value&… of a query or form. */
static struct key_value pair_value(struct span pairs, const char *name, struct buffer *scratch)
{
    struct collector collector = collector_of(scratch);
    while (pairs.len) {
        struct span value = take_piece(&pairs, '&');
        if (value.len && decoded_equal(take_piece(&value, '='), name))
            collect(&collector, value, true);
    }
    return collected(&collector);
}

static struct key_value path_name_value(const struct route_values *values, const char *name)
{
    for (size_t i = 0; values && i < values->count; i++)
        if (strcmp(values->items[i].name, name) == 0)
            return text_value(values->items[i].value);
    return (struct key_value){VALUE_ABSENT, {0}};
}

static struct key_value text_or_absent(struct span text)
{
    return (struct key_value){text.len ? VALUE_TEXT : VALUE_ABSENT, text};
}

/* ---- body ------------------------------------------------------------------------------------- */

bool key_body_coded(const struct http_message *message)
{
    for (size_t i = 0; i < message->field_count; i++) {
        const struct http_field *field = &message->fields[i];
        if (span_equal_nocase(field->name, SPAN("Content-Encoding")) && field->value.len &&
            !span_equal_nocase(field->value, SPAN("identity")))
            return true;
    }
    return false;
}

static struct key_value unreadable(const struct key_request *request)
{
    return (struct key_value){VALUE_UNREADABLE, request->body};
}

static struct key_value form_value(const struct key_request *request, const char *name, struct buffer *scratch)
{
    if (key_body_coded(request->message) || !http_has_type(request->message, SPAN("application/x-www-form-urlencoded")))
        return unreadable(request);
    return pair_value(request->body, name, scratch);
}

/* The object or array whose text is in `scratch`, brought to its canonical form there. */
static struct key_value tree_value(struct buffer *scratch)
{
    struct buffer canonical = {0};
    bool valid = json_canonical(buffer_span(scratch), NULL, &canonical);
    assert(valid); /* a part of a text that was found valid */
    buffer_free(scratch);
    *scratch = canonical;
    return (struct key_value){VALUE_TREE, buffer_span(scratch)};
}

static struct key_value json_value(const struct key_request *request, const char *pointer, struct buffer *scratch)
{
    static const enum key_value_kind kinds[] = {
        [JSON_ABSENT] = VALUE_ABSENT, [JSON_NULL] = VALUE_NULL,     [JSON_TRUE] = VALUE_TRUE,
        [JSON_FALSE] = VALUE_FALSE,   [JSON_NUMBER] = VALUE_NUMBER, [JSON_STRING] = VALUE_TEXT,
        [JSON_OBJECT] = VALUE_TREE,   [JSON_ARRAY] = VALUE_TREE,
    };
    enum json_kind kind;
    buffer_consume(scratch, buffer_len(scratch));
    if (key_body_coded(request->message) || !json_pointer(request->body, pointer, &kind, scratch))
        return unreadable(request);
    if (kinds[kind] == VALUE_TREE)
        return tree_value(scratch);
    return (struct key_value){kinds[kind], buffer_span(scratch)};
}

struct key_value key_value(const struct component *component, const struct key_request *request, struct buffer *scratch)
{
    const struct http_message *message = request->message;
    assert(request->body_complete || !component_needs_body(component));
    switch (component->kind) {
    case COMPONENT_METHOD:
        return text_value(message->method);
    case COMPONENT_HOST:
        return text_value(request->host);
    case COMPONENT_PATH:
        return text_value(request->path);
    case COMPONENT_QUERY:
        return (struct key_value){message->has_query ? VALUE_TEXT : VALUE_ABSENT, message->query};
    case COMPONENT_BODY:
        return text_value(request->body);
    case COMPONENT_PATH_NAME:
        return path_name_value(request->values, component->argument);
    case COMPONENT_QUERY_NAME:
        return pair_value(message->query, component->argument, scratch);
    case COMPONENT_HEADER:
        return header_value(message, component->argument, scratch);
    case COMPONENT_COOKIE:
        return cookie_value(message, component->argument, scratch);
    case COMPONENT_FORM:
        return form_value(request, component->argument, scratch);
    case COMPONENT_JSON:
        return json_value(request, component->argument, scratch);
    case COMPONENT_TLS_SUBJECT:
        return text_or_absent(request->tls_subject);
    case COMPONENT_TLS_FINGERPRINT:
        return text_or_absent(request->tls_fingerprint);
    case COMPONENT_LITERAL:
        return text_value(span_of(component->argument));
    }
    assert(!"a kind of component that conf.h does not know");
    return (struct key_value){VALUE_ABSENT, {0}};
}
