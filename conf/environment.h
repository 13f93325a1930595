/*
 * environment.h - ${NAME} and ${NAME:-default} in a value. Private to conf/.
 */
#pragma once

#include "conf/conf.h"

/* The text with everything replaced; "$$" is a dollar. NULL: *why says what is wrong. Both are the caller's to free. */
char *environment_expand(const char *text, conf_environment *environment, void *arg, char **why);
/* Does a variable go into the text whose name says that its value is secret? */
bool environment_is_secret(const char *text);
