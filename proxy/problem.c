/*
 * problem.c - the answers that einmal makes itself.
 *
 * One row an answer: status, name, title and the sentence that tells a client what to do. The order of the rows is that
 * of the enum, by designated initialisers, so that a code without a row shows as an empty one and the unit test finds
 * it. Invariant: the body is one JSON object in valid UTF-8, whatever bytes the texts hold. Headers (Retry-After,
 * Cache-Control, Connection) are the caller's, who knows the connection.
 */
#include "proxy/problem.h"
#include "proxy/json_text.h"

#include <assert.h>

static const struct problem_row rows[PROBLEM_CODE_COUNT] = {
    [PROBLEM_KEY_MISSING] = {400, "key-missing", "Idempotency key missing",
                             "This operation needs a key that names it. Send one in the Idempotency-Key header and use "
                             "the same key when repeating the request.",
                             false, false},
    [PROBLEM_KEY_INVALID] = {400, "key-invalid", "Idempotency key invalid",
                             "Send exactly one key: 1 to 255 visible characters, quoted or bare.", false, false},
    [PROBLEM_BAD_REQUEST] = {400, "bad-request", "Malformed request",
                             "The request is malformed or ambiguous. Correct it before sending it again.", false, true},
    [PROBLEM_NO_ROUTE] = {404, "no-route", "No route",
                          "No route matches this host and path, and there is no default upstream.", false, false},
    [PROBLEM_REQUEST_TIMEOUT] = {408, "request-timeout", "Request timeout",
                                 "The request did not arrive completely in time. Send it again, faster.", false, true},
    [PROBLEM_IN_PROGRESS] = {409, "in-progress", "Still in progress",
                             "The first request with this key has not ended yet. Repeat with the same key later.", true,
                             false},
    [PROBLEM_IDENTITY_CHANGED] = {409, "identity-changed", "Key known from another identity",
                                  "The same key and content came from another identity. Repeat with the credentials of "
                                  "the first request, or use a new key for a new action.",
                                  false, false},
    [PROBLEM_OUTCOME_UNKNOWN] = {409, "outcome-unknown", "Outcome unknown",
                                 "The request was forwarded, but how it ended is not known, and it is not executed "
                                 "again. Find out at the API, or ask its operator.",
                                 false, false},
    [PROBLEM_RESPONSE_NOT_KEPT] = {409, "response-not-kept", "Completed, response not kept",
                                   "The action is completed, but its response was too large to record. Read the result "
                                   "from the API; do not send the action again.",
                                   false, false},
    [PROBLEM_BODY_TOO_LARGE] = {413, "body-too-large", "Request body too large",
                                "The body is larger than this route reads. Send a smaller one.", false, false},
    [PROBLEM_TARGET_TOO_LONG] = {414, "target-too-long", "Request target too long",
                                 "The request target is longer than limits.request_target. Send a shorter one.", false,
                                 true},
    [PROBLEM_HEADER_TOO_LARGE] = {431, "header-too-large", "Header too large",
                                  "The header has more bytes or fields than the limits allow. Send a smaller one.",
                                  false, true},
    [PROBLEM_EXPECTATION_FAILED] =
        {417, "expectation-failed", "Expectation failed",
         "The only expectation known here is 100-continue. Send the request without another.", false, true},
    [PROBLEM_KEY_REUSED] = {422, "key-reused", "Key used for another request",
                            "This key already names a request with different content. Use a new key for a new action.",
                            false, false},
    [PROBLEM_NOT_IMPLEMENTED] = {501, "not-implemented", "Not implemented",
                                 "This method or transfer coding is not implemented here.", false, true},
    [PROBLEM_UPSTREAM_UNREACHABLE] = {502, "upstream-unreachable", "API not reachable",
                                      "No connection to the API could be made and nothing was sent. Repeating is safe.",
                                      false, false},
    [PROBLEM_UPSTREAM_INVALID] = {502, "upstream-invalid", "Invalid response from the API",
                                  "The API's response was malformed or cut off. The request may have been executed.",
                                  false, false},
    [PROBLEM_UPSTREAM_CLOSED] = {502, "upstream-closed", "API closed the connection",
                                 "The API closed the connection without an answer. The request may have been executed.",
                                 false, false},
    [PROBLEM_STORE_UNAVAILABLE] = {503, "store-unavailable", "Store unavailable",
                                   "The key could not be written down, so nothing was forwarded. Repeat with the same "
                                   "key.",
                                   true, false},
    [PROBLEM_OVERLOADED] = {503, "overloaded", "Overloaded",
                            "Too much is in progress, so nothing was forwarded. Repeat with the same key.", true,
                            false},
    [PROBLEM_DRAINING] = {503, "draining", "Shutting down", "This instance is shutting down. Repeat with the same key.",
                          true, true},
    [PROBLEM_UPSTREAM_TIMEOUT] = {504, "upstream-timeout", "API did not answer in time",
                                  "The request was sent, but no answer came in time. It may have been executed.", false,
                                  false},
    [PROBLEM_VERSION_NOT_SUPPORTED] = {505, "version-not-supported", "HTTP version not supported",
                                       "Only HTTP/1.1 and HTTP/1.0 are spoken here.", false, true},
};

const struct problem_row *problem_row(enum problem_code code)
{
    assert(code > PROBLEM_NONE && code < PROBLEM_CODE_COUNT);
    return &rows[code];
}

static void write_member(struct buffer *out, const char *name, const char *value)
{
    buffer_printf(out, ",\"%s\":", name);
    json_escape(out, span_of(value));
}

void problem_write_row(struct buffer *out, const struct problem_row *row, const struct problem *problem)
{
    /* What another identity did is nobody else's business (contract §5). */
    bool about_action = row != &rows[PROBLEM_IDENTITY_CHANGED];

    buffer_printf(out, "{\"type\":\"urn:einmal:problem:%s\"", row->name);
    write_member(out, "title", row->title);
    buffer_printf(out, ",\"status\":%u", (unsigned)row->status);
    write_member(out, "detail", problem->detail ? problem->detail : row->detail);
    write_member(out, "code", row->name);
    if (about_action && problem->action)
        write_member(out, "action", problem->action);
    if (about_action && problem->state)
        write_member(out, "state", problem->state);
    if (about_action && problem->original_status)
        buffer_printf(out, ",\"original_status\":%u", (unsigned)problem->original_status);
    buffer_append_span(out, SPAN("}\n"));
}

void problem_write_body(struct buffer *out, const struct problem *problem)
{
    problem_write_row(out, problem_row(problem->code), problem);
}
