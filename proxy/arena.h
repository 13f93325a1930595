/*
 * arena.h - PURE. Memory of one request: taken piece by piece, given back in one go.
 *
 *     first: | taken … used | room |     more: what did not fit, a list of blocks
 *
 * The first block is part of the arena, so the usual request allocates nothing; what a peer can size is bounded by the
 * limits of heads. A piece lives until arena_reset. An arena that is all zeroes (but for `first`) is empty.
 */
#pragma once

#include "proxy/span.h"

#define ARENA_FIRST 2048
#define ARENA_UNIT  16 /* pieces begin at multiples of it */

struct arena_block {
    _Alignas(ARENA_UNIT) struct arena_block *next;
};

struct arena {
    size_t used; /* of `first` */
    struct arena_block *more;
    _Alignas(ARENA_UNIT) char first[ARENA_FIRST];
};

static inline void *arena_take(struct arena *arena, size_t size)
{
    if (size <= ARENA_FIRST - arena->used) {
        char *piece = arena->first + arena->used;
        arena->used += (size + ARENA_UNIT - 1) / ARENA_UNIT * ARENA_UNIT;
        return piece;
    }
    struct arena_block *block = (struct arena_block *)must_allocate(malloc(sizeof *block + size));
    block->next = arena->more;
    arena->more = block;
    return block + 1;
}

static inline void arena_reset(struct arena *arena)
{
    arena->used = 0;
    while (arena->more) {
        struct arena_block *block = arena->more;
        arena->more = block->next;
        free(block);
    }
}
