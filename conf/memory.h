/*
 * memory.h - all that a configuration owns comes from its own blocks and goes with it, in one sweep. So no reader frees
 * anything, whether the file turns out valid or not. Private to conf/.
 */
#pragma once

#include "conf/conf.h"

/* An empty configuration with one reference; conf_unref gives it back. */
struct conf *conf_new(void);
/* Zeroed memory that lives as long as `conf`. */
void *conf_allocate(struct conf *conf, size_t size);
char *conf_copy(struct conf *conf, const char *text, size_t len);
/* `text`, which lives as long as `conf`, is never printed but as it is `written`. */
void conf_hide(struct conf *conf, const char *text, const char *written);

#define CONF_NEW_ARRAY(conf, type, count) ((type *)conf_allocate((conf), (count) * sizeof(type)))
