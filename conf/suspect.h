/*
 * suspect.h - does a part of a request look as if it changed with every attempt? Private to conf/.
 */
#pragma once

#include "conf/conf.h"

/* What it looks like ("a time"), judged by its name alone; NULL: nothing of the kind. */
const char *suspect_component(const struct component *component);
