/*
 * roff.h - PURE. Text for manual pages: what roff(7) would take for a request, an escape or a punctuation of its own is
 * escaped.
 */
#pragma once

#include <stdio.h>

/* A paragraph's text, each sentence on a line of its own, with a line end. */
void roff_text(const char *text, FILE *out);
/* The rest of a macro line, and its end; words that are macros are none here. */
void roff_line(const char *text, FILE *out);
/* One argument of a macro line. */
void roff_argument(const char *text, FILE *out);
