/*
 * engine_lmdb_scan.c - the LMDB engine's side of what people see: walking records in their order, showing one.
 *
 * Each range has a tree whose keys end in the sequence number, so that a page begins where the one before has ended,
 * however much was added or removed between the two, and costs what it looks at. A walk is one short read transaction:
 * it pins pages that the writer would like to use again, so its budget bounds that as well.
 *
 * The tree of tasks holds a hash, because a task's name may be longer than a key: whoever walks it compares. It is
 * written at a random place, which is why records without a task have no entry.
 *
 * A record that cannot be read is left out, with a line in the log: the others can still be seen.
 */
#include <errno.h>
#include <lmdb.h>

#include "store/engine_lmdb.h"

#include <string.h>

#define SEQ      8
#define HASH     8
#define TASK_KEY (HASH + SEQ)

/* ---- the tree of tasks ------------------------------------------------------------------------ */

/* FNV-1a; who makes two tasks collide only makes the listing of these two slower. */
static uint64_t hash_of(struct record_text text)
{
    uint64_t hash = 0xcbf29ce484222325u;
    size_t len = text.len < RECORD_STRING_MAX ? text.len : RECORD_STRING_MAX;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (uint8_t)text.data[i]) * 0x100000001b3u;
    return hash;
}

static void write_task_key(uint8_t *key, struct record_text task, uint64_t seq)
{
    record_put64(key, hash_of(task));
    record_put64(key + HASH, seq);
}

int lmdb_put_task(struct lmdb *lmdb, uint64_t seq, const struct record_reservation *reservation)
{
    uint8_t key[TASK_KEY];
    MDB_val name = {sizeof key, key}, nothing = {0, NULL};
    if (reservation->task.len == 0)
        return 0;
    write_task_key(key, reservation->task, seq);
    return mdb_put(lmdb->txn, lmdb->trees[TREE_TASKS], &name, &nothing, 0);
}

/* The record that is at hand has no texts any more: the task is read again. */
int lmdb_drop_task(struct lmdb *lmdb, uint64_t seq)
{
    struct record_reservation reservation;
    uint8_t key[TASK_KEY];
    record_put64(key, seq);
    MDB_val name = {SEQ, key}, value;
    int rc = mdb_get(lmdb->txn, lmdb->trees[TREE_RESERVATIONS], &name, &value);
    if (rc != 0)
        return rc == MDB_NOTFOUND ? 0 : rc;
    if (!record_read_reservation(&reservation, value.mv_data, value.mv_size))
        return EIO;
    if (reservation.task.len == 0)
        return 0;
    write_task_key(key, reservation.task, seq);
    name = (MDB_val){sizeof key, key};
    rc = mdb_del(lmdb->txn, lmdb->trees[TREE_TASKS], &name, NULL);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* ---- walking ---------------------------------------------------------------------------------- */

static const enum tree walked[] = {
    [ENGINE_ALL] = TREE_RESERVATIONS,
    [ENGINE_OPEN] = TREE_OPEN,
    [ENGINE_UNKNOWN] = TREE_UNSETTLED,
    [ENGINE_TASK] = TREE_TASKS,
};

static void say_unreadable(const struct lmdb *lmdb)
{
    if (lmdb->config.log)
        lmdb->config.log(lmdb->config.log_arg, STORE_LOG_ERROR,
                         "a record cannot be read; it is left out where actions are listed");
}

/* From the key at `start`, whose first `prefix` bytes all keys must have. */
static int walk_tree(struct lmdb *lmdb, MDB_txn *txn, MDB_cursor *cursor, const uint8_t *start, size_t prefix,
                     struct engine_walk *walk)
{
    MDB_val name = {prefix + SEQ, (void *)start}, value;
    unsigned looked_at = 0;
    bool enough = false, unreadable = false;
    int rc = mdb_cursor_get(cursor, &name, &value, MDB_SET_RANGE);
    for (; rc == 0; rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT)) {
        if (name.mv_size != prefix + SEQ || memcmp(name.mv_data, start, prefix) != 0)
            rc = MDB_NOTFOUND;
        if (rc != 0 || enough || looked_at == walk->budget)
            break;
        struct record record;
        walk->last = record_get64((const uint8_t *)name.mv_data + prefix);
        looked_at++;
        if (lmdb_load(lmdb, txn, walk->last, &record) == ENGINE_OK)
            enough = !walk->visit(walk->arg, &record);
        else
            unreadable = true;
    }
    walk->over = rc == MDB_NOTFOUND;
    if (unreadable)
        say_unreadable(lmdb);
    return walk->over ? 0 : rc;
}

enum engine_error lmdb_walk(struct engine *engine, struct engine_walk *walk)
{
    struct lmdb *lmdb = lmdb_of(engine);
    MDB_txn *txn;
    MDB_cursor *cursor;
    uint8_t start[TASK_KEY];
    size_t prefix = walk->range == ENGINE_TASK ? HASH : 0;
    walk->last = walk->after;
    walk->over = walk->after == UINT64_MAX;
    if (walk->over)
        return ENGINE_OK;
    if (!lmdb->env || mdb_txn_begin(lmdb->env, NULL, MDB_RDONLY, &txn) != 0)
        return ENGINE_IO;
    if (prefix)
        write_task_key(start, walk->task, walk->after + 1);
    else
        record_put64(start, walk->after + 1);
    int rc = mdb_cursor_open(txn, lmdb->trees[walked[walk->range]], &cursor);
    if (rc == 0) {
        rc = walk_tree(lmdb, txn, cursor, start, prefix, walk);
        mdb_cursor_close(cursor);
    }
    mdb_txn_abort(txn);
    return lmdb_error(rc);
}

/* ---- one record ------------------------------------------------------------------------------- */

enum engine_error lmdb_scope_name(struct engine *engine, const struct record *record, char *scope_name)
{
    struct record whole;
    struct lmdb *lmdb = lmdb_of(engine);
    enum engine_error error = lmdb_load(lmdb, lmdb->txn, record->seq, &whole);
    if (error != ENGINE_OK)
        return error;
    struct record_text name = whole.reservation.scope_name;
    memcpy(scope_name, name.data, name.len);
    scope_name[name.len] = '\0';
    return ENGINE_OK;
}

/* Whether the number still stands for this id: between two snapshots the record may have gone. */
static bool stands_for(const struct lmdb *lmdb, MDB_txn *txn, uint64_t seq, const struct store_id *id)
{
    struct record_reservation reservation;
    uint8_t key[SEQ];
    record_put64(key, seq);
    MDB_val name = {sizeof key, key}, value;
    return mdb_get(txn, lmdb->trees[TREE_RESERVATIONS], &name, &value) == 0 &&
           record_read_reservation(&reservation, value.mv_data, value.mv_size) &&
           memcmp(&reservation.id, id, sizeof *id) == 0;
}

static enum engine_error show(struct lmdb *lmdb, uint64_t seq, const struct store_id *id,
                              void (*visit)(void *arg, const struct record *record, struct store_bytes *response),
                              void *arg, bool *found)
{
    MDB_txn *txn;
    struct record record;
    struct store_bytes *response = NULL;
    enum engine_error error = ENGINE_OK;
    if (mdb_txn_begin(lmdb->env, NULL, MDB_RDONLY, &txn) != 0)
        return ENGINE_IO;
    *found = stands_for(lmdb, txn, seq, id);
    if (*found)
        error = lmdb_load(lmdb, txn, seq, &record);
    if (*found && error == ENGINE_OK && record.has_outcome && record.outcome.has_response)
        error = lmdb_load_response(lmdb, txn, &record, &response);
    if (*found && error == ENGINE_OK)
        visit(arg, &record, response);
    store_bytes_unref(response);
    mdb_txn_abort(txn);
    return error;
}

/* The number by peek(), which knows every id; then the record by its number. One that was replaced in between is asked
 * for again, one that has gone was absent at that moment. */
enum engine_error lmdb_show(struct engine *engine, const struct store_id *id,
                            void (*visit)(void *arg, const struct record *record, struct store_bytes *response),
                            void *arg, bool *found)
{
    static const uint8_t no_fingerprint[STORE_HASH_LEN];
    uint64_t seq = 0;
    for (;;) {
        struct record record;
        struct store_bytes *response;
        enum engine_error error = lmdb_peek(engine, id, no_fingerprint, &record, found, &response);
        store_bytes_unref(response);
        if (error != ENGINE_OK || !*found || record.seq == seq)
            return *found && error == ENGINE_OK ? ENGINE_IO : error;
        seq = record.seq;
        error = show(lmdb_of(engine), seq, id, visit, arg, found);
        if (error != ENGINE_OK || *found)
            return error;
    }
}
