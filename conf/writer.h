/*
 * writer.h - the effective configuration as YAML that loads again to the same one (`einmal check --print`), by the rows
 * of schema.c. Private to conf/.
 *
 * A row's `write` writes whole lines, "name: value", for what it has a value for; what is absent is written as a
 * comment. Texts that came from a secret variable of the environment stand as they were written, "${NAME}": the value
 * is hidden, and the file still means the same.
 */
#pragma once

#include "conf/setting.h"

struct writer {
    const struct conf *conf;
    FILE *out;
    unsigned depth;
    bool item; /* the next line begins an item of a list */
};

/* Each writes one line under the setting's name. */
void write_text(struct writer *writer, const struct setting *setting, const char *text); /* NULL: absent */
void write_plain(struct writer *writer, const struct setting *setting, const char *format, ...)
    __attribute__((format(printf, 3, 4))); /* numbers and words of ours: never quoted */
void write_duration(struct writer *writer, const struct setting *setting, int64_t milliseconds);
void write_texts(struct writer *writer, const struct setting *setting, char *const *texts); /* NULL-terminated */
void write_component(struct writer *writer, const struct setting *setting, const struct component *component);
void write_components(struct writer *writer, const struct setting *setting, const struct component_list *list);
/* A comment: what holds without the setting. */
void write_absent(struct writer *writer, const struct setting *setting);

/* "name:" and, until writer_close, lines within it. */
void writer_open(struct writer *writer, const char *name);
void writer_item(struct writer *writer); /* the next line begins an item; what follows belongs to it */
void writer_close(struct writer *writer);
/* All rows of the section. */
void writer_section(struct writer *writer, const struct section *section, const void *base);
