/*
 * metrics_text.c - PURE. A snapshot as Prometheus text 0.0.4: for each row of the table HELP, TYPE and its samples.
 *
 * The text is clean for OpenMetrics' rules too: base units, _total on counters alone, all samples of a family together,
 * bounds of buckets and their sums as decimal fractions without rounding. Buckets are cumulative, and +Inf equals
 * _count by construction: both are sums of the same reads.
 *
 * Workers are added up by name. Series are sorted by name, so that two scrapes can be laid side by side.
 */
#include "proxy/metrics.h"

#include <assert.h>
#include <stdio.h>

struct group { /* everything that has one name: one block of counters from each worker that knows it */
    const struct counted **members;
    size_t count;
};

struct groups {
    const struct counted **members; /* of all groups, sorted */
    size_t member_count;
    struct group *groups;
    size_t count;
};

struct page { /* the text in the making */
    const struct metrics_snapshot *snapshot;
    struct buffer *out;
    struct groups routes, upstreams;
};

/* ---- workers' lists → groups ------------------------------------------------------------------ */

static int by_name(const void *a, const void *b)
{
    const struct counted *const *left = (const struct counted *const *)a, *const *right =
                                                                              (const struct counted *const *)b;
    return strcmp((*left)->name, (*right)->name);
}

typedef const struct counted *first_of(const struct counters *counters);

static const struct counted *first_route(const struct counters *counters)
{
    return counted_first(&counters->routes);
}

static const struct counted *first_upstream(const struct counters *counters)
{
    return counted_first(&counters->upstreams);
}

/* Lists may grow between the two walks, but only at their heads: each walk begins where the first one did. */
static void collect(struct groups *groups, const struct metrics_snapshot *snapshot, first_of *first)
{
    const struct counted **heads = NEW_ARRAY(const struct counted *, snapshot->worker_count);
    for (size_t i = 0; i < snapshot->worker_count; i++) {
        heads[i] = first(snapshot->workers[i]);
        for (const struct counted *counted = heads[i]; counted; counted = counted->next)
            groups->member_count++;
    }
    groups->members = NEW_ARRAY(const struct counted *, groups->member_count);
    size_t at = 0;
    for (size_t i = 0; i < snapshot->worker_count; i++)
        for (const struct counted *counted = heads[i]; counted; counted = counted->next)
            groups->members[at++] = counted;
    free(heads);
}

static void make_groups(struct groups *groups, const struct metrics_snapshot *snapshot, first_of *first)
{
    *groups = (struct groups){0};
    collect(groups, snapshot, first);
    qsort(groups->members, groups->member_count, sizeof *groups->members, by_name);
    groups->groups = NEW_ARRAY(struct group, groups->member_count);
    for (size_t i = 0; i < groups->member_count; i++) {
        struct group *last = groups->count ? &groups->groups[groups->count - 1] : NULL;
        if (last && strcmp(last->members[0]->name, groups->members[i]->name) == 0)
            last->count++;
        else
            groups->groups[groups->count++] = (struct group){&groups->members[i], 1};
    }
}

static void free_groups(struct groups *groups)
{
    free(groups->members);
    free(groups->groups);
}

static const char *group_name(const struct group *group)
{
    return group->members[0]->name;
}

/* ---- text ------------------------------------------------------------------------------------- */

/* Exposition format: backslash, line feed, and in label values the quote. The names of a configuration hold none of
 * them; that the text stays whole does not hang on it. */
static void escape(struct buffer *out, const char *string, bool quoted)
{
    for (; *string; string++) {
        if (*string == '\n')
            buffer_append(out, "\\n", 2);
        else if (*string == '\\' || (quoted && *string == '"'))
            buffer_append(out, (const char[]){'\\', *string}, 2);
        else
            buffer_append(out, string, 1);
    }
}

static void text(struct buffer *out, const char *string)
{
    buffer_append_span(out, span_of(string));
}

static const char *type_name(enum metric_type type)
{
    switch (type) {
    case METRIC_COUNTER:
        return "counter";
    case METRIC_GAUGE:
        return "gauge";
    case METRIC_HISTOGRAM:
        return "histogram";
    }
    return "untyped";
}

static void label(struct buffer *out, const char *name, const char *value, char *before)
{
    buffer_append(out, before, 1);
    *before = ',';
    text(out, name);
    text(out, "=\"");
    escape(out, value, true);
    buffer_append(out, "\"", 1);
}

/* The name of a sample with its labels, and the space before its value. `le` NULL: no bucket. */
static void series(struct page *page, enum metric metric, const char *suffix, const char *const values[],
                   const char *le)
{
    const struct metric_row *row = metric_row(metric);
    char before = '{';
    text(page->out, row->name);
    text(page->out, suffix);
    for (size_t i = 0; i < METRIC_LABELS && row->labels[i]; i++)
        label(page->out, row->labels[i], values[i], &before);
    if (le)
        label(page->out, "le", le, &before);
    text(page->out, before == ',' ? "} " : " ");
}

static void whole(struct page *page, uint64_t value)
{
    buffer_printf(page->out, "%llu\n", (unsigned long long)value);
}

/* Exact: `value` parts of a unit, as many to it as 10 to the power of `digits`. */
static void fraction(struct page *page, uint64_t value, int digits)
{
    uint64_t unit = 1;
    for (int i = 0; i < digits; i++)
        unit *= 10;
    buffer_printf(page->out, "%llu.%0*llu\n", (unsigned long long)(value / unit), digits,
                  (unsigned long long)(value % unit));
}

static void by_label(struct page *page, enum metric metric, const char *value, uint64_t number)
{
    series(page, metric, "", &value, NULL);
    whole(page, number);
}

/* ---- single numbers: `at` says where in the snapshot one lies --------------------------------- */

static const void *in_snapshot(const struct page *page, size_t at)
{
    return (const char *)page->snapshot + at;
}

static void number(struct page *page, enum metric metric, size_t at)
{
    series(page, metric, "", NULL, NULL);
    whole(page, *(const uint64_t *)in_snapshot(page, at));
}

static void flag(struct page *page, enum metric metric, size_t at)
{
    series(page, metric, "", NULL, NULL);
    whole(page, *(const bool *)in_snapshot(page, at));
}

static void milliseconds(struct page *page, enum metric metric, size_t at)
{
    int64_t ms = *(const int64_t *)in_snapshot(page, at);
    series(page, metric, "", NULL, NULL);
    fraction(page, ms > 0 ? (uint64_t)ms : 0, 3);
}

static void microseconds(struct page *page, enum metric metric, size_t at)
{
    series(page, metric, "", NULL, NULL);
    fraction(page, *(const uint64_t *)in_snapshot(page, at), 6);
}

static uint64_t sum_of(const struct page *page, enum tally tally)
{
    return counters_sum(page->snapshot->workers, page->snapshot->worker_count, tally);
}

static void tally(struct page *page, enum metric metric, size_t which)
{
    series(page, metric, "", NULL, NULL);
    whole(page, sum_of(page, (enum tally)which));
}

/* The tally of the upstreams follows that of the clients. */
static void by_side(struct page *page, enum metric metric, size_t clients)
{
    by_label(page, metric, "client", sum_of(page, (enum tally)clients));
    by_label(page, metric, "upstream", sum_of(page, (enum tally)(clients + 1)));
}

/* ---- requests --------------------------------------------------------------------------------- */

static bool any_page(const struct group *group, enum outcome outcome, unsigned page)
{
    for (size_t i = 0; i < group->count; i++)
        if (route_has_page((const struct route_counters *)group->members[i], outcome, page))
            return true;
    return false;
}

static void requests_of_page(struct page *page, const struct group *group, enum outcome outcome, unsigned hundred)
{
    for (unsigned code = CODE_FIRST + 100 * hundred; code < CODE_FIRST + 100 * (hundred + 1); code++) {
        char code_text[8];
        uint64_t sum = 0;
        for (size_t i = 0; i < group->count; i++)
            sum += route_requests((const struct route_counters *)group->members[i], outcome, code);
        if (!sum)
            continue;
        snprintf(code_text, sizeof code_text, "%u", code);
        series(page, METRIC_REQUESTS, "", (const char *const[]){group_name(group), outcome_name(outcome), code_text},
               NULL);
        whole(page, sum);
    }
}

static void requests(struct page *page, enum metric metric, size_t at)
{
    (void)metric, (void)at;
    for (size_t i = 0; i < page->routes.count; i++)
        for (enum outcome outcome = OUTCOME_NONE; outcome < OUTCOME_COUNT; outcome++)
            for (unsigned hundred = 0; hundred < CODE_PAGES; hundred++)
                if (any_page(&page->routes.groups[i], outcome, hundred))
                    requests_of_page(page, &page->routes.groups[i], outcome, hundred);
}

/* ---- histograms ------------------------------------------------------------------------------- */

static void bucket(struct page *page, enum metric metric, const char *const labels[], const char *le,
                   uint64_t cumulative)
{
    series(page, metric, "_bucket", labels, le);
    whole(page, cumulative);
}

static void end_histogram(struct page *page, enum metric metric, const char *const labels[], uint64_t count)
{
    bucket(page, metric, labels, "+Inf", count);
    series(page, metric, "_count", labels, NULL);
    whole(page, count);
}

/* `offset`: where a member's durations lie in it. */
static void durations(struct page *page, enum metric metric, const struct groups *groups, size_t offset)
{
    for (size_t i = 0; i < groups->count; i++) {
        const struct group *group = &groups->groups[i];
        const char *name = group_name(group);
        uint64_t count = 0, sum_us = 0;
        for (size_t b = 0; b <= DURATION_BOUNDS; b++) {
            for (size_t m = 0; m < group->count; m++)
                count +=
                    counter_get(&((const struct durations *)((const char *)group->members[m] + offset))->buckets[b]);
            if (b < DURATION_BOUNDS)
                bucket(page, metric, &name, duration_bounds[b].le, count);
        }
        for (size_t m = 0; m < group->count; m++)
            sum_us += counter_get(&((const struct durations *)((const char *)group->members[m] + offset))->sum_us);
        end_histogram(page, metric, &name, count);
        series(page, metric, "_sum", &name, NULL);
        fraction(page, sum_us, 6);
    }
}

static void route_durations(struct page *page, enum metric metric, size_t at)
{
    durations(page, metric, &page->routes, at);
}

static void upstream_durations(struct page *page, enum metric metric, size_t at)
{
    durations(page, metric, &page->upstreams, at);
}

#define ITEMS(array) (sizeof(array) / sizeof((array)[0]))

/* The store's buckets are powers of two: below 64 µs, below 128 µs, …; the last has no bound. */
static void commit_times(struct page *page, enum metric metric, size_t at)
{
    (void)at;
    const struct store_status *store = &page->snapshot->store;
    uint64_t count = 0;
    for (size_t i = 0; i < ITEMS(store->commit_ns_buckets); i++) {
        char le[32];
        uint64_t us = UINT64_C(64) << i;
        count += store->commit_ns_buckets[i];
        if (i + 1 == ITEMS(store->commit_ns_buckets))
            break;
        snprintf(le, sizeof le, "%llu.%06llu", (unsigned long long)(us / 1000000), (unsigned long long)(us % 1000000));
        bucket(page, metric, NULL, le, count);
    }
    end_histogram(page, metric, NULL, count);
    series(page, metric, "_sum", NULL, NULL);
    fraction(page, store->commit_ns_sum, 9);
}

/* 1, 2 … 3, 4 … 7, …; the last has no bound. */
static void group_sizes(struct page *page, enum metric metric, size_t at)
{
    (void)at;
    const struct store_status *store = &page->snapshot->store;
    uint64_t count = 0;
    for (size_t i = 0; i < ITEMS(store->group_size_buckets); i++) {
        char le[16];
        count += store->group_size_buckets[i];
        if (i + 1 == ITEMS(store->group_size_buckets))
            break;
        snprintf(le, sizeof le, "%u.0", (2u << i) - 1);
        bucket(page, metric, NULL, le, count);
    }
    end_histogram(page, metric, NULL, count);
    series(page, metric, "_sum", NULL, NULL);
    whole(page, store->commit_ops);
}

/* ---- families --------------------------------------------------------------------------------- */

static void actions(struct page *page, enum metric metric, size_t at)
{
    (void)at;
    by_label(page, metric, "in_progress", page->snapshot->store.in_progress);
    by_label(page, metric, "completed", page->snapshot->store.completed);
    by_label(page, metric, "unknown", page->snapshot->store.unknown);
}

static void oldest_unknown(struct page *page, enum metric metric, size_t at)
{
    const struct store_status *store = in_snapshot(page, at);
    int64_t ms = store->oldest_unknown_ms ? store->now_ms - store->oldest_unknown_ms : 0;
    series(page, metric, "", NULL, NULL);
    fraction(page, ms > 0 ? (uint64_t)ms : 0, 3);
}

static void version(struct page *page, enum metric metric, size_t at)
{
    (void)at;
    by_label(page, metric, page->snapshot->version, 1);
}

#define IN(member) offsetof(struct metrics_snapshot, member)

static const struct {
    void (*write)(struct page *page, enum metric metric, size_t at);
    size_t at;
} samples[METRIC_COUNT] = {
    [METRIC_REQUESTS] = {requests, 0},
    [METRIC_REQUEST_DURATION] = {route_durations, offsetof(struct route_counters, request)},
    [METRIC_UPSTREAM_DURATION] = {upstream_durations, offsetof(struct upstream_counters, answer)},
    [METRIC_WAIT_DURATION] = {route_durations, offsetof(struct route_counters, wait)},
    [METRIC_REQUESTS_IN_FLIGHT] = {tally, TALLY_IN_FLIGHT},
    [METRIC_ACTIONS] = {actions, 0},
    [METRIC_WAITERS] = {number, IN(store.waiters)},
    [METRIC_OLDEST_UNKNOWN] = {oldest_unknown, IN(store)},
    [METRIC_STORE_COMMIT] = {commit_times, 0},
    [METRIC_STORE_GROUP_SIZE] = {group_sizes, 0},
    [METRIC_STORE_USED] = {number, IN(store.used_bytes)},
    [METRIC_STORE_MAX] = {number, IN(store.max_bytes)},
    [METRIC_STORE_FAILING] = {flag, IN(store.failing)},
    [METRIC_STORE_FULL] = {flag, IN(store.full)},
    [METRIC_CONNECTIONS] = {by_side, TALLY_CLIENTS},
    [METRIC_CONNECTIONS_OPENED] = {by_side, TALLY_CLIENTS_OPENED},
    [METRIC_HANDSHAKES_FAILED] = {tally, TALLY_HANDSHAKES_FAILED},
    [METRIC_ACCESS_LOG_DROPPED] = {number, IN(access_log_dropped)},
    [METRIC_RELOAD_SUCCESSFUL] = {flag, IN(reload_taken)},
    [METRIC_RELOAD_TIME] = {milliseconds, IN(configured_ms)},
    [METRIC_DRAINING] = {flag, IN(draining)},
    [METRIC_BUILD_INFO] = {version, 0},
    [METRIC_PROCESS_START] = {milliseconds, IN(started_ms)},
    [METRIC_PROCESS_CPU] = {microseconds, IN(process.cpu_us)},
    [METRIC_PROCESS_MEMORY] = {number, IN(process.resident_bytes)},
    [METRIC_PROCESS_FDS] = {number, IN(process.open_fds)},
    [METRIC_PROCESS_MAX_FDS] = {number, IN(process.max_fds)},
};

static void family(struct page *page, enum metric metric)
{
    const struct metric_row *row = metric_row(metric);
    text(page->out, "# HELP ");
    text(page->out, row->name);
    text(page->out, " ");
    escape(page->out, row->help, false);
    text(page->out, "\n# TYPE ");
    text(page->out, row->name);
    text(page->out, " ");
    text(page->out, type_name(row->type));
    text(page->out, "\n");
    assert(samples[metric].write && "a row without samples");
    samples[metric].write(page, metric, samples[metric].at);
}

void metrics_text(const struct metrics_snapshot *snapshot, struct buffer *out)
{
    struct page page = {.snapshot = snapshot, .out = out};
    make_groups(&page.routes, snapshot, first_route);
    make_groups(&page.upstreams, snapshot, first_upstream);
    for (enum metric metric = 0; metric < METRIC_COUNT; metric++)
        family(&page, metric);
    free_groups(&page.routes);
    free_groups(&page.upstreams);
}
