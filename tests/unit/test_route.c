/*
 * test_route.c - two spellings of one resource are one resource, and the first route that matches is the one that
 * counts.
 */
#include <criterion/criterion.h>

#include "proxy/route.h"

struct normal_row {
    const char *raw, *normal, *why;
};

static const struct normal_row path_rows[] = {
    {"", "/", "absolute-form without a path"},
    {"/", "/", "the root"},
    {"*", "*", "OPTIONS * is no path"},
    {"/v1/orders", "/v1/orders", "nothing to do"},
    {"/v1/orders/", "/v1/orders/", "a trailing slash counts"},
    {"/V1/Orders", "/V1/Orders", "case counts"},
    {"//v1///orders", "/v1/orders", "empty segments merged"},
    {"/v1//", "/v1/", "merged at the end"},
    {"//", "/", "nothing but empty segments"},
    {"/./a", "/a", "dot segment first"},
    {"/a/./b", "/a/b", "dot segment inside"},
    {"/a/.", "/a/", "dot segment last, RFC 3986 5.2.4"},
    {"/a/b/../c", "/a/c", "parent inside"},
    {"/a/b/..", "/a/", "parent last"},
    {"/a/../..", "/", "above the root stays the root"},
    {"/../../a", "/a", "above the root at the start"},
    {"/a//../b", "/b", "empty segments are merged before parents are removed"},
    {"/a/...", "/a/...", "three dots are a name"},
    {"/a/.b", "/a/.b", "a name that begins with a dot"},
    {"/a/b..", "/a/b..", "a name that ends in dots"},
    {"/%61%62%63", "/abc", "unreserved characters decoded"},
    {"/%41%5A%30%39%2D%2e%5f%7E", "/AZ09-._~", "all kinds of unreserved characters"},
    {"/a%2fb", "/a%2Fb", "%2F is no separator, hex in upper case"},
    {"/a%2f%2e%2e%2fb", "/a%2F..%2Fb", "so what looks like a dot segment between two of them is none"},
    {"/a/%2e%2e/b", "/b", "an encoded dot segment is one"},
    {"/a/%2E/b", "/a/b", "an encoded dot"},
    {"/a/.%2e", "/", "a parent, half encoded"},
    {"/%c3%a4", "/%C3%A4", "other bytes stay encoded"},
    {"/a%20b", "/a%20b", "a space stays encoded"},
    {"/%2541", "/%2541", "decoded once, not twice"},
    {"/a%", "/a%", "a lone percent stays"},
    {"/a%4", "/a%4", "cut off"},
    {"/a%zz", "/a%zz", "no hex"},
    {"/a%4g", "/a%4g", "half hex"},
    {"/%%41", "/%A", "a percent before an encoded character"},
    {"/a;b=1", "/a;b=1", "parameters are part of the segment"},
};

static const struct normal_row host_rows[] = {
    {"", "", "no Host"},
    {"Shop.Example", "shop.example", "lower case"},
    {"shop.example:80", "shop.example", "default port"},
    {"shop.example:443", "shop.example", "default port of https"},
    {"SHOP.example:8080", "shop.example:8080", "another port stays"},
    {"shop.example:", "shop.example", "an empty port is the default"},
    {"shop.example:800", "shop.example:800", "not by prefix"},
    {"shop.example:4430", "shop.example:4430", "not by prefix"},
    {"[2001:DB8::80]", "[2001:db8::80]", "the colons of an address are no port"},
    {"[2001:DB8::1]:80", "[2001:db8::1]", "default port after an address"},
    {"[::1]:81", "[::1]:81", "another port after an address"},
    {"[::1", "[::1", "unclosed: left alone"},
};

static void check_normal(void (*normalise)(struct buffer *, struct span), const struct normal_row *row)
{
    struct buffer out = {0};
    buffer_append_span(&out, SPAN("/before/"));
    normalise(&out, span_of(row->raw));
    struct span got = buffer_span(&out);
    cr_assert(got.len >= 8 && memcmp(got.data, "/before/", 8) == 0, "%s: what was there before is untouched", row->why);
    got.data += 8, got.len -= 8;
    cr_assert(span_equal(got, span_of(row->normal)), "%s: \"%s\" became \"%.*s\", not \"%s\"", row->why, row->raw,
              (int)got.len, got.data, row->normal);
    buffer_free(&out);
}

Test(route, brings_paths_to_one_form)
{
    for (size_t i = 0; i < sizeof path_rows / sizeof *path_rows; i++)
        check_normal(path_normalise, &path_rows[i]);
}

Test(route, brings_hosts_to_one_form)
{
    for (size_t i = 0; i < sizeof host_rows / sizeof *host_rows; i++)
        check_normal(host_normalise, &host_rows[i]);
}

/* ---- matching --------------------------------------------------------------------------------- */

static char *post_patch[] = {(char[]){"POST"}, (char[]){"PATCH"}, NULL};
static struct conf_upstream upstreams[3];

#define NAME(text)           \
    {                        \
        (char[]){text}, true \
    }
#define LITERAL(text)         \
    {                         \
        (char[]){text}, false \
    }
#define SEGMENTS(...)                                 \
    .segments = (struct conf_segment[]){__VA_ARGS__}, \
    .segment_count = sizeof((struct conf_segment[]){__VA_ARGS__}) / sizeof(struct conf_segment)

static struct conf_route items = {
    .match = {.methods = post_patch,
              .path_text = (char[]){"/orders/{order}/items/{item}"},
              SEGMENTS(LITERAL("orders"), NAME("order"), LITERAL("items"), NAME("item"))}};
static struct conf_route slash = {
    .match = {
        .methods = post_patch, .path_text = (char[]){"/orders/"}, SEGMENTS(LITERAL("orders")), .trailing_slash = true}};
static struct conf_route plain = {
    .match = {.methods = post_patch, .path_text = (char[]){"/orders"}, SEGMENTS(LITERAL("orders"))}};
static struct conf_route root = {.match = {.methods = post_patch, .path_text = (char[]){"/"}}};
static struct conf_route under_a = {
    .match = {.methods = post_patch, .path_text = (char[]){"/a/**"}, SEGMENTS(LITERAL("a")), .rest = true}};
static struct conf_route everything = {.match = {.methods = post_patch, .path_text = (char[]){"/**"}, .rest = true}};
static struct conf_route shop = {.match = {.host = (char[]){"shop.example"}, .methods = post_patch}};
static struct conf_route shop_8080 = {.match = {.host = (char[]){"shop.example:8080"}, .methods = post_patch}};
static struct conf_route wild = {.match = {.host = (char[]){".example"}, .host_wildcard = true, .methods = post_patch}};

struct match_row {
    const struct conf_route *route;
    const char *host, *path, *method;
    enum route_verdict verdict;
    const char *values; /* "name=value;…" */
};

static const struct match_row match_rows[] = {
    {&items, "h", "/orders/7/items/b%2Fc", "POST", ROUTE_MATCHES, "order=7;item=b%2Fc;"},
    {&items, "h", "/orders/7/items/8", "PATCH", ROUTE_MATCHES, "order=7;item=8;"},
    {&items, "h", "/orders/7/items/8", "GET", ROUTE_OTHER_METHOD, NULL},
    {&items, "h", "/orders/7/items/8", "post", ROUTE_OTHER_METHOD, NULL}, /* methods are case-sensitive */
    {&items, "h", "/orders/7/items", "POST", ROUTE_OTHER_PATH, NULL},
    {&items, "h", "/orders/7/items/", "POST", ROUTE_OTHER_PATH, NULL}, /* {name} is one segment, never none */
    {&items, "h", "/orders/7/items/8/", "POST", ROUTE_OTHER_PATH, NULL},
    {&items, "h", "/orders/7/items/8/9", "POST", ROUTE_OTHER_PATH, NULL},
    {&items, "h", "/Orders/7/items/8", "POST", ROUTE_OTHER_PATH, NULL},
    {&plain, "h", "/orders", "POST", ROUTE_MATCHES, ""},
    {&plain, "h", "/orders/", "POST", ROUTE_OTHER_PATH, NULL},
    {&plain, "h", "/ordersx", "POST", ROUTE_OTHER_PATH, NULL},
    {&plain, "h", "/", "POST", ROUTE_OTHER_PATH, NULL},
    {&slash, "h", "/orders/", "POST", ROUTE_MATCHES, ""},
    {&slash, "h", "/orders", "POST", ROUTE_OTHER_PATH, NULL},
    {&root, "h", "/", "POST", ROUTE_MATCHES, ""},
    {&root, "h", "/a", "POST", ROUTE_OTHER_PATH, NULL},
    {&under_a, "h", "/a", "POST", ROUTE_MATCHES, ""},
    {&under_a, "h", "/a/", "POST", ROUTE_MATCHES, ""},
    {&under_a, "h", "/a/b/c/", "POST", ROUTE_MATCHES, ""},
    {&under_a, "h", "/ab", "POST", ROUTE_OTHER_PATH, NULL},
    {&everything, "h", "/", "POST", ROUTE_MATCHES, ""},
    {&everything, "h", "/a/b", "POST", ROUTE_MATCHES, ""},
    {&everything, "h", "*", "POST", ROUTE_OTHER_PATH, NULL},
    {&shop, "shop.example", "/x", "POST", ROUTE_MATCHES, ""},
    {&shop, "shop.example:8080", "/x", "POST", ROUTE_MATCHES, ""}, /* no port in the pattern: any */
    {&shop, "xshop.example", "/x", "POST", ROUTE_OTHER_HOST, NULL},
    {&shop, "", "/x", "POST", ROUTE_OTHER_HOST, NULL},
    {&shop_8080, "shop.example:8080", "/x", "POST", ROUTE_MATCHES, ""},
    {&shop_8080, "shop.example", "/x", "POST", ROUTE_OTHER_HOST, NULL},
    {&shop_8080, "shop.example:8081", "/x", "POST", ROUTE_OTHER_HOST, NULL},
    {&wild, "a.example", "/x", "POST", ROUTE_MATCHES, ""},
    {&wild, "a.b.example:81", "/x", "POST", ROUTE_MATCHES, ""},
    {&wild, "example", "/x", "POST", ROUTE_OTHER_HOST, NULL},
    {&wild, ".example", "/x", "POST", ROUTE_OTHER_HOST, NULL},
    {&wild, "aexample", "/x", "POST", ROUTE_OTHER_HOST, NULL},
    {&wild, "a.example.org", "/x", "POST", ROUTE_OTHER_HOST, NULL},
};

Test(route, matches_host_path_and_method)
{
    for (size_t i = 0; i < sizeof match_rows / sizeof *match_rows; i++) {
        const struct match_row *row = &match_rows[i];
        struct route_values values;
        enum route_verdict verdict =
            route_match(row->route, span_of(row->host), span_of(row->path), span_of(row->method), &values);
        cr_assert_eq(verdict, row->verdict, "row %zu: %s %s%s gave %d", i, row->method, row->host, row->path,
                     (int)verdict);
        if (!row->values)
            continue;
        struct buffer got = {0};
        for (size_t j = 0; j < values.count; j++)
            buffer_printf(&got, "%s=%.*s;", values.items[j].name, (int)values.items[j].value.len,
                          values.items[j].value.data);
        cr_assert(span_equal(buffer_span(&got), span_of(row->values)), "row %zu: values of %s", i, row->path);
        buffer_free(&got);
    }
}

struct choose_row {
    const char *host, *path, *method;
    int route;    /* index; -1: unprotected */
    int upstream; /* index; -1: none */
    const char *why;
};

static const struct choose_row choose_rows[] = {
    {"h", "/a/b", "POST", 0, 0, "the first that matches, though the last does, too"},
    {"h", "/orders", "POST", 1, 1, "a later one"},
    {"h", "/a/b", "GET", -1, 0, "no method: unprotected, to the upstream of the first that matches host and path"},
    {"h", "/orders", "OPTIONS", -1, 1, "preflights go where the route goes"},
    {"h", "/elsewhere", "POST", -1, 2, "no route: the default upstream"},
};

Test(route, takes_the_first_that_matches)
{
    struct conf_route routes[] = {under_a, plain, under_a};
    struct conf conf = {.routes = routes, .route_count = 3, .default_upstream = &upstreams[2]};
    routes[0].upstream = &upstreams[0];
    routes[1].upstream = &upstreams[1];
    routes[2].upstream = &upstreams[1];

    for (size_t i = 0; i < sizeof choose_rows / sizeof *choose_rows; i++) {
        const struct choose_row *row = &choose_rows[i];
        struct route_choice choice;
        route_choose(&choice, &conf, span_of(row->host), span_of(row->path), span_of(row->method));
        cr_assert_eq(choice.route, row->route < 0 ? NULL : &routes[row->route], "%s: route", row->why);
        cr_assert_eq(choice.upstream, &upstreams[row->upstream], "%s: upstream", row->why);
    }

    struct route_choice choice;
    conf.default_upstream = NULL;
    route_choose(&choice, &conf, SPAN("h"), SPAN("/elsewhere"), SPAN("POST"));
    cr_assert_null(choice.upstream, "neither route nor default: 404 no-route");
}

Test(route, tells_what_a_status_means)
{
    struct conf_route route = {0};
    route.statuses.meaning[409] = STATUS_COMPLETED;
    route.statuses.meaning_with_retry_after[409] = STATUS_RELEASE;
    route.statuses.meaning[500] = route.statuses.meaning_with_retry_after[500] = STATUS_UNKNOWN;
    cr_assert_eq(route_status_meaning(&route, 409, false), STATUS_COMPLETED);
    cr_assert_eq(route_status_meaning(&route, 409, true), STATUS_RELEASE, "409+retry-after is a row of its own");
    cr_assert_eq(route_status_meaning(&route, 500, true), STATUS_UNKNOWN);
    cr_assert_eq(route_status_meaning(&route, 100, false), STATUS_COMPLETED, "the lowest");
    cr_assert_eq(route_status_meaning(&route, 999, false), STATUS_COMPLETED, "the highest");
}
