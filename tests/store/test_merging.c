/*
 * test_merging.c - recent ids and the index together, on disk: look-ups while ids are merged, what is read back at the
 * start, what a crash leaves, how much waits in memory, and that the index is empty when nothing is recorded.
 */
#include <lmdb.h>

#include "store/engine_lmdb.h"
#include "tests/store/cases.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>

#define LIMIT 50

static void small_memory(struct store_config *config)
{
    config->recent_max = LIMIT;
}

/* …and a file that does not fill up should a reader's thread be stopped in a look-up for the whole of the case. */
static void small_memory_much_room(struct store_config *config)
{
    small_memory(config);
    config->max_size = 1u << 30;
}

static size_t in_memory(struct driver *driver)
{
    return recent_count(lmdb_of(store_engine_of(driver->store))->recent);
}

/* Entries of the index; the store is idle. */
static size_t in_index(struct driver *driver)
{
    struct lmdb *lmdb = lmdb_of(store_engine_of(driver->store));
    MDB_txn *txn;
    MDB_stat stat;
    if (mdb_txn_begin(lmdb->env, NULL, MDB_RDONLY, &txn) != 0 || mdb_stat(txn, lmdb->trees[TREE_INDEX], &stat) != 0)
        driver_die("the index cannot be read");
    mdb_txn_abort(txn);
    return stat.ms_entries;
}

static void complete(struct driver *driver, unsigned key)
{
    struct store_result result = tell(driver, reserve_op(key, 1));
    if (result.answer == STORE_GRANTED)
        result = tell_with(driver, ending_op(STORE_COMPLETE, key, result.token, 0), 50, key);
    if (result.answer != STORE_DONE)
        driver_die_of(driver, "not completed", &result);
}

static bool is_replayed(struct store_handle *handle, unsigned key)
{
    struct asked op = reserve_op(key, 1);
    bool known = store_look_up(handle, &op.op) && op.op.result.answer == STORE_REPLAY;
    bool right = known && is_body(op.op.result.response, 50, key);
    store_bytes_unref(op.op.result.response);
    return right;
}

static void reopen(struct fixture *fixture)
{
    char error[500];
    CHECK(driver_close(&fixture->driver));
    CHECK(driver_open(&fixture->driver, error, sizeof error));
}

/* ---- look-ups meanwhile ----------------------------------------------------------------------- */

struct reader {
    struct store *store;
    _Atomic unsigned acknowledged; /* keys 0 … acknowledged - 1 */
    atomic_bool over;
    _Atomic unsigned asked;
    unsigned missed;
};

static void *read_all_along(void *arg)
{
    struct reader *reader = arg;
    struct store_handle *handle = store_handle_open(reader->store);
    while (!atomic_load(&reader->over)) {
        unsigned acknowledged = atomic_load(&reader->acknowledged);
        if (!acknowledged)
            continue;
        unsigned back = ++reader->asked * 7 % (4 * LIMIT);
        reader->missed += !is_replayed(handle, back < acknowledged ? acknowledged - 1 - back : 0);
    }
    store_handle_close(handle);
    return NULL;
}

/* Not even a snapshot misses what was acknowledged: it asks memory before it is opened. */
static void look_ups_never_miss(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct reader reader = {.store = driver->store};
    pthread_t thread;
    pthread_create(&thread, NULL, read_all_along, &reader);
    for (unsigned key = 0; key < 3000; key++) {
        complete(driver, key);
        atomic_store(&reader.acknowledged, key + 1);
        while (atomic_load(&reader.asked) < key / 20)
            sched_yield(); /* it must have been there all along */
    }
    atomic_store(&reader.over, true);
    pthread_join(thread, NULL);
    CHECK_EQUAL(reader.missed, 0);
    CHECK(in_index(driver) > 2 * 2000, "most of it is merged");
}

static void memory_is_bounded(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    for (unsigned key = 0; key < 1000; key++) {
        complete(driver, key);
        CHECK(in_memory(driver) <= 2 * LIMIT + 2);
    }
    CHECK(in_memory(driver) + in_index(driver) / 2 >= 1000, "each is somewhere");
}

/* Merging has come to a halt: what finds no place in memory goes into the index at once, and nobody is refused. When
 * merging goes on, it makes up for what it missed. */
static void without_merging_nobody_is_refused(struct fixture *fixture)
{
    enum { KEYS = 3000 };
    struct driver *driver = &fixture->driver;
    for (unsigned key = 0; key < KEYS; key++) {
        lmdb_of(store_engine_of(driver->store))->merge_pause = 4; /* the store is idle */
        complete(driver, key);
    }
    size_t held = in_memory(driver);
    CHECK(held < KEYS / 2, "memory is bounded");
    CHECK_EQUAL(held + in_index(driver) / 2, KEYS);
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned key = 0; key < KEYS; key++)
            CHECK(is_replayed(driver->handle, key));
        if (i == 0)
            reopen(fixture);
    }
    for (unsigned key = 0; key < KEYS; key += 7) {
        CHECK_EQUAL(tell(driver, ending_op(STORE_FORGET, key, 0, 0)).answer, STORE_DONE);
        CHECK(!is_replayed(driver->handle, key));
    }
    for (unsigned key = KEYS; key < KEYS + 4 * LIMIT + KEYS; key++)
        complete(driver, key);
    CHECK(in_memory(driver) <= 2 * LIMIT + 2, "it is merged again");
    CHECK_EQUAL(in_memory(driver) + in_index(driver) / 2, 2 * KEYS + 4 * LIMIT - (KEYS + 6) / 7);
}

/* ---- the start -------------------------------------------------------------------------------- */

static void what_was_not_merged_is_read_back(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    for (unsigned round = 0; round < 8; round++) {
        unsigned first = round * 37;
        for (unsigned key = first; key < first + 37; key++) {
            complete(driver, key);
            tell(driver, ending_op(STORE_RELEASE, 5000, granted(driver, 5000, 1), STORE_REASON_UNSENT));
        }
        reopen(fixture);
        for (unsigned key = 0; key < first + 37; key++) {
            CHECK(is_replayed(driver->handle, key));
            CHECK_EQUAL(tell(driver, reserve_op(key, 2)).answer, STORE_MISMATCH);
        }
        CHECK(in_memory(driver) <= 4 * LIMIT);
    }
}

static void other_identities_are_seen_wherever_they_are(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    for (unsigned key = 0; key < 6 * LIMIT; key++)
        complete(driver, key);
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned key = 0; key < 6 * LIMIT; key++) {
            struct asked op = reserve_op(key, 1);
            op.op.id = id_of(key, 2);
            op.op.reject_other_identity = true;
            CHECK_EQUAL(tell(driver, op).answer, STORE_OTHER_IDENTITY);
        }
        reopen(fixture);
    }
}

/* Whatever was merged when, of a store without records nothing is left. */
static void nothing_is_left_behind(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    for (unsigned key = 0; key < 700; key++) {
        complete(driver, key);
        if (key % 3 == 0)
            tell(driver, ending_op(STORE_FORGET, key, 0, 0));
        if (key % 150 == 149)
            reopen(fixture);
    }
    CHECK(in_index(driver) > 0);
    store_move_clock(driver->store, 2000000);
    struct store_status status;
    for (unsigned i = 0; i < 100; i++) {
        store_status(driver->store, &status);
        if (!status.completed)
            break;
        usleep(50000);
    }
    CHECK_EQUAL(status.completed, 0);
    CHECK_EQUAL(in_index(driver), 0);
    complete(driver, 1);
    CHECK(is_replayed(driver->handle, 1), "and a key that expired is as good as new");
}

/* An expired record and the one that took its place, each in memory or merged, before the old one is swept. */
static void the_younger_of_two_counts(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned key = 0; key < 3 * LIMIT; key++) {
            complete(driver, key);
            CHECK(is_replayed(driver->handle, key));
        }
        for (unsigned key = 0; key < 3 * LIMIT; key++)
            CHECK(is_replayed(driver->handle, key));
        reopen(fixture);
        for (unsigned key = 0; key < 3 * LIMIT; key++)
            CHECK(is_replayed(driver->handle, key));
        store_move_clock(driver->store, 2000000);
    }
}

/* ---- crashes ---------------------------------------------------------------------------------- */

/* Killed after so many actions: in the middle of a generation, of merging, of nothing. */
static void killed_anywhere_nothing_is_missing(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    char error[500];
    unsigned done = 0;
    for (unsigned more = 1; more < 130; more += 16) {
        CHECK(driver_close(driver));
        pid_t child = fork();
        if (child == 0) {
            if (!driver_open(driver, error, sizeof error))
                _exit(3);
            for (unsigned key = done; key < done + more; key++)
                complete(driver, key);
            kill(getpid(), SIGKILL);
        }
        int status;
        waitpid(child, &status, 0);
        CHECK(WIFSIGNALED(status));
        CHECK(driver_open(driver, error, sizeof error));
        done += more;
        for (unsigned key = 0; key < done; key++)
            CHECK(is_replayed(driver->handle, key));
    }
}

static const struct store_case merging_cases[] = {
    {"look-ups never miss", look_ups_never_miss, small_memory_much_room},
    {"memory is bounded", memory_is_bounded, small_memory},
    {"without merging nobody is refused", without_merging_nobody_is_refused, small_memory},
    {"what was not merged is read back", what_was_not_merged_is_read_back, small_memory},
    {"other identities are seen wherever they are", other_identities_are_seen_wherever_they_are, small_memory},
    {"nothing is left behind", nothing_is_left_behind, small_memory},
    {"the younger of two counts", the_younger_of_two_counts, small_memory},
    {"killed anywhere nothing is missing", killed_anywhere_nothing_is_missing, small_memory},
};

RUN_CASES(merging, merging_cases, "lmdb")
