/*
 * test_kept.c - when it cannot be written: the memory engine fails commits on demand.
 *
 * A commit can fail and not count, fail and count all the same, or never get to begin. Nobody may be granted twice, no
 * outcome may be forgotten while the process lives, and nothing may stay blocked once the engine works again. A single
 * op is tried twice (as a group, then alone), so two failures reach its asker.
 */
#include "tests/store/cases.h"

#define KEY   7
#define TWICE 2
#define LONG  1000000

static void inject(struct fixture *fixture, enum engine_memory_fault fault, unsigned commits)
{
    engine_memory_inject(store_engine_of(fixture->driver.store), fault, commits);
}

/* Until a snapshot answers: then it is in the engine. */
static struct store_result until_written(struct fixture *fixture, struct asked op)
{
    for (unsigned i = 0; i < 200; i++) {
        if (store_look_up(fixture->driver.handle, &op.op)) {
            store_bytes_unref(op.op.result.response);
            return op.op.result;
        }
        usleep(20000);
    }
    CHECK(false, "it must be written once the engine works again");
    return op.op.result;
}

static void one_failure_is_nobodys_business(struct fixture *fixture)
{
    static const enum engine_memory_fault faults[] = {ENGINE_MEMORY_COMMIT_FAILS, ENGINE_MEMORY_COMMIT_LIES};
    struct driver *driver = &fixture->driver;
    for (unsigned i = 0; i < 2; i++) {
        inject(fixture, faults[i], 1);
        uint64_t token = granted(driver, 10 + i, 1);
        CHECK(token != 0, "tried again alone");
        inject(fixture, faults[i], 1);
        CHECK_EQUAL(tell_with(driver, ending_op(STORE_COMPLETE, 10 + i, token, 0), 100, 1).answer, STORE_DONE);
        struct asked again = reserve_op(10 + i, 1);
        CHECK(is_body(ask_now(driver, &again)->response, 100, 1));
        CHECK_EQUAL(again.op.result.executions, 1, "recorded once");
        store_bytes_unref(again.op.result.response);
    }
}

static void one_failure_of_each_ending(struct fixture *fixture)
{
    static const struct {
        enum store_verb verb;
        enum store_reason reason;
    } endings[] = {{STORE_ABANDON, STORE_REASON_CLOSED},
                   {STORE_RELEASE, STORE_REASON_UNSENT},
                   {STORE_RELEASE, STORE_REASON_STATUS},
                   {STORE_RESTORE, STORE_REASON_UNSENT}};
    struct driver *driver = &fixture->driver;
    for (unsigned i = 0; i < 8; i++) {
        uint64_t token = granted(driver, 10 + i, 1);
        inject(fixture, i % 2 ? ENGINE_MEMORY_COMMIT_FAILS : ENGINE_MEMORY_COMMIT_LIES, 1);
        struct store_result result = tell(driver, ending_op(endings[i / 2].verb, 10 + i, token, endings[i / 2].reason));
        CHECK_EQUAL(result.answer, STORE_DONE, "what was written by a commit that seemed to fail is not LOST");
        result = tell(driver, reserve_op(10 + i, 1));
        CHECK_EQUAL(result.answer, i < 2 ? STORE_REPORT_UNKNOWN : STORE_GRANTED);
    }
}

static void a_failed_reservation_counts_as_absent(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    for (unsigned i = 0; i < 2; i++) {
        inject(fixture, i ? ENGINE_MEMORY_COMMIT_LIES : ENGINE_MEMORY_COMMIT_FAILS, TWICE);
        struct store_result result = tell(driver, reserve_op(10 + i, 1));
        CHECK_EQUAL(result.answer, STORE_FAILED);
        CHECK_EQUAL(result.failure, STORE_FAILURE_IO);
        result = tell(driver, reserve_op(10 + i, 2));
        CHECK_EQUAL(result.answer, STORE_GRANTED, "its traces neither block nor mismatch");
        CHECK_EQUAL(tell(driver, ending_op(STORE_COMPLETE, 10 + i, result.token, 0)).answer, STORE_DONE);
    }
    for (unsigned i = 0; i < 100; i++) { /* nobody asks again: the store itself takes the ghost away */
        struct store_status status;
        if (i == 0) {
            inject(fixture, ENGINE_MEMORY_COMMIT_LIES, TWICE);
            tell(driver, reserve_op(20, 1));
        }
        store_status(driver->store, &status);
        if (status.in_progress == 0)
            return;
        usleep(20000);
    }
    CHECK(false, "a grant that nobody got must not stay in progress");
}

static void those_behind_a_failed_reservation(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked ops[30];
    inject(fixture, ENGINE_MEMORY_COMMIT_FAILS, LONG);
    for (unsigned i = 0; i < 30; i++) {
        ops[i] = reserve_op(KEY, 1);
        ask(driver, &ops[i]);
    }
    for (unsigned i = 0; i < 30; i++)
        CHECK_EQUAL(answered(driver, &ops[i])->answer, STORE_FAILED);
    inject(fixture, ENGINE_MEMORY_SOUND, 0);
    CHECK(granted(driver, KEY, 1) != 0);
}

static void an_outcome_is_kept(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked waits = reserve_op(KEY, 1), no_wait = reserve_op(KEY, 1);
    uint64_t token = granted(driver, KEY, 1);
    ask(driver, &waits);
    until_noticed(driver, &waits);
    inject(fixture, ENGINE_MEMORY_COMMIT_FAILS, LONG);
    struct store_result result = tell_with(driver, ending_op(STORE_COMPLETE, KEY, token, 0), 3000, 4);
    CHECK_EQUAL(result.answer, STORE_FAILED);
    CHECK(is_body(answered(driver, &waits)->response, 3000, 4), "those who wait get it from memory");
    CHECK_EQUAL(waits.op.result.answer, STORE_REPLAY);
    store_bytes_unref(waits.op.result.response);
    no_wait.op.no_wait = true;
    CHECK(!store_look_up(driver->handle, &no_wait.op));
    CHECK_EQUAL(ask_now(driver, &no_wait)->answer, STORE_REPLAY, "so do repetitions, and they do not execute");
    CHECK(is_body(no_wait.op.result.response, 3000, 4));
    CHECK_EQUAL(no_wait.op.result.executions, 1);
    store_bytes_unref(no_wait.op.result.response);
    CHECK_EQUAL(tell(driver, reserve_op(KEY, 2)).answer, STORE_MISMATCH, "by the same law");
    struct store_status status;
    store_status(driver->store, &status);
    CHECK(status.failing && status.failing_since_ms > 0);
    inject(fixture, ENGINE_MEMORY_SOUND, 0);
    CHECK_EQUAL(until_written(fixture, reserve_op(KEY, 1)).answer, STORE_REPLAY);
    store_status(driver->store, &status);
    CHECK(!status.failing);
    CHECK_EQUAL(status.completed, 1);
    CHECK_EQUAL(tell(driver, ending_op(STORE_RELEASE, KEY, token, STORE_REASON_UNSENT)).answer, STORE_LOST);
}

static void the_same_ending_again_is_safe(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    uint64_t token = granted(driver, KEY, 1);
    inject(fixture, ENGINE_MEMORY_COMMIT_LIES, TWICE);
    CHECK_EQUAL(tell_with(driver, ending_op(STORE_COMPLETE, KEY, token, 0), 3000, 4).answer, STORE_FAILED);
    CHECK_EQUAL(tell_with(driver, ending_op(STORE_COMPLETE, KEY, token, 0), 3000, 4).answer, STORE_DONE);
    struct asked op = reserve_op(KEY, 1);
    CHECK(is_body(ask_now(driver, &op)->response, 3000, 4));
    CHECK_EQUAL(op.op.result.executions, 1);
    store_bytes_unref(op.op.result.response);
}

static void an_abandoned_one_is_kept(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked waits = reserve_op(KEY, 1), retry = reserve_op(KEY, 1);
    uint64_t token = granted(driver, KEY, 1);
    ask(driver, &waits);
    until_noticed(driver, &waits);
    inject(fixture, ENGINE_MEMORY_COMMIT_FAILS, LONG);
    CHECK_EQUAL(tell(driver, ending_op(STORE_ABANDON, KEY, token, STORE_REASON_STALL)).answer, STORE_FAILED);
    CHECK_EQUAL(answered(driver, &waits)->answer, STORE_ENDED);
    CHECK_EQUAL(waits.op.result.reason, STORE_REASON_STALL);
    struct store_result result = tell(driver, reserve_op(KEY, 1));
    CHECK_EQUAL(result.answer, STORE_REPORT_UNKNOWN);
    CHECK_EQUAL(result.reason, STORE_REASON_STALL);
    retry.op.retry_unknown = true;
    CHECK_EQUAL(tell(driver, retry).answer, STORE_FAILED, "a grant must be written");
    inject(fixture, ENGINE_MEMORY_SOUND, 0);
    result = tell(driver, retry);
    CHECK_EQUAL(result.answer, STORE_GRANTED_UNKNOWN, "the kept ending goes first, in the same transaction");
    CHECK_EQUAL(result.executions, 1);
    CHECK_EQUAL(result.reason, STORE_REASON_STALL);
    CHECK_EQUAL(tell(driver, ending_op(STORE_RESTORE, KEY, result.token, STORE_REASON_UNSENT)).answer, STORE_DONE);
}

static void a_ghost_of_a_regrant(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked retry = reserve_op(KEY, 1);
    tell(driver, ending_op(STORE_ABANDON, KEY, granted(driver, KEY, 1), STORE_REASON_STALL));
    retry.op.retry_unknown = true;
    inject(fixture, ENGINE_MEMORY_COMMIT_LIES, TWICE);
    CHECK_EQUAL(tell(driver, retry).answer, STORE_FAILED);
    struct store_result result = tell(driver, reserve_op(KEY, 1));
    CHECK_EQUAL(result.answer, STORE_REPORT_UNKNOWN);
    CHECK_EQUAL(result.executions, 1, "it was never granted, so it was not executed");
    CHECK_EQUAL(result.reason, STORE_REASON_STALL);
}

static void a_release_is_kept(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    for (unsigned i = 0; i < 2; i++) {
        struct asked waits = reserve_op(10 + i, 1);
        uint64_t token = granted(driver, 10 + i, 1);
        ask(driver, &waits);
        until_noticed(driver, &waits);
        inject(fixture, i ? ENGINE_MEMORY_COMMIT_LIES : ENGINE_MEMORY_COMMIT_FAILS, TWICE);
        CHECK_EQUAL(tell(driver, ending_op(STORE_RELEASE, 10 + i, token, STORE_REASON_UNSENT)).answer, STORE_FAILED);
        CHECK_EQUAL(answered(driver, &waits)->answer, STORE_FAILED, "no reservation could be written for the next");
        struct store_result result = tell(driver, reserve_op(10 + i, 2));
        CHECK_EQUAL(result.answer, STORE_GRANTED,
                    "tried first in the transaction of the RESERVE; no ghost of the heir");
        CHECK_EQUAL(result.executions, 0);
        CHECK_EQUAL(tell(driver, ending_op(STORE_COMPLETE, 10 + i, result.token, 0)).answer, STORE_DONE);
    }
}

static void handing_on_survives_one_failure(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    for (unsigned i = 0; i < 2; i++) {
        struct asked waits = reserve_op(10 + i, 1), last = reserve_op(10 + i, 1);
        uint64_t token = granted(driver, 10 + i, 1);
        ask(driver, &waits);
        ask(driver, &last);
        until_noticed(driver, &last);
        inject(fixture, i ? ENGINE_MEMORY_COMMIT_LIES : ENGINE_MEMORY_COMMIT_FAILS, 1);
        CHECK_EQUAL(tell(driver, ending_op(STORE_RELEASE, 10 + i, token, STORE_REASON_UNSENT)).answer, STORE_DONE);
        CHECK_EQUAL(answered(driver, &waits)->answer, STORE_GRANTED);
        CHECK(!last.done);
        CHECK_EQUAL(tell_with(driver, ending_op(STORE_COMPLETE, 10 + i, waits.op.result.token, 0), 10, 1).answer,
                    STORE_DONE);
        CHECK_EQUAL(answered(driver, &last)->answer, STORE_REPLAY);
        CHECK_EQUAL(last.op.result.executions, 1);
        store_bytes_unref(last.op.result.response);
    }
}

static void a_group_that_fails_is_tried_one_by_one(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked ops[200];
    inject(fixture, ENGINE_MEMORY_COMMIT_LIES, 1);
    for (unsigned i = 0; i < 200; i++) {
        ops[i] = reserve_op(100 + i, 1);
        ask(driver, &ops[i]);
    }
    for (unsigned i = 0; i < 200; i++)
        CHECK_EQUAL(answered(driver, &ops[i])->answer, STORE_GRANTED);
    inject(fixture, ENGINE_MEMORY_COMMIT_LIES, 1);
    for (unsigned i = 0; i < 200; i++) {
        ops[i] = ending_op(STORE_COMPLETE, 100 + i, ops[i].op.result.token, 0);
        ask(driver, &ops[i]);
    }
    for (unsigned i = 0; i < 200; i++)
        CHECK_EQUAL(answered(driver, &ops[i])->answer, STORE_DONE);
    struct store_status status;
    store_status(driver->store, &status);
    CHECK_EQUAL(status.completed, 200);
}

static void the_engine_is_reopened(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    uint64_t token = granted(driver, KEY, 1);
    inject(fixture, ENGINE_MEMORY_BEGIN_FAILS, 1);
    CHECK_EQUAL(tell_with(driver, ending_op(STORE_COMPLETE, KEY, token, 0), 10, 1).answer, STORE_DONE, "at once");
    inject(fixture, ENGINE_MEMORY_BEGIN_FAILS, LONG);
    CHECK_EQUAL(tell(driver, reserve_op(8, 1)).answer, STORE_FAILED);
    struct asked op = reserve_op(KEY, 1);
    CHECK(!store_look_up(driver->handle, &op.op), "a look-up that fails is sent on");
    CHECK_EQUAL(tell(driver, op).answer, STORE_FAILED);
    inject(fixture, ENGINE_MEMORY_SOUND, 0);
    CHECK_EQUAL(until_written(fixture, op).answer, STORE_REPLAY, "the store comes back by itself");
    uint64_t late = granted(driver, 9, 1);
    inject(fixture, ENGINE_MEMORY_BEGIN_FAILS, LONG);
    CHECK_EQUAL(tell_with(driver, ending_op(STORE_COMPLETE, 9, late, 0), 10, 1).answer, STORE_FAILED);
    CHECK_EQUAL(tell(driver, reserve_op(9, 1)).answer, STORE_REPLAY,
                "an ending that never got to a transaction is kept too");
    inject(fixture, ENGINE_MEMORY_SOUND, 0);
    CHECK_EQUAL(until_written(fixture, reserve_op(9, 1)).answer, STORE_REPLAY);
    struct store_status status;
    for (unsigned i = 0; i < 100; i++) {
        store_status(driver->store, &status);
        if (!status.failing)
            return;
        usleep(20000);
    }
    CHECK(false, "failing ends without traffic");
}

static void what_stays_unwritten_is_told_at_the_end(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    uint64_t token = granted(driver, KEY, 1);
    inject(fixture, ENGINE_MEMORY_COMMIT_FAILS, LONG);
    tell(driver, ending_op(STORE_ABANDON, KEY, token, STORE_REASON_CLOSED));
    store_handle_close(driver->handle);
    CHECK(!store_close(driver->store, 300), "not every record was committed");
    driver->store = NULL;
    CHECK(strstr(driver->log, "could not be written"));
}

static void closing_writes_what_was_kept(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    uint64_t token = granted(driver, KEY, 1);
    inject(fixture, ENGINE_MEMORY_COMMIT_FAILS, 5);
    CHECK_EQUAL(tell(driver, ending_op(STORE_ABANDON, KEY, token, STORE_REASON_CLOSED)).answer, STORE_FAILED);
}

/* Responses that cannot be written are kept, and with so many of them nothing new is begun: a reservation is refused
 * without a try, so that there is no grant to be taken back either. */
static void what_is_kept_is_bounded_in_bytes(struct fixture *fixture)
{
    enum { SIZE = 8 << 20, COUNT = KEPT_BYTES_MAX / SIZE };
    struct driver *driver = &fixture->driver;
    const struct lines *lines = &driver->store->writer.lines;
    uint64_t tokens[COUNT];
    for (unsigned i = 0; i < COUNT; i++)
        tokens[i] = granted(driver, 10 + i, 1);
    inject(fixture, ENGINE_MEMORY_COMMIT_FAILS, LONG);
    for (unsigned i = 0; i < COUNT; i++) {
        CHECK_EQUAL(tell(driver, reserve_op(100 + i, 1)).answer, STORE_FAILED);
        CHECK_EQUAL(lines->kept, 2 * i + 1, "below the bound it was tried, and is taken back");
        CHECK_EQUAL(tell_with(driver, ending_op(STORE_COMPLETE, 10 + i, tokens[i], 0), SIZE, i).answer, STORE_FAILED);
        CHECK_EQUAL(lines->kept_bytes, (size_t)SIZE * (i + 1));
    }
    CHECK_EQUAL(tell(driver, reserve_op(200, 1)).answer, STORE_FAILED);
    CHECK_EQUAL(lines->kept, 2 * COUNT, "beyond it was not tried");
    inject(fixture, ENGINE_MEMORY_SOUND, 0);
    for (unsigned i = 0; i < COUNT; i++)
        CHECK_EQUAL(until_written(fixture, reserve_op(10 + i, 1)).answer, STORE_REPLAY);
    /* It is forgotten after the commit that made it readable. */
    for (unsigned tries = 0; *(volatile const size_t *)&lines->kept_bytes && tries < 5000; tries++)
        usleep(1000);
    CHECK_EQUAL(lines->kept_bytes, 0);
    uint64_t token = granted(driver, 200, 1);
    CHECK(token != 0, "and it goes on");
    CHECK_EQUAL(tell(driver, ending_op(STORE_RELEASE, 200, token, STORE_REASON_UNSENT)).answer, STORE_DONE);
}

static void large_store(struct store_config *config)
{
    config->max_size = 256u << 20;
}

static const struct store_case kept_cases[] = {
    {"one failure is nobody's business", one_failure_is_nobodys_business, NULL},
    {"one failure of each ending", one_failure_of_each_ending, NULL},
    {"a failed reservation counts as absent", a_failed_reservation_counts_as_absent, NULL},
    {"those behind a failed reservation", those_behind_a_failed_reservation, NULL},
    {"an outcome is kept", an_outcome_is_kept, NULL},
    {"the same ending again is safe", the_same_ending_again_is_safe, NULL},
    {"an abandoned one is kept", an_abandoned_one_is_kept, NULL},
    {"a ghost of a regrant", a_ghost_of_a_regrant, NULL},
    {"a release is kept", a_release_is_kept, NULL},
    {"handing on survives one failure", handing_on_survives_one_failure, NULL},
    {"a group that fails is tried one by one", a_group_that_fails_is_tried_one_by_one, NULL},
    {"the engine is reopened", the_engine_is_reopened, NULL},
    {"what is kept is bounded in bytes", what_is_kept_is_bounded_in_bytes, large_store},
    {"what stays unwritten is told at the end", what_stays_unwritten_is_told_at_the_end, NULL},
    {"closing writes what was kept", closing_writes_what_was_kept, NULL},
};

RUN_CASES(kept, kept_cases, "memory")
