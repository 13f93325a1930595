/*
 * `einmal check --print`: what is written loads again to the same configuration, whatever the file said, and never
 * shows a secret.
 */
#include "conf/setting.h"
#include "tests/unit/conf_run.h"

#include <criterion/criterion.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *secrets(void *arg, const char *name)
{
    static const char *const values[][2] = {
        {"API_TOKEN", "hush-hush"}, {"HOST", "api.internal"}, {"PEPPER_SECRET", "h u$h"}};
    (void)arg;
    for (size_t i = 0; i < COUNT(values); i++)
        if (strcmp(values[i][0], name) == 0)
            return values[i][1];
    return NULL;
}

static struct conf *load(const char *text)
{
    char *messages = NULL;
    size_t size;
    FILE *out = must_allocate(open_memstream(&messages, &size));
    struct conf *conf = conf_load_text("f.yaml", text, strlen(text), NULL, secrets, NULL, out);
    fclose(out);
    cr_assert_not_null(conf, "is valid:\n%s\n%s", text, messages);
    free(messages);
    return conf;
}

static char *written(const struct conf *conf)
{
    char *text = NULL;
    size_t size;
    FILE *out = must_allocate(open_memstream(&text, &size));
    conf_write(conf, out);
    fclose(out);
    return text;
}

/* What `check` prints but for "(line N)" of routes, which differ between two files. */
static char *shown(const struct conf *conf)
{
    char *text = conf_printed(conf);
    for (char *at = text; (at = strstr(at, " (line "));)
        memmove(at, strchr(at, ')') + 1, strlen(strchr(at, ')') + 1) + 1);
    return text;
}

static void expect_same(const char *text, const struct conf *a, const struct conf *b)
{
    char *shown_a = shown(a), *shown_b = shown(b);
    cr_expect_str_eq(shown_a, shown_b, "the same rules from\n%s\n---- %s\n---- %s", text, shown_a, shown_b);
    free(shown_a), free(shown_b);
    cr_assert_eq(a->route_count, b->route_count);
    for (size_t i = 0; i < a->route_count; i++) {
        const struct conf_route *left = &a->routes[i], *right = &b->routes[i];
        cr_expect_eq(memcmp(left->digest, right->digest, sizeof left->digest), 0, "the same actions from\n%s", text);
        cr_expect_eq(memcmp(&left->statuses, &right->statuses, sizeof left->statuses), 0, "the same statuses from\n%s",
                     text);
        cr_expect_eq(left->fingerprint_kind, right->fingerprint_kind, "%s", text);
    }
    for (size_t i = 0; i < a->listen_count; i++) {
        const struct conf_listen *left = &a->listen[i], *right = &b->listen[i];
        cr_expect_eq(left->mode, right->mode);
        const struct conf_file *files[][2] = {{&left->certificate, &right->certificate},
                                              {&left->key, &right->key},
                                              {&left->client_ca, &right->client_ca}};
        for (size_t j = 0; j < COUNT(files); j++)
            cr_expect(!files[j][0]->path == !files[j][1]->path &&
                      (!files[j][0]->path || strcmp(files[j][0]->path, files[j][1]->path) == 0));
    }
}

static void round_trip(const char *text)
{
    struct conf *conf = load(text);
    char *first = written(conf);
    struct conf *again = load(first);
    char *second = written(again);
    expect_same(text, conf, again);
    cr_expect_str_eq(first, second, "written twice alike:\n%s\n----\n%s", first, second);
    free(first), free(second);
    conf_unref(conf), conf_unref(again);
}

#define API "upstreams: {api: {url: \"http://a:1\"}}\n"

Test(conf_write, loads_again_to_the_same)
{
    static const char *const texts[] = {
        API,
        API "routes: []\n",
        CONF_ROUTE,
        CONF_ROUTE
        "    match: {host: \"*.x.example\", path: \"/a/{b}/**\", methods: [PUT, M-SEARCH]}\n"
        "    key: [{header: X-Key}, {derive: [path:b, \"json:/a~1b/0\", \"literal:a \\\"b\\\" \\\\ $$ \\n: #\"]}]\n",
        CONF_ROUTE "    match: {host: \"[::1]:8080\", path: /}\n    scope: []\n    fingerprint: json\n"
                   "    ignore: [\"json:/sent_at\", \"json:/$$x\"]\n",
        CONF_ROUTE "    scope: [header:X-User, \"query:a b\", cookie:sid, tls:subject]\n    on_other_identity: reject\n"
                   "    fingerprint: [body, header:X-B, method]\n    on_mismatch: new\n    task: header:X-Task\n",
        CONF_ROUTE
        "    key: [{derive: [body]}]\n    fingerprint: none\n    cors: [\"https://a.example\"]\n"
        "    replay_headers: {drop: []}\n    replayed_header: X-Again\n    on_store_error: pass\n"
        "    required: true\n    on_concurrent: reject\n    wait_timeout: 1ms\n    on_unknown: retry\n"
        "    retention: 8d\n    unknown_retention: never\n    max_request_body: 0\n    max_response_body: 5\n",
        CONF_ROUTE "    key: [{derive: [body]}, {header: K}]\n",
        CONF_ROUTE "  - name: \"null\"\n  - name: 12.5\n  - name: true\n    scope_name: shared\n",
        CONF_ROUTE
        "    statuses: {completed: [200], release: [4xx, \"5xx+retry-after\"], unknown: [5xx, 499], other: unknown}\n",
        CONF_ROUTE "    statuses: {completed: [2xx], release: [], unknown: [], other: release}\n",
        CONF_ROUTE
        "    statuses: {completed: [500, \"9xx+retry-after\"], release: [\"500+retry-after\", 999], unknown: [9xx]}\n",
        "listen:\n  - address: unix:/run/e.sock\n    mode: 0600\n  - address: \"[::1]:80\"\n"
        "    tls: {certificate: /c.pem, key: \"/k y.pem\"}\n  - address: 127.0.0.1:9\n"
        "    tls: {certificate: c, key: k, client_ca: ca}\n"
        "workers: 3\nwatch_config: true\nforwarded: replace\nvia: true\nlog: {level: error, access: false, format: "
        "text}\n"
        "store: {path: \"a $$ b\", max_size: 1MiB, create: false, lock_wait: 9s, timeout: 1s, durability: process}\n"
        "limits: {header_bytes: 1234, headers: 7, request_target: 100, connections: 8, waiters_per_action: 9, waiters: "
        "10,\n"
        "  buffer_memory: 1MiB}\ntimeouts: {header: 1ms, body: 90s, idle: 90m, send: 23h, drain_delay: 9s, drain: 1d}\n"
        "upstreams:\n  a: {url: \"https://a\", host: shop.example, keepalive: 0, connect_timeout: 1s, tls: {ca: "
        "ca.pem,\n"
        "    certificate: c.pem, key: k.pem, server_name: other.example, verify: false}}\n"
        "  b: {url: \"http+unix:/b c\"}\ndefault_upstream: b\nroutes:\n  - {name: r, upstream: a}\n",
        API "health: {address: \"0.0.0.0:1\"}\nadmin: {address: \"einmal.example:1\", token_file: \"/t $$\"}\n",
        API "admin: {address: \"unix:/a b\", mode: 0600}\n",
        API "admin: {address: \"localhost:2\"}\n",
        "upstreams:\n  a: {url: \"http://a\"}\n  b: {url: \"https://b\"}\nroutes: [{name: r, upstream: b}]\n",
        "health: {address: 0.0.0.0:9181}\nadmin: {address: \"[::]:9180\", token_file: /t}\n" API,
        "admin: {address: \"unix:/run/a.sock\", mode: 0600}\n" API,
        API "routes:\n  - {name: a, preset: stripe, match: {path: /a}}\n  - {name: b, preset: adyen, retention: 1d}\n",
        CONF_ROUTE
        "    on_unknown: probe\n    probe: {method: HEAD, path: \"/by/{key}?a={json:/x}&b=$$\", happened: [2xx, 410],\n"
        "      not_happened: [404, 299], settle: 90s}\n",
        CONF_ROUTE "    on_unknown: probe\n    probe: {path: \"/{key}\"}\n",
    };
    for (size_t i = 0; i < COUNT(texts); i++)
        round_trip(texts[i]);
}

Test(conf_write, the_reference_loads_again)
{
    static const char *const files[] = {"einmal.yaml", "minimal.yaml"};
    for (size_t i = 0; i < COUNT(files); i++) {
        char path[500];
        snprintf(path, sizeof path, TEST_SOURCE_DIR "/../conf/%s", files[i]);
        char *text = conf_read_whole(path);
        cr_assert_not_null(text, "%s", path);
        round_trip(text);
        free(text);
    }
}

/* Every row has a line, be it a comment that says what holds without it. */
static void expect_lines(const struct section *section, const char *text)
{
    for (size_t i = 0; i < section->count; i++) {
        const struct setting *setting = &section->settings[i];
        char line[100];
        snprintf(line, sizeof line, "%s:", setting_key(setting));
        bool is_absent =
            strcmp(setting->name, "routes[].preset") == 0; /* no comment: it would be an item's first line */
        if (!is_absent)
            cr_expect_not_null(strstr(text, line), "%s is written in\n%s", setting->name, text);
        if (setting->section)
            expect_lines(setting->section, text);
    }
}

Test(conf_write, defaults_are_filled_in)
{
    struct conf *conf =
        load("listen: [{address: unix:/s, tls: {certificate: c, key: k}}]\n"
             "health: {address: \"h:1\"}\nadmin: {address: unix:/a}\n"
             "upstreams: {api: {url: \"https://a\"}}\nroutes:\n  - name: r\n"
             "    key: [{header: K}, {derive: [body]}]\n    on_unknown: probe\n    probe: {path: \"/{key}\"}\n");
    char *text = written(conf);
    expect_lines(&root_section, text);
    static const char *const lines[] = {
        "  max_size: 8GiB\n",
        "    retention: 1d\n",
        "      release: [307, 308, 401,",
        "    # fingerprint: body for keys",
        "    scope_name: r\n",
        "    # host: any\n",
        "    on_other_identity: reject\n",
        "default_upstream: api\n",
    };
    for (size_t i = 0; i < COUNT(lines); i++)
        cr_expect_not_null(strstr(text, lines[i]), "'%s' stands in\n%s", lines[i], text);
    free(text);
    conf_unref(conf);
}

Test(conf_write, secrets_stand_as_they_were_written)
{
    struct conf *conf = load("upstreams: {api: {url: \"http://${HOST}:3000\"}}\nroutes:\n  - name: r\n"
                             "    scope: [\"literal:${PEPPER_SECRET}\", header:X-User]\n"
                             "    key: [{derive: [body, \"literal:a${API_TOKEN:-none}b\"]}]\n");
    char *text = written(conf);
    cr_expect_not_null(strstr(text, "\"literal:${PEPPER_SECRET}\""), "%s", text);
    cr_expect_not_null(strstr(text, "\"literal:a${API_TOKEN:-none}b\""), "%s", text);
    cr_expect_not_null(strstr(text, "\"http://api.internal:3000\""), "no secret: its value is of use\n%s", text);
    cr_expect_null(strstr(text, "hush"), "%s", text);
    cr_expect_null(strstr(text, "h u$"), "%s", text);
    round_trip(text);
    free(text);
    conf_unref(conf);
}
