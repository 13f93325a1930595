/*
 * floor_store.h - the bytes of a key in bare LMDB, for the floors that have a store.
 *
 * A reservation: a random id of 32 bytes, and what was asked, by sequence number. Its outcome: 300 bytes and then some,
 * by sequence number, with an entry to expire by. Any error ends the program.
 */
#pragma once

#include <lmdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RESERVATION 160
#define OUTCOME     330

enum tree { TREE_IDS, TREE_RESERVATIONS, TREE_OUTCOMES, TREE_EXPIRY, TREE_COUNT };

struct floor_store {
    MDB_env *env;
    MDB_dbi trees[TREE_COUNT];
    uint64_t random;
};

static inline void must(int rc)
{
    if (rc) {
        fprintf(stderr, "LMDB: %s\n", mdb_strerror(rc));
        exit(1);
    }
}

static inline uint64_t next_random(struct floor_store *store)
{
    store->random ^= store->random << 13;
    store->random ^= store->random >> 7;
    store->random ^= store->random << 17;
    return store->random * 2685821657736338717u;
}

static inline void put(struct floor_store *store, MDB_txn *txn, enum tree tree, const void *key, size_t key_len,
                       size_t value_len)
{
    static const char value[OUTCOME] = "a value of that length";
    MDB_val to = {key_len, (void *)key}, from = {value_len, (void *)value};
    must(mdb_put(txn, store->trees[tree], &to, &from, tree == TREE_IDS ? 0 : MDB_APPEND));
}

static inline void reserve_key(struct floor_store *store, MDB_txn *txn, uint64_t sequence)
{
    uint64_t id[4] = {next_random(store), next_random(store), next_random(store), next_random(store)};
    uint64_t key = __builtin_bswap64(sequence);
    put(store, txn, TREE_IDS, id, sizeof id, sizeof sequence);
    put(store, txn, TREE_RESERVATIONS, &key, sizeof key, RESERVATION);
}

static inline void complete_key(struct floor_store *store, MDB_txn *txn, uint64_t sequence)
{
    uint64_t key = __builtin_bswap64(sequence), expiry[2] = {key, key};
    put(store, txn, TREE_OUTCOMES, &key, sizeof key, OUTCOME);
    put(store, txn, TREE_EXPIRY, expiry, sizeof expiry, 0);
}

static inline void open_store(struct floor_store *store, const char *directory)
{
    static const char *const names[TREE_COUNT] = {"ids", "reservations", "outcomes", "expiry"};
    MDB_txn *txn;
    store->random = 88172645463325252u;
    must(mdb_env_create(&store->env));
    must(mdb_env_set_maxdbs(store->env, TREE_COUNT));
    must(mdb_env_set_mapsize(store->env, (size_t)8 << 30));
    must(mdb_env_open(store->env, directory, 0, 0600));
    must(mdb_txn_begin(store->env, NULL, 0, &txn));
    for (int i = 0; i < TREE_COUNT; i++)
        must(mdb_dbi_open(txn, names[i], MDB_CREATE, &store->trees[i]));
    must(mdb_txn_commit(txn));
}
