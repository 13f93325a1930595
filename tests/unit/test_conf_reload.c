/*
 * What a reload can change and what it only names, setting by setting: the table has a row for every setting of the
 * schema, so that none can be added without saying which it is.
 */
#include "conf/setting.h"
#include "tests/unit/conf_run.h"

#include <criterion/criterion.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The configuration that runs: settings of the root before it, of the upstream and of the route in it. */
#define CONFIG(root, upstream, route) \
    root "upstreams:\n  api:\n    url: https://a\n" upstream "routes:\n  - name: r\n" route
#define ROOT(text)     CONFIG(text, "", "")
#define UPSTREAM(text) CONFIG("", "    " text "\n", "")
#define ROUTE(text)    CONFIG("", "", "    " text "\n")
#define PROBE(more)    "    on_unknown: probe\n    probe: {path: \"/by/{key}\"" more "}\n"
#define TLS            "listen: [{address: \"0.0.0.0:8080\", tls: {certificate: a, key: b}}]\n"

/* The third member of a row, and a fourth where something else runs before than CONFIG("", "", ""). */
#define LIVE                     .running = NULL
#define NAMED(running_, wanted_) .running = running_, .wanted = wanted_

static const struct row {
    const char *setting, *text;
    const char *running, *wanted; /* as they are told; NULL: can change */
    const char *before;
} rows[] = {
    {"listen", ROOT("listen: [{address: \"127.0.0.1:81\"}]\n"), NAMED("0.0.0.0:8080", "127.0.0.1:81")},
    {"listen[].address", ROOT("listen: [{address: \"0.0.0.0:8080\"}, {address: \"[::1]:81\"}]\n"),
     NAMED("0.0.0.0:8080", "0.0.0.0:8080, [::1]:81")},
    {"listen[].mode", ROOT("listen: [{address: \"unix:/s\", mode: 0600}]\n"),
     NAMED("unix:/s (mode 0660)", "unix:/s (mode 0600)"), .before = ROOT("listen: [{address: \"unix:/s\"}]\n")},
    {"listen[].tls", ROOT(TLS), NAMED("0.0.0.0:8080", "0.0.0.0:8080 (tls)")},
    {"listen[].tls.certificate", ROOT("listen: [{address: \"0.0.0.0:8080\", tls: {certificate: c, key: b}}]\n"), LIVE,
     .before = ROOT(TLS)},
    {"listen[].tls.key", ROOT("listen: [{address: \"0.0.0.0:8080\", tls: {certificate: a, key: c}}]\n"), LIVE,
     .before = ROOT(TLS)},
    {"listen[].tls.client_ca",
     ROOT("listen: [{address: \"0.0.0.0:8080\", tls: {certificate: a, key: b, client_ca: c}}]\n"), LIVE,
     .before = ROOT(TLS)},
    {"workers", ROOT("workers: 2\n"), NAMED("auto", "2")},
    {"watch_config", ROOT("watch_config: true\n"), LIVE},
    {"forwarded", ROOT("forwarded: pass\n"), LIVE},
    {"via", ROOT("via: true\n"), LIVE},
    {"log.level", ROOT("log: {level: debug}\n"), LIVE},
    {"log.access", ROOT("log: {access: false}\n"), LIVE},
    {"log.format", ROOT("log: {format: text}\n"), LIVE},
    {"store.path", ROOT("store: {path: /x}\n"), NAMED("/var/lib/einmal", "/x")},
    {"store.max_size", ROOT("store: {max_size: 1GiB}\n"), NAMED("8GiB", "1GiB")},
    {"store.create", ROOT("store: {create: false}\n"), NAMED("true", "false")},
    {"store.lock_wait", ROOT("store: {lock_wait: 1s}\n"), NAMED("0s", "1s")},
    {"store.timeout", ROOT("store: {timeout: 1s}\n"), LIVE},
    {"store.durability", ROOT("store: {durability: process}\n"), NAMED("strict", "process")},
    {"limits.header_bytes", ROOT("limits: {header_bytes: 1KiB}\n"), LIVE},
    {"limits.headers", ROOT("limits: {headers: 9}\n"), LIVE},
    {"limits.request_target", ROOT("limits: {request_target: 64}\n"), LIVE},
    {"limits.connections", ROOT("limits: {connections: 5}\n"), LIVE},
    {"limits.waiters_per_action", ROOT("limits: {waiters_per_action: 1}\n"), NAMED("128", "1")},
    {"limits.waiters", ROOT("limits: {waiters: 1}\n"), NAMED("10000", "1")},
    {"limits.buffer_memory", ROOT("limits: {buffer_memory: 128MiB}\n"), NAMED("256MiB", "128MiB")},
    {"health.address", ROOT("health: {address: \"a:1\"}\n"), NAMED("off", "a:1")},
    {"admin.address", ROOT("admin: {address: \"127.0.0.1:1\"}\n"), NAMED("off", "127.0.0.1:1")},
    {"admin.mode", ROOT("admin: {address: \"unix:/a\", mode: 0600}\n"), NAMED("0660", "0600"),
     .before = ROOT("admin: {address: \"unix:/a\"}\n")},
    {"admin.token_file", ROOT("admin: {address: \"127.0.0.1:1\", token_file: /a}\n"), LIVE,
     .before = ROOT("admin: {address: \"127.0.0.1:1\"}\n")},
    {"timeouts.header", ROOT("timeouts: {header: 1s}\n"), LIVE},
    {"timeouts.body", ROOT("timeouts: {body: 1s}\n"), LIVE},
    {"timeouts.idle", ROOT("timeouts: {idle: 1s}\n"), LIVE},
    {"timeouts.send", ROOT("timeouts: {send: 1s}\n"), LIVE},
    {"timeouts.drain_delay", ROOT("timeouts: {drain_delay: 1s}\n"), LIVE},
    {"timeouts.drain", ROOT("timeouts: {drain: 1s}\n"), LIVE},
    {"upstreams", CONFIG("default_upstream: api\n", "  b: {url: \"http://b\"}\n", ""), LIVE},
    {"upstreams.NAME.url", "upstreams: {api: {url: \"https://b\"}}\nroutes: [{name: r}]\n", LIVE},
    {"upstreams.NAME.connect_timeout", UPSTREAM("connect_timeout: 1s"), LIVE},
    {"upstreams.NAME.send_timeout", UPSTREAM("send_timeout: 1s"), LIVE},
    {"upstreams.NAME.host", UPSTREAM("host: b"), LIVE},
    {"upstreams.NAME.response_timeout", UPSTREAM("response_timeout: 1s"), LIVE},
    {"upstreams.NAME.outcome_timeout", UPSTREAM("outcome_timeout: 1s"), LIVE},
    {"upstreams.NAME.stall_timeout", UPSTREAM("stall_timeout: 1s"), LIVE},
    {"upstreams.NAME.keepalive", UPSTREAM("keepalive: 1"), LIVE},
    {"upstreams.NAME.keepalive_idle", UPSTREAM("keepalive_idle: 2s"), LIVE},
    {"upstreams.NAME.tls", UPSTREAM("tls: {ca: a}"), LIVE},
    {"upstreams.NAME.tls.ca", UPSTREAM("tls: {ca: a}"), LIVE},
    {"upstreams.NAME.tls.certificate", UPSTREAM("tls: {certificate: a, key: b}"), LIVE},
    {"upstreams.NAME.tls.key", UPSTREAM("tls: {certificate: a, key: b}"), LIVE},
    {"upstreams.NAME.tls.server_name", UPSTREAM("tls: {server_name: b}"), LIVE},
    {"upstreams.NAME.tls.verify", UPSTREAM("tls: {verify: false}"), LIVE},
    {"default_upstream", ROOT("default_upstream: api\n"), LIVE},
    {"routes", "upstreams: {api: {url: \"https://a\"}}\n", LIVE},
    {"routes[].preset", ROUTE("preset: stripe"), LIVE},
    {"routes[].name", "upstreams: {api: {url: \"https://a\"}}\nroutes: [{name: s}]\n", LIVE},
    {"routes[].scope_name", ROUTE("scope_name: s"), LIVE},
    {"routes[].match.host", ROUTE("match: {host: a}"), LIVE},
    {"routes[].match.methods", ROUTE("match: {methods: [PUT]}"), LIVE},
    {"routes[].match.path", ROUTE("match: {path: /a}"), LIVE},
    {"routes[].upstream", ROUTE("upstream: api"), LIVE},
    {"routes[].key", ROUTE("key: [{header: A}]"), LIVE},
    {"routes[].key[].header", ROUTE("key: [{header: A}]"), LIVE},
    {"routes[].key[].derive", ROUTE("key: [{derive: [header:A]}]"), LIVE},
    {"routes[].required", ROUTE("required: true"), LIVE},
    {"routes[].scope", ROUTE("scope: []"), LIVE},
    {"routes[].on_other_identity", ROUTE("on_other_identity: separate"), LIVE},
    {"routes[].fingerprint", ROUTE("fingerprint: json"), LIVE},
    {"routes[].ignore", CONFIG("", "", "    fingerprint: json\n    ignore: [\"json:/a\"]\n"), LIVE},
    {"routes[].on_mismatch", ROUTE("on_mismatch: new"), LIVE},
    {"routes[].on_concurrent", ROUTE("on_concurrent: reject"), LIVE},
    {"routes[].wait_timeout", ROUTE("wait_timeout: 1s"), LIVE},
    {"routes[].on_unknown", ROUTE("on_unknown: retry"), LIVE},
    {"routes[].statuses", ROUTE("statuses: {other: release}"), LIVE},
    {"routes[].statuses.completed", ROUTE("statuses: {completed: [2xx]}"), LIVE},
    {"routes[].statuses.release", ROUTE("statuses: {release: [418]}"), LIVE},
    {"routes[].statuses.unknown", ROUTE("statuses: {unknown: [418]}"), LIVE},
    {"routes[].statuses.other", ROUTE("statuses: {other: unknown}"), LIVE},
    {"routes[].retention", ROUTE("retention: 1h"), LIVE},
    {"routes[].unknown_retention", ROUTE("unknown_retention: never"), LIVE},
    {"routes[].max_request_body", ROUTE("max_request_body: 1KiB"), LIVE},
    {"routes[].max_response_body", ROUTE("max_response_body: 1KiB"), LIVE},
    {"routes[].replay_headers.drop", ROUTE("replay_headers: {drop: []}"), LIVE},
    {"routes[].cors", ROUTE("cors: [\"https://a\"]"), LIVE},
    {"routes[].replayed_header", ROUTE("replayed_header: A"), LIVE},
    {"routes[].on_store_error", ROUTE("on_store_error: pass"), LIVE},
    {"routes[].task", ROUTE("task: header:A"), LIVE},
    {"routes[].probe", CONFIG("", "", PROBE("")), LIVE},
    {"routes[].probe.method", CONFIG("", "", PROBE(", method: HEAD")), LIVE},
    {"routes[].probe.path", CONFIG("", "", PROBE("")), LIVE},
    {"routes[].probe.happened", CONFIG("", "", PROBE(", happened: [201]")), LIVE},
    {"routes[].probe.not_happened", CONFIG("", "", PROBE(", not_happened: [410]")), LIVE},
    {"routes[].probe.settle", CONFIG("", "", PROBE(", settle: 90s")), LIVE},
};

static struct conf *load(const char *name, const char *text)
{
    struct conf *conf;
    char *messages = conf_run(text, strlen(text), NULL, &conf); /* warnings are another test's */
    cr_assert_not_null(conf, "%s: %s", name, messages);
    free(messages);
    return conf;
}

Test(conf_reload, each_setting_is_taken_or_named_with_both_values)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct row *row = &rows[i];
        struct conf *running = load(row->setting, row->before ? row->before : CONFIG("", "", ""));
        struct conf *wanted = load(row->setting, row->text);
        struct conf_difference found[3];
        size_t count = conf_fixed_differences(running, wanted, found, COUNT(found));
        cr_expect_eq(count, row->running ? 1 : 0, "%s: %zu differences", row->setting, count);
        if (count == 1 && row->running) {
            size_t len = strlen(found[0].name);
            cr_expect(strncmp(row->setting, found[0].name, len) == 0, "%s: named %s", row->setting, found[0].name);
            cr_expect_str_eq(found[0].running, row->running, "%s: running", row->setting);
            cr_expect_str_eq(found[0].wanted, row->wanted, "%s: wanted", row->setting);
        }
        cr_expect_eq(conf_fixed_differences(wanted, wanted, found, COUNT(found)), 0, "%s: nothing changed",
                     row->setting);
        conf_unref(running);
        conf_unref(wanted);
    }
}

/* Mappings that only hold others need no row. */
static void expect_rows(const struct section *section)
{
    for (size_t i = 0; i < section->count; i++) {
        const struct setting *setting = &section->settings[i];
        bool found = setting->type == SETTING_SECTION;
        for (size_t j = 0; j < COUNT(rows) && !found; j++)
            found = strcmp(rows[j].setting, setting->name) == 0;
        cr_expect(found, "%s has no row here: can it change while running?", setting->name);
        if (setting->section)
            expect_rows(setting->section);
    }
}

Test(conf_reload, every_setting_of_the_schema_has_a_row)
{
    expect_rows(&root_section);
}

Test(conf_reload, long_values_are_cut)
{
    char text[400];
    struct conf_difference found[1];
    struct conf *running = load("short", CONFIG("", "", ""));
    snprintf(text, sizeof text, "store: {path: /%0150d}\n%s", 7, CONFIG("", "", ""));
    struct conf *wanted = load("long", text);
    cr_assert_eq(conf_fixed_differences(running, wanted, found, 1), 1);
    cr_expect_eq(strlen(found[0].wanted), sizeof found[0].wanted - 1);
    cr_expect(strncmp(found[0].wanted, "/00000", 6) == 0);
    cr_expect_str_eq(found[0].wanted + sizeof found[0].wanted - 6, "00...");
    conf_unref(running);
    conf_unref(wanted);
}

Test(conf_reload, the_files_that_are_read)
{
    static const char text[] =
        "listen: [{address: \"a:1\"}, {address: \"a:2\", tls: {certificate: lc, key: lk, client_ca: la}}]\n"
        "upstreams:\n  x: {url: \"https://x\", tls: {ca: ua, certificate: uc, key: uk}}\n  y: {url: \"http://y\"}\n"
        "default_upstream: y\nroutes: [{name: r}]\n";
    static const char *const expected[] = {"f.yaml", "lc", "lk", "la", "uc", "uk", "ua"};
    struct conf *conf = load("files", text);
    size_t count;
    const char **paths = conf_files(conf, &count);
    cr_assert_eq(count, COUNT(expected));
    for (size_t i = 0; i < count; i++)
        cr_expect_str_eq(paths[i], expected[i]);
    free(paths);
    conf_unref(conf);
}
