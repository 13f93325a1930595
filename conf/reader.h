/*
 * reader.h - reads a YAML tree by the rows of schema.c. Private to conf/.
 *
 * Every function that meets something wrong reports it with its place and goes on, so that one run tells all errors.
 */
#pragma once

#include "conf/document.h"
#include "conf/memory.h"
#include "conf/setting.h"

struct reader {
    struct conf *conf;
    struct report *report;
    yaml_document_t *document;     /* that nodes are looked up in: the file's or a default's */
    conf_environment *environment; /* NULL: no ${NAME} is replaced */
    void *environment_arg;
    bool in_default;   /* a default is read: its nodes have no place in the file */
    struct place near; /* the mapping that a default belongs to; where messages about it point */
    char path[200];    /* of what is read, for messages: "routes[0].key" */
    size_t path_len;
    struct conf_route *route;    /* that is read, for what depends on other parts of it; else NULL */
    yaml_document_t *presets[2]; /* that the route rests on, its sender's and what is common; NULL: none (presets.h) */
    size_t route_path_len;       /* of `path`, the part that names the route; with presets */
    bool path_is_wrong;          /* match.path of that route: nothing follows from its names */
};

/* A scalar after ${NAME}. */
struct scalar {
    const char *text; /* lives as long as the configuration */
    bool is_string;   /* quoted, so no number or boolean; what came from the environment has no quotes */
};

struct place reader_place(const struct reader *reader, const yaml_node_t *node);
void reader_error(struct reader *reader, const yaml_node_t *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void reader_warn_at(struct reader *reader, struct place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds to the path ("name", or "[3]"); gives back what reader_leave wants. */
size_t reader_enter(struct reader *reader, const char *name);
size_t reader_enter_item(struct reader *reader, size_t index);
void reader_leave(struct reader *reader, size_t path_len);

/* `expected` completes "expected …". False: reported. */
bool reader_scalar(struct reader *reader, const yaml_node_t *node, const char *expected, struct scalar *scalar);
bool reader_sequence(struct reader *reader, const yaml_node_t *node, const char *expected);
bool reader_mapping(struct reader *reader, const yaml_node_t *node, const char *expected);
bool reader_bool(struct reader *reader, const yaml_node_t *node, bool *value);
/* The value among `choices`; false: reported. `or_else` ("" or " or a list …") completes the message. */
bool reader_choice(struct reader *reader, const yaml_node_t *node, const struct choice *choices, const char *or_else,
                   int *value);
/* Reads every setting of the section, sets defaults, reports unknown names. */
void reader_section(struct reader *reader, const struct section *section, const yaml_node_t *node, void *target);

static inline size_t reader_count(const yaml_node_t *sequence)
{
    return (size_t)(sequence->data.sequence.items.top - sequence->data.sequence.items.start);
}

static inline yaml_node_t *reader_item(const struct reader *reader, const yaml_node_t *sequence, size_t index)
{
    return yaml_document_get_node(reader->document, sequence->data.sequence.items.start[index]);
}

/* "(did you mean 'x'?)" or "" into text. */
void reader_suggest(char *text, size_t size, const char *word, const char *const *words, size_t count);
