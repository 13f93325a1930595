/*
 * store_bench.c - how many actions a second the store alone takes: reserve and complete, with so many in flight.
 *
 *     store_bench [--records N] [--seconds S] [--in-flight N] [--threads N] [--process] [--engine NAME] [--dir PATH]
 *                 [--body N] [--retention MS]
 *
 * Ids are random, responses have 300 bytes. With --records the store is filled first (without syncing); with
 * --retention what was filled expires after so long, so that sweeping is part of what is measured. Prints: actions a
 * second; what an action costs the store's own thread in CPU time and in pages written; how long commits took, and how
 * long an asker waited for an answer. The limit of a new key is in-flight / (2 x commit time).
 */
#include "tests/store/driver.h"

#include <pthread.h>
#include <time.h>

struct options {
    unsigned long records;
    unsigned seconds, in_flight, threads;
    size_t body;
    bool strict;
    int64_t retention_ms;
    const char *engine, *directory;
};

/* What has been used so far, by the kernel's account. */
struct used {
    int64_t cpu_ns;
    uint64_t written_bytes, writes;
};

struct load {
    struct store_op op;
    struct client *client;
    int64_t asked_ns;
};

struct client {
    struct store *store;
    struct store_handle *handle;
    const struct options *options;
    struct store_bytes *body;
    uint64_t random, limit; /* actions to do; 0: until the time is over */
    int64_t until_ms;
    uint64_t started, completed;
    int64_t longest_ns;
    unsigned out;
    pthread_t thread;
};

static int64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static uint64_t next_random(struct client *client)
{
    client->random ^= client->random << 13;
    client->random ^= client->random >> 7;
    client->random ^= client->random << 17;
    return client->random * 2685821657736338717u;
}

static void on_done(struct store_op *op);

static bool is_over(const struct client *client)
{
    return client->limit ? client->started >= client->limit : boot_time_ms() >= client->until_ms;
}

static void start_one(struct load *load)
{
    struct client *client = load->client;
    if (is_over(client)) {
        client->out--;
        return;
    }
    memset(&load->op, 0, sizeof load->op);
    load->op.verb = STORE_RESERVE;
    load->op.done = on_done;
    for (int i = 0; i < 4; i++)
        record_put64(load->op.id.bytes + 8 * i, next_random(client));
    memcpy(load->op.content, load->op.id.bytes, STORE_HASH_LEN);
    load->op.reject_other_identity = true;
    load->op.unknown_retention_ms = 86400000;
    load->op.about = (struct store_about){
        .route = "orders", .scope_name = "orders", .key = "0c2a4f0e-7a3b-4d57-9a52-4f1a", .key_source = STORE_KEY_SENT};
    client->started++;
    load->asked_ns = now_ns(CLOCK_MONOTONIC);
    store_submit(client->handle, &load->op);
}

static void on_done(struct store_op *op)
{
    struct load *load = (struct load *)op;
    struct client *client = load->client;
    int64_t answered_ns = now_ns(CLOCK_MONOTONIC);
    if (answered_ns - load->asked_ns > client->longest_ns)
        client->longest_ns = answered_ns - load->asked_ns;
    if (op->verb == STORE_COMPLETE) {
        if (op->result.answer != STORE_DONE)
            driver_die("an outcome was not written");
        client->completed++;
        start_one(load);
        return;
    }
    if (op->result.answer != STORE_GRANTED)
        driver_die("no grant");
    uint64_t token = op->result.token;
    struct store_id id = op->id;
    memset(op, 0, sizeof *op);
    *op = (struct store_op){.verb = STORE_COMPLETE,
                            .id = id,
                            .token = token,
                            .done = on_done,
                            .response = client->body,
                            .status = 201,
                            .retention_ms = client->options->retention_ms};
    load->asked_ns = answered_ns;
    store_submit(client->handle, op);
}

static void *run_client(void *arg)
{
    struct client *client = arg;
    unsigned count = client->options->in_flight / client->options->threads;
    struct load *loads = calloc(count, sizeof *loads);
    client->handle = store_handle_open(client->store);
    client->body = body_of(client->options->body, 1);
    client->out = count;
    for (unsigned i = 0; i < count; i++) {
        loads[i].client = client;
        start_one(&loads[i]);
    }
    while (client->out) {
        struct pollfd readable = {.fd = store_handle_fd(client->handle), .events = POLLIN};
        poll(&readable, 1, 1000);
        store_handle_deliver(client->handle);
    }
    store_handle_close(client->handle);
    store_bytes_unref(client->body);
    free(loads);
    return NULL;
}

/* Runs the clients to their end; returns actions completed. */
static uint64_t run(struct store *store, const struct options *options, uint64_t limit, int64_t *longest_ns)
{
    struct client clients[16];
    uint64_t completed = 0;
    static uint64_t seed = 88172645463325252u;
    for (unsigned i = 0; i < options->threads; i++) {
        clients[i] = (struct client){.store = store,
                                     .options = options,
                                     .random = seed++ * 0x9E3779B97F4A7C15u,
                                     .limit = limit / options->threads,
                                     .until_ms = boot_time_ms() + options->seconds * 1000};
        pthread_create(&clients[i].thread, NULL, run_client, &clients[i]);
    }
    for (unsigned i = 0; i < options->threads; i++) {
        pthread_join(clients[i].thread, NULL);
        completed += clients[i].completed;
        if (clients[i].longest_ns > *longest_ns)
            *longest_ns = clients[i].longest_ns;
    }
    return completed;
}

static struct options parse(int argc, char **argv)
{
    struct options options = {.seconds = 5,
                              .in_flight = 64,
                              .threads = 2,
                              .body = 300,
                              .strict = true,
                              .retention_ms = 86400000,
                              .engine = "lmdb"};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";
        if (strcmp(argv[i], "--process") == 0) {
            options.strict = false;
            continue;
        }
        if (strcmp(argv[i], "--records") == 0)
            options.records = strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0)
            options.seconds = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--in-flight") == 0)
            options.in_flight = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--threads") == 0)
            options.threads = (unsigned)strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--body") == 0)
            options.body = strtoul(value, NULL, 10);
        else if (strcmp(argv[i], "--retention") == 0)
            options.retention_ms = strtol(value, NULL, 10);
        else if (strcmp(argv[i], "--engine") == 0)
            options.engine = value;
        else if (strcmp(argv[i], "--dir") == 0)
            options.directory = value;
        else
            driver_die("unknown option");
        i++;
    }
    return options;
}

static struct used used_by(pthread_t thread)
{
    struct used used = {0};
    clockid_t clock;
    char line[128];
    unsigned long long value;
    if (pthread_getcpuclockid(thread, &clock) == 0)
        used.cpu_ns = now_ns(clock);
    FILE *file = fopen("/proc/self/io", "r"); /* of the whole process: nobody else writes more than eventfds */
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "wchar: %llu", &value) == 1)
            used.written_bytes = value;
        if (sscanf(line, "syscw: %llu", &value) == 1)
            used.writes = value;
    }
    if (file)
        fclose(file);
    return used;
}

static void print(const struct options *options, uint64_t completed, const struct store_status *before,
                  const struct store_status *after)
{
    uint64_t commits = after->commits - before->commits, ops = after->commit_ops - before->commit_ops;
    printf("%s %s, %lu records before, %u in flight, %zu bytes: %.0f actions/s, %.0f commits/s, %.1f ops a commit\n",
           options->engine, options->strict ? "strict" : "process", options->records, options->in_flight, options->body,
           (double)completed / options->seconds, (double)commits / options->seconds,
           commits ? (double)ops / commits : 0);
    printf("  commit time:");
    uint64_t seen = 0;
    for (unsigned i = 0; i < 24; i++) {
        uint64_t here = after->commit_ns_buckets[i] - before->commit_ns_buckets[i];
        if (seen < commits / 2 && seen + here >= commits / 2)
            printf(" p50 < %.2f ms", 0.064 * (1u << i));
        if (seen < commits * 99 / 100 && seen + here >= commits * 99 / 100)
            printf(" p99 < %.2f ms", 0.064 * (1u << i));
        if (here && seen + here == commits)
            printf(" all < %.2f ms", 0.064 * (1u << i));
        seen += here;
    }
    printf("; store uses %.1f MB\n", (double)after->used_bytes / 1e6);
}

static void print_used(uint64_t completed, uint64_t commits, const struct used *before, const struct used *after,
                       int64_t longest_ns)
{
    double actions = completed ? (double)completed : 1, pages = (double)(after->written_bytes - before->written_bytes);
    printf("  an action: %.1f us CPU of the store's thread, %.2f pages written in %.2f calls; a commit: %.1f pages; "
           "longest wait %.1f ms\n",
           (double)(after->cpu_ns - before->cpu_ns) / 1e3 / actions, pages / 4096 / actions,
           (double)(after->writes - before->writes) / actions, commits ? pages / 4096 / (double)commits : 0,
           (double)longest_ns / 1e6);
}

int main(int argc, char **argv)
{
    struct options options = parse(argc, argv), fill = options;
    struct driver driver;
    struct store_status before, after;
    int64_t longest_ns = 0;
    char error[500];
    if (options.directory)
        setenv("TMPDIR", options.directory, 1);
    driver_configure(&driver, options.engine);
    driver.config.max_size = (uint64_t)16 << 30;
    driver.config.strict = false;
    fill.in_flight = 512;
    if (options.records) {
        driver.store = store_open(&driver.config, error, sizeof error);
        run(driver.store, &fill, options.records, &longest_ns);
        store_close(driver.store, 60000);
    }
    driver.config.strict = options.strict;
    driver.store = store_open(&driver.config, error, sizeof error);
    if (!driver.store)
        driver_die(error);
    sync(); /* what was filled is not what is measured */
    store_status(driver.store, &before);
    struct used used_before = used_by(driver.store->thread);
    longest_ns = 0;
    uint64_t completed = run(driver.store, &options, 0, &longest_ns);
    store_status(driver.store, &after);
    struct used used_after = used_by(driver.store->thread);
    print(&options, completed, &before, &after);
    print_used(completed, after.commits - before.commits, &used_before, &used_after, longest_ns);
    store_close(driver.store, 10000);
    driver_remove(&driver);
    return 0;
}
