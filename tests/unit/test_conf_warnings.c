/*
 * Rules that cannot work as meant are warned about, at their place, and sensible ones are not (contract §3, end).
 */
#include "tests/unit/conf_run.h"

#include <criterion/criterion.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define AT(place)    "f.yaml:" place ": warning: "

static char *warnings_of(const char *name, const char *text)
{
    struct conf *conf;
    char *messages = conf_run(text, strlen(text), NULL, &conf);
    cr_assert_not_null(conf, "%s: a warning is no error:\n%s", name, messages);
    conf_unref(conf);
    return messages;
}

Test(conf_warnings, each_kind)
{
    static const struct {
        const char *name, *text, *messages;
    } rows[] = {
        {"no routes", CONF_UPSTREAMS, AT("1:1") "no routes: every request passes unprotected\n"},
        {"key from a time", CONF_ROUTE "    key:\n      - header: K\n      - derive: [header:X-Id, header:Date]\n",
         AT("7:31") "routes[0].key[1].derive[1]: 'header:Date' looks like a time, which changes with every attempt: "
                    "repetitions would have another key\n"},
        {"key without identity", CONF_ROUTE "    key: [{derive: [header:X-Id]}]\n    scope: []\n",
         AT("6:12") "routes[0].scope: names no caller, and a key is derived: whoever sends the same fields gets "
                    "another's "
                    "answer\n"},
        {"identity of a constant", CONF_ROUTE "    key: [{derive: [header:X-Id]}]\n    scope: [host, literal:x]\n",
         AT("6:12") "routes[0].scope: names no caller, and a key is derived: whoever sends the same fields gets "
                    "another's "
                    "answer\n"},
        {"identity by a certificate", CONF_ROUTE "    key: [{derive: [header:X-Id]}]\n    scope: [tls:subject]\n", ""},
        {"no verification", "upstreams: {a: {url: \"https://a\", tls: {verify: false}}}\nroutes: [{name: r}]\n",
         AT("1:49") "upstreams.a.tls.verify: the certificate of this upstream is not verified: anybody in between can "
                    "read and change all\n"},
        {"verification", "upstreams: {a: {url: \"https://a\", tls: {verify: true}}}\nroutes: [{name: r}]\n", ""},
        {"sent keys may do without", CONF_ROUTE "    scope: []\n", ""},
        {"identity by a header", CONF_ROUTE "    key: [{derive: [header:X-Id]}]\n    scope: [host, header:X-User]\n",
         ""},
        {"retention", CONF_ROUTE "    retention: 29s\n",
         AT("5:16") "routes[0].retention: retention is shorter than wait_timeout: a record may be gone while others "
                    "still "
                    "wait for it\n"},
        {"unknown_retention", CONF_ROUTE "    unknown_retention: 29s\n",
         AT("5:24") "routes[0].unknown_retention: unknown_retention is shorter than wait_timeout: a record may be gone "
                    "while others still wait for it\n"},
        {"wait_timeout beyond the default", CONF_ROUTE "    wait_timeout: 24h\n    retention: 23h\n",
         AT("6:16") "routes[0].retention: retention is shorter than wait_timeout: a record may be gone while others "
                    "still "
                    "wait for it\n"},
        {"settle", CONF_ROUTE "    on_unknown: probe\n    probe: {path: \"/x/{key}\", settle: 59s}\n",
         AT("6:39") "routes[0].probe.settle: shorter than the upstream's response_timeout: an API that is still "
                    "working on the action would be believed that it has not happened, and it would execute again\n"},
        {"settle as long as that", CONF_ROUTE "    on_unknown: probe\n    probe: {path: \"/x/{key}\", settle: 60s}\n",
         ""},
        {"a refusal tells nothing",
         CONF_ROUTE "    on_unknown: probe\n    probe: {path: \"/x/{key}\", not_happened: [404, 403]}\n",
         AT("6:51") "routes[0].probe.not_happened: with 403 an API refuses to say or fails to look; it does not tell "
                    "what happened\n"},
        {"nor does a class with one",
         CONF_ROUTE "    on_unknown: probe\n    probe: {path: \"/x/{key}\", not_happened: [4xx]}\n",
         AT("6:46") "routes[0].probe.not_happened: with 401 an API refuses to say or fails to look; it does not tell "
                    "what happened\n"},
        {"nobody waits", CONF_ROUTE "    retention: 29s\n    on_concurrent: reject\n", ""},
        {"as long as the wait", CONF_ROUTE "    retention: 30s\n", ""},
        {"hidden", CONF_ROUTE "    match: {path: /a/**}\n  - name: s\n    match: {path: /a/b}\n",
         AT("7:12") "routes[1]: never applies: route 'r' on line 4 comes first and matches all that it does\n"},
        {"hidden by one that matches all", CONF_ROUTE "  - name: s\n",
         AT("5:5") "routes[1]: never applies: route 'r' on line 4 comes first and matches all that it does\n"},
        {"other methods", CONF_ROUTE "    match: {path: /a/**}\n  - name: s\n    match: {path: /a/b, methods: [PUT]}\n",
         ""},
        {"hidden by two, each with one of its methods",
         CONF_ROUTE "    match: {methods: [POST], path: /a/**}\n  - name: s\n    match: {methods: [PATCH, PUT]}\n"
                    "  - name: t\n    match: {path: /a/b}\n",
         AT("9:12") "routes[2]: never applies: earlier routes match all that it does: 'r' on line 4 (POST), 's' on "
                    "line "
                    "6 (PATCH)\n"},
        {"one method left",
         CONF_ROUTE "    match: {methods: [POST]}\n  - name: s\n    match: {methods: [PATCH]}\n"
                    "  - name: t\n    match: {methods: [POST, PATCH, PUT]}\n",
         ""},
        {"two that cover a part each, of the paths",
         CONF_ROUTE "    match: {path: /a/**}\n  - name: s\n    match: {path: /b/**}\n  - name: t\n", ""},
        {"another host", CONF_ROUTE "    match: {host: a}\n  - name: s\n    match: {host: b}\n", ""},
        {"hidden behind a wildcard host",
         CONF_ROUTE "    match: {host: \"*.a\"}\n  - name: s\n    match: {host: x.a}\n",
         AT("7:12") "routes[1]: never applies: route 'r' on line 4 comes first and matches all that it does\n"},
        {"a longer path", CONF_ROUTE "    match: {path: /a}\n  - name: s\n    match: {path: /a/}\n", ""},
        {"a name before a word", CONF_ROUTE "    match: {path: /a/b}\n  - name: s\n    match: {path: \"/a/{x}\"}\n",
         ""},
        {"a word behind a name", CONF_ROUTE "    match: {path: \"/a/{x}\"}\n  - name: s\n    match: {path: /a/b}\n",
         AT("7:12") "routes[1]: never applies: route 'r' on line 4 comes first and matches all that it does\n"},
        {"a scope of a time", CONF_ROUTE "    scope: [header:X-User, header:Date]\n",
         AT("5:28") "routes[0].scope[1]: 'header:Date' looks like a time, which changes with every attempt: "
                    "repetitions would come from somebody else\n"},
        {"a fingerprint of a time", CONF_ROUTE "    fingerprint: [\"json:/total\", \"json:/sent_at\"]\n",
         AT("5:34") "routes[0].fingerprint[1]: 'json:/sent_at' looks like a time, which changes with every attempt: "
                    "repetitions would have other content\n"},
        {"ignoring a time is what ignore is for", CONF_ROUTE "    fingerprint: json\n    ignore: [\"json:/sent_at\"]\n",
         ""},
        {"a task may be a time", CONF_ROUTE "    task: \"json:/created_at\"\n", ""},
        {"a key that clients send may be called so", CONF_ROUTE "    key: [{header: X-Request-Id}]\n", ""},
        {"in the right order", CONF_ROUTE "    match: {path: /a/b}\n  - name: s\n    match: {path: /a/**}\n", ""},
        {"bodies that never find room", "limits: {buffer_memory: 1MiB}\n" CONF_ROUTE,
         AT("5:5") "routes[0].max_request_body: larger than limits.buffer_memory: such a body never finds room\n"},
        {"shared scope name, other identification",
         CONF_ROUTE "    match: {path: /a}\n  - name: s\n    scope_name: r\n    scope: []\n    match: {path: /b}\n",
         AT("7:17") "routes[1].scope_name: shared with route 'r' on line 4, but scope, key, on_mismatch, fingerprint "
                    "or "
                    "ignore differ\n"},
        {"shared scope name, same identification",
         CONF_ROUTE "    match: {path: /a}\n  - name: s\n    scope_name: r\n    match: {path: /b}\n", ""},
        {"durability is a choice", "store: {durability: process}\n" CONF_ROUTE, ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *messages = warnings_of(rows[i].name, rows[i].text);
        cr_expect_str_eq(messages, rows[i].messages, "%s: messages are\n%s\nnot\n%s", rows[i].name, messages,
                         rows[i].messages);
        free(messages);
    }
}

Test(conf_warnings, keys_of_what_changes_with_every_attempt)
{
    static const struct {
        const char *component, *looks_like; /* NULL: is fine */
    } rows[] = {
        {"header:Date", "a time"},
        {"header:X-Timestamp", "a time"},
        {"header:X-Slack-Request-Timestamp", "a time"},
        {"json:/sent_at", "a time"},
        {"json:/event/sentAt", "a time"},
        {"json:/created-at", "a time"},
        {"json:/event_time", "a time"},
        {"json:/ts", "a time"},
        {"query:timestamp", "a time"},
        {"form:date", "a time"},
        {"header:X-Hub-Signature-256", "a signature"},
        {"header:Signature", "a signature"},
        {"json:/hmac", "a signature"},
        {"header:traceparent", "a trace or request id"},
        {"header:X-B3-TraceId", "a trace or request id"},
        {"header:X-Amzn-Trace-Id", "a trace or request id"},
        {"header:X-Request-Id", "a trace or request id"},
        {"json:/created", "a time"},
        {"json:/epoch", "a time"},
        {"json:/event_ts", "a time"},
        {"header:Last-Modified", "a time"},
        {"header:PayPal-Transmission-Sig", "a signature"},
        {"json:/signature/token", "a signature"},
        {"json:/event/signature/value/id", "a signature"},
        {"json:/nonce", "a nonce"},
        {"header:b3", "a trace or request id"},
        {"header:CF-Ray", "a trace or request id"},
        {"header:sentry-trace", "a trace or request id"},
        {"json:/requestId", "a trace or request id"},
        {"header:X-Amz-Request-Id", "a trace or request id"},
        {"header:X-Slack-Retry-Num", "a count of attempts"},
        {"header:square-retry-number", "a count of attempts"},
        {"json:/attemptNumber", "a count of attempts"},
        {"json:/delivery_attempt", "a count of attempts"},
        {"form:retries", "a count of attempts"},
        {"header:PayPal-Request-Id", NULL}, /* that one is an idempotency key */
        {"json:/pull_request_id", NULL},
        {"json:/signature_request/signature_request_id", NULL},
        {"json:/signatures/id", NULL},
        {"json:/recreated", NULL},
        {"json:/attempt_id", NULL},
        {"json:/lifetime", NULL},
        {"json:/mandate", NULL},
        {"json:/seat", NULL},
        {"json:/events", NULL},
        {"json:/announced", NULL},
        {"json:/retry", NULL},
        {"json:/message", NULL},
        {"cookie:session", NULL},
        {"path", NULL},
        {"body", NULL},
        {"header:X-GitHub-Delivery", NULL},
        {"json:/id", NULL},
        {"json:/data/object/id", NULL},
        {"json:/format", NULL},
        {"json:/chat", NULL},
        {"json:/timestamps/id", NULL}, /* the last name counts */
        {"json:/update_id", NULL},
        {"json:/candidate", NULL},
        {"literal:Date", NULL},
        {"header:webhook-id", NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[300], expected[300] = "";
        snprintf(text, sizeof text, CONF_ROUTE "    key: [{derive: [\"%s\"]}]\n", rows[i].component);
        if (rows[i].looks_like)
            snprintf(expected, sizeof expected,
                     AT("5:21") "routes[0].key[0].derive[0]: '%s' looks like %s, which changes with every attempt: "
                                "repetitions would have another key\n",
                     rows[i].component, rows[i].looks_like);
        char *messages = warnings_of(rows[i].component, text);
        cr_expect_str_eq(messages, expected, "%s: %s", rows[i].component, messages);
        free(messages);
    }
}
