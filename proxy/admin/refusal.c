/*
 * refusal.c - PURE. The rows. Each says what to do; where a handler knows better, it gives a sentence of its own.
 */
#include "proxy/admin/refusal.h"

#include <assert.h>

static const struct problem_row rows[REFUSAL_COUNT] = {
    [REFUSAL_BAD_REQUEST] = {400, "bad-request", "Malformed request", "Correct the request before sending it again.",
                             false, false},
    [REFUSAL_UNAUTHORIZED] = {401, "unauthorized", "Token needed",
                              "Send the token of admin.token_file: \"Authorization: Bearer TOKEN\", or as password of "
                              "Basic with any user name.",
                              false, false},
    [REFUSAL_CROSS_ORIGIN] = {403, "cross-origin", "Refused to another site",
                              "Pages of other sites may change nothing here. Use einmal's own status page, the command "
                              "line, or a client that sends no Origin.",
                              false, false},
    [REFUSAL_NOT_FOUND] =
        {404, "not-found", "No such resource",
         "There is /healthz, /readyz, /metrics and, on the admin listener, /, /v1/actions, /v1/tasks/…, "
         "/v1/status, /v1/drain and /v1/backup.",
         false, false},
    [REFUSAL_NO_ACTION] = {404, "no-action", "No such action",
                           "No action with this id is recorded: none has begun, it was released or forgotten, or its "
                           "record has expired. A request with its key would be executed.",
                           false, false},
    [REFUSAL_METHOD_NOT_ALLOWED] = {405, "method-not-allowed", "Method not allowed",
                                    "The Allow field lists the methods of this resource.", false, false},
    [REFUSAL_WRONG_STATE] = {409, "wrong-state", "Not in a state that allows it",
                             "The action is not in a state that allows this. Look at it again.", false, false},
    [REFUSAL_BACKUP_RUNNING] = {409, "backup-running", "A backup is running",
                                "One backup at a time. Try again when the running one has been sent.", true, false},
    [REFUSAL_BODY_TOO_LARGE] = {413, "body-too-large", "Request body too large",
                                "A body has at most 24 MiB, the response in it at most 16 MiB. Send what is not plain "
                                "text as body_base64.",
                                false, false},
    [REFUSAL_UNSUPPORTED_MEDIA_TYPE] = {415, "unsupported-media-type", "Not JSON",
                                        "Send the body as Content-Type: application/json.", false, false},
    [REFUSAL_HOST_NOT_ALLOWED] =
        {421, "host-not-allowed", "Host not allowed",
         "Host must be an IP address, localhost, or the name in admin.address: other names may "
         "be somebody else's that point here.",
         false, false},
    [REFUSAL_BACKUP_FAILED] = {503, "backup-failed", "Backup failed", "The store could not be copied.", false, false},
    [REFUSAL_STORE_UNAVAILABLE] = {503, "store-unavailable", "Store unavailable",
                                   "The store does not answer. A change that was asked for may still be made: look "
                                   "before asking again.",
                                   true, false},
    [REFUSAL_OVERLOADED] = {503, "overloaded", "Too many requests at once",
                            "Too many requests are waiting here. Nothing was changed. Try again later.", true, false},
    [REFUSAL_DRAINING] = {503, "draining", "Shutting down", "This instance is about to end.", false, true},
};

const struct problem_row *refusal_row(enum refusal refusal)
{
    assert(refusal < REFUSAL_COUNT);
    return &rows[refusal];
}
