/*
 * ascii.h - PURE. Letters and digits of ASCII, whatever the locale says.
 */
#pragma once

#include <stdbool.h>

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
