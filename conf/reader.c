/*
 * reader.c - the rows of schema.c against a YAML tree.
 *
 * Rows are read in the order of the table, not of the file, so a row may rely on those above it. A default is a piece
 * of YAML like any other and is read by the same code: the table cannot say one thing and the program do another. So is
 * what a route's preset says, which counts between the file and the default.
 *
 * Left out: what one setting means for another (check.c).
 */
#include "conf/reader.h"

#include "conf/environment.h"
#include "conf/presets.h"
#include "conf/scalar.h"
#include "proxy/span.h"

#include <assert.h>

/* ---- messages --------------------------------------------------------------------------------- */

struct place reader_place(const struct reader *reader, const yaml_node_t *node)
{
    return reader->in_default ? reader->near : document_place(node->start_mark);
}

void reader_error(struct reader *reader, const yaml_node_t *node, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        abort();
    va_end(arguments);
    report_add(reader->report, reader_place(reader, node), MESSAGE_ERROR, "%s%s%s", reader->path,
               reader->path_len ? ": " : "", text);
    free(text);
}

void reader_warn_at(struct reader *reader, struct place place, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    report_add_list(reader->report, place, MESSAGE_WARNING, format, arguments);
    va_end(arguments);
}

void reader_suggest(char *text, size_t size, const char *word, const char *const *words, size_t count)
{
    const char *nearest = scalar_nearest(word, words, count);
    if (nearest)
        snprintf(text, size, " (did you mean '%s'?)", nearest);
    else
        *text = '\0';
}

/* ---- path ------------------------------------------------------------------------------------- */

static void append_path(struct reader *reader, const char *format, const char *name, size_t index)
{
    size_t room = sizeof reader->path - reader->path_len;
    int len = name ? snprintf(reader->path + reader->path_len, room, format, name)
                   : snprintf(reader->path + reader->path_len, room, format, index);
    reader->path_len += (size_t)len < room ? (size_t)len : room - 1;
}

size_t reader_enter(struct reader *reader, const char *name)
{
    size_t before = reader->path_len;
    append_path(reader, before ? ".%s" : "%s", name, 0);
    return before;
}

size_t reader_enter_item(struct reader *reader, size_t index)
{
    size_t before = reader->path_len;
    append_path(reader, "[%zu]", NULL, index);
    return before;
}

void reader_leave(struct reader *reader, size_t path_len)
{
    reader->path_len = path_len;
    reader->path[path_len] = '\0';
}

/* ---- kinds of nodes --------------------------------------------------------------------------- */

static const char *node_words(const yaml_node_t *node)
{
    switch (node->type) {
    case YAML_SEQUENCE_NODE:
        return "a list";
    case YAML_MAPPING_NODE:
        return "a mapping";
    case YAML_SCALAR_NODE:
    case YAML_NO_NODE:
        break;
    }
    return "a single value";
}

static bool is_null(const yaml_node_t *node)
{
    const char *text = (const char *)node->data.scalar.value;
    return node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (*text == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0);
}

static bool expect(struct reader *reader, const yaml_node_t *node, yaml_node_type_t type, const char *expected)
{
    if (node->type == YAML_SCALAR_NODE && is_null(node))
        reader_error(reader, node, "has no value: expected %s", expected);
    else if (node->type != type)
        reader_error(reader, node, "expected %s, not %s", expected, node_words(node));
    else
        return true;
    return false;
}

bool reader_sequence(struct reader *reader, const yaml_node_t *node, const char *expected)
{
    return expect(reader, node, YAML_SEQUENCE_NODE, expected);
}

bool reader_mapping(struct reader *reader, const yaml_node_t *node, const char *expected)
{
    return expect(reader, node, YAML_MAPPING_NODE, expected);
}

bool reader_scalar(struct reader *reader, const yaml_node_t *node, const char *expected, struct scalar *scalar)
{
    if (!expect(reader, node, YAML_SCALAR_NODE, expected))
        return false;
    const char *text = (const char *)node->data.scalar.value;
    scalar->is_string = node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    if (strlen(text) != node->data.scalar.length) {
        reader_error(reader, node, "holds a NUL character");
        return false;
    }
    if (reader->in_default || !reader->environment || !strchr(text, '$')) {
        scalar->text = conf_copy(reader->conf, text, strlen(text));
        return true;
    }
    char *why = NULL;
    char *expanded = environment_expand(text, reader->environment, reader->environment_arg, &why);
    if (!expanded) {
        reader_error(reader, node, "%s", why);
        free(why);
        return false;
    }
    scalar->text = conf_copy(reader->conf, expanded, strlen(expanded));
    scalar->is_string = false;
    if (environment_is_secret(text))
        conf_hide(reader->conf, scalar->text, text);
    free(expanded);
    return true;
}

/* ---- values ----------------------------------------------------------------------------------- */

static void refuse(struct reader *reader, const yaml_node_t *node, const char *expected, const struct scalar *scalar)
{
    if (scalar->is_string)
        reader_error(reader, node, "expected %s, not the string \"%s\"", expected, scalar->text);
    else
        reader_error(reader, node, "expected %s, not '%s'", expected, scalar->text);
}

bool reader_bool(struct reader *reader, const yaml_node_t *node, bool *value)
{
    static const char expected[] = "true or false";
    struct scalar scalar;
    if (!reader_scalar(reader, node, expected, &scalar))
        return false;
    bool is_true = strcmp(scalar.text, "true") == 0;
    if (scalar.is_string || (!is_true && strcmp(scalar.text, "false") != 0)) {
        refuse(reader, node, expected, &scalar);
        return false;
    }
    *value = is_true;
    return true;
}

static const char duration_form[] = "a duration such as 250ms, 2s, 5m, 24h or 7d";
static const char size_form[] = "a size such as 65536, 64KiB or 10MB";

bool reader_choice(struct reader *reader, const yaml_node_t *node, const struct choice *choices, const char *or_else,
                   int *value)
{
    const char *names[16];
    char expected[200] = "", suggestion[100];
    size_t count = 0, len = 0;
    struct scalar scalar;
    for (; choices[count].name; count++) {
        assert(count < sizeof names / sizeof *names);
        names[count] = choices[count].name;
        const char *before = count == 0 ? "" : choices[count + 1].name || *or_else ? ", " : " or ";
        len += (size_t)snprintf(expected + len, sizeof expected - len, "%s%s", before, names[count]);
        assert(len < sizeof expected);
    }
    snprintf(expected + len, sizeof expected - len, "%s", or_else);
    if (!reader_scalar(reader, node, expected, &scalar))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(scalar.text, names[i]) != 0)
            continue;
        *value = choices[i].value;
        return true;
    }
    reader_suggest(suggestion, sizeof suggestion, scalar.text, names, count);
    reader_error(reader, node, "expected %s, not '%s'%s", expected, scalar.text, suggestion);
    return false;
}

static void read_number(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct scalar scalar;
    uint64_t value;
    char expected[100];
    setting_describe(setting, expected, sizeof expected);
    if (!reader_scalar(reader, node, expected, &scalar))
        return;
    if (scalar.is_string || !scalar_number(scalar.text, &value) || value < setting->min || value > setting->max)
        refuse(reader, node, expected, &scalar);
    else
        *(uint32_t *)target = (uint32_t)value;
}

static void read_size(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct scalar scalar;
    uint64_t value;
    char expected[100];
    if (!reader_scalar(reader, node, size_form, &scalar))
        return;
    setting_describe(setting, expected, sizeof expected);
    if (!scalar_size(scalar.text, &value))
        refuse(reader, node, size_form, &scalar);
    else if (value < setting->min || value > setting->max)
        refuse(reader, node, expected, &scalar);
    else if (setting->type == SETTING_SIZE32)
        *(uint32_t *)target = (uint32_t)value;
    else
        *(uint64_t *)target = value;
}

static void read_duration(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct scalar scalar;
    int64_t value = CONF_FOREVER;
    char expected[100];
    if (!reader_scalar(reader, node, duration_form, &scalar))
        return;
    if (setting->type != SETTING_DURATION_NEVER || strcmp(scalar.text, "never") != 0) {
        if (!scalar_duration(scalar.text, &value)) {
            refuse(reader, node, duration_form, &scalar);
            return;
        }
        if ((uint64_t)value < setting->min || (uint64_t)value > setting->max) {
            setting_describe(setting, expected, sizeof expected);
            refuse(reader, node, expected, &scalar);
            return;
        }
    }
    *(int64_t *)target = value;
}

static void read_choice(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    int value;
    if (!reader_choice(reader, node, setting->choices, "", &value))
        return;
    if (setting->type == SETTING_CHOICE_BOOL)
        *(bool *)target = value != 0;
    else
        memcpy(target, &value, sizeof value);
}

static void read_value(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *base)
{
    void *target = (char *)base + setting->offset;
    switch (setting->type) {
    case SETTING_BOOL:
        (void)reader_bool(reader, node, target);
        break;
    case SETTING_NUMBER:
        read_number(reader, setting, node, target);
        break;
    case SETTING_SIZE:
    case SETTING_SIZE32:
        read_size(reader, setting, node, target);
        break;
    case SETTING_DURATION:
    case SETTING_DURATION_NEVER:
        read_duration(reader, setting, node, target);
        break;
    case SETTING_CHOICE:
    case SETTING_CHOICE_BOOL:
        read_choice(reader, setting, node, target);
        break;
    case SETTING_SECTION:
        if (reader_mapping(reader, node, "a mapping"))
            reader_section(reader, setting->section, node, base);
        break;
    case SETTING_OWN:
        setting->read(reader, setting, node, target);
        break;
    }
}

/* ---- sections --------------------------------------------------------------------------------- */

/* A value that does not stand in the file: of a preset, or a default. */
static void read_elsewhere(struct reader *reader, const struct setting *setting, yaml_document_t *document,
                           const yaml_node_t *node, const yaml_node_t *mapping, void *base)
{
    yaml_document_t *file = reader->document;
    bool before = reader->in_default;
    if (!before)
        reader->near = document_place(mapping->start_mark);
    reader->in_default = true;
    reader->document = document;
    read_value(reader, setting, node, base);
    reader->in_default = before;
    reader->document = file;
}

static void read_default(struct reader *reader, const struct setting *setting, const yaml_node_t *mapping, void *base)
{
    yaml_document_t document;
    struct report report = {.name = setting->name};
    bool loaded = document_load(&document, setting->standard, strlen(setting->standard), &report);
    assert(loaded && report.count == 0);
    read_elsewhere(reader, setting, &document, yaml_document_get_root_node(&document), mapping, base);
    yaml_document_delete(&document);
}

static void report_unknown(struct reader *reader, const struct section *section, const yaml_node_t *mapping)
{
    const char *names[40];
    assert(section->count <= sizeof names / sizeof *names);
    for (size_t i = 0; i < section->count; i++)
        names[i] = setting_key(&section->settings[i]);
    const yaml_node_pair_t *top = mapping->data.mapping.pairs.top;
    for (const yaml_node_pair_t *pair = mapping->data.mapping.pairs.start; pair < top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(reader->document, pair->key);
        const char *name = (const char *)key->data.scalar.value;
        char suggestion[100];
        size_t i = 0;
        if (key->type != YAML_SCALAR_NODE)
            continue;
        while (i < section->count && strcmp(names[i], name) != 0)
            i++;
        if (i < section->count)
            continue;
        reader_suggest(suggestion, sizeof suggestion, name, names, section->count);
        report_add(reader->report, reader_place(reader, key), MESSAGE_ERROR, "unknown key '%s'%s%s%s", name,
                   reader->path_len ? " in " : "", reader->path, suggestion);
    }
}

void reader_section(struct reader *reader, const struct section *section, const yaml_node_t *node, void *target)
{
    for (size_t i = 0; i < section->count; i++) {
        const struct setting *setting = &section->settings[i];
        const yaml_node_t *value = document_member(reader->document, node, setting_key(setting), NULL);
        size_t before = reader_enter(reader, setting_key(setting));
        yaml_document_t *preset = NULL;
        const yaml_node_t *given = value ? NULL : preset_value(reader, &preset);
        if (value)
            read_value(reader, setting, value, target);
        else if (given)
            read_elsewhere(reader, setting, preset, given, node, target);
        else if (setting->standard)
            read_default(reader, setting, node, target);
        else if (setting->flags & SETTING_REQUIRED)
            reader_error(reader, node, "missing");
        reader_leave(reader, before);
    }
    report_unknown(reader, section, node);
}
