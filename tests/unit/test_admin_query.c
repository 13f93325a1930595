/*
 * Targets of the admin interface: which endpoint, which parameters, ids and cursors.
 */
#include "proxy/admin/base64.h"
#include "proxy/admin/query.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- endpoints -------------------------------------------------------------------------------- */

Test(admin_query, endpoints)
{
    static const struct {
        enum http_method method;
        const char *path;
        void (*handle)(struct admin_request *request);
        const char *parameter, *allow;
        bool open; /* on the health listener, too */
    } rows[] = {
        {HTTP_GET, "/", handle_page, "", NULL, false},
        {HTTP_HEAD_METHOD, "/", handle_page, "", NULL, false},
        {HTTP_GET, "/healthz", handle_healthz, "", NULL, true},
        {HTTP_HEAD_METHOD, "/readyz", handle_readyz, "", NULL, true},
        {HTTP_GET, "/metrics", handle_metrics, "", NULL, true},
        {HTTP_GET, "/v1/actions", handle_list, "", NULL, false},
        {HTTP_GET, "/v1/actions/ab", handle_show, "ab", NULL, false},
        {HTTP_DELETE, "/v1/actions/ab", handle_forget, "ab", NULL, false},
        {HTTP_POST, "/v1/actions/ab/resolve", handle_resolve, "ab", NULL, false},
        {HTTP_GET, "/v1/tasks/a%2Fb", handle_task, "a%2Fb", NULL, false},
        {HTTP_GET, "/v1/tasks/resolve", handle_task, "resolve", NULL, false},
        {HTTP_POST, "/v1/drain", handle_drain, "", NULL, false},
        {HTTP_GET, "/v1/backup", handle_backup, "", NULL, false},
        {HTTP_POST, "/readyz", NULL, "", "GET, HEAD", true},
        {HTTP_PUT, "/v1/actions/ab", NULL, "", "GET, HEAD, DELETE", false},
        {HTTP_GET, "/v1/actions/ab/resolve", NULL, "", "POST", false},
        {HTTP_HEAD_METHOD, "/v1/drain", NULL, "", "POST", false},
        {HTTP_HEAD_METHOD, "/v1/backup", NULL, "", "GET", false},
        {HTTP_OPTIONS, "/v1/status", NULL, "", "GET, HEAD", false},
        {HTTP_GET, "", NULL, "", NULL, false},
        {HTTP_GET, "*", NULL, "", NULL, false},
        {HTTP_GET, "//", NULL, "", NULL, false},
        {HTTP_GET, "/v1", NULL, "", NULL, false},
        {HTTP_GET, "/v1/", NULL, "", NULL, false},
        {HTTP_GET, "/v1/actions/", NULL, "", NULL, false},
        {HTTP_GET, "/v1/actions//resolve", NULL, "", NULL, false},
        {HTTP_GET, "/v1/actions/ab/", NULL, "", NULL, false},
        {HTTP_GET, "/v1/tasks/a/b", NULL, "", NULL, false},
        {HTTP_GET, "/v1/tasks/", NULL, "", NULL, false},
        {HTTP_GET, "/healthz/", NULL, "", NULL, false},
        {HTTP_GET, "/Healthz", NULL, "", NULL, false},
        {HTTP_GET, "/v1/%61ctions", NULL, "", NULL, false},
    };
    for (size_t i = 0; i < COUNT(rows); i++)
        for (int open_only = 0; open_only < 2; open_only++) {
            struct endpoint_match match = endpoint_find(rows[i].method, span_of(rows[i].path), open_only);
            bool there = !open_only || rows[i].open;
            cr_expect_eq(match.endpoint ? match.endpoint->handle : NULL, there ? rows[i].handle : NULL, "%s, %d",
                         rows[i].path, open_only);
            if (match.endpoint)
                cr_expect(span_equal(match.parameter, span_of(rows[i].parameter)), "%s", rows[i].path);
            const char *allow = there ? rows[i].allow : NULL;
            cr_expect(match.allow == allow || (match.allow && allow && strcmp(match.allow, allow) == 0), "%s: %s",
                      rows[i].path, match.allow ? match.allow : "not there");
        }
}

/* ---- parameters ------------------------------------------------------------------------------- */

#define ALL 127u

Test(admin_query, parameters)
{
    struct query query;
    char why[QUERY_WHY_SIZE];
    cr_assert(query_parse(SPAN(""), ALL, &query, why));
    cr_expect_eq(query.store.limit, 100);
    cr_expect_eq(query.store.state, 0);
    cr_expect_null(query.store.route);
    query_clear(&query);
    cr_assert(query_parse(
                  SPAN("state=unknown&route=or%64ers&&task=a+b%2B&key=%3D%26&limit=7&after=a00000000000000ff&wait=60"),
                  ALL, &query, why),
              "%s", why);
    cr_expect_eq(query.store.state, STORE_UNKNOWN);
    cr_expect_str_eq(query.store.route, "orders");
    cr_expect_str_eq(query.store.task, "a b+");
    cr_expect_str_eq(query.store.key, "=&");
    cr_expect_eq(query.store.limit, 7);
    cr_expect_eq(query.store.after, 255);
    cr_expect_eq(query.wait, 60);
    query_clear(&query);
}

Test(admin_query, what_is_wrong_is_named)
{
    static const struct {
        const char *text;
        unsigned allowed;
        const char *why;
    } rows[] = {
        {"stat=unknown", QUERY_STATE | QUERY_LIMIT, "unknown query parameter; known are state, limit"},
        {"x=1", 0, "no query parameters are known here"},
        {"x", 0, "no query parameters are known here"},
        {"wait=1", QUERY_STATE, "unknown query parameter; known are state"},
        {"state=unknown&state=completed", ALL, "query parameter state: given more than once"},
        {"state=released", ALL, "query parameter state: expected in_progress, completed or unknown"},
        {"state=", ALL, "query parameter state: expected in_progress, completed or unknown"},
        {"state", ALL, "query parameter state: expected in_progress, completed or unknown"},
        {"route=", ALL, "query parameter route: expected the name of a route"},
        {"task=%00", ALL, "query parameter task: expected the name of a task"},
        {"task=%4", ALL, "query parameter task: expected the name of a task"},
        {"task=%", ALL, "query parameter task: expected the name of a task"},
        {"task=%zz", ALL, "query parameter task: expected the name of a task"},
        {"limit=0", ALL, "query parameter limit: expected a number from 1 to 1000"},
        {"limit=1001", ALL, "query parameter limit: expected a number from 1 to 1000"},
        {"limit=-1", ALL, "query parameter limit: expected a number from 1 to 1000"},
        {"limit=1.5", ALL, "query parameter limit: expected a number from 1 to 1000"},
        {"limit=99999999999999999999", ALL, "query parameter limit: expected a number from 1 to 1000"},
        {"after=5", ALL, "query parameter after: expected the cursor that the page before gave as next"},
        {"after=a0000000000000000", ALL,
         "query parameter after: expected the cursor that the page before gave as next"},
        {"after=a00000000000000FF", ALL,
         "query parameter after: expected the cursor that the page before gave as next"},
        {"after=b00000000000000ff", ALL,
         "query parameter after: expected the cursor that the page before gave as next"},
        {"after=a00000000000000ff0", ALL,
         "query parameter after: expected the cursor that the page before gave as next"},
        {"wait=3601", ALL, "query parameter wait: expected seconds, 0 to 3600"},
        {"wait=10s", ALL, "query parameter wait: expected seconds, 0 to 3600"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct query query;
        char why[QUERY_WHY_SIZE] = "";
        cr_expect_not(query_parse(span_of(rows[i].text), rows[i].allowed, &query, why), "%s", rows[i].text);
        cr_expect_str_eq(why, rows[i].why, "%s: %s", rows[i].text, why);
        query_clear(&query);
    }
}

Test(admin_query, the_longest_message_fits)
{
    struct query query;
    char why[QUERY_WHY_SIZE];
    cr_expect_not(query_parse(SPAN("x"), ALL, &query, why));
    cr_expect_not_null(strstr(why, "wait"), "%s", why);
}

/* ---- ids, cursors, segments ------------------------------------------------------------------- */

Test(admin_query, ids)
{
    struct store_id id;
    char text[QUERY_ID_TEXT], half[] = "0123456789abcdef0123456789abcdeffedcba9876543210fedcba98765432";
    const char whole[] = "0123456789abcdef0123456789abcdeffedcba9876543210fedcba9876543210";
    cr_assert(query_id(span_of(whole), &id));
    cr_expect_eq(id.bytes[0], 0x01);
    cr_expect_eq(id.bytes[31], 0x10);
    query_id_text(&id, text);
    cr_expect_str_eq(text, whole);
    static const char *const wrong[] = {"", "0", "0123456789ABCDEF0123456789abcdeffedcba9876543210fedcba9876543210",
                                        "0123456789abcdeg0123456789abcdeffedcba9876543210fedcba9876543210",
                                        "0123456789abcdef0123456789abcdeffedcba9876543210fedcba98765432100"};
    for (size_t i = 0; i < COUNT(wrong); i++)
        cr_expect_not(query_id(span_of(wrong[i]), &id), "%s", wrong[i]);
    cr_expect_not(query_id(span_of(half), &id), "two digits are missing");
}

Test(admin_query, cursors_come_back_as_they_went)
{
    static const uint64_t numbers[] = {1, 255, 4294967296, UINT64_MAX};
    for (size_t i = 0; i < COUNT(numbers); i++) {
        struct query query;
        char cursor[QUERY_CURSOR_TEXT], text[64], why[QUERY_WHY_SIZE];
        query_cursor_text(numbers[i], cursor);
        snprintf(text, sizeof text, "after=%s", cursor);
        cr_assert(query_parse(span_of(text), QUERY_AFTER, &query, why), "%s", text);
        cr_expect_eq(query.store.after, numbers[i]);
        query_clear(&query);
    }
}

Test(admin_query, segments)
{
    static const struct {
        const char *text, *decoded;
    } rows[] = {{"a", "a"},    {"a%20b", "a b"}, {"a+b", "a+b"}, {"a%2Fb%2f", "a/b/"}, {"%C3%A4", "\xC3\xA4"},
                {"%00", NULL}, {"%", NULL},      {"%2", NULL},   {"%2x", NULL},        {"a%ff", "a\xff"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *decoded = query_segment(span_of(rows[i].text));
        if (rows[i].decoded)
            cr_expect_str_eq(decoded, rows[i].decoded, "%s", rows[i].text);
        else
            cr_expect_null(decoded, "%s", rows[i].text);
        free(decoded);
    }
}

/* ---- base64 ----------------------------------------------------------------------------------- */

Test(admin_query, base64)
{
    static const struct {
        const char *text, *bytes; /* bytes NULL: refused */
    } rows[] = {
        {"", ""},
        {"Zg==", "f"},
        {"Zm8=", "fo"},
        {"Zm9v", "foo"},
        {"Zm9vYg==", "foob"},
        {"Zm9vYmE=", "fooba"},
        {"+/+/", "\xfb\xff\xbf"},
        {"Z", NULL},
        {"Zg", NULL},
        {"Zg=", NULL},
        {"Zh==", NULL},
        {"Zm9=", NULL},
        {"====", NULL},
        {"=g==", NULL},
        {"Zg==Zg==", NULL},
        {"Zm 9v", NULL},
        {"Zm9v\n", NULL},
        {"-_-_", NULL},
        {"Zm9\x80", NULL},
        {"A===", NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buffer out = {0};
        bool right = base64_decode(span_of(rows[i].text), &out);
        cr_expect_eq(right, rows[i].bytes != NULL, "%s", rows[i].text);
        if (right && rows[i].bytes)
            cr_expect(span_equal(buffer_span(&out), span_of(rows[i].bytes)), "%s", rows[i].text);
        buffer_free(&out);
    }
}
