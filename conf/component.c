/*
 * component.c - the parts of a request that keys, scopes and fingerprints are made of, as rows.
 *
 * Left out: how a component's value is found in a request (proxy/key.c), and whether the path of a route has the NAME
 * of a path:NAME (check.c).
 */
#include "conf/component.h"

#include "conf/memory.h"
#include "conf/scalar.h"
#include "proxy/json.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum argument { ARGUMENT_NONE, ARGUMENT_TEXT, ARGUMENT_TOKEN, ARGUMENT_HEADER, ARGUMENT_POINTER };

struct component_row {
    const char *name;     /* what comes before the argument; with its colon if it has one */
    const char *argument; /* as the documentation calls it */
    enum argument kind;
    bool needs_body;
};

static const struct component_row rows[] = {
    [COMPONENT_METHOD] = {"method", "", ARGUMENT_NONE, false},
    [COMPONENT_HOST] = {"host", "", ARGUMENT_NONE, false},
    [COMPONENT_PATH] = {"path", "", ARGUMENT_NONE, false},
    [COMPONENT_QUERY] = {"query", "", ARGUMENT_NONE, false},
    [COMPONENT_BODY] = {"body", "", ARGUMENT_NONE, true},
    [COMPONENT_PATH_NAME] = {"path:", "NAME", ARGUMENT_TEXT, false},
    [COMPONENT_QUERY_NAME] = {"query:", "NAME", ARGUMENT_TEXT, false},
    [COMPONENT_HEADER] = {"header:", "NAME", ARGUMENT_HEADER, false},
    [COMPONENT_COOKIE] = {"cookie:", "NAME", ARGUMENT_TOKEN, false},
    [COMPONENT_FORM] = {"form:", "NAME", ARGUMENT_TEXT, true},
    [COMPONENT_JSON] = {"json:", "/POINTER", ARGUMENT_POINTER, true},
    [COMPONENT_TLS_SUBJECT] = {"tls:subject", "", ARGUMENT_NONE, false},
    [COMPONENT_TLS_FINGERPRINT] = {"tls:fingerprint", "", ARGUMENT_NONE, false},
    [COMPONENT_LITERAL] = {"literal:", "TEXT", ARGUMENT_TEXT, false},
};

bool component_needs_body(const struct component *component)
{
    return rows[component->kind].needs_body;
}

static const struct component_row *find_row(const char *text)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t len = strlen(rows[i].name);
        bool found =
            rows[i].kind == ARGUMENT_NONE ? strcmp(text, rows[i].name) == 0 : strncmp(text, rows[i].name, len) == 0;
        if (found)
            return &rows[i];
    }
    return NULL;
}

/* Compares up to and with the colon, so that a long argument does not hide the slip before it. */
static const char *explain_unknown(const char *text, char *why, size_t size)
{
    const char *names[COUNT(rows)];
    char kind[64];
    const char *colon = strchr(text, ':');
    for (size_t i = 0; i < COUNT(rows); i++)
        names[i] = rows[i].name;
    snprintf(kind, sizeof kind, "%.*s", colon ? (int)(colon + 1 - text) : (int)strlen(text), text);
    const char *nearest = scalar_nearest(kind, names, COUNT(rows));
    if (!nearest)
        nearest = scalar_nearest(text, names, COUNT(rows));
    const struct component_row *row = nearest ? find_row(nearest) : NULL;
    if (row)
        snprintf(why, size, "unknown component '%s' (did you mean '%s%s'?)", text, row->name, row->argument);
    else
        snprintf(why, size, "unknown component '%s'", text);
    return why;
}

static const char *check_argument(const struct component_row *row, const char *argument, char *why, size_t size)
{
    switch (row->kind) {
    case ARGUMENT_NONE:
        return NULL;
    case ARGUMENT_TEXT:
        if (*argument)
            return NULL;
        snprintf(why, size, "expected %s%s", row->name, row->argument);
        return why;
    case ARGUMENT_TOKEN:
    case ARGUMENT_HEADER:
        if (scalar_is_token(argument))
            return NULL;
        snprintf(why, size, "'%s' is no name of a %.*s", argument, (int)strlen(row->name) - 1, row->name);
        return why;
    case ARGUMENT_POINTER:
        if (*argument && json_pointer_valid(argument))
            return NULL;
        snprintf(why, size, "'%s' is no JSON pointer: it begins with /, and ~ stands only in ~0 and ~1", argument);
        return why;
    }
    abort();
}

const char *component_parse(struct conf *memory, const char *text, struct component *out, char *why, size_t size)
{
    const struct component_row *row = find_row(text);
    if (!row)
        return explain_unknown(text, why, size);
    const char *argument = text + strlen(row->name);
    out->kind = (enum component_kind)(row - rows);
    out->argument = conf_copy(memory, argument, strlen(argument));
    if (row->kind == ARGUMENT_HEADER)
        for (char *c = out->argument; *c; c++)
            if (*c >= 'A' && *c <= 'Z')
                *c = (char)(*c | 0x20);
    return check_argument(row, argument, why, size);
}

void component_print(const struct component *component, FILE *out)
{
    fprintf(out, "%s%s", rows[component->kind].name, component->argument);
}

void component_print_list(const struct component_list *list, FILE *out)
{
    fputc('[', out);
    for (size_t i = 0; i < list->count; i++) {
        fputs(i ? ", " : "", out);
        component_print(&list->items[i], out);
    }
    fputc(']', out);
}

/* A dollar stands doubled in a file, so a name of a header has none that is alone. */
static const char *argument_pattern(enum argument kind)
{
    static const char token[] = "([!#%&'*+.^_`|~0-9A-Za-z-]|\\$\\$)+";
    switch (kind) {
    case ARGUMENT_NONE:
        return "";
    case ARGUMENT_TEXT:
        return ".+";
    case ARGUMENT_TOKEN:
    case ARGUMENT_HEADER:
        return token;
    case ARGUMENT_POINTER:
        return "(/([^/~]|~[01])*)+";
    }
    abort();
}

void component_print_pattern(FILE *out)
{
    for (size_t i = 0; i < COUNT(rows); i++)
        fprintf(out, "%s%s%s", i ? "|" : "", rows[i].name, argument_pattern(rows[i].kind));
}
