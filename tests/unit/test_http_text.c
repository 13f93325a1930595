/*
 * test_http_text.c - the fast scans against naive ones: on every byte, at every place, at every length.
 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "proxy/http_text.h"

static const char *naive_find(const char *from, const char *end)
{
    while (from < end && (unsigned char)*from >= 0x20 && *from != 0x7F)
        from++;
    return from;
}

Test(http_text, finds_every_control_byte_everywhere)
{
    static const unsigned char fillers[] = {' ', 'a', '~', 0x80, 0xA0, 0xFF};

    for (size_t filler = 0; filler < sizeof(fillers); filler++)
        for (unsigned byte = 0; byte < 256; byte++)
            for (size_t len = 0; len < 36; len++)
                for (size_t place = 0; place <= len; place++) {
                    char *text = must_allocate(malloc(len + 1)); /* no byte to spare behind it */

                    memset(text, fillers[filler], len);
                    if (place < len)
                        text[place] = (char)byte;
                    cr_assert_eq(http_find_control(text, text + len), naive_find(text, text + len),
                                 "byte %u at %zu of %zu among %u", byte, place, len, (unsigned)fillers[filler]);
                    cr_assert_eq(http_has_control((struct span){text, len}), naive_find(text, text + len) < text + len,
                                 "byte %u at %zu of %zu among %u", byte, place, len, (unsigned)fillers[filler]);
                    free(text);
                }
}

Test(http_text, token_bytes_are_those_of_rfc_9110)
{
    static const char others[] = "!#$%&'*+-.^_`|~";

    for (unsigned byte = 0; byte < 256; byte++) {
        bool expected = (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') ||
                        (byte && strchr(others, (int)byte));

        cr_expect_eq(http_is((char)byte, HTTP_CHAR_TOKEN), expected, "byte %u", byte);
        cr_expect_eq(http_is((char)byte, HTTP_CHAR_TARGET), byte > 0x20 && byte < 0x7F && byte != '#', "byte %u", byte);
    }
}

Test(http_text, list_members)
{
    static const struct {
        const char *list, *joined;
    } rows[] = {
        {"", ""},         {"a", "[a]"}, {"a,b", "[a][b]"},     {" a ,\tb\t", "[a][b]"},
        {",,a,,", "[a]"}, {" , ", ""},  {"a b,c", "[a b][c]"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct span list = span_of(rows[i].list), member;
        char joined[50] = "";

        while (http_next_member(&list, &member))
            snprintf(joined + strlen(joined), sizeof(joined) - strlen(joined), "[%.*s]", (int)member.len, member.data);
        cr_expect_str_eq(joined, rows[i].joined, "%s", rows[i].list);
    }
}
