/*
 * deadline.c - see the header: later is a store, earlier touches the loop.
 */
#include "proxy/deadline.h"
#include "proxy/clock.h"

#include <assert.h>

int64_t monotonic_ms(void)
{
    return clock_ms(CLOCK_MONOTONIC_COARSE);
}

static void arm(struct deadline *deadline, int64_t now)
{
    int64_t wait = deadline->due_ms > now ? deadline->due_ms - now : 0;
    deadline->armed_ms = deadline->due_ms;
    event_add(&deadline->timer, &(struct timeval){wait / 1000, wait % 1000 * 1000});
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct deadline *deadline = arg;
    int64_t now = monotonic_ms();
    deadline->armed_ms = 0;
    if (!deadline->due_ms)
        return;
    if (now < deadline->due_ms) {
        arm(deadline, now);
        return;
    }
    deadline->due_ms = 0;
    deadline->passed(deadline->arg); /* last: the owner may be gone afterwards */
}

void deadline_init(struct deadline *deadline, struct event_base *base, void (*passed)(void *arg), void *arg)
{
    deadline->due_ms = deadline->armed_ms = 0;
    deadline->passed = passed;
    deadline->arg = arg;
    event_assign(&deadline->timer, base, -1, 0, on_timer, deadline);
}

void deadline_set(struct deadline *deadline, int64_t due_ms)
{
    assert(due_ms > 0);
    deadline->due_ms = due_ms;
    if (!deadline->armed_ms || due_ms < deadline->armed_ms)
        arm(deadline, monotonic_ms());
}

void deadline_clear(struct deadline *deadline)
{
    deadline->due_ms = 0;
}

void deadline_destroy(struct deadline *deadline)
{
    deadline->due_ms = deadline->armed_ms = 0;
    event_del(&deadline->timer);
}
