/*
 * store.c - opening and closing the store, and what control threads ask of it.
 *
 * Opening: the directory and its lock, the engine, store time, and then every record that is in progress becomes
 * unknown: its owner died with an earlier process. Only then the thread starts. Should the store be too full for that,
 * it opens all the same: the ledger calls such a record unknown whenever it is met.
 */
#include "store/store.h"

#include "store/allocate.h"
#include "store/writer.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define RECOVER_MAX 256 /* records in one transaction */

static const struct engine_operations *const engines[] = {&engine_lmdb, &engine_memory};

void store_say(struct store *store, enum store_log_level level, const char *message)
{
    if (store->config.log)
        store->config.log(store->config.log_arg, level, message);
}

#ifdef EINMAL_CRASH_POINTS
void store_crash_point(struct store *store, const char *step)
{
    if (store->config.crash_at && strcmp(store->config.crash_at, step) == 0)
        kill(getpid(), SIGKILL);
}
#endif

/* ---- recovery --------------------------------------------------------------------------------- */

/* One record of an earlier process. */
static enum engine_error recover_one(struct store *store, const struct record *record, const char *scope_name)
{
    struct ledger_input input = {
        .record = record, .holder = LEDGER_LOST, .now_ms = store_clock_now_ms(&store->clock), .boot = store->boot};
    struct store_op op = {.verb = STORE_FORGET, .id = record->reservation.id};
    struct ledger_verdict verdict = ledger_judge(&input, &op);
    assert(verdict.again && verdict.step == LEDGER_SETTLE);
    enum engine_error error =
        store->engine->operations->settle(store->engine, record, &verdict.outcome, NULL, verdict.keeps_response);
    if (error == ENGINE_OK)
        error = scope_expects(store, scope_intern(&store->writer, scope_name), verdict.outcome.expires_ms);
    return error;
}

/* At most `limit` records in one transaction. */
static enum engine_error recover_some(struct store *store, unsigned limit, unsigned *count)
{
    const struct engine_operations *engine = store->engine->operations;
    enum engine_error error = writer_begin(store);
    if (error != ENGINE_OK)
        return error;
    for (*count = 0; *count < limit && error == ENGINE_OK; ++*count) {
        struct record record;
        char scope_name[RECORD_STRING_MAX + 1];
        bool found;
        error = engine->first_open(store->engine, &record, &found, scope_name);
        if (error != ENGINE_OK || !found)
            break;
        error = recover_one(store, &record, scope_name);
    }
    if (error != ENGINE_OK || *count == 0)
        engine->abort(store->engine);
    else
        error = engine->commit(store->engine, store_clock_now_ms(&store->clock));
    scopes_transaction_over(&store->writer, error == ENGINE_OK);
    return error;
}

static bool recover(struct store *store, char *error_text, size_t error_size)
{
    unsigned count = 0, limit = RECOVER_MAX;
    uint64_t total = 0;
    char message[160];
    do {
        enum engine_error error = recover_some(store, limit, &count);
        if (error == ENGINE_FULL && limit > 1) {
            limit /= 2;
            count = limit; /* go on */
            continue;
        }
        if (error == ENGINE_IO) {
            snprintf(error_text, error_size, "store %s: cannot read or write what an earlier run left in progress",
                     store->config.path);
            return false;
        }
        store->left_open = error == ENGINE_FULL;
        if (store->left_open)
            break;
        total += count;
    } while (count > 0);
    if (total) {
        snprintf(message, sizeof message, "%llu actions were in progress when einmal died: now unknown",
                 (unsigned long long)total);
        store_say(store, STORE_LOG_WARNING, message);
    }
    return true;
}

/* ---- opening ---------------------------------------------------------------------------------- */

static char *copy(const char *string)
{
    return string ? store_must_allocate(strdup(string)) : NULL;
}

static void open_threads_data(struct store *store)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&store->wake, &monotonic);
    pthread_cond_init(&store->control_over, NULL);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&store->queue_lock, NULL);
    pthread_mutex_init(&store->handles_lock, NULL);
    pthread_mutex_init(&store->people_lock, NULL);
    pthread_mutex_init(&store->status_lock, NULL);
    store->queue_end = &store->queue;
    store->controls_end = &store->controls;
    store->writer.pending_end = &store->writer.pending;
    store->writer.sweep_limit = SWEEP_MAX;
    lines_open(&store->writer.lines);
}

static void free_store(struct store *store)
{
    if (store->engine)
        store->engine->operations->close(store->engine);
    store_lock_release(&store->lock);
    lines_close(&store->writer.lines);
    scopes_close(&store->writer);
    pthread_cond_destroy(&store->wake);
    pthread_cond_destroy(&store->control_over);
    pthread_mutex_destroy(&store->queue_lock);
    pthread_mutex_destroy(&store->handles_lock);
    pthread_mutex_destroy(&store->people_lock);
    pthread_mutex_destroy(&store->status_lock);
    free((char *)store->config.engine);
    free((char *)store->config.path);
    free((char *)store->config.crash_at);
    free(store);
}

static const struct engine_operations *find_engine(const char *name)
{
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++)
        if (strcmp(engines[i]->name, name) == 0)
            return engines[i];
    return NULL;
}

static bool open_engine(struct store *store, char *error, size_t error_size)
{
    const struct store_config *config = &store->config;
    const struct engine_operations *operations = find_engine(config->engine);
    if (!operations) {
        snprintf(error, error_size, "store: no engine is called %s", config->engine);
        return false;
    }
    if (operations->needs_directory && !store_lock_take(&store->lock, config, error, error_size))
        return false;
    struct engine_config engine = {.path = config->path,
                                   .directory = store->lock.directory,
                                   .max_size = config->max_size,
                                   .create = config->create,
                                   .strict = config->strict,
                                   .recent_max = config->recent_max,
                                   .log = config->log,
                                   .log_arg = config->log_arg};
    store->engine = operations->open(&engine, error, error_size);
    return store->engine != NULL;
}

static bool start(struct store *store, char *error, size_t error_size)
{
    if (!open_engine(store, error, error_size))
        return false;
    store_clock_start(&store->clock, store->engine->newest_ms);
    if (getrandom(store->boot, sizeof store->boot, 0) != (ssize_t)sizeof store->boot) {
        snprintf(error, error_size, "store %s: the system gives no random bytes", store->config.path);
        return false;
    }
    if (!recover(store, error, error_size))
        return false;
    struct engine_status now;
    store->engine->operations->status(store->engine, &now);
    store->status = (struct store_status){.full = !now.has_room,
                                          .used_bytes = now.used_bytes,
                                          .max_bytes = now.max_bytes,
                                          .in_progress = now.in_progress,
                                          .completed = now.completed,
                                          .unknown = now.unknown,
                                          .oldest_unknown_ms = now.oldest_unknown_ms};
    if (pthread_create(&store->thread, NULL, writer_main, store) != 0) {
        snprintf(error, error_size, "store %s: cannot start its thread", store->config.path);
        return false;
    }
    return true;
}

struct store *store_open(const struct store_config *config, char *error, size_t error_size)
{
    struct store *store = STORE_NEW(struct store);
    store->config = *config;
    store->config.engine = copy(config->engine);
    store->config.path = copy(config->path ? config->path : "(memory)");
    store->config.crash_at = copy(config->crash_at);
    store->lock = (struct store_lock){-1, -1};
    open_threads_data(store);
    if (start(store, error, error_size))
        return store;
    free_store(store);
    return NULL;
}

#define CLOSE_MARGIN_MS 250 /* for the writer's own look at the clock */

static struct timespec deadline_after(int64_t timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    return until;
}

bool store_close(struct store *store, int64_t timeout_ms)
{
    pthread_mutex_lock(&store->queue_lock);
    store->closing = true;
    store->close_by_ms = boot_time_ms() + timeout_ms;
    writer_wake(store);
    pthread_mutex_unlock(&store->queue_lock);
    struct timespec until = deadline_after(timeout_ms + CLOSE_MARGIN_MS);
    if (pthread_timedjoin_np(store->thread, NULL, &until) != 0) {
        store_say(store, STORE_LOG_ERROR, "the disk does not answer: the store cannot be closed");
        return false; /* its thread hangs in there and holds everything */
    }
    bool written = store->written;
    if (store->abandoned) {
        store_say(store, STORE_LOG_ERROR, "the store was closed while it was in use");
        return false;
    }
    if (!written)
        store_say(store, STORE_LOG_ERROR,
                  "outcomes could not be written: their actions will be unknown at the next start");
    free_store(store);
    return written;
}

/* ---- control threads -------------------------------------------------------------------------- */

void store_status(struct store *store, struct store_status *out)
{
    pthread_mutex_lock(&store->status_lock);
    *out = store->status;
    pthread_mutex_unlock(&store->status_lock);
    out->waiters = atomic_load(&store->writer.lines.waiting);
    out->now_ms = store_clock_now_ms(&store->clock);
    out->look_ups_fail = atomic_load_explicit(&store->look_ups_fail, memory_order_relaxed);
    if (out->look_ups_fail && !out->failing) {
        out->failing = true;
        out->failing_since_ms = out->now_ms;
    }
}

/* Runs it on the writer's thread, between two groups. False: not within the time; then it is the writer's to free. */
static bool control(struct store *store, struct control *control, int64_t timeout_ms)
{
    struct timespec until = deadline_after(timeout_ms);
    int failed = 0;
    pthread_mutex_lock(&store->queue_lock);
    *store->controls_end = control;
    store->controls_end = &control->next;
    writer_wake(store);
    while (!control->done && failed != ETIMEDOUT)
        failed = pthread_cond_timedwait(&store->control_over, &store->queue_lock, &until);
    bool done = control->done;
    control->left = !done;
    pthread_mutex_unlock(&store->queue_lock);
    return done;
}

#define SCOPE_NAME_MAX 512

struct declaration {
    struct control control; /* first: the writer knows it by this */
    char scope_name[SCOPE_NAME_MAX];
    uint8_t digest[STORE_HASH_LEN];
    bool same;
    int64_t until_ms;
};

static bool is_declared(const struct record_scope *scope)
{
    static const uint8_t nothing[STORE_HASH_LEN];
    return memcmp(scope->digest, nothing, STORE_HASH_LEN) != 0;
}

static enum engine_error declare(struct store *store, struct declaration *declaration, struct record_scope *value)
{
    struct scope *scope = scope_intern(&store->writer, declaration->scope_name);
    enum engine_error error = scope_load(store, scope);
    if (error != ENGINE_OK)
        return error;
    *value = scope->value;
    declaration->same = !is_declared(value) || memcmp(value->digest, declaration->digest, STORE_HASH_LEN) == 0;
    declaration->until_ms = value->expires_ms > store_clock_now_ms(&store->clock) ? value->expires_ms : 0;
    memcpy(value->digest, declaration->digest, STORE_HASH_LEN);
    return store->engine->operations->put_scope(store->engine, scope->name, value);
}

static void run_declare(struct store *store, struct control *control)
{
    struct declaration *declaration = (struct declaration *)control;
    struct record_scope value;
    enum engine_error error = writer_begin(store);
    if (error == ENGINE_OK) {
        error = declare(store, declaration, &value);
        if (error == ENGINE_OK)
            error = store->engine->operations->commit(store->engine, store_clock_now_ms(&store->clock));
        else
            store->engine->operations->abort(store->engine);
    }
    if (error == ENGINE_OK)
        scope_intern(&store->writer, declaration->scope_name)->value = value;
    else
        store_say(store, STORE_LOG_WARNING, "the store could not note what identifies the actions of a scope");
}

enum store_declared store_declare_scope(struct store *store, const char *scope_name,
                                        const uint8_t digest[STORE_HASH_LEN], int64_t timeout_ms, int64_t *until_ms)
{
    struct declaration *declaration = STORE_NEW(struct declaration);
    declaration->control.run = run_declare;
    declaration->same = true;
    snprintf(declaration->scope_name, sizeof declaration->scope_name, "%s", scope_name);
    memcpy(declaration->digest, digest, STORE_HASH_LEN);
    *until_ms = 0;
    if (!control(store, &declaration->control, timeout_ms))
        return STORE_DECLARED_NOT_ANSWERED;
    bool same = declaration->same;
    if (!same)
        *until_ms = declaration->until_ms;
    free(declaration);
    return same ? STORE_DECLARED_SAME : STORE_DECLARED_CHANGED;
}

/* ---- for tests -------------------------------------------------------------------------------- */

struct engine *store_engine_of(struct store *store)
{
    return store->engine;
}

void store_move_clock(struct store *store, int64_t ms)
{
    atomic_fetch_add(&store->clock.offset_ms, ms);
}
