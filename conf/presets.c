/*
 * presets.c - what a preset says for the setting that is being read.
 *
 * A setting is looked up by its path below the route ("statuses.release"), so settings inside of sections are found
 * like those outside. Items of lists are not: a list is taken whole from one place.
 */
#include "conf/presets.h"

#include "conf/own.h"
#include "proxy/span.h"

#include <assert.h>

static yaml_document_t *load(const struct preset *preset)
{
    yaml_document_t *document = NEW(yaml_document_t);
    struct report report = {.name = preset->name};
    bool loaded = document_load(document, (const char *)preset->text, preset->len, &report);
    assert(loaded && report.count == 0 && "presets are part of the program and tested");
    return document;
}

void preset_begin(struct reader *reader, const struct preset *preset)
{
    reader->presets[0] = load(preset);
    reader->presets[1] = load(&preset_common);
    reader->route_path_len = strlen("routes[]"); /* and the digits between */
    while (reader->path[reader->route_path_len - 1] != ']')
        reader->route_path_len++;
}

void preset_end(struct reader *reader)
{
    for (size_t i = 0; i < sizeof reader->presets / sizeof *reader->presets; i++) {
        if (reader->presets[i])
            yaml_document_delete(reader->presets[i]);
        free(reader->presets[i]);
        reader->presets[i] = NULL;
    }
}

/* `path` is ".name" or ".name.name" …; an index in it is no name that could be found. */
static const yaml_node_t *node_at(yaml_document_t *document, const char *path)
{
    const yaml_node_t *node = yaml_document_get_root_node(document);
    while (node && node->type == YAML_MAPPING_NODE && *path == '.') {
        char name[64];
        size_t len = strcspn(path + 1, ".");
        snprintf(name, sizeof name, "%.*s", (int)len, path + 1);
        node = document_member(document, node, name, NULL);
        path += 1 + len;
    }
    return *path == '\0' ? node : NULL;
}

const yaml_node_t *preset_value(const struct reader *reader, yaml_document_t **document)
{
    const yaml_node_t *found = NULL;
    for (size_t i = 0; i < sizeof reader->presets / sizeof *reader->presets && !found; i++) {
        *document = reader->presets[i];
        found = *document ? node_at(*document, reader->path + reader->route_path_len) : NULL;
    }
    return found;
}

/* ---- the setting ------------------------------------------------------------------------------ */

void read_preset(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct conf_route *route = target;
    struct scalar scalar;
    char suggestion[100];
    (void)setting;
    if (!reader_scalar(reader, node, "the name of a preset", &scalar))
        return;
    const char **names = NEW_ARRAY(const char *, preset_count);
    for (size_t i = 0; i < preset_count; i++) {
        names[i] = presets[i].name;
        if (strcmp(names[i], scalar.text) != 0)
            continue;
        route->preset = names[i];
        preset_begin(reader, &presets[i]);
    }
    reader_suggest(suggestion, sizeof suggestion, scalar.text, names, preset_count);
    free(names);
    if (!route->preset)
        reader_error(reader, node, "no preset is named '%s'%s", scalar.text, suggestion);
}

void print_preset(const void *target, FILE *out)
{
    const struct conf_route *route = target;
    fputs(route->preset ? route->preset : "none", out);
}

/* The first row of an item of a list: what is absent there is no comment. */
void write_preset(struct writer *writer, const struct setting *setting, const void *target)
{
    const struct conf_route *route = target;
    if (route->preset)
        write_text(writer, setting, route->preset);
}
