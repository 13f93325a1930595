/*
 * flow.h - PURE. The life of a request as one table: (state, event) → (next state, action). Contract §4.
 *
 * Two laws, kept for ever by tests/unit/test_flow.c:
 *   1. nothing enters FORWARDING but by GRANTED, by GRANTED_UNKNOWN under `on_unknown: retry`, or by a settled *not
 *      happened* of a probe;
 *   2. nothing leaves FORWARDING but into STREAMING or SETTLING, nothing leaves STREAMING but into SETTLING:
 *      a 504 or a leaving client detaches the client and changes no state.
 *
 * PASSING is the unprotected life (no key, or `on_store_error: pass`): it never becomes a protected one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum flow_state {
    FLOW_READING,    /* a keyed request arrives; no reservation yet */
    FLOW_PASSING,    /* unprotected: streams both ways */
    FLOW_RESERVING,  /* the store decides, or the exchange stands in line */
    FLOW_PROBING,    /* the token of an unknown action is ours; the API is asked whether it happened */
    FLOW_FORWARDING, /* the token is ours; the request goes out; no final head yet */
    FLOW_STREAMING,  /* the head came, the end has not */
    FLOW_SETTLING,   /* the ending is being made durable */
    FLOW_REPLYING,   /* the (rest of the) answer is written to the client */
    FLOW_OVER,
    FLOW_STATE_COUNT,
};

enum flow_event {
    FLOW_NONE,        /* an action that has nothing to raise */
    FLOW_UNPROTECTED, /* no key is to be had, and none is required */
    FLOW_REFUSED,     /* einmal answers by itself */
    FLOW_LOOKED_UP,   /* the snapshot settles it */
    FLOW_ASKED,       /* it does not: the store's writer decides */
    FLOW_GRANTED,
    FLOW_GRANTED_UNKNOWN,  /* under `retry` */
    FLOW_GRANTED_TO_ASK,   /* the same under `probe` */
    FLOW_GRANTED_TOO_LATE, /* nobody waits for it any more */
    FLOW_DECIDED,          /* the store answered: replay, mismatch, busy, unknown, failed … */
    FLOW_DECIDED_TOO_LATE, /* the same, or cancelled, with nobody there to hear it */
    FLOW_HAPPENED,         /* the API says so: its answer is the outcome */
    FLOW_NOT_HAPPENED,     /* the API says so, and long enough after the last forwarding ended */
    FLOW_STILL_UNKNOWN,    /* it could not be asked, did not tell, or cannot be believed yet */
    FLOW_DEGRADED,         /* the store failed and `on_store_error: pass` applies */
    FLOW_WAIT_OVER,        /* wait_timeout or store.timeout: the client is answered, the op cancelled */
    FLOW_CLIENT_GONE,
    FLOW_DEGRADED_ALONE,   /* the same while passing unprotected for want of a store: the action goes on */
    FLOW_DEGRADED_TIMEOUT, /* response_timeout while passing for want of a store: 504, the action goes on */
    FLOW_UNSENT,           /* upstream: not one byte was written */
    FLOW_BROKEN,           /* upstream: nobody knows */
    FLOW_STARTED,          /* upstream: a final head, and more to come */
    FLOW_COMPLETE,         /* upstream: the whole response */
    FLOW_RESPONSE_TIMEOUT,
    FLOW_OUTCOME_TIMEOUT,
    FLOW_DRAIN_LIMIT,
    FLOW_SETTLED,        /* the store has (or has not) written the ending */
    FLOW_SETTLE_TIMEOUT, /* it has not said so in store.timeout */
    FLOW_WRITTEN,        /* the client has all of its answer */
    FLOW_EVENT_COUNT,
};

enum flow_action {
    FLOW_IMPOSSIBLE = 0, /* not in the table */
    FLOW_DO_NOTHING,
    FLOW_DO_PASS,          /* open the upstream call, stream */
    FLOW_DO_RESERVE,       /* submit the RESERVE */
    FLOW_DO_PROBE,         /* ask the API whether it happened */
    FLOW_DO_FORWARD,       /* send the request upstream */
    FLOW_DO_CANCEL,        /* take the RESERVE back */
    FLOW_DO_ANSWER_CANCEL, /* answer the client, then take it back */
    FLOW_DO_ADOPT,         /* passing unprotected already: keep the late token for the outcome */
    FLOW_DO_WITHDRAW,      /* give the token back: RELEASE or RESTORE */
    FLOW_DO_SETTLE,        /* record how it ended */
    FLOW_DO_RECORD_PROBE,  /* the probe's answer is how it ended */
    FLOW_DO_PUT_BACK,      /* the unknown action as it was */
    FLOW_DO_DETACH,        /* the client is gone: go on without it */
    FLOW_DO_DETACH_504,    /* the client has waited enough: 504, go on without it */
    FLOW_DO_STREAM,        /* head and body go to the client as they come */
    FLOW_DO_END_EARLY,     /* the end goes out although it is not known to be durable */
    FLOW_DO_REPLY,         /* write the answer (or the rest of it) */
    FLOW_DO_STOP,          /* give up what runs: upstream call cancelled, client cut */
    FLOW_DO_BREAK,         /* passing: 502 or 504, or the connection cut where the head was sent */
    FLOW_DO_END_PASS,      /* passing: the response is complete */
    FLOW_DO_CLOSE,         /* count, log, free */
    FLOW_ACTION_COUNT,
};

struct flow_step {
    enum flow_state next;
    enum flow_action action;
};

/* NULL: the pair is not in the table, which is our bug. */
const struct flow_step *flow_find(enum flow_state state, enum flow_event event);
const char *flow_state_name(enum flow_state state);
const char *flow_event_name(enum flow_event event);
