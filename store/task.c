/*
 * task.c - one op of a group: what it does inside the transaction, and who is told what once that is committed.
 *
 * Inside, nothing in memory changes but the task itself (and ops in a line that are marked as passed over), so that an
 * aborted transaction leaves no trace. After the commit the action changes hands and answers go out, by the contract's
 * table "How an action ends".
 *
 * An owner's ending that cannot be written stays with the store as action->kept: its token stays held, repetitions are
 * answered from memory by the same law, and the writer tries again. A grant whose commit failed is taken back the same
 * way, because its record may be in the engine although nobody was told.
 */
#include "store/writer.h"

#include <assert.h>
#include <string.h>

/* ---- answers ---------------------------------------------------------------------------------- */

struct store_result failed_result(enum engine_error error)
{
    return (struct store_result){.answer = STORE_FAILED,
                                 .failure = error == ENGINE_FULL ? STORE_FAILURE_FULL : STORE_FAILURE_IO};
}

void answer_op(struct store_op *op, const struct store_result *result)
{
    op->result = *result;
    handle_answer(op);
}

void answer_line(struct store *store, struct action *action, struct store_result result)
{
    result.waited = true;
    result.token = 0;
    while (action->first) {
        struct store_op *op = action->first;
        line_leave(&store->writer.lines, action, op);
        store_bytes_ref(result.response);
        answer_op(op, &result);
    }
}

/* ---- from memory ------------------------------------------------------------------------------ */

/* The record as it will be when the kept ending is written. False: there will be none. */
static bool with_kept(const struct store *store, const struct action *action, struct record *record)
{
    *record = action->record;
    if (!action->kept)
        return true;
    struct ledger_input input = {.record = record,
                                 .holder = LEDGER_HELD,
                                 .owns = true,
                                 .now_ms = store_clock_now_ms(&store->clock),
                                 .boot = store->boot};
    struct ledger_verdict verdict = ledger_judge(&input, action->kept);
    return ledger_apply(record, &verdict);
}

static void stand_in_line(struct store *store, struct action *action, struct store_op *op, struct store_result busy)
{
    struct lines *lines = &store->writer.lines;
    if (action->waiting >= store->config.waiters_per_action || lines->waiting >= store->config.waiters) {
        answer_op(op, &busy);
        return;
    }
    line_join(lines, action, op);
    if (op->notice)
        handle_notice(op);
}

bool answer_from_memory(struct store *store, struct action *action, struct store_op *op)
{
    struct record record;
    if (!action->token)
        return false;
    bool has_record = with_kept(store, action, &record);
    struct ledger_input input = {.record = has_record ? &record : NULL,
                                 .holder = LEDGER_HELD,
                                 .has_room = true,
                                 .now_ms = store_clock_now_ms(&store->clock),
                                 .boot = store->boot};
    struct ledger_verdict verdict = ledger_judge(&input, op);
    struct store_bytes *response = action->kept ? action->kept->response : NULL;
    switch (verdict.step) {
    case LEDGER_WAIT:
        stand_in_line(store, action, op, verdict.result);
        return true;
    case LEDGER_KEEP:
        if (verdict.carries_response && !response)
            return false; /* it lies in the engine */
        if (verdict.carries_response)
            verdict.result.response = store_bytes_ref(response);
        answer_op(op, &verdict.result);
        return true;
    case LEDGER_INSERT:
    case LEDGER_REOPEN:
    case LEDGER_SETTLE:
    case LEDGER_RESTORE:
    case LEDGER_DELETE:
        return false; /* something must be written: the kept ending first */
    }
    assert(!"a step that ledger.h does not know");
    return false;
}

/* ---- inside the transaction ------------------------------------------------------------------- */

static struct record_text text_of(const char *string)
{
    return (struct record_text){string ? string : "", string ? strnlen(string, RECORD_STRING_MAX) : 0};
}

static struct record_opening opening_of(const struct store *store, const struct store_op *op, uint64_t token,
                                        int64_t now_ms)
{
    struct record_opening opening = {
        .id = op->id, .token = token, .since_ms = now_ms, .unknown_retention_ms = op->unknown_retention_ms};
    memcpy(opening.boot, store->boot, RECORD_BOOT_LEN);
    return opening;
}

static enum engine_error insert(struct store *store, const struct store_op *op, uint64_t token, int64_t now_ms,
                                struct decision *decision)
{
    struct record *record = &decision->record;
    *record = (struct record){.open = true, .opening = opening_of(store, op, token, now_ms)};
    record->reservation = (struct record_reservation){
        .id = op->id,
        .created_ms = now_ms,
        .key_source = op->about.key_source ? op->about.key_source : STORE_KEY_SENT,
        .route = text_of(op->about.route),
        .scope_name = text_of(op->about.scope_name),
        .task = text_of(op->about.task),
        .key = text_of(op->about.key),
    };
    memcpy(record->reservation.fingerprint, op->fingerprint, STORE_HASH_LEN);
    memcpy(record->reservation.content, op->content, STORE_HASH_LEN);
    enum engine_error error = store->engine->operations->insert(store->engine, &record->reservation, &record->opening);
    /* The texts are the asker's: they do not outlive its op. */
    record->reservation.route = record->reservation.scope_name = text_of(NULL);
    record->reservation.task = record->reservation.key = text_of(NULL);
    return error;
}

static enum engine_error take_step(struct store *store, const struct store_op *op, uint64_t token, int64_t now_ms,
                                   struct decision *decision)
{
    const struct engine_operations *engine = store->engine->operations;
    struct record *record = &decision->record;
    struct ledger_verdict *verdict = &decision->verdict;
    store->writer.wrote |= verdict->step != LEDGER_KEEP;
    switch (verdict->step) {
    case LEDGER_KEEP:
        return ENGINE_OK;
    case LEDGER_INSERT:
        verdict->result.token = token;
        return insert(store, op, token, now_ms, decision);
    case LEDGER_REOPEN:
        verdict->result.token = token;
        record->open = true;
        record->opening = opening_of(store, op, token, now_ms);
        return engine->reopen_record(store->engine, record, &record->opening);
    case LEDGER_SETTLE:
        return engine->settle(store->engine, record, &verdict->outcome, verdict->keeps_response ? NULL : op->response,
                              verdict->keeps_response);
    case LEDGER_RESTORE:
        return engine->restore(store->engine, record);
    case LEDGER_DELETE:
        return engine->erase(store->engine, record);
    case LEDGER_WAIT:
        break;
    }
    assert(!"nobody waits for what is decided in a transaction");
    return ENGINE_IO;
}

static enum ledger_holder holder_of(const struct store *store, const struct action *action, const struct record *record)
{
    if (!record->open || (action->token && record->opening.token == action->token))
        return LEDGER_HELD;
    bool same_boot = memcmp(record->opening.boot, store->boot, RECORD_BOOT_LEN) == 0;
    if (same_boot && action->ghost_from && record->opening.token >= action->ghost_from)
        return LEDGER_NEVER_GRANTED;
    return LEDGER_LOST;
}

static enum engine_error look_for_others(struct store *store, const struct store_op *op,
                                         const struct decision *decision, int64_t now_ms, bool *found)
{
    *found = false;
    if (op->verb != STORE_RESERVE || !op->reject_other_identity)
        return ENGINE_OK;
    if (decision->had_record && !ledger_is_expired(&decision->record, now_ms))
        return ENGINE_OK;
    return store->engine->operations->find_other(store->engine, &op->id, op->content, now_ms, found);
}

/* Puts the question to the ledger and takes the step; once more if a repair came first. */
static enum engine_error ask(struct store *store, const struct task *task, const struct store_op *op, uint64_t token,
                             struct decision *decision)
{
    const struct engine_operations *engine = store->engine->operations;
    int64_t now_ms = store_clock_now_ms(&store->clock);
    struct ledger_input input = {.owns = task->owns, .now_ms = now_ms, .boot = store->boot};
    do {
        enum engine_error error = engine->find(store->engine, &op->id, &decision->record, &decision->had_record);
        if (error == ENGINE_OK)
            error = look_for_others(store, op, decision, now_ms, &input.other_identity);
        if (error != ENGINE_OK)
            return error;
        input.record = decision->had_record ? &decision->record : NULL;
        if (input.record)
            input.holder = holder_of(store, task->action, input.record);
        /* What is handed on takes the room of what ended. */
        input.has_room = store->engine->has_room || op != task->op;
        decision->verdict = ledger_judge(&input, op);
        if (decision->verdict.carries_response)
            error = engine->response(store->engine, input.record, &decision->verdict.result.response);
        if (error == ENGINE_OK)
            error = take_step(store, op, token, now_ms, decision);
        if (error != ENGINE_OK)
            return error;
    } while (decision->verdict.again);
    return ENGINE_OK;
}

static bool is_grant(const struct decision *decision)
{
    enum store_answer answer = decision->verdict.result.answer;
    return answer == STORE_GRANTED || answer == STORE_GRANTED_UNKNOWN;
}

static enum engine_error expect_expiry(struct store *store, struct scope *scope, const struct decision *decision)
{
    if (decision->verdict.step != LEDGER_SETTLE || !scope)
        return ENGINE_OK;
    return scope_expects(store, scope, decision->verdict.outcome.expires_ms);
}

/* The same for what a person decided: nobody holds the action, so its scope is asked of the engine. */
static enum engine_error expect_resolved(struct store *store, const struct decision *decision)
{
    char name[RECORD_STRING_MAX + 1];
    if (decision->verdict.step != LEDGER_SETTLE)
        return ENGINE_OK;
    enum engine_error error = store->engine->operations->scope_name(store->engine, &decision->record, name);
    return error != ENGINE_OK ? error : expect_expiry(store, scope_intern(&store->writer, name), decision);
}

/* Is an execution to be handed on after this ending? */
static bool hands_on(const struct task *task)
{
    const struct store_op *op = task->op;
    const struct action *action = task->action;
    if (task->own || !task->owns || !action->first || task->decision.verdict.result.answer != STORE_DONE)
        return false;
    if (op->verb != STORE_RELEASE && op->verb != STORE_RESTORE)
        return false;
    return op->reason == STORE_REASON_WITHDRAWN || (op->reason == STORE_REASON_UNSENT && !action->unsent);
}

static struct store_op *next_heir(const struct action *action)
{
    struct store_op *op = action->first;
    while (op && (op->place == PLACE_PASSED || atomic_load_explicit(&op->no_grant, memory_order_relaxed) ||
                  atomic_load_explicit(&op->cancelled, memory_order_relaxed)))
        op = op->line_next;
    return op;
}

/* The longest-waiting executes next. One that the law answers otherwise (what is restored is unknown, and it would not
 * try again) has its answer and is passed over. */
static enum engine_error hand_on(struct store *store, struct task *task)
{
    struct store_op *op;
    task->hands_on = true;
    while ((op = next_heir(task->action))) {
        if (!task->heir_token)
            task->heir_token = store->engine->next_token++;
        if (!task->action->ghost_from)
            task->action->ghost_from = task->heir_token; /* until the commit has succeeded */
        task->heir_decision = (struct decision){0};
        enum engine_error error = ask(store, task, op, task->heir_token, &task->heir_decision);
        if (error != ENGINE_OK)
            return error;
        if (is_grant(&task->heir_decision)) {
            task->heir = op;
            return ENGINE_OK;
        }
        op->result = task->heir_decision.verdict.result;
        task->heir_decision = (struct decision){0};
        op->place = PLACE_PASSED;
    }
    return ENGINE_OK;
}

/* What the store kept has to be written before anything else is decided about the action. */
static enum engine_error write_kept(struct store *store, struct task *task)
{
    struct action *action = task->action;
    struct decision decision = {0};
    store->writer.wrote = true; /* as in task_run() */
    struct task kept = {.op = action->kept, .action = action, .own = true, .owns = true};
    enum engine_error error = ask(store, &kept, action->kept, 0, &decision);
    if (error == ENGINE_OK)
        error = expect_expiry(store, action->scope, &decision);
    task->wrote_kept = error == ENGINE_OK;
    return error;
}

static enum engine_error run_ending(struct store *store, struct task *task)
{
    struct store_op bare, *op = task->op;
    if (task->bare) {
        bare = (struct store_op){.verb = op->verb,
                                 .id = op->id,
                                 .token = op->token,
                                 .reason = op->reason,
                                 .not_kept = true,
                                 .not_happened = op->not_happened,
                                 .status = op->status,
                                 .retention_ms = op->retention_ms,
                                 .forwarded_until_ms = op->forwarded_until_ms,
                                 .to_state = op->to_state,
                                 .decision = op->decision};
        op = &bare;
    }
    enum engine_error error = ask(store, task, op, 0, &task->decision);
    if (error == ENGINE_OK && task->owns)
        error = expect_expiry(store, task->action->scope, &task->decision);
    if (error == ENGINE_OK && op->verb == STORE_RESOLVE)
        error = expect_resolved(store, &task->decision);
    if (error == ENGINE_OK && hands_on(task))
        error = hand_on(store, task);
    return error;
}

enum engine_error task_run(struct store *store, struct task *task)
{
    struct action *action = task->action;
    /* What an earlier try left may stand, but its commit was reported as failed: only a commit that succeeds makes it
     * durable. */
    store->writer.wrote |= task->ambiguous || task->own;
    if (action->kept && !task->own) {
        enum engine_error error = write_kept(store, task);
        if (error != ENGINE_OK)
            return error;
    }
    if (task->op->verb != STORE_RESERVE)
        return run_ending(store, task);
    if (!task->token)
        task->token = store->engine->next_token++;
    if (!action->ghost_from)
        action->ghost_from = task->token; /* until the commit has succeeded */
    return ask(store, task, task->op, task->token, &task->decision);
}

/* ---- after it --------------------------------------------------------------------------------- */

static void hold(struct writer *writer, struct action *action, const struct store_op *op,
                 const struct decision *decision)
{
    action->token = decision->verdict.result.token;
    action->ghost_from = 0;
    action->record = decision->record;
    action->scope = scope_intern(writer, op->about.scope_name);
}

/* What those who waited get of an ending that is written; the answer of the owner is at hand. */
static struct store_result told(const struct task *task)
{
    const struct store_op *op = task->op;
    struct store_result result = task->decision.verdict.result;
    result.response = op->response;
    result.not_kept = !op->response;
    result.status = op->status;
    switch (op->verb) {
    case STORE_COMPLETE:
        result.answer = STORE_REPLAY;
        return result;
    case STORE_ABANDON:
        result.answer = op->response || op->not_kept ? STORE_REPLAY : STORE_ENDED;
        result.reason = op->reason;
        result.not_kept = op->not_kept && !op->response;
        return result;
    case STORE_RELEASE:
    case STORE_RESTORE:
        result.answer = op->reason == STORE_REASON_STATUS ? STORE_REPLAY : STORE_ENDED;
        result.reason = op->reason;
        if (op->reason == STORE_REASON_STATUS)
            return result;
        result.not_kept = false;
        if (op->reason == STORE_REASON_PROBED) {
            result = task->decision.verdict.result;
            result.answer = op->not_happened ? STORE_BUSY : STORE_REPORT_UNKNOWN;
        }
        return result;
    case STORE_RESERVE:
    case STORE_RESOLVE:
    case STORE_FORGET:
        break;
    }
    assert(!"not an owner's verb");
    return result;
}

static void answer_passed(struct store *store, struct action *action)
{
    for (struct store_op *op = action->first, *next; op; op = next) {
        next = op->line_next;
        if (op->place != PLACE_PASSED)
            continue;
        line_leave(&store->writer.lines, action, op);
        op->result.waited = true;
        handle_answer(op);
    }
}

static void crown(struct store *store, struct task *task)
{
    struct action *action = task->action;
    struct store_op *heir = task->heir;
    store_crash_point(store, "handed-over");
    line_leave(&store->writer.lines, action, heir);
    hold(&store->writer, action, heir, &task->heir_decision);
    if (task->op->reason == STORE_REASON_UNSENT)
        action->unsent = true;
    task->heir_decision.verdict.result.waited = true;
    answer_op(heir, &task->heir_decision.verdict.result);
}

static void release_token(struct action *action)
{
    action->token = 0;
    action->ghost_from = 0;
    action->scope = NULL;
}

/* The owner has been answered; now the line. */
static void finish_line(struct store *store, struct task *task, struct store_bytes *response)
{
    struct action *action = task->action;
    if (task->heir) {
        answer_passed(store, action);
        crown(store, task);
        return;
    }
    answer_passed(store, action);
    release_token(action);
    action->unsent = false;
    if (!action->first)
        return;
    struct store_result result = {.answer = STORE_ENDED, .reason = STORE_REASON_LOST, .state = STORE_UNKNOWN};
    if (task->decision.verdict.result.answer == STORE_DONE)
        result = told(task);
    if (result.answer == STORE_REPORT_UNKNOWN)
        result.response = response;
    answer_line(store, action, result);
}

/* RESTORE after a probe: those who waited get what is recorded. Read before the token goes; an error leaves them
 * without. */
static struct store_bytes *recorded_response(struct store *store, const struct task *task)
{
    struct record record;
    struct store_bytes *response = NULL;
    bool found;
    const struct action *action = task->action;
    if (task->op->reason != STORE_REASON_PROBED || !action->first || !action->record.has_outcome ||
        !action->record.outcome.has_response)
        return NULL;
    enum engine_error error = store->engine->operations->peek(
        store->engine, &action->id, action->record.reservation.fingerprint, &record, &found, &response);
    return error == ENGINE_OK ? response : NULL;
}

static void finish_reserve(struct store *store, struct task *task)
{
    struct action *action = task->action;
    action->ghost_from = 0;
    if (is_grant(&task->decision)) {
        action->unsent = false;
        hold(&store->writer, action, task->op, &task->decision);
    }
    answer_op(task->op, &task->decision.verdict.result);
}

void task_finish(struct store *store, struct task *task)
{
    struct action *action = task->action;
    struct store_op *op = task->op;
    if (task->own || task->wrote_kept) {
        release_token(action);
        lines_forget_kept(&store->writer.lines, action);
        if (task->own)
            return;
    }
    if (op->verb == STORE_RESERVE) {
        finish_reserve(store, task);
        return;
    }
    if (op->verb == STORE_COMPLETE)
        store_crash_point(store, "completed-not-delivered");
    bool owned = task->owns && !task->wrote_kept;
    struct store_bytes *recorded = owned ? recorded_response(store, task) : NULL;
    /* The line before the owner: the op, its response and its reason are ours only until it is answered. */
    if (owned)
        finish_line(store, task, recorded);
    store_bytes_unref(recorded);
    answer_op(op, &task->decision.verdict.result);
}

void task_reset(struct task *task)
{
    store_bytes_unref(task->decision.verdict.result.response);
    store_bytes_unref(task->heir_decision.verdict.result.response);
    task->decision = task->heir_decision = (struct decision){0};
    task->heir = NULL;
    bool handed_on = task->hands_on;
    task->hands_on = task->wrote_kept = false;
    if (!handed_on)
        return;
    for (struct store_op *op = task->action->first; op; op = op->line_next)
        if (op->place == PLACE_PASSED) {
            store_bytes_unref(op->result.response);
            op->result = (struct store_result){0};
            op->place = PLACE_LINE;
        }
}

/* ---- when it could not be written ------------------------------------------------------------- */

/* An ending that the store keeps: those who waited are told from memory, but nobody can execute next. */
static void keep_ending(struct store *store, struct task *task, const struct store_result *failed)
{
    struct action *action = task->action;
    const struct store_op *op = task->op;
    lines_keep(&store->writer.lines, action, op);
    if (!action->first)
        return;
    bool tells = op->verb == STORE_COMPLETE || op->verb == STORE_ABANDON || op->reason == STORE_REASON_STATUS;
    if (!tells) {
        answer_line(store, action, *failed);
        return;
    }
    struct record record = action->record;
    struct ledger_input input = {.record = &record,
                                 .holder = LEDGER_HELD,
                                 .owns = true,
                                 .now_ms = store_clock_now_ms(&store->clock),
                                 .boot = store->boot};
    task->decision.verdict = ledger_judge(&input, op);
    answer_line(store, action, told(task));
}

static void fail_reserve(struct store *store, struct task *task)
{
    struct action *action = task->action;
    if (action->kept)
        return; /* its kept ending was not written either and will take the ghost away */
    if (!task->ambiguous) {
        action->ghost_from = 0;
        return;
    }
    struct store_op withdrawal = {.verb = STORE_RELEASE, .id = action->id, .reason = STORE_REASON_WITHDRAWN};
    lines_keep(&store->writer.lines, action, &withdrawal);
}

void task_fail(struct store *store, struct task *task, enum engine_error error)
{
    struct store_result failed = failed_result(error);
    task_reset(task);
    if (task->own)
        return;
    if (task->op->verb == STORE_RESERVE)
        fail_reserve(store, task);
    else if (task->owns && !task->action->kept)
        keep_ending(store, task, &failed);
    answer_op(task->op, &failed);
}
