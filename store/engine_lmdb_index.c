/*
 * engine_lmdb_index.c - from an id to its record: the index on disk, and before it the memory of recent ids.
 *
 * A reservation's two entries are not written with it. They wait in memory (recent.h) and are merged later, in the
 * order of the index, as a part of the commits that come anyway. `merged_seq` in the counters says from where on the
 * reservations have to be read back into memory at the start; that some of them are in the index already does no harm,
 * because merging an entry twice changes nothing.
 *
 * The index holds the beginnings of ids and contents, and sequence numbers: less to write, and neighbours stay
 * neighbours. What it leads to is loaded and compared before it is believed. An entry stands in it as long as its
 * record: one that leads nowhere is damage, not a miss.
 *
 * When merging does not fit, it pauses for a while (the transaction that met this is tried again without); if the
 * memory is full before it can go on, new reservations go into the index at once.
 */
#include <errno.h>
#include <lmdb.h>

#include "store/engine_lmdb.h"

#include <string.h>

#define HALF        (STORE_ID_LEN / 2)
#define INDEX_KEY   24
#define MERGE_PAUSE 64  /* transactions without merging, after it did not fit */
#define SLICE_MAX   512 /* entries in one transaction */

enum kind { KIND_ID = 0, KIND_CONTENT = 1 };

/* ---- keys ------------------------------------------------------------------------------------- */

static void write_key(uint8_t *key, uint64_t prefix, enum kind kind, uint64_t rest, uint64_t seq)
{
    record_put64(key, prefix);
    record_put64(key + 8, rest); /* of 7 bytes */
    key[8] = kind;
    record_put64(key + 16, seq);
}

static int put_entry(struct lmdb *lmdb, uint64_t prefix, enum kind kind, uint64_t rest, uint64_t seq)
{
    uint8_t key[INDEX_KEY];
    write_key(key, prefix, kind, rest, seq);
    MDB_val name = {sizeof key, key}, value = {0, (void *)""};
    int rc = mdb_put(lmdb->txn, lmdb->trees[TREE_INDEX], &name, &value, MDB_NOOVERWRITE);
    return rc == MDB_KEYEXIST ? 0 : rc;
}

static int drop_entry(struct lmdb *lmdb, uint64_t prefix, enum kind kind, uint64_t rest, uint64_t seq)
{
    uint8_t key[INDEX_KEY];
    write_key(key, prefix, kind, rest, seq);
    MDB_val name = {sizeof key, key};
    int rc = mdb_del(lmdb->txn, lmdb->trees[TREE_INDEX], &name, NULL);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* ---- reading the index ------------------------------------------------------------------------ */

/* Entries of one prefix, kind and rest, by sequence number. */
struct range {
    MDB_cursor *cursor;
    uint8_t key[INDEX_KEY];
    MDB_val name;
    bool begun, lonely; /* lonely: nothing with this prefix from here on */
};

static int open_range(struct lmdb *lmdb, MDB_txn *txn, const struct recent_key *key, enum kind kind,
                      struct range *range)
{
    *range = (struct range){0};
    write_key(range->key, key->prefix, kind, kind == KIND_ID ? key->identity : key->content, 0);
    return mdb_cursor_open(txn, lmdb->trees[TREE_INDEX], &range->cursor);
}

/* The next sequence number, or MDB_NOTFOUND. */
static int next_of_range(struct range *range, uint64_t *seq)
{
    MDB_val value;
    if (!range->begun)
        range->name = (MDB_val){sizeof range->key, range->key};
    int rc = mdb_cursor_get(range->cursor, &range->name, &value, range->begun ? MDB_NEXT : MDB_SET_RANGE);
    bool same_prefix = rc == 0 && range->name.mv_size == INDEX_KEY && memcmp(range->name.mv_data, range->key, 8) == 0;
    range->lonely = !range->begun && !same_prefix;
    range->begun = true;
    if (rc != 0)
        return rc;
    if (!same_prefix || memcmp(range->name.mv_data, range->key, INDEX_KEY - 8) != 0)
        return MDB_NOTFOUND;
    *seq = record_get64((const uint8_t *)range->name.mv_data + INDEX_KEY - 8);
    return 0;
}

/* The youngest record with this id in the index; an older one has expired and waits to be swept. */
static enum engine_error find_indexed(struct lmdb *lmdb, MDB_txn *txn, const struct store_id *id,
                                      const struct recent_key *key, struct record *out, bool *found, bool *lonely)
{
    struct range range;
    struct record record;
    uint64_t seq;
    enum engine_error error = ENGINE_OK;
    *found = *lonely = false;
    int rc = open_range(lmdb, txn, key, KIND_ID, &range);
    if (rc != 0)
        return lmdb_error(rc);
    while ((rc = next_of_range(&range, &seq)) == 0 && error == ENGINE_OK) {
        error = lmdb_load(lmdb, txn, seq, &record);
        if (error == ENGINE_OK && memcmp(&record.reservation.id, id, sizeof *id) == 0) {
            *out = record;
            *found = true;
        }
    }
    *lonely = range.lonely;
    mdb_cursor_close(range.cursor);
    return error != ENGINE_OK || rc == 0 || rc == MDB_NOTFOUND ? error : lmdb_error(rc);
}

/* ---- finding, in the writer's transaction ----------------------------------------------------- */

static const uint8_t no_content[STORE_HASH_LEN];

enum engine_error lmdb_find(struct engine *engine, const struct store_id *id, struct record *out, bool *found)
{
    struct lmdb *lmdb = lmdb_of(engine);
    struct recent_key key = recent_key_of(id, no_content);
    const struct recent_entry *entry = NULL;
    *found = false;
    while ((entry = recent_next_id(lmdb->recent, &key, entry))) {
        enum engine_error error = lmdb_load(lmdb, lmdb->txn, entry->seq, out);
        *found = error == ENGINE_OK && memcmp(&out->reservation.id, id, sizeof *id) == 0;
        if (error != ENGINE_OK || *found)
            return error;
    }
    bool lonely;
    enum engine_error error = find_indexed(lmdb, lmdb->txn, id, &key, out, found, &lonely);
    lmdb->lonely = error == ENGINE_OK && lonely;
    lmdb->lonely_prefix = key.prefix;
    return error;
}

/* One neighbour: is it a live record of somebody else? */
static enum engine_error is_other(struct lmdb *lmdb, const struct store_id *id, const uint8_t *content, int64_t now_ms,
                                  uint64_t seq, bool *found)
{
    struct record record;
    enum engine_error error = lmdb_load(lmdb, lmdb->txn, seq, &record);
    if (error != ENGINE_OK)
        return error;
    bool same_key = memcmp(record.reservation.id.bytes, id->bytes, HALF) == 0;
    bool is_own = memcmp(&record.reservation.id, id, sizeof *id) == 0;
    bool is_live = record.open || record.outcome.expires_ms > now_ms;
    *found = same_key && !is_own && is_live && memcmp(record.reservation.content, content, STORE_HASH_LEN) == 0;
    return ENGINE_OK;
}

enum engine_error lmdb_find_other(struct engine *engine, const struct store_id *id, const uint8_t *content,
                                  int64_t now_ms, bool *found)
{
    struct lmdb *lmdb = lmdb_of(engine);
    struct recent_key key = recent_key_of(id, content);
    const struct recent_entry *entry = NULL;
    enum engine_error error = ENGINE_OK;
    struct range range;
    uint64_t seq;
    *found = false;
    while (error == ENGINE_OK && !*found && (entry = recent_next_content(lmdb->recent, &key, entry)))
        error = is_other(lmdb, id, content, now_ms, entry->seq, found);
    if (error != ENGINE_OK || *found || (lmdb->lonely && lmdb->lonely_prefix == key.prefix))
        return error;
    int rc = open_range(lmdb, lmdb->txn, &key, KIND_CONTENT, &range);
    if (rc != 0)
        return lmdb_error(rc);
    while (error == ENGINE_OK && !*found && (rc = next_of_range(&range, &seq)) == 0)
        error = is_other(lmdb, id, content, now_ms, seq, found);
    mdb_cursor_close(range.cursor);
    return error != ENGINE_OK || rc == 0 || rc == MDB_NOTFOUND ? error : lmdb_error(rc);
}

/* ---- finding, on any thread ------------------------------------------------------------------- */

/* Memory first, then the snapshot: an entry leaves memory only when what holds it in the index is committed. */
enum engine_error lmdb_find_snapshot(struct lmdb *lmdb, const struct store_id *id, MDB_txn **txn, struct record *out,
                                     bool *found)
{
    struct recent_key key = recent_key_of(id, no_content);
    uint64_t seq;
    bool lonely, recent = recent_peek(lmdb->recent, &key, &seq);
    *found = false;
    int rc = mdb_txn_begin(lmdb->env, NULL, MDB_RDONLY, txn);
    if (rc != 0) {
        *txn = NULL;
        return ENGINE_IO;
    }
    if (!recent)
        return find_indexed(lmdb, *txn, id, &key, out, found, &lonely);
    MDB_val value;
    uint8_t bytes[8];
    record_put64(bytes, seq);
    MDB_val name = {sizeof bytes, bytes};
    rc = mdb_get(*txn, lmdb->trees[TREE_RESERVATIONS], &name, &value);
    if (rc == MDB_NOTFOUND) /* newer than the snapshot, or gone */
        return ENGINE_OK;
    enum engine_error error = rc ? lmdb_error(rc) : lmdb_load(lmdb, *txn, seq, out);
    *found = error == ENGINE_OK && memcmp(&out->reservation.id, id, sizeof *id) == 0;
    return error;
}

/* ---- writing ---------------------------------------------------------------------------------- */

static int put_entries(struct lmdb *lmdb, const struct recent_key *key, uint64_t seq)
{
    int rc = put_entry(lmdb, key->prefix, KIND_ID, key->identity, seq);
    return rc ? rc : put_entry(lmdb, key->prefix, KIND_CONTENT, key->content, seq);
}

int lmdb_index_add(struct lmdb *lmdb, uint64_t seq, const struct record_reservation *reservation)
{
    struct recent_key key = recent_key_of(&reservation->id, reservation->content);
    return recent_add(lmdb->recent, &key, seq) ? 0 : put_entries(lmdb, &key, seq);
}

int lmdb_index_drop(struct lmdb *lmdb, uint64_t seq, const struct record_reservation *reservation)
{
    struct recent_key key = recent_key_of(&reservation->id, reservation->content);
    if (!recent_kill(lmdb->recent, &key, seq))
        return 0;
    int rc = drop_entry(lmdb, key.prefix, KIND_ID, key.identity, seq);
    return rc ? rc : drop_entry(lmdb, key.prefix, KIND_CONTENT, key.content, seq);
}

int lmdb_index_merge(struct lmdb *lmdb)
{
    if (lmdb->merge_pause) {
        lmdb->merge_pause--;
        return 0;
    }
    size_t owes = recent_owes(lmdb->recent);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < owes && i < SLICE_MAX; i++) {
        const struct recent_entry *entry = recent_merge_next(lmdb->recent);
        if (!entry)
            break;
        rc = put_entries(lmdb, &entry->key, entry->seq);
    }
    if (rc == MDB_MAP_FULL || rc == MDB_TXN_FULL)
        lmdb->merge_pause = MERGE_PAUSE;
    return rc;
}

/* ---- the start -------------------------------------------------------------------------------- */

/* Calls `each` for all reservations from merged_seq on, or only counts them. */
static int replay(struct lmdb *lmdb, MDB_txn *txn, bool only_count, size_t *count)
{
    MDB_cursor *cursor;
    MDB_val name, value;
    uint8_t first[8];
    record_put64(first, lmdb->merged_seq);
    name = (MDB_val){sizeof first, first};
    *count = 0;
    int rc = mdb_cursor_open(txn, lmdb->trees[TREE_RESERVATIONS], &cursor);
    if (rc != 0)
        return rc;
    rc = mdb_cursor_get(cursor, &name, &value, MDB_SET_RANGE);
    for (; rc == 0; rc = mdb_cursor_get(cursor, &name, &value, MDB_NEXT), ++*count) {
        struct record_reservation reservation;
        if (only_count)
            continue;
        if (name.mv_size != 8 || !record_read_reservation(&reservation, value.mv_data, value.mv_size)) {
            rc = MDB_CORRUPTED;
            break;
        }
        struct recent_key key = recent_key_of(&reservation.id, reservation.content);
        recent_replay_one(lmdb->recent, &key, record_get64(name.mv_data));
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

int lmdb_index_replay(struct lmdb *lmdb)
{
    MDB_txn *txn;
    size_t count;
    int rc = mdb_txn_begin(lmdb->env, NULL, MDB_RDONLY, &txn);
    if (rc != 0)
        return rc;
    rc = replay(lmdb, txn, true, &count);
    if (rc == 0) {
        recent_replay(lmdb->recent, count);
        rc = replay(lmdb, txn, false, &count);
        recent_replayed(lmdb->recent, lmdb->engine.next_seq);
    }
    mdb_txn_abort(txn);
    return rc;
}
