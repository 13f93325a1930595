/*
 * test_cors.c - what browsers are told: for which requests, joined to what, and never twice.
 */
#include <criterion/criterion.h>

#include "conf_run.h"
#include "proxy/cors.h"
#include "proxy/route.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char configuration[] =
    CONF_UPSTREAMS "routes:\n"
                   "  - {name: put, match: {path: /o, methods: [PUT]}, replayed_header: Was-Replayed,\n"
                   "     key: [{header: X-Key}, {derive: [\"query:o\"]}, {header: X-Other}], cors: [\"https://put\"]}\n"
                   "  - {name: post, match: {path: /o}, cors: [\"https://a\", \"https://b:8443\"]}\n"
                   "  - {name: silent, match: {path: /silent}}\n";

static const struct http_limits limits = {.header_bytes = 32768, .headers = 100, .request_target = 8192};

struct asked {
    struct http_parser *parser;
    struct http_message request;
    struct conf *conf;
    struct cors cors;
};

static struct asked ask(const char *path, const char *head)
{
    static char text[500];
    struct asked asked = {.parser = http_parser_new(HTTP_REQUESTS, &limits)};
    struct http_message *request = &asked.request;
    struct route_choice choice;
    enum problem_code problem;
    size_t used;

    char *messages = conf_run(configuration, sizeof configuration - 1, &(struct conf_overrides){0}, &asked.conf);
    cr_assert_not_null(asked.conf, "%s", messages);
    free(messages);
    snprintf(text, sizeof text, "%s", head);
    cr_assert_eq(http_read_head(asked.parser, text, strlen(text), &used, request, &problem), HTTP_HEAD_READY);
    route_choose(&choice, asked.conf, SPAN("h"), span_of(path), request->method);
    cors_begin(&asked.cors, asked.conf, choice.route, request, SPAN("h"), span_of(path));
    return asked;
}

static void forget(struct asked *asked)
{
    http_parser_free(asked->parser);
    conf_unref(asked->conf);
}

#define HEAD(method, more) method " /o HTTP/1.1\r\nHost: h\r\n" more "\r\n"
#define PREFLIGHT(asked)   "Access-Control-Request-Method: " asked "\r\n"

Test(cors, which_requests)
{
    static const struct {
        const char *name, *path, *head, *route;
        bool preflight, credentials;
    } rows[] = {
        {"listed", "/o", HEAD("POST", "Origin: https://a\r\n"), "post", false, false},
        {"the other one", "/o", HEAD("POST", "Origin: https://b:8443\r\n"), "post", false, false},
        {"with cookies", "/o", HEAD("POST", "Origin: https://a\r\nCookie: c=1\r\n"), "post", false, true},
        {"not listed", "/o", HEAD("POST", "Origin: https://c\r\n"), NULL, false, false},
        {"another port", "/o", HEAD("POST", "Origin: https://b\r\n"), NULL, false, false},
        {"another scheme", "/o", HEAD("POST", "Origin: http://a\r\n"), NULL, false, false},
        {"no browser", "/o", HEAD("POST", ""), NULL, false, false},
        {"two origins", "/o", HEAD("POST", "Origin: https://a\r\nOrigin: https://a\r\n"), NULL, false, false},
        {"listed for another route", "/o", HEAD("PUT", "Origin: https://a\r\n"), NULL, false, false},
        {"no route for the method", "/o", HEAD("GET", "Origin: https://a\r\n"), NULL, false, false},
        {"route without cors", "/silent", HEAD("POST", "Origin: https://a\r\n"), NULL, false, false},
        {"preflight", "/o", HEAD("OPTIONS", "Origin: https://a\r\n" PREFLIGHT("POST")), "post", true, false},
        {"of another method", "/o", HEAD("OPTIONS", "Origin: https://put\r\n" PREFLIGHT("PUT")), "put", true, false},
        {"of the wrong one", "/o", HEAD("OPTIONS", "Origin: https://put\r\n" PREFLIGHT("POST")), NULL, false, false},
        {"of no route's", "/o", HEAD("OPTIONS", "Origin: https://a\r\n" PREFLIGHT("DELETE")), NULL, false, false},
        {"OPTIONS, not a preflight", "/o", HEAD("OPTIONS", "Origin: https://a\r\n"), NULL, false, false},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct asked asked = ask(rows[i].path, rows[i].head);

        cr_expect_str_eq(asked.cors.route ? asked.cors.route->name : "", rows[i].route ? rows[i].route : "", "%s",
                         rows[i].name);
        cr_expect_eq(asked.cors.preflight, rows[i].preflight, "%s", rows[i].name);
        cr_expect_eq(asked.cors.credentials, rows[i].credentials, "%s", rows[i].name);
        forget(&asked);
    }
}

static const char *joined(struct asked *asked, struct http_field *came, size_t count)
{
    static char text[1000];
    struct http_field fields[8];
    struct response_parts parts = {200, SPAN("OK"), came, count};
    struct buffer memory = {0}, out = {0};

    cors_join(&asked->cors, &parts, fields, &memory);
    for (size_t i = 0; i < parts.field_count; i++)
        buffer_printf(&out, "%.*s: %.*s|", (int)parts.fields[i].name.len, parts.fields[i].name.data,
                      (int)parts.fields[i].value.len, parts.fields[i].value.data);
    snprintf(text, sizeof text, "%.*s", (int)buffer_len(&out), buffer_data(&out));
    buffer_free(&memory);
    buffer_free(&out);
    return text;
}

Test(cors, what_joins_an_answer)
{
#define EXPOSE "Access-Control-Expose-Headers"
#define ALLOW  "Access-Control-Allow-Headers"
#define ALL    "Idempotent-Replayed, Retry-After, X-Request-Id"
    static const struct {
        const char *name, *head;
        struct http_field came[3];
        size_t count;
        const char *joined;
    } rows[] = {
        {"nothing there", HEAD("POST", "Origin: https://a\r\n"), {{{NULL, 0}, {NULL, 0}}}, 0, EXPOSE ": " ALL "|"},
        {"another field",
         HEAD("POST", "Origin: https://a\r\n"),
         {{SPAN("Location"), SPAN("/1")}},
         1,
         "Location: /1|" EXPOSE ": " ALL "|"},
        {"in its place",
         HEAD("POST", "Origin: https://a\r\n"),
         {{SPAN("access-control-expose-headers"), SPAN("ETag")}, {SPAN("X"), SPAN("y")}},
         2,
         "access-control-expose-headers: ETag, " ALL "|X: y|"},
        {"some are there",
         HEAD("POST", "Origin: https://a\r\n"),
         {{SPAN(EXPOSE), SPAN("x-request-id,ETag")}, {SPAN(EXPOSE), SPAN("Retry-After")}},
         2,
         EXPOSE ": x-request-id,ETag, Idempotent-Replayed|" EXPOSE ": Retry-After|"},
        {"all are there", HEAD("POST", "Origin: https://a\r\n"), {{SPAN(EXPOSE), SPAN(ALL)}}, 1, EXPOSE ": " ALL "|"},
        {"empty", HEAD("POST", "Origin: https://a\r\n"), {{SPAN(EXPOSE), SPAN("")}}, 1, EXPOSE ": " ALL "|"},
        {"any", HEAD("POST", "Origin: https://a\r\n"), {{SPAN(EXPOSE), SPAN("*")}}, 1, EXPOSE ": *, " ALL "|"},
        {"a marker of another name",
         HEAD("PUT", "Origin: https://put\r\n"),
         {{{NULL, 0}, {NULL, 0}}},
         0,
         EXPOSE ": Was-Replayed, Retry-After, X-Request-Id|"},
        {"preflight",
         HEAD("OPTIONS", "Origin: https://a\r\n" PREFLIGHT("POST")),
         {{SPAN(ALLOW), SPAN("Content-Type")}},
         1,
         ALLOW ": Content-Type, Idempotency-Key|"},
        {"preflight of an API that knows it",
         HEAD("OPTIONS", "Origin: https://a\r\n" PREFLIGHT("POST")),
         {{SPAN(ALLOW), SPAN("idempotency-key")}},
         1,
         ALLOW ": idempotency-key|"},
        {"all key headers of the route",
         HEAD("OPTIONS", "Origin: https://put\r\n" PREFLIGHT("PUT")),
         {{{NULL, 0}, {NULL, 0}}},
         0,
         ALLOW ": X-Key, X-Other|"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct asked asked = ask("/o", rows[i].head);
        const char *text = joined(&asked, (struct http_field *)(uintptr_t)rows[i].came, rows[i].count);

        cr_expect_str_eq(text, rows[i].joined, "%s: %s", rows[i].name, text);
        forget(&asked);
    }
}

Test(cors, own_answers)
{
    struct asked asked = ask("/o", HEAD("POST", "Origin: https://a\r\nCookie: c=1\r\n"));
    struct http_field fields[CORS_OWN_FIELDS];
    struct buffer memory = {0};

    cr_assert_eq(cors_own_fields(&asked.cors, fields, &memory), 4);
    cr_expect(span_equal(fields[0].name, SPAN("Access-Control-Allow-Origin")));
    cr_expect(span_equal(fields[0].value, SPAN("https://a")), "the one that asks, never a star");
    cr_expect(span_equal(fields[1].name, SPAN("Vary")) && span_equal(fields[1].value, SPAN("Origin")));
    cr_expect(span_equal(fields[2].name, SPAN("Access-Control-Allow-Credentials")));
    cr_expect(span_equal(fields[3].name, SPAN(EXPOSE)) && span_equal(fields[3].value, SPAN(ALL)));
    buffer_free(&memory);
    asked.cors.credentials = false;
    cr_expect_eq(cors_own_fields(&asked.cors, fields, &memory), 3, "without cookies nothing is said of them");
    buffer_free(&memory);
    forget(&asked);
}

Test(cors, reason_phrases)
{
    static const struct {
        uint16_t status;
        const char *reason;
    } rows[] = {{100, "Continue"},
                {200, "OK"},
                {204, "No Content"},
                {409, "Conflict"},
                {413, "Content Too Large"},
                {422, "Unprocessable Content"},
                {431, "Request Header Fields Too Large"},
                {505, "HTTP Version Not Supported"},
                {511, "Network Authentication Required"},
                {99, ""},
                {104, ""},
                {299, ""},
                {512, ""},
                {999, ""},
                {0, ""}};

    for (size_t i = 0; i < COUNT(rows); i++)
        cr_expect(span_equal(http_reason(rows[i].status), span_of(rows[i].reason)), "%u", rows[i].status);
    for (int code = PROBLEM_NONE + 1; code < PROBLEM_CODE_COUNT; code++)
        cr_expect(http_reason(problem_row(code)->status).len, "%s has a phrase", problem_row(code)->name);
}

Test(cors, configuration)
{
    static const char text[] = CONF_ROUTE "    cors: [\"http://a:81\", \"https://[::1]:8443\", "
                                          "\"capacitor://localhost\"]\n  - name: s\n    match: {path: /s}\n";
    struct conf *conf;
    char *messages = conf_run(text, sizeof text - 1, &(struct conf_overrides){0}, &conf);

    cr_assert_not_null(conf, "%s", messages);
    cr_expect_str_eq(conf->routes[0].cors[1], "https://[::1]:8443");
    cr_expect_str_eq(conf->routes[0].cors[2], "capacitor://localhost");
    cr_expect_null(conf->routes[0].cors[3]);
    cr_expect_null(conf->routes[1].cors[0], "off when absent");
    free(messages);
    conf_unref(conf);
}
