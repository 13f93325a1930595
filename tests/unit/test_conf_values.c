/*
 * The notations of a configuration, one table each: what is accepted means exactly what it says, what is not wholly
 * understood is refused.
 */
#include "conf/address.h"
#include "conf/component.h"
#include "conf/memory.h"
#include "conf/pattern.h"
#include "conf/scalar.h"
#include "proxy/span.h"

#include <criterion/criterion.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

Test(conf_values, sizes)
{
    static const struct {
        const char *text;
        bool valid;
        uint64_t bytes;
        const char *printed;
    } rows[] = {
        {"0", true, 0, "0"},
        {"1", true, 1, "1"},
        {"65536", true, 65536, "64KiB"},
        {"64KiB", true, 65536, "64KiB"},
        {"10MB", true, 10000000, "10MB"},
        {"1KB", true, 1000, "1000"},
        {"2GB", true, 2000000000, "2GB"},
        {"1TB", true, 1000000000000, "1TB"},
        {"8GiB", true, 8ull << 30, "8GiB"},
        {"1536MiB", true, 1536ull << 20, "1536MiB"},
        {"1024MiB", true, 1ull << 30, "1GiB"},
        {"2TiB", true, 2ull << 40, "2TiB"},
        {"18446744073709551615", true, UINT64_MAX, "18446744073709551615"},
        {"18446744073709551616", false, 0, NULL},
        {"16777216TiB", false, 0, NULL},
        {"", false, 0, NULL},
        {"KiB", false, 0, NULL},
        {"1 KiB", false, 0, NULL},
        {" 1", false, 0, NULL},
        {"1kib", false, 0, NULL},
        {"1K", false, 0, NULL},
        {"1.5MiB", false, 0, NULL},
        {"-1", false, 0, NULL},
        {"+1", false, 0, NULL},
        {"010", false, 0, NULL},
        {"00", false, 0, NULL},
        {"0x10", false, 0, NULL},
        {"1_000", false, 0, NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t bytes = 0;
        bool valid = scalar_size(rows[i].text, &bytes);
        cr_expect_eq(valid, rows[i].valid, "'%s' is %svalid", rows[i].text, valid ? "" : "not ");
        if (!valid || !rows[i].valid)
            continue;
        cr_expect_eq(bytes, rows[i].bytes, "'%s' is %llu bytes", rows[i].text, (unsigned long long)bytes);
        char printed[40] = "";
        FILE *out = fmemopen(printed, sizeof printed, "w");
        scalar_print_size(bytes, out);
        fclose(out);
        cr_expect_str_eq(printed, rows[i].printed, "'%s' is printed as %s", rows[i].text, printed);
    }
}

Test(conf_values, durations)
{
    static const struct {
        const char *text;
        int64_t milliseconds; /* -1: refused */
        const char *printed;
    } rows[] = {
        {"0s", 0, "0s"},
        {"250ms", 250, "250ms"},
        {"2s", 2000, "2s"},
        {"1500ms", 1500, "1500ms"},
        {"90s", 90000, "90s"},
        {"60s", 60000, "1m"},
        {"5m", 300000, "5m"},
        {"24h", 86400000, "1d"},
        {"7d", 604800000, "7d"},
        {"", -1, NULL},
        {"5", -1, NULL},
        {"s", -1, NULL},
        {"5 s", -1, NULL},
        {"5S", -1, NULL},
        {"5sec", -1, NULL},
        {"1.5s", -1, NULL},
        {"1h30m", -1, NULL},
        {"-5s", -1, NULL},
        {"05s", -1, NULL},
        {"9223372036854775807ms", -1, NULL}, /* that is "never" */
        {"106751991168d", -1, NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t milliseconds = -1;
        bool valid = scalar_duration(rows[i].text, &milliseconds);
        cr_expect_eq(valid ? milliseconds : -1, rows[i].milliseconds, "'%s' is %lld ms", rows[i].text,
                     (long long)milliseconds);
        if (!valid || !rows[i].printed)
            continue;
        char printed[40] = "";
        FILE *out = fmemopen(printed, sizeof printed, "w");
        scalar_print_duration(milliseconds, out);
        fclose(out);
        cr_expect_str_eq(printed, rows[i].printed, "'%s' is printed as %s", rows[i].text, printed);
    }
}

Test(conf_values, nearest_word)
{
    static const char *const words[] = {"level", "access", "format", "on_concurrent", "via", "me"};
    static const struct {
        const char *word, *nearest;
    } rows[] = {
        {"level", "level"},
        {"lvel", "level"},
        {"leevl", "level"},
        {"LEVEL", "level"},
        {"on_concurent", "on_concurrent"},
        {"on-conccurent", "on_concurrent"},
        {"vai", "via"},
        {"xyz", NULL},
        {"colour", NULL},
        {"", NULL},
        {"x", NULL}, /* not "me": all of it would be replaced */
        {"formatformatformatformatformatformatformatx", NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *nearest = scalar_nearest(rows[i].word, words, COUNT(words));
        cr_expect(nearest == rows[i].nearest || (nearest && rows[i].nearest && strcmp(nearest, rows[i].nearest) == 0),
                  "nearest to '%s' is %s, not %s", rows[i].word, nearest ? nearest : "nothing",
                  rows[i].nearest ? rows[i].nearest : "nothing");
    }
}

#define LONG_25  "xxxxxxxxxxxxxxxxxxxxxxxxx"
#define LONG_106 LONG_25 LONG_25 LONG_25 LONG_25 "xxxxxx"
#define LONG_LABELS \
    LONG_25 ".x" LONG_25 ".x" LONG_25 ".x" LONG_25 ".x" LONG_25 ".x" LONG_25 ".x" LONG_25 ".x" LONG_25 ".x"

Test(conf_values, listen_addresses)
{
    static const struct {
        const char *text, *host;
        unsigned port;
        const char *unix_path; /* host and unix_path NULL: refused */
    } rows[] = {
        {"0.0.0.0:8080", "0.0.0.0", 8080, NULL},
        {"[::1]:80", "::1", 80, NULL},
        {"[::]:65535", "::", 65535, NULL},
        {"localhost:1", "localhost", 1, NULL},
        {"my_api.local.:1", "my_api.local.", 1, NULL},
        {"unix:/run/einmal.sock", NULL, 0, "/run/einmal.sock"},
        {"unix:/" LONG_106, NULL, 0, "/" LONG_106},
        {"unix:/" LONG_106 "x", NULL, 0, NULL},
        {"unix:", NULL, 0, NULL},
        {"unix:a", NULL, 0, NULL},
        {"", NULL, 0, NULL},
        {":80", NULL, 0, NULL},
        {"*:80", NULL, 0, NULL},
        {"8080", NULL, 0, NULL},
        {"a", NULL, 0, NULL},
        {"a:", NULL, 0, NULL},
        {"a:0", NULL, 0, NULL},
        {"a:65536", NULL, 0, NULL},
        {"a:080", NULL, 0, NULL},
        {"a:http", NULL, 0, NULL},
        {"a:99999999999", NULL, 0, NULL},
        {"::1:80", NULL, 0, NULL},
        {"[::1]", NULL, 0, NULL},
        {"[::1]80", NULL, 0, NULL},
        {"[::1", NULL, 0, NULL},
        {"[::x]:80", NULL, 0, NULL},
        {"[fe80::1%eth0]:80", NULL, 0, NULL},
        {"[127.0.0.1]:80", NULL, 0, NULL},
        {"127.0.0.256:80", NULL, 0, NULL},
        {"127.1:80", NULL, 0, NULL},
        {"a..b:80", NULL, 0, NULL},
        {".a:80", NULL, 0, NULL},
        {"a b:80", NULL, 0, NULL},
        {LONG_LABELS "." LONG_25 "." LONG_25 ":80", NULL, 0, NULL},
    };
    struct conf *conf = conf_new();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct conf_listen listen = {0};
        const char *wrong = address_parse_listen(conf, rows[i].text, &listen);
        bool valid = rows[i].host || rows[i].unix_path;
        cr_expect_eq(!wrong, valid, "'%s': %s", rows[i].text, wrong ? wrong : "accepted");
        if (wrong || !valid)
            continue;
        cr_expect_str_eq(listen.address, rows[i].text);
        cr_expect_eq(listen.port, rows[i].port, "'%s': port %u", rows[i].text, listen.port);
        if (rows[i].host)
            cr_expect_str_eq(listen.host, rows[i].host, "'%s': host %s", rows[i].text, listen.host);
        if (rows[i].unix_path)
            cr_expect_str_eq(listen.unix_path, rows[i].unix_path, "'%s': path %s", rows[i].text, listen.unix_path);
    }
    conf_unref(conf);
}

Test(conf_values, urls)
{
    static const struct {
        const char *text, *host;
        unsigned port;
        const char *unix_path, *authority; /* authority NULL: refused */
    } rows[] = {
        {"http://127.0.0.1:3000", "127.0.0.1", 3000, NULL, "127.0.0.1:3000"},
        {"http://api", "api", 80, NULL, "api"},
        {"http://api:80", "api", 80, NULL, "api"},
        {"HTTP://api", "api", 80, NULL, "api"},
        {"http://api/", "api", 80, NULL, "api"},
        {"http://[::1]:3000", "::1", 3000, NULL, "[::1]:3000"},
        {"http://[::1]", "::1", 80, NULL, "[::1]"},
        {"http+unix:/run/api.sock", NULL, 0, "/run/api.sock", "localhost"},
        {"http+unix://run/api.sock", NULL, 0, NULL, NULL},
        {"http+unix:api.sock", NULL, 0, NULL, NULL},
        {"http+unix:/" LONG_106 "x", NULL, 0, NULL, NULL},
        {"https://api", "api", 443, NULL, "api"},
        {"HTTPS://api:443/", "api", 443, NULL, "api"},
        {"https://api:80", "api", 80, NULL, "api:80"},
        {"http://api:443", "api", 443, NULL, "api:443"},
        {"https://[::1]", "::1", 443, NULL, "[::1]"},
        {"https://", NULL, 0, NULL, NULL},
        {"https://api/v1", NULL, 0, NULL, NULL},
        {"https+unix:/run/api.sock", NULL, 0, NULL, NULL},
        {"http://api//", NULL, 0, NULL, NULL},
        {"http://api/v1", NULL, 0, NULL, NULL},
        {"http://api?a=b", NULL, 0, NULL, NULL},
        {"http://api/#x", NULL, 0, NULL, NULL},
        {"http://", NULL, 0, NULL, NULL},
        {"http:///", NULL, 0, NULL, NULL},
        {"http://:80", NULL, 0, NULL, NULL},
        {"http://api:", NULL, 0, NULL, NULL},
        {"http://api:70000", NULL, 0, NULL, NULL},
        {"http://::1", NULL, 0, NULL, NULL},
        {"http://u@api", NULL, 0, NULL, NULL},
        {"http://a b", NULL, 0, NULL, NULL},
        {"http:api", NULL, 0, NULL, NULL},
        {"api:3000", NULL, 0, NULL, NULL},
        {"", NULL, 0, NULL, NULL},
    };
    struct conf *conf = conf_new();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct conf_upstream upstream = {0};
        const char *wrong = address_parse_url(conf, rows[i].text, &upstream);
        cr_expect_eq(!wrong, rows[i].authority != NULL, "'%s': %s", rows[i].text, wrong ? wrong : "accepted");
        if (wrong || !rows[i].authority)
            continue;
        cr_expect_str_eq(upstream.url, rows[i].text);
        cr_expect_str_eq(upstream.authority, rows[i].authority, "'%s': %s", rows[i].text, upstream.authority);
        cr_expect_eq(upstream.port, rows[i].port, "'%s': port %u", rows[i].text, upstream.port);
        cr_expect_eq(!upstream.host, !rows[i].host, "'%s'", rows[i].text);
        cr_expect_eq(!upstream.unix_path, !rows[i].unix_path, "'%s'", rows[i].text);
        if (rows[i].host)
            cr_expect_str_eq(upstream.host, rows[i].host, "'%s': host %s", rows[i].text, upstream.host);
        if (rows[i].unix_path)
            cr_expect_str_eq(upstream.unix_path, rows[i].unix_path, "'%s'", rows[i].text);
    }
    conf_unref(conf);
}

Test(conf_values, components)
{
    static const struct {
        const char *text;
        enum component_kind kind;
        const char *argument; /* NULL: refused */
        bool needs_body;
    } rows[] = {
        {"method", COMPONENT_METHOD, "", false},
        {"host", COMPONENT_HOST, "", false},
        {"path", COMPONENT_PATH, "", false},
        {"query", COMPONENT_QUERY, "", false},
        {"body", COMPONENT_BODY, "", true},
        {"path:order", COMPONENT_PATH_NAME, "order", false},
        {"query:a b", COMPONENT_QUERY_NAME, "a b", false},
        {"header:X-Id", COMPONENT_HEADER, "x-id", false}, /* case does not count */
        {"cookie:SID", COMPONENT_COOKIE, "SID", false},   /* here it does */
        {"form:Id", COMPONENT_FORM, "Id", true},
        {"json:/a/0/b~1c", COMPONENT_JSON, "/a/0/b~1c", true},
        {"json:/", COMPONENT_JSON, "/", true},
        {"literal:a:b", COMPONENT_LITERAL, "a:b", false},
        {"json:", 0, NULL, false},
        {"json:a", 0, NULL, false},
        {"json:/~", 0, NULL, false},
        {"header:", 0, NULL, false},
        {"header:a:b", 0, NULL, false},
        {"header", 0, NULL, false},
        {"query:", 0, NULL, false},
        {"literal:", 0, NULL, false},
        {"Method", 0, NULL, false},
        {"method:", 0, NULL, false},
        {"tls:subject", COMPONENT_TLS_SUBJECT, "", false},
        {"tls:fingerprint", COMPONENT_TLS_FINGERPRINT, "", false},
        {"tls:issuer", 0, NULL, false},
        {"", 0, NULL, false},
    };
    struct conf *conf = conf_new();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct component component = {0};
        char why[200];
        const char *wrong = component_parse(conf, rows[i].text, &component, why, sizeof why);
        cr_expect_eq(!wrong, rows[i].argument != NULL, "'%s': %s", rows[i].text, wrong ? wrong : "accepted");
        if (wrong || !rows[i].argument)
            continue;
        cr_expect_eq(component.kind, rows[i].kind, "'%s': kind %d", rows[i].text, component.kind);
        cr_expect_str_eq(component.argument, rows[i].argument, "'%s': %s", rows[i].text, component.argument);
        cr_expect_eq(component_needs_body(&component), rows[i].needs_body, "'%s'", rows[i].text);
    }
    conf_unref(conf);
}

/* A match as text, "a {b} **" …, to be compared at one glance. */
static void describe_match(const struct conf_match *match, char *text, size_t size)
{
    FILE *out = fmemopen(text, size, "w");
    for (size_t i = 0; i < match->segment_count; i++)
        fprintf(out, match->segments[i].is_name ? "{%s} " : "%s ", match->segments[i].text);
    fputs(match->rest ? "**" : match->trailing_slash ? "/" : ".", out);
    fclose(out);
}

Test(conf_values, paths)
{
    static const struct {
        const char *text, *form; /* NULL: refused */
    } rows[] = {
        {"/", "."},
        {"/**", "**"},
        {"/a", "a ."},
        {"/a/", "a /"},
        {"/a/**", "a **"},
        {"/a//**", "a **"},
        {"//a//b", "a b ."},
        {"/a/./b/../c", "a c ."},
        {"/%7Ea/%2f", "~a %2F ."},
        {"/v1/orders/{order}/items", "v1 orders {order} items ."},
        {"/{a}/{b-2}/{C_3}/**", "{a} {b-2} {C_3} **"},
        {"/{a}/../b", "b ."},
        {"/a:b@c!$&'()+,;=", "a:b@c!$&'()+,;= ."},
        {"", NULL},
        {"a", NULL},
        {"/*", NULL},
        {"/a*", NULL},
        {"/**/a", NULL},
        {"/a**", NULL},
        {"/{}", NULL},
        {"/{a", NULL},
        {"/a}", NULL},
        {"/{a}b", NULL},
        {"/a{b}", NULL},
        {"/{a}{b}", NULL},
        {"/{a b}", NULL},
        {"/{a.b}", NULL},
        {"/{a}/x/{a}", NULL},
        {"/a?b", NULL},
        {"/a#b", NULL},
        {"/a b", NULL},
        {"/\xC3\xA9", NULL},
        {"/%", NULL},
        {"/%2", NULL},
        {"/%zz", NULL},
    };
    struct conf *conf = conf_new();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct conf_match match = {0};
        char why[120], form[200] = "";
        const char *wrong = pattern_parse_path(conf, rows[i].text, &match, why, sizeof why);
        cr_expect_eq(!wrong, rows[i].form != NULL, "'%s': %s", rows[i].text, wrong ? wrong : "accepted");
        if (wrong || !rows[i].form)
            continue;
        describe_match(&match, form, sizeof form);
        cr_expect_str_eq(form, rows[i].form, "'%s' became '%s'", rows[i].text, form);
        cr_expect_str_eq(match.path_text, rows[i].text);
    }
    conf_unref(conf);
}

Test(conf_values, a_path_has_at_most_as_many_names_as_a_request_may_bind)
{
    struct conf *conf = conf_new();
    char text[400] = "", why[120];
    struct conf_match match = {0}, too_many = {0};
    for (int i = 0; i < 32; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "/{n%d}", i);
    cr_expect_null(pattern_parse_path(conf, text, &match, why, sizeof why));
    strcat(text, "/{more}");
    cr_expect_str_eq(pattern_parse_path(conf, text, &too_many, why, sizeof why), "more than 32 {name}s");
    conf_unref(conf);
}

Test(conf_values, hosts)
{
    static const struct {
        const char *text, *host; /* NULL: refused */
        bool wildcard;
    } rows[] = {
        {"shop.example", "shop.example", false},
        {"Shop.EXAMPLE:80", "shop.example", false},
        {"shop.example:8080", "shop.example:8080", false},
        {"*.example", ".example", true},
        {"*.Example:8080", ".example:8080", true},
        {"[::1]", "[::1]", false},
        {"127.0.0.1:3000", "127.0.0.1:3000", false},
        {"*", NULL, false},
        {"*example", NULL, false},
        {"a.*", NULL, false},
        {"*.[::1]", NULL, false},
        {"", NULL, false},
        {"http://a", NULL, false},
        {"a/b", NULL, false},
        {"a:", NULL, false},
    };
    struct conf *conf = conf_new();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct conf_match match = {0};
        const char *wrong = pattern_parse_host(conf, rows[i].text, &match);
        cr_expect_eq(!wrong, rows[i].host != NULL, "'%s': %s", rows[i].text, wrong ? wrong : "accepted");
        if (wrong || !rows[i].host)
            continue;
        cr_expect_str_eq(match.host, rows[i].host, "'%s' became '%s'", rows[i].text, match.host);
        cr_expect_eq(match.host_wildcard, rows[i].wildcard, "'%s'", rows[i].text);
    }
    conf_unref(conf);
}

/* "METHOD,METHOD host path"; "-" for any. */
static void parse_match(struct conf *conf, const char *text, struct conf_match *match)
{
    char *copy = conf_copy(conf, text, strlen(text)), *rest = NULL, why[120];
    char *methods = strtok_r(copy, " ", &rest), *host = strtok_r(NULL, " ", &rest), *path = strtok_r(NULL, " ", &rest);
    size_t count = 0;
    match->methods = CONF_NEW_ARRAY(conf, char *, 9);
    for (char *in = NULL, *method = strtok_r(methods, ",", &in); method; method = strtok_r(NULL, ",", &in))
        match->methods[count++] = method;
    if (strcmp(host, "-") != 0)
        cr_assert_null(pattern_parse_host(conf, host, match));
    if (strcmp(path, "-") != 0)
        cr_assert_null(pattern_parse_path(conf, path, match, why, sizeof why));
}

Test(conf_values, covering)
{
    static const struct {
        const char *outer, *inner;
        bool covers;
    } rows[] = {
        {"POST - -", "POST - -", true},           {"POST - -", "PATCH - -", true}, /* methods are another question */
        {"POST - -", "POST a /x", true},          {"POST - /x", "POST - -", false},
        {"POST - /**", "POST - -", true},         {"POST - /**", "POST - /a/", true},
        {"POST - /a/**", "POST - /a", true},      {"POST - /a/**", "POST - /a/b/**", true},
        {"POST - /a/**", "POST - /ab", false},    {"POST - /a/b/**", "POST - /a/**", false},
        {"POST - /a", "POST - /a/**", false},     {"POST - /a", "POST - /a/", false},
        {"POST - /a/", "POST - /a/", true},       {"POST - /{x}", "POST - /a", true},
        {"POST - /{x}", "POST - /{y}", true},     {"POST - /a", "POST - /{x}", false},
        {"POST - /{x}", "POST - /a/b", false},    {"POST - /{x}/b", "POST - /a/b", true},
        {"POST - /{x}/**", "POST - /", false},    {"POST - /", "POST - /", true},
        {"POST a -", "POST - -", false},          {"POST a -", "POST a -", true},
        {"POST a -", "POST a:8080 -", true},      {"POST a:8080 -", "POST a -", false},
        {"POST a:8080 -", "POST a:8080 -", true}, {"POST *.b -", "POST a.b -", true},
        {"POST *.b -", "POST b -", false},        {"POST *.b -", "POST *.b -", true},
        {"POST *.b -", "POST *.a.b -", true},     {"POST *.a.b -", "POST *.b -", false},
        {"POST *.b -", "POST xb -", false},       {"POST a.b -", "POST *.b -", false},
        {"POST *.b -", "POST a.b:8080 -", true},
    };
    struct conf *conf = conf_new();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct conf_match outer = {0}, inner = {0};
        parse_match(conf, rows[i].outer, &outer);
        parse_match(conf, rows[i].inner, &inner);
        cr_expect_eq(pattern_covers(&outer, &inner), rows[i].covers, "'%s' %s '%s'", rows[i].outer,
                     rows[i].covers ? "covers" : "does not cover", rows[i].inner);
    }
    conf_unref(conf);
}
