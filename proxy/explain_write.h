/*
 * explain_write.h - an explanation for people and for scripts. Private to the command line.
 */
#pragma once

#include "proxy/explain.h"

#include <stdio.h>

void explain_write_text(const struct explanation *explanation, FILE *out);
/* One object (its members: proxy/explain_json.c), appended with a line end. */
void explain_write_json(const struct explanation *explanation, struct buffer *out);

/* ---- what both say ---------------------------------------------------------------------------- */

/* "host", "path", "method", "earlier" or "": why a route does not apply, as a word. */
const char *explain_route_why(enum route_verdict verdict, bool behind);
const char *explain_scope_word(enum key_scope scope);
const char *explain_fingerprint_word(enum conf_fingerprint_kind kind);
const char *explain_class_word(enum status_class class);

/* The runs of statuses 200–599 that mean `class`: "200-306 309". With `retry_after` only those that mean it because
 * the response has Retry-After. `each` is called for every run. */
void explain_statuses(const struct conf_route *route, enum status_class class, bool retry_after,
                      void (*each)(void *arg, unsigned first, unsigned last), void *arg);
