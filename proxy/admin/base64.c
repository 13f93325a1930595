/*
 * base64.c - PURE. The one way to write bytes is the one that is read: two texts never mean the same.
 */
#include "proxy/admin/base64.h"

/* 0–63; 64: no digit. */
static unsigned digit(char c)
{
    if (c >= 'A' && c <= 'Z')
        return (unsigned)(c - 'A');
    if (c >= 'a' && c <= 'z')
        return (unsigned)(c - 'a') + 26;
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0') + 52;
    return c == '+' ? 62 : c == '/' ? 63 : 64;
}

/* Three bytes of four digits; the last group may have two or three and padding. */
static bool decode_group(const char *at, unsigned digits, uint8_t *to)
{
    uint32_t bits = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned value = i < digits ? digit(at[i]) : 0;
        if (value > 63)
            return false;
        bits = bits << 6 | value;
    }
    to[0] = (uint8_t)(bits >> 16);
    to[1] = (uint8_t)(bits >> 8);
    to[2] = (uint8_t)bits;
    return digits == 4 || (digits == 3 && to[2] == 0) || (digits == 2 && to[1] == 0 && to[2] == 0);
}

bool base64_decode(struct span text, struct buffer *out)
{
    if (text.len % 4)
        return false;
    if (text.len == 0)
        return true;
    unsigned padding = 0;
    while (padding < 2 && text.data[text.len - 1 - padding] == '=')
        padding++;
    uint8_t *to = (uint8_t *)buffer_reserve(out, text.len / 4 * 3);
    for (size_t i = 0; i < text.len; i += 4)
        if (!decode_group(text.data + i, i + 4 < text.len ? 4 : 4 - padding, to + i / 4 * 3))
            return false;
    buffer_commit(out, text.len / 4 * 3 - padding);
    return true;
}
