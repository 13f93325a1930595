/*
 * read_route.c - routes: their match, upstream, keys and headers.
 */
#include "conf/check.h"
#include "conf/component.h"
#include "conf/own.h"
#include "conf/pattern.h"
#include "conf/presets.h"
#include "conf/scalar.h"
#include "conf/upstreams.h"
#include "proxy/http.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

void read_name(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct scalar scalar;
    (void)setting;
    if (!reader_scalar(reader, node, "a name", &scalar))
        return;
    if (!scalar_is_name(scalar.text))
        reader_error(reader, node,
                     "'%s': a name has 1 to 64 letters, digits, '.', '_' and '-', and begins with no '.' or '-'",
                     scalar.text);
    *(char **)target = conf_copy(reader->conf, scalar.text, strlen(scalar.text));
}

/* ---- match ------------------------------------------------------------------------------------ */

void read_match_host(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct scalar scalar;
    (void)setting;
    if (!reader_scalar(reader, node, "a host", &scalar))
        return;
    const char *wrong = pattern_parse_host(reader->conf, scalar.text, target);
    if (wrong)
        reader_error(reader, node, "'%s': %s", scalar.text, wrong);
}

void print_match_host(const void *target, FILE *out)
{
    const struct conf_match *match = target;
    fprintf(out, "%s%s", match->host_wildcard ? "*" : "", match->host ? match->host : "any");
}

void write_match_host(struct writer *writer, const struct setting *setting, const void *target)
{
    const struct conf_match *match = target;
    char text[256];
    snprintf(text, sizeof text, "%s%s", match->host_wildcard ? "*" : "", match->host ? match->host : "");
    write_text(writer, setting, match->host ? text : NULL);
}

void read_match_path(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct conf_match *match = target;
    struct scalar scalar;
    char room[120];
    (void)setting;
    if (!reader_scalar(reader, node, "a path", &scalar)) {
        reader->path_is_wrong = true;
        return;
    }
    const char *wrong = pattern_parse_path(reader->conf, scalar.text, match, room, sizeof room);
    if (!wrong)
        return;
    reader_error(reader, node, "'%s': %s", scalar.text, wrong);
    reader->path_is_wrong = true;
}

void print_match_path(const void *target, FILE *out)
{
    const struct conf_match *match = target;
    fputs(match->path_text ? match->path_text : "any", out);
}

void write_match_path(struct writer *writer, const struct setting *setting, const void *target)
{
    write_text(writer, setting, ((const struct conf_match *)target)->path_text);
}

static bool read_method(struct reader *reader, const yaml_node_t *node, char **method)
{
    static const char *const common[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"};
    struct scalar scalar;
    char suggestion[100];
    if (!reader_scalar(reader, node, "a method such as POST", &scalar))
        return false;
    if (http_method_known(span_of(scalar.text))) {
        *method = conf_copy(reader->conf, scalar.text, strlen(scalar.text));
        return true;
    }
    reader_suggest(suggestion, sizeof suggestion, scalar.text, common, COUNT(common));
    reader_error(reader, node, "'%s' is no method that is supported%s", scalar.text, suggestion);
    return false;
}

void read_match_methods(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    (void)setting;
    if (!reader_sequence(reader, node, "a list of methods"))
        return;
    if (reader_count(node) == 0)
        reader_error(reader, node, "expected at least one method");
    char **methods = CONF_NEW_ARRAY(reader->conf, char *, reader_count(node) + 1);
    size_t count = 0;
    for (size_t i = 0; i < reader_count(node); i++) {
        size_t before = reader_enter_item(reader, i);
        count += read_method(reader, reader_item(reader, node, i), &methods[count]);
        reader_leave(reader, before);
    }
    *(char ***)target = methods;
}

void print_match_methods(const void *target, FILE *out)
{
    const char *before = "";
    for (char *const *method = *(char **const *)target; *method; method++, before = " ")
        fprintf(out, "%s%s", before, *method);
}

void read_route_upstream(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    (void)setting;
    *(const struct conf_upstream **)target = upstream_named(reader, node);
}

void print_route_upstream(const void *target, FILE *out)
{
    const struct conf_upstream *upstream = *(const struct conf_upstream *const *)target;
    fprintf(out, "%s (%s)", upstream->name, upstream->url);
}

/* ---- headers ---------------------------------------------------------------------------------- */

/* Fields of framing and routing: they are the connection's, not the sender's (RFC 9110 §7.6.1). */
static bool is_connection_field(const char *name)
{
    static const char *const names[] = {"Connection",        "Content-Length",   "Expect", "Host",
                                        "Keep-Alive",        "Proxy-Connection", "TE",     "Trailer",
                                        "Transfer-Encoding", "Upgrade"};
    for (size_t i = 0; i < COUNT(names); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool read_header(struct reader *reader, const yaml_node_t *node, char **name)
{
    struct scalar scalar;
    if (!reader_scalar(reader, node, "the name of a header", &scalar))
        return false;
    if (!scalar_is_token(scalar.text))
        reader_error(reader, node, "'%s' is no name of a header", scalar.text);
    else if (is_connection_field(scalar.text))
        reader_error(reader, node, "'%s' belongs to the connection and cannot be used here", scalar.text);
    else
        return *name = conf_copy(reader->conf, scalar.text, strlen(scalar.text)), true;
    return false;
}

void read_header_name(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    (void)setting;
    (void)read_header(reader, node, target);
}

void read_header_names(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    (void)setting;
    if (!reader_sequence(reader, node, "a list of header names"))
        return;
    char **names = CONF_NEW_ARRAY(reader->conf, char *, reader_count(node) + 1);
    size_t count = 0;
    for (size_t i = 0; i < reader_count(node); i++) {
        size_t before = reader_enter_item(reader, i);
        count += read_header(reader, reader_item(reader, node, i), &names[count]);
        reader_leave(reader, before);
    }
    *(char ***)target = names;
}

void print_header_names(const void *target, FILE *out)
{
    const char *before = "";
    fputc('[', out);
    for (char *const *name = *(char **const *)target; *name; name++, before = ", ")
        fprintf(out, "%s%s", before, *name);
    fputc(']', out);
}

/* Methods and origins, too. */
void write_header_names(struct writer *writer, const struct setting *setting, const void *target)
{
    write_texts(writer, setting, *(char *const *const *)target);
}

/* An origin as browsers write it (RFC 6454 §6.2): compared byte by byte, so another spelling would never match. */
static const char *origin_wrong(const char *origin)
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyz0123456789+-._~%:[]";
    const char *host = strstr(origin, "://");
    size_t len = strlen(origin);
    if (strcmp(origin, "*") == 0)
        return "every origin cannot be listed: name those that are trusted";
    if (!host || host == origin || host[3] == '\0')
        return "an origin is scheme://host or scheme://host:port";
    if (strcspn(origin, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") < len)
        return "browsers write origins in lower case";
    if (strspn(host + 3, name) < strlen(host + 3) || strspn(origin, name) < (size_t)(host - origin))
        return "an origin has no path, not even '/'";
    if ((strncmp(origin, "http:", 5) == 0 && len > 3 && strcmp(origin + len - 3, ":80") == 0) ||
        (strncmp(origin, "https:", 6) == 0 && len > 4 && strcmp(origin + len - 4, ":443") == 0))
        return "browsers leave the scheme's own port away";
    return NULL;
}

void read_origins(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    (void)setting;
    if (!reader_sequence(reader, node, "a list of origins"))
        return;
    char **origins = CONF_NEW_ARRAY(reader->conf, char *, reader_count(node) + 1);
    size_t count = 0;
    for (size_t i = 0; i < reader_count(node); i++) {
        const yaml_node_t *item = reader_item(reader, node, i);
        struct scalar scalar;
        size_t before = reader_enter_item(reader, i);
        const char *wrong = NULL;
        bool is_scalar = reader_scalar(reader, item, "an origin such as https://app.example", &scalar);
        if (is_scalar && (wrong = origin_wrong(scalar.text)))
            reader_error(reader, item, "'%s': %s", scalar.text, wrong);
        else if (is_scalar)
            origins[count++] = conf_copy(reader->conf, scalar.text, strlen(scalar.text));
        reader_leave(reader, before);
    }
    *(char ***)target = origins;
}

/* ---- keys ------------------------------------------------------------------------------------- */

void read_derive(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct conf_key *key = target;
    (void)setting;
    key->derived = true;
    if (read_components(reader, node, "a list of components", &key->derive) && key->derive.count == 0)
        reader_error(reader, node, "expected at least one component");
}

static void read_key(struct reader *reader, const yaml_node_t *node, struct conf_key *key)
{
    static const char expected[] = "a mapping with 'header' or 'derive'";
    if (!reader_mapping(reader, node, expected))
        return;
    reader_section(reader, &key_section, node, key);
    bool has_header = document_member(reader->document, node, "header", NULL);
    bool has_derive = document_member(reader->document, node, "derive", NULL);
    if (has_header && has_derive)
        reader_error(reader, node, "either 'header' or 'derive', not both: alternatives are items of their own");
    else if (!has_header && !has_derive)
        reader_error(reader, node, "expected %s", expected);
}

void read_keys(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct conf_route *route = target;
    (void)setting;
    if (!reader_sequence(reader, node, "a list of alternatives"))
        return;
    if (reader_count(node) == 0)
        reader_error(reader, node, "expected at least one alternative");
    route->keys = CONF_NEW_ARRAY(reader->conf, struct conf_key, reader_count(node));
    for (size_t i = 0; i < reader_count(node); i++) {
        size_t before = reader_enter_item(reader, i);
        read_key(reader, reader_item(reader, node, i), &route->keys[route->key_count++]);
        reader_leave(reader, before);
    }
}

void print_keys(const void *target, FILE *out)
{
    const struct conf_route *route = target;
    for (size_t i = 0; i < route->key_count; i++) {
        fputs(i ? ", else " : "", out);
        if (route->keys[i].derived) {
            fputs("derived from ", out);
            component_print_list(&route->keys[i].derive, out);
        } else {
            fprintf(out, "header %s", route->keys[i].header);
        }
    }
}

void write_keys(struct writer *writer, const struct setting *setting, const void *target)
{
    const struct conf_route *route = target;
    const struct setting *header = &setting->section->settings[0], *derive = &setting->section->settings[1];
    writer_open(writer, setting_key(setting));
    for (size_t i = 0; i < route->key_count; i++) {
        writer_item(writer);
        if (route->keys[i].derived)
            write_components(writer, derive, &route->keys[i].derive);
        else
            write_text(writer, header, route->keys[i].header);
        writer_close(writer);
    }
    writer_close(writer);
}

/* Pointers are kept without their "json:". */
void read_ignore(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct component_list list = {0};
    (void)setting;
    (void)read_components(reader, node, "a list of json:/POINTER", &list);
    char **pointers = CONF_NEW_ARRAY(reader->conf, char *, list.count + 1);
    size_t count = 0;
    for (size_t i = 0; i < list.count; i++)
        if (list.items[i].kind == COMPONENT_JSON)
            pointers[count++] = list.items[i].argument;
    if (count < list.count)
        reader_error(reader, node, "only json:/POINTER can be ignored");
    *(char ***)target = pointers;
}

void print_ignore(const void *target, FILE *out)
{
    const char *before = "";
    fputc('[', out);
    for (char *const *pointer = *(char **const *)target; *pointer; pointer++, before = ", ")
        fprintf(out, "%sjson:%s", before, *pointer);
    fputc(']', out);
}

void write_ignore(struct writer *writer, const struct setting *setting, const void *target)
{
    char *const *pointers = *(char *const *const *)target;
    size_t count = 0;
    while (pointers[count])
        count++;
    if (count == 0) {
        write_absent(writer, setting);
        return;
    }
    struct component *items = NEW_ARRAY(struct component, count);
    for (size_t i = 0; i < count; i++)
        items[i] = (struct component){COMPONENT_JSON, pointers[i]};
    write_components(writer, setting, &(struct component_list){items, count});
    free(items);
}

/* ---- routes ----------------------------------------------------------------------------------- */

static void read_route(struct reader *reader, const yaml_node_t *node, struct conf_route *route)
{
    struct conf *conf = reader->conf;
    char **none = CONF_NEW_ARRAY(conf, char *, 1);
    route->name = route->scope_name = conf_copy(conf, "", 0); /* until read: later routes are compared with this one */
    route->line = (int)reader_place(reader, node).line;
    route->fingerprint_kind = FINGERPRINT_DEFAULT;
    route->ignore = route->match.methods = route->cors = none;
    reader->route = route;
    reader->path_is_wrong = false;
    if (reader_mapping(reader, node, "a mapping")) {
        reader_section(reader, &route_section, node, route);
        check_route(reader, node, route);
        check_against_earlier(reader, node, route, conf->routes, conf->route_count);
        preset_end(reader);
    }
    reader->route = NULL;
}

void read_routes(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct conf *conf = reader->conf;
    (void)setting, (void)target;
    if (!reader_sequence(reader, node, "a list of routes"))
        return;
    conf->routes = CONF_NEW_ARRAY(conf, struct conf_route, reader_count(node));
    for (size_t i = 0; i < reader_count(node); i++) {
        size_t before = reader_enter_item(reader, i);
        read_route(reader, reader_item(reader, node, i), &conf->routes[conf->route_count]);
        conf->route_count++;
        reader_leave(reader, before);
    }
}

void write_routes(struct writer *writer, const struct setting *setting, const void *target)
{
    const struct conf *conf = target;
    if (conf->route_count == 0) {
        write_plain(writer, setting, "[]");
        return;
    }
    writer_open(writer, setting_key(setting));
    for (size_t i = 0; i < conf->route_count; i++) {
        writer_item(writer);
        writer_section(writer, setting->section, &conf->routes[i]);
        writer_close(writer);
    }
    writer_close(writer);
}
