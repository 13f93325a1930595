/*
 * test_json_text.c - whatever bytes a peer sends, the string that is made of them is valid JSON, and one line.
 */
#include "proxy/json_text.h"

#include <criterion/criterion.h>

static const struct {
    const char *name, *text;
    size_t len;
    const char *json;
} escapes[] = {
    {"plain", "abc", 3, "\"abc\""},
    {"empty", "", 0, "\"\""},
    {"quote and backslash", "a\"b\\c", 5, "\"a\\\"b\\\\c\""},
    {"line feed cannot start a second line", "a\nb", 3, "\"a\\u000ab\""},
    {"NUL", "a\0b", 3, "\"a\\u0000b\""},
    {"DEL", "\x7f", 1, "\"\\u007f\""},
    {"two bytes", "\xc3\xa4", 2, "\"\xc3\xa4\""},
    {"three bytes", "\xe2\x82\xac", 3, "\"\xe2\x82\xac\""},
    {"four bytes", "\xf0\x9f\x98\x80", 4, "\"\xf0\x9f\x98\x80\""},
    {"a lone continuation byte", "a\x80z", 3, "\"a\\ufffdz\""},
    {"an overlong form", "\xc0\xaf", 2, "\"\\ufffd\\ufffd\""},
    {"a surrogate in UTF-8", "\xed\xa0\x80", 3, "\"\\ufffd\\ufffd\\ufffd\""},
    {"a sequence cut at the end", "\xe2\x82", 2, "\"\\ufffd\\ufffd\""},
    {"beyond Unicode", "\xf4\x90\x80\x80", 4, "\"\\ufffd\\ufffd\\ufffd\\ufffd\""},
};

Test(json_text, escapes_whatever_bytes)
{
    for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
        struct buffer out = {0};
        json_escape(&out, (struct span){escapes[i].text, escapes[i].len});
        struct span got = buffer_span(&out);
        cr_assert(span_equal(got, span_of(escapes[i].json)), "%s: got %.*s", escapes[i].name, (int)got.len, got.data);
        buffer_free(&out);
    }
}
