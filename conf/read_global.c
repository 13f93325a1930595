/*
 * read_global.c - listeners, workers, upstreams: what stands outside of routes and is more than one plain value.
 */
#include "conf/address.h"
#include "conf/own.h"
#include "conf/scalar.h"
#include "conf/upstreams.h"
#include "proxy/span.h"

enum { MAX_WORKERS = 1024 };

/* ---- listen ----------------------------------------------------------------------------------- */

void read_listen_address(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct conf_listen *listen = target;
    struct scalar scalar;
    (void)setting;
    if (!reader_scalar(reader, node, "host:port, [IPv6]:port or unix:/path", &scalar))
        return;
    const char *wrong = address_parse_listen(reader->conf, scalar.text, listen);
    if (wrong)
        reader_error(reader, node, "'%s': %s", scalar.text, wrong);
}

/* The one place where octal is meant: written as for chmod. */
void read_listen_mode(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    static const char expected[] = "permissions as for chmod, such as 0660";
    struct scalar scalar;
    unsigned mode = 0;
    (void)setting;
    if (!reader_scalar(reader, node, expected, &scalar))
        return;
    size_t len = strlen(scalar.text);
    if ((len != 3 && len != 4) || (len == 4 && scalar.text[0] != '0') || strspn(scalar.text, "01234567") != len) {
        reader_error(reader, node, "expected %s, not '%s'", expected, scalar.text);
        return;
    }
    for (size_t i = 0; i < len; i++)
        mode = mode << 3 | (unsigned)(scalar.text[i] - '0');
    *(unsigned *)target = mode;
}

static void check_listen(struct reader *reader, const yaml_node_t *node, const struct conf_listen *listen)
{
    const struct conf *conf = reader->conf;
    const yaml_node_t *mode = document_member(reader->document, node, "mode", NULL);
    const yaml_node_t *address = document_member(reader->document, node, "address", NULL);
    if (mode && listen->port)
        reader_error(reader, mode, "mode: only a unix socket has permissions");
    for (const struct conf_listen *other = conf->listen; listen->address && other < listen; other++)
        if (other->address && strcmp(other->address, listen->address) == 0)
            reader_error(reader, address, "address: '%s' is listed twice (first on line %d)", listen->address,
                         other->line);
}

void read_listen(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct conf *conf = reader->conf;
    (void)setting, (void)target;
    if (!reader_sequence(reader, node, "a list of addresses"))
        return;
    if (reader_count(node) == 0)
        reader_error(reader, node, "at least one address is needed");
    conf->listen = CONF_NEW_ARRAY(conf, struct conf_listen, reader_count(node));
    for (size_t i = 0; i < reader_count(node); i++) {
        const yaml_node_t *item = reader_item(reader, node, i);
        struct conf_listen *listen = &conf->listen[conf->listen_count++];
        size_t before = reader_enter_item(reader, i);
        listen->line = (int)reader_place(reader, item).line;
        if (reader_mapping(reader, item, "a mapping with 'address'")) {
            reader_section(reader, &listen_section, item, listen);
            check_listen(reader, item, listen);
        }
        reader_leave(reader, before);
    }
}

void print_listen(const void *target, FILE *out)
{
    const struct conf *conf = target;
    for (size_t i = 0; i < conf->listen_count; i++) {
        fprintf(out, "%s%s", i ? ", " : "", conf->listen[i].address);
        if (conf->listen[i].unix_path)
            fprintf(out, " (mode %04o)", conf->listen[i].mode);
        if (conf->listen[i].tls)
            fputs(conf->listen[i].client_ca.path ? " (tls, with client certificates)" : " (tls)", out);
    }
}

void write_listen_address(struct writer *writer, const struct setting *setting, const void *target)
{
    const struct conf_listen *listen = target;
    write_text(writer, setting, listen->address);
}

void write_listen_mode(struct writer *writer, const struct setting *setting, const void *target)
{
    const struct conf_listen *listen = (const void *)((const char *)target - setting->offset);
    if (listen->unix_path)
        write_plain(writer, setting, "%04o", listen->mode);
}

void write_listen(struct writer *writer, const struct setting *setting, const void *target)
{
    const struct conf *conf = target;
    writer_open(writer, setting_key(setting));
    for (size_t i = 0; i < conf->listen_count; i++) {
        writer_item(writer);
        writer_section(writer, setting->section, &conf->listen[i]);
        writer_close(writer);
    }
    writer_close(writer);
}

bool same_listen(const void *left, const void *right)
{
    const struct conf *a = left, *b = right;
    bool same = a->listen_count == b->listen_count;
    for (size_t i = 0; same && i < a->listen_count; i++)
        same = strcmp(a->listen[i].address, b->listen[i].address) == 0 && a->listen[i].mode == b->listen[i].mode &&
               a->listen[i].tls == b->listen[i].tls;
    return same;
}

/* ---- single values ---------------------------------------------------------------------------- */

void read_workers(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    static const char expected[] = "auto or a number from 1 to 1024";
    struct scalar scalar;
    uint64_t value = 0;
    (void)setting;
    if (!reader_scalar(reader, node, expected, &scalar))
        return;
    bool is_auto = strcmp(scalar.text, "auto") == 0;
    bool is_number = !scalar.is_string && scalar_number(scalar.text, &value) && value >= 1 && value <= MAX_WORKERS;
    if (is_auto || is_number)
        *(uint32_t *)target = (uint32_t)value;
    else
        reader_error(reader, node, "expected %s, not '%s'", expected, scalar.text);
}

void print_workers(const void *target, FILE *out)
{
    uint32_t workers = *(const uint32_t *)target;
    if (workers)
        fprintf(out, "%u", workers);
    else
        fputs("auto", out);
}

void write_workers(struct writer *writer, const struct setting *setting, const void *target)
{
    uint32_t workers = *(const uint32_t *)target;
    if (workers)
        write_plain(writer, setting, "%u", workers);
    else
        write_plain(writer, setting, "auto");
}

bool same_workers(const void *left, const void *right)
{
    return ((const struct conf *)left)->workers == ((const struct conf *)right)->workers;
}

void read_store_path(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct scalar scalar;
    (void)setting;
    if (!reader_scalar(reader, node, "a directory", &scalar))
        return;
    if (*scalar.text == '\0')
        reader_error(reader, node, "expected a directory, not an empty text");
    *(char **)target = conf_copy(reader->conf, scalar.text, strlen(scalar.text));
}

void print_text(const void *target, FILE *out)
{
    fputs(*(char *const *)target, out);
}

void write_string(struct writer *writer, const struct setting *setting, const void *target)
{
    write_text(writer, setting, *(char *const *)target);
}

bool same_store_path(const void *left, const void *right)
{
    return strcmp(((const struct conf *)left)->store.path, ((const struct conf *)right)->store.path) == 0;
}

/* ---- upstreams -------------------------------------------------------------------------------- */

void read_upstream_url(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct scalar scalar;
    (void)setting;
    if (!reader_scalar(reader, node, "a URL such as http://127.0.0.1:3000", &scalar))
        return;
    const char *wrong = address_parse_url(reader->conf, scalar.text, target);
    if (wrong && strchr(scalar.text, '@')) /* before it may stand a password */
        reader_error(reader, node, "%s", wrong);
    else if (wrong)
        reader_error(reader, node, "'%s': %s", scalar.text, wrong);
}

void read_upstream_host(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    static const char expected[] = "pass or the name to send as Host";
    struct scalar scalar;
    (void)setting;
    if (!reader_scalar(reader, node, expected, &scalar) || strcmp(scalar.text, "pass") == 0)
        return;
    if (address_is_authority(scalar.text))
        *(char **)target = conf_copy(reader->conf, scalar.text, strlen(scalar.text));
    else
        reader_error(reader, node, "expected %s, not '%s'", expected, scalar.text);
}

void write_upstream_url(struct writer *writer, const struct setting *setting, const void *target)
{
    const struct conf_upstream *upstream = target;
    write_text(writer, setting, upstream->url);
}

void write_upstream_host(struct writer *writer, const struct setting *setting, const void *target)
{
    const char *host = *(char *const *)target;
    write_text(writer, setting, host ? host : "pass");
}

void print_upstream_host(const void *target, FILE *out)
{
    const char *host = *(char *const *)target;
    fputs(host ? host : "pass", out);
}

static void read_upstream(struct reader *reader, const yaml_node_t *key, const yaml_node_t *node)
{
    struct conf *conf = reader->conf;
    const char *name = (const char *)key->data.scalar.value;
    struct conf_upstream *upstream = &conf->upstreams[conf->upstream_count++];
    upstream->name = conf_copy(conf, name, strlen(name));
    upstream->line = (int)reader_place(reader, key).line;
    size_t before = reader_enter(reader, name);
    if (!scalar_is_name(name))
        reader_error(reader, key,
                     "a name has 1 to 64 letters, digits, '.', '_' and '-', and begins with no '.' or '-'");
    if (reader_mapping(reader, node, "a mapping with 'url'")) {
        reader_section(reader, &upstream_section, node, upstream);
        check_upstream_tls(reader, node, upstream);
    }
    reader_leave(reader, before);
}

void read_upstreams(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct conf *conf = reader->conf;
    (void)setting, (void)target;
    if (!reader_mapping(reader, node, "a mapping of names to upstreams"))
        return;
    const yaml_node_pair_t *from = node->data.mapping.pairs.start, *to = node->data.mapping.pairs.top;
    if (from == to)
        reader_error(reader, node, "at least one upstream is needed");
    conf->upstreams = CONF_NEW_ARRAY(conf, struct conf_upstream, (size_t)(to - from));
    for (const yaml_node_pair_t *pair = from; pair < to; pair++) {
        const yaml_node_t *key = yaml_document_get_node(reader->document, pair->key);
        if (key->type == YAML_SCALAR_NODE)
            read_upstream(reader, key, yaml_document_get_node(reader->document, pair->value));
    }
    if (conf->upstream_count == 1)
        conf->default_upstream = &conf->upstreams[0];
}

void write_upstreams(struct writer *writer, const struct setting *setting, const void *target)
{
    const struct conf *conf = target;
    writer_open(writer, setting_key(setting));
    for (size_t i = 0; i < conf->upstream_count; i++) {
        writer_open(writer, conf->upstreams[i].name);
        writer_section(writer, setting->section, &conf->upstreams[i]);
        writer_close(writer);
    }
    writer_close(writer);
}

const struct conf_upstream *upstream_named(struct reader *reader, const yaml_node_t *node)
{
    const struct conf *conf = reader->conf;
    struct scalar scalar;
    char suggestion[100];
    if (!reader_scalar(reader, node, "the name of an upstream", &scalar))
        return NULL;
    const char **names = NEW_ARRAY(const char *, conf->upstream_count);
    const struct conf_upstream *found = NULL;
    for (size_t i = 0; i < conf->upstream_count; i++) {
        names[i] = conf->upstreams[i].name;
        if (strcmp(names[i], scalar.text) == 0)
            found = &conf->upstreams[i];
    }
    reader_suggest(suggestion, sizeof suggestion, scalar.text, names, conf->upstream_count);
    free(names);
    if (!found)
        reader_error(reader, node, "no upstream is named '%s'%s", scalar.text, suggestion);
    return found;
}

void read_default_upstream(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    (void)setting, (void)target;
    reader->conf->default_upstream = upstream_named(reader, node);
}

void print_default_upstream(const void *target, FILE *out)
{
    const struct conf_upstream *upstream = *(const struct conf_upstream *const *)target;
    fputs(upstream ? upstream->name : "none (404 no-route)", out);
}

void write_upstream_name(struct writer *writer, const struct setting *setting, const void *target)
{
    const struct conf_upstream *upstream = *(const struct conf_upstream *const *)target;
    write_text(writer, setting, upstream ? upstream->name : NULL);
}
