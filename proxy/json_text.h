/*
 * json_text.h - PURE. The words of a JSON text (RFC 8259 §6, §7): strings,
 * numbers, literals, and what a string says when its escapes are resolved.
 *
 * A raw string is what stands between the quotes, and is known to be valid once json_take_string returned it.
 */
#pragma once

#include "proxy/buffer.h"

struct json_cursor {
    const char *at, *end;
};

static inline void json_skip_space(struct json_cursor *cursor)
{
    while (cursor->at < cursor->end &&
           (*cursor->at == ' ' || *cursor->at == '\n' || *cursor->at == '\r' || *cursor->at == '\t'))
        cursor->at++;
}

/* Each takes one word that begins exactly at the cursor and moves behind it. False: there is none; the cursor is then
 * anywhere. */
bool json_take_string(struct json_cursor *cursor, struct span *raw);
bool json_take_number(struct json_cursor *cursor);
bool json_take_literal(struct json_cursor *cursor, struct span literal);

/* The bytes of a raw string with its escapes resolved, one after another. */
struct json_bytes {
    struct json_cursor raw;
    char held[4]; /* the UTF-8 form of the escape that was met last */
    uint8_t held_len, held_used;
};

static inline struct json_bytes json_bytes_of(struct span raw)
{
    return (struct json_bytes){.raw = {raw.data, raw.data + raw.len}};
}

int json_next_byte(struct json_bytes *bytes); /* 0–255; -1: no more */

/* Order of two raw strings by their resolved bytes: <0, 0, >0. */
int json_compare(struct span a, struct span b);
/* Appends the resolved bytes. */
void json_unescape(struct span raw, struct buffer *out);
/* Appends the one form that all spellings of the string share: in quotes, with only the escapes that must be. */
void json_write_string(struct span raw, struct buffer *out);
/* Appends a string of whatever bytes, in quotes: control characters and DEL escaped, what is no UTF-8 as U+FFFD. */
void json_escape(struct buffer *out, struct span text);

/* Length of the UTF-8 sequence that begins at `at` (RFC 3629), 0 if it is none. */
size_t utf8_length(const char *at, const char *end);
