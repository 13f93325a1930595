/*
 * handle.c - a worker's side of the store: submit, cancel, look up, deliver.
 *
 * Delivery: what a group answers to one worker is gathered, then: lock, append, write the eventfd only if nothing was
 * there yet, unlock. The worker takes the whole list out and runs the callbacks without the lock, notices before
 * answers, each in order. A callback may submit again or close its exchange.
 *
 * A look-up reads a snapshot on the worker's own thread and ends inside the call. It answers only what cannot have
 * changed since: records that have ended. What is in progress, absent, expired or unreadable is the writer's to decide.
 */
#include "store/handle.h"

#include "store/allocate.h"
#include "store/writer.h"

#include <assert.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct store_handle *store_handle_open(struct store *store)
{
    struct store_handle *handle = STORE_NEW(struct store_handle);
    handle->store = store;
    handle->notices_end = &handle->notices;
    handle->answers_end = &handle->answers;
    handle->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (handle->fd < 0)
        abort(); /* one per worker, at its start */
    pthread_mutex_init(&handle->lock, NULL);
    pthread_mutex_init(&handle->look_up_lock, NULL);
    pthread_mutex_lock(&store->handles_lock);
    handle->next = store->handles;
    if (handle->next)
        handle->next->prev = handle;
    store->handles = handle;
    pthread_mutex_unlock(&store->handles_lock);
    return handle;
}

void store_handle_close(struct store_handle *handle)
{
    struct store *store = handle->store;
    pthread_mutex_lock(&handle->lock); /* the writer looks into it until the very end */
    assert(handle->out == 0 && !handle->cancelled && !handle->answers && !handle->notices);
    pthread_mutex_unlock(&handle->lock);
    pthread_mutex_lock(&store->handles_lock);
    if (handle->prev)
        handle->prev->next = handle->next;
    else
        store->handles = handle->next;
    if (handle->next)
        handle->next->prev = handle->prev;
    /* Closing the store waits for its handles. With the last one gone the store may be freed: nothing of it is touched
     * after this lock. */
    pthread_mutex_lock(&store->queue_lock);
    writer_wake(store);
    pthread_mutex_unlock(&store->queue_lock);
    pthread_mutex_unlock(&store->handles_lock);
    close(handle->fd);
    pthread_mutex_destroy(&handle->lock);
    pthread_mutex_destroy(&handle->look_up_lock);
    free(handle);
}

int store_handle_fd(const struct store_handle *handle)
{
    return handle->fd;
}

int64_t store_now_ms(const struct store_handle *handle)
{
    return store_clock_now_ms(&handle->store->clock);
}

/* ---- there ------------------------------------------------------------------------------------ */

void store_submit(struct store_handle *handle, struct store_op *op)
{
    struct store *store = handle->store;
    assert(op->done);
    op->result = (struct store_result){0};
    op->handle = handle;
    op->queue_next = op->line_next = op->line_prev = op->notice_next = op->done_next = NULL;
    op->cancel_next = op->cancel_prev = NULL;
    op->place = PLACE_QUEUED;
    op->cancel_listed = op->answered = false;
    atomic_store_explicit(&op->cancelled, false, memory_order_relaxed);
    handle->out++;
    pthread_mutex_lock(&store->queue_lock);
    *store->queue_end = op;
    store->queue_end = &op->queue_next;
    writer_wake(store);
    pthread_mutex_unlock(&store->queue_lock);
}

void store_no_grant(struct store_op *op, bool no_grant)
{
    atomic_store_explicit(&op->no_grant, no_grant, memory_order_relaxed);
}

void store_cancel(struct store_handle *handle, struct store_op *op)
{
    struct store *store = handle->store;
    assert(op->handle == handle && op->verb == STORE_RESERVE);
    pthread_mutex_lock(&handle->lock);
    bool late = op->answered || atomic_exchange_explicit(&op->cancelled, true, memory_order_relaxed);
    if (!late) {
        op->cancel_listed = true;
        op->cancel_prev = NULL;
        op->cancel_next = handle->cancelled;
        if (handle->cancelled)
            handle->cancelled->cancel_prev = op;
        handle->cancelled = op;
    }
    pthread_mutex_unlock(&handle->lock);
    if (late)
        return;
    pthread_mutex_lock(&store->queue_lock);
    store->has_cancelled = true;
    writer_wake(store);
    pthread_mutex_unlock(&store->queue_lock);
}

/* ---- back ------------------------------------------------------------------------------------- */

static void ring(struct store_handle *handle)
{
    uint64_t one = 1;
    ssize_t written = write(handle->fd, &one, sizeof one);
    assert(written == sizeof one);
    (void)written;
}

static bool is_quiet(const struct store_handle *handle)
{
    return !handle->notices && !handle->answers;
}

void handle_notice(struct store_op *op)
{
    struct store_handle *handle = op->handle;
    pthread_mutex_lock(&handle->lock);
    bool was_quiet = is_quiet(handle);
    op->notice_next = NULL;
    *handle->notices_end = op;
    handle->notices_end = &op->notice_next;
    if (was_quiet)
        ring(handle);
    pthread_mutex_unlock(&handle->lock);
}

static void unlist_cancelled(struct store_handle *handle, struct store_op *op)
{
    if (op->cancel_prev)
        op->cancel_prev->cancel_next = op->cancel_next;
    else
        handle->cancelled = op->cancel_next;
    if (op->cancel_next)
        op->cancel_next->cancel_prev = op->cancel_prev;
    op->cancel_listed = false;
}

void handle_answer(struct store_op *op)
{
    struct store_handle *handle = op->handle;
    struct writer *writer = &handle->store->writer;
    assert(op->result.answer != STORE_NOT_ANSWERED);
    op->done_next = NULL;
    if (!handle->decided) {
        handle->decided_end = &handle->decided;
        handle->decided_next = writer->decided;
        writer->decided = handle;
    }
    *handle->decided_end = op;
    handle->decided_end = &op->done_next;
}

static void hand_over(struct store_handle *handle)
{
    pthread_mutex_lock(&handle->lock);
    bool was_quiet = is_quiet(handle);
    for (struct store_op *op = handle->decided; op; op = op->done_next) {
        assert(!op->answered);
        if (op->cancel_listed)
            unlist_cancelled(handle, op);
        op->answered = true;
    }
    *handle->answers_end = handle->decided;
    handle->answers_end = handle->decided_end;
    handle->decided = NULL;
    if (was_quiet)
        ring(handle); /* under the lock: once the worker has the ops it may close the handle */
    pthread_mutex_unlock(&handle->lock);
}

void handle_deliver_all(struct store *store)
{
    struct store_handle *handle = store->writer.decided, *next;
    store->writer.decided = NULL;
    for (; handle; handle = next) {
        next = handle->decided_next;
        hand_over(handle);
    }
}

struct store_op *handle_take_cancelled(struct store_handle *handle)
{
    pthread_mutex_lock(&handle->lock);
    struct store_op *taken = handle->cancelled;
    handle->cancelled = NULL;
    for (struct store_op *op = taken; op; op = op->cancel_next)
        op->cancel_listed = false;
    pthread_mutex_unlock(&handle->lock);
    return taken;
}

void store_handle_deliver(struct store_handle *handle)
{
    uint64_t count;
    ssize_t got = read(handle->fd, &count, sizeof count); /* nothing there: somebody called us without need */
    (void)got;
    pthread_mutex_lock(&handle->lock);
    struct store_op *notices = handle->notices, *answers = handle->answers;
    handle->notices = handle->answers = NULL;
    handle->notices_end = &handle->notices;
    handle->answers_end = &handle->answers;
    pthread_mutex_unlock(&handle->lock);
    for (struct store_op *op = notices, *next; op; op = next) {
        next = op->notice_next;
        op->notice(op);
    }
    for (struct store_op *op = answers, *next; op; op = next) {
        next = op->done_next; /* done() may free the op */
        handle->out--;
        op->done(op);
    }
}

/* ---- look-ups --------------------------------------------------------------------------------- */

static void note_look_up(struct store *store, bool failed)
{
    if (atomic_load_explicit(&store->look_ups_fail, memory_order_relaxed) != failed)
        atomic_store_explicit(&store->look_ups_fail, failed, memory_order_relaxed);
}

static bool judge_snapshot(struct store *store, struct store_op *op, const struct record *record,
                           struct store_bytes **response)
{
    struct ledger_input input = {
        .record = record, .holder = LEDGER_HELD, .now_ms = store_clock_now_ms(&store->clock), .boot = store->boot};
    struct ledger_verdict verdict = ledger_judge(&input, op);
    if (verdict.step != LEDGER_KEEP || (verdict.carries_response && !*response))
        return false;
    op->result = verdict.result;
    if (verdict.carries_response) {
        op->result.response = *response;
        *response = NULL;
    }
    return op->result.answer == STORE_REPLAY || op->result.answer == STORE_MISMATCH ||
           op->result.answer == STORE_REPORT_UNKNOWN;
}

bool store_look_up(struct store_handle *handle, struct store_op *op)
{
    struct store *store = handle->store;
    struct record record;
    struct store_bytes *response;
    bool found, known = false;
    assert(op->verb == STORE_RESERVE);
    if (pthread_mutex_trylock(&handle->look_up_lock) != 0)
        return false; /* the engine is being reopened */
    enum engine_error error =
        store->engine->operations->peek(store->engine, &op->id, op->fingerprint, &record, &found, &response);
    pthread_mutex_unlock(&handle->look_up_lock);
    note_look_up(store, error != ENGINE_OK);
    if (error == ENGINE_OK && found && !record.open)
        known = judge_snapshot(store, op, &record, &response);
    store_bytes_unref(response);
    return known;
}
