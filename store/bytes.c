/*
 * bytes.c - reference-counted immutable bytes: one recorded response, shared by its owner and by everybody who waited
 * for it.
 *
 * The invariant: data is written only while refs is 1. The last reference may be dropped on any thread.
 */
#include "store/allocate.h"
#include "store/store.h"

#include <assert.h>

struct store_bytes *store_bytes_new(size_t len)
{
    struct store_bytes *bytes = store_must_allocate(malloc(sizeof *bytes + len));
    atomic_init(&bytes->refs, 1);
    bytes->len = len;
    return bytes;
}

struct store_bytes *store_bytes_ref(struct store_bytes *bytes)
{
    if (bytes)
        atomic_fetch_add_explicit(&bytes->refs, 1, memory_order_relaxed);
    return bytes;
}

void store_bytes_unref(struct store_bytes *bytes)
{
    if (!bytes)
        return;
    unsigned before = atomic_fetch_sub_explicit(&bytes->refs, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before == 1)
        free(bytes);
}
