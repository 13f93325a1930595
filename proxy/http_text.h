/*
 * http_text.h - PURE, private to the HTTP files and headers.c. Classes of bytes (RFC 9110 §5.6.2, RFC 3986) and the
 * scan that finds the next byte that is no plain text.
 */
#pragma once

#include "proxy/span.h"

enum http_char {
    HTTP_CHAR_TOKEN = 1 << 0,  /* tchar */
    HTTP_CHAR_TARGET = 1 << 1, /* what a request target may hold here: visible ASCII but "#" */
    HTTP_CHAR_HOST = 1 << 2,   /* reg-name without "%" and ",": a list is a repeated Host in disguise */
    HTTP_CHAR_DIGIT = 1 << 3,
    HTTP_CHAR_HEX = 1 << 4,
    HTTP_CHAR_REQUEST_ID = 1 << 5, /* contract §7 */
};

extern const uint8_t http_char_classes[256];

static inline bool http_is(char byte, unsigned classes)
{
    return (http_char_classes[(unsigned char)byte] & classes) != 0;
}

/* Is every byte of it of that class? True for nothing. */
static inline bool http_all(struct span text, unsigned classes)
{
    for (size_t i = 0; i < text.len; i++)
        if (!http_is(text.data[i], classes))
            return false;
    return true;
}

/* A token of RFC 9110: at least one tchar. */
static inline bool http_is_token(struct span text)
{
    return text.len > 0 && http_all(text, HTTP_CHAR_TOKEN);
}

/* Is one of the eight bytes at `at` a control character (0x00–0x1F, 0x7F)? */
static inline bool http_word_has_control(const char *at)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = UINT64_C(0x8080808080808080);
    uint64_t word, del;

    memcpy(&word, at, sizeof(word));
    del = word ^ (ones * 0x7F);
    return ((((word - ones * 0x20) & ~word) | ((del - ones) & ~del)) & tops) != 0;
}

/* The same of sixteen bytes, in one register. */
static inline bool http_block_has_control(const char *at)
{
    typedef unsigned char block __attribute__((vector_size(16)));
    block bytes;
    uint64_t halves[2];

    memcpy(&bytes, at, sizeof(bytes));
    bytes = (block)((bytes < 0x20) | (bytes == 0x7F));
    memcpy(halves, &bytes, sizeof(halves));
    return (halves[0] | halves[1]) != 0;
}

/* The first control character in [from, end), or end. */
static inline const char *http_find_control(const char *from, const char *end)
{
    while (end - from >= 16 && !http_block_has_control(from))
        from += 16;
    if (end - from >= 8 && !http_word_has_control(from))
        from += 8;
    while (from < end && (unsigned char)*from >= 0x20 && *from != 0x7F)
        from++;
    return from;
}

/* Is one there? The last block or word may look at bytes again: so nothing but the shortest texts is taken byte by
 * byte. */
static inline bool http_has_control(struct span text)
{
    const char *at = text.data, *end = at + text.len;

    if (text.len >= 16) {
        for (; end - at > 16; at += 16)
            if (http_block_has_control(at))
                return true;
        return http_block_has_control(end - 16);
    }
    if (text.len >= 8)
        return http_word_has_control(at) || http_word_has_control(end - 8);
    return http_find_control(at, end) < end;
}

/* May the text stand in a header field: no CR, LF, NUL (case H05: whatever we write or read back). */
static inline bool http_field_text_clean(struct span text)
{
    const char *end;

    if (text.len == 0 || !http_has_control(text))
        return true;
    end = text.data + text.len;
    for (const char *at = text.data; (at = http_find_control(at, end)) < end; at++)
        if (*at == '\r' || *at == '\n' || *at == '\0')
            return false;
    return true;
}

/* Takes the next member of a comma-separated list (RFC 9110 §5.6.1) off the front of *list; empty members are skipped.
 * False: no more. */
static inline bool http_next_member(struct span *list, struct span *member)
{
    while (list->len) {
        const char *comma = memchr(list->data, ',', list->len);
        size_t len = comma ? (size_t)(comma - list->data) : list->len;
        size_t used = comma ? len + 1 : len;

        *member = span_trim((struct span){list->data, len});
        list->data += used;
        list->len -= used;
        if (member->len)
            return true;
    }
    return false;
}
