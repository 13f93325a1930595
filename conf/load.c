/*
 * load.c - from a file, or from flags alone, to a configuration that is complete, or to messages.
 *
 * Without a file a small tree is built in memory and read by the same code, so that both ways have the same defaults
 * and checks.
 */
#include "conf/load.h"

#include "conf/address.h"
#include "conf/own.h"
#include "proxy/span.h"

#include <assert.h>
#include <errno.h>

#define DEFAULT_ADMIN "127.0.0.1:9180" /* without a file */

/* ---- flags and environment over the file ------------------------------------------------------ */

static void override_error(struct report *report, const char *flag, const char *variable, const char *value,
                           const char *wrong)
{
    report_add(report, (struct place){0}, MESSAGE_ERROR, "%s (or %s) '%s': %s", flag, variable, value, wrong);
}

static void override_listen(struct conf *conf, const char *address, struct report *report)
{
    struct conf_listen *listen = CONF_NEW_ARRAY(conf, struct conf_listen, 1);
    listen->mode = 0660;
    const char *wrong = address_parse_listen(conf, address, listen);
    if (wrong)
        override_error(report, "--listen", "EINMAL_LISTEN", address, wrong);
    conf->listen = listen;
    conf->listen_count = 1;
}

static void override_admin(struct conf *conf, const char *address, struct report *report)
{
    struct conf_listen *listen = &conf->admin.listen;
    *listen = (struct conf_listen){.mode = listen->mode};
    if (strcmp(address, "off") == 0) {
        conf->admin.token_file = (struct conf_file){0};
        return;
    }
    const char *wrong = address_parse_listen(conf, address, listen);
    if (wrong)
        override_error(report, "--admin", "EINMAL_ADMIN", address, wrong);
}

static void apply_overrides(struct conf *conf, const struct conf_overrides *overrides, struct report *report)
{
    if (overrides->listen)
        override_listen(conf, overrides->listen, report);
    if (overrides->data && !*overrides->data)
        override_error(report, "--data", "EINMAL_DATA", "", "expected a directory");
    if (overrides->data)
        conf->store.path = conf_copy(conf, overrides->data, strlen(overrides->data));
    if (overrides->admin)
        override_admin(conf, overrides->admin, report);
}

/* ---- reading ---------------------------------------------------------------------------------- */

static void read_root(struct reader *reader, yaml_document_t *document)
{
    const yaml_node_t *root = yaml_document_get_root_node(document);
    reader->document = document;
    if (reader_mapping(reader, root, "a mapping of settings"))
        reader_section(reader, &root_section, root, reader->conf);
    if (reader->report->errors == 0 && reader->conf->route_count == 0)
        reader_warn_at(reader, reader_place(reader, root), "no routes: every request passes unprotected");
}

/* Writes the messages; gives `conf` back if there was no error. */
static struct conf *finish(struct conf *conf, const struct conf_overrides *overrides, struct report *report,
                           FILE *messages)
{
    if (overrides)
        apply_overrides(conf, overrides, report);
    if (!report->errors)
        check_side_listeners(conf, report);
    bool failed = report->errors > 0;
    report_write(report, messages);
    if (failed) {
        conf_unref(conf);
        return NULL;
    }
    return conf;
}

struct conf *conf_load_text(const char *name, const char *text, size_t len, const struct conf_overrides *overrides,
                            conf_environment *environment, void *environment_arg, FILE *messages)
{
    struct report report = {.name = name};
    struct conf *conf = conf_new();
    yaml_document_t document;
    conf->file = conf_copy(conf, name, strlen(name));
    if (document_load(&document, text, len, &report)) {
        struct reader reader = {
            .conf = conf, .report = &report, .environment = environment, .environment_arg = environment_arg};
        read_root(&reader, &document);
        yaml_document_delete(&document);
    }
    return finish(conf, overrides, &report, messages);
}

/* ---- without a file --------------------------------------------------------------------------- */

static void append_pair(yaml_document_t *document, int mapping, const char *name, int value)
{
    int key = yaml_document_add_scalar(document, NULL, (const yaml_char_t *)name, -1, YAML_DOUBLE_QUOTED_SCALAR_STYLE);
    if (!mapping || !key || !value || !yaml_document_append_mapping_pair(document, mapping, key, value))
        abort();
}

/* {upstreams: {default: {url: …}}, routes: [{name: default}], admin: {address: …}}. The node that is added first is the
 * root. */
static void build_document(yaml_document_t *document, const char *url)
{
    if (!yaml_document_initialize(document, NULL, NULL, NULL, 1, 1))
        abort();
    int root = yaml_document_add_mapping(document, NULL, YAML_BLOCK_MAPPING_STYLE);
    int upstreams = yaml_document_add_mapping(document, NULL, YAML_BLOCK_MAPPING_STYLE);
    int upstream = yaml_document_add_mapping(document, NULL, YAML_BLOCK_MAPPING_STYLE);
    int routes = yaml_document_add_sequence(document, NULL, YAML_BLOCK_SEQUENCE_STYLE);
    int route = yaml_document_add_mapping(document, NULL, YAML_BLOCK_MAPPING_STYLE);
    int admin = yaml_document_add_mapping(document, NULL, YAML_BLOCK_MAPPING_STYLE);
    const yaml_char_t *texts[] = {(const yaml_char_t *)url, (const yaml_char_t *)"default",
                                  (const yaml_char_t *)DEFAULT_ADMIN};
    int values[3];
    for (size_t i = 0; i < 3; i++)
        values[i] = yaml_document_add_scalar(document, NULL, texts[i], -1, YAML_DOUBLE_QUOTED_SCALAR_STYLE);
    append_pair(document, root, "upstreams", upstreams);
    append_pair(document, upstreams, "default", upstream);
    append_pair(document, upstream, "url", values[0]);
    append_pair(document, root, "routes", routes);
    append_pair(document, route, "name", values[1]);
    append_pair(document, root, "admin", admin);
    append_pair(document, admin, "address", values[2]);
    if (!routes || !yaml_document_append_sequence_item(document, routes, route))
        abort();
}

/* Checked before the tree is built, so that the message names the flag; libyaml takes no text that is not UTF-8. */
static const char *check_url(struct conf *conf, const char *url)
{
    struct conf_upstream upstream = {0};
    for (const char *c = url; *c; c++)
        if ((unsigned char)*c <= 0x20 || (unsigned char)*c >= 0x7F)
            return "spaces, control characters and what is not ASCII are not allowed";
    return address_parse_url(conf, url, &upstream);
}

static struct conf *load_upstream(const struct conf_overrides *overrides, FILE *messages)
{
    struct report report = {0};
    struct conf *conf = conf_new();
    const char *wrong = check_url(conf, overrides->upstream);
    if (wrong) {
        const char *shown = strchr(overrides->upstream, '@') ? "…" : overrides->upstream; /* no password */
        override_error(&report, "--upstream", "EINMAL_UPSTREAM", shown, wrong);
    } else {
        yaml_document_t document;
        struct reader reader = {.conf = conf, .report = &report, .in_default = true}; /* nothing has a place */
        build_document(&document, overrides->upstream);
        read_root(&reader, &document);
        yaml_document_delete(&document);
    }
    return finish(conf, overrides, &report, messages);
}

/* ---- with one --------------------------------------------------------------------------------- */

static char *read_file(const char *file, size_t *len)
{
    FILE *in = fopen(file, "rbe");
    if (!in)
        return NULL;
    char *text = must_allocate(malloc(DOCUMENT_MAX_SIZE + 1));
    *len = fread(text, 1, DOCUMENT_MAX_SIZE + 1, in); /* one more than allowed: so it is seen to be too large */
    int error = ferror(in) ? errno : 0;
    fclose(in);
    if (!error)
        return text;
    free(text);
    errno = error;
    return NULL;
}

struct conf *conf_load(const char *file, const struct conf_overrides *overrides, conf_environment *environment,
                       void *environment_arg, FILE *messages)
{
    assert(file || overrides->upstream);
    if (!file)
        return load_upstream(overrides, messages);
    size_t len;
    char *text = read_file(file, &len);
    if (!text) {
        fprintf(messages, "einmal: cannot read %s: %s\n", file, strerror(errno));
        return NULL;
    }
    struct conf *conf = conf_load_text(file, text, len, overrides, environment, environment_arg, messages);
    free(text);
    return conf;
}

struct conf *conf_of_address(const char *address, const char **wrong)
{
    struct conf *conf = conf_new();
    conf->listen = CONF_NEW_ARRAY(conf, struct conf_listen, 1);
    conf->listen_count = 1;
    *wrong = address_parse_listen(conf, address, &conf->listen[0]);
    if (!*wrong)
        return conf;
    conf_unref(conf);
    return NULL;
}
