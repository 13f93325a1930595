/*
 * read_identity.c - components, and the settings of a route that are made of them: what names an action and what it is
 * bound to.
 */
#include "conf/component.h"
#include "conf/own.h"
#include "conf/pattern.h"
#include "proxy/span.h"

bool read_component(struct reader *reader, const yaml_node_t *node, struct component *component)
{
    struct scalar scalar;
    char room[300];
    if (!reader_scalar(reader, node, "a component such as header:X-Id", &scalar))
        return false;
    const char *wrong = component_parse(reader->conf, scalar.text, component, room, sizeof room);
    if (wrong) {
        reader_error(reader, node, "%s", wrong);
        return false;
    }
    return check_path_name(reader, node, component);
}

bool check_path_name(struct reader *reader, const yaml_node_t *node, const struct component *component)
{
    const struct conf_match *match = &reader->route->match;
    if (component->kind != COMPONENT_PATH_NAME || reader->path_is_wrong || pattern_has_name(match, component->argument))
        return true;
    reader_error(reader, node, "match.path has no {%s}", component->argument);
    return false;
}

bool read_components(struct reader *reader, const yaml_node_t *node, const char *expected, struct component_list *list)
{
    if (!reader_sequence(reader, node, expected))
        return false;
    size_t count = reader_count(node);
    list->items = CONF_NEW_ARRAY(reader->conf, struct component, count);
    for (size_t i = 0; i < count; i++) {
        size_t before = reader_enter_item(reader, i);
        if (read_component(reader, reader_item(reader, node, i), &list->items[list->count]))
            list->count++;
        reader_leave(reader, before);
    }
    return list->count == count;
}

/* A single word, or a list of components: which of the two is written? */
static bool is_list(const yaml_node_t *node)
{
    return node->type == YAML_SEQUENCE_NODE;
}

/* ---- scope ------------------------------------------------------------------------------------ */

void read_scope(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    static const struct choice choices[] = {{"auto", SCOPE_AUTO}, {NULL, 0}};
    struct conf_route *route = target;
    int value = SCOPE_AUTO;
    (void)setting;
    if (is_list(node)) {
        value = SCOPE_COMPONENTS;
        (void)read_components(reader, node, "a list of components", &route->scope);
    } else if (!reader_choice(reader, node, choices, " or a list of components", &value)) {
        return;
    }
    route->scope_kind = (enum conf_scope_kind)value;
    route->reject_other_identity = value == SCOPE_AUTO; /* unless on_other_identity says otherwise */
}

void print_scope(const void *target, FILE *out)
{
    const struct conf_route *route = target;
    switch (route->scope_kind) {
    case SCOPE_AUTO:
        fputs("auto (Authorization, else Cookie, else the client certificate, else anonymous)", out);
        break;
    case SCOPE_COMPONENTS:
        component_print_list(&route->scope, out);
        break;
    }
}

void write_scope(struct writer *writer, const struct setting *setting, const void *target)
{
    const struct conf_route *route = target;
    switch (route->scope_kind) {
    case SCOPE_AUTO:
        write_plain(writer, setting, "auto");
        break;
    case SCOPE_COMPONENTS:
        write_components(writer, setting, &route->scope);
        break;
    }
}

/* ---- fingerprint ------------------------------------------------------------------------------ */

void read_fingerprint(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    static const struct choice choices[] = {
        {"body", FINGERPRINT_BODY},
        {"json", FINGERPRINT_JSON},
        {"none", FINGERPRINT_NONE},
        {NULL, 0},
    };
    struct conf_route *route = target;
    int value = FINGERPRINT_COMPONENTS;
    (void)setting;
    if (is_list(node)) {
        (void)read_components(reader, node, "a list of components", &route->fingerprint);
        if (reader_count(node) == 0)
            reader_error(reader, node, "expected at least one component; to add nothing, write none");
    } else if (!reader_choice(reader, node, choices, " or a list of components", &value)) {
        return;
    }
    route->fingerprint_kind = (enum conf_fingerprint_kind)value;
}

void print_fingerprint(const void *target, FILE *out)
{
    const struct conf_route *route = target;
    switch (route->fingerprint_kind) {
    case FINGERPRINT_NONE:
        fputs("none", out);
        break;
    case FINGERPRINT_BODY:
        fputs("body", out);
        break;
    case FINGERPRINT_JSON:
        fputs("json", out);
        break;
    case FINGERPRINT_COMPONENTS:
        component_print_list(&route->fingerprint, out);
        break;
    case FINGERPRINT_DEFAULT:
        fputs("body for keys that were sent, none for derived ones", out);
        break;
    }
}

/* The default of a route with keys of both kinds is no value that could be written. */
void write_fingerprint(struct writer *writer, const struct setting *setting, const void *target)
{
    const struct conf_route *route = target;
    switch (route->fingerprint_kind) {
    case FINGERPRINT_NONE:
        write_plain(writer, setting, "none");
        break;
    case FINGERPRINT_BODY:
        write_plain(writer, setting, "body");
        break;
    case FINGERPRINT_JSON:
        write_plain(writer, setting, "json");
        break;
    case FINGERPRINT_COMPONENTS:
        write_components(writer, setting, &route->fingerprint);
        break;
    case FINGERPRINT_DEFAULT:
        write_absent(writer, setting);
        break;
    }
}

/* ---- task ------------------------------------------------------------------------------------- */

void read_task(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct component *component = CONF_NEW_ARRAY(reader->conf, struct component, 1);
    (void)setting;
    if (read_component(reader, node, component))
        *(struct component **)target = component;
}

void print_task(const void *target, FILE *out)
{
    const struct component *component = *(struct component *const *)target;
    if (component)
        component_print(component, out);
    else
        fputs("none", out);
}

void write_task(struct writer *writer, const struct setting *setting, const void *target)
{
    write_component(writer, setting, *(struct component *const *)target);
}
