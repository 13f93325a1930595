/*
 * test_probe.c - what is asked about an unknown action, and what an answer's status says (contract §3 `probe`).
 *
 * A value that leaves its place asks for something else, and an answer about something else executes twice or hides an
 * action that never was.
 */
#include "proxy/probe.h"
#include "tests/unit/conf_run.h"
#include "tests/unit/key_fixture.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PROBE_FILE                                                                            \
    CONF_ROUTE "    match: {path: \"/o/{order}\"}\n    on_unknown: probe\n    probe: {path: " \
               "\"%s\"%s}\n"

static struct conf *load(const char *path, const char *more)
{
    char text[1000];
    struct conf *conf;
    snprintf(text, sizeof text, PROBE_FILE, path, more);
    char *messages = conf_run(text, strlen(text), NULL, &conf);
    cr_assert_not_null(conf, "%s: %s", path, messages);
    free(messages);
    return conf;
}

struct target_row {
    const char *name, *path, *key;
    struct asked asked;
    const char *target; /* NULL: none */
    enum probe_target made;
};

/* clang-format off */
#define BODY(text) {.body = {(text), sizeof(text) - 1}}
/* clang-format on */
#define READY    PROBE_TARGET_READY
#define NO_VALUE PROBE_TARGET_NO_VALUE
#define DOTS     PROBE_TARGET_DOTS
#define TOO_LONG PROBE_TARGET_TOO_LONG
#define LIMIT    40
#define LONG_10  "xxxxxxxxxx"

static const struct target_row target_rows[] = {
    {"the key", "/x/{key}", "k-1._~", {0}, "/x/k-1._~", READY},
    {"text around it", "/x/a{key}b/c", "k", {0}, "/x/akb/c", READY},
    {"twice", "/{key}/{key}", "k", {0}, "/k/k", READY},
    {"reserved", "/x/{key}", ":/?#[]@!", {0}, "/x/%3A%2F%3F%23%5B%5D%40%21", READY},
    {"reserved, too", "/x/{key}", "$&()*+,;=", {0}, "/x/%24%26%28%29%2A%2B%2C%3B%3D", READY},
    {"a slash and a query", "/x/{key}/y", "a/b?c#d", {0}, "/x/a%2Fb%3Fc%23d/y", READY},
    {"percent", "/x/{key}", "%2e%2E", {0}, "/x/%252e%252E", READY},
    {"bytes beyond ASCII", "/x/{key}", "\xc3\xa9\x7f ", {0}, "/x/%C3%A9%7F%20", READY},
    {"what is written stays", "/x%2F(a)/{key}", "k", {0}, "/x%2F(a)/k", READY},
    {"a query", "/x?a={key}&b=1", "a&b=2", {0}, "/x?a=a%26b%3D2&b=1", READY},
    {"path", "/x/{path:order}", "k", {.order = "7"}, "/x/7", READY},
    {"path, as it came encoded", "/x/{path:order}", "k", {.order = "a%2Fb:c"}, "/x/a%2Fb%3Ac", READY},
    {"path, a percent of its own", "/x/{path:order}", "k", {.order = "a%zz"}, "/x/a%25zz", READY},
    {"path, dots in disguise", "/x/{path:order}", "k", {.order = "%2E%2e"}, NULL, DOTS},
    {"path, nothing matched", "/x/{path:order}", "k", {0}, NULL, NO_VALUE},
    {"header", "/x/{header:X-Ref}", "k", {.headers = {"x-ref: a b"}}, "/x/a%20b", READY},
    {"header, absent", "/x/{header:X-Ref}", "k", {0}, NULL, NO_VALUE},
    {"header, empty", "/x/{header:X-Ref}", "k", {.headers = {"X-Ref:"}}, NULL, NO_VALUE},
    {"header, twice", "/x/{header:X-Ref}", "k", {.headers = {"X-Ref: a", "X-Ref: b"}}, NULL, NO_VALUE},
    {"string", "/x/{json:/a/b}", "k", BODY("{\"a\":{\"b\":\"\\u00e9/\"}}"), "/x/%C3%A9%2F", READY},
    {"NUL", "/x/{json:/a}", "k", BODY("{\"a\":\"x\\u0000y\"}"), "/x/x%00y", READY},
    {"number as written", "/x/{json:/a}", "k", BODY("{\"a\":1.0}"), "/x/1.0", READY},
    {"true", "/x/{json:/a}", "k", BODY("{\"a\":true}"), "/x/true", READY},
    {"null", "/x/{json:/a}", "k", BODY("{\"a\":null}"), NULL, NO_VALUE},
    {"object", "/x/{json:/a}", "k", BODY("{\"a\":{}}"), NULL, NO_VALUE},
    {"array", "/x/{json:/a}", "k", BODY("{\"a\":[1]}"), NULL, NO_VALUE},
    {"empty string", "/x/{json:/a}", "k", BODY("{\"a\":\"\"}"), NULL, NO_VALUE},
    {"no member", "/x/{json:/a}", "k", BODY("{}"), NULL, NO_VALUE},
    {"twice in the body", "/x/{json:/a}", "k", BODY("{\"a\":1,\"a\":2}"), NULL, NO_VALUE},
    {"no JSON", "/x/{json:/a}", "k", BODY("a"), NULL, NO_VALUE},
    {"dot", "/x/{key}", ".", {0}, NULL, DOTS},
    {"dots", "/x/{key}/y", "..", {0}, NULL, DOTS},
    {"dots in a query", "/x?a={key}", "..", {0}, NULL, DOTS},
    {"dots beside text", "/x/a{json:/a}", "k", BODY("{\"a\":\"..\"}"), NULL, DOTS},
    {"dots with the text around", "/x/.{key}", "k", {0}, "/x/.k", READY},
    {"dots by two values", "/x/{key}{header:X-Ref}", ".", {.headers = {"X-Ref: ."}}, NULL, DOTS},
    {"more dots", "/x/{key}", "...", {0}, "/x/...", READY},
    {"just fits", "/x/{key}", LONG_10 LONG_10 LONG_10 "1234567", {0}, "/x/" LONG_10 LONG_10 LONG_10 "1234567", READY},
    {"one too many", "/x/{key}", LONG_10 LONG_10 LONG_10 "12345678", {0}, NULL, TOO_LONG},
    {"too long by what follows", "/x/{key}/y", LONG_10 LONG_10 LONG_10 "1234567", {0}, NULL, TOO_LONG},
};

Test(probe, expands)
{
    for (size_t i = 0; i < COUNT(target_rows); i++) {
        const struct target_row *row = &target_rows[i];
        struct conf *conf = load(row->path, "");
        struct fixture_request request;
        struct buffer out = {0};
        fixture_request(&request, &row->asked);
        enum probe_target made = probe_expand(conf->routes[0].probe, &request.request, span_of(row->key), LIMIT, &out);
        cr_expect_eq(made, row->made, "%s: %d", row->name, (int)made);
        if (made == READY)
            cr_expect(span_equal(buffer_span(&out), span_of(row->target)), "%s: %.*s", row->name, (int)buffer_len(&out),
                      buffer_data(&out));
        cr_expect_not_null(probe_target_text(made));
        buffer_free(&out);
        conf_unref(conf);
    }
}

/* A value as large as a body may be is not copied out at three times its size. */
Test(probe, is_bounded)
{
    size_t size = 1 << 20;
    struct conf *conf = load("/x/{header:X-Ref}", "");
    struct fixture_request request;
    struct buffer out = {0};
    char *value = must_allocate(malloc(size));
    memset(value, '/', size);
    fixture_request(&request, &(struct asked){.headers = {"X-Ref: a"}});
    request.fields[0].value = (struct span){value, size};
    cr_assert_eq(probe_expand(conf->routes[0].probe, &request.request, SPAN("k"), 8192, &out), TOO_LONG);
    cr_assert_lt(out.capacity, size);
    buffer_free(&out);
    free(value);
    conf_unref(conf);
}

#define HAPPENED     PROBE_VERDICT_HAPPENED
#define NOT_HAPPENED PROBE_VERDICT_NOT_HAPPENED
#define NOT_SETTLED  PROBE_VERDICT_NOT_SETTLED
#define UNKNOWN      PROBE_VERDICT_UNKNOWN

Test(probe, judges)
{
    static const struct {
        const char *settings;
        uint16_t status;
        int64_t since; /* the last forwarding ended, milliseconds */
        enum probe_verdict verdict;
    } rows[] = {
        {"", 200, 0, HAPPENED},
        {"", 200, 1000000, HAPPENED},
        {"", 404, 1000000, NOT_HAPPENED},
        {"", 404, 60000, NOT_HAPPENED},
        {"", 404, 59999, NOT_SETTLED},
        {"", 404, 0, NOT_SETTLED},
        {"", 404, -5, NOT_SETTLED},
        {"", 201, 1000000, UNKNOWN},
        {"", 204, 1000000, UNKNOWN},
        {"", 301, 1000000, UNKNOWN},
        {"", 400, 1000000, UNKNOWN},
        {"", 401, 1000000, UNKNOWN},
        {"", 500, 1000000, UNKNOWN},
        {"", 999, 1000000, UNKNOWN},
        {", settle: 0s", 404, 0, NOT_HAPPENED},
        {", settle: 2s", 404, 1999, NOT_SETTLED},
        {", settle: 2s", 404, 2000, NOT_HAPPENED},
        {", happened: [2xx]", 204, 0, HAPPENED},
        {", happened: [2xx]", 300, 0, UNKNOWN},
        {", happened: [2xx], not_happened: [204]", 204, 1000000, NOT_HAPPENED},
        {", happened: [404], not_happened: [4xx]", 404, 1000000, HAPPENED},
        {", happened: [404], not_happened: [4xx]", 410, 1000000, NOT_HAPPENED},
        {", happened: []", 200, 0, UNKNOWN},
        {", not_happened: []", 404, 1000000, UNKNOWN},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct conf *conf = load("/x/{key}", rows[i].settings);
        enum probe_verdict verdict = probe_judge(conf->routes[0].probe, rows[i].status, 5000, 5000 + rows[i].since);
        cr_expect_eq(verdict, rows[i].verdict, "%u after %lld ms%s: %d", rows[i].status, (long long)rows[i].since,
                     rows[i].settings, (int)verdict);
        cr_expect_not_null(probe_verdict_text(verdict));
        conf_unref(conf);
    }
}

Test(probe, tells_what_is_left)
{
    static const struct {
        int64_t since, left;
    } rows[] = {{0, 60}, {1, 60}, {999, 60}, {1000, 59}, {58999, 2}, {59000, 1}, {59999, 1}, {60000, 1}, {999999, 1}};
    struct conf *conf = load("/x/{key}", "");
    for (size_t i = 0; i < COUNT(rows); i++)
        cr_expect_eq(probe_seconds_left(conf->routes[0].probe, 5000, 5000 + rows[i].since), rows[i].left, "%lld ms",
                     (long long)rows[i].since);
    conf_unref(conf);
}
