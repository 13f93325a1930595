/*
 * test_ledger.c - the law of keys, cell by cell: every verb on every state of a record, at every time, boot and holder.
 *
 * The matrix below is the law written a second time, as letters. Read a row as one question and a column as one record:
 *
 *     G insert, granted            U reopen, granted unknown     R replay           P report unknown
 *     W wait   B busy   M mismatch   O other identity   F full   C settle completed   A settle unknown
 *     D delete, done   S restore, done   K nothing to do, done   L lost   X refused
 *     d r l   repairs, ask again: delete, restore, settle as unknown
 */
#include "store/ledger.h"

#include <criterion/criterion.h>
#include <string.h>

#define NOW 1000000

enum column {
    NONE,
    HELD,
    HELD_PRIOR,
    NEVER,
    NEVER_PRIOR,
    LOST,
    LOST_PRIOR,
    CRASHED,
    CRASHED_PRIOR,
    COMPLETED,
    UNKNOWN,
    COMPLETED_EXPIRED,
    UNKNOWN_EXPIRED,
    COLUMNS
};

static const char *const column_names[COLUMNS] = {"none",
                                                  "held",
                                                  "held after unknown",
                                                  "never granted",
                                                  "never granted after unknown",
                                                  "lost",
                                                  "lost after unknown",
                                                  "other boot",
                                                  "other boot after unknown",
                                                  "completed",
                                                  "unknown",
                                                  "completed, expired",
                                                  "unknown, expired"};

enum token { TOKEN_NONE, TOKEN_OF_OPENING, TOKEN_OF_OUTCOME, TOKEN_FOREIGN };

struct row {
    const char *name;
    const char *cells; /* one letter per column */
    enum store_verb verb;
    enum token token;
    bool owns, mismatch, no_wait, retry, other, full, not_happened;
    enum store_reason reason;
    enum store_state to_state;
};

static const struct row rows[] = {
    {.name = "reserve", .verb = STORE_RESERVE, .cells = "GWWdrllllRPGG"},
    {.name = "reserve, no wait", .verb = STORE_RESERVE, .no_wait = true, .cells = "GBBdrllllRPGG"},
    {.name = "reserve, retry", .verb = STORE_RESERVE, .retry = true, .cells = "GWWdrllllRUGG"},
    {.name = "reserve, other content", .verb = STORE_RESERVE, .mismatch = true, .cells = "GMMdrMMMMMMGG"},
    {.name = "reserve, other content, retry",
     .verb = STORE_RESERVE,
     .mismatch = true,
     .retry = true,
     .no_wait = true,
     .cells = "GMMdrMMMMMMGG"},
    {.name = "reserve, other identity", .verb = STORE_RESERVE, .other = true, .cells = "OWWdrllllRPOO"},
    {.name = "reserve, no room", .verb = STORE_RESERVE, .full = true, .cells = "FWWdrllllRPFF"},
    {.name = "reserve, no room, retry", .verb = STORE_RESERVE, .full = true, .retry = true, .cells = "FWWdrllllRFFF"},
    {.name = "complete", .verb = STORE_COMPLETE, .token = TOKEN_OF_OPENING, .owns = true, .cells = "KCCdrCCCCLLLL"},
    {.name = "complete again",
     .verb = STORE_COMPLETE,
     .token = TOKEN_OF_OUTCOME,
     .owns = true,
     .cells = "KLKdrLKLKKKKK"},
    {.name = "complete again, spent", .verb = STORE_COMPLETE, .token = TOKEN_OF_OUTCOME, .cells = "LLLdrLLLLLLLL"},
    {.name = "complete, foreign", .verb = STORE_COMPLETE, .token = TOKEN_FOREIGN, .cells = "LLLdrLLLLLLLL"},
    {.name = "release, unsent",
     .verb = STORE_RELEASE,
     .token = TOKEN_OF_OPENING,
     .owns = true,
     .reason = STORE_REASON_UNSENT,
     .cells = "KDSdrDSDSKKKK"},
    {.name = "release, withdrawn",
     .verb = STORE_RELEASE,
     .token = TOKEN_OF_OPENING,
     .owns = true,
     .reason = STORE_REASON_WITHDRAWN,
     .cells = "KDSdrDSDSKKKK"},
    {.name = "release, status",
     .verb = STORE_RELEASE,
     .token = TOKEN_OF_OPENING,
     .owns = true,
     .reason = STORE_REASON_STATUS,
     .cells = "KDAdrDADAKKKK"},
    {.name = "release, not happened",
     .verb = STORE_RELEASE,
     .token = TOKEN_OF_OPENING,
     .owns = true,
     .not_happened = true,
     .reason = STORE_REASON_UNSENT,
     .cells = "KDDdrDDDDKKKK"},
    {.name = "release, foreign",
     .verb = STORE_RELEASE,
     .token = TOKEN_FOREIGN,
     .reason = STORE_REASON_UNSENT,
     .cells = "LLLdrLLLLLLLL"},
    {.name = "abandon",
     .verb = STORE_ABANDON,
     .token = TOKEN_OF_OPENING,
     .owns = true,
     .reason = STORE_REASON_STALL,
     .cells = "KAAdrAAAALLLL"},
    {.name = "abandon again",
     .verb = STORE_ABANDON,
     .token = TOKEN_OF_OUTCOME,
     .owns = true,
     .reason = STORE_REASON_STALL,
     .cells = "KLKdrLKLKKKKK"},
    {.name = "abandon, foreign",
     .verb = STORE_ABANDON,
     .token = TOKEN_FOREIGN,
     .reason = STORE_REASON_STALL,
     .cells = "LLLdrLLLLLLLL"},
    {.name = "restore, unsent",
     .verb = STORE_RESTORE,
     .token = TOKEN_OF_OPENING,
     .owns = true,
     .reason = STORE_REASON_UNSENT,
     .cells = "KDSdrDSDSKKKK"},
    {.name = "restore, probed",
     .verb = STORE_RESTORE,
     .token = TOKEN_OF_OPENING,
     .owns = true,
     .reason = STORE_REASON_PROBED,
     .cells = "KDSdrDSDSKKKK"},
    {.name = "restore, foreign",
     .verb = STORE_RESTORE,
     .token = TOKEN_FOREIGN,
     .reason = STORE_REASON_UNSENT,
     .cells = "LLLdrLLLLLLLL"},
    {.name = "resolve, completed", .verb = STORE_RESOLVE, .to_state = STORE_COMPLETED, .cells = "XXXdrllllXCXX"},
    {.name = "resolve, not executed", .verb = STORE_RESOLVE, .to_state = STORE_RELEASED, .cells = "XXXdrllllXDXX"},
    {.name = "forget", .verb = STORE_FORGET, .cells = "XXXdrllllDDXX"},
};

enum { OPENING_TOKEN = 20, OUTCOME_TOKEN = 10, FOREIGN_TOKEN = 99 };

static const uint8_t boot[RECORD_BOOT_LEN] = {1}, other_boot[RECORD_BOOT_LEN] = {2};

static bool is_open(enum column column)
{
    return column >= HELD && column <= CRASHED_PRIOR;
}

static bool has_outcome(enum column column)
{
    return column >= COMPLETED || column == HELD_PRIOR || column == NEVER_PRIOR || column == LOST_PRIOR ||
           column == CRASHED_PRIOR;
}

static struct record record_of(enum column column)
{
    struct record record = {.seq = 5, .open = is_open(column), .has_outcome = has_outcome(column)};
    bool expired = column == COMPLETED_EXPIRED || column == UNKNOWN_EXPIRED;
    bool completed = column == COMPLETED || column == COMPLETED_EXPIRED;
    record.reservation.created_ms = 100;
    record.opening = (struct record_opening){.token = OPENING_TOKEN, .since_ms = 700, .unknown_retention_ms = 5000};
    bool crashed = column == CRASHED || column == CRASHED_PRIOR;
    memcpy(record.opening.boot, crashed ? other_boot : boot, RECORD_BOOT_LEN);
    /* The prior outcome of an open record has expired: in progress never does. */
    record.outcome = (struct record_outcome){.state = completed ? STORE_COMPLETED : STORE_UNKNOWN,
                                             .reason = completed ? STORE_REASON_NONE : STORE_REASON_CLOSED,
                                             .status = 500,
                                             .executions = 2,
                                             .token = OUTCOME_TOKEN,
                                             .since_ms = 300,
                                             .expires_ms = expired || record.open ? NOW : NOW + 1,
                                             .forwarded_until_ms = 299,
                                             .has_response = true,
                                             .response_len = 3};
    return record;
}

static enum ledger_holder holder_of(enum column column)
{
    if (column == NEVER || column == NEVER_PRIOR)
        return LEDGER_NEVER_GRANTED;
    return column >= LOST && column <= CRASHED_PRIOR ? LEDGER_LOST : LEDGER_HELD;
}

static struct store_op op_of(const struct row *row)
{
    static const uint64_t tokens[] = {0, OPENING_TOKEN, OUTCOME_TOKEN, FOREIGN_TOKEN};
    struct store_op op = {.verb = row->verb,
                          .token = tokens[row->token],
                          .reason = row->reason,
                          .status = 207,
                          .retention_ms = 60000,
                          .retry_unknown = row->retry,
                          .no_wait = row->no_wait,
                          .not_happened = row->not_happened,
                          .to_state = row->to_state,
                          .forwarded_until_ms = 900};
    op.fingerprint[0] = row->mismatch;
    return op;
}

static struct ledger_verdict judge(const struct row *row, enum column column, struct record *record)
{
    *record = record_of(column);
    struct store_op op = op_of(row);
    struct ledger_input input = {.record = column == NONE ? NULL : record,
                                 .holder = holder_of(column),
                                 .owns = row->owns,
                                 .other_identity = row->other,
                                 .has_room = !row->full,
                                 .now_ms = NOW,
                                 .boot = boot};
    return ledger_judge(&input, &op);
}

static char letter_of_done(const struct ledger_verdict *verdict)
{
    switch (verdict->step) {
    case LEDGER_KEEP:
        return 'K';
    case LEDGER_SETTLE:
        return verdict->outcome.state == STORE_COMPLETED ? 'C' : 'A';
    case LEDGER_RESTORE:
        return 'S';
    case LEDGER_DELETE:
        return 'D';
    case LEDGER_WAIT:
    case LEDGER_INSERT:
    case LEDGER_REOPEN:
        break;
    }
    return '?';
}

static char letter_of_repair(const struct ledger_verdict *verdict)
{
    bool unknown = verdict->step == LEDGER_SETTLE && verdict->outcome.state == STORE_UNKNOWN;
    return verdict->step == LEDGER_DELETE ? 'd' : verdict->step == LEDGER_RESTORE ? 'r' : unknown ? 'l' : '?';
}

/* '?' for any combination of step and answer that does not belong together. */
static char letter_of(const struct ledger_verdict *verdict)
{
    static const struct {
        enum store_answer answer;
        enum ledger_step step;
        char letter;
    } letters[] = {{STORE_GRANTED, LEDGER_INSERT, 'G'}, {STORE_GRANTED_UNKNOWN, LEDGER_REOPEN, 'U'},
                   {STORE_REPLAY, LEDGER_KEEP, 'R'},    {STORE_REPORT_UNKNOWN, LEDGER_KEEP, 'P'},
                   {STORE_BUSY, LEDGER_WAIT, 'W'},      {STORE_BUSY, LEDGER_KEEP, 'B'},
                   {STORE_MISMATCH, LEDGER_KEEP, 'M'},  {STORE_OTHER_IDENTITY, LEDGER_KEEP, 'O'},
                   {STORE_FAILED, LEDGER_KEEP, 'F'},    {STORE_LOST, LEDGER_KEEP, 'L'},
                   {STORE_REFUSED, LEDGER_KEEP, 'X'}};
    if (verdict->again)
        return letter_of_repair(verdict);
    if (verdict->result.answer == STORE_DONE)
        return letter_of_done(verdict);
    for (unsigned i = 0; i < sizeof letters / sizeof *letters; i++)
        if (letters[i].answer == verdict->result.answer && letters[i].step == verdict->step)
            return letters[i].letter;
    return '?';
}

Test(ledger, every_cell)
{
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_assert(strlen(rows[i].cells) == COLUMNS, "%s", rows[i].name);
        for (enum column column = 0; column < COLUMNS; column++) {
            struct record record;
            struct ledger_verdict verdict = judge(&rows[i], column, &record);
            cr_assert(letter_of(&verdict) == rows[i].cells[column], "%s on %s: %c and should be %c", rows[i].name,
                      column_names[column], letter_of(&verdict), rows[i].cells[column]);
        }
    }
}

/* A repair leaves a record on which the same question has a final answer. */
Test(ledger, a_repair_is_enough)
{
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
        for (enum column column = 0; column < COLUMNS; column++) {
            struct record record;
            struct ledger_verdict verdict = judge(&rows[i], column, &record);
            if (!verdict.again)
                continue;
            bool remains = ledger_apply(&record, &verdict);
            struct store_op op = op_of(&rows[i]);
            struct ledger_input input = {.record = remains ? &record : NULL,
                                         .holder = LEDGER_LOST,
                                         .owns = rows[i].owns,
                                         .has_room = true,
                                         .now_ms = NOW,
                                         .boot = boot};
            verdict = ledger_judge(&input, &op);
            cr_assert(!verdict.again, "%s on %s", rows[i].name, column_names[column]);
        }
}

static const struct row *row_named(const char *name)
{
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    cr_assert_fail("no row %s", name);
    return NULL;
}

Test(ledger, what_is_lost_becomes_unknown)
{
    static const struct {
        enum column column;
        enum store_reason reason;
        uint32_t executions;
        bool keeps;
    } cases[] = {{LOST, STORE_REASON_LOST, 1, false},
                 {LOST_PRIOR, STORE_REASON_LOST, 3, true},
                 {CRASHED, STORE_REASON_CRASH, 1, false},
                 {CRASHED_PRIOR, STORE_REASON_CRASH, 3, true}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct record record;
        const char *name = column_names[cases[i].column];
        struct ledger_verdict verdict = judge(row_named("reserve"), cases[i].column, &record);
        const struct record_outcome *outcome = &verdict.outcome;
        cr_assert(outcome->reason == cases[i].reason && outcome->executions == cases[i].executions, "%s", name);
        cr_assert(outcome->since_ms == NOW && outcome->forwarded_until_ms == NOW, "%s: from when it was found", name);
        cr_assert(outcome->expires_ms == NOW + 5000, "%s: with the retention that was reserved", name);
        cr_assert(outcome->token == OPENING_TOKEN, "%s: its owner is fenced out", name);
        cr_assert(verdict.keeps_response == cases[i].keeps && outcome->has_response == cases[i].keeps, "%s", name);
    }
}

Test(ledger, endings_count_executions)
{
    static const struct {
        const char *row;
        enum column column;
        uint32_t executions;
    } cases[] = {{"complete", HELD, 1},      {"complete", HELD_PRIOR, 3},        {"abandon", HELD, 1},
                 {"abandon", HELD_PRIOR, 3}, {"release, status", HELD_PRIOR, 3}, {"resolve, completed", UNKNOWN, 2}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct record record;
        struct ledger_verdict verdict = judge(row_named(cases[i].row), cases[i].column, &record);
        cr_assert(verdict.outcome.executions == cases[i].executions && verdict.result.executions == cases[i].executions,
                  "%s on %s", cases[i].row, column_names[cases[i].column]);
        cr_assert(verdict.outcome.expires_ms == NOW + 60000 && verdict.outcome.since_ms == NOW &&
                      verdict.result.created_ms == 100,
                  "%s", cases[i].row);
    }
}

Test(ledger, answers_tell_what_is_recorded)
{
    static const char *const names[] = {"reserve", "reserve, retry"};
    for (unsigned i = 0; i < 2; i++) {
        struct record record;
        struct ledger_verdict verdict = judge(row_named(names[i]), UNKNOWN, &record);
        const struct store_result *result = &verdict.result;
        cr_assert(verdict.carries_response && result->reason == STORE_REASON_CLOSED && result->status == 500, "%s",
                  names[i]);
        cr_assert(result->executions == 2 && result->since_ms == 300 && result->forwarded_until_ms == 299, "%s",
                  names[i]);
        cr_assert(result->created_ms == 100 && result->expires_ms == NOW + 1, "%s", names[i]);
    }
    struct record record;
    struct ledger_verdict verdict = judge(row_named("reserve, no wait"), HELD, &record);
    cr_assert(verdict.result.state == STORE_IN_PROGRESS && verdict.result.since_ms == 700 &&
              verdict.result.expires_ms == STORE_FOREVER);
    verdict = judge(row_named("reserve, other identity"), NONE, &record);
    cr_assert(verdict.result.state == 0 && verdict.result.created_ms == 0, "nothing of another identity is told");
}

Test(ledger, what_cannot_be_replayed_says_so)
{
    struct record record = record_of(HELD);
    struct store_op op = {.verb = STORE_COMPLETE, .token = OPENING_TOKEN};
    struct ledger_input input = {.record = &record, .owns = true, .now_ms = NOW, .boot = boot};
    struct ledger_verdict verdict = ledger_judge(&input, &op);
    cr_assert(verdict.outcome.not_kept, "completed without a response can only be not kept");
    op.verb = STORE_ABANDON;
    verdict = ledger_judge(&input, &op);
    cr_assert(!verdict.outcome.not_kept, "an ending without an answer had none");
    op.not_kept = true;
    verdict = ledger_judge(&input, &op);
    cr_assert(verdict.outcome.not_kept);
}

Test(ledger, later_never_overflows)
{
    static const struct {
        int64_t now, duration, later;
    } cases[] = {{1000, 5, 1005},
                 {1000, 0, 1000},
                 {1000, STORE_FOREVER, STORE_FOREVER},
                 {1000, STORE_FOREVER - 1, STORE_FOREVER},
                 {1000, STORE_FOREVER - 1000, STORE_FOREVER},
                 {STORE_FOREVER, 1, STORE_FOREVER}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert(ledger_later(cases[i].now, cases[i].duration) == cases[i].later, "case %u", i);
}
