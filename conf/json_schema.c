/*
 * json_schema.c - the rows as a JSON Schema (draft-07, which editors' YAML language servers know best), for completion
 * and squiggles while einmal.yaml is written: conf/einmal.schema.json.
 *
 * Invariant: what `einmal check` accepts is valid. The reverse is not: what settings mean for one another, the range of
 * a number that has a unit, and spellings that a YAML parser has read away (`True`, 0x10) only the program tells. A
 * variable may stand in for any value, so wherever a value is expected "${NAME}" is valid, too.
 *
 * A form that several settings have is one row of `notations`, found by the words that the reference has for it.
 */
#include "conf/component.h"
#include "conf/document.h"
#include "conf/presets.h"
#include "conf/scalar.h"
#include "conf/setting.h"
#include "proxy/span.h"

#include <assert.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- JSON ------------------------------------------------------------------------------------- */

struct json {
    FILE *out;
    unsigned depth;
    bool is_first; /* of its object or array */
};

static void write_string(const char *text, FILE *out)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void next(struct json *json)
{
    fprintf(json->out, "%s\n%*s", json->is_first ? "" : ",", (int)(2 * json->depth), "");
    json->is_first = false;
}

static void member(struct json *json, const char *name)
{
    next(json);
    write_string(name, json->out);
    fputs(": ", json->out);
}

static void begin(struct json *json, char bracket)
{
    fputc(bracket, json->out);
    json->depth++;
    json->is_first = true;
}

static void end(struct json *json, char bracket)
{
    bool is_empty = json->is_first;
    json->depth--;
    if (!is_empty)
        fprintf(json->out, "\n%*s", (int)(2 * json->depth), "");
    fputc(bracket, json->out);
    json->is_first = false;
}

static void member_text(struct json *json, const char *name, const char *text)
{
    member(json, name);
    write_string(text, json->out);
}

static void member_number(struct json *json, const char *name, uint64_t number)
{
    member(json, name);
    fprintf(json->out, "%llu", (unsigned long long)number);
}

/* A member whose value is JSON already. */
static void member_json(struct json *json, const char *name, const char *value)
{
    member(json, name);
    fputs(value, json->out);
}

/* What a text must match, and what to say if it does not: editors would show the expression, which nobody reads. */
static void member_pattern(struct json *json, const char *pattern, const char *expected)
{
    char message[300];
    snprintf(message, sizeof message, "expected %s", expected);
    member_text(json, "pattern", pattern);
    member_text(json, "patternErrorMessage", message);
}

/* ---- notations -------------------------------------------------------------------------------- */

#define VARIABLE  "\\$\\{[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?\\}"
#define OR        "|" VARIABLE
#define HOST      "(\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9._-]+)"
#define PORT      ":[1-9][0-9]{0,4}"
#define NAME      "^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$"
#define TOKEN     "([!#%&'*+.^_`|~0-9A-Za-z-]|\\$\\$)+"

#define STRING    "\"string\""
#define NUMBER_OR "[\"integer\", \"string\"]"             /* the pattern is for strings only */
#define ANY       "[\"string\", \"number\", \"boolean\"]" /* a name may be 2024 or true, quoted or not */

enum shape {
    ONE,          /* a value */
    PRESET,       /* the name of one */
    WORD_OR_MANY, /* one of the words, or a list of values */
    MANY,         /* a list of values */
    OBJECT,       /* a mapping: the rows of the section */
    OBJECTS,      /* a list of them */
    NAMED,        /* a mapping of names to them */
};

struct notation {
    const char *form;
    enum shape shape;
    const char *types, *pattern; /* of a value; pattern NULL: that of components */
    uint64_t min, max;           /* of a value that is a number; max 0: any */
    const char *words;           /* JSON: what an editor offers beside the pattern, or NULL */
    bool not_empty;              /* lists */
    const char *each;            /* lists: the form of a value */
};

#define METHODS "[\"GET\", \"HEAD\", \"POST\", \"PUT\", \"DELETE\", \"OPTIONS\", \"TRACE\", \"PATCH\"]"

static const struct notation notations[] = {
    {.form = "mapping", .shape = OBJECT},
    {.form = "list", .shape = OBJECTS},
    {.form = "mapping of names", .shape = NAMED},
    {.form = "host:port, [IPv6]:port or unix:/path", .types = STRING, .pattern = "^unix:/|^" HOST PORT "$" OR},
    {.form = "http://host[:port], https://host[:port] or http+unix:/path",
     .types = STRING,
     .pattern = "^[Hh][Tt][Tt][Pp][Ss]?://" HOST "(" PORT ")?/?$|^[Hh][Tt][Tt][Pp]\\+[Uu][Nn][Ii][Xx]:/([^/]|$)" OR},
    {.form = "pass or a name", .types = STRING, .pattern = "^" HOST "(" PORT ")?$" OR},
    {.form = "host name", .types = STRING, .pattern = "^[A-Za-z0-9._-]+$" OR},
    {.form = "host or *.host", .types = STRING, .pattern = "^(\\*\\.)?" HOST "(" PORT ")?$" OR},
    {.form = "as for chmod", .types = NUMBER_OR, .pattern = "^0?[0-7]{3}$" OR, .max = 777},
    {.form = "auto or 1 to 1024", .types = NUMBER_OR, .pattern = "^auto$" OR, .min = 1, .max = 1024},
    {.form = "file", .types = ANY, .pattern = "^([^$]|\\$\\$" OR ")+$"},
    {.form = "directory", .types = ANY, .pattern = "^([^$]|\\$\\$" OR ")+$"},
    {.form = "name", .types = ANY, .pattern = NAME OR},
    {.form = "name of an upstream", .types = ANY, .pattern = NAME OR},
    {.form = "name of a preset", .shape = PRESET},
    {.form = "header name", .types = ANY, .pattern = "^" TOKEN "$" OR},
    {.form = "list of header names", .shape = MANY, .types = ANY, .pattern = "^" TOKEN "$" OR, .each = "a header name"},
    {.form = "list of methods",
     .shape = MANY,
     .types = STRING,
     .pattern = "^[A-Z][A-Z-]*$" OR,
     .words = METHODS,
     .not_empty = true,
     .each = "a method such as POST"},
    {.form = "pattern", .types = STRING, .pattern = "^/([^?#\\s*]*/)?(\\*\\*|[^?#\\s*]*)$" OR},
    {.form = "template", .types = STRING, .pattern = "^/[^#]*\\{(key\\}|path:|json:/|header:)" OR},
    {.form = "component", .types = STRING},
    {.form = "list of components",
     .shape = MANY,
     .types = STRING,
     .not_empty = true,
     .each = "a component such as header:X-Id"},
    {.form = "auto or list of components",
     .shape = WORD_OR_MANY,
     .types = STRING,
     .words = "[\"auto\"]",
     .each = "a component such as header:X-Id"},
    {.form = "body, json, none or list of components",
     .shape = WORD_OR_MANY,
     .types = STRING,
     .words = "[\"body\", \"json\", \"none\"]",
     .not_empty = true,
     .each = "a component such as header:X-Id"},
    {.form = "list of json:/POINTER",
     .shape = MANY,
     .types = STRING,
     .pattern = "^json:(/([^/~]|~[01])*)+$" OR,
     .each = "json:/POINTER"},
    {.form = "list of statuses and classes",
     .shape = MANY,
     .types = NUMBER_OR,
     .pattern = "^[2-9]([0-9][0-9]|xx)(\\+retry-after)?$" OR,
     .min = 200,
     .max = 999,
     .each = "a status such as 409, 409+retry-after or a class such as 5xx"},
    {.form = "list of origins",
     .shape = MANY,
     .types = STRING,
     .pattern = "^(?!http:.*:80$|https:.*:443$)[a-z0-9+._~%-]+://[a-z0-9+._~%:\\[\\]-]+$" OR,
     .each = "an origin such as https://app.example"},
};

static const struct notation *notation_of(const char *form)
{
    for (size_t i = 0; i < COUNT(notations); i++)
        if (strcmp(notations[i].form, form) == 0)
            return &notations[i];
    assert(false && "every form of a setting has its row");
    return NULL;
}

/* ---- values ----------------------------------------------------------------------------------- */

static void one_of_these_or_variable(struct json *json, const char *words, const char *pattern)
{
    member(json, "anyOf");
    begin(json, '[');
    next(json);
    fprintf(json->out, "{\"enum\": %s}", words);
    next(json);
    fputs("{\"type\": \"string\", \"pattern\": ", json->out);
    write_string(pattern, json->out);
    fputc('}', json->out);
    end(json, ']');
}

static char *component_pattern(void)
{
    char *text = NULL;
    size_t size;
    FILE *out = must_allocate(open_memstream(&text, &size));
    fputs("^(", out);
    component_print_pattern(out);
    fputs(")$" OR, out);
    fclose(out);
    return text;
}

/* The members that say what one value is. */
static void write_one(struct json *json, const struct notation *notation, const char *expected)
{
    if (notation->words && notation->shape != WORD_OR_MANY) {
        one_of_these_or_variable(json, notation->words, notation->pattern);
        return;
    }
    char *components = notation->pattern ? NULL : component_pattern();
    member_json(json, "type", notation->types);
    if (notation->max) {
        member_number(json, "minimum", notation->min);
        member_number(json, "maximum", notation->max);
    }
    member_pattern(json, components ? components : notation->pattern, expected);
    free(components);
}

static void write_many(struct json *json, const struct notation *notation)
{
    member_text(json, "type", "array");
    if (notation->not_empty)
        member_number(json, "minItems", 1);
    member(json, "items");
    begin(json, '{');
    write_one(json, notation, notation->each);
    end(json, '}');
}

static void write_word_or_many(struct json *json, const struct notation *notation)
{
    member(json, "anyOf");
    begin(json, '[');
    next(json);
    fprintf(json->out, "{\"enum\": %s}", notation->words);
    next(json);
    begin(json, '{');
    write_many(json, notation);
    end(json, '}');
    next(json);
    begin(json, '{');
    member_text(json, "type", "string");
    member_text(json, "pattern", VARIABLE);
    end(json, '}');
    end(json, ']');
}

static char *preset_names(void)
{
    char *text = NULL;
    size_t size;
    FILE *out = must_allocate(open_memstream(&text, &size));
    for (size_t i = 0; i < preset_count; i++)
        fprintf(out, "%s\"%s\"", i ? ", " : "[", presets[i].name);
    fputc(']', out);
    fclose(out);
    return text;
}

static char *choice_names(const struct choice *choices)
{
    char *text = NULL;
    size_t size;
    FILE *out = must_allocate(open_memstream(&text, &size));
    for (const struct choice *choice = choices; choice->name; choice++)
        fprintf(out, "%s\"%s\"", choice == choices ? "[" : ", ", choice->name);
    fputc(']', out);
    fclose(out);
    return text;
}

static void write_words(struct json *json, char *words)
{
    one_of_these_or_variable(json, words, VARIABLE);
    free(words);
}

static void member_setting_pattern(struct json *json, const struct setting *setting, const char *pattern)
{
    char expected[200];
    setting_describe(setting, expected, sizeof expected);
    member_pattern(json, pattern, expected);
}

/* Digits and a unit; where 0 is too little, no 0. Other limits are only told by `einmal check`. */
static void write_with_unit(struct json *json, const struct setting *setting, void (*print_units)(FILE *out),
                            const char *or_else)
{
    char *pattern = NULL;
    size_t size;
    FILE *out = must_allocate(open_memstream(&pattern, &size));
    fputs(setting->min ? "^[1-9][0-9]*(" : "^(0|[1-9][0-9]*)(", out);
    print_units(out);
    fprintf(out, ")$%s" OR, or_else);
    fclose(out);
    member_setting_pattern(json, setting, pattern);
    free(pattern);
}

static void write_number(struct json *json, const struct setting *setting)
{
    member_json(json, "type", NUMBER_OR);
    member_number(json, "minimum", setting->min);
    member_number(json, "maximum", setting->max);
}

/* ---- settings --------------------------------------------------------------------------------- */

static void write_section(struct json *json, const struct section *section, bool fixed);

static void write_named(struct json *json, const struct section *section, bool fixed)
{
    member_text(json, "type", "object");
    member_number(json, "minProperties", 1);
    member_json(json, "additionalProperties", "false");
    member(json, "patternProperties");
    begin(json, '{');
    member(json, NAME);
    begin(json, '{');
    write_section(json, section, fixed);
    end(json, '}');
    end(json, '}');
}

/* A list that is not empty by default has no meaning when it is. */
static void write_objects(struct json *json, const struct setting *setting, bool fixed)
{
    member_text(json, "type", "array");
    if (strcmp(setting->standard, "[]") != 0)
        member_number(json, "minItems", 1);
    member(json, "items");
    begin(json, '{');
    write_section(json, setting->section, fixed);
    end(json, '}');
}

static void write_own(struct json *json, const struct setting *setting, bool fixed)
{
    const struct notation *notation = notation_of(setting->form);
    switch (notation->shape) {
    case ONE:
        write_one(json, notation, setting->form);
        break;
    case PRESET:
        write_words(json, preset_names());
        break;
    case MANY:
        write_many(json, notation);
        break;
    case WORD_OR_MANY:
        write_word_or_many(json, notation);
        break;
    case OBJECT:
        write_section(json, setting->section, fixed);
        break;
    case OBJECTS:
        write_objects(json, setting, fixed);
        break;
    case NAMED:
        write_named(json, setting->section, fixed);
        break;
    }
}

static void write_value(struct json *json, const struct setting *setting, bool fixed)
{
    switch (setting->type) {
    case SETTING_BOOL:
        member_json(json, "type", "[\"boolean\", \"string\"]");
        member_setting_pattern(json, setting, VARIABLE);
        break;
    case SETTING_NUMBER:
        write_number(json, setting);
        member_setting_pattern(json, setting, VARIABLE);
        break;
    case SETTING_SIZE:
    case SETTING_SIZE32:
        write_number(json, setting);
        write_with_unit(json, setting, scalar_print_size_units, "");
        break;
    case SETTING_DURATION:
    case SETTING_DURATION_NEVER:
        member_text(json, "type", "string");
        write_with_unit(json, setting, scalar_print_duration_units,
                        setting->type == SETTING_DURATION_NEVER ? "|^never$" : "");
        break;
    case SETTING_CHOICE:
    case SETTING_CHOICE_BOOL:
        write_words(json, choice_names(setting->choices));
        break;
    case SETTING_SECTION:
        write_section(json, setting->section, fixed);
        break;
    case SETTING_OWN:
        write_own(json, setting, fixed);
        break;
    }
}

/* "path and query of a request. A size from 64 to 1MiB; default 8KiB; a change needs a restart." */
static void write_description(struct json *json, const struct setting *setting, bool fixed)
{
    char *text = NULL, form[200];
    size_t size;
    FILE *out = must_allocate(open_memstream(&text, &size));
    setting_describe(setting, form, sizeof form);
    fprintf(out, "%s (%s", setting->text, form);
    if (setting->otherwise)
        fprintf(out, "; default %s", setting->otherwise);
    if (fixed && setting->type != SETTING_SECTION)
        fputs("; a change needs a restart", out);
    fputc(')', out);
    fclose(out);
    member_text(json, "description", text);
    free(text);
}

/* ---- defaults --------------------------------------------------------------------------------- */

/* Numbers and booleans as such; 0660 is neither. */
static bool is_json_word(const yaml_node_t *scalar)
{
    const char *text = (const char *)scalar->data.scalar.value;
    uint64_t number;
    return scalar->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (strcmp(text, "true") == 0 || strcmp(text, "false") == 0 || scalar_number(text, &number));
}

static void write_node(yaml_document_t *document, const yaml_node_t *node, FILE *out)
{
    const char *before = "";
    switch (node->type) {
    case YAML_NO_NODE:
        break;
    case YAML_SCALAR_NODE:
        if (is_json_word(node))
            fputs((const char *)node->data.scalar.value, out);
        else
            write_string((const char *)node->data.scalar.value, out);
        break;
    case YAML_SEQUENCE_NODE:
        fputc('[', out);
        for (yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++) {
            fputs(before, out);
            write_node(document, yaml_document_get_node(document, *item), out);
            before = ", ";
        }
        fputc(']', out);
        break;
    case YAML_MAPPING_NODE:
        fputc('{', out);
        for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++) {
            fputs(before, out);
            write_node(document, yaml_document_get_node(document, pair->key), out);
            fputs(": ", out);
            write_node(document, yaml_document_get_node(document, pair->value), out);
            before = ", ";
        }
        fputc('}', out);
        break;
    }
}

static void write_default(struct json *json, const struct setting *setting)
{
    yaml_document_t document;
    struct report report = {.name = setting->name};
    if (!setting->standard || strcmp(setting->standard, "{}") == 0)
        return;
    bool loaded = document_load(&document, setting->standard, strlen(setting->standard), &report);
    assert(loaded && report.count == 0);
    member(json, "default");
    write_node(&document, yaml_document_get_root_node(&document), json->out);
    yaml_document_delete(&document);
}

/* ---- the whole -------------------------------------------------------------------------------- */

static void write_required(struct json *json, const struct section *section)
{
    bool any = false;
    for (size_t i = 0; i < section->count; i++) {
        if (!(section->settings[i].flags & SETTING_REQUIRED))
            continue;
        if (!any)
            member(json, "required");
        fputs(any ? ", " : "[", json->out);
        write_string(setting_key(&section->settings[i]), json->out);
        any = true;
    }
    if (any)
        fputc(']', json->out);
}

static void write_section(struct json *json, const struct section *section, bool fixed)
{
    member_text(json, "type", "object");
    member_json(json, "additionalProperties", "false");
    write_required(json, section);
    if (section == &key_section) { /* alternatives are items of their own */
        member_number(json, "minProperties", 1);
        member_number(json, "maxProperties", 1);
    }
    member(json, "properties");
    begin(json, '{');
    for (size_t i = 0; i < section->count; i++) {
        const struct setting *setting = &section->settings[i];
        bool is_fixed = setting_is_fixed(setting, fixed);
        member(json, setting_key(setting));
        begin(json, '{');
        write_description(json, setting, is_fixed);
        write_default(json, setting);
        write_value(json, setting, is_fixed);
        end(json, '}');
    }
    end(json, '}');
}

void conf_write_json_schema(FILE *out)
{
    struct json json = {.out = out};
    begin(&json, '{');
    member_text(&json, "$schema", "http://json-schema.org/draft-07/schema#");
    member_text(&json, "title", "einmal.yaml");
    member_text(
        &json, "description",
        "configuration of einmal. What this schema accepts may still be refused: `einmal check -c FILE` has the "
        "last word");
    write_section(&json, &root_section, false);
    end(&json, '}');
    fputc('\n', out);
}
