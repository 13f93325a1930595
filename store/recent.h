/*
 * recent.h - the ids of recent reservations, in memory: id -> sequence number. Private to engine_lmdb*.c.
 *
 * A reservation is durable once it is appended to its tree; the index by ids is a random place, and to write there at
 * each RESERVE was most of what a new key cost. So the ids wait here, and are merged into the index in the order of the
 * index, in small slices: neighbours then share a page. There are two generations:
 *
 *     young   takes what is reserved, until it holds enough, at most `limit`; then, if the old one is empty, it
 *             becomes the old one
 *     old     sorted once, and then merged slice by slice; forgotten as a whole when its last slice is committed
 *
 * As two ids are merged for each that comes, the old one is gone before the young one is full: nothing ever waits for
 * it.
 *
 * AN ENTRY IS A HINT, NOT A RECORD. It holds the first bytes of id and content only, so whoever gets a sequence number
 * from here loads the reservation and compares. Entries are found from the moment they are put in, committed or not: a
 * snapshot that has no such reservation says so.
 *
 * TRANSACTIONS. What the writer does here belongs to its transaction: recent_commit() or recent_rollback() ends it, and
 * after a rollback all is as it was.
 *
 * THREADS. recent_peek() on any thread; all else on the writer's. A look-up first asks here and then opens its
 * snapshot: an entry goes only after the index that holds it was committed, so one that is missing here is in that
 * snapshot.
 *
 * BOUND. Two generations of `limit` and the few that one transaction adds; memory is touched only as it is used.
 */
#pragma once

#include "store/record.h"

struct recent;

/* The first bytes of what names a record, as numbers that sort like the bytes. */
struct recent_key {
    uint64_t prefix;   /* 8 bytes of the id's first half */
    uint64_t identity; /* 7 of its second */
    uint64_t content;  /* 7 of the content hash */
};

struct recent_entry {
    struct recent_key key;
    uint64_t seq;
    uint32_t next_id, next_content; /* number of the next entry in the chain, from 1; 0: none */
    bool dead;                      /* its record is gone */
    bool indexed;                   /* it may be in the index */
};

struct recent_key recent_key_of(const struct store_id *id, const uint8_t content[STORE_HASH_LEN]);

struct recent *recent_new(size_t limit);
void recent_free(struct recent *recent);

/* Forgets all, and makes room for `count` entries that were reserved but perhaps not merged; they are the old
 * generation, and may be indexed. recent_replayed() ends it; `after_seq`: see recent_mark(). No look-up may run. */
void recent_replay(struct recent *recent, size_t count);
void recent_replay_one(struct recent *recent, const struct recent_key *key, uint64_t seq);
void recent_replayed(struct recent *recent, uint64_t after_seq);

/* False: it is full, because merging came to a halt; the caller writes to the index at once. What was added is owed all
 * the same, so that merging goes on. */
bool recent_add(struct recent *recent, const struct recent_key *key, uint64_t seq);
/* The record is gone. Returns whether the index may hold it. */
bool recent_kill(struct recent *recent, const struct recent_key *key, uint64_t seq);

/* Living entries with this prefix and identity, or prefix and content, the youngest first. `after`: the one before;
 * NULL: the first. */
const struct recent_entry *recent_next_id(const struct recent *recent, const struct recent_key *key,
                                          const struct recent_entry *after);
const struct recent_entry *recent_next_content(const struct recent *recent, const struct recent_key *key,
                                               const struct recent_entry *after);

/* The next one that is to go into the index in this transaction, in the order of the index; NULL: there is none. */
const struct recent_entry *recent_merge_next(struct recent *recent);
/* How many that transaction should merge at least, so that the young generation never waits. */
size_t recent_owes(const struct recent *recent);
/* All that is older than this is in the index, or gone, once the present transaction is committed. 0: as before. */
uint64_t recent_mark(const struct recent *recent);

/* `next_seq`: what the next reservation will get. `enough`: so many young ones are worth merging; at most the limit. */
void recent_commit(struct recent *recent, uint64_t next_seq, size_t enough);
void recent_rollback(struct recent *recent);

/* The youngest entry of this id. A hint: the record may be newer than the caller's snapshot, or gone. */
bool recent_peek(struct recent *recent, const struct recent_key *key, uint64_t *seq);

/* Entries held, dead ones included. */
size_t recent_count(const struct recent *recent);
