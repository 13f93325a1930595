/*
 * buffer.c - PURE. Growing and compacting the memory of a buffer.
 *
 * Invariant: start <= end <= capacity. The live bytes are moved to the front only when at least as many were consumed
 * before them, and the capacity at least doubles otherwise: so a byte is moved a bounded number of times however a peer
 * cuts its bytes, and the memory stays within a small multiple of the most that was ever live. Left out: shrinking (a
 * buffer that was large once gives its memory back by buffer_free) and limits, which are the caller's.
 */
#include "proxy/buffer.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#define SMALLEST 256

static void buffer_compact(struct buffer *b)
{
    size_t live = buffer_len(b);
    if (live)
        memcpy(b->memory, b->memory + b->start, live); /* start >= live: the two do not overlap */
    b->start = 0;
    b->end = live;
}

static void buffer_grow(struct buffer *b, size_t needed)
{
    size_t capacity = b->capacity ? b->capacity : SMALLEST / 2;
    assert(capacity <= SIZE_MAX / 2);
    capacity *= 2;
    if (capacity < needed)
        capacity = needed;

    if (b->start == 0) { /* the allocator may move large memory without copying it */
        b->memory = must_allocate(realloc(b->memory, capacity));
    } else {
        size_t live = buffer_len(b);
        char *memory = must_allocate(malloc(capacity));
        memcpy(memory, b->memory + b->start, live);
        free(b->memory);
        b->memory = memory;
        b->start = 0;
        b->end = live;
    }
    b->capacity = capacity;
}

char *buffer_reserve(struct buffer *b, size_t size)
{
    size_t live = buffer_len(b);

    assert(b->start <= b->end && b->end <= b->capacity && size <= SIZE_MAX - live);
    if (!b->memory || b->capacity - b->end < size) {
        if (b->memory && live <= b->start && b->capacity - live >= size)
            buffer_compact(b);
        else
            buffer_grow(b, live + size);
    }
    return b->memory + b->end;
}

void buffer_printf(struct buffer *b, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int len = vsnprintf(NULL, 0, format, arguments);
    assert(len >= 0);
    vsnprintf(buffer_reserve(b, (size_t)len + 1), (size_t)len + 1, format, again);
    buffer_commit(b, (size_t)len);
    va_end(again);
    va_end(arguments);
}

void buffer_free(struct buffer *b)
{
    free(b->memory);
    *b = (struct buffer){0};
}
