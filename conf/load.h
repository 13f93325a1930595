/*
 * load.h - the way in for texts that are no files: tests and the fuzz target. Private to conf/.
 */
#pragma once

#include "conf/conf.h"

/* As conf_load, of the text of a file; `name` stands before messages. */
struct conf *conf_load_text(const char *name, const char *text, size_t len, const struct conf_overrides *overrides,
                            conf_environment *environment, void *environment_arg, FILE *messages);
