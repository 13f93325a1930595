/*
 * test_deadline.c - a deadline passes once and in time, wherever it was moved before; moving it later does not touch
 * the loop.
 */
#include "net.h"

struct seen {
    struct deadline deadline;
    int64_t passed_ms;
    int times;
};

static void passed(void *arg)
{
    struct seen *seen = arg;
    seen->times++;
    seen->passed_ms = monotonic_ms();
}

struct row {
    const char *name;
    int moves[4]; /* due, in ms from the start; 0: none, -1: cleared */
    int expected; /* 0: never */
};

static void run(const struct row *row)
{
    struct seen seen = {0};
    int64_t start = monotonic_ms();
    deadline_init(&seen.deadline, base, passed, &seen);
    for (size_t i = 0; i < 4 && row->moves[i]; i++) {
        if (row->moves[i] < 0)
            deadline_clear(&seen.deadline);
        else
            deadline_set(&seen.deadline, start + row->moves[i]);
    }
    if (row->expected) {
        cr_assert(NET_UNTIL(seen.times), "%s: it never passed", row->name);
        cr_assert_geq(seen.passed_ms - start, row->expected, "%s: passed too early", row->name);
        cr_assert_lt(seen.passed_ms - start, row->expected + 1000, "%s: passed too late", row->name);
    }
    net_run(100);
    cr_assert_eq(seen.times, row->expected ? 1 : 0, "%s: passed %d times", row->name, seen.times);
    deadline_destroy(&seen.deadline);
    cr_assert_eq(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 0, "%s: its timer is still there", row->name);
}

Test(deadline, passes_once_where_it_was_moved_last)
{
    static const struct row rows[] = {
        {"set", {30}, 30},
        {"later", {20, 60}, 60},
        {"earlier", {3000, 30}, 30},
        {"later and earlier again", {20, 3000, 40}, 40},
        {"cleared", {20, -1}, 0},
        {"cleared and set later", {20, -1, 60}, 60},
        {"cleared and set earlier", {3000, -1, 20}, 20},
        {"in the past", {-1, 1}, 1},
    };
    net_begin();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        run(&rows[i]);
    net_end();
}

Test(deadline, moves_later_without_touching_the_loop)
{
    struct seen seen = {0};
    net_begin();
    int64_t start = monotonic_ms();
    deadline_init(&seen.deadline, base, passed, &seen);
    deadline_set(&seen.deadline, start + 50);
    int64_t armed = seen.deadline.armed_ms;
    for (int i = 0; i < 1000; i++)
        deadline_set(&seen.deadline, start + 50 + i);
    cr_assert_eq(seen.deadline.armed_ms, armed, "a request must not cost a timer");
    deadline_clear(&seen.deadline);
    cr_assert_eq(seen.deadline.armed_ms, armed, "nor must its end");
    net_run(80);
    cr_assert_eq(seen.times, 0);
    deadline_destroy(&seen.deadline);
    net_end();
}

static void free_owner(void *arg)
{
    struct seen *seen = arg;
    deadline_destroy(&seen->deadline);
    free(seen);
}

Test(deadline, lets_its_owner_die_when_it_passes)
{
    net_begin();
    struct seen *seen = calloc(1, sizeof *seen);
    deadline_init(&seen->deadline, base, free_owner, seen);
    deadline_set(&seen->deadline, monotonic_ms() + 5);
    net_run(50); /* the sanitizer looks */
    cr_assert_eq(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 0);
    net_end();
}

static void set_again(void *arg)
{
    struct seen *seen = arg;
    if (++seen->times < 5)
        deadline_set(&seen->deadline, monotonic_ms() + 5);
}

Test(deadline, can_be_set_again_when_it_passes)
{
    struct seen seen = {0};
    net_begin();
    deadline_init(&seen.deadline, base, set_again, &seen);
    deadline_set(&seen.deadline, monotonic_ms() + 5);
    cr_assert(NET_UNTIL(seen.times == 5));
    net_run(30);
    cr_assert_eq(seen.times, 5);
    deadline_destroy(&seen.deadline);
    net_end();
}
