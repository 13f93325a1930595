/*
 * pattern.h - match.path and match.host as text. Private to conf/.
 */
#pragma once

#include "conf/conf.h"

/* NULL: fine; else what is wrong. `why` is room for it. */
const char *pattern_parse_path(struct conf *memory, const char *text, struct conf_match *match, char *why, size_t size);
const char *pattern_parse_host(struct conf *memory, const char *text, struct conf_match *match);
/* Is there a {name} of that name? */
bool pattern_has_name(const struct conf_match *match, const char *name);
bool pattern_has_method(const struct conf_match *match, const char *method);
/* Does `outer` match every host and path that `inner` does? */
bool pattern_covers(const struct conf_match *outer, const struct conf_match *inner);
