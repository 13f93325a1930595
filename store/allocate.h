/*
 * allocate.h - memory that either is there or ends the process.
 *
 * Everything that a peer can size is bounded before the store hears of it, so running out is the machine's end.
 */
#pragma once

#include <stdlib.h>

static inline void *store_must_allocate(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

#define STORE_NEW(type)              ((type *)store_must_allocate(calloc(1, sizeof(type))))
#define STORE_NEW_ARRAY(type, count) ((type *)store_must_allocate(calloc((count) ? (count) : 1, sizeof(type))))
