/*
 * key_fixture.h - requests and rules written down in a line each, for the tests of keys.
 */
#pragma once

#include <criterion/criterion.h>

#include "proxy/key.h"

#define FIXTURE_MAX 8

/* A request. Everything has a default; `query` NULL is none, "" is a lone "?". */
struct asked {
    const char *method, *host, *path, *query;
    struct span body;
    const char *headers[FIXTURE_MAX]; /* "Name: value" */
    const char *order;                /* what {order} matched; NULL: nothing */
    const char *fingerprint;          /* of the client certificate */
    bool body_missing;                /* not read yet */
};

/* A rule. Components as in the configuration: "json:/id". The header alternatives come before the derived one unless
 * derive_first. */
struct rule {
    const char *headers[3];
    const char *derive[FIXTURE_MAX];
    const char *derive_else[FIXTURE_MAX];
    bool derive_first;
    bool scope_list;
    const char *scope[FIXTURE_MAX];
    enum conf_fingerprint_kind fingerprint; /* nothing said: the default, unless `unbound` says none */
    bool unbound;
    const char *bound[FIXTURE_MAX];
    char *ignore[FIXTURE_MAX];
    bool mismatch_is_new;
    const char *task, *scope_name;
};

static inline struct component fixture_component(const char *text)
{
    static const struct {
        const char *name;
        enum component_kind kind;
    } rows[] = {
        {"method", COMPONENT_METHOD},
        {"host", COMPONENT_HOST},
        {"path:", COMPONENT_PATH_NAME},
        {"path", COMPONENT_PATH},
        {"query:", COMPONENT_QUERY_NAME},
        {"query", COMPONENT_QUERY},
        {"body", COMPONENT_BODY},
        {"header:", COMPONENT_HEADER},
        {"cookie:", COMPONENT_COOKIE},
        {"form:", COMPONENT_FORM},
        {"json:", COMPONENT_JSON},
        {"tls:subject", COMPONENT_TLS_SUBJECT},
        {"tls:fingerprint", COMPONENT_TLS_FINGERPRINT},
        {"literal:", COMPONENT_LITERAL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t len = strlen(rows[i].name);
        if (strncmp(text, rows[i].name, len) == 0)
            return (struct component){rows[i].kind, copy_string(text + len)};
    }
    cr_assert_fail("no component: %s", text);
    return (struct component){0};
}

static inline struct component_list fixture_list(const char *const texts[FIXTURE_MAX])
{
    struct component_list list = {NEW_ARRAY(struct component, FIXTURE_MAX), 0};
    for (; list.count < FIXTURE_MAX && texts[list.count]; list.count++)
        list.items[list.count] = fixture_component(texts[list.count]);
    return list;
}

static inline void fixture_list_free(struct component_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].argument);
    free(list->items);
}

static inline void fixture_derive(struct conf_route *route, const char *const texts[FIXTURE_MAX])
{
    if (!texts[0])
        return;
    struct conf_key *key = &route->keys[route->key_count++];
    key->derived = true;
    key->derive = fixture_list(texts);
}

static inline struct conf_route fixture_route(const struct rule *rule)
{
    struct conf_route route = {.scope_name = copy_string(rule->scope_name ? rule->scope_name : "orders")};
    route.keys = NEW_ARRAY(struct conf_key, 5);
    if (rule->derive_first)
        fixture_derive(&route, rule->derive);
    for (size_t i = 0; i < 3 && rule->headers[i]; i++)
        route.keys[route.key_count++].header = copy_string(rule->headers[i]);
    if (!rule->derive_first)
        fixture_derive(&route, rule->derive);
    fixture_derive(&route, rule->derive_else);
    route.scope_kind = rule->scope_list ? SCOPE_COMPONENTS : SCOPE_AUTO;
    route.scope = fixture_list(rule->scope);
    route.fingerprint_kind = rule->fingerprint;
    if (rule->fingerprint == FINGERPRINT_NONE && !rule->unbound)
        route.fingerprint_kind = FINGERPRINT_DEFAULT;
    route.fingerprint = fixture_list(rule->bound);
    route.ignore = (char **)(uintptr_t)rule->ignore;
    route.mismatch_is_new = rule->mismatch_is_new;
    if (rule->task) {
        route.task = NEW(struct component);
        *route.task = fixture_component(rule->task);
    }
    return route;
}

static inline void fixture_route_free(struct conf_route *route)
{
    for (size_t i = 0; i < route->key_count; i++) {
        free(route->keys[i].header);
        fixture_list_free(&route->keys[i].derive);
    }
    free(route->keys);
    fixture_list_free(&route->scope);
    fixture_list_free(&route->fingerprint);
    if (route->task)
        free(route->task->argument);
    free(route->task);
    free(route->scope_name);
}

struct fixture_request {
    struct http_field fields[FIXTURE_MAX];
    struct http_message message;
    struct route_values values;
    struct key_request request;
};

static inline void fixture_request(struct fixture_request *out, const struct asked *asked)
{
    *out = (struct fixture_request){0};
    size_t count = 0;
    for (; count < FIXTURE_MAX && asked->headers[count]; count++) {
        const char *line = asked->headers[count], *colon = strchr(line, ':');
        cr_assert_not_null(colon, "no header line: %s", line);
        out->fields[count].name = (struct span){line, (size_t)(colon - line)};
        out->fields[count].value = span_trim(span_of(colon + 1));
    }
    out->message = (struct http_message){
        .method = span_of(asked->method ? asked->method : "POST"),
        .query = asked->query ? span_of(asked->query) : (struct span){0},
        .has_query = asked->query != NULL,
        .fields = out->fields,
        .field_count = count,
    };
    if (asked->order) {
        out->values.items[0].name = "order";
        out->values.items[0].value = span_of(asked->order);
        out->values.count = 1;
    }
    out->request = (struct key_request){
        .message = &out->message,
        .host = span_of(asked->host ? asked->host : "shop.example"),
        .path = span_of(asked->path ? asked->path : "/orders"),
        .values = &out->values,
        .body = asked->body_missing ? (struct span){0} : asked->body,
        .body_complete = !asked->body_missing,
        .tls_fingerprint = asked->fingerprint ? span_of(asked->fingerprint) : (struct span){0},
    };
}

struct named { /* what came of it */
    enum key_answer expected, answer;
    const char *why;
    struct key_identity identity;
};

static inline struct named fixture_name(const struct rule *rule, const struct asked *asked)
{
    struct named named = {0};
    struct fixture_request request;
    struct conf_route route = fixture_route(rule);
    fixture_request(&request, asked);
    named.expected = key_expected(&route, &request.request, &named.why);
    named.answer = key_identify(&route, &request.request, &named.identity, &named.why);
    fixture_route_free(&route);
    return named;
}
