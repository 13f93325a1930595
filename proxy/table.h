/*
 * table.h - PURE. Tables, ages and sizes for people at a terminal. Private to the command line.
 *
 * Whatever comes from records is cleaned before it is shown: a key or a task is any text that a client sent, and must
 * not steer the terminal of who looks at it.
 */
#pragma once

#include "proxy/span.h"

#include <stdio.h>

/* ---- words ------------------------------------------------------------------------------------ */

#define AGE_TEXT 32
/* "0s" … "59s", "1m" … "59m", "1h" … "47h", "2d" …; of a time to come "0s". */
void age_text(int64_t milliseconds, char to[AGE_TEXT]);
#define SIZE_TEXT 32
/* "17 bytes", "1.4 KiB", "23 MiB". */
void size_text(uint64_t bytes, char to[SIZE_TEXT]);
/* Milliseconds since 1970 of "2026-12-02T22:40:09.123Z" (with or without the fraction). False: it is none. */
bool time_of_text(struct span text, int64_t *ms);
/* Appends at most `columns` characters of it, the last one "…" where it is longer (0: all). What a terminal would obey
 * and what is no UTF-8 becomes "?". Returns how many characters it takes. */
size_t clean_text(struct span text, size_t columns, FILE *out);

/* ---- tables ----------------------------------------------------------------------------------- */

#define TABLE_MAX_COLUMNS 12

struct table {
    FILE *out;
    const char *const *titles;       /* as many as there are columns; NULL-terminated */
    size_t width[TABLE_MAX_COLUMNS]; /* so far: columns never get narrower */
    char **cells;                    /* of the rows that wait */
    size_t count, capacity;
    bool begun; /* the titles are printed */
};

/* The next cell, left to right; copied and cleaned. `columns` as of clean_text. NULL: "-". */
void table_add(struct table *table, const char *text, size_t columns);
/* Prints the rows that are complete; before the first ones the titles. */
void table_flush(struct table *table);
void table_free(struct table *table); /* what waits is dropped */
