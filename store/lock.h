/*
 * lock.h - the store's directory, and the right to be its only user: private to store/.
 */
#pragma once

#include "store/store.h"

struct store_lock {
    int directory; /* open descriptors, close-on-exec */
    int file;
};

/* Finds the directory (or makes it, 0700, if config->create), checks that it is fit for a store, and takes the
 * exclusive lock, waiting at most config->lock_wait_ms for another holder. False: `error` names the path, and the
 * holder if there is one. */
bool store_lock_take(struct store_lock *lock, const struct store_config *config, char *error, size_t error_size);
void store_lock_release(struct store_lock *lock);
