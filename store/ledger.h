/*
 * ledger.h - PURE. The whole law of keys (contract §1, §4): what a verb means for a record.
 *
 * The ledger reads and decides; it never writes. Its verdict is one step for the engine and the answer that holds once
 * the step is committed. Everything it depends on comes in as an argument: the record, who holds its token, the time,
 * the boot.
 *
 * Some records have to be put right before the verb can be judged: one whose execution nobody follows any more becomes
 * unknown, one whose grant was never delivered is undone. Such a verdict says `again`: take the step, read the record
 * anew and ask again; the second verdict is final, for both steps leave nothing to repair.
 */
#pragma once

#include "store/record.h"

/* Who holds the token of a record in progress. */
enum ledger_holder {
    LEDGER_HELD, /* a living exchange, or the store itself, which keeps an outcome that it could not write yet */
    LEDGER_NEVER_GRANTED, /* nobody ever was given it: its commit failed, and yet it is there */
    LEDGER_LOST,          /* nobody, any more */
};

struct ledger_input {
    const struct record *record; /* NULL: there is none */
    enum ledger_holder holder;   /* of record->opening.token, if record->open */
    bool owns;                   /* COMPLETE, RELEASE, ABANDON, RESTORE: the op's token is held */
    bool other_identity;         /* RESERVE: a live record of another identity has this key and content */
    bool has_room;               /* RESERVE: the engine takes new reservations */
    int64_t now_ms;
    const uint8_t *boot; /* RECORD_BOOT_LEN bytes */
};

enum ledger_step {
    LEDGER_KEEP,    /* nothing is written */
    LEDGER_WAIT,    /* nothing is written or answered: stand in line */
    LEDGER_INSERT,  /* a new record, in progress */
    LEDGER_REOPEN,  /* the unknown record is in progress again, its outcome stays beside */
    LEDGER_SETTLE,  /* the record gets verdict.outcome and is no longer in progress */
    LEDGER_RESTORE, /* no longer in progress: the outcome beside it counts again */
    LEDGER_DELETE,
};

struct ledger_verdict {
    enum ledger_step step;
    bool again;                    /* a repair, see above; there is no answer yet */
    bool carries_response;         /* result.response is to be the one that the record has */
    bool keeps_response;           /* SETTLE: the prior outcome's response and decision stay */
    struct store_result result;    /* token and response are the caller's to fill */
    struct record_outcome outcome; /* SETTLE */
};

struct ledger_verdict ledger_judge(const struct ledger_input *input, const struct store_op *op);

/* The record as the step leaves it. False: it is gone. Not for INSERT and REOPEN, which add what the ledger does not
 * know. */
bool ledger_apply(struct record *record, const struct ledger_verdict *verdict);

bool ledger_is_expired(const struct record *record, int64_t now_ms);
/* now + duration; STORE_FOREVER absorbs, nothing overflows. */
int64_t ledger_later(int64_t now_ms, int64_t duration_ms);
