/*
 * From a file or flags to a configuration: defaults are those of contract §3, the reference file says the same, flags
 * count over the file, and what identifies actions has a digest that changes with it and with nothing else.
 */
#include "conf/setting.h"
#include "tests/unit/conf_run.h"

#include <criterion/criterion.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct conf *load(const char *text, const char *expected_messages)
{
    struct conf *conf;
    char *messages = conf_run(text, strlen(text), NULL, &conf);
    cr_assert_str_eq(messages, expected_messages, "messages are\n%s\nnot\n%s", messages, expected_messages);
    cr_assert_not_null(conf, "is valid:\n%s", text);
    free(messages);
    return conf;
}

Test(conf_load, defaults_of_the_process)
{
    struct conf *conf = load(CONF_ROUTE, "");
    cr_expect_str_eq(conf->file, "f.yaml");
    cr_expect_eq(conf->listen_count, 1);
    cr_expect_str_eq(conf->listen[0].address, "0.0.0.0:8080");
    cr_expect_str_eq(conf->listen[0].host, "0.0.0.0");
    cr_expect_eq(conf->listen[0].port, 8080);
    cr_expect_eq(conf->listen[0].mode, 0660);
    cr_expect_eq(conf->workers, 0, "auto");
    cr_expect_eq(conf->forwarded, FORWARDED_APPEND);
    cr_expect_not(conf->via);
    cr_expect_eq(conf->log.level, LOG_LEVEL_INFO);
    cr_expect(conf->log.access && conf->log.json);
    cr_expect_str_eq(conf->store.path, "/var/lib/einmal");
    cr_expect_eq(conf->store.max_size, 8ull << 30);
    cr_expect(conf->store.create && conf->store.strict);
    cr_expect_eq(conf->store.lock_wait, 0);
    cr_expect_eq(conf->store.timeout, 5000);
    cr_expect_eq(conf->limits.header_bytes, 32u << 10);
    cr_expect_eq(conf->limits.headers, 100);
    cr_expect_eq(conf->limits.request_target, 8u << 10);
    cr_expect_eq(conf->limits.connections, 10000);
    cr_expect_eq(conf->limits.waiters_per_action, 128);
    cr_expect_eq(conf->limits.waiters, 10000);
    cr_expect_eq(conf->limits.buffer_memory, 256ull << 20);
    cr_expect_eq(conf->timeouts.header, 10000);
    cr_expect_eq(conf->timeouts.body, 60000);
    cr_expect_eq(conf->timeouts.idle, 75000);
    cr_expect_eq(conf->timeouts.send, 60000);
    cr_expect_eq(conf->timeouts.drain_delay, 0);
    cr_expect_eq(conf->timeouts.drain, 25000);
    conf_unref(conf);
}

Test(conf_load, defaults_of_upstreams_and_routes)
{
    struct conf *conf = load(CONF_ROUTE, "");
    const struct conf_upstream *api = &conf->upstreams[0];
    cr_expect_eq(conf->upstream_count, 1);
    cr_expect_eq(conf->default_upstream, api, "the only one");
    cr_expect_str_eq(api->name, "api");
    cr_expect_eq(api->line, 2);
    cr_expect_null(api->host_header, "pass");
    cr_expect_eq(api->connect_timeout, 2000);
    cr_expect_eq(api->send_timeout, 60000);
    cr_expect_eq(api->response_timeout, 60000);
    cr_expect_eq(api->outcome_timeout, 600000);
    cr_expect_eq(api->stall_timeout, 60000);
    cr_expect_eq(api->keepalive, 256);
    cr_expect_eq(api->keepalive_idle, 1000);

    const struct conf_route *route = &conf->routes[0];
    cr_expect_eq(conf->route_count, 1);
    cr_expect_eq(route->line, 4);
    cr_expect_str_eq(route->scope_name, "r", "the name");
    cr_expect(!route->match.host && !route->match.path_text, "any host and path");
    cr_expect_str_eq(route->match.methods[0], "POST");
    cr_expect_str_eq(route->match.methods[1], "PATCH");
    cr_expect_null(route->match.methods[2]);
    cr_expect_eq(route->upstream, api);
    cr_expect_eq(route->key_count, 1);
    cr_expect_str_eq(route->keys[0].header, "Idempotency-Key");
    cr_expect(!route->keys[0].derived && !route->key_needs_body && !route->required);
    cr_expect_eq(route->scope_kind, SCOPE_AUTO);
    cr_expect(route->reject_other_identity, "the default with scope: auto");
    cr_expect_eq(route->fingerprint_kind, FINGERPRINT_DEFAULT);
    cr_expect_null(route->ignore[0]);
    cr_expect(!route->mismatch_is_new && route->concurrent_waits && !route->pass_on_store_error);
    cr_expect_eq(route->wait_timeout, 30000);
    cr_expect_eq(route->on_unknown, ON_UNKNOWN_REPORT);
    cr_expect_eq(route->retention, 24 * 3600 * 1000);
    cr_expect_eq(route->unknown_retention, 30ll * 24 * 3600 * 1000);
    cr_expect_eq(route->max_request_body, 16u << 20);
    cr_expect_eq(route->max_response_body, 16u << 20);
    cr_expect_str_eq(route->replay_drop[0], "Set-Cookie");
    cr_expect_null(route->replay_drop[1]);
    cr_expect_str_eq(route->replayed_header, "Idempotent-Replayed");
    cr_expect_null(route->task);
    conf_unref(conf);
}

Test(conf_load, what_is_written_counts)
{
    struct conf *conf =
        load("listen:\n"
             "  - address: unix:/run/e.sock\n"
             "    mode: 0600\n"
             "  - address: \"[::1]:80\"\n"
             "workers: 3\nforwarded: replace\nvia: true\nlog: {level: error, access: false, format: text}\n"
             "store: {path: data, max_size: 1MiB, create: false, lock_wait: 9s, timeout: 1s, durability: process}\n"
             "upstreams:\n"
             "  a: {url: \"http://a\", host: shop.example, keepalive: 0}\n"
             "  b: {url: \"http+unix:/b\"}\n"
             "default_upstream: b\n"
             "routes:\n"
             "  - name: r\n    scope_name: s\n    match: {host: \"*.x\", methods: [PUT], path: \"/{p}/**\"}\n"
             "    upstream: a\n    required: true\n    scope: [header:X-User]\n    fingerprint: json\n"
             "    key:\n      - header: X-Key\n      - derive: [path:p, \"json:/id\"]\n"
             "    ignore: [\"json:/a\", \"json:/b\"]\n    on_mismatch: new\n    on_concurrent: reject\n    "
             "wait_timeout: 1ms\n"
             "    on_unknown: retry\n    retention: 2s\n    unknown_retention: never\n    max_request_body: 1KB\n"
             "    max_response_body: 0\n    replay_headers: {drop: []}\n    replayed_header: X-Again\n"
             "    on_store_error: pass\n    task: header:X-Task-Id\n"
             "  - name: t\n    match: {methods: [DELETE]}\n    on_other_identity: separate\n    fingerprint: [host, "
             "query:v]\n",
             "");
    cr_expect_str_eq(conf->listen[0].unix_path, "/run/e.sock");
    cr_expect_eq(conf->listen[0].mode, 0600);
    cr_expect_str_eq(conf->listen[1].host, "::1");
    cr_expect(conf->workers == 3 && conf->forwarded == FORWARDED_REPLACE && conf->via);
    cr_expect(conf->log.level == LOG_LEVEL_ERROR && !conf->log.access && !conf->log.json);
    cr_expect_str_eq(conf->store.path, "data");
    cr_expect(!conf->store.create && !conf->store.strict);
    cr_expect_str_eq(conf->upstreams[0].host_header, "shop.example");
    cr_expect_eq(conf->default_upstream, &conf->upstreams[1]);
    const struct conf_route *r = &conf->routes[0], *t = &conf->routes[1];
    cr_expect_eq(r->upstream, &conf->upstreams[0]);
    cr_expect_eq(t->upstream, &conf->upstreams[1], "the default_upstream");
    cr_expect(r->required && r->mismatch_is_new && !r->concurrent_waits && r->pass_on_store_error);
    cr_expect(r->key_needs_body, "json: does");
    cr_expect_not(r->reject_other_identity, "the default with a list");
    cr_expect_not(t->reject_other_identity, "written");
    cr_expect_eq(r->fingerprint_kind, FINGERPRINT_JSON);
    cr_expect_str_eq(r->ignore[1], "/b", "without json:");
    cr_expect_null(r->ignore[2]);
    cr_expect_eq(r->on_unknown, ON_UNKNOWN_RETRY);
    cr_expect_eq(r->unknown_retention, CONF_FOREVER);
    cr_expect_null(r->replay_drop[0]);
    cr_expect_str_eq(r->task->argument, "x-task-id");
    cr_expect_eq(t->fingerprint_kind, FINGERPRINT_COMPONENTS);
    cr_expect_eq(t->fingerprint.count, 2);
    conf_unref(conf);
}

Test(conf_load, tls)
{
    struct conf *conf =
        load("listen:\n  - address: a:1\n    tls: {certificate: c.pem, key: k.pem, client_ca: \"${LEVEL}\"}\n"
             "  - address: b:2\n"
             "upstreams:\n  s: {url: \"https://s\", tls: {ca: ca.pem, server_name: n.example}}\n"
             "  d: {url: \"https://d:8443\"}\n  p: {url: \"http://p\"}\n"
             "routes: [{name: r, upstream: s}]\n",
             "");
    cr_expect(conf->listen[0].tls && !conf->listen[1].tls);
    cr_expect_str_eq(conf->listen[0].certificate.path, "c.pem");
    cr_expect_str_eq(conf->listen[0].key.path, "k.pem");
    cr_expect_eq(conf->listen[0].key.line, 3, "the place is kept for who reads the file");
    cr_expect_eq(conf->listen[0].key.column, 36, "%d", conf->listen[0].key.column);
    cr_expect_str_eq(conf->listen[0].client_ca.path, "debug");
    cr_expect_null(conf->listen[1].certificate.path);
    const struct conf_upstream *s = &conf->upstreams[0], *d = &conf->upstreams[1], *p = &conf->upstreams[2];
    cr_expect(s->tls && d->tls && !p->tls);
    cr_expect(s->tls_settings.verify && d->tls_settings.verify, "verified unless told otherwise");
    cr_expect_str_eq(s->tls_settings.ca.path, "ca.pem");
    cr_expect_str_eq(s->tls_settings.server_name, "n.example");
    cr_expect_null(d->tls_settings.ca.path);
    char *printed = conf_printed(conf);
    cr_expect_not_null(strstr(printed, "a:1 (tls, with client certificates), b:2\n"), "%s", printed);
    cr_expect_not_null(strstr(printed, "verified as n.example by ca.pem\n"), "%s", printed);
    cr_expect_not_null(strstr(printed, "verified as d by the authorities of the system\n"), "%s", printed);
    free(printed);
    conf_unref(conf);
}

Test(conf_load, environment_is_replaced_in_values)
{
    struct conf *conf = load("upstreams:\n  a: {url: \"http://${HOST:-api}:${PORT}\"}\n"
                             "log: {level: \"${LEVEL}\"}\n"
                             "workers: ${NUMBER}\n"
                             "limits: {headers: \"${NUMBER}0\"}\n"
                             "store: {path: \"/a$${x}${EMPTY}${EMPTY:-/b}\"}\n"
                             "routes:\n  - {name: r, required: \"${X:-true}\", unknown_retention: \"${NEVER}\"}\n",
                             "");
    cr_expect_str_eq(conf->upstreams[0].url, "http://api:3000");
    cr_expect_eq(conf->log.level, LOG_LEVEL_DEBUG);
    cr_expect_eq(conf->workers, 7);
    cr_expect_eq(conf->limits.headers, 70, "quotes in the file do not make a string of it");
    cr_expect_str_eq(conf->store.path, "/a${x}/b", "$$ is a dollar; :- counts for empty ones, too");
    cr_expect(conf->routes[0].required);
    cr_expect_eq(conf->routes[0].unknown_retention, CONF_FOREVER);
    conf_unref(conf);
}

Test(conf_load, statuses)
{
    static const struct {
        const char *text;
        unsigned status;
        enum status_class usual, with_retry_after;
    } rows[] = {
        {"{}", 200, STATUS_COMPLETED, STATUS_COMPLETED},
        {"{}", 307, STATUS_RELEASE, STATUS_RELEASE},
        {"{}", 409, STATUS_COMPLETED, STATUS_RELEASE},
        {"{}", 429, STATUS_RELEASE, STATUS_RELEASE},
        {"{}", 500, STATUS_UNKNOWN, STATUS_UNKNOWN},
        {"{}", 503, STATUS_UNKNOWN, STATUS_RELEASE},
        {"{}", 501, STATUS_COMPLETED, STATUS_COMPLETED},
        {"{}", 799, STATUS_COMPLETED, STATUS_COMPLETED},
        {"{completed: [2xx], release: [], unknown: [], other: release}", 201, STATUS_COMPLETED, STATUS_COMPLETED},
        {"{completed: [2xx], release: [], unknown: [], other: release}", 500, STATUS_RELEASE, STATUS_RELEASE},
        {"{release: [4xx], completed: [404]}", 404, STATUS_COMPLETED, STATUS_COMPLETED},
        {"{release: [4xx], completed: [404]}", 410, STATUS_RELEASE, STATUS_RELEASE},
        {"{release: [\"4xx+retry-after\"], completed: [404]}", 404, STATUS_COMPLETED, STATUS_COMPLETED},
        {"{release: [\"4xx+retry-after\"], unknown: [4xx]}", 410, STATUS_UNKNOWN, STATUS_RELEASE},
        {"{release: [\"404+retry-after\"], unknown: [4xx], completed: [404]}", 404, STATUS_COMPLETED, STATUS_RELEASE},
        {"{other: unknown}", 200, STATUS_UNKNOWN, STATUS_UNKNOWN},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[400];
        snprintf(text, sizeof text, CONF_ROUTE "    statuses: %s\n", rows[i].text);
        struct conf *conf = load(text, "");
        const struct conf_statuses *statuses = &conf->routes[0].statuses;
        cr_expect_eq(statuses->meaning[rows[i].status], rows[i].usual, "%s: %u", rows[i].text, rows[i].status);
        cr_expect_eq(statuses->meaning_with_retry_after[rows[i].status], rows[i].with_retry_after,
                     "%s: %u with Retry-After", rows[i].text, rows[i].status);
        conf_unref(conf);
    }
}

/* ---- the files that come with the program ----------------------------------------------------- */

static struct conf *load_file(const char *name, const struct conf_overrides *overrides, char **messages)
{
    char path[1000];
    size_t size;
    FILE *out = open_memstream(messages, &size);
    snprintf(path, sizeof path, TEST_SOURCE_DIR "/../conf/%s", name);
    struct conf *conf = conf_load(path, overrides, conf_test_environment, NULL, out);
    fclose(out);
    return conf;
}

Test(conf_load, the_reference_file_says_the_defaults)
{
    struct conf_overrides none = {0};
    char *messages, *other_messages;
    struct conf *reference = load_file("einmal.yaml", &none, &messages);
    struct conf *minimal = load_file("minimal.yaml", &none, &other_messages);
    cr_assert_not_null(reference, "%s", messages);
    cr_assert_not_null(minimal, "%s", other_messages);
    cr_expect_str_eq(messages, "");
    cr_expect_str_eq(other_messages, "");
    struct conf_difference fixed[1];
    cr_expect_eq(conf_fixed_differences(reference, minimal, fixed, 1), 0);
    cr_expect_arr_eq(reference->routes[0].digest, minimal->routes[0].digest, 32);
    reference->routes[0].line = minimal->routes[0].line = 0;
    char *a = conf_printed(reference), *b = conf_printed(minimal);
    cr_expect_str_eq(a, b, "printed, they are the same");
    free(a), free(b), free(messages), free(other_messages);
    conf_unref(reference);
    conf_unref(minimal);
}

static void expect_named(const struct section *section, const char *text)
{
    for (size_t i = 0; i < section->count; i++) {
        char name[60];
        snprintf(name, sizeof name, "%s:", setting_key(&section->settings[i]));
        cr_expect_not_null(strstr(text, name), "%s is explained in einmal.yaml", section->settings[i].name);
        if (section->settings[i].section)
            expect_named(section->settings[i].section, text);
    }
}

Test(conf_load, the_reference_file_names_every_setting)
{
    char *text = conf_read_whole(TEST_SOURCE_DIR "/../conf/einmal.yaml");
    cr_assert_not_null(text);
    expect_named(&root_section, text);
    free(text);
}

/* The table is made from the schema: `EINMAL_WRITE_REFERENCE=FILE test_conf_load` writes it anew. */
Test(conf_load, the_table_in_the_readme_is_that_of_the_schema)
{
    char *readme = conf_read_whole(TEST_SOURCE_DIR "/../conf/README.md"), *table = NULL;
    size_t size;
    FILE *out = open_memstream(&table, &size);
    conf_write_reference(out);
    fclose(out);
    const char *file = getenv("EINMAL_WRITE_REFERENCE");
    FILE *written = file ? fopen(file, "w") : NULL;
    if (written) {
        fputs(table, written);
        fclose(written);
    }
    cr_assert_not_null(readme);
    cr_expect_not_null(strstr(readme, table), "conf/README.md has exactly the rows of the schema");
    free(readme), free(table);
}

/* ---- side listeners --------------------------------------------------------------------------- */

Test(conf_load, side_listeners_are_off_unless_named)
{
    struct conf *conf = load(CONF_ROUTE, "");
    cr_expect_null(conf->health.address);
    cr_expect_null(conf->admin.listen.address);
    cr_expect_null(conf->admin.token_file.path);
    conf_unref(conf);
}

Test(conf_load, side_listeners)
{
    struct conf *conf = load(CONF_ROUTE "health: {address: \"0.0.0.0:9181\"}\n"
                                        "admin: {address: \"unix:/run/a\", mode: 0600, token_file: /run/t}\n",
                             "");
    cr_expect_str_eq(conf->health.host, "0.0.0.0", "probes come from anywhere, without a token");
    cr_expect_eq(conf->health.port, 9181);
    cr_expect_eq(conf->health.mode, 0660);
    cr_expect_str_eq(conf->admin.listen.unix_path, "/run/a");
    cr_expect_eq(conf->admin.listen.mode, 0600);
    cr_expect_str_eq(conf->admin.token_file.path, "/run/t");
    cr_expect_eq(conf->admin.token_file.line, 6, "where the file is named");
    conf_unref(conf);
}

Test(conf_load, with_a_token_any_address_will_do)
{
    static const char *const addresses[] = {"0.0.0.0:1", "[::]:1", "einmal.example:1", "10.0.0.1:1", "127.0.0.1:1"};
    for (size_t i = 0; i < COUNT(addresses); i++) {
        char text[512];
        snprintf(text, sizeof text, CONF_ROUTE "admin: {address: \"%s\", token_file: /t}\n", addresses[i]);
        struct conf *conf = load(text, "");
        cr_expect_str_eq(conf->admin.listen.address, addresses[i]);
        conf_unref(conf);
    }
}

Test(conf_load, the_flag_counts_over_the_file_and_keeps_the_rest)
{
    static const char text[] = CONF_ROUTE "admin: {address: \"127.0.0.1:1\", token_file: /t}\n";
    static const struct {
        const char *flag, *address, *token_file;
    } rows[] = {{"127.0.0.2:2", "127.0.0.2:2", "/t"}, {"0.0.0.0:2", "0.0.0.0:2", "/t"}, {"off", NULL, NULL}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct conf *conf;
        char *messages = conf_run(text, strlen(text), &(struct conf_overrides){.admin = rows[i].flag}, &conf);
        cr_assert_not_null(conf, "%s", messages);
        if (rows[i].address)
            cr_expect_str_eq(conf->admin.listen.address, rows[i].address);
        else
            cr_expect_null(conf->admin.listen.address);
        if (rows[i].token_file)
            cr_expect_str_eq(conf->admin.token_file.path, rows[i].token_file);
        else
            cr_expect_null(conf->admin.token_file.path);
        free(messages);
        conf_unref(conf);
    }
}

/* ---- flags ------------------------------------------------------------------------------------ */

static char *load_with(const struct conf_overrides *overrides, struct conf **conf)
{
    return conf_run(CONF_ROUTE, strlen(CONF_ROUTE), overrides, conf);
}

Test(conf_load, flags_count_over_the_file)
{
    struct conf *conf;
    char *messages = load_with(&(struct conf_overrides){.listen = "unix:/x", .data = "/d"}, &conf);
    cr_assert_not_null(conf);
    cr_expect_str_eq(messages, "");
    cr_expect_eq(conf->listen_count, 1);
    cr_expect_str_eq(conf->listen[0].unix_path, "/x");
    cr_expect_eq(conf->listen[0].mode, 0660);
    cr_expect_str_eq(conf->store.path, "/d");
    free(messages);
    conf_unref(conf);
}

Test(conf_load, wrong_flags_are_told_as_those_of_a_command)
{
    static const struct {
        struct conf_overrides overrides;
        const char *messages;
        bool valid;
    } rows[] = {
        {{.listen = "8080"}, "einmal: --listen (or EINMAL_LISTEN) '8080': expected host:port or [IPv6]:port\n", false},
        {{.data = ""}, "einmal: --data (or EINMAL_DATA) '': expected a directory\n", false},
        {{.admin = "a:1"},
         "einmal: --admin (or EINMAL_ADMIN) 'a:1': can be reached from other machines: set admin.token_file, or listen "
         "on "
         "127.0.0.1 or a unix socket\n",
         false},
        {{.admin = "9180"}, "einmal: --admin (or EINMAL_ADMIN) '9180': expected host:port or [IPv6]:port\n", false},
        {{.admin = "0.0.0.0:8080"},
         "einmal: --admin (or EINMAL_ADMIN) '0.0.0.0:8080': is the address of listen[0].address already: choose "
         "another port "
         "or path\n"
         "einmal: --admin (or EINMAL_ADMIN) '0.0.0.0:8080': can be reached from other machines: set admin.token_file, "
         "or "
         "listen on 127.0.0.1 or a unix socket\n",
         false},
        {{.admin = "127.1.2.3:9"}, "", true},
        {{.admin = "localhost:9"}, "", true},
        {{.admin = "[::1]:9"}, "", true},
        {{.admin = "unix:/a"}, "", true},
        {{.admin = "off"}, "", true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct conf *conf;
        char *messages = load_with(&rows[i].overrides, &conf);
        cr_expect_str_eq(messages, rows[i].messages, "row %zu says %s", i, messages);
        cr_expect_eq(conf != NULL, rows[i].valid, "row %zu", i);
        free(messages);
        conf_unref(conf);
    }
}

static struct conf *load_upstream(const struct conf_overrides *overrides, char **messages)
{
    size_t size;
    FILE *out = open_memstream(messages, &size);
    struct conf *conf = conf_load(NULL, overrides, conf_test_environment, NULL, out);
    fclose(out);
    return conf;
}

Test(conf_load, without_a_file_the_defaults_are_those_of_a_file)
{
    char *messages;
    struct conf *conf = load_upstream(&(struct conf_overrides){.upstream = "http://127.0.0.1:3000"}, &messages);
    cr_assert_not_null(conf, "%s", messages);
    cr_expect_str_eq(messages, "");
    cr_expect_null(conf->file);
    cr_expect_str_eq(conf->routes[0].name, "default");
    cr_expect_str_eq(conf->routes[0].upstream->url, "http://127.0.0.1:3000");
    struct conf *same = load("upstreams: {default: {url: \"http://127.0.0.1:3000\"}}\nroutes: [{name: default}]\n"
                             "admin: {address: \"127.0.0.1:9180\"}\n",
                             "");
    same->routes[0].line = 0;
    char *a = conf_printed(conf), *b = conf_printed(same);
    cr_expect_str_eq(a, b);
    cr_expect_arr_eq(conf->routes[0].digest, same->routes[0].digest, 32);
    free(a), free(b), free(messages);
    conf_unref(conf);
    conf_unref(same);
}

Test(conf_load, without_a_file_a_bad_url_names_the_flag)
{
    static const char *const urls[] = {"",           "http://",    "127.0.0.1:3000", "http://a/b", "http://\xFF",
                                       "http://a b", "https://a/b"};
    for (size_t i = 0; i < COUNT(urls); i++) {
        char *messages;
        struct conf *conf = load_upstream(&(struct conf_overrides){.upstream = urls[i]}, &messages);
        cr_expect_null(conf, "'%s' is refused", urls[i]);
        cr_expect_eq(strncmp(messages, "einmal: --upstream (or EINMAL_UPSTREAM) '", 41), 0, "'%s': %s", urls[i],
                     messages);
        cr_expect_eq(strchr(messages, '\n'), messages + strlen(messages) - 1, "'%s': one line", urls[i]);
        free(messages);
    }
}

Test(conf_load, without_a_file_a_dollar_is_a_dollar)
{
    char *messages;
    struct conf *conf =
        load_upstream(&(struct conf_overrides){.upstream = "http+unix:/${PORT}", .data = "$d"}, &messages);
    cr_assert_not_null(conf, "%s", messages);
    cr_expect_str_eq(conf->upstreams[0].unix_path, "/${PORT}", "the shell has replaced what was to be");
    cr_expect_str_eq(conf->store.path, "$d");
    free(messages);
    conf_unref(conf);
}

Test(conf_load, a_file_that_cannot_be_read)
{
    static const struct {
        const char *file, *messages;
    } rows[] = {
        {"/nonexistent/einmal.yaml", "einmal: cannot read /nonexistent/einmal.yaml: No such file or directory\n"},
        {"/", "einmal: cannot read /: Is a directory\n"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *messages = NULL;
        size_t size;
        FILE *out = open_memstream(&messages, &size);
        struct conf *conf = conf_load(rows[i].file, &(struct conf_overrides){0}, conf_test_environment, NULL, out);
        fclose(out);
        cr_expect_null(conf);
        cr_expect_str_eq(messages, rows[i].messages, "%s", messages);
        free(messages);
    }
}

Test(conf_load, what_is_named_must_be_there)
{
    static const struct {
        const char *text, *messages;
    } rows[] = {
        {"store: {path: /nonexistent/einmal}\n", ""},
        {"store: {path: /nonexistent, create: false}\n",
         "einmal: store.path /nonexistent: No such file or directory (and store.create is false)\n"},
        {"store: {path: /, create: false}\n", ""},
        {"store: {path: /dev/null}\n", "einmal: store.path /dev/null: Not a directory\n"},
        {"store: {path: /dev/null/x}\n", "einmal: store.path /dev/null/x: Not a directory\n"},
        {"listen: [{address: \"unix:/einmal.sock\"}]\n", ""},
        {"listen: [{address: \"a:1\"}, {address: \"unix:/nonexistent/x/e.sock\"}]\n",
         "einmal: listen unix:/nonexistent/x/e.sock: /nonexistent/x: No such file or directory\n"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[400], *messages = NULL;
        size_t size;
        snprintf(text, sizeof text, "%s" CONF_ROUTE, rows[i].text);
        struct conf *conf = load(text, "");
        FILE *out = open_memstream(&messages, &size);
        bool fine = conf_check_named(conf, out);
        fclose(out);
        cr_expect_str_eq(messages, rows[i].messages, "%s: %s", rows[i].text, messages);
        cr_expect_eq(fine, !*rows[i].messages, "%s", rows[i].text);
        free(messages);
        conf_unref(conf);
    }
}

/* ---- reload ----------------------------------------------------------------------------------- */

Test(conf_load, all_that_cannot_change_are_named_as_far_as_there_is_room)
{
    struct conf *running = load(CONF_ROUTE, "");
    struct conf *wanted = load("workers: 2\nstore: {path: /x, create: false}\nlimits: {waiters: 1}\n" CONF_ROUTE, "");
    static const char *const expected[] = {"workers", "store.path", "store.create", "limits.waiters"};
    struct conf_difference found[8];
    cr_assert_eq(conf_fixed_differences(running, wanted, found, 8), 4);
    for (size_t i = 0; i < COUNT(expected); i++)
        cr_expect_str_eq(found[i].name, expected[i]);
    cr_expect_eq(conf_fixed_differences(running, wanted, found, 3), 3, "not more than there is room for");
    conf_unref(running);
    conf_unref(wanted);
}

Test(conf_load, references)
{
    struct conf *conf = load(CONF_ROUTE, "");
    cr_expect_eq(conf_ref(conf), conf);
    conf_unref(conf);
    cr_expect_str_eq(conf->routes[0].name, "r", "is there as long as somebody holds it");
    conf_unref(conf);
    conf_unref(NULL);
}

/* ---- digest ----------------------------------------------------------------------------------- */

static void digest_of(const char *settings, uint8_t digest[32])
{
    char text[600];
    struct conf *conf;
    snprintf(text, sizeof text, CONF_ROUTE "%s", settings);
    char *messages = conf_run(text, strlen(text), NULL, &conf); /* warnings are another test's */
    cr_assert_not_null(conf, "%s: %s", settings, messages);
    memcpy(digest, conf->routes[0].digest, 32);
    free(messages);
    conf_unref(conf);
}

/* The store compares digests over restarts and versions: this one must stay as it is. */
Test(conf_load, the_digest_is_pinned)
{
    static const char expected[] = "f4dd4f9dbcae6fe57e0aa9e168677ce4e989a870648c5e21b6182b12fabe9141";
    uint8_t digest[32];
    char text[65] = "";
    digest_of("    key:\n      - header: Idempotency-Key\n      - derive: [header:X-Account, \"json:/id\"]\n"
              "    scope: [cookie:sid]\n    fingerprint: json\n    ignore: [\"json:/sent\"]\n",
              digest);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    cr_expect_str_eq(text, expected, "is %s", text);
}

Test(conf_load, the_digest_changes_with_what_identifies_actions)
{
    static const char *const rows[] = {
        "",
        "    key: [{header: X-Key}]\n",
        "    key: [{header: X-Key}, {header: Idempotency-Key}]\n",
        "    key: [{header: Idempotency-Key}, {header: X-Key}]\n",
        "    key: [{derive: [\"query:a\", \"query:b\"]}]\n",
        "    key: [{derive: [\"query:b\", \"query:a\"]}]\n",
        "    key: [{derive: [\"query:ab\"]}]\n",
        "    key: [{derive: [\"query:a\"]}, {derive: [\"query:b\"]}]\n",
        "    key: [{derive: [\"form:a\", \"form:b\"]}]\n",
        "    key: [{derive: [\"query:a\", \"query:b\"]}]\n    fingerprint: body\n",
        "    scope: []\n",
        "    scope: [header:A]\n",
        "    scope: [cookie:a]\n",
        "    scope: [header:A, header:B]\n",
        "    fingerprint: none\n",
        "    fingerprint: json\n",
        "    fingerprint: json\n    ignore: [\"json:/a\"]\n",
        "    fingerprint: json\n    ignore: [\"json:/a\", \"json:/b\"]\n",
        "    fingerprint: [host]\n",
        "    fingerprint: [header:A]\n",
        "    on_mismatch: new\n",
    };
    uint8_t digests[COUNT(rows)][32];
    for (size_t i = 0; i < COUNT(rows); i++) {
        digest_of(rows[i], digests[i]);
        for (size_t j = 0; j < i; j++)
            cr_expect_neq(memcmp(digests[i], digests[j], 32), 0, "differ:\n%s%s", rows[i], rows[j]);
    }
}

Test(conf_load, the_digest_does_not_change_with_what_says_the_same)
{
    static const char *const pairs[][2] = {
        {"", "    key: [{header: idempotency-KEY}]\n    scope: auto\n    fingerprint: body\n"},
        {"    scope: [header:X-User]\n", "    scope: [\"header:x-user\"]\n"},
        {"    key: [{derive: [query:a]}]\n", "    key: [{derive: [query:a]}]\n    fingerprint: none\n"},
        {"", "    scope_name: other\n    retention: 1h\n    statuses: {other: unknown}\n    required: true\n"},
        {"", "    on_other_identity: separate\n    match: {path: /x}\n    max_request_body: 1KiB\n"},
    };
    for (size_t i = 0; i < COUNT(pairs); i++) {
        uint8_t a[32], b[32];
        digest_of(pairs[i][0], a);
        digest_of(pairs[i][1], b);
        cr_expect_arr_eq(a, b, 32, "pair %zu", i);
    }
}
