/*
 * The steps of a dry run: which credentials are known by name, what a component says and why no key comes of it, which
 * statuses mean what. That the verdict is the running proxy's is tested end to end.
 */
#include "proxy/explain_write.h"
#include "proxy/json.h"
#include "tests/unit/conf_run.h"

#include <criterion/criterion.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

Test(explain, credentials_are_known_by_name)
{
    static const struct {
        const char *name;
        bool is_credential;
    } rows[] = {
        {"Authorization", true},
        {"proxy-authorization", true},
        {"Cookie", true},
        {"X-Api-Key", true},
        {"apikey", true},
        {"api_key", true},
        {"X-Auth-Token", true},
        {"access_token", true},
        {"/user/password", true},
        {"client_secret", true},
        {"X-Access-Key", true},
        {"session_id", true},
        {"X-Signature", true},
        {"JWT", true},
        {"Idempotency-Key", false},
        {"I-Twilio-Idempotency-Token", false},
        {"X-Account", false},
        {"X-Order-Key", false},
        {"", false},
        {"/message/id", false},
        {"webhook-id", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        cr_expect_eq(explain_is_credential(span_of(rows[i].name)), rows[i].is_credential, "%s", rows[i].name);
}

struct run {
    struct conf *conf;
    struct explanation explanation;
};

static void begin(struct run *run, const char *route, const char *head, const char *body)
{
    char text[2000], *messages;
    snprintf(text, sizeof text, CONF_ROUTE "%s", route);
    messages = conf_run(text, strlen(text), NULL, &run->conf);
    cr_assert_not_null(run->conf, "%s", messages);
    free(messages);
    explain(&run->explanation, run->conf, &(struct explain_request){.head = span_of(head), .body = span_of(body)});
}

static void end(struct run *run)
{
    explain_free(&run->explanation);
    conf_unref(run->conf);
}

#define POST "POST /a?x=1&token=t HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n"

Test(explain, what_components_say)
{
    static const struct {
        const char *component, *fields, *body, *state, *why_not, *text; /* text NULL: not shown */
        bool hidden;
    } rows[] = {
        {"header:X-A", "X-A: v\r\n", "{}", "text", NULL, "v", false},
        {"header:X-A", "", "{}", "absent", "is absent", NULL, false},
        {"header:X-A", "X-A:\r\n", "{}", "empty", "is empty", "", false},
        {"header:X-A", "X-A: 1\r\nX-A: 2\r\n", "{}", "several values", "has several values", NULL, false},
        {"header:X-Api-Key", "X-Api-Key: v\r\n", "{}", "text", NULL, NULL, true},
        {"cookie:c", "Cookie: c=1\r\n", "{}", "text", NULL, NULL, true},
        {"query:x", "", "{}", "text", NULL, "1", false},
        {"query:token", "", "{}", "text", NULL, NULL, true},
        {"query", "", "{}", "text", NULL, NULL, true},
        {"json:/n", "", "{\"n\":1.0}", "number", NULL, "1.0", false},
        {"json:/n", "", "{\"n\":true}", "true", NULL, NULL, false},
        {"json:/n", "", "{\"n\":null}", "null", "is null", NULL, false},
        {"json:/n", "", "{\"n\":{}}", "object or array", "is an object or an array", "{}", false},
        {"json:/n", "", "{", "unreadable", "cannot be read: the body is no valid JSON, or has a duplicate member", NULL,
         false},
        {"json:/n", "Content-Encoding: gzip\r\n", "{}", "unreadable", "cannot be read: the body has a Content-Encoding",
         NULL, false},
        {"form:n", "", "n=1", "unreadable", "cannot be read: the Content-Type is not application/x-www-form-urlencoded",
         NULL, false},
        {"body", "", "b", "text", NULL, "b", false},
        {"method", "", "b", "text", NULL, "POST", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char route[200], head[400];
        struct run run;
        struct buffer scratch = {0};
        snprintf(route, sizeof route, "    key: [{derive: [\"%s\"]}]\n", rows[i].component);
        snprintf(head, sizeof head, POST "%s\r\n", rows[i].fields);
        begin(&run, route, head, rows[i].body);
        bool named = run.explanation.admission == ADMISSION_PROTECTED;
        cr_expect_eq(named, rows[i].why_not == NULL, "row %zu: a key comes of it", i);
        run.explanation.request.body = span_of(rows[i].body);
        run.explanation.request.body_complete = true;
        struct explain_value value =
            explain_component(&run.explanation, &run.conf->routes[0].keys[0].derive.items[0], &scratch);
        cr_expect_str_eq(value.state, rows[i].state, "row %zu is %s", i, value.state);
        cr_expect_eq(value.hidden, rows[i].hidden, "row %zu", i);
        cr_expect_eq(value.shown, rows[i].text != NULL, "row %zu", i);
        if (rows[i].text && value.shown)
            cr_expect(span_equal(value.text, span_of(rows[i].text)), "row %zu is '%.*s'", i, (int)value.text.len,
                      value.text.data);
        cr_assert_eq(value.why_not != NULL, rows[i].why_not != NULL, "row %zu", i);
        if (value.why_not)
            cr_expect_str_eq(value.why_not, rows[i].why_not, "row %zu: %s", i, value.why_not);
        buffer_free(&scratch);
        end(&run);
    }
}

static void collect(void *arg, unsigned first, unsigned last)
{
    char *text = arg;
    sprintf(text + strlen(text), " %u-%u", first, last);
}

Test(explain, statuses_by_meaning)
{
    static const struct {
        enum status_class class;
        bool retry_after;
        const char *runs;
    } rows[] = {
        {STATUS_COMPLETED, false, " 200-403 405-499"}, {STATUS_COMPLETED, true, " 503-503"},
        {STATUS_RELEASE, false, " 404-404"},           {STATUS_RELEASE, true, " 500-502 504-599"},
        {STATUS_UNKNOWN, false, " 500-599"},           {STATUS_UNKNOWN, true, ""},
    };
    struct run run;
    begin(&run,
          "    statuses: {completed: [\"503+retry-after\"], release: [404, \"5xx+retry-after\"], unknown: [5xx]}\n",
          POST "\r\n", "{}");
    for (size_t i = 0; i < COUNT(rows); i++) {
        char runs[200] = "";
        explain_statuses(&run.conf->routes[0], rows[i].class, rows[i].retry_after, collect, runs);
        cr_expect_str_eq(runs, rows[i].runs, "row %zu is '%s'", i, runs);
    }
    end(&run);
}

/* Whatever came, both forms are written, and the JSON is valid. */
Test(explain, always_written)
{
    static const char *const heads[] = {
        POST "\r\n",
        POST "Idempotency-Key: k\r\n\r\n",
        POST "Idempotency-Key: \"\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "FOO / HTTP/1.1\r\nHost: h\r\n\r\n",
        "POST /\xff HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\nContent-Length: 99999999999\r\n\r\n",
        "x\r\n\r\n",
    };
    for (size_t i = 0; i < COUNT(heads); i++) {
        struct run run;
        struct buffer json = {0};
        char *text = NULL;
        size_t size;
        FILE *out = must_allocate(open_memstream(&text, &size));
        begin(&run, "    task: header:X-Task\n", heads[i], "{}");
        explain_write_text(&run.explanation, out);
        explain_write_json(&run.explanation, &json);
        fclose(out);
        cr_expect(json_valid(buffer_span(&json)), "%s\n%.*s", heads[i], (int)buffer_len(&json), buffer_data(&json));
        cr_expect_not_null(strstr(text, "result       "), "%s", text);
        free(text);
        buffer_free(&json);
        end(&run);
    }
}
