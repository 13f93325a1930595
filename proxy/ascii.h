/*
 * ascii.h - PURE. Letters and digits of ASCII, whatever the locale says.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline bool ascii_is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static inline char ascii_lower(char byte)
{
    return (char)(byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte);
}

/* 0–15; -1: no hexadecimal digit. */
static inline int ascii_hex_value(char digit)
{
    char lower = ascii_lower(digit);
    return ascii_is_digit(digit) ? digit - '0' : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* The byte that %XX at the start of these bytes stands for; -1 where there is none. */
static inline int ascii_percent_value(const char *at, unsigned long len)
{
    if (len < 3 || at[0] != '%')
        return -1;
    int high = ascii_hex_value(at[1]), low = ascii_hex_value(at[2]);
    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* Four bytes as eight lower-case digits, all at once: a lane of sixteen bits for each byte, its halves in the lane's
 * two bytes, and 39 = 'a' - '9' - 1 more where a half is above 9. */
static inline void ascii_hex(char to[8], const uint8_t bytes[4])
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap32(word);
#endif
    uint64_t lanes = word;
    lanes = (lanes | lanes << 16) & UINT64_C(0x0000ffff0000ffff);
    lanes = (lanes | lanes << 8) & UINT64_C(0x00ff00ff00ff00ff);
    lanes = (lanes >> 4 | lanes << 8) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    lanes += UINT64_C(0x3030303030303030) +
             (((lanes + UINT64_C(0x0606060606060606)) >> 4) & UINT64_C(0x0101010101010101)) * 39;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    lanes = __builtin_bswap64(lanes);
#endif
    memcpy(to, &lanes, sizeof lanes);
}

/* The same of `len` bytes, a multiple of four, and a NUL behind them: `to` holds 2 * len + 1. */
static inline void ascii_hex_text(char *to, const uint8_t *bytes, unsigned long len)
{
    for (unsigned long i = 0; i < len; i += 4)
        ascii_hex(to + 2 * i, bytes + i);
    to[2 * len] = '\0';
}
