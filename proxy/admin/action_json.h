/*
 * action_json.h - PURE. Recorded actions as the JSON of contract §8.
 */
#pragma once

#include "proxy/buffer.h"
#include "store/store.h"

enum action_detail {
    ACTION_LISTED, /* the members of a list */
    ACTION_RESUME, /* and `resume`, for a task */
    ACTION_WHOLE,  /* and `response` and `decision`; no line end */
};
/* Appends one object. */
void action_write(struct buffer *out, const struct store_action *action, enum action_detail detail);
/* ,"name":null or ,"name":"text" (escaped); `name` brings its comma. */
void json_member(struct buffer *out, const char *name, const char *text);
