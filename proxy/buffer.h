/*
 * buffer.h - bytes that we own: appended at the end, consumed at the start.
 *
 *     memory: | consumed | live: start … end | room |
 *
 * The memory moves on growth and on compaction: spans into it live until the next buffer_reserve or buffer_append.
 */
#pragma once

#include "proxy/span.h"

struct buffer {
    char *memory;
    size_t start, end, capacity;
};

static inline size_t buffer_len(const struct buffer *b)
{
    return b->end - b->start;
}

static inline char *buffer_data(const struct buffer *b)
{
    return b->memory ? b->memory + b->start : NULL; /* NULL + 0 is undefined */
}

static inline struct span buffer_span(const struct buffer *b)
{
    return (struct span){buffer_data(b), buffer_len(b)};
}

/* Room for at least `size` more bytes after `end`; returns where they go. Follow with buffer_commit. What is appended
 * may not lie in the buffer itself. */
char *buffer_reserve(struct buffer *b, size_t size);

static inline void buffer_commit(struct buffer *b, size_t len)
{
    b->end += len;
}

/* Inline where there is room: most appends are a few bytes of a head or of a log line. */
static inline void buffer_append(struct buffer *b, const void *data, size_t len)
{
    if (len == 0)
        return;
    char *to = b->capacity - b->end >= len ? b->memory + b->end : buffer_reserve(b, len);
    memcpy(to, data, len);
    b->end += len;
}

static inline void buffer_append_span(struct buffer *b, struct span s)
{
    buffer_append(b, s.data, s.len);
}

void buffer_printf(struct buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Drops `len` bytes at the start. */
static inline void buffer_consume(struct buffer *b, size_t len)
{
    b->start += len;
    if (b->start == b->end)
        b->start = b->end = 0;
}

void buffer_free(struct buffer *b); /* gives the memory back; the buffer is empty and usable again */
