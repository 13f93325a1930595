/*
 * setting.h - what a setting is: one row of schema.c, from which reading, defaults, `einmal check`, the comparison at a
 * reload and the reference table in README.md are all made. Private to conf/.
 */
#pragma once

#include "conf/conf.h"

#include <yaml.h>

struct reader;
struct setting;
struct section;
struct writer;

enum setting_type {
    SETTING_BOOL,           /* bool: true or false */
    SETTING_NUMBER,         /* uint32_t, min … max */
    SETTING_SIZE,           /* uint64_t bytes */
    SETTING_SIZE32,         /* uint32_t bytes */
    SETTING_DURATION,       /* int64_t milliseconds */
    SETTING_DURATION_NEVER, /* the same or "never": CONF_FOREVER */
    SETTING_CHOICE,         /* an enum: one of `choices` */
    SETTING_CHOICE_BOOL,    /* the same into a bool */
    SETTING_SECTION,        /* a mapping whose rows are of the same struct */
    SETTING_OWN,            /* `read` knows */
};

struct choice {
    const char *name; /* NULL ends the table */
    int value;
};

enum setting_flag {
    SETTING_REQUIRED = 1,
    SETTING_FIXED = 2,    /* cannot change while running */
    SETTING_RELOADED = 4, /* can, although what it belongs to cannot */
};

/* Fills `target`, which `offset` has been added to, from `node`. Says every error itself. */
typedef void setting_read(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target);
typedef void setting_print(const void *target, FILE *out);
typedef void setting_write(struct writer *writer, const struct setting *setting, const void *target); /* writer.h */
typedef bool setting_same(const void *left, const void *right); /* here without the offset: whole structs */

struct setting {
    const char *name; /* whole: "store.max_size"; what follows the last dot stands in the file */
    enum setting_type type;
    unsigned flags;
    size_t offset;
    uint64_t min, max;
    const struct choice *choices;
    const struct section *section; /* SECTION; OWN: names and documentation of what is inside, or NULL */
    setting_read *read;
    setting_print *print;
    setting_write *write; /* OWN: NULL writes nothing. SECTION: NULL writes its rows */
    setting_same *same;
    const char *standard;  /* the default, as it would stand in the file; NULL: none */
    const char *otherwise; /* what holds without it, where `standard` cannot say it */
    const char *form;      /* OWN: what to write, for the reference */
    const char *text;
};

struct section {
    const char *name; /* as rows begin: "routes[]"; "" for the root */
    const struct setting *settings;
    size_t count;
};

extern const struct section root_section, listen_section, upstream_section, route_section, key_section,
    statuses_section, probe_section;

/* The part of the name that stands in the file. */
const char *setting_key(const struct setting *setting);
/* Type and range in words, for the reference and for messages. */
void setting_describe(const struct setting *setting, char *text, size_t size);
/* Does a change of it need a restart? What holds for a list or mapping as a whole (`outer`) holds for all in it. */
bool setting_is_fixed(const struct setting *setting, bool outer);
/* The value of a setting that is no section, as it would stand in a file or as `print` says it. */
void setting_print_value(const struct setting *setting, const void *base, FILE *out);
/* The table of README.md. */
void conf_write_reference(FILE *out);
/* The settings of einmal.yaml(5), mdoc. */
void conf_write_manual(FILE *out);
/* einmal.schema.json, for editors. */
void conf_write_json_schema(FILE *out);
