/*
 * metrics.h - what /metrics says: everything that is counted, as Prometheus text 0.0.4 (contract §8).
 *
 *     workers' counters ─┐
 *     store_status()    ─┼─ metrics_look() → struct metrics_snapshot → metrics_text() → bytes
 *     log, process, state┘
 *
 * What each metric is stands in one table (counters.c); its order is the text's.
 *
 * THREADS: metrics_write and metrics_look any, at any time between the start of the workers and their end, reload and
 * drain included. Nothing here waits for a worker; the locks that are taken (the store's status, the log's list) are
 * never held over a system call. metrics_text is pure.
 */
#pragma once

#include "proxy/buffer.h"
#include "proxy/counters.h"
#include "proxy/log.h"
#include "store/store.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* What the server tells about itself; zeroed at first. It writes, whoever asks reads. Times are ms since 1970. */
struct metrics_state {
    int64_t started_ms; /* fixed from then on: no step of the clock may look like a restart */
    atomic_bool draining, reload_failed;
    _Atomic int64_t configured_ms; /* when the configuration in force was read */
};

void metrics_started(struct metrics_state *state); /* now, before any other thread looks */
/* The configuration was read again: its successor is in force, or was refused. */
void metrics_reloaded(struct metrics_state *state, bool taken);

struct metrics_sources { /* borrowed; must not change from the first call of metrics_write to the last */
    const struct counters *const *workers;
    size_t worker_count;
    struct store *store;
    struct log *log;
    const struct metrics_state *state;
    const char *version;
};

struct metrics_process {
    uint64_t cpu_us, resident_bytes, open_fds, max_fds;
};

struct metrics_snapshot {
    const struct counters *const *workers;
    size_t worker_count;
    struct store_status store;
    struct metrics_process process;
    uint64_t access_log_dropped;
    bool draining, reload_taken;
    int64_t configured_ms, started_ms;
    const char *version;
};

/* Appends the whole text. */
void metrics_write(const struct metrics_sources *sources, struct buffer *out);

/* One number of all workers, as a count or as of their last turns. For whoever tells it otherwise than as a metric. */
uint64_t metrics_tally(const struct metrics_sources *sources, enum tally tally);

void metrics_look(const struct metrics_sources *sources, struct metrics_snapshot *snapshot);
void metrics_text(const struct metrics_snapshot *snapshot, struct buffer *out);
