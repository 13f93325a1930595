/*
 * ledger.c - PURE. The law, verb by verb.
 *
 * RESERVE is judged in the contract's order: expired is absent; an own record answers first (mismatch before all, also
 * while in progress); only without one does another identity count. The four verbs of an owner write only while the
 * record is in progress with their token; else the owner has been fenced out, unless what it asks for is already
 * written (an earlier try whose commit was reported as failed): then they are done. The two verbs of a person never
 * touch what is in progress.
 */
#include "store/ledger.h"

#include <assert.h>
#include <string.h>

int64_t ledger_later(int64_t now_ms, int64_t duration_ms)
{
    if (duration_ms == STORE_FOREVER || duration_ms > STORE_FOREVER - now_ms)
        return STORE_FOREVER;
    return now_ms + duration_ms;
}

bool ledger_is_expired(const struct record *record, int64_t now_ms)
{
    return !record->open && record->outcome.expires_ms <= now_ms;
}

static enum store_state state_of(const struct record *record)
{
    return record->open ? STORE_IN_PROGRESS : record->outcome.state;
}

/* ---- verdicts --------------------------------------------------------------------------------- */

static void tell_outcome(struct store_result *result, const struct record_outcome *outcome)
{
    result->state = outcome->state;
    result->reason = outcome->reason;
    result->not_kept = outcome->not_kept;
    result->status = outcome->status;
    result->executions = outcome->executions;
    result->since_ms = outcome->since_ms;
    result->forwarded_until_ms = outcome->forwarded_until_ms;
    result->expires_ms = outcome->expires_ms;
}

static struct ledger_verdict answer(enum store_answer answer, const struct record *record)
{
    struct ledger_verdict verdict = {.step = LEDGER_KEEP, .result = {.answer = answer}};
    if (!record)
        return verdict;
    if (record->has_outcome)
        tell_outcome(&verdict.result, &record->outcome);
    verdict.result.state = state_of(record);
    verdict.result.created_ms = record->reservation.created_ms;
    if (record->open) {
        verdict.result.since_ms = record->opening.since_ms;
        verdict.result.expires_ms = STORE_FOREVER;
    }
    return verdict;
}

static struct ledger_verdict answer_with_response(enum store_answer kind, const struct record *record)
{
    struct ledger_verdict verdict = answer(kind, record);
    verdict.carries_response = record->outcome.has_response;
    return verdict;
}

static struct ledger_verdict repair(enum ledger_step step)
{
    return (struct ledger_verdict){.step = step, .again = true};
}

static struct ledger_verdict settle(const struct record *record, struct record_outcome outcome)
{
    struct ledger_verdict verdict = {.step = LEDGER_SETTLE, .outcome = outcome, .result = {.answer = STORE_DONE}};
    tell_outcome(&verdict.result, &outcome);
    verdict.result.created_ms = record->reservation.created_ms;
    return verdict;
}

static struct ledger_verdict erase(const struct record *record)
{
    struct ledger_verdict verdict = answer(STORE_DONE, record);
    verdict.step = LEDGER_DELETE;
    verdict.result.state = STORE_RELEASED;
    return verdict;
}

static struct ledger_verdict restore(const struct record *record)
{
    struct ledger_verdict verdict = {.step = LEDGER_RESTORE, .result = {.answer = STORE_DONE}};
    tell_outcome(&verdict.result, &record->outcome);
    verdict.result.created_ms = record->reservation.created_ms;
    return verdict;
}

/* ---- records that have to be put right first -------------------------------------------------- */

/* Nobody follows its execution any more. What an earlier execution answered stays with it. */
static struct ledger_verdict lose(const struct ledger_input *input)
{
    const struct record *record = input->record;
    struct record_outcome outcome = {0};
    if (record->has_outcome)
        outcome = record->outcome;
    bool same_boot = memcmp(record->opening.boot, input->boot, RECORD_BOOT_LEN) == 0;
    outcome.state = STORE_UNKNOWN;
    outcome.reason = same_boot ? STORE_REASON_LOST : STORE_REASON_CRASH;
    outcome.executions++;
    outcome.token = record->opening.token;
    outcome.since_ms = outcome.forwarded_until_ms = input->now_ms;
    outcome.expires_ms = ledger_later(input->now_ms, record->opening.unknown_retention_ms);
    struct ledger_verdict verdict = settle(record, outcome);
    verdict.again = true;
    verdict.keeps_response = record->has_outcome;
    return verdict;
}

/* False: nothing to repair. */
static bool needs_repair(const struct ledger_input *input, struct ledger_verdict *verdict)
{
    if (!input->record || !input->record->open)
        return false;
    switch (input->holder) {
    case LEDGER_HELD:
        return false;
    case LEDGER_NEVER_GRANTED:
        *verdict = repair(input->record->has_outcome ? LEDGER_RESTORE : LEDGER_DELETE);
        return true;
    case LEDGER_LOST:
        *verdict = lose(input);
        return true;
    }
    assert(!"a holder that ledger.h does not know");
    return false;
}

/* ---- RESERVE ---------------------------------------------------------------------------------- */

static struct ledger_verdict grant(const struct ledger_input *input, enum ledger_step step)
{
    struct ledger_verdict verdict = answer(STORE_GRANTED, NULL);
    if (!input->has_room) {
        verdict.result.answer = STORE_FAILED;
        verdict.result.failure = STORE_FAILURE_FULL;
        return verdict;
    }
    if (step == LEDGER_REOPEN)
        verdict = answer_with_response(STORE_GRANTED_UNKNOWN, input->record);
    else
        verdict.result.created_ms = verdict.result.since_ms = input->now_ms;
    verdict.step = step;
    verdict.result.state = STORE_IN_PROGRESS;
    return verdict;
}

static struct ledger_verdict reserve(const struct ledger_input *input, const struct store_op *op)
{
    const struct record *record = input->record;
    struct ledger_verdict verdict;
    if (!record || ledger_is_expired(record, input->now_ms))
        return input->other_identity ? answer(STORE_OTHER_IDENTITY, NULL) : grant(input, LEDGER_INSERT);
    if (record->open && input->holder == LEDGER_NEVER_GRANTED && needs_repair(input, &verdict))
        return verdict; /* counts as absent: nothing of it may speak */
    if (memcmp(record->reservation.fingerprint, op->fingerprint, STORE_HASH_LEN) != 0)
        return answer(STORE_MISMATCH, record);
    if (needs_repair(input, &verdict))
        return verdict;
    switch (state_of(record)) {
    case STORE_IN_PROGRESS:
        verdict = answer(STORE_BUSY, record);
        verdict.step = op->no_wait ? LEDGER_KEEP : LEDGER_WAIT;
        return verdict;
    case STORE_COMPLETED:
        return answer_with_response(STORE_REPLAY, record);
    case STORE_UNKNOWN:
        return op->retry_unknown ? grant(input, LEDGER_REOPEN) : answer_with_response(STORE_REPORT_UNKNOWN, record);
    case STORE_RELEASED:
        break;
    }
    assert(!"a state that is never stored");
    return verdict;
}

/* ---- the owner's verbs ------------------------------------------------------------------------ */

/* What all endings of an execution have in common. */
static struct record_outcome ending(const struct ledger_input *input, const struct store_op *op, enum store_state state)
{
    const struct record *record = input->record;
    assert(!op->response || op->response->len <= UINT32_MAX);
    return (struct record_outcome){
        .state = state,
        .reason = state == STORE_UNKNOWN ? op->reason : STORE_REASON_NONE,
        .status = op->status,
        .executions = (record->has_outcome ? record->outcome.executions : 0) + (op->reason != STORE_REASON_PROBED),
        .token = op->token,
        .since_ms = input->now_ms,
        .expires_ms = ledger_later(input->now_ms, op->retention_ms),
        .forwarded_until_ms = op->forwarded_until_ms ? op->forwarded_until_ms : input->now_ms,
        .has_response = op->response != NULL,
        .response_len = op->response ? (uint32_t)op->response->len : 0,
        .not_kept = op->not_kept && !op->response,
    };
}

static struct ledger_verdict complete(const struct ledger_input *input, const struct store_op *op)
{
    struct record_outcome outcome = ending(input, op, STORE_COMPLETED);
    outcome.not_kept = !op->response; /* a completed record without a response can only say that it has none */
    return settle(input->record, outcome);
}

static struct ledger_verdict abandon(const struct ledger_input *input, const struct store_op *op)
{
    return settle(input->record, ending(input, op, STORE_UNKNOWN));
}

/* An action that was unknown is never released by an attempt, unless the API itself said that nothing had happened. */
static struct ledger_verdict release(const struct ledger_input *input, const struct store_op *op)
{
    if (!input->record->has_outcome || op->not_happened)
        return erase(input->record);
    if (op->reason != STORE_REASON_STATUS)
        return restore(input->record);
    struct record_outcome outcome = ending(input, op, STORE_UNKNOWN);
    if (op->retention_ms == 0)
        outcome.expires_ms = ledger_later(input->now_ms, input->record->opening.unknown_retention_ms);
    return settle(input->record, outcome);
}

static struct ledger_verdict put_back(const struct ledger_input *input)
{
    return input->record->has_outcome ? restore(input->record) : erase(input->record);
}

/* The record is not in progress with the op's token. Was that our own doing, by a commit that was reported as failed?
 * Nobody but its owner takes away what is in progress. */
static struct ledger_verdict settled_before(const struct ledger_input *input, const struct store_op *op)
{
    const struct record *record = input->record;
    bool written = false;
    switch (op->verb) {
    case STORE_COMPLETE:
    case STORE_ABANDON:
        written =
            !record || (record->has_outcome && record->outcome.token == op->token); /* none: it has expired since */
        break;
    case STORE_RELEASE:
    case STORE_RESTORE:
        written = true;
        break;
    case STORE_RESERVE:
    case STORE_RESOLVE:
    case STORE_FORGET:
        break;
    }
    struct ledger_verdict verdict = answer(input->owns && written ? STORE_DONE : STORE_LOST, record);
    if (verdict.result.answer == STORE_DONE && !record)
        verdict.result.state = op->verb == STORE_COMPLETE  ? STORE_COMPLETED
                               : op->verb == STORE_ABANDON ? STORE_UNKNOWN
                                                           : STORE_RELEASED;
    return verdict;
}

static struct ledger_verdict end_execution(const struct ledger_input *input, const struct store_op *op)
{
    const struct record *record = input->record;
    struct ledger_verdict verdict;
    if (record && record->open && input->holder == LEDGER_NEVER_GRANTED && needs_repair(input, &verdict))
        return verdict;
    if (!record || !record->open || record->opening.token != op->token)
        return settled_before(input, op);
    switch (op->verb) {
    case STORE_COMPLETE:
        return complete(input, op);
    case STORE_RELEASE:
        return release(input, op);
    case STORE_ABANDON:
        return abandon(input, op);
    case STORE_RESTORE:
        return put_back(input);
    case STORE_RESERVE:
    case STORE_RESOLVE:
    case STORE_FORGET:
        break;
    }
    assert(!"not an owner's verb");
    return verdict;
}

/* ---- a person's verbs ------------------------------------------------------------------------- */

static struct ledger_verdict resolve(const struct ledger_input *input, const struct store_op *op)
{
    const struct record *record = input->record;
    struct ledger_verdict verdict;
    if (!record || ledger_is_expired(record, input->now_ms))
        return answer(STORE_REFUSED, NULL);
    if (needs_repair(input, &verdict))
        return verdict;
    if (state_of(record) != STORE_UNKNOWN)
        return answer(STORE_REFUSED, record);
    if (op->to_state == STORE_RELEASED)
        return erase(record);
    struct record_outcome outcome = ending(input, op, STORE_COMPLETED);
    outcome.executions = record->outcome.executions; /* a person executes nothing */
    outcome.forwarded_until_ms = record->outcome.forwarded_until_ms;
    outcome.token = record->outcome.token;
    outcome.not_kept = !op->response;
    if (op->decision)
        outcome.decision = (struct record_text){op->decision, strlen(op->decision)};
    return settle(record, outcome);
}

static struct ledger_verdict forget(const struct ledger_input *input)
{
    const struct record *record = input->record;
    struct ledger_verdict verdict;
    if (!record || ledger_is_expired(record, input->now_ms))
        return answer(STORE_REFUSED, NULL);
    if (needs_repair(input, &verdict))
        return verdict;
    return record->open ? answer(STORE_REFUSED, record) : erase(record);
}

struct ledger_verdict ledger_judge(const struct ledger_input *input, const struct store_op *op)
{
    assert(!input->record || input->record->open || input->record->has_outcome);
    switch (op->verb) {
    case STORE_RESERVE:
        return reserve(input, op);
    case STORE_COMPLETE:
    case STORE_RELEASE:
    case STORE_ABANDON:
    case STORE_RESTORE:
        return end_execution(input, op);
    case STORE_RESOLVE:
        return resolve(input, op);
    case STORE_FORGET:
        return forget(input);
    }
    assert(!"a verb that store.h does not know");
    return answer(STORE_FAILED, NULL);
}

bool ledger_apply(struct record *record, const struct ledger_verdict *verdict)
{
    switch (verdict->step) {
    case LEDGER_KEEP:
    case LEDGER_WAIT:
        return true;
    case LEDGER_SETTLE:
        record->open = false;
        record->has_outcome = true;
        record->outcome = verdict->outcome;
        return true;
    case LEDGER_RESTORE:
        record->open = false;
        return true;
    case LEDGER_DELETE:
        return false;
    case LEDGER_INSERT:
    case LEDGER_REOPEN:
        break;
    }
    assert(!"a step that needs a token");
    return true;
}
