/*
 * What a person says of an unknown action, and actions as people see them.
 */
#include "proxy/admin/action_json.h"
#include "proxy/admin/resolution.h"
#include "proxy/json.h"

#include <criterion/criterion.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- resolutions ------------------------------------------------------------------------------ */

static struct span stored(struct resolution *resolution, char *const *drop, struct stored_response *view,
                          struct store_bytes **bytes)
{
    *bytes = resolution_response(resolution, "Idempotent-Replayed", drop);
    cr_assert(stored_response_read(view, (*bytes)->data, (*bytes)->len), "can be replayed");
    return view->body;
}

Test(admin_resolution, completed)
{
    static char drop_1[] = "set-cookie";
    static char *const drop[] = {drop_1, NULL};
    struct resolution *resolution = NEW(struct resolution);
    struct stored_response *view = NEW(struct stored_response);
    struct store_bytes *bytes;
    char why[RESOLUTION_WHY_SIZE] = "";
    cr_assert(
        resolution_read(SPAN(" {\"as\" : \"completed\", \"status\":201,\n\"headers\":[[\"Location\",\" /a\\u00e4 \"],"
                             "[\"Set-Cookie\",\"a=b\"],[\"idempotent-replayed\",\"false\"],[\"X-A\",\"\"]], "
                             "\"body\":\"{\\\"id\\\":1}\\n\\ud83d\\ude00\\u0000\"}"),
                        resolution, why),
        "%s", why);
    cr_expect_eq(resolution->to_state, STORE_COMPLETED);
    struct span body = stored(resolution, drop, view, &bytes);
    cr_expect_eq(view->parts.status, 201);
    cr_expect(span_equal(view->parts.reason, SPAN("Created")));
    cr_assert_eq(view->parts.field_count, 2, "without the marker and what the route drops");
    cr_expect(span_equal(view->fields[0].name, SPAN("Location")));
    cr_expect(span_equal(view->fields[0].value, SPAN("/a\xc3\xa4")), "without white space around");
    cr_expect_eq(view->fields[1].value.len, 0);
    cr_expect(span_equal(body, SPAN("{\"id\":1}\n\xf0\x9f\x98\x80\0")), "byte for byte, also a NUL");
    store_bytes_unref(bytes);
    resolution_clear(resolution);
    free(resolution), free(view);
}

Test(admin_resolution, bytes_and_defaults)
{
    struct resolution *resolution = NEW(struct resolution);
    struct stored_response *view = NEW(struct stored_response);
    struct store_bytes *bytes;
    char why[RESOLUTION_WHY_SIZE];
    cr_assert(resolution_read(SPAN("{\"body_base64\":\"AP+A\",\"status\":200,\"as\":\"completed\"}"), resolution, why));
    cr_expect(span_equal(stored(resolution, NULL, view, &bytes), SPAN("\0\xff\x80")));
    cr_expect_eq(view->parts.field_count, 0);
    store_bytes_unref(bytes);
    resolution_clear(resolution);
    cr_assert(
        resolution_read(SPAN("{\"as\":\"completed\",\"status\":204,\"headers\":[],\"body\":\"\"}"), resolution, why));
    cr_expect_eq(stored(resolution, NULL, view, &bytes).len, 0);
    store_bytes_unref(bytes);
    resolution_clear(resolution);
    cr_assert(resolution_read(SPAN("{\"as\":\"not-executed\"}"), resolution, why));
    cr_expect_eq(resolution->to_state, STORE_RELEASED);
    resolution_clear(resolution);
    free(resolution), free(view);
}

#define DONE(rest)   "{\"as\":\"completed\",\"status\":200" rest "}"
#define FIELD(field) DONE(",\"headers\":[" field "]")

Test(admin_resolution, what_is_wrong_is_named)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "the body is not valid JSON, or has a member twice"},
        {"{", "the body is not valid JSON, or has a member twice"},
        {"{\"as\":\"completed\",\"as\":\"completed\"}", "the body is not valid JSON, or has a member twice"},
        {"[]", "expected a JSON object"},
        {"\"x\"", "expected a JSON object"},
        {"null", "expected a JSON object"},
        {"{}", "as: expected \"completed\" or \"not-executed\""},
        {"{\"as\":\"done\"}", "as: expected \"completed\" or \"not-executed\""},
        {"{\"as\":1}", "as: expected \"completed\" or \"not-executed\""},
        {"{\"as\":\"completed\"}", "status: missing; it is what repetitions will get"},
        {"{\"as\":\"completed\",\"status\":\"200\"}", "status: expected a number from 200 to 599"},
        {"{\"as\":\"completed\",\"status\":199}", "status: expected a number from 200 to 599"},
        {"{\"as\":\"completed\",\"status\":600}", "status: expected a number from 200 to 599"},
        {"{\"as\":\"completed\",\"status\":200.0}", "status: expected a number from 200 to 599"},
        {"{\"as\":\"completed\",\"status\":2e2}", "status: expected a number from 200 to 599"},
        {"{\"as\":\"completed\",\"status\":-20}", "status: expected a number from 200 to 599"},
        {DONE(",\"statuses\":1"), "unknown member; known are as, status, headers, body and body_base64"},
        {DONE(",\"body\":null"), "body: expected a text"},
        {DONE(",\"body\":{}"), "body: expected a text"},
        {DONE(",\"body\":\"\",\"body_base64\":\"\""), "body and body_base64 exclude each other"},
        {DONE(",\"body_base64\":\"A\""),
         "body_base64: expected base64 (RFC 4648 §4), with padding and without white space"},
        {DONE(",\"body_base64\":5"),
         "body_base64: expected base64 (RFC 4648 §4), with padding and without white space"},
        {"{\"as\":\"completed\",\"status\":204,\"body\":\"x\"}", "body: a response with status 204 has none"},
        {"{\"as\":\"completed\",\"status\":304,\"body_base64\":\"AA==\"}", "body: a response with status 304 has none"},
        {DONE(",\"headers\":{}"), "headers: expected a list of [\"Name\", \"value\"]"},
        {FIELD("\"X\""), "headers[0]: expected [\"Name\", \"value\"]"},
        {FIELD("[\"X\"]"), "headers[0]: expected [\"Name\", \"value\"]"},
        {FIELD("[\"X\",\"a\"],[\"X\",5]"), "headers[1]: expected [\"Name\", \"value\"]"},
        {FIELD("[\"X\",\"a\",\"b\"]"), "headers[0]: expected [\"Name\", \"value\"]"},
        {FIELD("[\"\",\"a\"]"), "headers[0]: the name is not one of HTTP (RFC 9110: letters, digits, - and _ …)"},
        {FIELD("[\"A b\",\"a\"]"), "headers[0]: the name is not one of HTTP (RFC 9110: letters, digits, - and _ …)"},
        {FIELD("[\"A:\",\"a\"]"), "headers[0]: the name is not one of HTTP (RFC 9110: letters, digits, - and _ …)"},
        {FIELD("[\"X\",\"a\\r\\nSet-Cookie: b\"]"),
         "headers[0]: the value holds a line break or another control character"},
        {FIELD("[\"X\",\"\\u0000\"]"), "headers[0]: the value holds a line break or another control character"},
        {FIELD("[\"X\",\"\\u007f\"]"), "headers[0]: the value holds a line break or another control character"},
        {FIELD("[\"content-LENGTH\",\"5\"]"), "headers[0]: content-LENGTH is einmal's own business: leave it out"},
        {FIELD("[\"Transfer-Encoding\",\"chunked\"]"),
         "headers[0]: Transfer-Encoding is einmal's own business: leave it out"},
        {FIELD("[\"Connection\",\"close\"]"), "headers[0]: Connection is einmal's own business: leave it out"},
        {FIELD("[\"Idempotency-Degraded\",\"true\"]"),
         "headers[0]: Idempotency-Degraded is einmal's own business: leave it out"},
        {"{\"as\":\"not-executed\",\"status\":200}",
         "not-executed has no response: leave status, headers and body out"},
        {"{\"as\":\"not-executed\",\"body\":\"\"}", "not-executed has no response: leave status, headers and body out"},
    };
    struct resolution *resolution = NEW(struct resolution);
    char none[RESOLUTION_WHY_SIZE];
    cr_expect_not(resolution_read((struct span){NULL, 0}, resolution, none), "a request without a body");
    resolution_clear(resolution);
    for (size_t i = 0; i < COUNT(rows); i++) {
        char why[RESOLUTION_WHY_SIZE] = "";
        cr_expect_not(resolution_read(span_of(rows[i].text), resolution, why), "%s", rows[i].text);
        cr_expect_str_eq(why, rows[i].why, "%s: %s", rows[i].text, why);
        resolution_clear(resolution);
    }
    free(resolution);
}

Test(admin_resolution, bounds)
{
    struct resolution *resolution = NEW(struct resolution);
    struct buffer text = {0};
    char why[RESOLUTION_WHY_SIZE];
    buffer_append_span(&text, SPAN("{\"as\":\"completed\",\"status\":200,\"headers\":["));
    for (int i = 0; i < HTTP_MAX_FIELDS + 1; i++)
        buffer_printf(&text, "%s[\"X\",\"\"]", i ? "," : "");
    buffer_append_span(&text, SPAN("]}"));
    cr_expect_not(resolution_read(buffer_span(&text), resolution, why));
    cr_expect_str_eq(why, "headers: at most 256");
    resolution_clear(resolution);
    buffer_free(&text);
    buffer_append_span(&text, SPAN("{\"as\":\"completed\",\"status\":200,\"headers\":[[\"X\",\""));
    for (int i = 0; i < 70000; i++)
        buffer_append(&text, "a", 1);
    buffer_append_span(&text, SPAN("\"]]}"));
    cr_expect_not(resolution_read(buffer_span(&text), resolution, why));
    cr_expect_str_eq(why, "headers: at most 64 KiB together");
    resolution_clear(resolution);
    buffer_free(&text);
    buffer_append_span(&text, SPAN("{\"as\":\"completed\",\"status\":200,\"body\":\""));
    memset(buffer_reserve(&text, RESOLUTION_BODY_MAX + 1), 'a', RESOLUTION_BODY_MAX + 1);
    buffer_commit(&text, RESOLUTION_BODY_MAX + 1);
    buffer_append_span(&text, SPAN("\"}"));
    cr_expect_not(resolution_read(buffer_span(&text), resolution, why));
    cr_expect_str_eq(why, "body: at most 16 MiB");
    resolution_clear(resolution);
    buffer_free(&text);
    free(resolution);
}

/* ---- actions ---------------------------------------------------------------------------------- */

static void expect_written(const struct store_action *action, enum action_detail detail, const char *expected)
{
    struct buffer out = {0};
    action_write(&out, action, detail);
    cr_expect(json_valid(buffer_span(&out)), "%.*s", (int)buffer_len(&out), buffer_data(&out));
    buffer_append(&out, "", 1);
    cr_expect_str_eq(buffer_data(&out), expected);
    buffer_free(&out);
}

#define ID "00ff000000000000000000000000000000000000000000000000000000000000"

Test(admin_resolution, actions)
{
    static char route[] = "orders", scope_name[] = "o", task[] = "a \"b\"", key[] = "k\n";
    struct store_action action = {.id = {{0, 0xff}},
                                  .route = route,
                                  .scope_name = scope_name,
                                  .task = task,
                                  .key = key,
                                  .key_source = STORE_KEY_SENT,
                                  .state = STORE_UNKNOWN,
                                  .reason = STORE_REASON_STATUS,
                                  .status = 500,
                                  .executions = 2,
                                  .created_ms = 1000,
                                  .since_ms = 86400001,
                                  .expires_ms = 2000};
    expect_written(
        &action, ACTION_LISTED,
        "{\"id\":\"" ID "\",\"route\":\"orders\",\"scope_name\":\"o\",\"task\":\"a \\\"b\\\"\",\"key\":\"k\\u000a\","
        "\"key_source\":\"sent\",\"state\":\"unknown\",\"status\":500,\"reason\":\"status\",\"executions\":2,"
        "\"created\":\"1970-01-01T00:00:01.000Z\",\"since\":\"1970-01-02T00:00:00.001Z\","
        "\"expires\":\"1970-01-01T00:00:02.000Z\"}");
    action.task = action.key = NULL;
    action.key_source = STORE_KEY_DERIVED;
    action.reason = STORE_REASON_NONE;
    action.status = 0;
    action.state = STORE_IN_PROGRESS;
    action.expires_ms = STORE_FOREVER;
    expect_written(
        &action, ACTION_RESUME,
        "{\"id\":\"" ID "\",\"route\":\"orders\",\"scope_name\":\"o\",\"task\":null,\"key\":null,"
        "\"key_source\":\"derived\",\"state\":\"in_progress\",\"status\":null,\"reason\":null,\"executions\":2,"
        "\"created\":\"1970-01-01T00:00:01.000Z\",\"since\":\"1970-01-02T00:00:00.001Z\",\"expires\":null,"
        "\"resume\":\"wait\"}");
}

Test(admin_resolution, what_may_be_resumed)
{
    static const struct {
        enum store_state state;
        const char *resume;
    } rows[] = {{STORE_COMPLETED, "\"resume\":\"no\""},
                {STORE_IN_PROGRESS, "\"resume\":\"wait\""},
                {STORE_UNKNOWN, "\"resume\":\"settle\""}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct store_action action = {.state = rows[i].state, .key_source = STORE_KEY_SENT};
        struct buffer out = {0};
        action_write(&out, &action, ACTION_RESUME);
        buffer_append(&out, "", 1);
        cr_expect_not_null(strstr(buffer_data(&out), rows[i].resume), "%s", buffer_data(&out));
        buffer_free(&out);
    }
}

Test(admin_resolution, the_whole_action_shows_its_response_and_who_decided)
{
    static char decision[] = "resolved by me";
    struct http_field fields[] = {{SPAN("A"), SPAN("b\"")}, {SPAN("C"), SPAN("\xff")}};
    struct response_parts parts = {201, SPAN("Created"), fields, 2};
    struct store_action action = {.state = STORE_COMPLETED, .key_source = STORE_KEY_SENT, .decision = decision};
    size_t head = stored_response_head_size(&parts);
    action.response = store_bytes_new(head + 3);
    stored_response_write_head(action.response->data, &parts, 3);
    memcpy(action.response->data + head, "abc", 3);
    struct buffer out = {0};
    action_write(&out, &action, ACTION_WHOLE);
    cr_expect(json_valid(buffer_span(&out)));
    buffer_append(&out, "", 1);
    cr_expect_not_null(strstr(buffer_data(&out), ",\"response\":{\"status\":201,\"headers\":[[\"A\",\"b\\\"\"],[\"C\","
                                                 "\"\\ufffd\"]],\"body_bytes\":3},\"decision\":\"resolved by me\"}"),
                       "%s", buffer_data(&out));
    buffer_free(&out);
    action.response->data[0] = 99; /* another version */
    action_write(&out, &action, ACTION_WHOLE);
    buffer_append(&out, "", 1);
    cr_expect_not_null(strstr(buffer_data(&out), "\"response\":null"), "what cannot be replayed is not shown");
    buffer_free(&out);
    store_bytes_unref(action.response);
}

Test(admin_resolution, every_reason_has_its_name)
{
    for (int reason = STORE_REASON_STATUS; reason <= STORE_REASON_PROBED; reason++)
        cr_expect_not_null(store_reason_name((enum store_reason)reason), "%d", reason);
    cr_expect_null(store_reason_name(STORE_REASON_NONE));
}
