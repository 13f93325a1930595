/*
 * test_metrics.c - what /metrics says: each sample is where it belongs, whatever names it carries.
 */
#include "proxy/metrics.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>

#define WORKERS 2

struct scene {
    struct counters *workers[WORKERS];
    struct metrics_snapshot snapshot;
    char *text;
};

static void begin(struct scene *scene)
{
    *scene = (struct scene){.workers = {counters_new(), counters_new()}};
    scene->snapshot = (struct metrics_snapshot){
        .workers = (const struct counters *const *)scene->workers, .worker_count = WORKERS, .version = "1.2.3"};
}

static void write_text(struct scene *scene)
{
    struct buffer out = {0};
    metrics_text(&scene->snapshot, &out);
    buffer_append(&out, "", 1);
    free(scene->text);
    scene->text = copy_string(buffer_data(&out));
    buffer_free(&out);
}

static void end(struct scene *scene)
{
    for (size_t i = 0; i < WORKERS; i++)
        counters_free(scene->workers[i]);
    free(scene->text);
}

static bool has_line(const struct scene *scene, const char *line)
{
    size_t len = strlen(line);
    for (const char *at = scene->text; *at; at = strchr(at, '\n') + 1)
        if (strncmp(at, line, len) == 0 && at[len] == '\n')
            return true;
    return false;
}

static size_t lines_with(const struct scene *scene, const char *begin_of_line)
{
    size_t count = 0, len = strlen(begin_of_line);
    for (const char *at = scene->text; *at; at = strchr(at, '\n') + 1)
        count += strncmp(at, begin_of_line, len) == 0;
    return count;
}

#define EXPECT_LINE(scene, line) cr_expect(has_line(scene, line), "no line %s in:\n%s", line, (scene)->text)

/* ---- the table -------------------------------------------------------------------------------- */

static bool is_histogram_suffix(const char *text)
{
    return strncmp(text, "_bucket", 7) == 0 || strncmp(text, "_sum", 4) == 0 || strncmp(text, "_count", 6) == 0;
}

Test(metrics, every_row_has_a_head_and_its_samples_follow_it)
{
    struct scene scene;
    begin(&scene);
    counters_route(scene.workers[0], "orders");
    counters_upstream(scene.workers[0], "api");
    count_request(scene.workers[0]->no_route, OUTCOME_REJECTED, 404);
    write_text(&scene);
    const char *at = scene.text;
    for (enum metric metric = 0; metric < METRIC_COUNT; metric++) {
        static const char *const types[] = {"counter", "gauge", "histogram"};
        const struct metric_row *row = metric_row(metric);
        char head[1024];
        size_t samples = 0, len = strlen(row->name);
        snprintf(head, sizeof head, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name, types[row->type]);
        cr_assert(strncmp(at, head, strlen(head)) == 0, "wanted %s, got %.200s", head, at);
        for (at += strlen(head); strncmp(at, row->name, len) == 0; at = strchr(at, '\n') + 1, samples++)
            cr_expect(row->type == METRIC_HISTOGRAM ? is_histogram_suffix(at + len) : strchr("{ ", at[len]) != NULL,
                      "%s: a sample of another: %.100s", row->name, at);
        cr_expect(samples > 0, "%s has no sample", row->name);
    }
    cr_expect_str_empty(at, "nothing follows the last row");
    end(&scene);
}

Test(metrics, names_follow_the_rules)
{
    for (enum metric metric = 0; metric < METRIC_COUNT; metric++) {
        const struct metric_row *row = metric_row(metric);
        size_t len = strlen(row->name);
        bool total = len > 6 && strcmp(row->name + len - 6, "_total") == 0;
        cr_expect_eq(strspn(row->name, "abcdefghijklmnopqrstuvwxyz_"), len, "%s", row->name);
        cr_expect(strncmp(row->name, "einmal_", 7) == 0 || strncmp(row->name, "process_", 8) == 0, "%s", row->name);
        cr_expect_eq(total, row->type == METRIC_COUNTER, "%s: _total is for counters, and for all of them", row->name);
        cr_expect_eq(row->help[strlen(row->help) - 1], '.', "%s: its help is a sentence", row->name);
        for (enum metric other = 0; other < metric; other++)
            cr_expect_str_neq(row->name, metric_row(other)->name);
    }
}

/* ---- labels ----------------------------------------------------------------------------------- */

Test(metrics, label_values_are_escaped)
{
    static const struct {
        const char *name, *label;
    } rows[] = {
        {"orders", "orders"},
        {"a\"b", "a\\\"b"},
        {"a\\b", "a\\\\b"},
        {"a\nb", "a\\nb"},
        {"\\n", "\\\\n"},
        {"\xc3\xa4 {x}=,", "\xc3\xa4 {x}=,"},
        {"\"} 1\neinmal_draining 1", "\\\"} 1\\neinmal_draining 1"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct scene scene;
        char line[256];
        begin(&scene);
        count_request(counters_route(scene.workers[0], rows[i].name), OUTCOME_PASSED, 200);
        write_text(&scene);
        snprintf(line, sizeof line, "einmal_requests_total{route=\"%s\",outcome=\"passed\",code=\"200\"} 1",
                 rows[i].label);
        EXPECT_LINE(&scene, line);
        EXPECT_LINE(&scene, "einmal_draining 0");
        cr_expect_eq(lines_with(&scene, "einmal_draining"), 1);
        end(&scene);
    }
}

Test(metrics, every_outcome_has_the_name_of_the_contract)
{
    static const char *const names[] = {"-",        "executed", "released",    "unknown",         "degraded",
                                        "waited",   "replayed", "in_progress", "refused_unknown", "identity",
                                        "mismatch", "missing",  "invalid",     "rejected",        "passed"};
    cr_assert_eq(sizeof(names) / sizeof(names[0]), OUTCOME_COUNT);
    for (enum outcome outcome = 0; outcome < OUTCOME_COUNT; outcome++)
        cr_expect_str_eq(outcome_name(outcome), names[outcome]);
}

/* ---- requests --------------------------------------------------------------------------------- */

Test(metrics, requests_are_summed_over_workers_by_name)
{
    struct scene scene;
    begin(&scene);
    for (size_t i = 0; i < WORKERS; i++) {
        struct route_counters *b = counters_route(scene.workers[i], i ? "b" : "only-one");
        count_request(b, OUTCOME_EXECUTED, 201);
        count_request(counters_route(scene.workers[i], "a"), OUTCOME_EXECUTED, 201);
        count_request(counters_route(scene.workers[i], "a"), OUTCOME_REPLAYED, 201);
        count_request(scene.workers[i]->no_route, OUTCOME_REJECTED, 404);
    }
    count_request(counters_route(scene.workers[1], "a"), OUTCOME_EXECUTED, 499);
    write_text(&scene);
    EXPECT_LINE(&scene, "einmal_requests_total{route=\"a\",outcome=\"executed\",code=\"201\"} 2");
    EXPECT_LINE(&scene, "einmal_requests_total{route=\"a\",outcome=\"executed\",code=\"499\"} 1");
    EXPECT_LINE(&scene, "einmal_requests_total{route=\"a\",outcome=\"replayed\",code=\"201\"} 2");
    EXPECT_LINE(&scene, "einmal_requests_total{route=\"b\",outcome=\"executed\",code=\"201\"} 1");
    EXPECT_LINE(&scene, "einmal_requests_total{route=\"only-one\",outcome=\"executed\",code=\"201\"} 1");
    EXPECT_LINE(&scene, "einmal_requests_total{route=\"-\",outcome=\"rejected\",code=\"404\"} 2");
    cr_expect_eq(lines_with(&scene, "einmal_requests_total"), 6, "nothing else: %s", scene.text);
    end(&scene);
}

Test(metrics, a_route_called_like_none_shares_its_series)
{
    struct scene scene;
    begin(&scene);
    cr_expect_eq(counters_route(scene.workers[0], "-"), scene.workers[0]->no_route);
    end(&scene);
}

Test(metrics, any_status_has_its_place)
{
    struct scene scene;
    begin(&scene);
    struct route_counters *route = counters_route(scene.workers[0], "r");
    for (unsigned code = 100; code <= 999; code++)
        for (unsigned n = 0; n < code % 7 + 1; n++)
            count_request(route, code % 2 ? OUTCOME_EXECUTED : OUTCOME_UNKNOWN, code);
    write_text(&scene);
    for (unsigned code = 100; code <= 999; code++) {
        char line[128];
        snprintf(line, sizeof line, "einmal_requests_total{route=\"r\",outcome=\"%s\",code=\"%u\"} %u",
                 code % 2 ? "executed" : "unknown", code, code % 7 + 1);
        EXPECT_LINE(&scene, line);
    }
    cr_expect_eq(lines_with(&scene, "einmal_requests_total"), 900);
    end(&scene);
}

/* ---- histograms ------------------------------------------------------------------------------- */

Test(metrics, a_duration_falls_into_the_first_bucket_that_holds_it)
{
    static const struct {
        int64_t us;
        const char *le, *below; /* the bucket that holds it, and the one before, which does not */
    } rows[] = {
        {0, "0.0001", NULL},           {100, "0.0001", NULL},      {101, "0.00025", "0.0001"},
        {4999, "0.005", "0.0025"},     {5000, "0.005", "0.0025"},  {5001, "0.01", "0.005"},
        {1000000, "1.0", "0.75"},      {1000001, "2.5", "1.0"},    {10000000, "10.0", "7.5"},
        {30000000, "30.0", "10.0"},    {60000000, "60.0", "30.0"}, {60000001, "+Inf", "60.0"},
        {86400000000, "+Inf", "60.0"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct scene scene;
        char line[256];
        begin(&scene);
        count_duration(&counters_upstream(scene.workers[1], "api")->answer, rows[i].us);
        write_text(&scene);
        snprintf(line, sizeof line, "einmal_upstream_duration_seconds_bucket{upstream=\"api\",le=\"%s\"} 1",
                 rows[i].le);
        EXPECT_LINE(&scene, line);
        if (rows[i].below) {
            snprintf(line, sizeof line, "einmal_upstream_duration_seconds_bucket{upstream=\"api\",le=\"%s\"} 0",
                     rows[i].below);
            EXPECT_LINE(&scene, line);
        }
        EXPECT_LINE(&scene, "einmal_upstream_duration_seconds_bucket{upstream=\"api\",le=\"+Inf\"} 1");
        EXPECT_LINE(&scene, "einmal_upstream_duration_seconds_count{upstream=\"api\"} 1");
        snprintf(line, sizeof line, "einmal_upstream_duration_seconds_sum{upstream=\"api\"} %lld.%06lld",
                 (long long)(rows[i].us / 1000000), (long long)(rows[i].us % 1000000));
        EXPECT_LINE(&scene, line);
        end(&scene);
    }
}

Test(metrics, bounds_rise_and_are_written_as_they_are)
{
    for (size_t i = 0; i < DURATION_BOUNDS; i++) {
        cr_expect_float_eq(atof(duration_bounds[i].le) * 1e6, (double)duration_bounds[i].us, 1e-6);
        cr_expect(i == 0 || duration_bounds[i].us > duration_bounds[i - 1].us);
    }
}

/* Every histogram in the text: buckets never fall, the last is +Inf and equals _count. Returns how many there are. */
static size_t check_histograms(const char *text)
{
    size_t histograms = 0;
    unsigned long long before = 0;
    for (const char *at = text; *at; at = strchr(at, '\n') + 1) {
        size_t len = (size_t)(strchr(at, '\n') - at);
        char line[512];
        snprintf(line, sizeof line, "%.*s", (int)len, at);
        if (line[0] == '#' || !(strstr(line, "_bucket{") || strstr(line, "_count")))
            continue;
        unsigned long long value = strtoull(strrchr(line, ' ') + 1, NULL, 10);
        if (strstr(line, "_count")) {
            cr_expect_eq(value, before, "count and +Inf differ: %s", line);
            before = 0;
            histograms++;
            continue;
        }
        cr_expect(value >= before, "a bucket falls: %s", line);
        before = value;
    }
    return histograms;
}

Test(metrics, buckets_are_cumulative)
{
    struct scene scene;
    begin(&scene);
    for (size_t i = 0; i < 1000; i++) {
        struct route_counters *route = counters_route(scene.workers[i % WORKERS], i % 3 ? "a" : "b");
        count_duration(&route->request, (int64_t)(i * i * 100));
        count_duration(&route->wait, (int64_t)(i * 7));
    }
    for (size_t i = 0; i < 24; i++)
        scene.snapshot.store.commit_ns_buckets[i] = i + 1;
    for (size_t i = 0; i < 12; i++)
        scene.snapshot.store.group_size_buckets[i] = 2 * i;
    scene.snapshot.store.commit_ns_sum = 12345678901;
    scene.snapshot.store.commit_ops = 77;
    write_text(&scene);
    cr_expect_eq(check_histograms(scene.text), 3 * 2 + 2, "request and wait of a, b and -; the store's two");
    EXPECT_LINE(&scene, "einmal_request_duration_seconds_count{route=\"a\"} 666");
    EXPECT_LINE(&scene, "einmal_wait_duration_seconds_sum{route=\"b\"} 1.167831");
    EXPECT_LINE(&scene, "einmal_store_commit_seconds_bucket{le=\"0.000064\"} 1");
    EXPECT_LINE(&scene, "einmal_store_commit_seconds_bucket{le=\"0.000128\"} 3");
    EXPECT_LINE(&scene, "einmal_store_commit_seconds_bucket{le=\"268.435456\"} 276");
    EXPECT_LINE(&scene, "einmal_store_commit_seconds_bucket{le=\"+Inf\"} 300");
    EXPECT_LINE(&scene, "einmal_store_commit_seconds_sum 12.345678901");
    EXPECT_LINE(&scene, "einmal_store_group_size_bucket{le=\"1.0\"} 0");
    EXPECT_LINE(&scene, "einmal_store_group_size_bucket{le=\"3.0\"} 2");
    EXPECT_LINE(&scene, "einmal_store_group_size_bucket{le=\"2047.0\"} 110");
    EXPECT_LINE(&scene, "einmal_store_group_size_bucket{le=\"+Inf\"} 132");
    EXPECT_LINE(&scene, "einmal_store_group_size_sum 77");
    end(&scene);
}

/* ---- single numbers --------------------------------------------------------------------------- */

Test(metrics, single_numbers)
{
    struct scene scene;
    begin(&scene);
    scene.snapshot.store = (struct store_status){.failing = true,
                                                 .full = true,
                                                 .now_ms = 1700000010500,
                                                 .used_bytes = 4096,
                                                 .max_bytes = 1ull << 33,
                                                 .in_progress = 1,
                                                 .completed = 20,
                                                 .unknown = 3,
                                                 .waiters = 4,
                                                 .oldest_unknown_ms = 1700000000000};
    scene.snapshot.process =
        (struct metrics_process){.cpu_us = 1500000, .resident_bytes = 1 << 20, .open_fds = 9, .max_fds = 1024};
    scene.snapshot.access_log_dropped = 5;
    scene.snapshot.draining = true;
    scene.snapshot.started_ms = 1600000000123;
    scene.snapshot.configured_ms = 1600000001000;
    for (size_t i = 0; i < WORKERS; i++)
        for (enum tally tally = 0; tally < TALLY_COUNT; tally++)
            counter_set(&scene.workers[i]->tallies[tally], 10 * tally + i);
    write_text(&scene);
    static const char *const lines[] = {
        "einmal_actions{state=\"in_progress\"} 1",
        "einmal_actions{state=\"completed\"} 20",
        "einmal_actions{state=\"unknown\"} 3",
        "einmal_waiters 4",
        "einmal_oldest_unknown_seconds 10.500",
        "einmal_store_used_bytes 4096",
        "einmal_store_max_bytes 8589934592",
        "einmal_store_failing 1",
        "einmal_store_full 1",
        "einmal_connections{side=\"client\"} 1",
        "einmal_connections{side=\"upstream\"} 21",
        "einmal_connections_opened_total{side=\"client\"} 41",
        "einmal_connections_opened_total{side=\"upstream\"} 61",
        "einmal_requests_in_flight 81",
        "einmal_tls_handshake_failures_total 101",
        "einmal_access_log_dropped_total 5",
        "einmal_config_last_reload_successful 0",
        "einmal_config_last_reload_success_timestamp_seconds 1600000001.000",
        "einmal_draining 1",
        "einmal_build_info{version=\"1.2.3\"} 1",
        "process_start_time_seconds 1600000000.123",
        "process_cpu_seconds_total 1.500000",
        "process_resident_memory_bytes 1048576",
        "process_open_fds 9",
        "process_max_fds 1024",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        EXPECT_LINE(&scene, lines[i]);
    end(&scene);
}

Test(metrics, no_unknown_action_is_zero_seconds_old)
{
    struct scene scene;
    begin(&scene);
    scene.snapshot.store.now_ms = 1700000010500;
    write_text(&scene);
    EXPECT_LINE(&scene, "einmal_oldest_unknown_seconds 0.000");
    scene.snapshot.store.oldest_unknown_ms = 1700000010501; /* the writer was a moment ahead of this look */
    write_text(&scene);
    EXPECT_LINE(&scene, "einmal_oldest_unknown_seconds 0.000");
    end(&scene);
}

/* ---- counting --------------------------------------------------------------------------------- */

Test(counters, what_is_named_again_goes_on)
{
    struct counters *counters = counters_new();
    struct route_counters *orders = counters_route(counters, "orders");
    struct upstream_counters *api = counters_upstream(counters, "api");
    count_request(orders, OUTCOME_EXECUTED, 201);
    for (size_t i = 0; i < 100; i++) { /* reloads that add routes, and one under the name of an upstream */
        char name[16];
        snprintf(name, sizeof name, "route %zu", i);
        counters_route(counters, name);
        counters_route(counters, "api");
    }
    cr_expect_eq(counters_route(counters, "orders"), orders);
    cr_expect_eq(counters_upstream(counters, "api"), api);
    cr_expect_eq(route_requests(counters_route(counters, "orders"), OUTCOME_EXECUTED, 201), 1);
    cr_expect_eq(route_requests(counters_route(counters, "renamed"), OUTCOME_EXECUTED, 201), 0);
    counters_free(counters);
}

#define THREADS 4
#define ROUNDS  20000

struct teller {
    pthread_t thread;
    struct counters *counters;
    unsigned number;
};

static void *count_much(void *arg)
{
    struct teller *teller = arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        char name[16];
        snprintf(name, sizeof name, "r%u", i / (ROUNDS / 10));
        struct route_counters *route = counters_route(teller->counters, name);
        count_request(route, (enum outcome)(1 + i % (OUTCOME_COUNT - 1)), 100 + (i * 7 + teller->number) % 900);
        count_duration(&route->request, i);
        counter_add(&teller->counters->tallies[TALLY_CLIENTS_OPENED], 1);
    }
    return NULL;
}

Test(counters, threads_sum_up)
{
    struct teller tellers[THREADS];
    const struct counters *counters[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        counters[i] = tellers[i].counters = counters_new();
        tellers[i].number = i;
        cr_assert_eq(pthread_create(&tellers[i].thread, NULL, count_much, &tellers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(tellers[i].thread, NULL);
    struct scene scene = {0};
    scene.snapshot = (struct metrics_snapshot){.workers = counters, .worker_count = THREADS, .version = ""};
    write_text(&scene);
    unsigned long long sum = 0;
    for (const char *at = scene.text; *at; at = strchr(at, '\n') + 1)
        if (strncmp(at, "einmal_requests_total{", 22) == 0)
            sum +=
                strtoull(strchr(at, '}') + 2, NULL, 10); /* strstr() under ASan measures all of the text, each time */
    cr_expect_eq(sum, THREADS * ROUNDS);
    EXPECT_LINE(&scene, "einmal_connections_opened_total{side=\"client\"} 80000");
    EXPECT_LINE(&scene, "einmal_request_duration_seconds_count{route=\"r3\"} 8000");
    for (unsigned i = 0; i < THREADS; i++)
        counters_free(tellers[i].counters);
    free(scene.text);
}
