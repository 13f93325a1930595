/*
 * http_text.c - PURE. The table of byte classes: one look-up tells what a byte may be part of.
 */
#include "proxy/http_text.h"

#define T HTTP_CHAR_TOKEN
#define G HTTP_CHAR_TARGET
#define H HTTP_CHAR_HOST
#define D HTTP_CHAR_DIGIT
#define X HTTP_CHAR_HEX
#define I HTTP_CHAR_REQUEST_ID

/* A target is wider than RFC 3986 on purpose: browsers send | { } ^ ` " < > \ as they are, and legacy APIs live with
 * it. */
const uint8_t http_char_classes[256] = {
    ['0' ... '9'] = T | G | H | D | X | I,
    ['A' ... 'F'] = T | G | H | X | I,
    ['G' ... 'Z'] = T | G | H | I,
    ['a' ... 'f'] = T | G | H | X | I,
    ['g' ... 'z'] = T | G | H | I,
    ['!'] = T | G | H,
    ['"'] = G,
    ['#'] = T,
    ['$'] = T | G | H,
    ['%'] = T | G,
    ['&'] = T | G | H,
    ['\''] = T | G | H,
    ['('] = G | H,
    [')'] = G | H,
    ['*'] = T | G | H,
    ['+'] = T | G | H | I,
    [','] = G,
    ['-'] = T | G | H | I,
    ['.'] = T | G | H | I,
    ['/'] = G | I,
    [':'] = G | I,
    [';'] = G | H,
    ['<'] = G,
    ['='] = G | H | I,
    ['>'] = G,
    ['?'] = G,
    ['@'] = G,
    ['['] = G,
    ['\\'] = G,
    [']'] = G,
    ['^'] = T | G,
    ['_'] = T | G | H | I,
    ['`'] = T | G,
    ['{'] = G,
    ['|'] = T | G,
    ['}'] = G,
    ['~'] = T | G | H | I,
};
