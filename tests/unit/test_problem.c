/*
 * test_problem.c - einmal's own answers: the table is complete, the body is JSON whatever it holds.
 */
#include <criterion/criterion.h>

#include "proxy/problem.h"

/* Contract §5, word for word: clients and dashboards rely on these. */
Test(problem, table)
{
    static const struct {
        enum problem_code code;
        unsigned status;
        const char *name;
        bool retry_after;
    } rows[] = {
        {PROBLEM_KEY_MISSING, 400, "key-missing", false},
        {PROBLEM_KEY_INVALID, 400, "key-invalid", false},
        {PROBLEM_BAD_REQUEST, 400, "bad-request", false},
        {PROBLEM_NO_ROUTE, 404, "no-route", false},
        {PROBLEM_REQUEST_TIMEOUT, 408, "request-timeout", false},
        {PROBLEM_IN_PROGRESS, 409, "in-progress", true},
        {PROBLEM_IDENTITY_CHANGED, 409, "identity-changed", false},
        {PROBLEM_OUTCOME_UNKNOWN, 409, "outcome-unknown", false},
        {PROBLEM_RESPONSE_NOT_KEPT, 409, "response-not-kept", false},
        {PROBLEM_BODY_TOO_LARGE, 413, "body-too-large", false},
        {PROBLEM_TARGET_TOO_LONG, 414, "target-too-long", false},
        {PROBLEM_HEADER_TOO_LARGE, 431, "header-too-large", false},
        {PROBLEM_EXPECTATION_FAILED, 417, "expectation-failed", false},
        {PROBLEM_KEY_REUSED, 422, "key-reused", false},
        {PROBLEM_NOT_IMPLEMENTED, 501, "not-implemented", false},
        {PROBLEM_UPSTREAM_UNREACHABLE, 502, "upstream-unreachable", false},
        {PROBLEM_UPSTREAM_INVALID, 502, "upstream-invalid", false},
        {PROBLEM_UPSTREAM_CLOSED, 502, "upstream-closed", false},
        {PROBLEM_STORE_UNAVAILABLE, 503, "store-unavailable", true},
        {PROBLEM_OVERLOADED, 503, "overloaded", true},
        {PROBLEM_DRAINING, 503, "draining", true},
        {PROBLEM_UPSTREAM_TIMEOUT, 504, "upstream-timeout", false},
        {PROBLEM_VERSION_NOT_SUPPORTED, 505, "version-not-supported", false},
    };

    cr_assert_eq(sizeof(rows) / sizeof(rows[0]), PROBLEM_CODE_COUNT - 1, "a code without a row here");
    for (size_t i = 0; i < PROBLEM_CODE_COUNT - 1; i++) {
        const struct problem_row *row = problem_row(rows[i].code);

        cr_expect_eq(row->status, rows[i].status, "%s: %u", rows[i].name, (unsigned)row->status);
        cr_expect_str_eq(row->name, rows[i].name);
        cr_expect_eq(row->retry_after, rows[i].retry_after, "%s", rows[i].name);
        cr_expect(row->title && row->title[0] && row->detail && row->detail[0], "%s: no text", rows[i].name);
    }
}

Test(problem, bodies)
{
    static const struct {
        const char *name;
        struct problem problem;
        const char *expected;
    } rows[] = {
        {"the row's own text",
         {.code = PROBLEM_NO_ROUTE},
         "{\"type\":\"urn:einmal:problem:no-route\",\"title\":\"No route\",\"status\":404,\"detail\":\"No route "
         "matches "
         "this host and path, and there is no default upstream.\",\"code\":\"no-route\"}\n"},
        {"all members",
         {.code = PROBLEM_OUTCOME_UNKNOWN, .detail = "d", .action = "ab", .state = "unknown", .original_status = 500},
         "{\"type\":\"urn:einmal:problem:outcome-unknown\",\"title\":\"Outcome unknown\",\"status\":409,"
         "\"detail\":\"d\",\"code\":\"outcome-unknown\",\"action\":\"ab\",\"state\":\"unknown\",\"original_status\":"
         "500}\n"},
        {"nothing of another identity's action",
         {.code = PROBLEM_IDENTITY_CHANGED,
          .detail = "d",
          .action = "ab",
          .state = "completed",
          .original_status = 201},
         "{\"type\":\"urn:einmal:problem:identity-changed\",\"title\":\"Key known from another identity\","
         "\"status\":409,\"detail\":\"d\",\"code\":\"identity-changed\"}\n"},
        {"escapes",
         {.code = PROBLEM_NO_ROUTE, .detail = "\"\\\n\x01\x7f/\xc3\xa9\xf0\x9f\x98\x80"},
         "{\"type\":\"urn:einmal:problem:no-route\",\"title\":\"No route\",\"status\":404,"
         "\"detail\":\"\\\"\\\\\\u000a\\u0001\\u007f/\xc3\xa9\xf0\x9f\x98\x80\",\"code\":\"no-route\"}\n"},
        {"bytes that are no UTF-8: alone, overlong, surrogate, beyond the end, cut off",
         {.code = PROBLEM_NO_ROUTE, .detail = "\x80|\xc0\xaf|\xed\xa0\x80|\xf4\x90\x80\x80|\xe2\x82"},
         "{\"type\":\"urn:einmal:problem:no-route\",\"title\":\"No route\",\"status\":404,\"detail\":\"\\ufffd|"
         "\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd\\ufffd|\\ufffd\\ufffd\",\"code\":\"no-route\"}\n"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buffer out = {0};

        problem_write_body(&out, &rows[i].problem);
        cr_expect(span_equal(buffer_span(&out), span_of(rows[i].expected)), "%s: %.*s", rows[i].name,
                  (int)buffer_len(&out), buffer_data(&out));
        buffer_free(&out);
    }
}
