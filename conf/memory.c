/*
 * memory.c - the blocks of a configuration, and its references.
 *
 * Invariant: blocks are only ever added, by the thread that reads the file; afterwards nobody writes.
 */
#include "conf/memory.h"

#include "proxy/span.h"

#include <assert.h>

struct block {
    struct block *next;
    max_align_t memory[];
};

struct owned_conf {
    struct conf conf; /* first: the outside knows this one */
    struct block *blocks;
};

struct conf *conf_new(void)
{
    struct owned_conf *owned = NEW(struct owned_conf);
    atomic_init(&owned->conf.refs, 1);
    return &owned->conf;
}

void *conf_allocate(struct conf *conf, size_t size)
{
    struct owned_conf *owned = (struct owned_conf *)conf;
    struct block *block = must_allocate(calloc(1, sizeof *block + (size ? size : 1)));
    block->next = owned->blocks;
    owned->blocks = block;
    return block->memory;
}

char *conf_copy(struct conf *conf, const char *text, size_t len)
{
    char *copy = conf_allocate(conf, len + 1);
    memcpy(copy, text, len);
    return copy;
}

void conf_hide(struct conf *conf, const char *text, const char *written)
{
    struct conf_hidden *hidden = conf_allocate(conf, sizeof *hidden);
    *hidden = (struct conf_hidden){conf->hidden, text, conf_copy(conf, written, strlen(written))};
    conf->hidden = hidden;
}

struct conf *conf_ref(struct conf *conf)
{
    unsigned before = atomic_fetch_add_explicit(&conf->refs, 1, memory_order_relaxed);
    assert(before > 0);
    return conf;
}

void conf_unref(struct conf *conf)
{
    if (!conf)
        return;
    unsigned before = atomic_fetch_sub_explicit(&conf->refs, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before > 1)
        return;
    struct owned_conf *owned = (struct owned_conf *)conf;
    while (owned->blocks) {
        struct block *block = owned->blocks;
        owned->blocks = block->next;
        free(block);
    }
    free(owned);
}
