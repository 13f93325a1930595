/*
 * Presets: each is there, says what contract §6 says of all of them and its sender's own key; a route may override any
 * part of one; a misspelt one is told with the nearest.
 */
#include "conf/presets.h"
#include "tests/unit/conf_run.h"

#include <criterion/criterion.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define ADYEN        "json:/notificationItems/0/NotificationRequestItem/"

static struct conf *load(const char *name, const char *text)
{
    struct conf *conf;
    char *messages = conf_run(text, strlen(text), NULL, &conf);
    cr_assert_str_eq(messages, "", "%s: %s", name, messages);
    free(messages);
    return conf;
}

/* The route of these lines, and how `check` prints it. */
static struct conf *load_route(const char *settings, char **printed)
{
    char text[600];
    snprintf(text, sizeof text, CONF_ROUTE "%s", settings);
    struct conf *conf = load(settings, text);
    *printed = conf_printed(conf);
    return conf;
}

static const struct {
    const char *name, *key, *methods;
} senders[] = {
    {"adyen",
     "derived from [host, path, " ADYEN "merchantAccountCode, " ADYEN "eventCode, " ADYEN "pspReference, " ADYEN
     "success]\n",
     "POST PATCH\n"},
    {"cloudevents",
     "derived from [host, path, header:ce-source, header:ce-id], else derived from [host, path, json:/source, "
     "json:/id]\n",
     "POST PATCH\n"},
    {"github", "derived from [host, path, header:x-github-hook-id, header:x-github-delivery]\n", "POST PATCH\n"},
    {"mailgun", "derived from [host, path, json:/event-data/id]\n", "POST PATCH\n"},
    {"paypal", "derived from [host, path, json:/id]\n", "POST PATCH\n"},
    {"shopify",
     "derived from [host, path, header:x-shopify-topic, header:x-shopify-webhook-id], else derived from [host, path, "
     "header:shopify-webhook-id]\n",
     "POST PATCH\n"},
    {"slack",
     "derived from [host, path, json:/team_id, json:/event_id], else derived from [host, path, json:/event_id]\n",
     "POST PATCH\n"},
    {"square", "derived from [host, path, json:/event_id]\n", "POST PATCH\n"},
    {"standard-webhooks", "derived from [host, path, header:webhook-id]\n", "POST PATCH\n"},
    {"stripe", "derived from [host, path, json:/id]\n", "POST PATCH\n"},
    {"svix", "derived from [host, path, header:svix-id], else derived from [host, path, header:webhook-id]\n",
     "POST PATCH\n"},
    {"twilio", "derived from [host, path, header:i-twilio-idempotency-token]\n", "POST PATCH\n"},
    {"zendesk", "derived from [host, path, header:x-zendesk-webhook-invocation-id]\n", "GET POST PUT PATCH DELETE\n"},
};

static void expect_line(const char *preset, const char *printed, const char *setting, const char *value)
{
    char line[600];
    snprintf(line, sizeof line, "    %-26s %s", setting, value);
    cr_expect_not_null(strstr(printed, line), "%s: '%s' is no line of\n%s", preset, line, printed);
}

Test(conf_presets, those_of_the_contract_and_no_others)
{
    cr_assert_eq(preset_count, COUNT(senders));
    for (size_t i = 0; i < preset_count; i++)
        cr_expect_str_eq(presets[i].name, senders[i].name);
}

Test(conf_presets, check_prints_what_each_stands_for)
{
    for (size_t i = 0; i < COUNT(senders); i++) {
        char settings[100], preset[60], *printed;
        snprintf(settings, sizeof settings, "    preset: %s\n", senders[i].name);
        snprintf(preset, sizeof preset, "%s\n", senders[i].name);
        struct conf *conf = load_route(settings, &printed);
        const struct {
            const char *setting, *value;
        } lines[] = {
            {"preset", preset},
            {"match.methods", senders[i].methods},
            {"key", senders[i].key},
            {"required", "false\n"},
            {"scope", "[]\n"},
            {"on_other_identity", "separate\n"},
            {"fingerprint", "none\n"},
            {"on_unknown", "report\n"},
            {"statuses", "completed 200-299\n"},
            {"", "release   300-599\n"},
            {"", "unknown   none\n"},
            {"retention", "7d\n"},
            {"wait_timeout", "30s\n"},
        };
        for (size_t j = 0; j < COUNT(lines); j++)
            expect_line(senders[i].name, printed, lines[j].setting, lines[j].value);
        free(printed);
        conf_unref(conf);
    }
}

Test(conf_presets, a_route_overrides_any_part_and_keeps_the_rest)
{
    static const struct {
        const char *settings, *setting, *value;
    } rows[] = {
        {"    retention: 1d\n", "retention", "1d\n"},
        {"    retention: 1d\n", "statuses", "completed 200-299\n"},
        {"    required: true\n", "required", "true\n"},
        {"    key: [{header: X-Id}]\n", "key", "header X-Id\n"},
        {"    key: [{header: X-Id}]\n", "fingerprint", "none\n"},
        {"    fingerprint: json\n", "fingerprint", "json\n"},
        {"    scope: [header:X-Account]\n", "scope", "[header:x-account]\n"},
        {"    scope: [header:X-Account]\n", "key", "derived from [host, path, json:/id]\n"},
        {"    scope: auto\n", "on_other_identity", "reject\n"},
        {"    on_unknown: retry\n", "on_unknown", "retry\n"},
        {"    match: {path: /a}\n", "match.path", "/a\n"},
        {"    match: {methods: [PUT]}\n", "match.methods", "PUT\n"},
        {"    replay_headers: {drop: []}\n", "replay_headers.drop", "[]\n"},
        {"    statuses: {unknown: [504]}\n", "statuses", "completed 200-299\n"},
        {"    statuses: {unknown: [504]}\n", "", "release   300-503 505-599\n"},
        {"    statuses: {unknown: [504]}\n", "", "unknown   504\n"},
        {"    statuses: {other: unknown}\n", "", "unknown   300-599\n"},
        {"    statuses: {completed: [2xx, 410]}\n", "statuses", "completed 200-299 410\n"},
        {"    statuses: {completed: []}\n", "statuses", "completed none\n"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char settings[200], *printed;
        for (int last = 0; last < 2; last++) { /* wherever it stands */
            snprintf(settings, sizeof settings, "%s%s%s", last ? "" : "    preset: stripe\n", rows[i].settings,
                     last ? "    preset: stripe\n" : "");
            struct conf *conf = load_route(settings, &printed);
            expect_line(settings, printed, rows[i].setting, rows[i].value);
            free(printed);
            conf_unref(conf);
        }
    }
}

Test(conf_presets, inside_of_the_sections_that_a_preset_has)
{
    char *printed;
    struct conf *conf = load_route("    preset: zendesk\n    match: {path: /hooks/zendesk}\n", &printed);
    expect_line("zendesk", printed, "match.path", "/hooks/zendesk\n");
    expect_line("zendesk", printed, "match.methods", "GET POST PUT PATCH DELETE\n");
    free(printed);
    conf_unref(conf);
}

Test(conf_presets, each_route_has_its_own)
{
    struct conf *conf = load("three routes", CONF_ROUTE
                             "    match: {path: /a}\n    preset: stripe\n  - name: s\n    match: {path: /b}\n"
                             "  - name: t\n    match: {path: /c}\n    preset: github\n");
    cr_expect_str_eq(conf->routes[0].preset, "stripe");
    cr_expect_null(conf->routes[1].preset);
    cr_expect_str_eq(conf->routes[1].keys[0].header, "Idempotency-Key", "nothing of the one before");
    cr_expect_eq(conf->routes[1].retention, 24 * 3600 * 1000);
    cr_expect_str_eq(conf->routes[2].keys[0].derive.items[2].argument, "x-github-hook-id");
    conf_unref(conf);
}

/* What identifies actions is the rule, not where it was written: a preset may be spelt out without losing records. */
Test(conf_presets, the_digest_is_that_of_the_same_rule_written_out)
{
    char *printed, *other;
    struct conf *named = load_route("    preset: slack\n", &printed);
    char text[] = CONF_ROUTE "    key:\n      - derive: [host, path, \"json:/team_id\", \"json:/event_id\"]\n"
                             "      - derive: [host, path, \"json:/event_id\"]\n    scope: []\n";
    struct conf *written;
    other = conf_run(text, strlen(text), NULL, &written);
    cr_assert_not_null(written, "%s", other);
    cr_expect_arr_eq(named->routes[0].digest, written->routes[0].digest, 32);
    free(printed), free(other);
    conf_unref(named);
    conf_unref(written);
}

Test(conf_presets, messages)
{
    static const struct {
        const char *settings, *message; /* "": none */
    } rows[] = {
        {"    preset: strip\n", "f.yaml:5:13: error: routes[0].preset: no preset is named 'strip' (did you mean "
                                "'stripe'?)\n"},
        {"    preset: standard_webhooks\n",
         "f.yaml:5:13: error: routes[0].preset: no preset is named 'standard_webhooks' (did you mean "
         "'standard-webhooks'?)\n"},
        {"    preset: common\n", "f.yaml:5:13: error: routes[0].preset: no preset is named 'common'\n"},
        {"    preset: Stripe\n", "f.yaml:5:13: error: routes[0].preset: no preset is named 'Stripe' (did you mean "
                                 "'stripe'?)\n"},
        {"    preset: \"\"\n", "f.yaml:5:13: error: routes[0].preset: no preset is named ''\n"},
        {"    preset:\n", "f.yaml:5:12: error: routes[0].preset: has no value: expected the name of a preset\n"},
        {"    preset: [stripe]\n", "f.yaml:5:13: error: routes[0].preset: expected the name of a preset, not a list\n"},
        {"    preset: stripe\n    retenton: 1d\n",
         "f.yaml:6:5: error: unknown key 'retenton' in routes[0] (did you mean 'retention'?)\n"},
        {"    preset: stripe\n    statuses: {release: [2xx]}\n",
         "f.yaml:6:26: error: routes[0].statuses: 2xx is in 'completed' as well (which is left as the preset has it): "
         "it may be in one list only\n"},
        {"    preset: stripe\n    on_mismatch: new\n",
         "f.yaml:6:18: error: routes[0]: on_mismatch: 'new' needs a fingerprint, but fingerprint is none\n"},
        {"    preset: ${NO_SUCH:-github}\n", ""},
        {"    preset: stripe\n    key: [{derive: [\"json:/id\"]}]\n",
         "f.yaml:4:5: warning: routes[0].scope: names no caller, and a key is derived: whoever sends the same fields "
         "gets another's answer\n"},
        {"    preset: stripe\n    scope: []\n",
         "f.yaml:6:12: warning: routes[0].scope: names no caller, and a key is derived: whoever sends the same fields "
         "gets another's answer\n"},
        {"    preset: stripe\n    key: [{derive: [header:Stripe-Signature]}]\n    scope: [header:A]\n",
         "f.yaml:6:21: warning: routes[0].key[0].derive[0]: 'header:Stripe-Signature' looks like a signature, which "
         "changes with every attempt: repetitions would have another key\n"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[400];
        struct conf *conf;
        snprintf(text, sizeof text, CONF_ROUTE "%s", rows[i].settings);
        char *messages = conf_run(text, strlen(text), NULL, &conf);
        cr_expect_str_eq(messages, rows[i].message, "%s: %s", rows[i].settings, messages);
        free(messages);
        conf_unref(conf);
    }
}
