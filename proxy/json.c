/*
 * json.c - PURE. JSON pointers and the canonical form, over the text itself.
 *
 * No tree of values is built. One scan walks the text and keeps what must be compared: the members of the objects that
 * are open. When an object closes they are sorted by name, so that a duplicate is a neighbour: n log n however many
 * members a body brings. For the canonical form the sorted members of all objects are kept, and a second walk follows
 * them; every byte is written once, however deep it lies. A pointer is followed during the scan: `rest` is what is left
 * of it at a value, "" where it names that value, NULL beside its way.
 *
 * Recursion is bounded by DEPTH_MAX. Positions are 32 bits: a longer text counts as invalid. Left out: numbers as
 * anything but text, and any repair of invalid texts.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* qsort_r */
#endif
#include "proxy/json.h"

#include "proxy/json_text.h"

#include <assert.h>

#define DEPTH_MAX 128

struct member {           /* positions in the text */
    uint64_t first_bytes; /* of the name, resolved, big-endian, padded with zeros: settles most comparisons */
    uint32_t name, name_len, value;
    uint32_t objects_before; /* number of the first object that begins at or after the value */
};

struct object {
    uint32_t first, count; /* its members, sorted */
    uint32_t end;          /* position behind its "}" */
    uint32_t objects_before_end;
};

/* What a pointer named. */
struct target {
    enum json_kind kind;
    struct span raw; /* string: between the quotes; else the value's text */
};

struct scan {
    const char *text;
    struct json_cursor cursor;
    unsigned depth;
    struct buffer open;            /* struct member: of the objects that are open, innermost last */
    bool keep;                     /* fill the next two */
    struct buffer closed, objects; /* struct member; struct object in the order in which they begin */
    struct target target;
};

/* ---- members and names ------------------------------------------------------------------------ */

static struct member *members_in(const struct buffer *list)
{
    return (struct member *)(void *)buffer_data(list);
}

static size_t member_count(const struct buffer *list)
{
    return buffer_len(list) / sizeof(struct member);
}

static uint32_t object_count(const struct scan *scan)
{
    return (uint32_t)(buffer_len(&scan->objects) / sizeof(struct object));
}

static uint32_t position(const struct scan *scan)
{
    return (uint32_t)(scan->cursor.at - scan->text);
}

static struct span name_of(const char *text, const struct member *member)
{
    return (struct span){text + member->name, member->name_len};
}

static uint64_t first_bytes_of(struct span name)
{
    struct json_bytes bytes = json_bytes_of(name);
    uint64_t first = 0;
    for (int i = 0; i < 8; i++) {
        int byte = json_next_byte(&bytes);
        first = first << 8 | (uint64_t)(byte < 0 ? 0 : byte);
    }
    return first;
}

static int compare_members(const void *a, const void *b, void *text)
{
    const struct member *left = a, *right = b;
    if (left->first_bytes != right->first_bytes)
        return left->first_bytes < right->first_bytes ? -1 : 1;
    return json_compare(name_of(text, left), name_of(text, right));
}

/* Sorts; false if two names are equal. Most objects come sorted or small: looked at first. */
static bool sort_members(const char *text, struct member *members, size_t count)
{
    bool sorted = true;
    for (size_t i = 1; i < count && sorted; i++) {
        int order = compare_members(&members[i - 1], &members[i], (void *)(uintptr_t)text);
        if (order == 0)
            return false;
        sorted = order < 0;
    }
    if (sorted)
        return true;
    qsort_r(members, count, sizeof *members, compare_members, (void *)(uintptr_t)text);
    for (size_t i = 1; i < count; i++)
        if (compare_members(&members[i - 1], &members[i], (void *)(uintptr_t)text) == 0)
            return false;
    return true;
}

/* ---- pointers --------------------------------------------------------------------------------- */

bool json_pointer_valid(const char *pointer)
{
    if (*pointer && *pointer != '/')
        return false;
    for (; *pointer; pointer++)
        if (*pointer == '~' && pointer[1] != '0' && pointer[1] != '1')
            return false;
    return true;
}

/* The pointer behind its first token if that is this name, else NULL. */
static const char *follow_name(const char *rest, struct span raw)
{
    if (!rest || *rest != '/')
        return NULL;
    struct json_bytes bytes = json_bytes_of(raw);
    for (rest++; *rest && *rest != '/'; rest++) {
        char wanted = *rest;
        if (wanted == '~')
            wanted = *++rest == '1' ? '/' : '~';
        if (json_next_byte(&bytes) != (unsigned char)wanted)
            return NULL;
    }
    return json_next_byte(&bytes) < 0 ? rest : NULL;
}

/* The same for the element of that index: decimal, without leading zeros (RFC 6901 §4). "-" names what is not there. */
static const char *follow_index(const char *rest, size_t index)
{
    if (!rest || *rest != '/')
        return NULL;
    char digits[24], *first = digits + sizeof digits;
    do
        *--first = (char)('0' + index % 10);
    while (index /= 10);
    size_t len = (size_t)(digits + sizeof digits - first);
    if (strncmp(++rest, first, len) != 0 || (rest[len] && rest[len] != '/'))
        return NULL;
    return rest + len;
}

/* ---- the scan --------------------------------------------------------------------------------- */

static bool scan_value(struct scan *scan, const char *rest);

/* Is the next character this one? Then it is taken. */
static bool take(struct json_cursor *cursor, char wanted)
{
    json_skip_space(cursor);
    if (cursor->at == cursor->end || *cursor->at != wanted)
        return false;
    cursor->at++;
    return true;
}

static bool scan_member(struct scan *scan, const char *rest)
{
    struct span name;
    json_skip_space(&scan->cursor);
    if (!json_take_string(&scan->cursor, &name) || !take(&scan->cursor, ':'))
        return false;
    json_skip_space(&scan->cursor);
    struct member member = {
        .first_bytes = first_bytes_of(name),
        .name = (uint32_t)(name.data - scan->text),
        .name_len = (uint32_t)name.len,
        .value = position(scan),
        .objects_before = object_count(scan),
    };
    buffer_append(&scan->open, &member, sizeof member);
    return scan_value(scan, follow_name(rest, name));
}

/* The members from `first` on are complete. */
static bool close_object(struct scan *scan, size_t first, uint32_t number)
{
    size_t count = member_count(&scan->open) - first;
    struct member *members = count ? members_in(&scan->open) + first : NULL;
    if (count && !sort_members(scan->text, members, count))
        return false;
    if (scan->keep) {
        struct object object = {
            .first = (uint32_t)member_count(&scan->closed),
            .count = (uint32_t)count,
            .end = position(scan),
            .objects_before_end = object_count(scan),
        };
        memcpy(buffer_data(&scan->objects) + number * sizeof object, &object, sizeof object);
        if (count)
            buffer_append(&scan->closed, members, count * sizeof *members);
    }
    scan->open.end -= count * sizeof *members;
    return true;
}

static bool scan_object(struct scan *scan, const char *rest)
{
    size_t first = member_count(&scan->open);
    uint32_t number = object_count(scan);
    if (scan->keep)
        buffer_append(&scan->objects, &(struct object){0}, sizeof(struct object));
    if (!take(&scan->cursor, '{'))
        return false;
    if (!take(&scan->cursor, '}')) {
        do
            if (!scan_member(scan, rest))
                return false;
        while (take(&scan->cursor, ','));
        if (!take(&scan->cursor, '}'))
            return false;
    }
    return close_object(scan, first, number);
}

static bool scan_array(struct scan *scan, const char *rest)
{
    if (!take(&scan->cursor, '['))
        return false;
    if (take(&scan->cursor, ']'))
        return true;
    size_t index = 0;
    do
        if (!scan_value(scan, follow_index(rest, index++)))
            return false;
    while (take(&scan->cursor, ','));
    return take(&scan->cursor, ']');
}

static bool scan_nested(struct scan *scan, const char *rest)
{
    if (scan->depth == DEPTH_MAX)
        return false;
    scan->depth++;
    bool valid = *scan->cursor.at == '{' ? scan_object(scan, rest) : scan_array(scan, rest);
    scan->depth--;
    return valid;
}

static enum json_kind kind_at(const char *at)
{
    switch (*at) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
        return JSON_TRUE;
    case 'f':
        return JSON_FALSE;
    case 'n':
        return JSON_NULL;
    }
    return JSON_NUMBER; /* or nothing at all: taking it will tell */
}

/* Takes a value that holds no other. `raw` is set for a string. */
static bool take_scalar(struct json_cursor *cursor, enum json_kind kind, struct span *raw)
{
    switch (kind) {
    case JSON_STRING:
        return json_take_string(cursor, raw);
    case JSON_NUMBER:
        return json_take_number(cursor);
    case JSON_TRUE:
        return json_take_literal(cursor, SPAN("true"));
    case JSON_FALSE:
        return json_take_literal(cursor, SPAN("false"));
    case JSON_NULL:
        return json_take_literal(cursor, SPAN("null"));
    case JSON_ABSENT:
    case JSON_OBJECT:
    case JSON_ARRAY:
        break;
    }
    assert(!"no scalar");
    return false;
}

static bool scan_value(struct scan *scan, const char *rest)
{
    json_skip_space(&scan->cursor);
    if (scan->cursor.at == scan->cursor.end)
        return false;
    const char *begin = scan->cursor.at;
    enum json_kind kind = kind_at(begin);
    struct span raw = {0};
    bool nested = kind == JSON_OBJECT || kind == JSON_ARRAY;
    if (!(nested ? scan_nested(scan, rest) : take_scalar(&scan->cursor, kind, &raw)))
        return false;
    if (rest && !*rest) {
        if (kind != JSON_STRING)
            raw = (struct span){begin, (size_t)(scan->cursor.at - begin)};
        scan->target = (struct target){kind, raw};
    }
    return true;
}

/* The whole text. Follow with scan_free. */
static bool scan_text(struct scan *scan, struct span text, const char *pointer)
{
    if (text.len == 0 || text.len > UINT32_MAX)
        return false;
    scan->text = text.data;
    scan->cursor = (struct json_cursor){text.data, text.data + text.len};
    if (!scan_value(scan, pointer))
        return false;
    json_skip_space(&scan->cursor);
    return scan->cursor.at == scan->cursor.end;
}

static void scan_free(struct scan *scan)
{
    buffer_free(&scan->open);
    buffer_free(&scan->closed);
    buffer_free(&scan->objects);
}

bool json_valid(struct span text)
{
    struct scan scan = {0};
    bool valid = scan_text(&scan, text, NULL);
    scan_free(&scan);
    return valid;
}

bool json_pointer(struct span text, const char *pointer, enum json_kind *kind, struct buffer *value)
{
    struct scan scan = {0};
    assert(json_pointer_valid(pointer));
    bool valid = scan_text(&scan, text, pointer);
    scan_free(&scan);
    *kind = valid ? scan.target.kind : JSON_ABSENT;
    switch (*kind) {
    case JSON_STRING:
        json_unescape(scan.target.raw, value);
        break;
    case JSON_NUMBER:
    case JSON_OBJECT:
    case JSON_ARRAY:
        buffer_append_span(value, scan.target.raw);
        break;
    case JSON_ABSENT:
    case JSON_NULL:
    case JSON_TRUE:
    case JSON_FALSE:
        break;
    }
    return valid;
}

/* ---- the canonical form ----------------------------------------------------------------------- */

struct writer {
    const struct scan *scan;
    struct buffer *out;
    struct json_cursor cursor;
    uint32_t next_object;
    size_t ignore_count;
};

static void write_value(struct writer *writer, const char **rests);

/* The pointers to what is ignored, one step further: into the list behind `rests`, which has one for each depth. */
static const char **follow_all(const struct writer *writer, const char **rests, const struct span *name, size_t index)
{
    const char **further = rests + writer->ignore_count;
    for (size_t i = 0; i < writer->ignore_count; i++)
        further[i] = name ? follow_name(rests[i], *name) : follow_index(rests[i], index);
    return further;
}

static bool is_ignored(const struct writer *writer, const char *const *rests)
{
    for (size_t i = 0; i < writer->ignore_count; i++)
        if (rests[i] && !*rests[i])
            return true;
    return false;
}

static void write_object(struct writer *writer, const char **rests)
{
    const struct object *objects = (const struct object *)(void *)buffer_data(&writer->scan->objects);
    const struct object *object = &objects[writer->next_object];
    const struct member *members = members_in(&writer->scan->closed);
    bool first = true;
    buffer_append_span(writer->out, SPAN("{"));
    for (uint32_t i = object->first; i < object->first + object->count; i++) {
        struct span name = name_of(writer->scan->text, &members[i]);
        const char **further = follow_all(writer, rests, &name, 0);
        if (is_ignored(writer, further))
            continue;
        if (!first)
            buffer_append_span(writer->out, SPAN(","));
        first = false;
        json_write_string(name, writer->out);
        buffer_append_span(writer->out, SPAN(":"));
        writer->cursor.at = writer->scan->text + members[i].value;
        writer->next_object = members[i].objects_before;
        write_value(writer, further);
    }
    buffer_append_span(writer->out, SPAN("}"));
    writer->cursor.at = writer->scan->text + object->end;
    writer->next_object = object->objects_before_end;
}

/* What is ignored here must be walked all the same, to find its end: it is written and taken back. */
static void write_array(struct writer *writer, const char **rests)
{
    bool first = true, more = take(&writer->cursor, '[') && !take(&writer->cursor, ']');
    buffer_append_span(writer->out, SPAN("["));
    for (size_t index = 0; more; index++) {
        const char **further = follow_all(writer, rests, NULL, index);
        size_t before = buffer_len(writer->out);
        if (!first)
            buffer_append_span(writer->out, SPAN(","));
        write_value(writer, further);
        if (is_ignored(writer, further))
            writer->out->end = writer->out->start + before;
        else
            first = false;
        more = take(&writer->cursor, ',') || !take(&writer->cursor, ']');
    }
    buffer_append_span(writer->out, SPAN("]"));
}

static void write_value(struct writer *writer, const char **rests)
{
    json_skip_space(&writer->cursor);
    const char *begin = writer->cursor.at;
    enum json_kind kind = kind_at(begin);
    struct span raw;
    if (kind == JSON_OBJECT) {
        write_object(writer, rests);
    } else if (kind == JSON_ARRAY) {
        write_array(writer, rests);
    } else {
        bool valid = take_scalar(&writer->cursor, kind, &raw);
        assert(valid); /* the scan saw it */
        if (kind == JSON_STRING)
            json_write_string(raw, writer->out);
        else
            buffer_append(writer->out, begin, (size_t)(writer->cursor.at - begin));
    }
}

bool json_canonical(struct span text, char *const *ignore, struct buffer *out)
{
    struct scan scan = {.keep = true};
    bool valid = scan_text(&scan, text, NULL);
    if (valid) {
        struct writer writer = {.scan = &scan, .out = out, .cursor = {text.data, text.data + text.len}};
        while (ignore && ignore[writer.ignore_count])
            writer.ignore_count++;
        size_t pointers = writer.ignore_count * (DEPTH_MAX + 1); /* a list for each depth */
        const char **rests = NEW_ARRAY(const char *, pointers);
        for (size_t i = 0; i < writer.ignore_count; i++)
            rests[i] = ignore[i];
        if (!is_ignored(&writer, rests))
            write_value(&writer, rests);
        free(rests);
    }
    scan_free(&scan);
    return valid;
}
