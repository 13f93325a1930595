/*
 * component.h - the notation of components (contract §3, "Components"). Private to conf/.
 */
#pragma once

#include "conf/conf.h"

#include <stdio.h>

/* Names of headers are kept in lower case: case does not count in them and must not change what a key is made of.
 * NULL: fine; else what is wrong, in `why` or a constant. */
const char *component_parse(struct conf *memory, const char *text, struct component *out, char *why, size_t size);
/* As it would stand in a file. */
void component_print(const struct component *component, FILE *out);
void component_print_list(const struct component_list *list, FILE *out);
/* Every component as alternatives of a regular expression (ECMA 262), as far as one can tell. */
void component_print_pattern(FILE *out);
