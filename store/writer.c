/*
 * writer.c - the store's thread: what is queued becomes groups, a group becomes one transaction.
 *
 * One turn: take what is queued and what was cancelled, answer from memory what can be, make a group of the rest, run
 * it, sweep a little. While the disk syncs, the next group gathers: there is no timer for it. No transaction is open
 * while the thread waits.
 *
 * A group that fails as a whole counts for nothing and is tried again op by op, so that one op never fails its
 * neighbours. What fails even alone is answered FAILED; endings are kept and written again with growing delays
 * (task.c). When the engine refuses to begin, it is reopened, with all look-ups held off. When several single commits
 * in a row have failed, the disk is at fault and not an op: the others are not tried in this turn.
 */
#include "store/writer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define MAINTAIN_MS       1000
#define FIRST_RETRY_MS    100
#define LAST_RETRY_MS     5000
#define FAILURES_IN_A_ROW 3
#define SWEEP_WITH_GROUP  16 /* and two for each op: sweeping keeps pace without making a group slow */

/* ---- what is to do ---------------------------------------------------------------------------- */

void writer_wake(struct store *store)
{
    if (!store->sleeping)
        return;
    store->sleeping = false;
    pthread_cond_signal(&store->wake);
}

static int64_t next_turn_ms(const struct store *store)
{
    const struct writer *writer = &store->writer;
    int64_t at_ms = writer->maintain_at_ms;
    if ((writer->lines.kept || writer->failing) && writer->retry_at_ms < at_ms)
        at_ms = writer->retry_at_ms;
    if (store->closing && store->close_by_ms < at_ms)
        at_ms = store->close_by_ms;
    return at_ms;
}

/* The queue's lock is held. */
static void sleep_until(struct store *store, int64_t at_ms)
{
    int64_t wait_ms = at_ms - boot_time_ms();
    if (wait_ms <= 0)
        return;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += wait_ms / 1000;
    until.tv_nsec += wait_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    store->sleeping = true;
    int rc = 0;
    while (store->sleeping && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&store->wake, &store->queue_lock, &until);
    store->sleeping = false;
}

/* Waits for work, takes what is queued; returns whether the store is closing. */
static bool gather(struct store *store)
{
    struct writer *writer = &store->writer;
    pthread_mutex_lock(&store->queue_lock);
    bool busy = store->queue || store->has_cancelled || store->controls || writer->pending || writer->sweep_more;
    busy |= store->closing && !writer->knows_closing; /* it may have been said while nobody slept */
    writer->knows_closing = store->closing;
    if (!busy)
        sleep_until(store, next_turn_ms(store));
    if (store->queue) {
        *writer->pending_end = store->queue;
        writer->pending_end = store->queue_end;
        store->queue = NULL;
        store->queue_end = &store->queue;
        store_crash_point(store, "op-queued");
    }
    bool closing = store->closing;
    pthread_mutex_unlock(&store->queue_lock);
    return closing;
}

static void leave_line(struct store *store, struct store_op *op)
{
    struct action *action = lines_find(&store->writer.lines, &op->id);
    assert(action);
    line_leave(&store->writer.lines, action, op);
    answer_op(op, &(struct store_result){.answer = STORE_CANCELLED, .state = STORE_IN_PROGRESS, .waited = true});
}

/* Those in a line leave it; those still queued are met with their mark on. */
static void take_cancelled(struct store *store)
{
    pthread_mutex_lock(&store->queue_lock);
    bool any = store->has_cancelled;
    store->has_cancelled = false;
    pthread_mutex_unlock(&store->queue_lock);
    if (!any)
        return;
    pthread_mutex_lock(&store->handles_lock);
    for (struct store_handle *handle = store->handles; handle; handle = handle->next)
        for (struct store_op *op = handle_take_cancelled(handle), *next; op; op = next) {
            next = op->cancel_next;
            if (op->place == PLACE_LINE)
                leave_line(store, op);
        }
    pthread_mutex_unlock(&store->handles_lock);
}

static void run_controls(struct store *store)
{
    pthread_mutex_lock(&store->queue_lock);
    struct control *controls = store->controls;
    store->controls = NULL;
    store->controls_end = &store->controls;
    pthread_mutex_unlock(&store->queue_lock);
    for (struct control *control = controls, *next; control; control = next) {
        next = control->next;
        control->run(store, control);
        pthread_mutex_lock(&store->queue_lock);
        bool left = control->left;
        control->done = true; /* and with that it is its owner's again, if that is still there */
        pthread_cond_broadcast(&store->control_over);
        pthread_mutex_unlock(&store->queue_lock);
        if (left)
            free(control);
    }
}

/* ---- making a group --------------------------------------------------------------------------- */

static struct task *add_task(struct writer *writer, struct action *action, struct store_op *op)
{
    struct task *task = &writer->tasks[writer->task_count++];
    bool own = op == action->kept;
    /* Known before any try, because the first may fail before the op is even looked at. */
    bool owns = op->token == action->token && (own || action->token != 0);
    *task = (struct task){.op = op, .action = action, .own = own, .owns = owns};
    action->busy = true;
    writer->group_bytes += op->response ? op->response->len : 0;
    return task;
}

static bool is_group_full(const struct writer *writer)
{
    return writer->task_count == GROUP_OPS_MAX || writer->group_bytes >= GROUP_BYTES_MAX;
}

/* What was granted must end and is kept however much it is; so it is the grants that stop. */
static bool keeps_enough(const struct writer *writer)
{
    return writer->lines.kept >= KEPT_MAX || writer->lines.kept_bytes >= KEPT_BYTES_MAX;
}

enum sorting { SORTED_ANSWERED, SORTED_TASK, SORTED_LATER };

/* Where one op goes that is not decided yet. */
static enum sorting sort_op(struct store *store, struct store_op *op, bool closing)
{
    struct writer *writer = &store->writer;
    struct action *action = lines_find(&writer->lines, &op->id);
    bool reserves = op->verb == STORE_RESERVE;
    struct store_result refusal = {.answer = STORE_FAILED, .failure = STORE_FAILURE_CLOSING};
    if (reserves && atomic_load_explicit(&op->cancelled, memory_order_relaxed)) {
        answer_op(op, &(struct store_result){.answer = STORE_CANCELLED});
        return SORTED_ANSWERED;
    }
    if (reserves && closing) {
        answer_op(op, &refusal);
        return SORTED_ANSWERED;
    }
    if (action && action->busy)
        return SORTED_LATER;
    if (reserves && action && answer_from_memory(store, action, op))
        return SORTED_ANSWERED;
    if (reserves && writer->failing && keeps_enough(writer)) {
        refusal.failure = STORE_FAILURE_IO;
        answer_op(op, &refusal);
        return SORTED_ANSWERED;
    }
    add_task(writer, lines_get(&writer->lines, &op->id), op);
    return SORTED_TASK;
}

static void form_group(struct store *store, bool closing)
{
    struct writer *writer = &store->writer;
    struct store_op **at = &writer->pending;
    while (*at && !is_group_full(writer)) {
        struct store_op *op = *at, *next = op->queue_next;
        switch (sort_op(store, op, closing)) {
        case SORTED_ANSWERED: /* it may be gone already */
        case SORTED_TASK:
            *at = next;
            break;
        case SORTED_LATER:
            at = &op->queue_next;
            break;
        }
    }
    if (!*at) /* went through all of it: the end may have been taken out */
        writer->pending_end = at;
}

static void form_kept_group(struct writer *writer)
{
    struct action *action = writer->lines.kept_first;
    for (; action && !is_group_full(writer); action = action->kept_next)
        if (!action->busy)
            add_task(writer, action, action->kept);
}

/* ---- transactions ----------------------------------------------------------------------------- */

static void set_failing(struct store *store, bool failing)
{
    struct writer *writer = &store->writer;
    if (failing && writer->retry_delay_ms == 0) {
        writer->retry_delay_ms = FIRST_RETRY_MS;
        writer->retry_at_ms = boot_time_ms() + FIRST_RETRY_MS;
    }
    if (!failing)
        writer->retry_delay_ms = writer->retry_at_ms = 0;
    if (writer->failing == failing)
        return;
    writer->failing = failing;
    store_say(store, failing ? STORE_LOG_ERROR : STORE_LOG_WARNING,
              failing ? "the store cannot write: new keyed requests are refused until it can again"
                      : "the store can write again");
}

/* Whoever reads has ended, and nobody begins: look-ups that come find the lock taken and are sent on to us. People
 * wait.
 */
static void hold_readers(struct store *store)
{
    pthread_mutex_lock(&store->handles_lock);
    for (struct store_handle *handle = store->handles; handle; handle = handle->next)
        pthread_mutex_lock(&handle->look_up_lock);
    pthread_mutex_lock(&store->people_lock);
}

static void let_readers(struct store *store)
{
    pthread_mutex_unlock(&store->people_lock);
    for (struct store_handle *handle = store->handles; handle; handle = handle->next)
        pthread_mutex_unlock(&handle->look_up_lock);
    pthread_mutex_unlock(&store->handles_lock);
}

static enum engine_error reopen(struct store *store)
{
    hold_readers(store);
    enum engine_error error = store->engine->operations->reopen(store->engine);
    let_readers(store);
    if (!store->writer.failing) /* else it has been said */
        store_say(store, error == ENGINE_OK ? STORE_LOG_WARNING : STORE_LOG_ERROR,
                  error == ENGINE_OK ? "the store's engine refused to work and was reopened"
                                     : "the store's engine refuses to work and cannot be reopened");
    return error;
}

enum engine_error writer_begin(struct store *store)
{
    enum engine_error error = store->engine->operations->begin(store->engine);
    store->writer.wrote = false;
    if (error == ENGINE_OK || boot_time_ms() < store->writer.reopen_at_ms)
        return error;
    error = reopen(store);
    if (error == ENGINE_OK)
        error = store->engine->operations->begin(store->engine);
    if (error != ENGINE_OK)
        store->writer.reopen_at_ms = boot_time_ms() + FIRST_RETRY_MS;
    return error;
}

static unsigned power_of_two(uint64_t value, unsigned buckets)
{
    unsigned power = 0;
    while (value > 1 && power + 1 < buckets) {
        value >>= 1;
        power++;
    }
    return power;
}

/* By powers of two, from below 64 µs. */
static void count_commit(struct store *store, int64_t nanoseconds, unsigned ops)
{
    struct store_status *status = &store->status;
    const unsigned buckets = sizeof status->commit_ns_buckets / sizeof *status->commit_ns_buckets;
    unsigned bucket = nanoseconds < 64000 ? 0 : 1 + power_of_two((uint64_t)nanoseconds / 64000, buckets - 1);
    pthread_mutex_lock(&store->status_lock);
    status->commits++;
    status->commit_ops += ops;
    status->commit_ns_buckets[bucket]++;
    status->commit_ns_sum += (uint64_t)nanoseconds;
    if (ops)
        status->group_size_buckets[power_of_two(ops, sizeof status->group_size_buckets /
                                                         sizeof *status->group_size_buckets)]++;
    pthread_mutex_unlock(&store->status_lock);
}

static int64_t nanoseconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Ends the transaction that is open, as `error` demands. */
static enum engine_error end_transaction(struct store *store, enum engine_error error, unsigned ops, bool *ambiguous)
{
    struct writer *writer = &store->writer;
    const struct engine_operations *engine = store->engine->operations;
    *ambiguous = false;
    if (error != ENGINE_OK || !writer->wrote) {
        engine->abort(store->engine);
    } else {
        int64_t start = nanoseconds_now();
        error = engine->commit(store->engine, store_clock_now_ms(&store->clock));
        *ambiguous = error != ENGINE_OK;
        if (error == ENGINE_OK)
            count_commit(store, nanoseconds_now() - start, ops);
        if (error != ENGINE_FULL)
            set_failing(store, error != ENGINE_OK);
    }
    scopes_transaction_over(writer, error == ENGINE_OK);
    return error;
}

/* Expired records, as part of whatever is written anyway. */
static enum engine_error sweep(struct store *store, unsigned limit)
{
    struct writer *writer = &store->writer;
    unsigned swept = 0;
    if (limit > writer->sweep_limit)
        limit = writer->sweep_limit;
    enum engine_error error =
        store->engine->operations->sweep(store->engine, store_clock_now_ms(&store->clock), limit, &swept);
    if (swept)
        store_crash_point(store, "sweep");
    writer->wrote |= swept > 0;
    writer->sweep_more = error == ENGINE_OK && swept >= limit;
    return error;
}

static void update_status(struct store *store)
{
    const struct writer *writer = &store->writer;
    struct engine_status now;
    store->engine->operations->status(store->engine, &now);
    pthread_mutex_lock(&store->status_lock);
    struct store_status *status = &store->status;
    if (writer->failing && !status->failing)
        status->failing_since_ms = store_clock_now_ms(&store->clock);
    else if (!writer->failing)
        status->failing_since_ms = 0;
    status->failing = writer->failing;
    status->full = !now.has_room;
    status->used_bytes = now.used_bytes;
    status->max_bytes = now.max_bytes;
    status->in_progress = now.in_progress;
    status->completed = now.completed;
    status->unknown = now.unknown;
    status->oldest_unknown_ms = now.oldest_unknown_ms;
    pthread_mutex_unlock(&store->status_lock);
}

/* ---- running a group -------------------------------------------------------------------------- */

/* One transaction for `count` tasks. On error nothing of them counts. */
static enum engine_error run_tasks(struct store *store, struct task *tasks, unsigned count, bool with_sweep)
{
    bool ambiguous = false;
    enum engine_error error = writer_begin(store);
    if (error != ENGINE_OK) {
        set_failing(store, true);
        return error;
    }
    for (unsigned i = 0; i < count && error == ENGINE_OK; i++)
        error = task_run(store, &tasks[i]);
    if (error == ENGINE_OK && with_sweep && store->writer.wrote)
        error = sweep(store, SWEEP_WITH_GROUP + 2 * count);
    error = end_transaction(store, error, count, &ambiguous);
    for (unsigned i = 0; i < count && error != ENGINE_OK; i++) {
        task_reset(&tasks[i]);
        tasks[i].ambiguous |= ambiguous;
    }
    return error;
}

static bool could_go_bare(const struct task *task)
{
    const struct store_op *op = task->op;
    return !task->bare && op->response &&
           (op->verb == STORE_COMPLETE || op->verb == STORE_ABANDON || op->verb == STORE_RELEASE);
}

/* A reader whose thread the system has stopped holds back whatever was freed since it began, which in a small store may
 * be all the room there is: it is waited for. A response that does not fit then is left out: the ending counts more. */
static enum engine_error run_alone(struct store *store, struct task *task)
{
    enum engine_error error = run_tasks(store, task, 1, false);
    if (error == ENGINE_FULL) {
        hold_readers(store);
        let_readers(store);
        error = run_tasks(store, task, 1, false);
    }
    if (error == ENGINE_FULL && could_go_bare(task)) {
        task->bare = true;
        error = run_tasks(store, task, 1, false);
    }
    return error;
}

/* Those who queued behind a reservation that could not be written are told the same: they would meet the same disk, one
 * after the other. */
static void fail_followers(struct store *store, const struct action *action, enum engine_error error)
{
    struct writer *writer = &store->writer;
    struct store_result failed = failed_result(error);
    struct store_op **at = &writer->pending;
    while (*at) {
        struct store_op *op = *at;
        if (op->verb == STORE_RESERVE && lines_find(&writer->lines, &op->id) == action) {
            *at = op->queue_next;
            answer_op(op, &failed);
        } else {
            at = &op->queue_next;
        }
    }
    writer->pending_end = at;
}

static void run_one_by_one(struct store *store)
{
    struct writer *writer = &store->writer;
    unsigned in_a_row = 0;
    for (unsigned i = 0; i < writer->task_count; i++) {
        struct task *task = &writer->tasks[i];
        enum engine_error error = in_a_row < FAILURES_IN_A_ROW ? run_alone(store, task) : ENGINE_IO;
        in_a_row = error == ENGINE_IO ? in_a_row + 1 : 0;
        bool reserves = task->op->verb == STORE_RESERVE;
        if (error == ENGINE_OK) {
            update_status(store);
            task_finish(store, task);
        } else {
            task_fail(store, task, error);
            if (reserves)
                fail_followers(store, task->action, error);
        }
        handle_deliver_all(store); /* not after the tries of the others */
    }
}

static void run_group(struct store *store)
{
    struct writer *writer = &store->writer;
    enum engine_error error = run_tasks(store, writer->tasks, writer->task_count, true);
    if (error == ENGINE_OK) {
        if (writer->wrote)
            store_crash_point(store, "committed-not-delivered");
        update_status(store); /* before anybody hears of it */
        for (unsigned i = 0; i < writer->task_count; i++)
            task_finish(store, &writer->tasks[i]);
        handle_deliver_all(store);
    } else {
        run_one_by_one(store);
    }
    for (unsigned i = 0; i < writer->task_count; i++) {
        writer->tasks[i].action->busy = false;
        lines_drop_idle(&writer->lines, writer->tasks[i].action);
    }
    writer->task_count = 0;
    writer->group_bytes = 0;
    update_status(store);
}

/* ---- the rest of a turn ----------------------------------------------------------------------- */

/* A commit of nothing. Does the disk take it again? And what the last one freed can be used after it. */
static void try_commit(struct store *store)
{
    bool ambiguous;
    if (writer_begin(store) != ENGINE_OK)
        return;
    store->writer.wrote = true;
    end_transaction(store, ENGINE_OK, 0, &ambiguous);
}

/* A transaction of its own for sweeping; if there is no room for so much, for less of it the next time. */
static void sweep_alone(struct store *store)
{
    struct writer *writer = &store->writer;
    bool ambiguous;
    writer->sweep_more = false;
    if (!store->engine->operations->is_due(store->engine, store_clock_now_ms(&store->clock)) ||
        writer_begin(store) != ENGINE_OK)
        return;
    enum engine_error error = end_transaction(store, sweep(store, SWEEP_MAX), 0, &ambiguous);
    if (error == ENGINE_OK) {
        writer->sweep_limit = writer->sweep_limit * 2 < SWEEP_MAX ? writer->sweep_limit * 2 : SWEEP_MAX;
    } else {
        writer->sweep_more = error == ENGINE_FULL && writer->sweep_limit > 1;
        writer->sweep_limit = writer->sweep_limit > 1 ? writer->sweep_limit / 2 : 1;
        if (error == ENGINE_FULL)
            try_commit(store); /* what the last transaction freed can be used from the next but one on */
    }
    update_status(store);
}

static void retry(struct store *store)
{
    struct writer *writer = &store->writer;
    if ((!writer->lines.kept && !writer->failing) || boot_time_ms() < writer->retry_at_ms)
        return;
    size_t before = writer->lines.kept;
    if (before) {
        form_kept_group(writer);
        run_group(store);
    } else {
        try_commit(store); /* does the disk take it again? */
    }
    update_status(store);
    if (!writer->failing && writer->lines.kept < before)
        return; /* it goes forward */
    int64_t delay_ms = writer->retry_delay_ms ? 2 * writer->retry_delay_ms : FIRST_RETRY_MS;
    writer->retry_delay_ms = delay_ms < LAST_RETRY_MS ? delay_ms : LAST_RETRY_MS;
    writer->retry_at_ms = boot_time_ms() + writer->retry_delay_ms;
}

static void maintain(struct store *store)
{
    struct writer *writer = &store->writer;
    if (boot_time_ms() < writer->maintain_at_ms)
        return;
    writer->maintain_at_ms = boot_time_ms() + MAINTAIN_MS;
    if (store->engine->operations->maintain(store->engine) != ENGINE_OK)
        set_failing(store, true);
    sweep_alone(store);
    update_status(store);
}

/* Waiters are sent away; owners may still end. True: the thread may go. */
static bool is_over(struct store *store)
{
    struct writer *writer = &store->writer;
    struct store_result closing = {
        .answer = STORE_FAILED, .failure = STORE_FAILURE_CLOSING, .state = STORE_IN_PROGRESS};
    for (size_t i = 0; i < writer->lines.chain_count && writer->lines.waiting; i++)
        for (struct action *action = writer->lines.chains[i]; action; action = action->next)
            answer_line(store, action, closing);
    handle_deliver_all(store);
    pthread_mutex_lock(&store->handles_lock);
    bool has_handles = store->handles != NULL;
    pthread_mutex_unlock(&store->handles_lock);
    pthread_mutex_lock(&store->queue_lock);
    bool has_queue = store->queue != NULL, late = boot_time_ms() >= store->close_by_ms;
    pthread_mutex_unlock(&store->queue_lock);
    if (writer->retry_delay_ms > FIRST_RETRY_MS)
        writer->retry_at_ms = boot_time_ms() + (writer->retry_delay_ms = FIRST_RETRY_MS);
    bool has_kept = false; /* a grant that is to be taken back is nobody's outcome */
    for (const struct action *action = writer->lines.kept_first; action; action = action->kept_next)
        has_kept |= action->token != 0;
    store->written = !has_kept;
    store->abandoned = has_handles;
    return late || (!has_handles && !has_queue && !writer->pending && !has_kept);
}

void *writer_main(void *arg)
{
    struct store *store = arg;
    for (;;) {
        bool closing = gather(store);
        take_cancelled(store);
        run_controls(store);
        form_group(store, closing);
        handle_deliver_all(store); /* what needs no commit waits for none */
        if (store->writer.task_count)
            run_group(store);
        else if (store->writer.sweep_more)
            sweep_alone(store);
        retry(store);
        maintain(store);
        if (closing && is_over(store))
            return NULL;
    }
}
