/*
 * counters.h - what a worker counts, and the table of all that is told about it (contract §8, "Metrics").
 *
 * Each worker has a struct counters of its own. It alone writes it, by a plain load and store; whoever reads (the admin
 * thread, at any time) sees each number whole, and never smaller than it saw it before. So no cache line is shared by
 * two writers, no lock and no locked instruction is on a request's way, and a sum over the workers never goes
 * backwards.
 *
 * Labels are bounded: the routes and upstreams of the configurations that were in force since the start, "-" for what
 * found no route, our outcomes, statuses from 100 to 999. What is named in a configuration is counted by its name: a
 * reload finds it again under the same one, and what a reload drops keeps its numbers until the next start.
 *
 * A status takes a page of a hundred when one of its hundred is first sent under its outcome: 14 × 9 pages in the worst
 * case, three or four in life.
 *
 * OWNERSHIP. The worker owns its counters; nothing of them is freed or moved before counters_free(). THREADS:
 * counters_… the worker's (before its thread runs, whoever makes it); counter_get and the lists any.
 */
#pragma once

#include "proxy/span.h"

#include <stdalign.h>
#include <stdatomic.h>

/* ---- one number, one writer, any readers ------------------------------------------------------ */

typedef _Atomic uint64_t counter;

static inline uint64_t counter_get(const counter *of)
{
    return atomic_load_explicit(of, memory_order_relaxed);
}

static inline void counter_set(counter *of, uint64_t value)
{
    atomic_store_explicit(of, value, memory_order_relaxed);
}

static inline void counter_add(counter *of, uint64_t more)
{
    counter_set(of, counter_get(of) + more);
}

/* ---- durations -------------------------------------------------------------------------------- */

/* Upper bounds of the buckets. From 5 ms to 10 s those of OpenTelemetry's http durations, so that they can be laid over
 * other services'; below them the sub-milliseconds in which a replay or a pass-through lives (and in which a regression
 * would show first); above them what the default timeouts of waiting (30 s) and of a response (60 s) allow. */
#define DURATION_BOUNDS 21
struct duration_bound {
    int64_t us;
    const char *le; /* the same in seconds, as it is written */
};
extern const struct duration_bound duration_bounds[DURATION_BOUNDS];

struct durations {
    counter buckets[DURATION_BOUNDS + 1]; /* each its own share, not cumulative; the last is beyond all bounds */
    counter sum_us;
};

/* ---- requests --------------------------------------------------------------------------------- */

/* Contract §8, requests_total{outcome}. */
enum outcome {
    OUTCOME_NONE,
    OUTCOME_EXECUTED,
    OUTCOME_RELEASED,
    OUTCOME_UNKNOWN,
    OUTCOME_DEGRADED,
    OUTCOME_WAITED,
    OUTCOME_REPLAYED,
    OUTCOME_IN_PROGRESS,
    OUTCOME_REFUSED_UNKNOWN,
    OUTCOME_IDENTITY,
    OUTCOME_MISMATCH,
    OUTCOME_MISSING,
    OUTCOME_INVALID,
    OUTCOME_REJECTED,
    OUTCOME_PASSED,
    OUTCOME_COUNT,
};
const char *outcome_name(enum outcome outcome);

#define CODE_FIRST 100
#define CODE_PAGES 9 /* 100 … 999 */

struct code_page { /* of one hundred */
    alignas(64) counter of[100];
};

struct counted { /* what is common to everything that is counted by name */
    struct counted *next;
    char *name;
};

struct route_counters {
    alignas(64) struct counted counted;
    struct durations request, wait;
    _Atomic(struct code_page *) pages[OUTCOME_COUNT][CODE_PAGES];
};

struct upstream_counters {
    alignas(64) struct counted counted;
    struct durations answer;
};

/* Single numbers of a worker. */
enum tally {
    TALLY_CLIENTS, /* connections that are open now, set once a turn of the worker's loop */
    TALLY_UPSTREAMS,
    TALLY_CLIENTS_OPENED, /* so far */
    TALLY_UPSTREAMS_OPENED,
    TALLY_IN_FLIGHT, /* exchanges, as of the last turn */
    TALLY_HANDSHAKES_FAILED,
    TALLY_COUNT,
};

struct counters {
    alignas(64) counter tallies[TALLY_COUNT];
    _Atomic(struct counted *) routes;    /* struct route_counters; newest first */
    _Atomic(struct counted *) upstreams; /* struct upstream_counters */
    struct route_counters *no_route;     /* "-" */
};

struct counters *counters_new(void);
void counters_free(struct counters *counters); /* NULL is fine. No reader may be left */

/* Found by name, or made. The result lives as long as the counters: look it up once a configuration, not once a
 * request. */
struct route_counters *counters_route(struct counters *counters, const char *name);
struct upstream_counters *counters_upstream(struct counters *counters, const char *name);

/* One request, when its exchange is over. `code`: 100 … 999. */
void count_request(struct route_counters *route, enum outcome outcome, unsigned code);
void count_duration(struct durations *durations, int64_t us);

/* ---- reading ---------------------------------------------------------------------------------- */

/* The lists at this moment. What is added later goes before it. */
static inline const struct counted *counted_first(const _Atomic(struct counted *) *list)
{
    return atomic_load_explicit(list, memory_order_acquire);
}

/* 0 where nothing was counted. */
uint64_t route_requests(const struct route_counters *route, enum outcome outcome, unsigned code);
/* Has any of this hundred been counted? For whoever goes through all codes. */
bool route_has_page(const struct route_counters *route, enum outcome outcome, unsigned page);

uint64_t counters_sum(const struct counters *const *workers, size_t count, enum tally tally);

/* ---- the table -------------------------------------------------------------------------------- */

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

enum metric {
    METRIC_REQUESTS,
    METRIC_REQUEST_DURATION,
    METRIC_UPSTREAM_DURATION,
    METRIC_WAIT_DURATION,
    METRIC_REQUESTS_IN_FLIGHT,
    METRIC_ACTIONS,
    METRIC_WAITERS,
    METRIC_OLDEST_UNKNOWN,
    METRIC_STORE_COMMIT,
    METRIC_STORE_GROUP_SIZE,
    METRIC_STORE_USED,
    METRIC_STORE_MAX,
    METRIC_STORE_FAILING,
    METRIC_STORE_FULL,
    METRIC_CONNECTIONS,
    METRIC_CONNECTIONS_OPENED,
    METRIC_HANDSHAKES_FAILED,
    METRIC_ACCESS_LOG_DROPPED,
    METRIC_RELOAD_SUCCESSFUL,
    METRIC_RELOAD_TIME,
    METRIC_DRAINING,
    METRIC_BUILD_INFO,
    METRIC_PROCESS_START,
    METRIC_PROCESS_CPU,
    METRIC_PROCESS_MEMORY,
    METRIC_PROCESS_FDS,
    METRIC_PROCESS_MAX_FDS,
    METRIC_COUNT,
};

#define METRIC_LABELS 3

struct metric_row {
    const char *name;
    enum metric_type type;
    const char *labels[METRIC_LABELS]; /* NULL: no more */
    const char *help;
};

/* All that /metrics tells, in its order. */
const struct metric_row *metric_row(enum metric metric);
