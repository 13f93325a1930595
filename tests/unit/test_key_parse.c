/*
 * test_key_parse.c - which values of a key header are keys, and which texts they say (contract §4.2; cases S21, S22).
 */
#include <criterion/criterion.h>

#include "proxy/key.h"

struct parse_row {
    struct span value;
    const char *key; /* NULL: bad */
    const char *why;
};
#define ROW(value, key, why)                       \
    {                                              \
        {(value), sizeof(value) - 1}, (key), (why) \
    }

static const struct parse_row rows[] = {
    /* bare */
    ROW("abc", "abc", "bare"),
    ROW("3f2504e0-4f89-41d3-9a0c-0305e82c3301", "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "a bare UUID"),
    ROW("stripe-node-retry-1", "stripe-node-retry-1", "what well-known clients send"),
    ROW("K", "K", "upper case"),
    ROW("k", "k", "lower case is another key"),
    ROW("!#$%&'()*+-./:<=>?@[]^_`{|}~", "!#$%&'()*+-./:<=>?@[]^_`{|}~", "all punctuation that may be bare"),
    ROW(":YWJj:", ":YWJj:", "a bare text like any other, not a byte sequence"),
    ROW("?1", "?1", "a bare text like any other, not a boolean"),
    ROW("  abc\t ", "abc", "white space around is not part of it"),
    ROW("", NULL, "empty: bad, not absent"),
    ROW(" \t ", NULL, "only white space"),
    ROW("a b", NULL, "a space inside"),
    ROW("a\tb", NULL, "a tab inside"),
    ROW("a,b", NULL, "a list"),
    ROW("a, b", NULL, "a list"),
    ROW("a;p=1", NULL, "parameters belong to structured fields only"),
    ROW("a\\b", NULL, "a backslash"),
    ROW("a\"b", NULL, "a quote inside"),
    ROW("abc\"", NULL, "a quote at the end"),
    ROW("a\x7f", NULL, "DEL"),
    ROW("a\x01", NULL, "a control character"),
    ROW("a\0b", NULL, "a NUL"),
    ROW("f\xc3\xbc\xc3\xbc", NULL, "UTF-8"),
    ROW("\xff", NULL, "the highest byte"),

    /* quoted */
    ROW("\"abc\"", "abc", "the same key as abc"),
    ROW(" \"abc\"\t", "abc", "white space around"),
    ROW("\"a b, c; d\"", "a b, c; d", "what may not be bare may be quoted"),
    ROW("\" a \"", " a ", "spaces inside count"),
    ROW("\"a\\\"b\"", "a\"b", "an escaped quote"),
    ROW("\"a\\\\b\"", "a\\b", "an escaped backslash"),
    ROW("\"\\\"\\\\\"", "\"\\", "nothing but escapes"),
    ROW("\"\"", NULL, "empty"),
    ROW("\"   \"", NULL, "only spaces"),
    ROW("\"abc", NULL, "not closed"),
    ROW("\"", NULL, "a lone quote"),
    ROW("\"abc\\\"", NULL, "the closing quote is escaped"),
    ROW("\"abc\\", NULL, "ends in a backslash"),
    ROW("\"a\\nb\"", NULL, "no such escape"),
    ROW("\"a\\,b\"", NULL, "no such escape"),
    ROW("\"a\tb\"", NULL, "a tab inside"),
    ROW("\"a\x7f\"", NULL, "DEL"),
    ROW("\"a\0b\"", NULL, "a NUL"),
    ROW("\"f\xc3\xbc\xc3\xbc\"", NULL, "bytes beyond ASCII"),
    ROW("'abc'", "'abc'", "single quotes are bare characters"),
    ROW("\"k1\", \"k1\"", NULL, "a list, also of equal keys"),
    ROW("\"k1\",", NULL, "a list with nothing after the comma"),
    ROW("\"k1\" \"k2\"", NULL, "two strings"),
    ROW("\"k1\"k2", NULL, "text after the string"),
    ROW("(\"a\" \"b\")", NULL, "an inner list"),

    /* parameters: ignored, but well formed */
    ROW("\"abc\";p=1", "abc", "integer"),
    ROW("\"abc\";p", "abc", "no value: true"),
    ROW("\"abc\"; p=1;  q=2", "abc", "spaces after the semicolon"),
    ROW("\"abc\";p=1;p=2", "abc", "one twice"),
    ROW("\"abc\";*a_-.*9=1", "abc", "every character of a name"),
    ROW("\"abc\";p=-123456789012345", "abc", "fifteen digits"),
    ROW("\"abc\";p=123456789012.125", "abc", "decimal"),
    ROW("\"abc\";p=\"x;\\\"y\"", "abc", "string"),
    ROW("\"abc\";p=tok:en/*x", "abc", "token"),
    ROW("\"abc\";p=*t", "abc", "token with a star"),
    ROW("\"abc\";p=:aGVsbG8=:", "abc", "byte sequence"),
    ROW("\"abc\";p=:aGVsbG8:", "abc", "byte sequence without padding"),
    ROW("\"abc\";p=::", "abc", "empty byte sequence"),
    ROW("\"abc\";p=?0;q=?1", "abc", "booleans"),
    ROW("\"abc\";p=@1659578233", "abc", "date"),
    ROW("\"abc\";p=%\"f%c3%bc%c3%bc\"", "abc", "display string"),
    ROW("\"abc\" ;p=1", NULL, "a space before the semicolon"),
    ROW("\"abc\";", NULL, "no parameter after the semicolon"),
    ROW("\"abc\";P=1", NULL, "names begin in lower case"),
    ROW("\"abc\";1p", NULL, "names do not begin with a digit"),
    ROW("\"abc\";p=", NULL, "no value after the equals sign"),
    ROW("\"abc\";p= 1", NULL, "a space before the value"),
    ROW("\"abc\";p=1 ;q", NULL, "a space after the value"),
    ROW("\"abc\";p=1,", NULL, "a list after parameters"),
    ROW("\"abc\";\tp=1", NULL, "a tab after the semicolon"),
    ROW("\"abc\";p=-", NULL, "only a sign"),
    ROW("\"abc\";p=1234567890123456", NULL, "sixteen digits"),
    ROW("\"abc\";p=1.", NULL, "no digit after the point"),
    ROW("\"abc\";p=1.2345", NULL, "four digits after the point"),
    ROW("\"abc\";p=1234567890123.1", NULL, "thirteen digits before the point"),
    ROW("\"abc\";p=\"x", NULL, "string not closed"),
    ROW("\"abc\";p=:a=b:", NULL, "padding inside"),
    ROW("\"abc\";p=:aGVsbG8", NULL, "byte sequence not closed"),
    ROW("\"abc\";p=:aGV_:", NULL, "not base64"),
    ROW("\"abc\";p=:a:", NULL, "base64 of no length"),
    ROW("\"abc\";p=?2", NULL, "no boolean"),
    ROW("\"abc\";p=?", NULL, "half a boolean"),
    ROW("\"abc\";p=@1.5", NULL, "a date with a fraction"),
    ROW("\"abc\";p=@", NULL, "half a date"),
    ROW("\"abc\";p=%\"%C3%BC\"", NULL, "display string in upper-case hex"),
    ROW("\"abc\";p=%\"%c3\"", NULL, "display string with half a sequence"),
    ROW("\"abc\";p=%\"%80abc\"", NULL, "display string that is no UTF-8"),
    ROW("\"abc\";p=%\"%4\"", NULL, "display string with half an escape"),
    ROW("\"abc\";p=%\"x", NULL, "display string not closed"),
    ROW("\"abc\";p=%x", NULL, "display string without quotes"),
    ROW("\"abc\";p=(1 2)", NULL, "an inner list as value"),
    ROW("\"abc\";p={", NULL, "no item"),
};

static void check(struct span value, const char *key, const char *name)
{
    char *exact = must_allocate(malloc(value.len ? value.len : 1)), out[KEY_MAX_LEN];
    size_t len = 0;
    const char *why = NULL;
    if (value.len)
        memcpy(exact, value.data, value.len);
    enum key_parse result = key_parse((struct span){exact, value.len}, out, &len, &why);
    if (key) {
        cr_assert_eq(result, KEY_OK, "%s: %.*s: %s", name, (int)value.len, value.data, why ? why : "");
        cr_assert(span_equal((struct span){out, len}, span_of(key)), "%s: became %.*s", name, (int)len, out);
    } else {
        cr_assert_eq(result, KEY_BAD, "%s: %.*s became %.*s", name, (int)value.len, value.data, (int)len, out);
        cr_assert(why && strlen(why) > 10, "%s: the client is told why", name);
    }
    free(exact);
}

Test(key_parse, tells_keys_from_everything_else)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check(rows[i].value, rows[i].key, rows[i].why);
}

/* A key of `len` times "a", bare, quoted, or each escaped. */
static void check_len(size_t len, bool fine)
{
    struct buffer key = {0}, bare = {0}, quoted = {0}, escaped = {0}, escaped_key = {0};
    for (size_t i = 0; i < len; i++) {
        buffer_append_span(&key, SPAN("a"));
        buffer_append_span(&escaped, i ? SPAN("\\\"") : SPAN("\"\\\""));
        buffer_append_span(&escaped_key, SPAN("\""));
    }
    buffer_append(&key, "", 1);
    buffer_append(&escaped_key, "", 1);
    buffer_append_span(&escaped, SPAN("\""));
    buffer_printf(&bare, "%s", buffer_data(&key));
    buffer_printf(&quoted, "\"%s\"", buffer_data(&key));
    check(buffer_span(&bare), fine ? buffer_data(&key) : NULL, "bare, by length");
    check(buffer_span(&quoted), fine ? buffer_data(&key) : NULL, "quoted, by length");
    check(buffer_span(&escaped), fine ? buffer_data(&escaped_key) : NULL, "counted after unescaping");
    buffer_free(&key);
    buffer_free(&bare);
    buffer_free(&quoted);
    buffer_free(&escaped);
    buffer_free(&escaped_key);
}

Test(key_parse, bounds_the_length)
{
    check_len(1, true);
    check_len(255, true);
    check_len(256, false);
    check_len(4096, false);
    check_len(60000, false);
}

Test(key_parse, knows_every_byte)
{
    for (int byte = 0; byte < 256; byte++) {
        char bare[] = {'a', (char)byte, 'b'}, quoted[] = {'"', 'a', (char)byte, 'b', '"'}, out[KEY_MAX_LEN];
        size_t len;
        const char *why;
        bool printable = byte >= 0x20 && byte <= 0x7E;
        bool may_bare = printable && byte != ' ' && !strchr("\",;\\", byte),
             may_quoted = printable && !strchr("\"\\", byte);
        cr_assert_eq(key_parse((struct span){bare, 3}, out, &len, &why) == KEY_OK, may_bare, "bare 0x%02x", byte);
        cr_assert_eq(key_parse((struct span){quoted, 5}, out, &len, &why) == KEY_OK, may_quoted, "quoted 0x%02x", byte);
    }
}
