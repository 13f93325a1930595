/*
 * thread.h - what threads with a loop have in common: how they begin, their event base, and how others wake them.
 *
 * A WAKER is an eventfd that the loop watches. Whoever has put something where the loop will look for it calls
 * waker_wake(), from any thread; however often that was, the loop is woken once, calls waker_heard() and then looks.
 * Close it with close().
 */
#pragma once

#include "proxy/span.h"

#include <assert.h>
#include <event2/event.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Signals are the control thread's business: they are blocked in this one. To be joined. */
static inline void thread_start(pthread_t *thread, void *(*main)(void *arg), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, NULL, main, arg);
    assert(!failed && "a thread is to be had at start");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* An event base without locks: only its own thread may touch it. */
static inline struct event_base *thread_new_base(void)
{
    struct event_config *config = must_allocate(event_config_new());
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    struct event_base *base = must_allocate(event_base_new_with_config(config));
    event_config_free(config);
    return base;
}

static inline int waker_open(void)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert(fd >= 0 && "descriptors are there at start");
    return fd;
}

static inline void waker_wake(int fd)
{
    ssize_t written = write(fd, &(uint64_t){1}, sizeof(uint64_t));
    (void)written; /* a full counter: the loop is woken already */
}

static inline void waker_heard(int fd)
{
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof count);
    (void)got; /* EAGAIN: it was heard before */
}
