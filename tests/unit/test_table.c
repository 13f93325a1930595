/* Ages, sizes and times as text; what comes from records cannot steer a terminal; columns are aligned. */
#include "proxy/table.h"

#include <criterion/criterion.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

Test(table, ages)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {-5, "0s"},         {0, "0s"},         {999, "0s"},        {1000, "1s"},
        {59999, "59s"},     {60000, "1m"},     {3599999, "59m"},   {3600000, "1h"},
        {172799999, "47h"}, {172800000, "2d"}, {864000000, "10d"}, {INT64_MAX, "106751991167d"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[AGE_TEXT];
        age_text(rows[i].ms, text);
        cr_expect_str_eq(text, rows[i].text, "%lld ms are %s", (long long)rows[i].ms, text);
    }
}

Test(table, sizes)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } rows[] = {
        {0, "0 bytes"},       {1, "1 byte"},           {1023, "1023 bytes"},   {1024, "1.0 KiB"},
        {10188, "9.9 KiB"},   {10240, "10 KiB"},       {1048575, "1.0 MiB"},   {1048576, "1.0 MiB"},
        {24117248, "23 MiB"}, {1ull << 40, "1.0 TiB"}, {UINT64_MAX, "16 EiB"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[SIZE_TEXT];
        size_text(rows[i].bytes, text);
        cr_expect_str_eq(text, rows[i].text, "%llu bytes are %s", (unsigned long long)rows[i].bytes, text);
    }
}

Test(table, times)
{
    static const struct {
        const char *text;
        int64_t ms; /* -1: none */
    } rows[] = {
        {"1970-01-01T00:00:00.000Z", 0},
        {"1970-01-01T00:00:00Z", 0},
        {"2026-12-02T22:40:09.123Z", 1796251209123},
        {"2024-02-29T23:59:60.999Z", 1709251200999},
        {"2000-03-01T00:00:00.001Z", 951868800001},
        {"2100-03-01T00:00:00.000Z", 4107542400000},
        {"", -1},
        {"2026-12-02", -1},
        {"2026-12-02T22:40:09.123", -1},
        {"2026-12-02T22:40:09.12Z", -1},
        {"2026-12-02T22:40:09.123Zx", -1},
        {"2026-13-02T22:40:09Z", -1},
        {"2026-12-02 22:40:09Z", -1},
        {"2026-12-02T24:40:09Z", -1},
        {"0026-12-02T22:40:09Z", -1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t ms = -1;
        bool is_time = time_of_text(span_of(rows[i].text), &ms);
        cr_expect_eq(is_time, rows[i].ms >= 0, "'%s' is %s time", rows[i].text, rows[i].ms >= 0 ? "a" : "no");
        if (is_time)
            cr_expect_eq(ms, rows[i].ms, "'%s' is %lld", rows[i].text, (long long)ms);
    }
}

Test(table, cleaned_and_cut)
{
    static const struct {
        const char *text;
        size_t columns;
        const char *clean;
        size_t taken;
    } rows[] = {
        {"plain", 0, "plain", 5},
        {"", 0, "", 0},
        {"\x1b[31mred\x07\n\x7f", 0, "?[31mred???", 11},
        {"a\xc2\x9b"
         "31m",
         0, "a?31m", 5}, /* CSI as one character */
        {"a\xc2\xa0\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 0, "a\xc2\xa0\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 5},
        {"a\xff\xc3", 0, "a??", 3},
        {"abcdef", 6, "abcdef", 6},
        {"abcdefg", 6, "abcde…", 6},
        {"äöüäöü", 3, "äö…", 3},
        {"\x01\x02\x03", 2, "?…", 2},
        {"ab", 1, "…", 1},
        {"a", 1, "a", 1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *clean = NULL;
        size_t size;
        FILE *out = open_memstream(&clean, &size);
        size_t taken = clean_text(span_of(rows[i].text), rows[i].columns, out);
        fclose(out);
        cr_expect_str_eq(clean, rows[i].clean, "row %zu is '%s'", i, clean);
        cr_expect_eq(taken, rows[i].taken, "row %zu takes %zu", i, taken);
        free(clean);
    }
}

static const char *const titles[] = {"ID", "STATE", "KEY", NULL};

static void add(struct table *table, const char *id, const char *state, const char *key)
{
    table_add(table, id, 0);
    table_add(table, state, 0);
    table_add(table, key, 5);
}

Test(table, columns_are_aligned_and_never_get_narrower)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct table table = {.out = out, .titles = titles};
    table_flush(&table); /* nothing yet: no titles either */
    add(&table, "äbc", "completed", "abcdefgh");
    add(&table, "d", NULL, "");
    table_flush(&table);
    add(&table, "longer", "x", "k");
    table_flush(&table);
    add(&table, "s", "y", "z");
    table_flush(&table);
    table_add(&table, "a row that is never complete", 0);
    table_free(&table);
    fclose(out);
    cr_expect_str_eq(text,
                     "ID   STATE      KEY\n"
                     "äbc  completed  abcd…\n"
                     "d    -          -\n"
                     "longer  x          k\n"
                     "s       y          z\n",
                     "is\n%s", text);
    free(text);
}
