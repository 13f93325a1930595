/*
 * test_contract.c - what store.h promises, for every engine alike.
 *
 * The cases follow the contract's table "How an action ends": who executes, who gets what, what the record says
 * afterwards.
 */
#include "tests/store/cases.h"

#define KEY 7

/* ---- the plain life --------------------------------------------------------------------------- */

static void completes_and_replays(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked first = reserve_op(KEY, 1);
    struct store_result result = *ask_now(driver, &first);
    CHECK_EQUAL(result.answer, STORE_GRANTED);
    CHECK_EQUAL(result.state, STORE_IN_PROGRESS);
    CHECK_EQUAL(result.executions, 0);
    CHECK(result.token != 0 && result.created_ms > 0 && !result.response);
    int64_t created = result.created_ms;

    struct store_result done = tell_with(driver, ending_op(STORE_COMPLETE, KEY, result.token, 0), 300, 9);
    CHECK_EQUAL(done.answer, STORE_DONE);
    CHECK_EQUAL(done.state, STORE_COMPLETED);

    struct asked again = reserve_op(KEY, 1);
    result = *ask_now(driver, &again);
    CHECK_EQUAL(result.answer, STORE_REPLAY);
    CHECK_EQUAL(result.state, STORE_COMPLETED);
    CHECK_EQUAL(result.status, 201);
    CHECK_EQUAL(result.executions, 1);
    CHECK_EQUAL(result.created_ms, created);
    CHECK_EQUAL(result.expires_ms, result.since_ms + 1000000, "retention counts from the moment it is recorded");
    CHECK(is_body(result.response, 300, 9) && !result.waited && !result.not_kept);
    store_bytes_unref(result.response);
    CHECK_EQUAL(tell(driver, reserve_op(KEY, 2)).answer, STORE_MISMATCH);
}

static void looks_up_what_has_ended(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked op = reserve_op(KEY, 1), other = reserve_op(KEY, 2);
    CHECK(!store_look_up(driver->handle, &op.op), "a miss is never an answer");
    uint64_t token = granted(driver, KEY, 1);
    CHECK(!store_look_up(driver->handle, &op.op), "in progress is the writer's to say");
    CHECK(!store_look_up(driver->handle, &other.op), "also to another fingerprint: the grant may yet be taken back");
    tell_with(driver, ending_op(STORE_COMPLETE, KEY, token, 0), 5000, 4);
    CHECK(store_look_up(driver->handle, &op.op));
    CHECK_EQUAL(op.op.result.answer, STORE_REPLAY);
    CHECK(is_body(op.op.result.response, 5000, 4));
    store_bytes_unref(op.op.result.response);
    CHECK(store_look_up(driver->handle, &other.op));
    CHECK_EQUAL(other.op.result.answer, STORE_MISMATCH);
    store_move_clock(driver->store, 1000001);
    CHECK(!store_look_up(driver->handle, &op.op), "expired is absent");
}

static void looks_up_unknown(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    uint64_t token = granted(driver, KEY, 1);
    tell_with(driver, ending_op(STORE_ABANDON, KEY, token, STORE_REASON_STATUS), 5000, 4);
    struct asked op = reserve_op(KEY, 1);
    CHECK(store_look_up(driver->handle, &op.op));
    CHECK_EQUAL(op.op.result.answer, STORE_REPORT_UNKNOWN);
    CHECK(is_body(op.op.result.response, 5000, 4));
    store_bytes_unref(op.op.result.response);
    op.op.retry_unknown = true;
    CHECK(!store_look_up(driver->handle, &op.op), "a grant is never given out of a snapshot");
}

static void keeps_bodies_of_any_size(struct fixture *fixture)
{
    static const size_t sizes[] = {0, 1, 1535, 1536, 1537, 4079, 4080, 4081, 8160, 65536, 1000000, 5 << 20};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct driver *driver = &fixture->driver;
        uint64_t token = granted(driver, 100 + i, 1);
        CHECK_EQUAL(tell_with(driver, ending_op(STORE_COMPLETE, 100 + i, token, 0), sizes[i], i).answer, STORE_DONE);
        struct asked found = reserve_op(100 + i, 1), asked = reserve_op(100 + i, 1);
        CHECK(store_look_up(driver->handle, &found.op));
        CHECK(is_body(found.op.result.response, sizes[i], i), "from the snapshot");
        store_bytes_unref(found.op.result.response);
        struct store_result result = *ask_now(driver, &asked);
        CHECK(is_body(result.response, sizes[i], i), "from the writer");
        store_bytes_unref(result.response);
    }
}

static void says_what_was_not_kept(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked complete = ending_op(STORE_COMPLETE, KEY, granted(driver, KEY, 1), 0), waits = reserve_op(KEY, 1);
    ask(driver, &waits);
    until_noticed(driver, &waits);
    complete.op.not_kept = true;
    complete.op.status = 200;
    CHECK_EQUAL(tell(driver, complete).answer, STORE_DONE);
    struct store_result result = *answered(driver, &waits);
    CHECK(result.answer == STORE_REPLAY && result.not_kept && !result.response && result.waited);
    result = tell(driver, reserve_op(KEY, 1));
    CHECK(result.answer == STORE_REPLAY && result.not_kept && result.status == 200);
}

static void answers_many_at_once(struct fixture *fixture)
{
    enum { MANY = 700 };
    struct driver *driver = &fixture->driver;
    struct asked *asked = calloc(MANY, sizeof *asked);
    for (unsigned i = 0; i < MANY; i++) {
        asked[i] = reserve_op(1000 + i, 1);
        ask(driver, &asked[i]);
    }
    for (unsigned i = 0; i < MANY; i++)
        CHECK_EQUAL(answered(driver, &asked[i])->answer, STORE_GRANTED);
    for (unsigned i = 1; i < MANY; i++)
        CHECK(asked[i].op.result.token != asked[i - 1].op.result.token, "tokens are never given twice");
    for (unsigned i = 0; i < MANY; i++) {
        uint64_t token = asked[i].op.result.token;
        asked[i] = ending_op(STORE_COMPLETE, 1000 + i, token, 0);
        asked[i].op.response = body_of(i, i);
        ask(driver, &asked[i]);
    }
    for (unsigned i = 0; i < MANY; i++) {
        CHECK_EQUAL(answered(driver, &asked[i])->answer, STORE_DONE);
        store_bytes_unref(asked[i].op.response);
    }
    struct store_status status;
    store_status(driver->store, &status);
    CHECK_EQUAL(status.completed, MANY);
    CHECK_EQUAL(status.in_progress, 0);
    CHECK(status.commits < 2 * MANY, "group commit");
    free(asked);
}

/* ---- the line --------------------------------------------------------------------------------- */

#define WAITERS 20

/* One owner and WAITERS behind it, all submitted together as a burst of duplicates is. */
static uint64_t burst(struct fixture *fixture, struct asked *waits)
{
    struct driver *driver = &fixture->driver;
    struct asked owner = reserve_op(KEY, 1);
    ask(driver, &owner);
    for (unsigned i = 0; i < WAITERS; i++) {
        waits[i] = reserve_op(KEY, 1);
        ask(driver, &waits[i]);
    }
    CHECK_EQUAL(answered(driver, &owner)->answer, STORE_GRANTED);
    for (unsigned i = 0; i < WAITERS; i++) {
        until_noticed(driver, &waits[i]);
        CHECK(!waits[i].done, "only one may be granted");
    }
    return owner.op.result.token;
}

static void expect_all(struct fixture *fixture, struct asked *waits, unsigned from, enum store_answer answer,
                       enum store_state state, enum store_reason reason, size_t len)
{
    for (unsigned i = from; i < WAITERS; i++) {
        struct store_result result = *answered(&fixture->driver, &waits[i]);
        CHECK_EQUAL(result.answer, answer);
        CHECK_EQUAL(result.state, state);
        CHECK(result.waited && waits[i].notices == 1 && waits[i].answers == 1);
        if (reason)
            CHECK_EQUAL(result.reason, reason);
        CHECK(len ? is_body(result.response, len, 5) : !result.response);
        store_bytes_unref(result.response);
    }
    struct store_status status;
    store_status(fixture->driver.store, &status);
    CHECK_EQUAL(status.waiters, 0);
}

static void all_waiting_get_the_outcome(struct fixture *fixture)
{
    struct asked waits[WAITERS];
    uint64_t token = burst(fixture, waits);
    CHECK_EQUAL(tell_with(&fixture->driver, ending_op(STORE_COMPLETE, KEY, token, 0), 2000, 5).answer, STORE_DONE);
    expect_all(fixture, waits, 0, STORE_REPLAY, STORE_COMPLETED, 0, 2000);
}

static void release_by_status_reaches_all_waiting(struct fixture *fixture)
{
    struct asked waits[WAITERS];
    uint64_t token = burst(fixture, waits);
    struct asked release = ending_op(STORE_RELEASE, KEY, token, STORE_REASON_STATUS);
    CHECK_EQUAL(tell_with(&fixture->driver, release, 2000, 5).state, STORE_RELEASED);
    expect_all(fixture, waits, 0, STORE_REPLAY, STORE_RELEASED, 0, 2000);
    CHECK_EQUAL(tell(&fixture->driver, reserve_op(KEY, 1)).answer, STORE_GRANTED, "the next to arrive executes");
}

static void release_too_large_says_so(struct fixture *fixture)
{
    struct asked waits[WAITERS];
    struct asked release = ending_op(STORE_RELEASE, KEY, burst(fixture, waits), STORE_REASON_STATUS);
    release.op.not_kept = true;
    tell(&fixture->driver, release);
    CHECK(answered(&fixture->driver, &waits[0])->not_kept);
    expect_all(fixture, waits, 0, STORE_REPLAY, STORE_RELEASED, 0, 0);
}

static void abandon_reaches_all_waiting(struct fixture *fixture)
{
    struct asked waits[WAITERS];
    uint64_t token = burst(fixture, waits);
    struct asked abandon = ending_op(STORE_ABANDON, KEY, token, STORE_REASON_STALL);
    CHECK_EQUAL(tell(&fixture->driver, abandon).state, STORE_UNKNOWN);
    expect_all(fixture, waits, 0, STORE_ENDED, STORE_UNKNOWN, STORE_REASON_STALL, 0);
    struct store_result result = tell(&fixture->driver, reserve_op(KEY, 1));
    CHECK_EQUAL(result.answer, STORE_REPORT_UNKNOWN);
    CHECK_EQUAL(result.reason, STORE_REASON_STALL);
    CHECK_EQUAL(result.executions, 1);
}

static void abandon_with_response_reaches_all_waiting(struct fixture *fixture)
{
    struct asked waits[WAITERS];
    struct asked abandon = ending_op(STORE_ABANDON, KEY, burst(fixture, waits), STORE_REASON_STATUS);
    tell_with(&fixture->driver, abandon, 2000, 5);
    expect_all(fixture, waits, 0, STORE_REPLAY, STORE_UNKNOWN, STORE_REASON_STATUS, 2000);
}

static void unsent_is_handed_on_once(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked waits[WAITERS];
    uint64_t token = burst(fixture, waits);
    CHECK_EQUAL(tell(driver, ending_op(STORE_RELEASE, KEY, token, STORE_REASON_UNSENT)).state, STORE_RELEASED);
    struct store_result heir = *answered(driver, &waits[0]);
    CHECK_EQUAL(heir.answer, STORE_GRANTED, "the longest-waiting executes");
    CHECK(heir.token > token && heir.waited);
    for (unsigned i = 1; i < WAITERS; i++)
        CHECK(!waits[i].done, "no stampede");
    CHECK_EQUAL(tell(driver, ending_op(STORE_COMPLETE, KEY, token, 0)).answer, STORE_LOST, "the old token is spent");
    tell(driver, ending_op(STORE_RELEASE, KEY, heir.token, STORE_REASON_UNSENT));
    expect_all(fixture, waits, 1, STORE_ENDED, STORE_RELEASED, STORE_REASON_UNSENT, 0);
    CHECK_EQUAL(tell(driver, reserve_op(KEY, 1)).answer, STORE_GRANTED, "nothing is left");
}

static void withdrawn_is_handed_on_however_often(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked waits[WAITERS];
    uint64_t token = burst(fixture, waits);
    tell(driver, ending_op(STORE_RELEASE, KEY, token, STORE_REASON_UNSENT));
    for (unsigned i = 0; i < 5; i++) {
        CHECK_EQUAL(answered(driver, &waits[i])->answer, STORE_GRANTED);
        token = waits[i].op.result.token;
        tell(driver, ending_op(STORE_RELEASE, KEY, token, STORE_REASON_WITHDRAWN));
    }
    CHECK_EQUAL(answered(driver, &waits[5])->answer, STORE_GRANTED);
    token = waits[5].op.result.token;
    tell(driver, ending_op(STORE_RELEASE, KEY, token, STORE_REASON_UNSENT));
    expect_all(fixture, waits, 6, STORE_ENDED, STORE_RELEASED, STORE_REASON_UNSENT, 0);
}

static void half_closed_are_passed_over(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked waits[WAITERS];
    uint64_t token = burst(fixture, waits);
    for (unsigned i = 0; i < WAITERS; i++)
        store_no_grant(&waits[i].op, i != 3);
    tell(driver, ending_op(STORE_RELEASE, KEY, token, STORE_REASON_UNSENT));
    CHECK_EQUAL(answered(driver, &waits[3])->answer, STORE_GRANTED);
    CHECK(!waits[0].done && !waits[4].done);
    tell_with(driver, ending_op(STORE_COMPLETE, KEY, waits[3].op.result.token, 0), 2000, 5);
    waits[3] = waits[WAITERS - 1];
    for (unsigned i = 0; i < WAITERS - 1; i++)
        if (i != 3) {
            CHECK(is_body(answered(driver, &waits[i])->response, 2000, 5), "they are answered all the same");
            store_bytes_unref(waits[i].op.result.response);
        }
    store_bytes_unref(waits[WAITERS - 1].op.result.response);
}

static void only_half_closed_wait(struct fixture *fixture)
{
    struct asked waits[WAITERS];
    uint64_t token = burst(fixture, waits);
    for (unsigned i = 0; i < WAITERS; i++)
        store_no_grant(&waits[i].op, true);
    tell(&fixture->driver, ending_op(STORE_RELEASE, KEY, token, STORE_REASON_UNSENT));
    expect_all(fixture, waits, 0, STORE_ENDED, STORE_RELEASED, STORE_REASON_UNSENT, 0);
}

/* Nothing says that the API cannot be reached: they are told to ask again, not that it failed. */
static void only_half_closed_wait_for_one_that_withdraws(struct fixture *fixture)
{
    struct asked waits[WAITERS];
    uint64_t token = burst(fixture, waits);
    for (unsigned i = 0; i < WAITERS; i++)
        store_no_grant(&waits[i].op, true);
    tell(&fixture->driver, ending_op(STORE_RELEASE, KEY, token, STORE_REASON_WITHDRAWN));
    expect_all(fixture, waits, 0, STORE_ENDED, STORE_RELEASED, STORE_REASON_WITHDRAWN, 0);
    CHECK_EQUAL(tell(&fixture->driver, reserve_op(KEY, 1)).answer, STORE_GRANTED, "and who asks again executes");
}

static void busy_without_waiting(struct fixture *fixture)
{
    granted(&fixture->driver, KEY, 1);
    struct asked op = reserve_op(KEY, 1);
    op.op.no_wait = true;
    struct store_result result = tell(&fixture->driver, op);
    CHECK_EQUAL(result.answer, STORE_BUSY);
    CHECK_EQUAL(result.state, STORE_IN_PROGRESS);
    CHECK_EQUAL(tell(&fixture->driver, reserve_op(KEY, 2)).answer, STORE_MISMATCH, "at once, also while it runs");
}

static void small_lines(struct store_config *config)
{
    config->waiters_per_action = 3;
    config->waiters = 4;
}

static void lines_have_limits(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked waits[6];
    uint64_t first = granted(driver, 1, 1), second = granted(driver, 2, 1);
    for (unsigned i = 0; i < 6; i++) {
        waits[i] = reserve_op(i < 4 ? 1 : 2, 1);
        ask(driver, &waits[i]);
    }
    CHECK_EQUAL(answered(driver, &waits[3])->answer, STORE_BUSY, "the action's line is full");
    CHECK_EQUAL(answered(driver, &waits[5])->answer, STORE_BUSY, "all lines are full");
    CHECK_EQUAL(waits[5].notices, 0);
    tell(driver, ending_op(STORE_ABANDON, 1, first, STORE_REASON_CLOSED));
    tell(driver, ending_op(STORE_ABANDON, 2, second, STORE_REASON_CLOSED));
    CHECK_EQUAL(answered(driver, &waits[2])->answer, STORE_ENDED);
    CHECK_EQUAL(answered(driver, &waits[4])->answer, STORE_ENDED);
}

static void cancelled_leaves_the_line(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked waits[WAITERS];
    uint64_t token = burst(fixture, waits);
    for (unsigned i = 0; i < WAITERS; i += 2) {
        store_cancel(driver->handle, &waits[i].op);
        store_cancel(driver->handle, &waits[i].op); /* twice is as once */
    }
    for (unsigned i = 0; i < WAITERS; i += 2)
        CHECK_EQUAL(answered(driver, &waits[i])->answer, STORE_CANCELLED);
    tell(driver, ending_op(STORE_RELEASE, KEY, token, STORE_REASON_UNSENT));
    CHECK_EQUAL(answered(driver, &waits[1])->answer, STORE_GRANTED, "the longest-waiting of those who stayed");
    tell_with(driver, ending_op(STORE_COMPLETE, KEY, waits[1].op.result.token, 0), 2000, 5);
    for (unsigned i = 3; i < WAITERS; i += 2) {
        CHECK_EQUAL(answered(driver, &waits[i])->answer, STORE_REPLAY);
        store_bytes_unref(waits[i].op.result.response);
    }
}

/* Cancelled at once: still in the queue, in the line, granted, or answered already. Each is answered once, and a grant
 * that comes all the same can be withdrawn. */
static void cancel_races(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    unsigned grants = 0;
    for (unsigned round = 0; round < 300; round++) {
        struct asked ops[4];
        for (unsigned i = 0; i < 4; i++) {
            ops[i] = reserve_op(5000 + round, 1);
            ask(driver, &ops[i]);
            if (round % 3 == 1)
                usleep(20);
            if (i != 2)
                store_cancel(driver->handle, &ops[i].op);
        }
        unsigned open = 4;
        bool seen[4] = {false};
        while (open) {
            driver_turn(driver, PATIENCE_MS);
            for (unsigned i = 0; i < 4; i++) {
                if (!ops[i].done || seen[i])
                    continue;
                seen[i] = true;
                open--;
                if (ops[i].op.result.answer == STORE_GRANTED) {
                    grants++;
                    struct asked gone =
                        ending_op(STORE_RELEASE, 5000 + round, ops[i].op.result.token, STORE_REASON_WITHDRAWN);
                    CHECK_EQUAL(tell(driver, gone).answer, STORE_DONE);
                } else {
                    CHECK(ops[i].op.result.answer == STORE_CANCELLED || ops[i].op.result.answer == STORE_ENDED);
                }
            }
        }
        for (unsigned i = 0; i < 4; i++)
            CHECK_EQUAL(ops[i].answers, 1);
    }
    CHECK(grants >= 300, "the one that stayed is always granted");
    struct store_status status;
    store_status(driver->store, &status);
    CHECK_EQUAL(status.in_progress, 0);
}

/* ---- unknown ---------------------------------------------------------------------------------- */

static struct asked retry_op(unsigned key)
{
    struct asked asked = reserve_op(key, 1);
    asked.op.retry_unknown = true;
    return asked;
}

/* An unknown action with a response of 2000 bytes, seed 5. */
static struct store_result make_unknown(struct fixture *fixture, unsigned key)
{
    struct driver *driver = &fixture->driver;
    struct asked abandon = ending_op(STORE_ABANDON, key, granted(driver, key, 1), STORE_REASON_STATUS);
    abandon.op.forwarded_until_ms = store_now_ms(driver->handle) - 5;
    tell_with(driver, abandon, 2000, 5);
    return tell(driver, reserve_op(key, 1));
}

static void expect_as_before(struct fixture *fixture, unsigned key, const struct store_result *before)
{
    struct asked op = reserve_op(key, 1);
    struct store_result now = *ask_now(&fixture->driver, &op);
    CHECK_EQUAL(now.answer, STORE_REPORT_UNKNOWN);
    CHECK_EQUAL(now.reason, before->reason);
    CHECK_EQUAL(now.status, before->status);
    CHECK_EQUAL(now.executions, before->executions);
    CHECK_EQUAL(now.since_ms, before->since_ms);
    CHECK_EQUAL(now.expires_ms, before->expires_ms);
    CHECK_EQUAL(now.created_ms, before->created_ms);
    CHECK_EQUAL(now.forwarded_until_ms, before->forwarded_until_ms);
    CHECK(is_body(now.response, 2000, 5));
    store_bytes_unref(now.response);
    struct store_status status;
    store_status(fixture->driver.store, &status);
    CHECK_EQUAL(status.unknown, 1);
    CHECK_EQUAL(status.oldest_unknown_ms, before->since_ms);
}

static void restore_puts_back_exactly(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct store_result before = make_unknown(fixture, KEY);
    static const struct {
        enum store_verb verb;
        enum store_reason reason;
    } endings[] = {{STORE_RESTORE, STORE_REASON_UNSENT},
                   {STORE_RESTORE, STORE_REASON_PROBED},
                   {STORE_RESTORE, STORE_REASON_WITHDRAWN},
                   {STORE_RELEASE, STORE_REASON_UNSENT},
                   {STORE_RELEASE, STORE_REASON_WITHDRAWN}};
    for (unsigned i = 0; i < sizeof endings / sizeof *endings; i++) {
        struct asked retry = retry_op(KEY);
        struct store_result result = *ask_now(driver, &retry);
        CHECK_EQUAL(result.answer, STORE_GRANTED_UNKNOWN);
        CHECK_EQUAL(result.reason, STORE_REASON_STATUS);
        CHECK_EQUAL(result.executions, 1);
        CHECK_EQUAL(result.forwarded_until_ms, before.forwarded_until_ms);
        store_bytes_unref(result.response);
        struct store_status status;
        store_status(driver->store, &status);
        CHECK(status.unknown == 0 && status.in_progress == 1, "while it runs again it is in progress");
        struct store_result done = tell(driver, ending_op(endings[i].verb, KEY, result.token, endings[i].reason));
        CHECK_EQUAL(done.answer, STORE_DONE);
        CHECK_EQUAL(done.state, STORE_UNKNOWN, "an unknown action is never released by an attempt");
        expect_as_before(fixture, KEY, &before);
    }
}

static uint64_t regrant(struct fixture *fixture, unsigned key)
{
    struct store_result result = tell(&fixture->driver, retry_op(key));
    CHECK_EQUAL(result.answer, STORE_GRANTED_UNKNOWN);
    return result.token;
}

static void retried_and_completed(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    make_unknown(fixture, KEY);
    tell_with(driver, ending_op(STORE_COMPLETE, KEY, regrant(fixture, KEY), 0), 700, 6);
    struct asked op = reserve_op(KEY, 1);
    struct store_result result = *ask_now(driver, &op);
    CHECK_EQUAL(result.answer, STORE_REPLAY);
    CHECK_EQUAL(result.executions, 2);
    CHECK(is_body(result.response, 700, 6));
    store_bytes_unref(result.response);
    struct store_status status;
    store_status(driver->store, &status);
    CHECK(status.unknown == 0 && status.completed == 1);
}

static void retried_and_abandoned(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    make_unknown(fixture, KEY);
    tell(driver, ending_op(STORE_ABANDON, KEY, regrant(fixture, KEY), STORE_REASON_CLOSED));
    struct store_result result = tell(driver, reserve_op(KEY, 1));
    CHECK_EQUAL(result.reason, STORE_REASON_CLOSED);
    CHECK_EQUAL(result.executions, 2);
}

static void retried_and_released_by_status(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    make_unknown(fixture, KEY);
    struct asked release = ending_op(STORE_RELEASE, KEY, regrant(fixture, KEY), STORE_REASON_STATUS);
    CHECK_EQUAL(tell_with(driver, release, 50, 8).state, STORE_UNKNOWN);
    struct asked op = reserve_op(KEY, 1);
    CHECK(is_body(ask_now(driver, &op)->response, 50, 8));
    store_bytes_unref(op.op.result.response);
}

static void not_happened_counts_as_new(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    make_unknown(fixture, KEY);
    struct asked release = ending_op(STORE_RELEASE, KEY, regrant(fixture, KEY), STORE_REASON_UNSENT);
    release.op.not_happened = true;
    CHECK_EQUAL(tell(driver, release).state, STORE_RELEASED);
    struct store_result result = tell(driver, reserve_op(KEY, 1));
    CHECK_EQUAL(result.answer, STORE_GRANTED);
    CHECK_EQUAL(result.executions, 0);
}

static void probed_reaches_all_waiting(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked waits[WAITERS];
    make_unknown(fixture, KEY);
    uint64_t token = regrant(fixture, KEY);
    for (unsigned i = 0; i < WAITERS; i++) {
        waits[i] = i % 2 ? retry_op(KEY) : reserve_op(KEY, 1);
        ask(driver, &waits[i]);
        until_noticed(driver, &waits[i]);
    }
    tell(driver, ending_op(STORE_RESTORE, KEY, token, STORE_REASON_PROBED));
    expect_all(fixture, waits, 0, STORE_REPORT_UNKNOWN, STORE_UNKNOWN, STORE_REASON_STATUS, 2000);
}

/* "Not happened", but the API may still be working on it: those who wait are to come again, and learn when. */
static void probed_too_early_reaches_all_waiting(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked waits[WAITERS];
    struct store_result before = make_unknown(fixture, KEY);
    struct asked restore = ending_op(STORE_RESTORE, KEY, regrant(fixture, KEY), STORE_REASON_PROBED);
    for (unsigned i = 0; i < WAITERS; i++) {
        waits[i] = i % 2 ? retry_op(KEY) : reserve_op(KEY, 1);
        ask(driver, &waits[i]);
        until_noticed(driver, &waits[i]);
    }
    restore.op.not_happened = true;
    tell(driver, restore);
    for (unsigned i = 0; i < WAITERS; i++) {
        struct store_result result = *answered(driver, &waits[i]);
        CHECK_EQUAL(result.answer, STORE_BUSY);
        CHECK_EQUAL(result.state, STORE_UNKNOWN);
        CHECK_EQUAL(result.forwarded_until_ms, before.forwarded_until_ms);
        CHECK(result.waited && !result.response);
    }
    expect_as_before(fixture, KEY, &before);
}

/* Put back because einmal ends: nobody who waits is given the action once more. */
static void drained_reaches_all_waiting(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked waits = retry_op(KEY);
    struct store_result before = make_unknown(fixture, KEY);
    uint64_t token = regrant(fixture, KEY);
    ask(driver, &waits);
    until_noticed(driver, &waits);
    tell(driver, ending_op(STORE_RESTORE, KEY, token, STORE_REASON_DRAIN));
    struct store_result result = *answered(driver, &waits);
    CHECK_EQUAL(result.answer, STORE_ENDED);
    CHECK_EQUAL(result.reason, STORE_REASON_DRAIN);
    expect_as_before(fixture, KEY, &before);
}

/* The answer of a probe becomes the outcome of what was forwarded before; nothing was forwarded now. */
static void completed_by_a_probe(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct store_result before = make_unknown(fixture, KEY);
    struct asked complete = ending_op(STORE_COMPLETE, KEY, regrant(fixture, KEY), STORE_REASON_PROBED);
    complete.op.forwarded_until_ms = before.forwarded_until_ms;
    CHECK_EQUAL(tell_with(driver, complete, 700, 6).answer, STORE_DONE);
    struct asked op = reserve_op(KEY, 1);
    struct store_result result = *ask_now(driver, &op);
    CHECK_EQUAL(result.answer, STORE_REPLAY);
    CHECK_EQUAL(result.executions, before.executions);
    CHECK_EQUAL(result.forwarded_until_ms, before.forwarded_until_ms);
    CHECK_EQUAL(result.reason, STORE_REASON_NONE);
    CHECK(is_body(result.response, 700, 6));
    store_bytes_unref(result.response);
}

static void unknown_is_handed_on_to_who_retries(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked reports = reserve_op(KEY, 1), retries = retry_op(KEY), last = retry_op(KEY);
    make_unknown(fixture, KEY);
    uint64_t token = regrant(fixture, KEY);
    ask(driver, &reports);
    ask(driver, &retries);
    ask(driver, &last);
    until_noticed(driver, &last);
    tell(driver, ending_op(STORE_RESTORE, KEY, token, STORE_REASON_UNSENT));
    CHECK_EQUAL(answered(driver, &retries)->answer, STORE_GRANTED_UNKNOWN);
    store_bytes_unref(retries.op.result.response);
    CHECK_EQUAL(answered(driver, &reports)->answer, STORE_REPORT_UNKNOWN, "it would not execute an unknown action");
    CHECK(is_body(reports.op.result.response, 2000, 5));
    store_bytes_unref(reports.op.result.response);
    CHECK(!last.done);
    tell(driver, ending_op(STORE_RESTORE, KEY, retries.op.result.token, STORE_REASON_UNSENT));
    CHECK_EQUAL(answered(driver, &last)->answer, STORE_ENDED, "unsent twice");
}

/* ---- tokens and persons ----------------------------------------------------------------------- */

static void late_owners_are_fenced_out(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    uint64_t token = granted(driver, KEY, 1);
    tell(driver, ending_op(STORE_ABANDON, KEY, token, STORE_REASON_CLOSED));
    static const enum store_verb verbs[] = {STORE_COMPLETE, STORE_RELEASE, STORE_ABANDON, STORE_RESTORE};
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQUAL(tell(driver, ending_op(verbs[i], KEY, token, STORE_REASON_UNSENT)).answer, STORE_LOST);
    uint64_t second = regrant(fixture, KEY);
    CHECK(second > token);
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQUAL(tell(driver, ending_op(verbs[i], KEY, token, STORE_REASON_UNSENT)).answer, STORE_LOST);
    CHECK_EQUAL(tell_with(driver, ending_op(STORE_COMPLETE, KEY, second, 0), 10, 2).answer, STORE_DONE);
    CHECK_EQUAL(tell(driver, ending_op(STORE_COMPLETE, 999, second, 0)).answer, STORE_LOST, "no such action");
}

static void a_person_resolves(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked resolve = ending_op(STORE_RESOLVE, KEY, 0, 0);
    resolve.op.to_state = STORE_COMPLETED;
    resolve.op.decision = "seen in the ledger of the bank";
    CHECK_EQUAL(tell(driver, resolve).answer, STORE_REFUSED, "nothing there");
    uint64_t token = granted(driver, KEY, 1);
    struct store_result result = tell(driver, resolve);
    CHECK_EQUAL(result.answer, STORE_REFUSED);
    CHECK_EQUAL(result.state, STORE_IN_PROGRESS);
    tell(driver, ending_op(STORE_ABANDON, KEY, token, STORE_REASON_CLOSED));
    CHECK_EQUAL(tell_with(driver, resolve, 30, 3).answer, STORE_DONE);
    struct asked op = reserve_op(KEY, 1);
    result = *ask_now(driver, &op);
    CHECK(result.answer == STORE_REPLAY && is_body(result.response, 30, 3));
    CHECK_EQUAL(result.executions, 1, "a person executes nothing");
    store_bytes_unref(result.response);
    CHECK_EQUAL(tell(driver, resolve).answer, STORE_REFUSED, "a completed action never changes");
    CHECK_EQUAL(tell(driver, ending_op(STORE_COMPLETE, KEY, token, 0)).answer, STORE_LOST);
}

static void a_person_says_not_executed(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    make_unknown(fixture, KEY);
    struct asked resolve = ending_op(STORE_RESOLVE, KEY, 0, 0);
    resolve.op.to_state = STORE_RELEASED;
    CHECK_EQUAL(tell(driver, resolve).state, STORE_RELEASED);
    CHECK_EQUAL(tell(driver, reserve_op(KEY, 1)).answer, STORE_GRANTED);
}

static void a_person_forgets(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked forget = ending_op(STORE_FORGET, KEY, 0, 0);
    CHECK_EQUAL(tell(driver, forget).answer, STORE_REFUSED);
    uint64_t token = granted(driver, KEY, 1);
    CHECK_EQUAL(tell(driver, forget).answer, STORE_REFUSED, "never what is in progress");
    tell_with(driver, ending_op(STORE_COMPLETE, KEY, token, 0), 9000, 3);
    CHECK_EQUAL(tell(driver, forget).answer, STORE_DONE);
    CHECK_EQUAL(tell(driver, reserve_op(KEY, 2)).answer, STORE_GRANTED, "the key is free, for any content");
}

/* ---- identities ------------------------------------------------------------------------------- */

static struct asked identity_op(unsigned identity, unsigned content, bool reject)
{
    struct asked asked = reserve_op(KEY, 1);
    asked.op.id = id_of(KEY, identity);
    memset(asked.op.content, (int)content, STORE_HASH_LEN);
    asked.op.reject_other_identity = reject;
    return asked;
}

static void another_identity_is_seen(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct store_result first = tell(driver, identity_op(1, 1, true));
    CHECK_EQUAL(first.answer, STORE_GRANTED);
    CHECK_EQUAL(tell(driver, identity_op(2, 1, true)).answer, STORE_OTHER_IDENTITY, "while it is in progress");
    CHECK_EQUAL(tell(driver, identity_op(2, 9, true)).answer, STORE_GRANTED, "other content is another action");
    CHECK_EQUAL(tell(driver, identity_op(3, 1, false)).answer, STORE_GRANTED, "separate was asked for");
    tell_with(driver, ending_op(STORE_COMPLETE, KEY, first.token, 0), 10, 1);
    CHECK_EQUAL(tell(driver, identity_op(4, 1, true)).answer, STORE_OTHER_IDENTITY, "and when it has ended");
    struct asked own = identity_op(1, 1, true);
    CHECK_EQUAL(ask_now(driver, &own)->answer, STORE_REPLAY, "an own record counts first");
    store_bytes_unref(own.op.result.response);
}

static void expired_identities_are_not_seen(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    uint64_t token = tell(driver, identity_op(1, 1, true)).token;
    tell_with(driver, ending_op(STORE_COMPLETE, KEY, token, 0), 10, 1);
    CHECK_EQUAL(tell(driver, identity_op(2, 1, true)).answer, STORE_OTHER_IDENTITY);
    store_move_clock(driver->store, 1000001);
    CHECK_EQUAL(tell(driver, identity_op(2, 1, true)).answer, STORE_GRANTED);
}

static void identities_in_one_burst(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked ops[20];
    unsigned grants = 0;
    for (unsigned i = 0; i < 20; i++) {
        ops[i] = identity_op(i + 1, 1, true);
        ask(driver, &ops[i]);
    }
    for (unsigned i = 0; i < 20; i++)
        grants += answered(driver, &ops[i])->answer == STORE_GRANTED;
    CHECK_EQUAL(grants, 1, "other identities are looked for in the same transaction");
}

/* ---- time ------------------------------------------------------------------------------------- */

static void expired_is_absent_and_swept(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct store_status status;
    for (unsigned i = 0; i < 600; i++)
        tell_with(driver, ending_op(STORE_COMPLETE, 100 + i, granted(driver, 100 + i, 1), 0), i % 50 ? 100 : 9000, i);
    uint64_t running = granted(driver, KEY, 1);
    store_move_clock(driver->store, 999000);
    struct asked op = reserve_op(100, 1);
    CHECK(store_look_up(driver->handle, &op.op), "not yet");
    store_bytes_unref(op.op.result.response);
    store_move_clock(driver->store, 5000);
    struct store_result result = tell(driver, reserve_op(100, 2));
    CHECK_EQUAL(result.answer, STORE_GRANTED, "absent before it is swept, for any content");
    CHECK_EQUAL(tell_with(driver, ending_op(STORE_COMPLETE, 100, result.token, 0), 50, 77).answer, STORE_DONE);
    for (unsigned i = 0; i < 100; i++) {
        store_status(driver->store, &status);
        if (status.completed == 1)
            break;
        usleep(50000);
    }
    CHECK_EQUAL(status.completed, 1, "the sweeper takes all that expired and not the new one");
    CHECK_EQUAL(status.in_progress, 1, "what is in progress never expires");
    struct asked again = reserve_op(100, 2);
    CHECK(is_body(ask_now(driver, &again)->response, 50, 77));
    store_bytes_unref(again.op.result.response);
    CHECK_EQUAL(tell(driver, ending_op(STORE_COMPLETE, KEY, running, 0)).answer, STORE_DONE);
}

static void for_ever_is_for_ever(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked abandon = ending_op(STORE_ABANDON, KEY, granted(driver, KEY, 1), STORE_REASON_CLOSED);
    abandon.op.retention_ms = STORE_FOREVER;
    CHECK_EQUAL(tell(driver, abandon).expires_ms, STORE_FOREVER);
    store_move_clock(driver->store, (int64_t)1 << 50);
    CHECK_EQUAL(tell(driver, reserve_op(KEY, 1)).answer, STORE_REPORT_UNKNOWN);
}

static void unknown_expires_too(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    make_unknown(fixture, KEY);
    uint64_t token = regrant(fixture, KEY);
    store_move_clock(driver->store, 2000000);
    usleep(1200000); /* a sweep */
    CHECK_EQUAL(tell(driver, ending_op(STORE_RESTORE, KEY, token, STORE_REASON_UNSENT)).answer, STORE_DONE,
                "what is in progress again is not swept by its old expiry");
    CHECK_EQUAL(tell(driver, reserve_op(KEY, 3)).answer, STORE_GRANTED, "put back, it had expired");
}

/* ---- room, scopes, the end -------------------------------------------------------------------- */

static void small_store(struct store_config *config)
{
    config->max_size = 1 << 20;
    config->waiters = 1000;
}

static void full_takes_no_new_keys_but_endings(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct store_result result;
    unsigned count = 0;
    uint64_t last = 0, tokens[5000];
    for (; count < 5000; count++) {
        result = tell(driver, reserve_op(10 + count, 1));
        if (result.answer != STORE_GRANTED)
            break;
        tokens[count] = result.token;
        if (count % 2 == 0) /* the others stay in progress */
            CHECK_EQUAL(tell_with(driver, ending_op(STORE_COMPLETE, 10 + count, result.token, 0), 200, 1).answer,
                        STORE_DONE);
        last = count;
    }
    CHECK_EQUAL(result.answer, STORE_FAILED);
    CHECK_EQUAL(result.failure, STORE_FAILURE_FULL);
    CHECK(count > 100);
    struct store_status status;
    store_status(driver->store, &status);
    CHECK(status.full && !status.failing);
    struct asked old = reserve_op(10, 1);
    CHECK_EQUAL(ask_now(driver, &old)->answer, STORE_REPLAY, "replays go on");
    store_bytes_unref(old.op.result.response);
    for (unsigned i = 1; i <= last; i += 2)
        CHECK_EQUAL(tell_with(driver, ending_op(STORE_COMPLETE, 10 + i, tokens[i], 0), 20, 1).answer, STORE_DONE,
                    "what was granted can always end");
    store_move_clock(driver->store, 2000000);
    for (unsigned i = 0; i < 100 && result.answer != STORE_GRANTED; i++) {
        usleep(100000);
        result = tell(driver, reserve_op(9999, 1));
    }
    CHECK_EQUAL(result.answer, STORE_GRANTED, "sweeping makes room again without a restart");
}

static void a_body_that_does_not_fit(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked waits = reserve_op(KEY, 1);
    if (strcmp(fixture->engine, "memory") == 0)
        engine_memory_inject(store_engine_of(driver->store), ENGINE_MEMORY_COMMIT_FULL, 100);
    uint64_t token = granted(driver, KEY, 1);
    ask(driver, &waits);
    until_noticed(driver, &waits);
    CHECK_EQUAL(tell_with(driver, ending_op(STORE_COMPLETE, KEY, token, 0), 3 << 20, 2).answer, STORE_DONE,
                "an outcome that does not fit is recorded without body");
    CHECK(is_body(answered(driver, &waits)->response, 3 << 20, 2), "those who waited get it from memory");
    store_bytes_unref(waits.op.result.response);
    struct store_result result = tell(driver, reserve_op(KEY, 1));
    CHECK(result.answer == STORE_REPLAY && result.not_kept && result.status == 201);
    if (strcmp(fixture->engine, "memory") == 0)
        engine_memory_inject(store_engine_of(driver->store), ENGINE_MEMORY_SOUND, 0);
}

/* Of a group of which one op does not fit nobody else may notice. */
static void one_op_never_fails_its_neighbours(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct asked ops[30];
    uint64_t tokens[30];
    if (strcmp(fixture->engine, "memory") == 0)
        engine_memory_inject(store_engine_of(driver->store), ENGINE_MEMORY_COMMIT_FULL,
                             3); /* in the group, alone, and when nobody reads */
    for (unsigned i = 0; i < 30; i++)
        tokens[i] = granted(driver, 10 + i, 1);
    for (unsigned i = 0; i < 30; i++) {
        ops[i] = ending_op(STORE_COMPLETE, 10 + i, tokens[i], 0);
        ops[i].op.response = i == 7 ? body_of(3 << 20, i) : strcmp(fixture->engine, "memory") ? body_of(100, i) : NULL;
        ask(driver, &ops[i]);
    }
    for (unsigned i = 0; i < 30; i++) {
        CHECK_EQUAL(answered(driver, &ops[i])->answer, STORE_DONE);
        store_bytes_unref(ops[i].op.response);
    }
    CHECK(tell(driver, reserve_op(17, 1)).not_kept);
    struct asked other = reserve_op(18, 1);
    if (strcmp(fixture->engine, "memory") != 0)
        CHECK(is_body(ask_now(driver, &other)->response, 100, 8));
    store_bytes_unref(other.op.result.response);
}

static void a_scope_changes_its_rule(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    uint8_t first[STORE_HASH_LEN] = {1}, second[STORE_HASH_LEN] = {2};
    int64_t until;
    CHECK(store_declare_scope(driver->store, "orders", first, 5000, &until) == STORE_DECLARED_SAME);
    CHECK(store_declare_scope(driver->store, "orders", first, 5000, &until) == STORE_DECLARED_SAME);
    CHECK(store_declare_scope(driver->store, "orders", second, 5000, &until) == STORE_DECLARED_CHANGED);
    CHECK_EQUAL(until, 0, "no record of the old form lives");
    CHECK(store_declare_scope(driver->store, "", first, 5000, &until) == STORE_DECLARED_SAME,
          "an empty name is a name");
    tell_with(driver, ending_op(STORE_COMPLETE, KEY, granted(driver, KEY, 1), 0), 10, 1);
    struct asked found = reserve_op(KEY, 1);
    CHECK(store_look_up(driver->handle, &found.op));
    int64_t expires = found.op.result.expires_ms;
    store_bytes_unref(found.op.result.response);
    CHECK(store_declare_scope(driver->store, "orders", second, 5000, &until) == STORE_DECLARED_SAME);
    CHECK(store_declare_scope(driver->store, "orders", first, 5000, &until) == STORE_DECLARED_CHANGED);
    CHECK(until >= expires && until <= expires + 180000);
    CHECK(store_declare_scope(driver->store, "", first, 5000, &until) == STORE_DECLARED_SAME);
}

static void closing_sends_those_who_wait_away(struct fixture *fixture);

static void *close_store(void *arg)
{
    struct fixture *fixture = arg;
    bool *written = calloc(1, sizeof *written);
    *written = store_close(fixture->driver.store, 5000);
    return written;
}

static void closing_sends_those_who_wait_away(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    pthread_t closer;
    struct asked waits[3];
    void *written;
    uint64_t token = granted(driver, KEY, 1);
    for (unsigned i = 0; i < 3; i++) {
        waits[i] = reserve_op(KEY, 1);
        ask(driver, &waits[i]);
        until_noticed(driver, &waits[i]);
    }
    pthread_create(&closer, NULL, close_store, fixture);
    for (unsigned i = 0; i < 3; i++) {
        CHECK_EQUAL(answered(driver, &waits[i])->answer, STORE_FAILED);
        CHECK_EQUAL(waits[i].op.result.failure, STORE_FAILURE_CLOSING);
    }
    CHECK_EQUAL(tell(driver, reserve_op(8, 1)).failure, STORE_FAILURE_CLOSING);
    CHECK_EQUAL(tell_with(driver, ending_op(STORE_COMPLETE, KEY, token, 0), 10, 1).answer, STORE_DONE,
                "an owner may still end");
    store_handle_close(driver->handle);
    pthread_join(closer, &written);
    CHECK(*(bool *)written);
    free(written);
    driver->store = NULL;
}

static const struct store_case contract_cases[] = {
    {"completes and replays", completes_and_replays, NULL},
    {"looks up what has ended", looks_up_what_has_ended, NULL},
    {"looks up unknown", looks_up_unknown, NULL},
    {"bodies of any size", keeps_bodies_of_any_size, NULL},
    {"says what was not kept", says_what_was_not_kept, NULL},
    {"many at once", answers_many_at_once, NULL},
    {"all waiting get the outcome", all_waiting_get_the_outcome, NULL},
    {"release by status reaches all waiting", release_by_status_reaches_all_waiting, NULL},
    {"release too large says so", release_too_large_says_so, NULL},
    {"abandon reaches all waiting", abandon_reaches_all_waiting, NULL},
    {"abandon with response reaches all waiting", abandon_with_response_reaches_all_waiting, NULL},
    {"unsent is handed on once", unsent_is_handed_on_once, NULL},
    {"withdrawn is handed on however often", withdrawn_is_handed_on_however_often, NULL},
    {"half-closed are passed over", half_closed_are_passed_over, NULL},
    {"only half-closed wait", only_half_closed_wait, NULL},
    {"only half-closed wait for one that withdraws", only_half_closed_wait_for_one_that_withdraws, NULL},
    {"busy without waiting", busy_without_waiting, NULL},
    {"lines have limits", lines_have_limits, small_lines},
    {"cancelled leaves the line", cancelled_leaves_the_line, NULL},
    {"cancel races", cancel_races, NULL},
    {"restore puts back exactly", restore_puts_back_exactly, NULL},
    {"retried and completed", retried_and_completed, NULL},
    {"retried and abandoned", retried_and_abandoned, NULL},
    {"retried and released by status", retried_and_released_by_status, NULL},
    {"not happened counts as new", not_happened_counts_as_new, NULL},
    {"probed reaches all waiting", probed_reaches_all_waiting, NULL},
    {"probed too early reaches all waiting", probed_too_early_reaches_all_waiting, NULL},
    {"drained reaches all waiting", drained_reaches_all_waiting, NULL},
    {"completed by a probe", completed_by_a_probe, NULL},
    {"unknown is handed on to who retries", unknown_is_handed_on_to_who_retries, NULL},
    {"late owners are fenced out", late_owners_are_fenced_out, NULL},
    {"a person resolves", a_person_resolves, NULL},
    {"a person says not executed", a_person_says_not_executed, NULL},
    {"a person forgets", a_person_forgets, NULL},
    {"another identity is seen", another_identity_is_seen, NULL},
    {"expired identities are not seen", expired_identities_are_not_seen, NULL},
    {"identities in one burst", identities_in_one_burst, NULL},
    {"expired is absent and swept", expired_is_absent_and_swept, NULL},
    {"for ever is for ever", for_ever_is_for_ever, NULL},
    {"unknown expires too", unknown_expires_too, NULL},
    {"full takes no new keys but endings", full_takes_no_new_keys_but_endings, small_store},
    {"a body that does not fit", a_body_that_does_not_fit, small_store},
    {"one op never fails its neighbours", one_op_never_fails_its_neighbours, small_store},
    {"a scope changes its rule", a_scope_changes_its_rule, NULL},
    {"closing sends those who wait away", closing_sends_those_who_wait_away, NULL},
};

RUN_CASES(contract, contract_cases, "memory", "lmdb", "lmdb-merging")
