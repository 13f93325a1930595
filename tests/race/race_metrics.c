/*
 * race_metrics.c - workers that count while others read, for the thread sanitizer.
 *
 *     race_metrics [SECONDS]
 *
 * Each worker counts requests of several outcomes and statuses, and now and then takes up a new configuration: names
 * that it knows, and one more that it does not. Two readers write the whole text all the while, log and store included.
 * What must hold in each text: no sum falls, no histogram's bucket is larger than its count, and what a reader saw of
 * a name stays there. At the end the last text tells exactly what was counted.
 */
#include "proxy/deadline.h"
#include "proxy/metrics.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define WORKERS   3
#define READERS   2
#define NAMES_MAX 8

struct worker {
    struct counters *counters;
    struct access_log *access;
    pthread_t thread;
    int64_t until_ms;
    uint64_t counted;
    unsigned names;
};

struct reader {
    const struct metrics_sources *sources;
    pthread_t thread;
    int64_t until_ms;
    uint64_t texts, requests;
};

static void reconfigure(struct worker *worker, struct route_counters *routes[], struct upstream_counters **upstream)
{
    char name[16];
    if (worker->names < NAMES_MAX)
        worker->names++;
    for (unsigned i = 0; i < worker->names; i++) {
        snprintf(name, sizeof name, "route%u", i);
        routes[i] = counters_route(worker->counters, name);
    }
    snprintf(name, sizeof name, "api%u", worker->names / 8);
    *upstream = counters_upstream(worker->counters, name);
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    struct route_counters *routes[NAMES_MAX];
    struct upstream_counters *upstream;
    reconfigure(worker, routes, &upstream);
    while (monotonic_ms() < worker->until_ms) {
        for (unsigned i = 0; i < 500; i++) {
            uint64_t n = worker->counted++;
            struct route_counters *route = routes[n % worker->names];
            count_request(route, (enum outcome)(n % 3), 200 + 100 * (unsigned)(n % 4) + (unsigned)(n % 5));
            count_duration(&route->request, (int64_t)(n % 100000));
            count_duration(&upstream->answer, (int64_t)(n % 1000));
            counter_add(&worker->counters->tallies[TALLY_CLIENTS_OPENED], 1);
        }
        counter_set(&worker->counters->tallies[TALLY_IN_FLIGHT], worker->counted % 7);
        reconfigure(worker, routes, &upstream);
    }
    return NULL;
}

static uint64_t requests_in(const char *text)
{
    uint64_t sum = 0;
    for (const char *at = text; *at; at = strchr(at, '\n') + 1)
        if (strncmp(at, "einmal_requests_total{", 22) == 0)
            sum += strtoull(strstr(at, "} ") + 2, NULL, 10);
    return sum;
}

/* In the text's order the last bucket before a count is +Inf. */
static void check_histograms(const char *text)
{
    uint64_t before = 0;
    for (const char *at = text; *at; at = strchr(at, '\n') + 1) {
        const char *end = strchr(at, '\n'), *space = memrchr(at, ' ', (size_t)(end - at));
        bool bucket = memmem(at, (size_t)(end - at), "_bucket{", 8),
             count = memmem(at, (size_t)(end - at), "_count", 6);
        if (*at == '#' || !(bucket || count))
            continue;
        uint64_t value = strtoull(space + 1, NULL, 10);
        assert(count ? value == before : value >= before);
        before = count ? 0 : value;
    }
}

static uint64_t look(const struct metrics_sources *sources)
{
    struct buffer out = {0};
    metrics_write(sources, &out);
    buffer_append(&out, "", 1);
    check_histograms(buffer_data(&out));
    uint64_t requests = requests_in(buffer_data(&out));
    buffer_free(&out);
    return requests;
}

static void *read_on(void *arg)
{
    struct reader *reader = arg;
    while (monotonic_ms() < reader->until_ms) {
        uint64_t requests = look(reader->sources);
        assert(requests >= reader->requests && "a counter went backwards");
        reader->requests = requests;
        reader->texts++;
    }
    return NULL;
}

static void start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    int failed = pthread_create(thread, NULL, run, arg);
    assert(!failed);
}

int main(int argc, char **argv)
{
    static struct worker workers[WORKERS];
    static struct reader readers[READERS];
    static struct metrics_state state;
    const struct counters *counters[WORKERS];
    char error[256];
    int64_t until = monotonic_ms() + (argc > 1 ? atoi(argv[1]) : 2) * 1000;
    struct log *log = log_new();
    struct store *store =
        store_open(&(struct store_config){.engine = "memory", .max_size = 1 << 20}, error, sizeof error);
    assert(store);
    metrics_started(&state);
    for (size_t i = 0; i < WORKERS; i++) {
        counters[i] = workers[i].counters = counters_new();
        workers[i].access = access_log_open(log);
        workers[i].until_ms = until;
    }
    struct metrics_sources sources = {
        .workers = counters, .worker_count = WORKERS, .store = store, .log = log, .state = &state, .version = "race"};
    for (size_t i = 0; i < WORKERS; i++)
        start(&workers[i].thread, work, &workers[i]);
    for (size_t i = 0; i < READERS; i++) {
        readers[i].sources = &sources;
        readers[i].until_ms = until;
        start(&readers[i].thread, read_on, &readers[i]);
    }
    while (monotonic_ms() < until) { /* the server meanwhile */
        metrics_reloaded(&state, until % 2);
        atomic_store(&state.draining, true);
        usleep(1000);
    }
    uint64_t counted = 0, texts = 0;
    for (size_t i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        counted += workers[i].counted;
    }
    for (size_t i = 0; i < READERS; i++) {
        pthread_join(readers[i].thread, NULL);
        texts += readers[i].texts;
    }
    uint64_t told = look(&sources);
    printf("%llu requests counted, %llu told at the end, %llu texts\n", (unsigned long long)counted,
           (unsigned long long)told, (unsigned long long)texts);
    for (size_t i = 0; i < WORKERS; i++) {
        access_log_close(workers[i].access);
        counters_free(workers[i].counters);
    }
    bool closed = store_close(store, 1000);
    log_free(log);
    return closed && texts && counted && told == counted ? 0 : 1;
}
