/*
 * span.h - bytes that belong to somebody else, and memory that either is there or ends the process.
 *
 * A span is a pointer and a length: never NUL-terminated, never owned. Whoever hands one out says how long it lives.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct span {
    const char *data;
    size_t len;
};

#define SPAN(literal) ((struct span){(literal), sizeof(literal) - 1})

static inline struct span span_of(const char *string)
{
    return (struct span){string, string ? strlen(string) : 0};
}

static inline bool span_equal(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* ASCII case only: header names, schemes, hosts (RFC 9110 §5.1). */
static inline bool span_equal_nocase(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || strncasecmp(a.data, b.data, a.len) == 0);
}

static inline struct span span_trim(struct span s) /* optional white space, RFC 9110 §5.6.3 */
{
    while (s.len && (s.data[0] == ' ' || s.data[0] == '\t'))
        s.data++, s.len--;
    while (s.len && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\t'))
        s.len--;
    return s;
}

/* What follows the first `count` bytes. Also of an empty one that points nowhere: NULL + 0 is undefined. */
static inline struct span span_after(struct span s, size_t count)
{
    return count ? (struct span){s.data + count, s.len - count} : s;
}

/* Out of memory: everything that a peer can size is bounded before, so this is the machine's end, not a peer's doing.
 */
static inline void *must_allocate(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

#define NEW(type)             ((type *)must_allocate(calloc(1, sizeof(type))))
#define NEW_ARRAY(type, size) ((type *)must_allocate(calloc((size) ? (size) : 1, sizeof(type))))

static inline char *copy_string(const char *string)
{
    return (char *)must_allocate(strdup(string));
}
