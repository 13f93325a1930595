/*
 * json_text.c - PURE. The words of a JSON text.
 *
 * Strings are checked once, when they are taken: control characters, escapes, surrogate pairs, UTF-8. Whatever reads a
 * raw string later relies on that. Two spellings of one string ("a" and "\u0061") say the same bytes; numbers are never
 * more than their text. What json_escape writes is such a string, whatever bytes it is given. Left out: structure,
 * which is json.c's.
 */
#include "proxy/json_text.h"

#include "proxy/ascii.h"

#include <assert.h>

/* ---- characters ------------------------------------------------------------------------------- */

static bool between(unsigned char byte, unsigned low, unsigned high)
{
    return byte >= low && byte <= high;
}

/* The first byte tells the length and how far the second may range: that is what keeps out overlong forms, surrogates
 * and what lies beyond U+10FFFF (table 3-7 of Unicode). */
size_t utf8_length(const char *at, const char *end)
{
    static const struct {
        unsigned char first_low, first_high, second_low, second_high, len;
    } rows[] = {
        {0x00, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
    };
    const unsigned char *bytes = (const unsigned char *)at;
    if (at == end)
        return 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!between(bytes[0], rows[i].first_low, rows[i].first_high))
            continue;
        size_t len = rows[i].len;
        if ((size_t)(end - at) < len || (len > 1 && !between(bytes[1], rows[i].second_low, rows[i].second_high)))
            return 0;
        for (size_t j = 2; j < len; j++)
            if (!between(bytes[j], 0x80, 0xBF))
                return 0;
        return len;
    }
    return 0;
}

static size_t utf8_write(char to[4], uint32_t code)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    size_t len = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, code >>= 6)
        to[i] = (char)(0x80 | (code & 0x3F));
    to[0] = (char)((0xF00u >> len & 0xFF) | code); /* 110xxxxx, 1110xxxx, 11110xxx */
    return len;
}

/* ---- escapes ---------------------------------------------------------------------------------- */

static bool take_unit(struct json_cursor *cursor, uint32_t *unit) /* \uXXXX */
{
    if (cursor->end - cursor->at < 6 || cursor->at[0] != '\\' || cursor->at[1] != 'u')
        return false;
    *unit = 0;
    for (int i = 2; i < 6; i++) {
        int digit = ascii_hex_value(cursor->at[i]);
        if (digit < 0)
            return false;
        *unit = *unit << 4 | (uint32_t)digit;
    }
    cursor->at += 6;
    return true;
}

/* One escape, at its backslash. Surrogates count only as a pair. */
static bool take_escape(struct json_cursor *cursor, uint32_t *code)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (cursor->end - cursor->at < 2)
        return false;
    const char *letter = cursor->at[1] ? strchr(letters, cursor->at[1]) : NULL;
    if (letter) {
        *code = (unsigned char)meanings[letter - letters];
        cursor->at += 2;
        return true;
    }
    uint32_t high, low;
    if (!take_unit(cursor, &high))
        return false;
    if (high < 0xD800 || high > 0xDFFF) {
        *code = high;
        return true;
    }
    if (high > 0xDBFF || !take_unit(cursor, &low) || low < 0xDC00 || low > 0xDFFF)
        return false;
    *code = 0x10000 + ((high - 0xD800) << 10 | (low - 0xDC00));
    return true;
}

/* ---- words ------------------------------------------------------------------------------------ */

static bool is_plain(char byte) /* of a string: says itself */
{
    return (unsigned char)byte >= 0x20 && (unsigned char)byte < 0x80 && byte != '"' && byte != '\\';
}

bool json_take_string(struct json_cursor *cursor, struct span *raw)
{
    if (cursor->at == cursor->end || *cursor->at != '"')
        return false;
    const char *begin = ++cursor->at;
    for (;;) {
        while (cursor->at < cursor->end && is_plain(*cursor->at))
            cursor->at++;
        if (cursor->at == cursor->end)
            return false;
        if (*cursor->at == '"')
            break;
        if (*cursor->at == '\\') {
            uint32_t code;
            if (!take_escape(cursor, &code))
                return false;
        } else {
            size_t len = (unsigned char)*cursor->at < 0x20 ? 0 : utf8_length(cursor->at, cursor->end);
            if (len == 0)
                return false;
            cursor->at += len;
        }
    }
    *raw = (struct span){begin, (size_t)(cursor->at - begin)};
    cursor->at++;
    return true;
}

static bool take_digits(struct json_cursor *cursor)
{
    const char *begin = cursor->at;
    while (cursor->at < cursor->end && ascii_is_digit(*cursor->at))
        cursor->at++;
    return cursor->at > begin;
}

static bool take_one_of(struct json_cursor *cursor, char a, char b)
{
    bool there = cursor->at < cursor->end && (*cursor->at == a || *cursor->at == b);
    if (there)
        cursor->at++;
    return there;
}

bool json_take_number(struct json_cursor *cursor)
{
    take_one_of(cursor, '-', '-');
    if (!take_one_of(cursor, '0', '0') &&
        !take_digits(cursor)) /* what follows a leading zero is no digit: refused later */
        return false;
    if (take_one_of(cursor, '.', '.') && !take_digits(cursor))
        return false;
    if (take_one_of(cursor, 'e', 'E')) {
        take_one_of(cursor, '+', '-');
        return take_digits(cursor);
    }
    return true;
}

bool json_take_literal(struct json_cursor *cursor, struct span literal)
{
    if ((size_t)(cursor->end - cursor->at) < literal.len || memcmp(cursor->at, literal.data, literal.len) != 0)
        return false;
    cursor->at += literal.len;
    return true;
}

/* ---- what a string says ----------------------------------------------------------------------- */

int json_next_byte(struct json_bytes *bytes)
{
    if (bytes->held_used < bytes->held_len)
        return (unsigned char)bytes->held[bytes->held_used++];
    if (bytes->raw.at == bytes->raw.end)
        return -1;
    if (*bytes->raw.at != '\\')
        return (unsigned char)*bytes->raw.at++;
    uint32_t code = 0;
    bool valid = take_escape(&bytes->raw, &code);
    assert(valid); /* json_take_string saw it */
    bytes->held_len = (uint8_t)utf8_write(bytes->held, code);
    bytes->held_used = 1;
    return (unsigned char)bytes->held[0];
}

static bool has_escape(struct span raw)
{
    return raw.len && memchr(raw.data, '\\', raw.len);
}

int json_compare(struct span a, struct span b)
{
    if (!has_escape(a) && !has_escape(b)) {
        size_t shorter = a.len < b.len ? a.len : b.len;
        int order = shorter ? memcmp(a.data, b.data, shorter) : 0;
        return order ? order : (a.len > b.len) - (a.len < b.len);
    }
    struct json_bytes left = json_bytes_of(a), right = json_bytes_of(b);
    int from_left, from_right;
    do {
        from_left = json_next_byte(&left);
        from_right = json_next_byte(&right);
    } while (from_left == from_right && from_left >= 0);
    return from_left - from_right;
}

void json_unescape(struct span raw, struct buffer *out)
{
    if (!has_escape(raw)) {
        buffer_append_span(out, raw);
        return;
    }
    char *begin = buffer_reserve(out, raw.len), *to = begin; /* an escape is longer than what it says */
    struct json_bytes bytes = json_bytes_of(raw);
    for (int byte; (byte = json_next_byte(&bytes)) >= 0;)
        *to++ = (char)byte;
    buffer_commit(out, (size_t)(to - begin));
}

/* Writes what must be escaped so; returns where it ends. */
static char *write_escaped(char *to, int byte)
{
    static const char hex[] = "0123456789abcdef", letters[] = "\"\\bfnrt", meanings[] = "\"\\\b\f\n\r\t";
    const char *meaning = byte ? strchr(meanings, byte) : NULL;
    *to++ = '\\';
    if (meaning) {
        *to++ = letters[meaning - meanings];
        return to;
    }
    memcpy(to, "u00", 3);
    to[3] = hex[byte >> 4];
    to[4] = hex[byte & 15];
    return to + 5;
}

void json_write_string(struct span raw, struct buffer *out)
{
    buffer_append_span(out, SPAN("\""));
    if (!has_escape(raw)) {
        buffer_append_span(out, raw);
    } else {
        char *begin = buffer_reserve(out, raw.len), *to = begin; /* no escape is written longer than it came */
        struct json_bytes bytes = json_bytes_of(raw);
        for (int byte; (byte = json_next_byte(&bytes)) >= 0;) {
            if (byte < 0x20 || byte == '"' || byte == '\\')
                to = write_escaped(to, byte);
            else
                *to++ = (char)byte;
        }
        buffer_commit(out, (size_t)(to - begin));
    }
    buffer_append_span(out, SPAN("\""));
}

/* ---- bytes to a string ------------------------------------------------------------------------ */

/* Bytes that stand for themselves in a JSON string: visible ASCII but two. */
static const bool stands_for_itself[256] = {
    [0x20 ... '"' - 1] = true, ['"' + 1 ... '\\' - 1] = true, ['\\' + 1 ... 0x7E] = true};

/* Appends what stands for the character at `at`, which is none of those; returns where the next one begins. */
static const char *escape_one(struct buffer *out, const char *at, const char *end)
{
    unsigned char byte = (unsigned char)*at;
    size_t len = utf8_length(at, end);
    if (byte == '"' || byte == '\\')
        buffer_append(out, (const char[]){'\\', (char)byte}, 2);
    else if (byte < 0x20 || byte == 0x7F)
        buffer_printf(out, "\\u%04x", byte);
    else if (len > 0)
        buffer_append(out, at, len);
    else
        buffer_append_span(out, SPAN("\\ufffd"));
    return at + (len ? len : 1);
}

void json_escape(struct buffer *out, struct span text)
{
    const char *at = text.data, *end = at + text.len;
    buffer_append(out, "\"", 1);
    while (at < end) {
        const char *plain = at;
        while (at < end && stands_for_itself[(unsigned char)*at])
            at++;
        buffer_append(out, plain, (size_t)(at - plain));
        if (at < end)
            at = escape_one(out, at, end);
    }
    buffer_append(out, "\"", 1);
}
