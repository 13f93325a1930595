/*
 * http_grammar.h - private to the HTTP files: llhttp as the second reader of a head.
 */
#pragma once

#include "proxy/http_field.h"

/*
 * Does llhttp (strict) accept this complete head, the empty line included, and read exactly these fields out of it? A
 * head on which two readers disagree is ambiguous, and what is ambiguous is refused.
 */
bool http_grammar_agrees(bool response, struct span head, const struct http_field *fields, size_t field_count);
