/*
 * server_drain.c - the end of the process, by signal or by order (contract §9).
 *
 * Phases and what each means: server_internal.h. One timer looks every few milliseconds whether the phase is over; the
 * workers count for themselves and are only asked. The limit counts from where the listeners close, whoever asked for
 * the drain: a signal that finds one under way changes nothing but that the process leaves at its end.
 *
 * Left out: what finishing and ending mean for a request (exchange.h), and the limit of who waits for an order
 * (`einmal drain --max`), which is the asker's.
 */
#include "proxy/server_internal.h"
#include "proxy/thread.h"

#include <assert.h>
#include <unistd.h>

#define LOOK_MS 10 /* how often the timer looks */

static enum drain_phase phase_of(const struct server *server)
{
    return atomic_load(&server->drain.phase);
}

static void set_phase(struct server *server, enum drain_phase phase)
{
    assert(phase > phase_of(server) && "phases do not come back");
    atomic_store(&server->drain.phase, phase);
}

static void quit(struct server *server)
{
    log_stop(server->shared.log);
    _exit(1); /* nothing may be freed while others still hold it */
}

static bool all(const struct server *server, bool (*test)(const struct worker *worker))
{
    for (uint32_t i = 0; i < server->worker_count; i++)
        if (!test(server->workers[i]))
            return false;
    return true;
}

static void tell(struct server *server, void (*order)(struct worker *worker))
{
    for (uint32_t i = 0; i < server->worker_count; i++)
        order(server->workers[i]);
}

/* ---- phases ----------------------------------------------------------------------------------- */

static void close_listeners(struct server *server)
{
    set_phase(server, DRAIN_RUNS);
    server->drain.limit_ms = monotonic_ms() + server->conf->timeouts.drain;
    acceptor_stop(server->shared.acceptor);
    tell(server, worker_drain);
}

static void begin(struct server *server)
{
    int64_t delay = server->conf->timeouts.drain_delay;
    atomic_store(&server->state.draining, true);
    if (delay == 0) {
        close_listeners(server);
    } else {
        set_phase(server, DRAIN_DELAY);
        server->drain.closes_ms = monotonic_ms() + delay;
        tell(server, worker_close_after_answers);
    }
    event_add(server->drain.timer, &(struct timeval){0, LOOK_MS * 1000});
}

static void pass_limit(struct server *server)
{
    set_phase(server, DRAIN_LIMIT);
    server->drain.give_up_ms = monotonic_ms() + server->conf->store.timeout;
    log_line(server->shared.log, LOG_LEVEL_WARNING,
             "timeouts.drain has passed: what still runs is ended and recorded unknown");
    tell(server, worker_drain_limit);
}

static void be_late(struct server *server)
{
    set_phase(server, DRAIN_LATE);
    log_line(server->shared.log, LOG_LEVEL_ERROR, "the store has not confirmed every record in store.timeout");
}

static void be_over(struct server *server)
{
    set_phase(server, DRAIN_OVER);
    if (server->drain.signalled)
        return;
    event_del(server->drain.timer);
    log_line(server->shared.log, LOG_LEVEL_INFO, "drained: nothing runs any more; the process stays until SIGTERM");
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct server *server = arg;
    int64_t now = monotonic_ms();
    switch (phase_of(server)) {
    case DRAIN_NONE:
        assert(!"the timer runs from the first phase on");
        break;
    case DRAIN_DELAY:
        if (now >= server->drain.closes_ms)
            close_listeners(server);
        break;
    case DRAIN_RUNS:
        if (all(server, worker_is_idle))
            be_over(server);
        else if (now >= server->drain.limit_ms)
            pass_limit(server);
        break;
    case DRAIN_LIMIT:
        if (all(server, worker_is_settled))
            be_over(server);
        else if (now >= server->drain.give_up_ms)
            be_late(server);
        break;
    case DRAIN_LATE:
        if (all(server, worker_is_settled))
            be_over(server);
        else if (server->drain.signalled)
            quit(server);
        break;
    case DRAIN_OVER:
        break;
    }
    if (phase_of(server) == DRAIN_OVER && server->drain.signalled)
        event_base_loopbreak(server->base);
}

/* ---- who asks for it -------------------------------------------------------------------------- */

void server_drain_signal(struct server *server, int number)
{
    struct server_drain *drain = &server->drain;
    if (drain->signalled) {
        log_line(server->shared.log, LOG_LEVEL_WARNING, "second signal: quitting at once");
        quit(server);
    }
    drain->signalled = true;
    if (phase_of(server) == DRAIN_NONE) {
        log_line(server->shared.log, LOG_LEVEL_INFO, "signal %d: draining, at most %lld ms", number,
                 (long long)(server->conf->timeouts.drain_delay + server->conf->timeouts.drain));
        begin(server);
    } else {
        log_line(server->shared.log, LOG_LEVEL_INFO, "signal %d: ending as soon as nothing runs any more", number);
        event_add(drain->timer, &(struct timeval){0, LOOK_MS * 1000});
        event_active(drain->timer, EV_TIMEOUT, 0);
    }
}

static void on_order(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct server *server = arg;
    waker_heard(fd);
    if (phase_of(server) != DRAIN_NONE)
        return;
    log_line(server->shared.log, LOG_LEVEL_INFO, "ordered to drain; the process stays until SIGTERM");
    begin(server);
}

void server_begin_drain(struct server *server)
{
    atomic_store(&server->drain.ordered, true);
    atomic_store(&server->state.draining, true);
    waker_wake(server->drain.order_fd);
}

bool server_is_draining(const struct server *server)
{
    return atomic_load(&server->drain.ordered) || phase_of(server) != DRAIN_NONE;
}

bool server_is_idle(const struct server *server)
{
    return phase_of(server) == DRAIN_OVER;
}

/* ---- life ------------------------------------------------------------------------------------- */

void server_drain_init(struct server *server)
{
    struct server_drain *drain = &server->drain;
    drain->order_fd = waker_open();
    drain->order = must_allocate(event_new(server->base, drain->order_fd, EV_READ | EV_PERSIST, on_order, server));
    drain->timer = must_allocate(event_new(server->base, -1, EV_PERSIST, on_timer, server));
    event_add(drain->order, NULL);
}

void server_drain_free(struct server *server)
{
    event_free(server->drain.order);
    event_free(server->drain.timer);
    close(server->drain.order_fd);
}
