/*
 * test_ascii.c - eight digits at once against printf, which writes them one by one.
 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "proxy/ascii.h"

Test(ascii, hex_of_every_byte_at_every_place)
{
    for (unsigned place = 0; place < 4; place++)
        for (unsigned byte = 0; byte < 256; byte++) {
            uint8_t bytes[4] = {0x9a, 0xf0, 0x09, 0xa9};
            char expected[9], digits[9] = "";

            bytes[place] = (uint8_t)byte;
            snprintf(expected, sizeof expected, "%02x%02x%02x%02x", bytes[0], bytes[1], bytes[2], bytes[3]);
            ascii_hex(digits, bytes);
            cr_assert_str_eq(digits, expected, "byte %u at %u", byte, place);
        }
}

Test(ascii, hex_text_ends_with_a_nul)
{
    const uint8_t bytes[8] = {0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff, 0x10, 0x0a};
    char text[18] = "*****************";

    ascii_hex_text(text, bytes, sizeof bytes);
    cr_assert_str_eq(text, "00017f80feff100a");
}
