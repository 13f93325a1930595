/*
 * clock.h - store time: private to store/.
 *
 * Milliseconds since 1970: the wall clock when the store was opened, but never below the newest time that the store
 * holds, carried on by CLOCK_BOOTTIME. So a step of the wall clock expires nothing and revives nothing while we run.
 * Tests move it by `offset_ms`.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

struct store_clock {
    int64_t origin_ms; /* store time - boot time */
    _Atomic int64_t offset_ms;
};

static inline int64_t store_clock_read_ms(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static inline void store_clock_start(struct store_clock *clock, int64_t newest_ms)
{
    int64_t wall = store_clock_read_ms(CLOCK_REALTIME);
    clock->origin_ms = (wall > newest_ms ? wall : newest_ms) - store_clock_read_ms(CLOCK_BOOTTIME);
    atomic_init(&clock->offset_ms, 0);
}

static inline int64_t store_clock_now_ms(const struct store_clock *clock)
{
    return clock->origin_ms + store_clock_read_ms(CLOCK_BOOTTIME) +
           atomic_load_explicit(&clock->offset_ms, memory_order_relaxed);
}
