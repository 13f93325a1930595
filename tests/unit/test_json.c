/*
 * test_json.c - what is JSON (RFC 8259, row by row), what a pointer names (RFC 6901), and that two texts have one
 * canonical form exactly if they say the same without any number having been rounded.
 */
#include <criterion/criterion.h>
#include <time.h>

#include "proxy/json.h"

struct text_row {
    struct span text;
    const char *why;
};
#define ROW(text, why)                    \
    {                                     \
        {(text), sizeof(text) - 1}, (why) \
    }

static const struct text_row accepted[] = {
    ROW("null", "a literal alone is a text"),
    ROW("true", "literal"),
    ROW("false", "literal"),
    ROW("\"\"", "an empty string alone"),
    ROW(" \t\r\n1 \t\r\n", "all four kinds of white space around"),
    ROW("{}", "empty object"),
    ROW("[]", "empty array"),
    ROW("[ ]", "white space in an empty array"),
    ROW("{ }", "white space in an empty object"),
    ROW("[1,null,true,\"a\",[],{}]", "all kinds"),
    ROW("{\"a\" : 1 , \"b\" : [ 1 , 2 ] }", "white space around every mark"),
    ROW("0", "zero"),
    ROW("-0", "minus zero"),
    ROW("-1", "negative"),
    ROW("10", "a zero that does not lead"),
    ROW("1.0", "fraction"),
    ROW("0.00000000000000000000000000000000000000001", "long fraction"),
    ROW("1e5", "exponent"),
    ROW("1E+5", "exponent with plus"),
    ROW("1.5e-05", "exponent with leading zeros"),
    ROW("1e999999", "beyond any double"),
    ROW("123456789012345678901234567890", "beyond 64 bits"),
    ROW("\"\\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u00e4\"", "every escape"),
    ROW("\"\\u0000\"", "an escaped NUL"),
    ROW("{\"a\\u0000b\":1}", "an escaped NUL in a name"),
    ROW("\"\\uD83D\\uDE00\"", "a surrogate pair"),
    ROW("\"\\udbff\\udfff\"", "the last pair"),
    ROW("\"\\uFFFF\\uD7FF\\uE000\"", "noncharacters, and the edges of the surrogates"),
    ROW("\"\x7f\"", "DEL needs no escape"),
    ROW("\"\xc2\x80\xdf\xbf\"", "two bytes, first and last"),
    ROW("\"\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\"", "three bytes, the edges"),
    ROW("\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"", "four bytes, first and last"),
    ROW("{\"\":0}", "an empty name"),
    ROW("{\"a\":{\"a\":{\"a\":1}}}", "one name at several depths"),
    ROW("[{\"a\":1},{\"a\":1}]", "one name in two objects"),
    ROW("{\"a\":1,\"A\":2}", "case counts"),
};

static const struct text_row refused[] = {
    ROW("", "nothing"),
    ROW(" ", "only white space"),
    ROW("\xef\xbb\xbf{}", "a byte order mark"),
    ROW("{}{}", "two texts"),
    ROW("{} x", "something after"),
    ROW("1 2", "two numbers"),
    ROW("nul", "cut literal"),
    ROW("nulll", "long literal"),
    ROW("True", "case"),
    ROW("NaN", "no number"),
    ROW("Infinity", "no number"),
    ROW("-Infinity", "no number"),
    ROW("-", "only a sign"),
    ROW("+1", "plus sign"),
    ROW("01", "leading zero"),
    ROW("-01", "leading zero after a sign"),
    ROW("00", "two zeros"),
    ROW("1.", "no digit after the point"),
    ROW(".5", "no digit before the point"),
    ROW("1.e5", "no digit between point and exponent"),
    ROW("1e", "no digit in the exponent"),
    ROW("1e+", "no digit after the sign"),
    ROW("1e5.5", "fraction in the exponent"),
    ROW("0x1F", "hexadecimal"),
    ROW("1_000", "underscore"),
    ROW("\xef\xbc\x91", "a full-width digit"),
    ROW("'a'", "single quotes"),
    ROW("\"a", "unclosed string"),
    ROW("\"", "only a quote"),
    ROW("\"\\", "ends in a backslash"),
    ROW("\"\\\"", "the closing quote is escaped"),
    ROW("\"a\nb\"", "a line feed in a string"),
    ROW("\"a\tb\"", "a tab in a string"),
    ROW("\"a\0b\"", "a NUL in a string"),
    ROW("\"\x1f\"", "the last control character"),
    ROW("\"\\a\"", "no such escape"),
    ROW("\"\\'\"", "no such escape"),
    ROW("\"\\x41\"", "no such escape"),
    ROW("\"\\\0\"", "an escaped NUL byte"),
    ROW("\"\\u12\"", "short \\u"),
    ROW("\"\\u12G4\"", "no hex"),
    ROW("\"\\U0041\"", "upper-case \\U"),
    ROW("\"\\uD800\"", "lone high surrogate"),
    ROW("\"\\uD83D x\"", "high surrogate, then text"),
    ROW("\"\\uD83D\\n\"", "high surrogate, then another escape"),
    ROW("\"\\uD83D\\uD83D\"", "two high surrogates"),
    ROW("\"\\uDC00\"", "lone low surrogate"),
    ROW("\"\\uDE00\\uD83D\"", "a pair in the wrong order"),
    ROW("\"\\uD83D\\uDE0\"", "half a pair"),
    ROW("\"\x80\"", "a continuation byte alone"),
    ROW("\"\xc0\x80\"", "overlong NUL"),
    ROW("\"\xc1\xbf\"", "overlong"),
    ROW("\"\xe0\x9f\xbf\"", "overlong, three bytes"),
    ROW("\"\xf0\x8f\xbf\xbf\"", "overlong, four bytes"),
    ROW("\"\xed\xa0\x80\"", "a surrogate in UTF-8"),
    ROW("\"\xf4\x90\x80\x80\"", "beyond U+10FFFF"),
    ROW("\"\xf5\x80\x80\x80\"", "no first byte"),
    ROW("\"\xc3\"", "cut sequence before the quote"),
    ROW("\"\xe2\x82\"", "cut sequence of three"),
    ROW("\"\xe4\"", "Latin-1"),
    ROW("{\"\xff\":1}", "bad bytes in a name"),
    ROW("[", "unclosed array"),
    ROW("[1", "unclosed array with an element"),
    ROW("[1,", "cut after a comma"),
    ROW("[1,]", "trailing comma"),
    ROW("[,1]", "leading comma"),
    ROW("[1,,2]", "two commas"),
    ROW("[1 2]", "no comma"),
    ROW("[1}", "closed by the wrong bracket"),
    ROW("]", "only a bracket"),
    ROW("{", "unclosed object"),
    ROW("{\"a\"", "cut after a name"),
    ROW("{\"a\":", "cut after the colon"),
    ROW("{\"a\":1", "unclosed after a member"),
    ROW("{\"a\":1,}", "trailing comma"),
    ROW("{,\"a\":1}", "leading comma"),
    ROW("{\"a\" 1}", "no colon"),
    ROW("{\"a\":}", "no value"),
    ROW("{a:1}", "unquoted name"),
    ROW("{1:1}", "a number as name"),
    ROW("{\"a\":1]", "closed by the wrong bracket"),
    ROW("{\"a\":1 \"b\":2}", "no comma"),
    ROW("{\"a\"::1}", "two colons"),
    ROW("[1]//x", "a comment"),
    ROW("/**/1", "a comment"),
    ROW("\v1", "other white space"),
    ROW("\xc2\xa0"
        "1",
        "no-break space"),
    ROW("1\0", "a NUL after"),
    ROW("{\"a\":1,\"a\":2}", "duplicate member"),
    ROW("{\"a\":1,\"a\":1}", "duplicate member with an equal value"),
    ROW("{\"a\":1,\"b\":2,\"a\":3}", "duplicate that is no neighbour"),
    ROW("{\"c\":1,\"a\":1,\"b\":2,\"c\":3}", "duplicate in an unsorted object"),
    ROW("{\"a\":1,\"\\u0061\":2}", "duplicate in another spelling"),
    ROW("{\"\xc3\xa4\":1,\"\\u00E4\":2}", "duplicate in another spelling, two bytes"),
    ROW("{\"\xf0\x9f\x98\x80\":1,\"\\uD83D\\uDE00\":2}", "duplicate in another spelling, a pair"),
    ROW("{\"/\":1,\"\\/\":2}", "duplicate in another spelling, slash"),
    ROW("{\"\":1,\"\":2}", "duplicate of the empty name"),
    ROW("[0,{\"x\":[{\"a\":1,\"a\":2}]}]", "duplicate deep inside"),
};

/* In memory of exactly its length, so that ASan sees whoever reads on. */
static struct span exact_copy(struct span text)
{
    char *memory = must_allocate(malloc(text.len ? text.len : 1));
    if (text.len)
        memcpy(memory, text.data, text.len);
    return (struct span){memory, text.len};
}

static void check_valid(const struct text_row *row, bool wanted)
{
    struct span text = exact_copy(row->text);
    struct buffer out = {0};
    enum json_kind kind;
    cr_assert_eq(json_valid(text), wanted, "%s: %.*s", row->why, (int)text.len, text.data);
    cr_assert_eq(json_pointer(text, "", &kind, &out), wanted, "%s: pointer: %.*s", row->why, (int)text.len, text.data);
    cr_assert_eq(kind != JSON_ABSENT, wanted, "%s: an invalid text has no value", row->why);
    buffer_free(&out);
    cr_assert_eq(json_canonical(text, NULL, &out), wanted, "%s: canonical: %.*s", row->why, (int)text.len, text.data);
    cr_assert_eq(buffer_len(&out) > 0, wanted, "%s: nothing is written for an invalid text", row->why);
    buffer_free(&out);
    free((void *)(uintptr_t)text.data);
}

Test(json, accepts_what_the_grammar_allows)
{
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++)
        check_valid(&accepted[i], true);
}

Test(json, refuses_everything_else)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        check_valid(&refused[i], false);
}

/* No text that needs its closing mark is valid when cut anywhere. */
Test(json, refuses_cut_texts)
{
    struct span whole = SPAN("{\"a\\n\":[1.5e3,true,null,{\"\\uD83D\\uDE00\":\"\xe2\x82\xac\"}],\"b\":{}}");
    cr_assert(json_valid(whole));
    for (size_t len = 0; len < whole.len; len++) {
        struct span text = exact_copy((struct span){whole.data, len});
        cr_assert_not(json_valid(text), "cut at %zu", len);
        free((void *)(uintptr_t)text.data);
    }
}

static bool valid_nested(size_t depth, const char *open, const char *close)
{
    struct buffer text = {0};
    for (size_t i = 0; i < depth; i++)
        buffer_append_span(&text, span_of(open));
    buffer_append_span(&text, SPAN("1"));
    for (size_t i = 0; i < depth; i++)
        buffer_append_span(&text, span_of(close));
    struct buffer out = {0};
    bool valid = json_canonical(buffer_span(&text), (char *[]){(char[]){"/a"}, NULL}, &out);
    cr_assert_eq(json_valid(buffer_span(&text)), valid);
    buffer_free(&out);
    buffer_free(&text);
    return valid;
}

Test(json, bounds_nesting)
{
    cr_assert(valid_nested(128, "[", "]"), "128 arrays");
    cr_assert_not(valid_nested(129, "[", "]"), "129 arrays");
    cr_assert(valid_nested(128, "{\"b\":", "}"), "128 objects");
    cr_assert_not(valid_nested(129, "{\"b\":", "}"), "129 objects");
    cr_assert_not(valid_nested(1000000, "[", "]"), "a million: refused, not a stack overflow");
}

/* ---- pointers --------------------------------------------------------------------------------- */

static const char store_text[] = "{\"list\": [\"x\", {\"id\": 7}, [], \"last\"], \"\": \"empty name\", \"a/b\": 1, "
                                 "\"m~n\": 2, \"~1\": 3, \"c%d\": 4, \"q\\\"r\": 5, \" \": 6, \"0\": \"zero\", "
                                 "\"\\u00e4\": \"\\u20ac\", \"n\": null, \"t\": true, \"f\": false, "
                                 "\"o\": { \"k\" : [ 1 ] }, \"e\": \"\", \"num\": 1.0E+2, \"nul\": \"a\\u0000b\"}";

struct pointer_row {
    const char *pointer;
    enum json_kind kind;
    struct span value;
};
#define POINTER(pointer, kind, value)  \
    {                                  \
        (pointer), (kind),             \
        {                              \
            (value), sizeof(value) - 1 \
        }                              \
    }

static const struct pointer_row pointer_rows[] = {
    POINTER("/list/0", JSON_STRING, "x"),
    POINTER("/list/3", JSON_STRING, "last"),
    POINTER("/list/4", JSON_ABSENT, ""),
    POINTER("/list/-", JSON_ABSENT, ""), /* the element after the last */
    POINTER("/list/00", JSON_ABSENT, ""),
    POINTER("/list/01", JSON_ABSENT, ""),
    POINTER("/list/+1", JSON_ABSENT, ""),
    POINTER("/list/", JSON_ABSENT, ""),
    POINTER("/list/18446744073709551617", JSON_ABSENT, ""), /* 2^64 + 1 is not 1 */
    POINTER("/list/1/id", JSON_NUMBER, "7"),
    POINTER("/list/1/id/0", JSON_ABSENT, ""), /* a number has no elements */
    POINTER("/list/0/x", JSON_ABSENT, ""),
    POINTER("/list/2", JSON_ARRAY, "[]"),
    POINTER("/list/1", JSON_OBJECT, "{\"id\": 7}"),
    POINTER("/", JSON_STRING, "empty name"),
    POINTER("//", JSON_ABSENT, ""),
    POINTER("/a~1b", JSON_NUMBER, "1"),
    POINTER("/a/b", JSON_ABSENT, ""),
    POINTER("/m~0n", JSON_NUMBER, "2"),
    POINTER("/~01", JSON_NUMBER, "3"), /* "~1" as a name: ~0 first, then the 1 */
    POINTER("/c%d", JSON_NUMBER, "4"),
    POINTER("/q\"r", JSON_NUMBER, "5"),
    POINTER("/ ", JSON_NUMBER, "6"),
    POINTER("/0", JSON_STRING, "zero"), /* an index is a name in an object */
    POINTER("/\xc3\xa4", JSON_STRING, "\xe2\x82\xac"),
    POINTER("/n", JSON_NULL, ""),
    POINTER("/t", JSON_TRUE, ""),
    POINTER("/f", JSON_FALSE, ""),
    POINTER("/o", JSON_OBJECT, "{ \"k\" : [ 1 ] }"),
    POINTER("/o/k/0", JSON_NUMBER, "1"),
    POINTER("/e", JSON_STRING, ""),
    POINTER("/num", JSON_NUMBER, "1.0E+2"),
    POINTER("/nul", JSON_STRING, "a\0b"),
    POINTER("/li", JSON_ABSENT, ""),
    POINTER("/listing", JSON_ABSENT, ""),
    POINTER("/LIST", JSON_ABSENT, ""),
};

Test(json, finds_what_a_pointer_names)
{
    for (size_t i = 0; i < sizeof pointer_rows / sizeof *pointer_rows; i++) {
        const struct pointer_row *row = &pointer_rows[i];
        struct buffer value = {0};
        enum json_kind kind;
        cr_assert(json_pointer(SPAN(store_text), row->pointer, &kind, &value), "%s", row->pointer);
        cr_assert_eq(kind, row->kind, "%s: kind %d", row->pointer, (int)kind);
        cr_assert(span_equal(buffer_span(&value), row->value), "%s: \"%.*s\"", row->pointer, (int)buffer_len(&value),
                  buffer_data(&value));
        buffer_free(&value);
    }
}

Test(json, finds_nothing_where_the_text_is_invalid_behind_the_value)
{
    struct buffer value = {0};
    enum json_kind kind;
    cr_assert_not(json_pointer(SPAN("{\"a\":1,\"b\":01}"), "/a", &kind, &value));
    cr_assert_not(json_pointer(SPAN("{\"a\":\"x\",\"b\":1,\"a\":\"y\"}"), "/a", &kind, &value),
                  "neither the first nor the last of two");
    cr_assert_eq(kind, JSON_ABSENT);
    cr_assert_eq(buffer_len(&value), 0);
    buffer_free(&value);
}

Test(json, knows_the_syntax_of_pointers)
{
    static const struct {
        const char *pointer;
        bool valid;
    } rows[] = {{"", true},          {"/", true},    {"/a", true},   {"//", true},   {"/~0~1", true},
                {"/\xc3\xa4", true}, {"a", false},   {"a/b", false}, {"#/a", false}, {"/~", false},
                {"/~2", false},      {"/a~", false}, {"/a~/", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_assert_eq(json_pointer_valid(rows[i].pointer), rows[i].valid, "\"%s\"", rows[i].pointer);
}

/* ---- canonical form --------------------------------------------------------------------------- */

struct canonical_row {
    const char *text, *canonical, *why;
    char *ignore[4];
};
#define P(text) \
    (char[])    \
    {           \
        text    \
    }

static const struct canonical_row canonical_rows[] = {
    {" { \"b\" : 1 ,\n\"a\" : [ 1 , 2 ] } ", "{\"a\":[1,2],\"b\":1}", "sorted, no white space", {NULL}},
    {"{\"aa\":1,\"a\":2,\"B\":3,\"\":4}", "{\"\":4,\"B\":3,\"a\":2,\"aa\":1}", "by bytes, a prefix first", {NULL}},
    {"{\"\\u00e4\":1,\"z\":2,\"\\uE000\":3,\"\\uD800\\uDC00\":4}",
     "{\"z\":2,\"\xc3\xa4\":1,\"\xee\x80\x80\":3,\"\xf0\x90\x80\x80\":4}",
     "by UTF-8 bytes, not by UTF-16 units",
     {NULL}},
    {"{\"\\u0062\":1,\"a\":2,\"c\":3}", "{\"a\":2,\"b\":1,\"c\":3}", "by the unescaped name", {NULL}},
    {"[1.0,1,10e-1,1E0,-0,0]", "[1.0,1,10e-1,1E0,-0,0]", "numbers as written", {NULL}},
    {"[9007199254740993,9007199254740992]", "[9007199254740993,9007199254740992]", "no double is involved", {NULL}},
    {"\"\\u0041\\/\\u00e4\\u20AC\\ud83d\\ude00\"", "\"A/\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"", "unescaped", {NULL}},
    {"\"\\u0022\\u005C\\u0008\\u000c\\u000A\\u000d\\u0009\"", "\"\\\"\\\\\\b\\f\\n\\r\\t\"", "short escapes", {NULL}},
    {"\"\\u0000\\u001F\\u007f\"", "\"\\u0000\\u001f\x7f\"", "other controls in lower-case hex, DEL as it is", {NULL}},
    {"[{\"b\":{\"d\":1,\"c\":2},\"a\":[{\"y\":1,\"x\":2}]},{}]",
     "[{\"a\":[{\"x\":2,\"y\":1}],\"b\":{\"c\":2,\"d\":1}},{}]",
     "sorted at every depth",
     {NULL}},
    {"{\"z\":[{},{\"b\":{},\"a\":{}},{}],\"y\":{\"k\":{}},\"x\":[]}",
     "{\"x\":[],\"y\":{\"k\":{}},\"z\":[{},{\"a\":{},\"b\":{}},{}]}",
     "objects after objects",
     {NULL}},
    {"[[],[[]],{}]", "[[],[[]],{}]", "empty ones", {NULL}},
    {"null", "null", "a scalar alone", {NULL}},

    {"{\"a\":1,\"at\":2,\"b\":3}", "{\"a\":1,\"b\":3}", "ignored in the middle", {P("/at")}},
    {"{\"a\":1,\"at\":2}", "{\"a\":1}", "ignored at the end", {P("/at")}},
    {"{\"at\":{\"x\":[1,{\"y\":2}]},\"b\":{\"c\":1}}",
     "{\"b\":{\"c\":1}}",
     "ignored with all that it holds",
     {P("/at")}},
    {"{\"at\":2}", "{}", "the only one", {P("/at")}},
    {"{\"a\":{\"at\":1,\"b\":2},\"at\":3}",
     "{\"a\":{\"b\":2},\"at\":3}",
     "only where the pointer points",
     {P("/a/at")}},
    {"{\"a\":1,\"b\":2,\"c\":3}", "{\"b\":2}", "several", {P("/c"), P("/a"), P("/none")}},
    {"{\"\\u0061\\/b\":1,\"c\":2}", "{\"c\":2}", "by the unescaped name and pointer", {P("/a~1b")}},
    {"[1,{\"a\":1,\"at\":2},3]", "[1,{\"a\":1},3]", "inside an array", {P("/1/at")}},
    {"[1,2,3]", "[1,3]", "an element in the middle", {P("/1")}},
    {"[1,2]", "[2]", "the first element", {P("/0")}},
    {"[1,2]", "[1]", "the last element", {P("/1")}},
    {"[{\"b\":1,\"a\":{}},{\"d\":2,\"c\":3}]",
     "[{\"c\":3,\"d\":2}]",
     "objects behind an ignored one keep their members",
     {P("/0")}},
    {"{\"a\":1}", "", "all of it", {P("")}},
};

static void check_canonical(const struct canonical_row *row)
{
    struct buffer out = {0}, again = {0};
    struct span text = exact_copy(span_of(row->text));
    buffer_append_span(&out, SPAN("before"));
    cr_assert(json_canonical(text, row->ignore, &out), "%s: invalid", row->why);
    cr_assert(span_equal((struct span){buffer_data(&out), 6}, SPAN("before")), "%s: appends", row->why);
    buffer_consume(&out, 6);
    cr_assert(span_equal(buffer_span(&out), span_of(row->canonical)), "%s: %.*s", row->why, (int)buffer_len(&out),
              buffer_data(&out));
    if (buffer_len(&out)) {
        cr_assert(json_canonical(buffer_span(&out), NULL, &again), "%s: is JSON itself", row->why);
        cr_assert(span_equal(buffer_span(&again), buffer_span(&out)), "%s: is its own canonical form", row->why);
    }
    buffer_free(&out);
    buffer_free(&again);
    free((void *)(uintptr_t)text.data);
}

Test(json, has_one_canonical_form)
{
    for (size_t i = 0; i < sizeof canonical_rows / sizeof *canonical_rows; i++)
        check_canonical(&canonical_rows[i]);
}

/* ---- hostile sizes ---------------------------------------------------------------------------- */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* `count` members in an order that no sort likes, each with this much in front of its number. */
static void many_members(struct buffer *text, size_t count, const char *prefix)
{
    buffer_append_span(text, SPAN("{"));
    for (size_t i = 0; i < count; i++)
        buffer_printf(text, "%s\"%s%zx\":1", i ? "," : "", prefix, i * 0x9E3779B1u % 0x1000000);
    buffer_append_span(text, SPAN("}"));
}

/* Quadratic work over as many members would take minutes, or hours; the limit leaves room for sanitizers. */
static void check_fast(struct buffer *text, const char *what)
{
    double begin = seconds();
    struct buffer out = {0};
    cr_assert(json_canonical(buffer_span(text), NULL, &out), "%s: all names differ", what);
    cr_assert_eq(buffer_len(&out), buffer_len(text), "%s: only the order changes", what);
    cr_assert_lt(seconds() - begin, 10, "%s: took %.1f s", what, seconds() - begin);
    buffer_free(&out);
    buffer_free(text);
}

Test(json, sorts_hostile_objects_in_time, .timeout = 60)
{
    struct buffer text = {0};
    many_members(&text, 200000, "");
    check_fast(&text, "many short names");
    many_members(&text, 1000,
                 "a long common beginning that every comparison must walk through, again and again, to its end");
    check_fast(&text, "long common beginnings");

    many_members(&text, 50000, "\\u0061");
    cr_assert(json_valid(buffer_span(&text)), "many escaped names: all differ");
    buffer_free(&text);

    for (int depth = 0; depth < 120; depth++)
        buffer_append_span(&text, SPAN("{\"b\":0,\"a\":"));
    buffer_append_span(&text, SPAN("\""));
    memset(buffer_reserve(&text, 1 << 20), 'x', 1 << 20);
    buffer_commit(&text, 1 << 20);
    buffer_append_span(&text, SPAN("\""));
    for (int depth = 0; depth < 120; depth++)
        buffer_append_span(&text, SPAN("}"));
    check_fast(&text, "a long string under many unsorted objects");
}
