/*
 * engine_lmdb_record.c - the steps of the LMDB engine: records as entries of its trees.
 *
 * Each step touches as few pages as it can: a reservation is written once, what changes while an action is in progress
 * is the tiny tree of open ones, an ending is appended. How an id leads to a record is told in engine_lmdb_index.c.
 * Pointers into the map are used before the next write of the transaction, never after. What the trees mean is told in
 * engine_lmdb.h.
 */
#include <errno.h>
#include <lmdb.h>

#include "store/engine_lmdb.h"

#include <assert.h>
#include <string.h>

#define TIME_KEY         16
#define PIECE_KEY        12
#define SWEPT_PIECES_MAX 2048 /* a sweep ends after so many pieces: transactions stay small */

/* ---- entries ---------------------------------------------------------------------------------- */

static int get(struct lmdb *lmdb, MDB_txn *txn, enum tree tree, const void *key, size_t key_len, MDB_val *out)
{
    MDB_val name = {key_len, (void *)key};
    return mdb_get(txn, lmdb->trees[tree], &name, out);
}

static int put(struct lmdb *lmdb, enum tree tree, const void *key, size_t key_len, const void *data, size_t len)
{
    MDB_val name = {key_len, (void *)key}, value = {len, (void *)data};
    return mdb_put(lmdb->txn, lmdb->trees[tree], &name, &value, 0);
}

/* The same where the key is likely the greatest: then the page is filled to its end instead of being split in halves.
 */
static int append(struct lmdb *lmdb, enum tree tree, const void *key, size_t key_len, const void *data, size_t len)
{
    MDB_val name = {key_len, (void *)key}, value = {len, (void *)data};
    int rc = mdb_put(lmdb->txn, lmdb->trees[tree], &name, &value, MDB_APPEND);
    return rc == MDB_KEYEXIST ? put(lmdb, tree, key, key_len, data, len) : rc;
}

static int drop(struct lmdb *lmdb, enum tree tree, const void *key, size_t key_len)
{
    MDB_val name = {key_len, (void *)key};
    int rc = mdb_del(lmdb->txn, lmdb->trees[tree], &name, NULL);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* ---- keys ------------------------------------------------------------------------------------- */

struct seq_key {
    uint8_t bytes[8];
};

static struct seq_key seq_key(uint64_t seq)
{
    struct seq_key key;
    record_put64(key.bytes, seq);
    return key;
}

static void write_time_key(uint8_t *key, int64_t time_ms, uint64_t seq)
{
    record_put64(key, (uint64_t)time_ms);
    record_put64(key + 8, seq);
}

static void write_piece_key(uint8_t *key, uint64_t seq, uint32_t number)
{
    record_put64(key, seq);
    for (int i = 3; i >= 0; i--, number >>= 8)
        key[8 + i] = (uint8_t)number;
}

/* ---- reading ---------------------------------------------------------------------------------- */

static enum engine_error load_opening(struct lmdb *lmdb, MDB_txn *txn, struct record *out)
{
    MDB_val value;
    struct seq_key key = seq_key(out->seq);
    int rc = get(lmdb, txn, TREE_OPEN, key.bytes, sizeof key.bytes, &value);
    out->open = rc == 0;
    if (rc == MDB_NOTFOUND)
        return ENGINE_OK;
    if (rc == 0 && !record_read_opening(&out->opening, value.mv_data, value.mv_size))
        return ENGINE_IO;
    return lmdb_error(rc);
}

static enum engine_error load_outcome(struct lmdb *lmdb, MDB_txn *txn, struct record *out)
{
    MDB_val value;
    struct seq_key key = seq_key(out->seq);
    int rc = get(lmdb, txn, TREE_OUTCOMES, key.bytes, sizeof key.bytes, &value);
    out->has_outcome = rc == 0;
    if (rc == MDB_NOTFOUND)
        return ENGINE_OK;
    if (rc == 0 && !record_read_outcome(&out->outcome, value.mv_data, value.mv_size))
        return ENGINE_IO;
    return lmdb_error(rc);
}

enum engine_error lmdb_load(struct lmdb *lmdb, MDB_txn *txn, uint64_t seq, struct record *out)
{
    *out = (struct record){.seq = seq};
    MDB_val value;
    struct seq_key key = seq_key(seq);
    int rc = get(lmdb, txn, TREE_RESERVATIONS, key.bytes, sizeof key.bytes, &value);
    if (rc != 0 || !record_read_reservation(&out->reservation, value.mv_data, value.mv_size))
        return ENGINE_IO;
    enum engine_error error = load_outcome(lmdb, txn, out);
    if (error == ENGINE_OK &&
        !(out->has_outcome && out->outcome.state == STORE_COMPLETED)) /* which never opens again */
        error = load_opening(lmdb, txn, out);
    if (error == ENGINE_OK && !out->open && !out->has_outcome)
        error = ENGINE_IO;
    return error;
}

static enum engine_error load_pieces(struct lmdb *lmdb, MDB_txn *txn, uint64_t seq, struct store_bytes *bytes)
{
    size_t at = 0;
    for (uint32_t number = 0; at < bytes->len; number++) {
        MDB_val value;
        uint8_t key[PIECE_KEY];
        write_piece_key(key, seq, number);
        size_t expected = bytes->len - at < PIECE_LEN ? bytes->len - at : PIECE_LEN;
        int rc = get(lmdb, txn, TREE_PIECES, key, sizeof key, &value);
        if (rc != 0 || value.mv_size != expected)
            return ENGINE_IO;
        memcpy(bytes->data + at, value.mv_data, expected);
        at += expected;
    }
    return ENGINE_OK;
}

enum engine_error lmdb_load_response(struct lmdb *lmdb, MDB_txn *txn, const struct record *record,
                                     struct store_bytes **out)
{
    assert(record->has_outcome && record->outcome.has_response);
    struct record fresh = {.seq = record->seq};
    enum engine_error error = load_outcome(lmdb, txn, &fresh);
    if (error != ENGINE_OK || !fresh.has_outcome || fresh.outcome.response_len != record->outcome.response_len)
        return ENGINE_IO;
    *out = store_bytes_new(fresh.outcome.response_len);
    if (!record_response_inlined((*out)->len))
        error = load_pieces(lmdb, txn, record->seq, *out);
    else if ((*out)->len)
        memcpy((*out)->data, fresh.outcome.inlined.data, (*out)->len);
    if (error != ENGINE_OK) {
        store_bytes_unref(*out);
        *out = NULL;
    }
    return error;
}

enum engine_error lmdb_response(struct engine *engine, const struct record *record, struct store_bytes **out)
{
    return lmdb_load_response(lmdb_of(engine), lmdb_of(engine)->txn, record, out);
}

enum engine_error lmdb_peek(struct engine *engine, const struct store_id *id, const uint8_t *fingerprint,
                            struct record *out, bool *found, struct store_bytes **response)
{
    struct lmdb *lmdb = lmdb_of(engine);
    MDB_txn *txn;
    *found = false;
    *response = NULL;
    if (!lmdb->env)
        return ENGINE_IO;
    enum engine_error error = lmdb_find_snapshot(lmdb, id, &txn, out, found);
    if (error == ENGINE_OK && *found && !out->open && out->outcome.has_response &&
        memcmp(out->reservation.fingerprint, fingerprint, STORE_HASH_LEN) == 0)
        error = lmdb_load_response(lmdb, txn, out, response);
    if (txn)
        mdb_txn_abort(txn);
    return error;
}

/* ---- writing ---------------------------------------------------------------------------------- */

/* The entries by which a record that has ended is counted and swept. */
static int put_traces(struct lmdb *lmdb, uint64_t seq, const struct record_outcome *outcome)
{
    uint8_t key[TIME_KEY];
    int rc = 0;
    if (outcome->expires_ms != STORE_FOREVER) {
        write_time_key(key, outcome->expires_ms, seq);
        rc = append(lmdb, TREE_EXPIRY, key, sizeof key, "", 0);
    }
    if (rc == 0 && outcome->state == STORE_UNKNOWN) {
        write_time_key(key, outcome->since_ms, seq);
        rc = append(lmdb, TREE_UNKNOWN, key, sizeof key, "", 0);
        rc = rc ? rc : put(lmdb, TREE_UNSETTLED, key + 8, 8, "", 0);
    }
    if (rc == 0 && outcome->state == STORE_COMPLETED)
        lmdb->completed++;
    return rc;
}

static int drop_traces(struct lmdb *lmdb, uint64_t seq, const struct record_outcome *outcome)
{
    uint8_t key[TIME_KEY];
    write_time_key(key, outcome->expires_ms, seq);
    int rc = drop(lmdb, TREE_EXPIRY, key, sizeof key);
    if (rc == 0 && outcome->state == STORE_UNKNOWN) {
        write_time_key(key, outcome->since_ms, seq);
        rc = drop(lmdb, TREE_UNKNOWN, key, sizeof key);
        rc = rc ? rc : drop(lmdb, TREE_UNSETTLED, key + 8, 8);
    }
    if (rc == 0 && outcome->state == STORE_COMPLETED)
        lmdb->completed--;
    return rc;
}

static uint32_t piece_count(const struct record_outcome *outcome)
{
    if (!outcome->has_response || record_response_inlined(outcome->response_len))
        return 0;
    return (uint32_t)(((uint64_t)outcome->response_len + PIECE_LEN - 1) / PIECE_LEN);
}

static int drop_pieces(struct lmdb *lmdb, uint64_t seq, const struct record_outcome *outcome)
{
    int rc = 0;
    for (uint32_t number = 0; rc == 0 && number < piece_count(outcome); number++) {
        uint8_t key[PIECE_KEY];
        write_piece_key(key, seq, number);
        rc = drop(lmdb, TREE_PIECES, key, sizeof key);
    }
    return rc;
}

static int put_pieces(struct lmdb *lmdb, uint64_t seq, const struct store_bytes *response)
{
    int rc = 0;
    size_t at = 0;
    for (uint32_t number = 0; rc == 0 && at < response->len; number++) {
        uint8_t key[PIECE_KEY];
        write_piece_key(key, seq, number);
        size_t len = response->len - at < PIECE_LEN ? response->len - at : PIECE_LEN;
        rc = append(lmdb, TREE_PIECES, key, sizeof key, response->data + at, len);
        at += len;
    }
    return rc;
}

static int put_opening(struct lmdb *lmdb, uint64_t seq, const struct record_opening *opening)
{
    uint8_t buffer[RECORD_OPENING_LEN];
    struct seq_key key = seq_key(seq);
    size_t len = record_write_opening(buffer, opening);
    return append(lmdb, TREE_OPEN, key.bytes, sizeof key.bytes, buffer, len);
}

static int drop_opening(struct lmdb *lmdb, uint64_t seq)
{
    struct seq_key key = seq_key(seq);
    return drop(lmdb, TREE_OPEN, key.bytes, sizeof key.bytes);
}

enum engine_error lmdb_insert(struct engine *engine, const struct record_reservation *reservation,
                              const struct record_opening *opening)
{
    struct lmdb *lmdb = lmdb_of(engine);
    uint8_t buffer[RECORD_RESERVED_MAX];
    uint64_t seq = engine->next_seq++;
    struct seq_key key = seq_key(seq);
    size_t len = record_write_reservation(buffer, reservation);
    int rc = append(lmdb, TREE_RESERVATIONS, key.bytes, sizeof key.bytes, buffer, len);
    if (rc == 0)
        rc = put_opening(lmdb, seq, opening);
    if (rc == 0)
        rc = lmdb_put_task(lmdb, seq, reservation);
    return lmdb_error(rc ? rc : lmdb_index_add(lmdb, seq, reservation));
}

enum engine_error lmdb_reopen_record(struct engine *engine, const struct record *record,
                                     const struct record_opening *opening)
{
    struct lmdb *lmdb = lmdb_of(engine);
    int rc = drop_traces(lmdb, record->seq, &record->outcome);
    return lmdb_error(rc ? rc : put_opening(lmdb, record->seq, opening));
}

enum engine_error lmdb_restore(struct engine *engine, const struct record *record)
{
    struct lmdb *lmdb = lmdb_of(engine);
    int rc = drop_opening(lmdb, record->seq);
    return lmdb_error(rc ? rc : put_traces(lmdb, record->seq, &record->outcome));
}

static int put_outcome(struct lmdb *lmdb, uint64_t seq, const struct record_outcome *outcome)
{
    uint8_t buffer[RECORD_OUTCOME_MAX];
    struct seq_key key = seq_key(seq);
    size_t len = record_write_outcome(buffer, outcome);
    return append(lmdb, TREE_OUTCOMES, key.bytes, sizeof key.bytes, buffer, len);
}

/* Writes `outcome` with the decision and the response of the one that is there. */
static int put_outcome_kept(struct lmdb *lmdb, uint64_t seq, struct record_outcome outcome)
{
    MDB_val value;
    uint8_t prior[RECORD_OUTCOME_MAX];
    struct record_outcome kept;
    struct seq_key key = seq_key(seq);
    int rc = get(lmdb, lmdb->txn, TREE_OUTCOMES, key.bytes, sizeof key.bytes, &value);
    if (rc != 0 || value.mv_size > sizeof prior)
        return rc ? rc : EIO;
    memcpy(prior, value.mv_data, value.mv_size); /* the page may move under the put */
    if (!record_read_outcome(&kept, prior, value.mv_size))
        return EIO;
    outcome.has_response = kept.has_response;
    outcome.response_len = kept.response_len;
    outcome.inlined = kept.inlined;
    outcome.decision = kept.decision;
    return put_outcome(lmdb, seq, &outcome);
}

static int put_outcome_new(struct lmdb *lmdb, const struct record *record, struct record_outcome outcome,
                           const struct store_bytes *response)
{
    int rc = record->has_outcome ? drop_pieces(lmdb, record->seq, &record->outcome) : 0;
    if (response && record_response_inlined(response->len))
        outcome.inlined = (struct record_text){(const char *)response->data, response->len};
    if (rc == 0)
        rc = put_outcome(lmdb, record->seq, &outcome);
    if (rc == 0 && piece_count(&outcome))
        rc = put_pieces(lmdb, record->seq, response);
    return rc;
}

enum engine_error lmdb_settle(struct engine *engine, const struct record *record, const struct record_outcome *outcome,
                              const struct store_bytes *response, bool keep)
{
    struct lmdb *lmdb = lmdb_of(engine);
    assert(keep || outcome->has_response == (response != NULL));
    int rc = record->open ? drop_opening(lmdb, record->seq) : drop_traces(lmdb, record->seq, &record->outcome);
    if (rc == 0)
        rc = keep ? put_outcome_kept(lmdb, record->seq, *outcome) : put_outcome_new(lmdb, record, *outcome, response);
    if (rc == 0)
        rc = put_traces(lmdb, record->seq, outcome);
    return lmdb_error(rc);
}

enum engine_error lmdb_erase(struct engine *engine, const struct record *record)
{
    struct lmdb *lmdb = lmdb_of(engine);
    struct seq_key key = seq_key(record->seq);
    int rc = record->open ? drop_opening(lmdb, record->seq) : drop_traces(lmdb, record->seq, &record->outcome);
    if (rc == 0)
        rc = lmdb_drop_task(lmdb, record->seq);
    if (rc == 0)
        rc = lmdb_index_drop(lmdb, record->seq, &record->reservation);
    if (rc == 0 && record->has_outcome)
        rc = drop_pieces(lmdb, record->seq, &record->outcome);
    if (rc == 0 && record->has_outcome)
        rc = drop(lmdb, TREE_OUTCOMES, key.bytes, sizeof key.bytes);
    if (rc == 0)
        rc = drop(lmdb, TREE_RESERVATIONS, key.bytes, sizeof key.bytes);
    return lmdb_error(rc);
}

/* ---- sweeping --------------------------------------------------------------------------------- */

/* The oldest entry of a tree of times; false if there is none (or it cannot be read: then nothing is due). */
static bool oldest(struct lmdb *lmdb, MDB_txn *txn, enum tree tree, int64_t *time_ms, uint64_t *seq)
{
    MDB_cursor *cursor;
    MDB_val name, value;
    if (mdb_cursor_open(txn, lmdb->trees[tree], &cursor) != 0)
        return false;
    int rc = mdb_cursor_get(cursor, &name, &value, MDB_FIRST);
    bool found = rc == 0 && name.mv_size == TIME_KEY;
    if (found) {
        *time_ms = (int64_t)record_get64(name.mv_data);
        *seq = record_get64((const uint8_t *)name.mv_data + 8);
    }
    mdb_cursor_close(cursor);
    return found;
}

/* A record that cannot be read stays where it is, but no longer holds up the others. */
static enum engine_error sweep_one(struct lmdb *lmdb, int64_t expires_ms, uint64_t seq, unsigned *pieces)
{
    struct record record;
    if (lmdb_load(lmdb, lmdb->txn, seq, &record) == ENGINE_OK && !record.open &&
        record.outcome.expires_ms == expires_ms) {
        *pieces += piece_count(&record.outcome);
        return lmdb_erase(&lmdb->engine, &record);
    }
    if (lmdb->config.log)
        lmdb->config.log(lmdb->config.log_arg, STORE_LOG_ERROR,
                         "an expired record cannot be read; it is left in the store");
    uint8_t key[TIME_KEY];
    write_time_key(key, expires_ms, seq);
    return lmdb_error(drop(lmdb, TREE_EXPIRY, key, sizeof key));
}

enum engine_error lmdb_sweep(struct engine *engine, int64_t now_ms, unsigned limit, unsigned *swept)
{
    struct lmdb *lmdb = lmdb_of(engine);
    unsigned pieces = 0;
    for (*swept = 0; *swept < limit && pieces < SWEPT_PIECES_MAX; ++*swept) {
        int64_t expires_ms;
        uint64_t seq;
        if (!oldest(lmdb, lmdb->txn, TREE_EXPIRY, &expires_ms, &seq) || expires_ms > now_ms)
            break;
        enum engine_error error = sweep_one(lmdb, expires_ms, seq, &pieces);
        if (error != ENGINE_OK)
            return error;
    }
    return ENGINE_OK;
}

bool lmdb_is_due(struct engine *engine, int64_t now_ms)
{
    struct lmdb *lmdb = lmdb_of(engine);
    MDB_txn *txn;
    int64_t expires_ms;
    uint64_t seq;
    if (!lmdb->env || mdb_txn_begin(lmdb->env, NULL, MDB_RDONLY, &txn) != 0)
        return false;
    bool due = oldest(lmdb, txn, TREE_EXPIRY, &expires_ms, &seq) && expires_ms <= now_ms;
    mdb_txn_abort(txn);
    return due;
}

/* ---- the start, and scopes -------------------------------------------------------------------- */

enum engine_error lmdb_first_open(struct engine *engine, struct record *out, bool *found, char *scope_name)
{
    struct lmdb *lmdb = lmdb_of(engine);
    MDB_cursor *cursor;
    MDB_val name, value;
    int rc = mdb_cursor_open(lmdb->txn, lmdb->trees[TREE_OPEN], &cursor);
    if (rc != 0)
        return lmdb_error(rc);
    rc = mdb_cursor_get(cursor, &name, &value, MDB_FIRST);
    *found = rc == 0;
    uint64_t seq = rc == 0 && name.mv_size == 8 ? record_get64(name.mv_data) : 0;
    mdb_cursor_close(cursor);
    if (rc == MDB_NOTFOUND)
        return ENGINE_OK;
    enum engine_error error = rc == 0 ? lmdb_load(lmdb, lmdb->txn, seq, out) : lmdb_error(rc);
    if (error == ENGINE_OK) {
        memcpy(scope_name, out->reservation.scope_name.data, out->reservation.scope_name.len);
        scope_name[out->reservation.scope_name.len] = '\0';
    }
    return error;
}

/* A scope's name may be empty, a key may not; and it is cut to what a key can be. */
static size_t write_scope_key(uint8_t *key, const char *name)
{
    size_t len = strnlen(name, RECORD_STRING_MAX - 1);
    key[0] = 1;
    memcpy(key + 1, name, len);
    return len + 1;
}

enum engine_error lmdb_get_scope(struct engine *engine, const char *name, struct record_scope *out, bool *found)
{
    struct lmdb *lmdb = lmdb_of(engine);
    MDB_val value;
    uint8_t key[RECORD_STRING_MAX];
    size_t len = write_scope_key(key, name);
    int rc = get(lmdb, lmdb->txn, TREE_SCOPES, key, len, &value);
    *found = rc == 0;
    if (rc == MDB_NOTFOUND)
        return ENGINE_OK;
    if (rc == 0 && !record_read_scope(out, value.mv_data, value.mv_size))
        return ENGINE_IO;
    return lmdb_error(rc);
}

enum engine_error lmdb_put_scope(struct engine *engine, const char *name, const struct record_scope *scope)
{
    uint8_t key[RECORD_STRING_MAX], value[RECORD_SCOPE_LEN];
    size_t key_len = write_scope_key(key, name), len = record_write_scope(value, scope);
    return lmdb_error(put(lmdb_of(engine), TREE_SCOPES, key, key_len, value, len));
}
