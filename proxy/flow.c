/*
 * flow.c - PURE. The table itself.
 *
 * Read it state by state: it is all that can happen to a request. What an action does is the business of exchange*.c;
 * what may follow what is decided here and nowhere else. Rows that look alike are spelled out all the same: each is a
 * promise.
 */
#include "proxy/flow.h"

static const struct flow_step table[FLOW_STATE_COUNT][FLOW_EVENT_COUNT] = {
    /* A keyed request arrives. Nothing is reserved, so nothing is lost when the client goes. */
    [FLOW_READING][FLOW_UNPROTECTED] = {FLOW_PASSING, FLOW_DO_PASS},
    [FLOW_READING][FLOW_REFUSED] = {FLOW_REPLYING, FLOW_DO_REPLY},
    [FLOW_READING][FLOW_LOOKED_UP] = {FLOW_REPLYING, FLOW_DO_REPLY},
    [FLOW_READING][FLOW_ASKED] = {FLOW_RESERVING, FLOW_DO_RESERVE},
    [FLOW_READING][FLOW_CLIENT_GONE] = {FLOW_OVER, FLOW_DO_CLOSE},
    [FLOW_READING][FLOW_DRAIN_LIMIT] = {FLOW_REPLYING, FLOW_DO_REPLY},

    /* Unprotected. With `on_store_error: pass` a token may still arrive: then the outcome is recorded under it. */
    [FLOW_PASSING][FLOW_COMPLETE] = {FLOW_SETTLING, FLOW_DO_END_PASS},
    [FLOW_PASSING][FLOW_UNSENT] = {FLOW_SETTLING, FLOW_DO_BREAK},
    [FLOW_PASSING][FLOW_BROKEN] = {FLOW_SETTLING, FLOW_DO_BREAK},
    [FLOW_PASSING][FLOW_RESPONSE_TIMEOUT] = {FLOW_SETTLING, FLOW_DO_BREAK},
    [FLOW_PASSING][FLOW_REFUSED] = {FLOW_SETTLING, FLOW_DO_BREAK},
    [FLOW_PASSING][FLOW_CLIENT_GONE] = {FLOW_SETTLING, FLOW_DO_STOP},
    [FLOW_PASSING][FLOW_DEGRADED_ALONE] = {FLOW_PASSING, FLOW_DO_DETACH},
    [FLOW_PASSING][FLOW_DEGRADED_TIMEOUT] = {FLOW_PASSING, FLOW_DO_DETACH_504},
    [FLOW_PASSING][FLOW_OUTCOME_TIMEOUT] = {FLOW_SETTLING, FLOW_DO_BREAK},
    [FLOW_PASSING][FLOW_DRAIN_LIMIT] = {FLOW_SETTLING, FLOW_DO_STOP},
    [FLOW_PASSING][FLOW_GRANTED] = {FLOW_PASSING, FLOW_DO_ADOPT},
    [FLOW_PASSING][FLOW_GRANTED_UNKNOWN] = {FLOW_PASSING, FLOW_DO_ADOPT},
    [FLOW_PASSING][FLOW_GRANTED_TO_ASK] = {FLOW_PASSING, FLOW_DO_ADOPT},
    [FLOW_PASSING][FLOW_DECIDED] = {FLOW_PASSING, FLOW_DO_NOTHING},

    /* The store decides. A client that goes, or is told to come again, takes its op out of the line. */
    [FLOW_RESERVING][FLOW_GRANTED] = {FLOW_FORWARDING, FLOW_DO_FORWARD},
    [FLOW_RESERVING][FLOW_GRANTED_UNKNOWN] = {FLOW_FORWARDING, FLOW_DO_FORWARD},
    [FLOW_RESERVING][FLOW_GRANTED_TO_ASK] = {FLOW_PROBING, FLOW_DO_PROBE},
    [FLOW_RESERVING][FLOW_GRANTED_TOO_LATE] = {FLOW_SETTLING, FLOW_DO_WITHDRAW},
    [FLOW_RESERVING][FLOW_DECIDED] = {FLOW_REPLYING, FLOW_DO_REPLY},
    [FLOW_RESERVING][FLOW_DECIDED_TOO_LATE] = {FLOW_OVER, FLOW_DO_CLOSE},
    [FLOW_RESERVING][FLOW_DEGRADED] = {FLOW_PASSING, FLOW_DO_PASS},
    [FLOW_RESERVING][FLOW_WAIT_OVER] = {FLOW_RESERVING, FLOW_DO_ANSWER_CANCEL},
    [FLOW_RESERVING][FLOW_CLIENT_GONE] = {FLOW_RESERVING, FLOW_DO_CANCEL},
    [FLOW_RESERVING][FLOW_DRAIN_LIMIT] = {FLOW_RESERVING, FLOW_DO_ANSWER_CANCEL},

    /* The API is asked about an unknown action. Nothing is sent that could act, so what was known can be put back. */
    [FLOW_PROBING][FLOW_HAPPENED] = {FLOW_SETTLING, FLOW_DO_RECORD_PROBE},
    [FLOW_PROBING][FLOW_NOT_HAPPENED] = {FLOW_FORWARDING, FLOW_DO_FORWARD},
    [FLOW_PROBING][FLOW_STILL_UNKNOWN] = {FLOW_SETTLING, FLOW_DO_PUT_BACK},
    [FLOW_PROBING][FLOW_CLIENT_GONE] = {FLOW_PROBING, FLOW_DO_DETACH},
    [FLOW_PROBING][FLOW_DRAIN_LIMIT] = {FLOW_SETTLING, FLOW_DO_PUT_BACK},

    /* The request is on its way, or about to be. Whatever the client does, the action goes on. */
    [FLOW_FORWARDING][FLOW_UNSENT] = {FLOW_SETTLING, FLOW_DO_SETTLE},
    [FLOW_FORWARDING][FLOW_BROKEN] = {FLOW_SETTLING, FLOW_DO_SETTLE},
    [FLOW_FORWARDING][FLOW_STARTED] = {FLOW_STREAMING, FLOW_DO_STREAM},
    [FLOW_FORWARDING][FLOW_COMPLETE] = {FLOW_SETTLING, FLOW_DO_SETTLE},
    [FLOW_FORWARDING][FLOW_RESPONSE_TIMEOUT] = {FLOW_FORWARDING, FLOW_DO_DETACH_504},
    [FLOW_FORWARDING][FLOW_OUTCOME_TIMEOUT] = {FLOW_SETTLING, FLOW_DO_SETTLE},
    [FLOW_FORWARDING][FLOW_CLIENT_GONE] = {FLOW_FORWARDING, FLOW_DO_DETACH},
    [FLOW_FORWARDING][FLOW_DRAIN_LIMIT] = {FLOW_SETTLING, FLOW_DO_SETTLE},

    [FLOW_STREAMING][FLOW_BROKEN] = {FLOW_SETTLING, FLOW_DO_SETTLE},
    [FLOW_STREAMING][FLOW_COMPLETE] = {FLOW_SETTLING, FLOW_DO_SETTLE},
    [FLOW_STREAMING][FLOW_OUTCOME_TIMEOUT] = {FLOW_SETTLING, FLOW_DO_SETTLE},
    [FLOW_STREAMING][FLOW_CLIENT_GONE] = {FLOW_STREAMING, FLOW_DO_DETACH},
    [FLOW_STREAMING][FLOW_DRAIN_LIMIT] = {FLOW_SETTLING, FLOW_DO_SETTLE},

    /* The ending is being written down. The client's end waits for it, but not for ever. */
    [FLOW_SETTLING][FLOW_SETTLED] = {FLOW_REPLYING, FLOW_DO_REPLY},
    [FLOW_SETTLING][FLOW_SETTLE_TIMEOUT] = {FLOW_SETTLING, FLOW_DO_END_EARLY},
    [FLOW_SETTLING][FLOW_CLIENT_GONE] = {FLOW_SETTLING, FLOW_DO_DETACH},
    [FLOW_SETTLING][FLOW_DRAIN_LIMIT] = {FLOW_SETTLING, FLOW_DO_NOTHING},
    [FLOW_SETTLING][FLOW_GRANTED] = {FLOW_SETTLING, FLOW_DO_SETTLE},
    [FLOW_SETTLING][FLOW_GRANTED_UNKNOWN] = {FLOW_SETTLING, FLOW_DO_SETTLE},
    [FLOW_SETTLING][FLOW_GRANTED_TO_ASK] = {FLOW_SETTLING, FLOW_DO_SETTLE},
    [FLOW_SETTLING][FLOW_DECIDED] = {FLOW_REPLYING, FLOW_DO_REPLY},

    [FLOW_REPLYING][FLOW_WRITTEN] = {FLOW_OVER, FLOW_DO_CLOSE},
    [FLOW_REPLYING][FLOW_CLIENT_GONE] = {FLOW_OVER, FLOW_DO_CLOSE},
    [FLOW_REPLYING][FLOW_DRAIN_LIMIT] = {FLOW_REPLYING, FLOW_DO_STOP},
};

const struct flow_step *flow_find(enum flow_state state, enum flow_event event)
{
    const struct flow_step *step = &table[state][event];
    return step->action == FLOW_IMPOSSIBLE ? NULL : step;
}

const char *flow_state_name(enum flow_state state)
{
    static const char *const names[FLOW_STATE_COUNT] = {
        [FLOW_READING] = "READING",   [FLOW_PASSING] = "PASSING",       [FLOW_RESERVING] = "RESERVING",
        [FLOW_PROBING] = "PROBING",   [FLOW_FORWARDING] = "FORWARDING", [FLOW_STREAMING] = "STREAMING",
        [FLOW_SETTLING] = "SETTLING", [FLOW_REPLYING] = "REPLYING",     [FLOW_OVER] = "OVER",
    };
    return state < FLOW_STATE_COUNT ? names[state] : "?";
}

const char *flow_event_name(enum flow_event event)
{
    static const char *const names[FLOW_EVENT_COUNT] = {
        [FLOW_NONE] = "none",
        [FLOW_UNPROTECTED] = "unprotected",
        [FLOW_REFUSED] = "refused",
        [FLOW_LOOKED_UP] = "looked up",
        [FLOW_ASKED] = "asked",
        [FLOW_GRANTED] = "granted",
        [FLOW_GRANTED_UNKNOWN] = "granted unknown",
        [FLOW_GRANTED_TO_ASK] = "granted unknown, to be asked about",
        [FLOW_GRANTED_TOO_LATE] = "granted too late",
        [FLOW_DECIDED] = "decided",
        [FLOW_DECIDED_TOO_LATE] = "decided too late",
        [FLOW_HAPPENED] = "happened",
        [FLOW_NOT_HAPPENED] = "not happened",
        [FLOW_STILL_UNKNOWN] = "still unknown",
        [FLOW_DEGRADED] = "degraded",
        [FLOW_WAIT_OVER] = "wait over",
        [FLOW_CLIENT_GONE] = "client gone",
        [FLOW_DEGRADED_ALONE] = "client gone, degraded",
        [FLOW_DEGRADED_TIMEOUT] = "response timeout, degraded",
        [FLOW_UNSENT] = "unsent",
        [FLOW_BROKEN] = "broken",
        [FLOW_STARTED] = "started",
        [FLOW_COMPLETE] = "complete",
        [FLOW_RESPONSE_TIMEOUT] = "response timeout",
        [FLOW_OUTCOME_TIMEOUT] = "outcome timeout",
        [FLOW_DRAIN_LIMIT] = "drain limit",
        [FLOW_SETTLED] = "settled",
        [FLOW_SETTLE_TIMEOUT] = "settle timeout",
        [FLOW_WRITTEN] = "written",
    };
    return event < FLOW_EVENT_COUNT ? names[event] : "?";
}
