/*
 * document.h - the text of a file as a tree of YAML nodes, or messages that say why it is none.
 *
 * What makes YAML treacherous is refused here, so that nobody behind this has to think of it: anchors, aliases and
 * tags, several documents, keys that are no plain names, duplicate keys, deep nesting, what is not UTF-8.
 * Private to conf/.
 */
#pragma once

#include "conf/report.h"

#include <yaml.h>

#define DOCUMENT_MAX_SIZE  (1024 * 1024)
#define DOCUMENT_MAX_DEPTH 32

/* False: there is no tree; the report has at least one error. True: the root is a mapping with distinct names
 * everywhere, or the report has errors that say where not; the caller deletes the document. */
bool document_load(yaml_document_t *document, const char *text, size_t len, struct report *report);

struct place document_place(yaml_mark_t mark);

/* The value of a name in a mapping, or NULL. `key` (may be NULL) gets the node of the name. */
yaml_node_t *document_member(yaml_document_t *document, const yaml_node_t *mapping, const char *name,
                             yaml_node_t **key);
