/*
 * deadline.h - a timer that is moved far more often than it fires.
 *
 * Moving a deadline later costs a store: the libevent timer that is armed fires early, looks at the due time and arms
 * itself for the rest. Only moving it earlier touches the event loop. Milliseconds of CLOCK_MONOTONIC_COARSE, by which
 * libevent's own timers go: a few milliseconds' steps, at a quarter of the price of an exact clock.
 */
#pragma once

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>

struct deadline {
    struct event timer;
    int64_t due_ms;   /* 0: not set */
    int64_t armed_ms; /* when the libevent timer fires; 0: not armed */
    void (*passed)(void *arg);
    void *arg;
};

int64_t monotonic_ms(void);
void deadline_init(struct deadline *deadline, struct event_base *base, void (*passed)(void *arg), void *arg);
void deadline_set(struct deadline *deadline, int64_t due_ms);
void deadline_clear(struct deadline *deadline);
void deadline_destroy(struct deadline *deadline); /* must be called before its memory goes */
