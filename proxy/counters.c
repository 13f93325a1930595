/*
 * counters.c - a worker's counters, and the table of metrics.
 *
 * Memory that one worker writes shares no cache line with another's: every block begins on one and fills it up.
 */
#include "proxy/counters.h"

#include <assert.h>

/* ---- the tables ------------------------------------------------------------------------------- */

const struct duration_bound duration_bounds[DURATION_BOUNDS] = {
    {100, "0.0001"},    {250, "0.00025"},   {500, "0.0005"},    {1000, "0.001"},  {2500, "0.0025"}, {5000, "0.005"},
    {10000, "0.01"},    {25000, "0.025"},   {50000, "0.05"},    {75000, "0.075"}, {100000, "0.1"},  {250000, "0.25"},
    {500000, "0.5"},    {750000, "0.75"},   {1000000, "1.0"},   {2500000, "2.5"}, {5000000, "5.0"}, {7500000, "7.5"},
    {10000000, "10.0"}, {30000000, "30.0"}, {60000000, "60.0"},
};

const char *outcome_name(enum outcome outcome)
{
    static const char *const names[OUTCOME_COUNT] = {
        [OUTCOME_NONE] = "-",
        [OUTCOME_EXECUTED] = "executed",
        [OUTCOME_RELEASED] = "released",
        [OUTCOME_UNKNOWN] = "unknown",
        [OUTCOME_DEGRADED] = "degraded",
        [OUTCOME_WAITED] = "waited",
        [OUTCOME_REPLAYED] = "replayed",
        [OUTCOME_IN_PROGRESS] = "in_progress",
        [OUTCOME_REFUSED_UNKNOWN] = "refused_unknown",
        [OUTCOME_IDENTITY] = "identity",
        [OUTCOME_MISMATCH] = "mismatch",
        [OUTCOME_MISSING] = "missing",
        [OUTCOME_INVALID] = "invalid",
        [OUTCOME_REJECTED] = "rejected",
        [OUTCOME_PASSED] = "passed",
    };
    assert(outcome < OUTCOME_COUNT);
    return names[outcome];
}

static const struct metric_row rows[METRIC_COUNT] = {
    [METRIC_REQUESTS] = {"einmal_requests_total",
                         METRIC_COUNTER,
                         {"route", "outcome", "code"},
                         "Requests whose exchange is over, each once; code is the status that was sent, 499 if none "
                         "could be."},
    [METRIC_REQUEST_DURATION] = {"einmal_request_duration_seconds",
                                 METRIC_HISTOGRAM,
                                 {"route"},
                                 "From a request's head to the end of its exchange, which may come after its answer; "
                                 "upgraded connections are left out."},
    [METRIC_UPSTREAM_DURATION] = {"einmal_upstream_duration_seconds",
                                  METRIC_HISTOGRAM,
                                  {"upstream"},
                                  "From sending a request upstream, connecting included, to the end of its answer; "
                                  "upgraded connections are left out."},
    [METRIC_WAIT_DURATION] = {"einmal_wait_duration_seconds",
                              METRIC_HISTOGRAM,
                              {"route"},
                              "How long requests stood in line for an action that another attempt was executing."},
    [METRIC_REQUESTS_IN_FLIGHT] = {"einmal_requests_in_flight",
                                   METRIC_GAUGE,
                                   {0},
                                   "Requests whose exchange is not over, those that go on without a client included."},
    [METRIC_ACTIONS] = {"einmal_actions", METRIC_GAUGE, {"state"}, "Actions that the store holds, by state."},
    [METRIC_WAITERS] = {"einmal_waiters",
                        METRIC_GAUGE,
                        {0},
                        "Requests that stand in line for an action that another attempt is executing."},
    [METRIC_OLDEST_UNKNOWN] = {"einmal_oldest_unknown_seconds",
                               METRIC_GAUGE,
                               {0},
                               "For how long the oldest unknown action has been unknown; 0 if there is none."},
    [METRIC_STORE_COMMIT] = {"einmal_store_commit_seconds",
                             METRIC_HISTOGRAM,
                             {0},
                             "How long commits of the store took, syncing to the disk included."},
    [METRIC_STORE_GROUP_SIZE] = {"einmal_store_group_size",
                                 METRIC_HISTOGRAM,
                                 {0},
                                 "Reservations and outcomes that shared one commit."},
    [METRIC_STORE_USED] = {"einmal_store_used_bytes", METRIC_GAUGE, {0}, "Bytes of the store that are in use."},
    [METRIC_STORE_MAX] = {"einmal_store_max_bytes",
                          METRIC_GAUGE,
                          {0},
                          "Quota of the store (store.max_size); new keys are refused from about 90 % of it on."},
    [METRIC_STORE_FAILING] = {"einmal_store_failing",
                              METRIC_GAUGE,
                              {0},
                              "1 while commits or look-ups of the store fail, else 0."},
    [METRIC_STORE_FULL] = {"einmal_store_full", METRIC_GAUGE, {0}, "1 while new keys are refused for want of room."},
    [METRIC_CONNECTIONS] = {"einmal_connections", METRIC_GAUGE, {"side"}, "Open connections, idle ones included."},
    [METRIC_CONNECTIONS_OPENED] = {"einmal_connections_opened_total",
                                   METRIC_COUNTER,
                                   {"side"},
                                   "Connections that clients opened to einmal, and einmal to the upstreams."},
    [METRIC_HANDSHAKES_FAILED] = {"einmal_tls_handshake_failures_total",
                                  METRIC_COUNTER,
                                  {0},
                                  "Client connections whose TLS handshake failed."},
    [METRIC_ACCESS_LOG_DROPPED] = {"einmal_access_log_dropped_total",
                                   METRIC_COUNTER,
                                   {0},
                                   "Access lines that were dropped: nobody read standard output fast enough."},
    [METRIC_RELOAD_SUCCESSFUL] = {"einmal_config_last_reload_successful",
                                  METRIC_GAUGE,
                                  {0},
                                  "1 if the last reload (or the start) was taken, 0 if the older configuration is "
                                  "still in force."},
    [METRIC_RELOAD_TIME] = {"einmal_config_last_reload_success_timestamp_seconds",
                            METRIC_GAUGE,
                            {0},
                            "When the configuration in force was read."},
    [METRIC_DRAINING] = {"einmal_draining", METRIC_GAUGE, {0}, "1 from the begin of a drain on, else 0."},
    [METRIC_BUILD_INFO] = {"einmal_build_info", METRIC_GAUGE, {"version"}, "Always 1; its label tells the version."},
    [METRIC_PROCESS_START] = {"process_start_time_seconds", METRIC_GAUGE, {0}, "When this process started."},
    [METRIC_PROCESS_CPU] = {"process_cpu_seconds_total",
                            METRIC_COUNTER,
                            {0},
                            "Processor time, user and system, of all threads."},
    [METRIC_PROCESS_MEMORY] = {"process_resident_memory_bytes",
                               METRIC_GAUGE,
                               {0},
                               "Resident memory; pages of the store that the kernel keeps mapped are in it."},
    [METRIC_PROCESS_FDS] = {"process_open_fds", METRIC_GAUGE, {0}, "Open file descriptors."},
    [METRIC_PROCESS_MAX_FDS] = {"process_max_fds", METRIC_GAUGE, {0}, "Limit of open file descriptors."},
};

const struct metric_row *metric_row(enum metric metric)
{
    assert(metric < METRIC_COUNT && rows[metric].name);
    return &rows[metric];
}

/* ---- memory ----------------------------------------------------------------------------------- */

#define CACHE_LINE 64

/* The types are aligned to a line, so their sizes are whole lines. */
static void *lines_of_our_own(size_t size)
{
    assert(size % CACHE_LINE == 0);
    return memset(must_allocate(aligned_alloc(CACHE_LINE, size)), 0, size);
}

#define NEW_LINES(type) ((type *)lines_of_our_own(sizeof(type)))

static struct counted *find(const _Atomic(struct counted *) *list, const char *name)
{
    struct counted *counted = atomic_load_explicit(list, memory_order_relaxed);
    while (counted && strcmp(counted->name, name) != 0)
        counted = counted->next;
    return counted;
}

/* Whole before a reader can see it. */
static void publish(_Atomic(struct counted *) *list, struct counted *counted, const char *name)
{
    counted->name = copy_string(name);
    counted->next = atomic_load_explicit(list, memory_order_relaxed);
    atomic_store_explicit(list, counted, memory_order_release);
}

struct route_counters *counters_route(struct counters *counters, const char *name)
{
    struct counted *counted = find(&counters->routes, name);
    if (!counted) {
        counted = &NEW_LINES(struct route_counters)->counted;
        publish(&counters->routes, counted, name);
    }
    return (struct route_counters *)counted;
}

struct upstream_counters *counters_upstream(struct counters *counters, const char *name)
{
    struct counted *counted = find(&counters->upstreams, name);
    if (!counted) {
        counted = &NEW_LINES(struct upstream_counters)->counted;
        publish(&counters->upstreams, counted, name);
    }
    return (struct upstream_counters *)counted;
}

struct counters *counters_new(void)
{
    struct counters *counters = NEW_LINES(struct counters);
    counters->no_route = counters_route(counters, "-");
    return counters;
}

static void free_list(struct counted *counted)
{
    for (struct counted *next; counted; counted = next) {
        next = counted->next;
        free(counted->name);
        free(counted);
    }
}

void counters_free(struct counters *counters)
{
    if (!counters)
        return;
    for (struct counted *counted = counters->routes; counted; counted = counted->next)
        for (size_t i = 0; i < OUTCOME_COUNT * CODE_PAGES; i++)
            free(((struct route_counters *)counted)->pages[i / CODE_PAGES][i % CODE_PAGES]);
    free_list(counters->routes);
    free_list(counters->upstreams);
    free(counters);
}

/* ---- counting --------------------------------------------------------------------------------- */

void count_request(struct route_counters *route, enum outcome outcome, unsigned code)
{
    assert(outcome < OUTCOME_COUNT && code >= CODE_FIRST && code < CODE_FIRST + 100 * CODE_PAGES);
    _Atomic(struct code_page *) *at = &route->pages[outcome][code / 100 - 1];
    struct code_page *page = atomic_load_explicit(at, memory_order_relaxed);
    if (!page) {
        page = NEW_LINES(struct code_page);
        atomic_store_explicit(at, page, memory_order_release);
    }
    counter_add(&page->of[code % 100], 1);
}

void count_duration(struct durations *durations, int64_t us)
{
    size_t bucket = 0;
    while (bucket < DURATION_BOUNDS && us > duration_bounds[bucket].us)
        bucket++;
    counter_add(&durations->buckets[bucket], 1);
    counter_add(&durations->sum_us, (uint64_t)us);
}

/* ---- reading ---------------------------------------------------------------------------------- */

static const struct code_page *page_of(const struct route_counters *route, enum outcome outcome, unsigned page)
{
    return atomic_load_explicit(&route->pages[outcome][page], memory_order_acquire);
}

uint64_t route_requests(const struct route_counters *route, enum outcome outcome, unsigned code)
{
    const struct code_page *page = page_of(route, outcome, code / 100 - 1);
    return page ? counter_get(&page->of[code % 100]) : 0;
}

bool route_has_page(const struct route_counters *route, enum outcome outcome, unsigned page)
{
    return page_of(route, outcome, page) != NULL;
}

uint64_t counters_sum(const struct counters *const *workers, size_t count, enum tally tally)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += counter_get(&workers[i]->tallies[tally]);
    return sum;
}
