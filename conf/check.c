/*
 * check.c - what the settings of a route mean for one another: errors where nothing sensible can be meant, warnings
 * (contract §3, "check warns") where a rule cannot work as meant.
 *
 * Both point at the setting that is to be changed, as far as it is written in the file.
 */
#include "conf/check.h"

#include "conf/component.h"
#include "conf/own.h"
#include "conf/pattern.h"
#include "conf/suspect.h"
#include "proxy/span.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The value of a setting, or the whole mapping where it is left at its default. */
static const yaml_node_t *node_of(const struct reader *reader, const yaml_node_t *mapping, const char *name)
{
    const yaml_node_t *node = document_member(reader->document, mapping, name, NULL);
    return node ? node : mapping;
}

static struct place place_of(const struct reader *reader, const yaml_node_t *mapping, const char *name)
{
    return reader_place(reader, node_of(reader, mapping, name));
}

/* ---- what changes with every attempt ---------------------------------------------------------- */

/* Component lists that were read without an error have an item for each node; those of a preset or default have none.
 */
static void warn_suspicious(struct reader *reader, const yaml_node_t *node, const struct component_list *list,
                            const char *path, const char *consequence)
{
    if (!node || node->type != YAML_SEQUENCE_NODE || reader_count(node) != list->count)
        return;
    for (size_t i = 0; i < list->count; i++) {
        const yaml_node_t *item = reader_item(reader, node, i);
        const char *what = suspect_component(&list->items[i]);
        if (what)
            reader_warn_at(reader, reader_place(reader, item),
                           "%s.%s[%zu]: '%s' looks like %s, which changes with every attempt: %s", reader->path, path,
                           i, (const char *)item->data.scalar.value, what, consequence);
    }
}

static void check_suspicious(struct reader *reader, const yaml_node_t *node, const struct conf_route *route)
{
    const yaml_node_t *keys = document_member(reader->document, node, "key", NULL);
    bool written = keys && keys->type == YAML_SEQUENCE_NODE && reader_count(keys) == route->key_count;
    for (size_t i = 0; written && i < route->key_count; i++) {
        char path[40];
        const yaml_node_t *item = reader_item(reader, keys, i);
        snprintf(path, sizeof path, "key[%zu].derive", i);
        if (item->type == YAML_MAPPING_NODE)
            warn_suspicious(reader, document_member(reader->document, item, "derive", NULL), &route->keys[i].derive,
                            path, "repetitions would have another key");
    }
    warn_suspicious(reader, document_member(reader->document, node, "scope", NULL), &route->scope, "scope",
                    "repetitions would come from somebody else");
    warn_suspicious(reader, document_member(reader->document, node, "fingerprint", NULL), &route->fingerprint,
                    "fingerprint", "repetitions would have other content");
}

/* ---- identity --------------------------------------------------------------------------------- */

static bool tells_identity(const struct component *component)
{
    switch (component->kind) {
    case COMPONENT_QUERY_NAME:
    case COMPONENT_PATH_NAME:
    case COMPONENT_HEADER:
    case COMPONENT_COOKIE:
    case COMPONENT_FORM:
    case COMPONENT_JSON:
    case COMPONENT_TLS_SUBJECT:
    case COMPONENT_TLS_FINGERPRINT:
        return true;
    case COMPONENT_METHOD:
    case COMPONENT_HOST:
    case COMPONENT_PATH:
    case COMPONENT_QUERY:
    case COMPONENT_BODY:
    case COMPONENT_LITERAL:
        break;
    }
    return false;
}

static bool scope_tells_identity(const struct conf_route *route)
{
    if (route->scope_kind == SCOPE_AUTO)
        return true;
    for (size_t i = 0; i < route->scope.count; i++)
        if (tells_identity(&route->scope.items[i]))
            return true;
    return false;
}

static void check_keys(struct reader *reader, const yaml_node_t *node, struct conf_route *route)
{
    const yaml_node_t *keys = document_member(reader->document, node, "key", NULL);
    bool derives = false;
    for (size_t i = 0; i < route->key_count; i++) {
        const struct conf_key *key = &route->keys[i];
        for (size_t j = 0; j < key->derive.count; j++)
            route->key_needs_body |= component_needs_body(&key->derive.items[j]);
        derives |= key->derived;
    }
    bool as_the_preset_has_it = route->preset && !keys && !document_member(reader->document, node, "scope", NULL);
    if (derives && !scope_tells_identity(route) && !as_the_preset_has_it)
        reader_warn_at(reader, place_of(reader, node, "scope"),
                       "%s.scope: names no caller, and a key is derived: whoever sends the same fields gets another's "
                       "answer",
                       reader->path);
}

/* ---- what fits together ----------------------------------------------------------------------- */

static void check_fingerprint(struct reader *reader, const yaml_node_t *node, const struct conf_route *route)
{
    size_t derived = 0;
    for (size_t i = 0; i < route->key_count; i++)
        derived += route->keys[i].derived;
    bool all_derived = route->key_count && derived == route->key_count;
    bool none = route->fingerprint_kind == FINGERPRINT_NONE;
    bool none_by_default = route->fingerprint_kind == FINGERPRINT_DEFAULT && all_derived;
    const yaml_node_t *mismatch = node_of(reader, node, "on_mismatch");
    if (route->mismatch_is_new && (none || none_by_default))
        reader_error(reader, mismatch, "on_mismatch: 'new' needs a fingerprint, but fingerprint is none%s",
                     none ? "" : " (the default for derived keys)");
    if (route->ignore[0] && route->fingerprint_kind != FINGERPRINT_JSON)
        reader_error(reader, node_of(reader, node, "ignore"), "ignore: only with fingerprint: json");
}

static void check_durations(struct reader *reader, const yaml_node_t *node, const struct conf_route *route)
{
    if (!route->concurrent_waits)
        return;
    struct {
        const char *name;
        int64_t value;
    } rows[] = {{"retention", route->retention}, {"unknown_retention", route->unknown_retention}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (rows[i].value >= route->wait_timeout)
            continue;
        const char *written =
            document_member(reader->document, node, rows[i].name, NULL) ? rows[i].name : "wait_timeout";
        reader_warn_at(reader, place_of(reader, node, written),
                       "%s.%s: %s is shorter than wait_timeout: a record may be gone while others still wait for it",
                       reader->path, written, rows[i].name);
    }
}

static void check_memory(struct reader *reader, const yaml_node_t *node, const struct conf_route *route)
{
    if (route->max_request_body > reader->conf->limits.buffer_memory)
        reader_warn_at(reader, place_of(reader, node, "max_request_body"),
                       "%s.max_request_body: larger than limits.buffer_memory: such a body never finds room",
                       reader->path);
}

void check_route(struct reader *reader, const yaml_node_t *node, struct conf_route *route)
{
    struct conf *conf = reader->conf;
    bool says_upstream = document_member(reader->document, node, "upstream", NULL);
    if (!*route->scope_name)
        route->scope_name = route->name;
    if (!route->upstream)
        route->upstream = conf->default_upstream;
    if (!route->upstream && !says_upstream && conf->upstream_count)
        reader_error(reader, node, "upstream: missing, and there is no default_upstream");
    check_keys(reader, node, route);
    check_suspicious(reader, node, route);
    check_fingerprint(reader, node, route);
    check_probe(reader, node, route);
    if (reader->report->errors > 0)
        return; /* the rest asks for values that may be missing */
    check_durations(reader, node, route);
    check_memory(reader, node, route);
    route_digest(route, route->digest);
}

/* ---- routes among each other ------------------------------------------------------------------ */

/* The first of the earlier routes that takes all requests of this method that the route could get; NULL: none does. */
static const struct conf_route *taken_by(const struct conf_route *route, const char *method,
                                         const struct conf_route *earlier, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (pattern_has_method(&earlier[i].match, method) && pattern_covers(&earlier[i].match, &route->match))
            return &earlier[i];
    return NULL;
}

/* By one route, or by several that have its methods together. */
static void check_hidden(struct reader *reader, const yaml_node_t *node, const struct conf_route *route,
                         const struct conf_route *earlier, size_t count)
{
    char several[200] = "";
    size_t len = 0;
    const struct conf_route *first = NULL;
    bool by_one = true;
    for (char *const *method = route->match.methods; *method; method++) {
        const struct conf_route *taker = taken_by(route, *method, earlier, count);
        if (!taker)
            return;
        by_one &= !first || taker == first;
        first = first ? first : taker;
        if (len < sizeof several)
            len += (size_t)snprintf(several + len, sizeof several - len, "%s'%s' on line %d (%s)", len ? ", " : "",
                                    taker->name, taker->line, *method);
    }
    if (first && by_one)
        reader_warn_at(reader, place_of(reader, node, "match"),
                       "%s: never applies: route '%s' on line %d comes first and matches all that it does",
                       reader->path, first->name, first->line);
    else if (first)
        reader_warn_at(reader, place_of(reader, node, "match"),
                       "%s: never applies: earlier routes match all that it does: %s", reader->path, several);
}

/* The store keeps one digest per scope name: of two that differ, each start would take one for a change. */
static void check_shared_scope(struct reader *reader, const yaml_node_t *node, const struct conf_route *route,
                               const struct conf_route *earlier, size_t count)
{
    const char *setting = document_member(reader->document, node, "scope_name", NULL) ? "scope_name" : "name";
    for (size_t i = 0; i < count; i++) {
        if (strcmp(earlier[i].scope_name, route->scope_name) != 0 ||
            memcmp(earlier[i].digest, route->digest, sizeof route->digest) == 0)
            continue;
        reader_warn_at(reader, place_of(reader, node, setting),
                       "%s.%s: shared with route '%s' on line %d, but scope, key, on_mismatch, fingerprint or ignore "
                       "differ",
                       reader->path, setting, earlier[i].name, earlier[i].line);
        return;
    }
}

void check_against_earlier(struct reader *reader, const yaml_node_t *node, const struct conf_route *route,
                           const struct conf_route *earlier, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!*route->name || strcmp(earlier[i].name, route->name) != 0)
            continue;
        reader_error(reader, node_of(reader, node, "name"), "name: '%s' is taken (first on line %d)", route->name,
                     earlier[i].line);
        break;
    }
    if (!reader->path_is_wrong)
        check_hidden(reader, node, route, earlier, count);
    if (reader->report->errors == 0)
        check_shared_scope(reader, node, route, earlier, count);
}
