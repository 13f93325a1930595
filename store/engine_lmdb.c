/*
 * engine_lmdb.c - the default engine: the environment, its transactions, its room.
 *
 * One environment is open at a time and it has one owner (lock.h). Neither data.mdb nor lock.mdb is ever opened by
 * anybody else in this process: closing such a descriptor would drop LMDB's own locks. In strict mode a commit is two
 * flushes of the disk and survives power loss; in process mode it survives the death of the process, and maintain()
 * syncs now and then.
 *
 * Room: an outcome must always fit, and deleting needs free pages too. So new reservations are refused from a
 * high-water mark on: 90 % of the map, or what leaves RESERVED_PAGES in a small one. Free pages inside of the file
 * count as free; they are counted only when the file is nearly as large as the mark, and not for each transaction.
 *
 * What waits in memory to be merged into the index (engine_lmdb_index.c) has its room already; a small store lets less
 * wait. Merging is a part of commit().
 *
 * Left out: migration. A store of another format version is refused.
 */
#include <errno.h>
#include <lmdb.h>

#include "store/allocate.h"
#include "store/engine_lmdb.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_READERS     512 /* look-ups at one moment, which last microseconds */
#define RESERVED_PAGES  64  /* what a small map keeps for outcomes and sweeping */
#define COUNT_EVERY     16  /* transactions, in a large map */
#define SMALL_MAP       16384
#define RECENT_MAX      32768 /* ids that wait in memory, twice: 4 MiB */
#define RECENT_MIN      1024
#define RECENT_SHARE    32 /* a generation for each 32 entries of the index: then two or more meet on a page */
#define RECENT_PER_PAGE 2  /* …for each page of the reserve: a small store lets few wait */
#define MERGED_PER_PAGE 32 /* that many take a page of the index, or less */

static const char *const tree_names[TREE_COUNT] = {
    [TREE_INDEX] = "index",         [TREE_RESERVATIONS] = "reservations",
    [TREE_OUTCOMES] = "outcomes",   [TREE_PIECES] = "pieces",
    [TREE_OPEN] = "open",           [TREE_UNKNOWN] = "unknown",
    [TREE_UNSETTLED] = "unsettled", [TREE_TASKS] = "tasks",
    [TREE_EXPIRY] = "expiry",       [TREE_SCOPES] = "scopes",
    [TREE_META] = "meta",
};

static void say(const struct lmdb *lmdb, enum store_log_level level, const char *message)
{
    if (lmdb->config.log)
        lmdb->config.log(lmdb->config.log_arg, level, message);
}

static MDB_val text(const char *string)
{
    return (MDB_val){strlen(string), (void *)string};
}

/* ---- room ------------------------------------------------------------------------------------- */

static uint64_t reserved_pages(uint64_t max_pages)
{
    return max_pages / 10 > RESERVED_PAGES ? max_pages / 10 : RESERVED_PAGES;
}

static uint64_t high_water_mark(const struct lmdb *lmdb)
{
    uint64_t reserve = reserved_pages(lmdb->max_pages);
    return lmdb->max_pages > reserve ? lmdb->max_pages - reserve : 0;
}

/* So many that several meet on each page of the index: more would only take memory, and time at the start. */
static size_t enough_recent(uint64_t index_entries)
{
    uint64_t enough = index_entries / RECENT_SHARE;
    return enough > RECENT_MIN ? enough : RECENT_MIN;
}

static size_t recent_limit(const struct engine_config *config)
{
    uint64_t limit = RECENT_PER_PAGE * reserved_pages(config->max_size / (uint64_t)sysconf(_SC_PAGESIZE));
    if (config->recent_max)
        return config->recent_max;
    return limit < RECENT_MAX ? limit : RECENT_MAX;
}

/* Pages of the file that hold nothing; 0 if that cannot be told. Its own read transaction: LMDB allows it no other way.
 */
static uint64_t count_free_pages(const struct lmdb *lmdb)
{
    MDB_txn *txn;
    MDB_cursor *cursor;
    uint64_t free_pages = 0;
    if (mdb_txn_begin(lmdb->env, NULL, MDB_RDONLY, &txn) != 0)
        return 0;
    if (mdb_cursor_open(txn, 0, &cursor) == 0) {
        MDB_val name, value;
        while (mdb_cursor_get(cursor, &name, &value, MDB_NEXT) == 0) {
            size_t count = 0;
            if (value.mv_size >= sizeof count)
                memcpy(&count, value.mv_data, sizeof count);
            free_pages += count;
        }
        mdb_cursor_close(cursor);
    }
    mdb_txn_abort(txn);
    return free_pages;
}

static void measure_room(struct lmdb *lmdb)
{
    MDB_envinfo info;
    mdb_env_info(lmdb->env, &info);
    uint64_t file_pages = info.me_last_pgno + 1, mark = high_water_mark(lmdb);
    lmdb_backup_watch(lmdb->backup, file_pages, mark);
    if (file_pages < mark - mark / 8) {
        lmdb->used_pages = file_pages;
        lmdb->until_count = 0;
    } else if (lmdb->until_count > 0) {
        lmdb->until_count--;
    } else {
        uint64_t free_pages = count_free_pages(lmdb);
        lmdb->used_pages = file_pages > free_pages ? file_pages - free_pages : 0;
        lmdb->until_count = lmdb->max_pages > SMALL_MAP ? COUNT_EVERY : 0;
    }
    /* What waits to be merged has its room already. */
    lmdb->engine.has_room = lmdb->used_pages + recent_count(lmdb->recent) / MERGED_PER_PAGE < mark;
}

/* ---- transactions ----------------------------------------------------------------------------- */

static enum engine_error begin(struct engine *engine)
{
    struct lmdb *lmdb = lmdb_of(engine);
    assert(!lmdb->txn);
    if (!lmdb->env)
        return ENGINE_IO;
    measure_room(lmdb);
    lmdb->completed = lmdb->committed_completed;
    lmdb->lonely = false;
    return mdb_txn_begin(lmdb->env, NULL, 0, &lmdb->txn) == 0 ? ENGINE_OK : ENGINE_IO;
}

static void abort_transaction(struct engine *engine)
{
    struct lmdb *lmdb = lmdb_of(engine);
    if (lmdb->txn)
        mdb_txn_abort(lmdb->txn);
    lmdb->txn = NULL;
    lmdb->completed = lmdb->committed_completed;
    recent_rollback(lmdb->recent);
}

static uint64_t merged_seq_now(const struct lmdb *lmdb)
{
    uint64_t mark = recent_mark(lmdb->recent);
    return mark ? mark : lmdb->merged_seq;
}

static int put_counters(struct lmdb *lmdb, int64_t now_ms)
{
    uint8_t buffer[RECORD_COUNTERS_LEN];
    struct record_counters counters = {.next_seq = lmdb->engine.next_seq,
                                       .next_token = lmdb->engine.next_token,
                                       .newest_ms = now_ms,
                                       .completed = lmdb->completed,
                                       .merged_seq = merged_seq_now(lmdb)};
    MDB_val name = text("counters"), value = {record_write_counters(buffer, &counters), buffer};
    return mdb_put(lmdb->txn, lmdb->trees[TREE_META], &name, &value, 0);
}

static uint64_t count_entries(struct lmdb *lmdb, enum tree tree)
{
    MDB_stat stat;
    return mdb_stat(lmdb->txn, lmdb->trees[tree], &stat) == 0 ? stat.ms_entries : 0;
}

static int64_t find_oldest_unknown(struct lmdb *lmdb)
{
    MDB_cursor *cursor;
    MDB_val name, value;
    int64_t since_ms = 0;
    if (mdb_cursor_open(lmdb->txn, lmdb->trees[TREE_UNKNOWN], &cursor) != 0)
        return 0;
    if (mdb_cursor_get(cursor, &name, &value, MDB_FIRST) == 0 && name.mv_size >= 8)
        since_ms = (int64_t)record_get64(name.mv_data);
    mdb_cursor_close(cursor);
    return since_ms;
}

static enum engine_error commit(struct engine *engine, int64_t now_ms)
{
    struct lmdb *lmdb = lmdb_of(engine);
    int64_t newest_ms = now_ms > engine->newest_ms ? now_ms : engine->newest_ms;
    int rc = lmdb_index_merge(lmdb);
    if (rc == 0)
        rc = put_counters(lmdb, newest_ms);
    uint64_t in_progress = count_entries(lmdb, TREE_OPEN), unknown = count_entries(lmdb, TREE_UNKNOWN);
    size_t enough = enough_recent(count_entries(lmdb, TREE_INDEX));
    int64_t oldest_unknown_ms = find_oldest_unknown(lmdb);
    if (rc != 0) {
        abort_transaction(engine);
        return lmdb_error(rc);
    }
    rc = mdb_txn_commit(lmdb->txn); /* it is gone, however that ends */
    lmdb->txn = NULL;
    if (rc != 0) {
        recent_rollback(lmdb->recent); /* should it count after all, the environment has to be opened anew */
        return lmdb_error(rc);
    }
    lmdb->merged_seq = merged_seq_now(lmdb);
    recent_commit(lmdb->recent, engine->next_seq, enough);
    engine->newest_ms = newest_ms;
    lmdb->committed_completed = lmdb->completed;
    lmdb->in_progress = in_progress;
    lmdb->unknown = unknown;
    lmdb->oldest_unknown_ms = oldest_unknown_ms;
    return ENGINE_OK;
}

static void status(struct engine *engine, struct engine_status *out)
{
    struct lmdb *lmdb = lmdb_of(engine);
    *out = (struct engine_status){
        .used_bytes = lmdb->used_pages * (uint64_t)sysconf(_SC_PAGESIZE),
        .max_bytes = lmdb->config.max_size,
        .in_progress = lmdb->in_progress,
        .completed = lmdb->committed_completed,
        .unknown = lmdb->unknown,
        .oldest_unknown_ms = lmdb->oldest_unknown_ms,
        .has_room = engine->has_room,
    };
}

static enum engine_error maintain(struct engine *engine)
{
    struct lmdb *lmdb = lmdb_of(engine);
    int dead = 0;
    if (!lmdb->env)
        return ENGINE_IO;
    mdb_reader_check(lmdb->env, &dead);
    return lmdb->config.strict ? ENGINE_OK : lmdb_error(mdb_env_sync(lmdb->env, 1));
}

/* ---- opening ---------------------------------------------------------------------------------- */

/* A file that is shorter than its last page is whole only if what is missing is free; else reading it would be a
 * SIGBUS. The file is made as long as it claims to be while the free pages are looked through: what is missing then
 * reads as zeros, which LMDB refuses. */
static bool is_whole(struct lmdb *lmdb)
{
    struct stat file;
    MDB_envinfo info;
    off_t page = (off_t)sysconf(_SC_PAGESIZE);
    if (fstatat(lmdb->config.directory, "data.mdb", &file, 0) != 0 || mdb_env_info(lmdb->env, &info) != 0)
        return false;
    uint64_t claimed = info.me_last_pgno + 1, present = (uint64_t)(file.st_size / page), missing_free = 0;
    if (present >= claimed)
        return true;
    char name[4096];
    if (present < 2 || (size_t)snprintf(name, sizeof name, "%s/data.mdb", lmdb->path) >= sizeof name ||
        truncate(name, (off_t)claimed * page) != 0)
        return false;
    MDB_txn *txn;
    MDB_cursor *cursor;
    MDB_val key, value;
    if (mdb_txn_begin(lmdb->env, NULL, MDB_RDONLY, &txn) == 0) {
        bool opened = mdb_cursor_open(txn, 0, &cursor) == 0;
        while (opened && mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0) {
            const size_t *pages = value.mv_data; /* a count, then the numbers */
            for (size_t i = 1; i <= pages[0] && (i + 1) * sizeof *pages <= value.mv_size; i++)
                missing_free += pages[i] >= present && pages[i] < claimed;
        }
        if (opened)
            mdb_cursor_close(cursor);
        mdb_txn_abort(txn);
    }
    bool whole = missing_free == claimed - present;
    if (!whole && truncate(name, file.st_size) != 0)
        say(lmdb, STORE_LOG_WARNING, "a damaged data.mdb could not be put back to its length");
    return whole;
}

static int open_environment(struct lmdb *lmdb)
{
    unsigned flags = MDB_NOTLS | MDB_NORDAHEAD | (lmdb->config.strict ? 0 : MDB_NOSYNC);
    int dead = 0, fd = -1;
    int rc = mdb_env_create(&lmdb->env);
    if (rc != 0)
        return rc;
    mdb_env_set_maxdbs(lmdb->env, TREE_COUNT);
    mdb_env_set_maxreaders(lmdb->env, MAX_READERS);
    rc = mdb_env_set_mapsize(lmdb->env, (size_t)lmdb->config.max_size);
    if (rc == 0)
        rc = mdb_env_open(lmdb->env, lmdb->path, flags, 0600);
    if (rc != 0) {
        mdb_env_close(lmdb->env);
        lmdb->env = NULL;
        return rc;
    }
    if (mdb_env_get_fd(lmdb->env, &fd) == 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    MDB_envinfo info;
    mdb_env_info(lmdb->env, &info);
    lmdb->max_pages = info.me_mapsize / (uint64_t)sysconf(_SC_PAGESIZE);
    mdb_reader_check(lmdb->env, &dead);
    return 0;
}

/* New: nothing at all is in it. Foreign: something is, but not our format. */
enum content { CONTENT_NEW, CONTENT_OURS, CONTENT_FOREIGN, CONTENT_OTHER_VERSION, CONTENT_DAMAGED };

static enum content read_meta(struct lmdb *lmdb, unsigned *version)
{
    MDB_val name = text("format"), value;
    int rc = mdb_get(lmdb->txn, lmdb->trees[TREE_META], &name, &value);
    if (rc != 0 || value.mv_size != 1)
        return rc == MDB_NOTFOUND || rc == 0 ? CONTENT_FOREIGN : CONTENT_DAMAGED;
    *version = *(const uint8_t *)value.mv_data;
    if (*version != RECORD_FORMAT)
        return CONTENT_OTHER_VERSION;
    struct record_counters counters;
    name = text("counters");
    rc = mdb_get(lmdb->txn, lmdb->trees[TREE_META], &name, &value);
    if (rc != 0 || !record_read_counters(&counters, value.mv_data, value.mv_size))
        return CONTENT_DAMAGED;
    struct engine *engine = &lmdb->engine;
    engine->next_seq = counters.next_seq > engine->next_seq ? counters.next_seq : engine->next_seq;
    engine->next_token = counters.next_token > engine->next_token ? counters.next_token : engine->next_token;
    engine->newest_ms = counters.newest_ms > engine->newest_ms ? counters.newest_ms : engine->newest_ms;
    lmdb->completed = lmdb->committed_completed = counters.completed;
    lmdb->merged_seq = counters.merged_seq;
    return CONTENT_OURS;
}

static int write_meta(struct lmdb *lmdb)
{
    uint8_t version = RECORD_FORMAT;
    MDB_val name = text("format"), value = {1, &version};
    return mdb_put(lmdb->txn, lmdb->trees[TREE_META], &name, &value, 0);
}

/* Opens every tree, once, in a transaction that is committed if the store is new and else aborted or committed
 * unchanged. */
static int open_trees(struct lmdb *lmdb, enum content *content, unsigned *version)
{
    MDB_dbi main_tree;
    MDB_stat stat;
    int rc = mdb_txn_begin(lmdb->env, NULL, 0, &lmdb->txn);
    if (rc != 0)
        return rc;
    rc = mdb_dbi_open(lmdb->txn, NULL, 0, &main_tree);
    if (rc == 0)
        rc = mdb_stat(lmdb->txn, main_tree, &stat);
    bool is_new = rc == 0 && stat.ms_entries == 0;
    for (int tree = 0; rc == 0 && tree < TREE_COUNT; tree++)
        rc = mdb_dbi_open(lmdb->txn, tree_names[tree], is_new ? MDB_CREATE : 0, &lmdb->trees[tree]);
    *content = CONTENT_NEW;
    if (rc == MDB_NOTFOUND || rc == MDB_INCOMPATIBLE)
        *content = CONTENT_FOREIGN;
    else if (rc == 0 && !is_new)
        *content = read_meta(lmdb, version);
    if (rc == 0 && is_new)
        rc = write_meta(lmdb);
    if (rc != 0 || (*content != CONTENT_NEW && *content != CONTENT_OURS)) {
        abort_transaction(&lmdb->engine);
        return *content == CONTENT_FOREIGN ? 0 : rc;
    }
    return commit(&lmdb->engine, lmdb->engine.newest_ms) == ENGINE_OK ? 0 : EIO;
}

/* The same for a store that was ours a moment ago, without a commit: while the disk takes no writes, what is recorded
 * can still be read. */
static int open_trees_again(struct lmdb *lmdb, enum content *content)
{
    unsigned version;
    int rc = mdb_txn_begin(lmdb->env, NULL, MDB_RDONLY, &lmdb->txn);
    if (rc != 0)
        return rc;
    for (int tree = 0; rc == 0 && tree < TREE_COUNT; tree++)
        rc = mdb_dbi_open(lmdb->txn, tree_names[tree], 0, &lmdb->trees[tree]);
    *content = rc == 0 ? read_meta(lmdb, &version) : CONTENT_DAMAGED;
    if (rc == 0)
        rc = mdb_txn_commit(lmdb->txn); /* keeps the handles; there is nothing to write */
    else
        mdb_txn_abort(lmdb->txn);
    lmdb->txn = NULL;
    return rc;
}

static void close_environment(struct lmdb *lmdb)
{
    abort_transaction(&lmdb->engine);
    if (lmdb->env)
        mdb_env_close(lmdb->env);
    lmdb->env = NULL;
}

static enum engine_error reopen_environment(struct lmdb *lmdb)
{
    enum content content;
    close_environment(lmdb);
    if (open_environment(lmdb) != 0)
        return ENGINE_IO;
    if (is_whole(lmdb) && open_trees_again(lmdb, &content) == 0 && content == CONTENT_OURS &&
        lmdb_index_replay(lmdb) == 0)
        return ENGINE_OK;
    close_environment(lmdb);
    return ENGINE_IO;
}

static enum engine_error reopen(struct engine *engine)
{
    struct lmdb *lmdb = lmdb_of(engine);
    lmdb_backup_hold(lmdb->backup);
    enum engine_error error = reopen_environment(lmdb);
    lmdb_backup_let(lmdb->backup);
    return error;
}

/* A new store must survive power loss as a whole, its directory entries too, before anything in it counts. */
static int sync_new(struct lmdb *lmdb)
{
    int parent = openat(lmdb->config.directory, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = mdb_env_sync(lmdb->env, 1);
    if (rc == 0 && fsync(lmdb->config.directory) != 0)
        rc = errno;
    if (rc == 0 && parent >= 0 && fsync(parent) != 0)
        rc = errno;
    if (parent >= 0)
        close(parent);
    return rc;
}

static void explain(const struct lmdb *lmdb, int rc, char *error, size_t error_size)
{
    const char *path = lmdb->path;
    if (rc == ENOMEM)
        snprintf(error, error_size,
                 "store %s: cannot reserve max_size (%llu bytes) of address space; raise `ulimit -v` or lower "
                 "store.max_size",
                 path, (unsigned long long)lmdb->config.max_size);
    else if (rc == MDB_INVALID)
        snprintf(error, error_size, "store %s: data.mdb is no LMDB file, or it is damaged", path);
    else if (rc == MDB_VERSION_MISMATCH)
        snprintf(error, error_size, "store %s: data.mdb was written by another version of LMDB", path);
    else
        snprintf(error, error_size, "store %s: %s", path, mdb_strerror(rc));
}

static bool accept_content(struct lmdb *lmdb, enum content content, unsigned version, char *error, size_t error_size)
{
    char message[4200];
    switch (content) {
    case CONTENT_OURS:
        return true;
    case CONTENT_NEW: {
        int rc = sync_new(lmdb);
        if (rc != 0) {
            explain(lmdb, rc, error, error_size);
            return false;
        }
        snprintf(message, sizeof message, "new store in %s: it knows no key that was used before", lmdb->path);
        say(lmdb, STORE_LOG_WARNING, message);
        return true;
    }
    case CONTENT_FOREIGN:
        snprintf(error, error_size, "store %s: data.mdb belongs to some other program", lmdb->path);
        return false;
    case CONTENT_OTHER_VERSION:
        snprintf(error, error_size, "store %s: written in format %u; this einmal reads format %u only", lmdb->path,
                 version, (unsigned)RECORD_FORMAT);
        return false;
    case CONTENT_DAMAGED:
        snprintf(error, error_size, "store %s: data.mdb is damaged", lmdb->path);
        return false;
    }
    assert(!"content that this file does not know");
    return false;
}

/* What can be said about the file before LMDB maps it. */
static bool accept_file(const struct lmdb *lmdb, char *error, size_t error_size)
{
    struct stat file;
    bool exists = fstatat(lmdb->config.directory, "data.mdb", &file, 0) == 0 && file.st_size > 0;
    if (!exists && !lmdb->config.create) {
        snprintf(error, error_size, "store %s: there is none, and store.create is false", lmdb->path);
        return false;
    }
    if (exists && file.st_size < 2 * (off_t)sysconf(_SC_PAGESIZE)) {
        snprintf(error, error_size, "store %s: data.mdb is truncated (%lld bytes)", lmdb->path,
                 (long long)file.st_size);
        return false;
    }
    return true;
}

static void close_engine(struct engine *engine)
{
    struct lmdb *lmdb = lmdb_of(engine);
    if (lmdb->env)
        mdb_env_sync(lmdb->env, 1);
    close_environment(lmdb);
    lmdb_backup_free(lmdb->backup);
    recent_free(lmdb->recent);
    free(lmdb->path);
    free(lmdb);
}

static struct engine *open_engine(const struct engine_config *config, char *error, size_t error_size)
{
    struct lmdb *lmdb = STORE_NEW(struct lmdb);
    enum content content = CONTENT_DAMAGED;
    unsigned version = 0;
    int rc = 0;
    lmdb->config = *config;
    lmdb->config.max_size -= config->max_size % (uint64_t)sysconf(_SC_PAGESIZE);
    lmdb->path = store_must_allocate(strdup(config->path));
    lmdb->config.path = lmdb->path;
    lmdb->backup = lmdb_backup_new();
    lmdb->recent = recent_new(recent_limit(&lmdb->config));
    lmdb->engine = (struct engine){.operations = &engine_lmdb, .next_seq = 1, .next_token = 1, .has_room = true};
    bool accepted = accept_file(lmdb, error, error_size);
    if (accepted && (rc = open_environment(lmdb)) == 0 && !is_whole(lmdb)) {
        snprintf(error, error_size, "store %s: data.mdb is truncated", lmdb->path);
        accepted = false;
    }
    if (accepted && rc == 0)
        rc = open_trees(lmdb, &content, &version);
    if (accepted && rc == 0 && content == CONTENT_OURS && (rc = lmdb_index_replay(lmdb)) == MDB_CORRUPTED) {
        content = CONTENT_DAMAGED;
        rc = 0;
    }
    if (accepted && rc != 0) {
        explain(lmdb, rc, error, error_size);
        accepted = false;
    }
    if (accepted && accept_content(lmdb, content, version, error, error_size))
        return &lmdb->engine;
    close_environment(lmdb);
    lmdb_backup_free(lmdb->backup);
    recent_free(lmdb->recent);
    free(lmdb->path);
    free(lmdb);
    return NULL;
}

const struct engine_operations engine_lmdb = {
    .name = "lmdb",
    .needs_directory = true,
    .open = open_engine,
    .close = close_engine,
    .reopen = reopen,
    .begin = begin,
    .commit = commit,
    .abort = abort_transaction,
    .find = lmdb_find,
    .find_other = lmdb_find_other,
    .insert = lmdb_insert,
    .reopen_record = lmdb_reopen_record,
    .settle = lmdb_settle,
    .restore = lmdb_restore,
    .erase = lmdb_erase,
    .response = lmdb_response,
    .sweep = lmdb_sweep,
    .first_open = lmdb_first_open,
    .scope_name = lmdb_scope_name,
    .get_scope = lmdb_get_scope,
    .put_scope = lmdb_put_scope,
    .is_due = lmdb_is_due,
    .status = status,
    .maintain = maintain,
    .peek = lmdb_peek,
    .walk = lmdb_walk,
    .show = lmdb_show,
    .backup = lmdb_backup,
    .stop_backup = lmdb_stop_backup,
};
