/*
 * command_record.h - recorded actions as the admin interface tells of them (JSON, contract §8), shown to people.
 * Private to the command line.
 */
#pragma once

#include "proxy/control.h"
#include "proxy/json.h"
#include "proxy/json_text.h"
#include "proxy/json_walk.h"
#include "proxy/table.h"

#define ACTION_ID_TEXT 65

/* What the pointer names, as a text of one's own: of a string its characters, else as it is written. NULL: null, or not
 * there. */
char *record_text(struct span json, const char *pointer);
void record_cell(struct table *table, struct span action, const char *pointer, size_t columns);
/* How long it has been in its state. */
void record_age(struct span action, int64_t now_ms, char to[AGE_TEXT]);

/* The answer as it came, with a line end (show NULL), or as `show` prints it. */
void record_print(const struct control_answer *answer, void (*show)(struct span answer, FILE *out));
/* One action, or what was done to it: a member a line. */
void record_show(struct span action, FILE *out);
/* The actions of a task in order, and what may be done next. */
void record_show_task(struct span task, FILE *out);
