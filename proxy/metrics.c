/*
 * metrics.c - gathers what /metrics says. What of it is our process's the kernel tells, by /proc/self.
 *
 * A number that cannot be had (no /proc) is 0: a scrape is never refused for it.
 */
#include "proxy/metrics.h"
#include "proxy/clock.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

void metrics_started(struct metrics_state *state)
{
    state->started_ms = clock_ms(CLOCK_REALTIME);
    atomic_store(&state->configured_ms, state->started_ms);
}

void metrics_reloaded(struct metrics_state *state, bool taken)
{
    if (taken)
        atomic_store(&state->configured_ms, clock_ms(CLOCK_REALTIME));
    atomic_store(&state->reload_failed, !taken);
}

static uint64_t resident_bytes(void)
{
    unsigned long long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    int got = fscanf(file, "%llu %llu", &size, &resident);
    fclose(file);
    return got == 2 ? resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static uint64_t open_fds(void)
{
    uint64_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    if (!directory)
        return 0;
    for (struct dirent *entry; (entry = readdir(directory));)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count ? count - 1 : 0; /* one was this look's */
}

static uint64_t max_fds(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

void metrics_look(const struct metrics_sources *sources, struct metrics_snapshot *snapshot)
{
    *snapshot = (struct metrics_snapshot){
        .workers = sources->workers,
        .worker_count = sources->worker_count,
        .process = {.cpu_us = (uint64_t)clock_us(CLOCK_PROCESS_CPUTIME_ID),
                    .resident_bytes = resident_bytes(),
                    .open_fds = open_fds(),
                    .max_fds = max_fds()},
        .access_log_dropped = log_access_dropped(sources->log),
        .draining = atomic_load(&sources->state->draining),
        .reload_taken = !atomic_load(&sources->state->reload_failed),
        .configured_ms = atomic_load(&sources->state->configured_ms),
        .started_ms = sources->state->started_ms,
        .version = sources->version,
    };
    store_status(sources->store, &snapshot->store);
}

uint64_t metrics_tally(const struct metrics_sources *sources, enum tally tally)
{
    return counters_sum(sources->workers, sources->worker_count, tally);
}

void metrics_write(const struct metrics_sources *sources, struct buffer *out)
{
    struct metrics_snapshot snapshot;
    metrics_look(sources, &snapshot);
    metrics_text(&snapshot, out);
}
