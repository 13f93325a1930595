/*
 * json.h - PURE. JSON pointers (RFC 6901) and a canonical form over exact text (contract §3): strings count unescaped,
 * numbers as written, never through a double. Strict RFC 8259; a duplicate member, a lone surrogate or nesting beyond
 * 128 is invalid.
 */
#pragma once

#include "proxy/buffer.h"

enum json_kind { JSON_ABSENT, JSON_NULL, JSON_TRUE, JSON_FALSE, JSON_NUMBER, JSON_STRING, JSON_OBJECT, JSON_ARRAY };

/* True if the whole text is one valid JSON value (no duplicate member anywhere, names compared unescaped). */
bool json_valid(struct span text);
/* The value that the pointer (a valid one) names. `value` gets the unescaped string, or the text of a number, an object
 * or an array as it stands, appended. False: text invalid. */
bool json_pointer(struct span text, const char *pointer, enum json_kind *kind, struct buffer *value);
/* Syntax of a pointer: "" or "/…" with ~0 and ~1 only. */
bool json_pointer_valid(const char *pointer);
/* Appends the canonical form without what the pointers in `ignore` (NULL-terminated, may be NULL) name. False: invalid,
 * and nothing is appended. */
bool json_canonical(struct span text, char *const *ignore, struct buffer *out);
