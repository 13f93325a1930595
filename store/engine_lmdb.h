/*
 * engine_lmdb.h - what the parts of the LMDB engine share. Private to engine_lmdb*.c, which include lmdb.h first.
 *
 * The trees (keys sort as bytes, numbers are big-endian):
 *
 *     index         prefix8 0 identity7 seq8           nothing: the only two that are written at a random place, later
 *                   prefix8 1 content7 seq8            and in order (recent.h); neighbours, so that one leaf takes both
 *     reservations  seq8                               record_write_reservation
 *     outcomes      seq8                               record_write_outcome, a small response included
 *     pieces        seq8 number4                       at most PIECE_LEN bytes of a larger response
 *     open          seq8                               record_write_opening, while in progress
 *     unknown       since8 seq8                        nothing: for the count and the oldest
 *     unsettled     seq8                               nothing: the same records in the order of a listing
 *     tasks         hash8 seq8                         nothing: the records of one task, if they have any
 *     expiry        expires8 seq8                      nothing: the oldest end is swept
 *     scopes        1 name                             record_write_scope
 *     meta          "format", "counters"
 *
 * prefix, identity, content: the first bytes of the id's two halves and of the content hash. A reservation from
 * counters.merged_seq on may be missing in the index; its id is then in memory.
 *
 * Sequence numbers are given at RESERVE and never again, so what grows with the traffic is appended. `unknown`,
 * `unsettled` and `expiry` hold a record only while it is not in progress: sweeping cannot meet one that is.
 */
#pragma once

#include "store/engine.h"
#include "store/recent.h"

#define PIECE_LEN 4080 /* exactly one overflow page: more would need free pages in a row, which are slow to find */

enum tree {
    TREE_INDEX,
    TREE_RESERVATIONS,
    TREE_OUTCOMES,
    TREE_PIECES,
    TREE_OPEN,
    TREE_UNKNOWN,
    TREE_UNSETTLED,
    TREE_TASKS,
    TREE_EXPIRY,
    TREE_SCOPES,
    TREE_META,
    TREE_COUNT
};

struct lmdb_backup;

struct lmdb {
    struct engine engine; /* first */
    struct engine_config config;
    char *path;
    MDB_env *env; /* NULL while it could not be reopened */
    MDB_txn *txn; /* the write transaction, between begin and commit or abort */
    MDB_dbi trees[TREE_COUNT];
    uint64_t completed;           /* as of this transaction */
    uint64_t committed_completed; /* as of the last that counted */
    uint64_t in_progress, unknown;
    int64_t oldest_unknown_ms;
    uint64_t used_pages, max_pages;
    unsigned until_count; /* transactions until the free pages are counted again */
    struct lmdb_backup *backup;
    struct recent *recent;
    uint64_t merged_seq;    /* as committed */
    unsigned merge_pause;   /* transactions without merging */
    uint64_t lonely_prefix; /* if `lonely`: the index has nothing of this prefix, as of this transaction */
    bool lonely;
};

static inline struct lmdb *lmdb_of(struct engine *engine)
{
    return (struct lmdb *)engine;
}

/* LMDB's or the system's error as ours. */
static inline enum engine_error lmdb_error(int rc)
{
    switch (rc) {
    case 0:
        return ENGINE_OK;
    case MDB_MAP_FULL:
    case MDB_TXN_FULL:
        return ENGINE_FULL;
    default: /* ENOSPC and EDQUOT too: the file system may have room again in a moment, so nothing is given up for it */
        return ENGINE_IO;
    }
}

/* engine_lmdb_index.c: from an id to its record */
enum engine_error lmdb_find(struct engine *engine, const struct store_id *id, struct record *out, bool *found);
enum engine_error lmdb_find_other(struct engine *engine, const struct store_id *id, const uint8_t *content,
                                  int64_t now_ms, bool *found);
/* On any thread. Opens *txn, a snapshot that the caller aborts; NULL if that failed. */
enum engine_error lmdb_find_snapshot(struct lmdb *lmdb, const struct store_id *id, MDB_txn **txn, struct record *out,
                                     bool *found);
/* These four return LMDB's own error. */
int lmdb_index_add(struct lmdb *lmdb, uint64_t seq, const struct record_reservation *reservation);
int lmdb_index_drop(struct lmdb *lmdb, uint64_t seq, const struct record_reservation *reservation);
/* The slice that is due, at the end of a transaction. */
int lmdb_index_merge(struct lmdb *lmdb);
/* Fills the memory from what is not merged. No look-up may run. */
int lmdb_index_replay(struct lmdb *lmdb);

/* engine_lmdb_record.c: the steps */
enum engine_error lmdb_insert(struct engine *engine, const struct record_reservation *reservation,
                              const struct record_opening *opening);
enum engine_error lmdb_reopen_record(struct engine *engine, const struct record *record,
                                     const struct record_opening *opening);
enum engine_error lmdb_settle(struct engine *engine, const struct record *record, const struct record_outcome *outcome,
                              const struct store_bytes *response, bool keep);
enum engine_error lmdb_restore(struct engine *engine, const struct record *record);
enum engine_error lmdb_erase(struct engine *engine, const struct record *record);
enum engine_error lmdb_response(struct engine *engine, const struct record *record, struct store_bytes **out);
enum engine_error lmdb_sweep(struct engine *engine, int64_t now_ms, unsigned limit, unsigned *swept);
enum engine_error lmdb_first_open(struct engine *engine, struct record *out, bool *found, char *scope_name);
enum engine_error lmdb_scope_name(struct engine *engine, const struct record *record, char *scope_name);
enum engine_error lmdb_get_scope(struct engine *engine, const char *name, struct record_scope *out, bool *found);
enum engine_error lmdb_put_scope(struct engine *engine, const char *name, const struct record_scope *scope);
bool lmdb_is_due(struct engine *engine, int64_t now_ms);
enum engine_error lmdb_peek(struct engine *engine, const struct store_id *id, const uint8_t *fingerprint,
                            struct record *out, bool *found, struct store_bytes **response);
/* A record by its number, and its response: texts are valid until the transaction's next write, or its end. */
enum engine_error lmdb_load(struct lmdb *lmdb, MDB_txn *txn, uint64_t seq, struct record *out);
enum engine_error lmdb_load_response(struct lmdb *lmdb, MDB_txn *txn, const struct record *record,
                                     struct store_bytes **out);

/* engine_lmdb_scan.c: what people see. The first two keep the tree of tasks; they return LMDB's own error. */
int lmdb_put_task(struct lmdb *lmdb, uint64_t seq, const struct record_reservation *reservation);
int lmdb_drop_task(struct lmdb *lmdb, uint64_t seq); /* before its reservation is dropped */
enum engine_error lmdb_walk(struct engine *engine, struct engine_walk *walk);
enum engine_error lmdb_show(struct engine *engine, const struct store_id *id,
                            void (*visit)(void *arg, const struct record *record, struct store_bytes *response),
                            void *arg, bool *found);

/* engine_lmdb_backup.c */
struct lmdb_backup *lmdb_backup_new(void);
void lmdb_backup_free(struct lmdb_backup *backup);
bool lmdb_backup(struct engine *engine, int fd, char *error, size_t error_size);
void lmdb_stop_backup(struct engine *engine);
/* By the writer, around closing the environment: what is being copied is given up, and nothing begins. */
void lmdb_backup_hold(struct lmdb_backup *backup);
void lmdb_backup_let(struct lmdb_backup *backup);
/* By the writer, before each transaction: a copy that makes the file grow too far is given up. `limit`: how many pages
 * it may have. */
void lmdb_backup_watch(struct lmdb_backup *backup, uint64_t file_pages, uint64_t limit);
