/*
 * floor_lmdb.c - the floor below every durable key: bare LMDB with the bytes that a key costs, and nothing else.
 *
 *     floor_lmdb DIRECTORY SECONDS IN-FLIGHT      prints: keys/s, commits/s, p50 and p99 of a commit in ms
 *
 * As many requests as are in flight reserve together (a random id of 32 bytes, a reservation), the group commits; then
 * their outcomes (300 bytes, by sequence number, with an entry to expire by) commit together. No thread, no queue, no
 * look at what was there before. The directory must be empty; it is left with the files in it.
 */
#include <lmdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RESERVATION   160
#define OUTCOME       330
#define COMMITS_NOTED (1 << 20)

enum tree { TREE_IDS, TREE_RESERVATIONS, TREE_OUTCOMES, TREE_EXPIRY, TREE_COUNT };

struct floor {
    MDB_env *env;
    MDB_dbi trees[TREE_COUNT];
    uint64_t random, sequence;
    unsigned in_flight;
    size_t commits;
    uint32_t *commit_us;
};

static void must(int rc)
{
    if (rc) {
        fprintf(stderr, "floor_lmdb: %s\n", mdb_strerror(rc));
        exit(1);
    }
}

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static uint64_t next_random(struct floor *floor)
{
    floor->random ^= floor->random << 13;
    floor->random ^= floor->random >> 7;
    floor->random ^= floor->random << 17;
    return floor->random * 2685821657736338717u;
}

static void put(struct floor *floor, MDB_txn *txn, enum tree tree, const void *key, size_t key_len, size_t value_len)
{
    static const char value[OUTCOME] = "a value of that length";
    MDB_val to = {key_len, (void *)key}, from = {value_len, (void *)value};
    must(mdb_put(txn, floor->trees[tree], &to, &from, tree == TREE_IDS ? 0 : MDB_APPEND));
}

static void reserve(struct floor *floor, MDB_txn *txn, uint64_t sequence)
{
    uint64_t id[4] = {next_random(floor), next_random(floor), next_random(floor), next_random(floor)};
    uint64_t key = __builtin_bswap64(sequence);
    put(floor, txn, TREE_IDS, id, sizeof id, sizeof sequence);
    put(floor, txn, TREE_RESERVATIONS, &key, sizeof key, RESERVATION);
}

static void complete(struct floor *floor, MDB_txn *txn, uint64_t sequence)
{
    uint64_t key = __builtin_bswap64(sequence), expiry[2] = {key, key};
    put(floor, txn, TREE_OUTCOMES, &key, sizeof key, OUTCOME);
    put(floor, txn, TREE_EXPIRY, expiry, sizeof expiry, 0);
}

static void group(struct floor *floor, void (*op)(struct floor *, MDB_txn *, uint64_t))
{
    MDB_txn *txn;
    must(mdb_txn_begin(floor->env, NULL, 0, &txn));
    for (unsigned i = 0; i < floor->in_flight; i++)
        op(floor, txn, floor->sequence + i);
    uint64_t began = now_us();
    must(mdb_txn_commit(txn));
    if (floor->commits < COMMITS_NOTED)
        floor->commit_us[floor->commits] = (uint32_t)(now_us() - began);
    floor->commits++;
}

static void open_floor(struct floor *floor, const char *directory)
{
    static const char *const names[TREE_COUNT] = {"ids", "reservations", "outcomes", "expiry"};
    MDB_txn *txn;
    must(mdb_env_create(&floor->env));
    must(mdb_env_set_maxdbs(floor->env, TREE_COUNT));
    must(mdb_env_set_mapsize(floor->env, (size_t)8 << 30));
    must(mdb_env_open(floor->env, directory, 0, 0600));
    must(mdb_txn_begin(floor->env, NULL, 0, &txn));
    for (int i = 0; i < TREE_COUNT; i++)
        must(mdb_dbi_open(txn, names[i], MDB_CREATE, &floor->trees[i]));
    must(mdb_txn_commit(txn));
}

static int by_size(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: floor_lmdb DIRECTORY SECONDS IN-FLIGHT\n");
        return 2;
    }
    struct floor floor = {.random = 88172645463325252u, .in_flight = (unsigned)atoi(argv[3])};
    floor.commit_us = calloc(COMMITS_NOTED, sizeof *floor.commit_us);
    open_floor(&floor, argv[1]);
    uint64_t began = now_us(), until = began + (uint64_t)(atof(argv[2]) * 1e6);
    while (now_us() < until) {
        group(&floor, reserve);
        group(&floor, complete);
        floor.sequence += floor.in_flight;
    }
    double seconds = (double)(now_us() - began) / 1e6;
    size_t noted = floor.commits < COMMITS_NOTED ? floor.commits : COMMITS_NOTED;
    qsort(floor.commit_us, noted, sizeof *floor.commit_us, by_size);
    printf("%.0f %.0f %.3f %.3f\n", (double)floor.sequence / seconds, (double)floor.commits / seconds,
           floor.commit_us[noted / 2] / 1e3, floor.commit_us[noted * 99 / 100] / 1e3);
    mdb_env_close(floor.env);
    free(floor.commit_us);
    return 0;
}
