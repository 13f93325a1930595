/*
 * refusal.h - PURE. The errors of the admin interface (contract §8), beside those that the proxy has (problem.h).
 */
#pragma once

#include "proxy/problem.h"

enum refusal {
    REFUSAL_BAD_REQUEST,
    REFUSAL_UNAUTHORIZED,
    REFUSAL_CROSS_ORIGIN,
    REFUSAL_NOT_FOUND,
    REFUSAL_NO_ACTION,
    REFUSAL_METHOD_NOT_ALLOWED,
    REFUSAL_WRONG_STATE,
    REFUSAL_BACKUP_RUNNING,
    REFUSAL_BODY_TOO_LARGE,
    REFUSAL_UNSUPPORTED_MEDIA_TYPE,
    REFUSAL_HOST_NOT_ALLOWED,
    REFUSAL_BACKUP_FAILED,
    REFUSAL_STORE_UNAVAILABLE,
    REFUSAL_OVERLOADED,
    REFUSAL_DRAINING,
    REFUSAL_COUNT,
};

const struct problem_row *refusal_row(enum refusal refusal);
