/*
 * scalar.h - the small notations: sizes, durations, numbers, names. PURE; private to conf/ and the command
 * line.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Decimal digits only: no sign, no leading zero, nothing that YAML would take for octal. */
bool scalar_number(const char *text, uint64_t *value);
bool scalar_size(const char *text, uint64_t *bytes);           /* 65536, 64KiB, 10MB */
bool scalar_duration(const char *text, int64_t *milliseconds); /* 250ms, 2s, 5m, 24h, 7d */

/* The same back, in the largest unit that is exact. */
void scalar_print_size(uint64_t bytes, FILE *out);
void scalar_print_duration(int64_t milliseconds, FILE *out); /* CONF_FOREVER: never */
/* The units as alternatives of a regular expression; one of sizes is the empty one. */
void scalar_print_size_units(FILE *out);
void scalar_print_duration_units(FILE *out);

/* A name that appears in logs and metrics: 1–64 of A–Z a–z 0–9 . _ -, beginning with a letter, a digit or "_". */
bool scalar_is_name(const char *text);
bool scalar_is_token(const char *text); /* RFC 9110 §5.6.2: header names */

/* The nearest of `count` words if it is near enough to be what was meant, or NULL. */
const char *scalar_nearest(const char *word, const char *const *words, size_t count);
