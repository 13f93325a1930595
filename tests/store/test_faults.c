/*
 * test_faults.c - a failing disk under the real engine: each kind of write, with each error, once or for long.
 *
 * The writes of LMDB come to the functions of lmdb_fault.c, which is part of this program.
 */
#include "tests/support/lmdb_fault.c"

#include "tests/store/cases.h"

#define KEY 7

static struct store_result until_written(struct fixture *fixture, struct asked op)
{
    for (unsigned i = 0; i < 400; i++) {
        if (store_look_up(fixture->driver.handle, &op.op)) {
            store_bytes_unref(op.op.result.response);
            return op.op.result;
        }
        usleep(20000);
    }
    CHECK(false, "it must be written once the disk works again");
    return op.op.result;
}

static void close_and_reopen(struct fixture *fixture)
{
    char error[500] = "";
    CHECK(driver_close(&fixture->driver), "everything is written");
    if (!driver_open(&fixture->driver, error, sizeof error))
        cr_assert_fail("cannot reopen: %s", error);
}

/* The n-th write fails, once. Nobody notices but the log. */
static void one_write_fails(struct fixture *fixture)
{
    static const char *const kinds[] = {"data", "meta", "sync", "any"}, *const errors[] = {"EIO", "ENOSPC"};
    struct driver *driver = &fixture->driver;
    unsigned key = 100;
    for (unsigned kind = 0; kind < 4; kind++)
        for (unsigned first = 1; first <= 6; first++, key++) {
            char line[64];
            snprintf(line, sizeof line, "%s %s %u 1", kinds[kind], errors[first % 2], first);
            lmdb_fault_set(line);
            uint64_t token = granted(driver, key, 1);
            cr_assert(token, "%s: the reservation is tried again", line);
            struct store_result result = tell_with(driver, ending_op(STORE_COMPLETE, key, token, 0), 5000, key);
            cr_assert(result.answer == STORE_DONE, "%s: so is the outcome: %d", line, (int)result.answer);
        }
    lmdb_fault_set(NULL);
    close_and_reopen(fixture);
    for (unsigned i = 100; i < key; i++) {
        struct asked op = reserve_op(i, 1);
        struct store_result result = *ask_now(driver, &op);
        CHECK_EQUAL(result.answer, STORE_REPLAY);
        CHECK_EQUAL(result.executions, 1);
        CHECK(result.not_kept || is_body(result.response, 5000, i),
              "with its body, or without one if that did not fit");
        store_bytes_unref(result.response);
    }
}

static void the_disk_fails_for_long(struct fixture *fixture)
{
    static const char *const lines[] = {"data EIO", "data ENOSPC", "meta EIO", "meta ENOSPC",
                                        "sync EIO", "sync ENOSPC", "any EIO",  "any ENOSPC"};
    struct driver *driver = &fixture->driver;
    for (unsigned i = 0; i < sizeof lines / sizeof *lines; i++) {
        unsigned done = 100 + 10 * i, kept = done + 1, unknown = done + 2, fresh = done + 3;
        tell_with(driver, ending_op(STORE_COMPLETE, done, granted(driver, done, 1), 0), 300, 1);
        uint64_t token = granted(driver, kept, 1), other = granted(driver, unknown, 1);
        lmdb_fault_set(lines[i]);
        cr_assert(tell(driver, reserve_op(fresh, 1)).answer == STORE_FAILED, "%s", lines[i]);
        cr_assert(tell_with(driver, ending_op(STORE_COMPLETE, kept, token, 0), 300, 2).answer == STORE_FAILED, "%s",
                  lines[i]);
        cr_assert(tell(driver, ending_op(STORE_ABANDON, unknown, other, STORE_REASON_CLOSED)).answer == STORE_FAILED,
                  "%s", lines[i]);
        struct asked again = reserve_op(kept, 1);
        ask_now(driver, &again);
        cr_assert(again.op.result.answer == STORE_REPLAY && is_body(again.op.result.response, 300, 2),
                  "%s: from memory, not executed again", lines[i]);
        store_bytes_unref(again.op.result.response);
        cr_assert(tell(driver, reserve_op(unknown, 1)).answer == STORE_REPORT_UNKNOWN, "%s", lines[i]);
        lmdb_fault_set(NULL);
        CHECK_EQUAL(until_written(fixture, reserve_op(kept, 1)).answer, STORE_REPLAY);
        CHECK_EQUAL(until_written(fixture, reserve_op(unknown, 1)).reason, STORE_REASON_CLOSED);
        CHECK_EQUAL(until_written(fixture, reserve_op(done, 1)).answer, STORE_REPLAY);
        struct store_result result = tell(driver, reserve_op(fresh, 2));
        cr_assert(result.answer == STORE_GRANTED, "%s: what was refused counts as absent: %d", lines[i],
                  (int)result.answer);
        tell(driver, ending_op(STORE_RELEASE, fresh, result.token, STORE_REASON_UNSENT));
        close_and_reopen(fixture);
    }
    struct store_status status;
    store_status(driver->store, &status);
    CHECK_EQUAL(status.in_progress, 0);
    CHECK_EQUAL(status.completed, 16);
    CHECK_EQUAL(status.unknown, 8);
}

static void strict_durability(struct store_config *config)
{
    config->strict = true;
}

static const struct store_case fault_cases[] = {
    {"one write fails", one_write_fails, strict_durability},
    {"the disk fails for long", the_disk_fails_for_long, strict_durability},
};

RUN_CASES(faults, fault_cases, "lmdb", "lmdb-merging")
