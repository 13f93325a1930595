/*
 * floor_lmdb.c - the floor below every durable key: bare LMDB with the bytes that a key costs, and nothing else.
 *
 *     floor_lmdb DIRECTORY SECONDS IN-FLIGHT      prints: keys/s, commits/s, p50 and p99 of a commit in ms
 *
 * As many requests as are in flight reserve together, the group commits; then their outcomes commit together
 * (floor_store.h). No thread, no queue, no look at what was there before. The directory must be empty; it is left with
 * the files in it.
 */
#include "tests/bench/floor_store.h"

#include <time.h>

#define COMMITS_NOTED (1 << 20)

struct floor {
    struct floor_store store;
    uint64_t sequence;
    unsigned in_flight;
    size_t commits;
    uint32_t *commit_us;
};

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void group(struct floor *floor, void (*op)(struct floor_store *, MDB_txn *, uint64_t))
{
    MDB_txn *txn;
    must(mdb_txn_begin(floor->store.env, NULL, 0, &txn));
    for (unsigned i = 0; i < floor->in_flight; i++)
        op(&floor->store, txn, floor->sequence + i);
    uint64_t began = now_us();
    must(mdb_txn_commit(txn));
    if (floor->commits < COMMITS_NOTED)
        floor->commit_us[floor->commits] = (uint32_t)(now_us() - began);
    floor->commits++;
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
    struct floor floor = {.in_flight = (unsigned)atoi(argv[3])};
    floor.commit_us = calloc(COMMITS_NOTED, sizeof *floor.commit_us);
    open_store(&floor.store, argv[1]);
    uint64_t began = now_us(), until = began + (uint64_t)(atof(argv[2]) * 1e6);
    while (now_us() < until) {
        group(&floor, reserve_key);
        group(&floor, complete_key);
        floor.sequence += floor.in_flight;
    }
    double seconds = (double)(now_us() - began) / 1e6;
    size_t noted = floor.commits < COMMITS_NOTED ? floor.commits : COMMITS_NOTED;
    qsort(floor.commit_us, noted, sizeof *floor.commit_us, by_size);
    printf("%.0f %.0f %.3f %.3f\n", (double)floor.sequence / seconds, (double)floor.commits / seconds,
           floor.commit_us[noted / 2] / 1e3, floor.commit_us[noted * 99 / 100] / 1e3);
    mdb_env_close(floor.store.env);
    free(floor.commit_us);
    return 0;
}
