/*
 * problem.h - PURE. The answers that einmal makes itself (contract §5): one table, problem+json of RFC 9457.
 */
#pragma once

#include "proxy/buffer.h"

enum problem_code {
    PROBLEM_NONE = 0,
    PROBLEM_KEY_MISSING,
    PROBLEM_KEY_INVALID,
    PROBLEM_BAD_REQUEST,
    PROBLEM_NO_ROUTE,
    PROBLEM_REQUEST_TIMEOUT,
    PROBLEM_IN_PROGRESS,
    PROBLEM_IDENTITY_CHANGED,
    PROBLEM_OUTCOME_UNKNOWN,
    PROBLEM_RESPONSE_NOT_KEPT,
    PROBLEM_BODY_TOO_LARGE,
    PROBLEM_TARGET_TOO_LONG,
    PROBLEM_HEADER_TOO_LARGE,
    PROBLEM_EXPECTATION_FAILED,
    PROBLEM_KEY_REUSED,
    PROBLEM_NOT_IMPLEMENTED,
    PROBLEM_UPSTREAM_UNREACHABLE,
    PROBLEM_UPSTREAM_INVALID,
    PROBLEM_UPSTREAM_CLOSED,
    PROBLEM_STORE_UNAVAILABLE,
    PROBLEM_OVERLOADED,
    PROBLEM_DRAINING,
    PROBLEM_UPSTREAM_TIMEOUT,
    PROBLEM_VERSION_NOT_SUPPORTED,
    PROBLEM_CODE_COUNT,
};

struct problem_row {
    uint16_t status;
    const char *name; /* code, and the end of type urn:einmal:problem:NAME */
    const char *title;
    const char *detail; /* what happened and what to do, where the caller says nothing better */
    bool retry_after;   /* carries Retry-After (1, unless the caller knows better) */
    bool closes;        /* refuses the framing: the connection closes */
};

const struct problem_row *problem_row(enum problem_code code);

struct problem {
    enum problem_code code;
    const char *detail;       /* NULL: the row's */
    const char *action;       /* action id in hex, or NULL */
    const char *state;        /* of the action: in_progress, completed, unknown, released; or NULL */
    uint16_t original_status; /* 0: no head was seen */
    int64_t retry_after;      /* seconds; 0: the row's */
};

/* Appends the JSON object. Text is escaped. identity-changed never carries action, state or original_status. */
void problem_write_body(struct buffer *out, const struct problem *problem);
/* The same for a row of another table (the admin interface has its own): problem->code is not looked at. */
void problem_write_row(struct buffer *out, const struct problem_row *row, const struct problem *problem);
