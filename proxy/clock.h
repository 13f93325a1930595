/*
 * clock.h - the kernel's clocks, read in one way. Whoever asks names the clock that the answer is for:
 *
 *     CLOCK_MONOTONIC     how long something took, and until when to wait; _COARSE to the kernel's tick, for a tenth of
 *                         the price
 *     CLOCK_REALTIME      what time it is, for people; _COARSE likewise
 *
 * Store time, by which records expire, is the store's (store_now_ms()). Any thread.
 */
#pragma once

#include <stdint.h>
#include <time.h>

static inline int64_t clock_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static inline int64_t clock_ms(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
