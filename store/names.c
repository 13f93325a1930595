/*
 * names.c - PURE. States and reasons as words: in answers, in logs, in what people filter by.
 */
#include "store/store.h"

const char *store_state_name(enum store_state state)
{
    switch (state) {
    case STORE_IN_PROGRESS:
        return "in_progress";
    case STORE_COMPLETED:
        return "completed";
    case STORE_UNKNOWN:
        return "unknown";
    case STORE_RELEASED:
        return "released";
    }
    return NULL;
}

const char *store_reason_name(enum store_reason reason)
{
    switch (reason) {
    case STORE_REASON_NONE:
        return NULL;
    case STORE_REASON_STATUS:
        return "status";
    case STORE_REASON_CLOSED:
        return "closed";
    case STORE_REASON_INVALID:
        return "invalid";
    case STORE_REASON_SEND_TIMEOUT:
        return "send-timeout";
    case STORE_REASON_STALL:
        return "stall";
    case STORE_REASON_OUTCOME_TIMEOUT:
        return "outcome-timeout";
    case STORE_REASON_CRASH:
        return "crash";
    case STORE_REASON_DRAIN:
        return "drain";
    case STORE_REASON_LOST:
        return "lost";
    case STORE_REASON_UNSENT:
        return "unsent";
    case STORE_REASON_WITHDRAWN:
        return "withdrawn";
    case STORE_REASON_PROBED:
        return "probed";
    }
    return NULL;
}
