/*
 * presets.h - named rules for known senders (contract §6). Private to conf/.
 *
 * They are data: presets/NAME.yaml holds what a route would say for that sender, presets/common.yaml what all of them
 * say. The route's own settings count before the sender's, those before what is common, and that before the defaults;
 * each setting for itself, so that a route that changes one list of statuses keeps the others.
 */
#pragma once

#include "conf/reader.h"

struct preset {
    const char *name;
    const unsigned char *text; /* YAML */
    size_t len;
};

extern const struct preset presets[]; /* made from the files, in the order of their names */
extern const size_t preset_count;
extern const struct preset preset_common;

/* From here on the route that is read (reader->path is its own) rests on this preset, until preset_end. */
void preset_begin(struct reader *reader, const struct preset *preset);
void preset_end(struct reader *reader); /* also where none was begun */
/* What the preset says for the setting at reader->path, or NULL; *document gets whose node it is. */
const yaml_node_t *preset_value(const struct reader *reader, yaml_document_t **document);
