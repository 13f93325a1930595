/*
 * Who may ask the admin interface for what: token, Host, Origin.
 */
#include "proxy/admin/guard.h"

#include <criterion/criterion.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char host[] = "admin.example";
static const struct conf_listen on_name = {.address = host, .host = host, .port = 9180};
static char path[] = "/run/einmal";
static const struct conf_listen on_socket = {.address = path, .unix_path = path};

struct row {
    const char *name;
    enum guard_verdict verdict;
    const char *fields[5][2];
};

static struct http_message message_of(const struct row *row, struct http_field *fields)
{
    struct http_message message = {.fields = fields};
    for (size_t i = 0; row->fields[i][0]; i++) {
        fields[message.field_count++] = (struct http_field){span_of(row->fields[i][0]), span_of(row->fields[i][1])};
        if (strcmp(row->fields[i][0], "Host") == 0)
            message.host = span_of(row->fields[i][1]);
    }
    return message;
}

static void check(const struct guard *guard, const struct row *rows, size_t count, bool open, bool changes)
{
    for (size_t i = 0; i < count; i++) {
        struct http_field fields[5];
        struct http_message message = message_of(&rows[i], fields);
        cr_expect_eq(guard_check(guard, &message, open, changes), rows[i].verdict, "%s", rows[i].name);
    }
}

#define LOCAL                    \
    {                            \
        "Host", "localhost:9180" \
    }
#define AUTH(value)            \
    {                          \
        "Authorization", value \
    }

Test(admin_guard, token)
{
    static const struct guard guard = {&on_name, "s3cret-token"};
    static const struct row rows[] = {
        {"none", GUARD_TOKEN, {LOCAL}},
        {"bearer", GUARD_PASS, {LOCAL, AUTH("Bearer s3cret-token")}},
        {"scheme in any case", GUARD_PASS, {LOCAL, AUTH("bEARER s3cret-token")}},
        {"several spaces", GUARD_PASS, {LOCAL, AUTH("Bearer   s3cret-token")}},
        {"one byte less", GUARD_TOKEN, {LOCAL, AUTH("Bearer s3cret-toke")}},
        {"one byte more", GUARD_TOKEN, {LOCAL, AUTH("Bearer s3cret-tokens")}},
        {"twice over", GUARD_TOKEN, {LOCAL, AUTH("Bearer s3cret-tokens3cret-token")}},
        {"another case", GUARD_TOKEN, {LOCAL, AUTH("Bearer S3cret-token")}},
        {"another byte", GUARD_TOKEN, {LOCAL, AUTH("Bearer s3cret-tokem")}},
        {"empty", GUARD_TOKEN, {LOCAL, AUTH("Bearer ")}},
        {"nothing behind the scheme", GUARD_TOKEN, {LOCAL, AUTH("Bearer")}},
        {"no scheme", GUARD_TOKEN, {LOCAL, AUTH("s3cret-token")}},
        {"another scheme", GUARD_TOKEN, {LOCAL, AUTH("Token s3cret-token")}},
        {"empty field", GUARD_TOKEN, {LOCAL, AUTH("")}},
        {"basic, alice:s3cret-token", GUARD_PASS, {LOCAL, AUTH("Basic YWxpY2U6czNjcmV0LXRva2Vu")}},
        {"basic without a user", GUARD_PASS, {LOCAL, AUTH("Basic OnMzY3JldC10b2tlbg==")}},
        {"basic, alice:wrong", GUARD_TOKEN, {LOCAL, AUTH("Basic YWxpY2U6d3Jvbmc=")}},
        {"basic, the token as user", GUARD_TOKEN, {LOCAL, AUTH("Basic czNjcmV0LXRva2VuOg==")}},
        {"basic, no colon", GUARD_TOKEN, {LOCAL, AUTH("Basic czNjcmV0LXRva2Vu")}},
        {"basic, no base64", GUARD_TOKEN, {LOCAL, AUTH("Basic alice:s3cret-token")}},
        {"basic, empty", GUARD_TOKEN, {LOCAL, AUTH("Basic ")}},
        {"two, one of them right", GUARD_TOKEN, {LOCAL, AUTH("Bearer s3cret-token"), AUTH("Bearer other")}},
    };
    check(&guard, rows, COUNT(rows), false, false);
}

Test(admin_guard, open_paths_ask_nothing)
{
    static const struct guard guard = {&on_name, "t"};
    static const struct row rows[] = {
        {"no token", GUARD_PASS, {LOCAL}},
        {"a foreign host", GUARD_PASS, {{"Host", "metrics.monitoring.svc:9180"}}},
        {"no host", GUARD_PASS, {{NULL, NULL}}},
    };
    check(&guard, rows, COUNT(rows), true, false);
}

Test(admin_guard, hosts)
{
    static const struct guard guard = {&on_name, NULL};
    static const struct row rows[] = {
        {"IPv4", GUARD_PASS, {{"Host", "10.1.2.3:9180"}}},
        {"IPv4 without a port", GUARD_PASS, {{"Host", "127.0.0.1"}}},
        {"the highest", GUARD_PASS, {{"Host", "255.255.255.255"}}},
        {"too high", GUARD_HOST, {{"Host", "1.2.3.256"}}},
        {"three parts", GUARD_HOST, {{"Host", "1.2.3"}}},
        {"five parts", GUARD_HOST, {{"Host", "1.2.3.4.5"}}},
        {"a dot at the end", GUARD_HOST, {{"Host", "1.2.3.4."}}},
        {"an empty part", GUARD_HOST, {{"Host", "1..3.4"}}},
        {"a name that begins like one", GUARD_HOST, {{"Host", "127.0.0.1.evil.example"}}},
        {"IPv6", GUARD_PASS, {{"Host", "[::1]:9180"}}},
        {"localhost", GUARD_PASS, {{"Host", "LocalHost"}}},
        {"the configured name", GUARD_PASS, {{"Host", "Admin.Example:80"}}},
        {"another name", GUARD_HOST, {{"Host", "evil.example:9180"}}},
        {"a name below it", GUARD_HOST, {{"Host", "x.admin.example"}}},
        {"a name below localhost", GUARD_HOST, {{"Host", "localhost.evil.example"}}},
        {"none: HTTP/1.0", GUARD_PASS, {{NULL, NULL}}},
    };
    check(&guard, rows, COUNT(rows), false, false);
    static const struct guard socket = {&on_socket, NULL};
    static const struct row any = {"a unix socket is beyond a browser", GUARD_PASS, {{"Host", "anything"}}};
    check(&socket, &any, 1, false, true);
}

Test(admin_guard, origins_of_changes)
{
    static const struct guard guard = {&on_name, NULL};
    static const struct row rows[] = {
        {"none", GUARD_PASS, {LOCAL}},
        {"its own", GUARD_PASS, {LOCAL, {"Origin", "http://localhost:9180"}}},
        {"its own behind TLS", GUARD_PASS, {LOCAL, {"Origin", "https://localhost:9180"}}},
        {"another port", GUARD_ORIGIN, {LOCAL, {"Origin", "http://localhost:9181"}}},
        {"no port", GUARD_ORIGIN, {LOCAL, {"Origin", "http://localhost"}}},
        {"another host", GUARD_ORIGIN, {LOCAL, {"Origin", "http://evil.example"}}},
        {"its own at the end of another", GUARD_ORIGIN, {LOCAL, {"Origin", "http://evil.localhost:9180"}}},
        {"another scheme", GUARD_ORIGIN, {LOCAL, {"Origin", "file://localhost:9180"}}},
        {"null", GUARD_ORIGIN, {LOCAL, {"Origin", "null"}}},
        {"empty", GUARD_ORIGIN, {LOCAL, {"Origin", ""}}},
        {"no host to compare with", GUARD_ORIGIN, {{"Origin", "http://localhost:9180"}}},
        {"two", GUARD_ORIGIN, {LOCAL, {"Origin", "http://localhost:9180"}, {"Origin", "http://evil.example"}}},
        {"fetched by our page", GUARD_PASS, {LOCAL, {"Sec-Fetch-Site", "same-origin"}}},
        {"typed by hand", GUARD_PASS, {LOCAL, {"Sec-Fetch-Site", "none"}}},
        {"another site", GUARD_ORIGIN, {LOCAL, {"Sec-Fetch-Site", "cross-site"}}},
        {"another port of ours", GUARD_ORIGIN, {LOCAL, {"Sec-Fetch-Site", "same-site"}}},
        {"said twice", GUARD_ORIGIN, {LOCAL, {"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "cross-site"}}},
        {"both, one foreign",
         GUARD_ORIGIN,
         {LOCAL, {"Origin", "http://localhost:9180"}, {"Sec-Fetch-Site", "cross-site"}}},
    };
    check(&guard, rows, COUNT(rows), false, true);
    struct row reading = rows[5];
    reading.verdict = GUARD_PASS;
    check(&guard, &reading, 1, false, false);
}

Test(admin_guard, order_of_the_checks)
{
    static const struct guard guard = {&on_name, "t"};
    static const struct row rows[] = {
        {"host before token", GUARD_HOST, {{"Host", "evil.example"}}},
        {"token before origin", GUARD_TOKEN, {LOCAL, {"Origin", "http://evil.example"}}},
        {"all fine but the origin", GUARD_ORIGIN, {LOCAL, AUTH("Bearer t"), {"Origin", "http://evil.example"}}},
    };
    check(&guard, rows, COUNT(rows), false, true);
}

Test(admin_guard, user)
{
    static const struct {
        const char *authorization, *user;
    } rows[] = {
        {"Basic YWxpY2U6eA==", "alice"},
        {"Basic OnMzY3JldC10b2tlbg==", ""},
        {"Bearer YWxpY2U6eA==", ""},
        {"Basic YQpiIGM6eA==", "a_b_c"}, /* "a\nb c": one line stays one line */
        {"Basic !", ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct http_field field = {SPAN("Authorization"), span_of(rows[i].authorization)};
        struct http_message message = {.fields = &field, .field_count = 1};
        char user[GUARD_USER_MAX + 1];
        guard_user(&message, user);
        cr_expect_str_eq(user, rows[i].user, "%s", rows[i].authorization);
    }
}
