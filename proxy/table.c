/*
 * table.c - PURE. Aligned columns, row by row as pages come, and the small texts in them (table.h).
 *
 * Rows wait until a page is complete, so that columns are as wide as they need; a later page may widen them, never
 * narrow them. Left out: characters that take two columns or none.
 */
#include "proxy/table.h"

#include "proxy/ascii.h"
#include "proxy/json_text.h"

#include <assert.h>

/* ---- words ------------------------------------------------------------------------------------ */

void age_text(int64_t milliseconds, char to[AGE_TEXT])
{
    static const struct {
        int64_t below, unit; /* seconds */
        char name;
    } rows[] = {{60, 1, 's'}, {3600, 60, 'm'}, {48 * 3600, 3600, 'h'}, {INT64_MAX, 86400, 'd'}};
    int64_t seconds = milliseconds > 0 ? milliseconds / 1000 : 0;
    size_t i = 0;
    while (seconds >= rows[i].below)
        i++;
    snprintf(to, AGE_TEXT, "%lld%c", (long long)(seconds / rows[i].unit), rows[i].name);
}

void size_text(uint64_t bytes, char to[SIZE_TEXT])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(to, SIZE_TEXT, bytes == 1 ? "%u byte" : "%u bytes", (unsigned)bytes);
        return;
    }
    double value = (double)bytes / 1024;
    size_t i = 0;
    for (; value >= 1023.5 && i + 1 < sizeof units / sizeof *units; i++)
        value /= 1024;
    snprintf(to, SIZE_TEXT, value < 9.95 ? "%.1f %s" : "%.0f %s", value, units[i]);
}

/* Takes `len` digits off the front; -1: they are none. */
static int take_digits(struct span *text, size_t len)
{
    int value = 0;
    if (text->len < len)
        return -1;
    for (size_t i = 0; i < len; i++) {
        if (!ascii_is_digit(text->data[i]))
            return -1;
        value = value * 10 + (text->data[i] - '0');
    }
    *text = span_after(*text, len);
    return value;
}

/* Days since 1970 of a day of the Gregorian calendar. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    if (month <= 2) { /* years begin in March, so leap days come last */
        year--;
        month += 12;
    }
    return 365 * year + year / 4 - year / 100 + year / 400 + (153 * (month - 3) + 2) / 5 + day - 719469;
}

bool time_of_text(struct span text, int64_t *ms)
{
    static const struct {
        size_t len;
        int least, most;
        char then;
    } rows[] = {{4, 1970, 9999, '-'}, {2, 1, 12, '-'}, {2, 1, 31, 'T'},
                {2, 0, 23, ':'},      {2, 0, 59, ':'}, {2, 0, 60, 0}};
    int values[6], fraction = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        values[i] = take_digits(&text, rows[i].len);
        if (values[i] < rows[i].least || values[i] > rows[i].most)
            return false;
        if (!rows[i].then)
            continue;
        if (text.len == 0 || text.data[0] != rows[i].then)
            return false;
        text = span_after(text, 1);
    }
    if (text.len && text.data[0] == '.') {
        text = span_after(text, 1);
        if ((fraction = take_digits(&text, 3)) < 0)
            return false;
    }
    if (!span_equal(text, SPAN("Z")))
        return false;
    int64_t days = days_of(values[0], values[1], values[2]);
    *ms = (((days * 24 + values[3]) * 60 + values[4]) * 60 + values[5]) * 1000 + fraction;
    return true;
}

/* Does a terminal show it, or obey it: controls, C1 in UTF-8 too? `len` 0: no UTF-8. */
static bool is_shown(const char *at, size_t len)
{
    unsigned char first = (unsigned char)at[0];
    if (len == 1)
        return first >= 0x20 && first != 0x7F;
    return len > 0 && !(len == 2 && first == 0xC2 && (unsigned char)at[1] < 0xA0);
}

size_t clean_text(struct span text, size_t columns, FILE *out)
{
    const char *at = text.data, *end = at + text.len;
    size_t taken = 0;
    while (at < end) {
        size_t len = utf8_length(at, end), step = len ? len : 1;
        if (columns && taken + 1 == columns && at + step < end) {
            fputs("…", out);
            return taken + 1;
        }
        if (is_shown(at, len))
            fwrite(at, 1, len, out);
        else
            fputc('?', out);
        at += step;
        taken++;
    }
    return taken;
}

/* ---- tables ----------------------------------------------------------------------------------- */

static size_t column_count(const struct table *table)
{
    size_t count = 0;
    while (table->titles[count])
        count++;
    assert(count && count <= TABLE_MAX_COLUMNS);
    return count;
}

static size_t characters(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xC0) != 0x80;
    return count;
}

void table_add(struct table *table, const char *text, size_t columns)
{
    if (table->count == table->capacity) {
        table->capacity = table->capacity ? 2 * table->capacity : 256;
        table->cells = must_allocate(realloc(table->cells, table->capacity * sizeof *table->cells));
    }
    char *cell = NULL;
    size_t size, *width = &table->width[table->count % column_count(table)];
    FILE *memory = must_allocate(open_memstream(&cell, &size));
    size_t taken = text && *text ? clean_text(span_of(text), columns, memory) : clean_text(SPAN("-"), 0, memory);
    fclose(memory);
    table->cells[table->count++] = cell;
    if (taken > *width)
        *width = taken;
}

/* No blanks behind the last column. */
static void print_row(const struct table *table, const char *const *cells, size_t columns)
{
    for (size_t i = 0; i < columns; i++) {
        int blanks = i + 1 < columns ? (int)(table->width[i] - characters(cells[i]) + 2) : 0;
        fprintf(table->out, "%s%*s", cells[i], blanks, "");
    }
    fputc('\n', table->out);
}

void table_flush(struct table *table)
{
    size_t columns = column_count(table), rows = table->count / columns;
    if (rows == 0)
        return;
    assert(table->count % columns == 0);
    if (!table->begun) {
        for (size_t i = 0; i < columns; i++)
            if (characters(table->titles[i]) > table->width[i])
                table->width[i] = characters(table->titles[i]);
        print_row(table, table->titles, columns);
        table->begun = true;
    }
    for (size_t i = 0; i < rows; i++)
        print_row(table, (const char *const *)table->cells + i * columns, columns);
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i]);
    table->count = 0;
}

void table_free(struct table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->count = table->capacity = 0;
}
