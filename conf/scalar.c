/*
 * scalar.c - PURE. The small notations of a configuration, strict: what is not wholly understood is refused, never read
 * as far as it goes.
 */
#include "conf/scalar.h"

#include "conf/conf.h"
#include "proxy/span.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- numbers ---------------------------------------------------------------------------------- */

/* The digits at the start, or NULL; what follows them is returned. "0" begins no other number: 010 is octal to some. */
static const char *take_digits(const char *text, uint64_t *value)
{
    const char *at = text;
    uint64_t sum = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        unsigned digit = (unsigned)(*at - '0');
        if (sum > (UINT64_MAX - digit) / 10)
            return NULL;
        sum = sum * 10 + digit;
    }
    if (at == text || (text[0] == '0' && at - text > 1))
        return NULL;
    *value = sum;
    return at;
}

bool scalar_number(const char *text, uint64_t *value)
{
    const char *rest = take_digits(text, value);
    return rest && *rest == '\0';
}

struct unit {
    const char *name;
    uint64_t factor;
    bool is_written; /* by us, too; the first that is exact */
};

static const struct unit size_units[] = {
    {"TiB", 1ull << 40, true}, {"GiB", 1ull << 30, true}, {"MiB", 1ull << 20, true}, {"TB", 1000000000000ull, true},
    {"GB", 1000000000, true},  {"MB", 1000000, true},     {"KiB", 1ull << 10, true}, {"", 1, true},
    {"KB", 1000, false},
};

static const struct unit duration_units[] = {
    {"d", 86400000, true}, {"h", 3600000, true}, {"m", 60000, true}, {"s", 1000, true}, {"ms", 1, true},
};

static bool parse(const char *text, const struct unit *units, size_t count, uint64_t *value)
{
    uint64_t number;
    const char *rest = take_digits(text, &number);
    for (size_t i = 0; rest && i < count; i++) {
        if (strcmp(rest, units[i].name) != 0)
            continue;
        if (number > UINT64_MAX / units[i].factor)
            return false;
        *value = number * units[i].factor;
        return true;
    }
    return false;
}

bool scalar_size(const char *text, uint64_t *bytes)
{
    return parse(text, size_units, COUNT(size_units), bytes);
}

bool scalar_duration(const char *text, int64_t *milliseconds)
{
    uint64_t value;
    if (!parse(text, duration_units, COUNT(duration_units), &value) || value >= INT64_MAX)
        return false;
    *milliseconds = (int64_t)value;
    return true;
}

static void print(uint64_t value, const struct unit *units, size_t count, const char *zero, FILE *out)
{
    if (value == 0)
        fputs(zero, out);
    for (size_t i = 0; value && i < count; i++) {
        if (!units[i].is_written || value % units[i].factor != 0)
            continue;
        fprintf(out, "%llu%s", (unsigned long long)(value / units[i].factor), units[i].name);
        return;
    }
}

void scalar_print_size(uint64_t bytes, FILE *out)
{
    print(bytes, size_units, COUNT(size_units), "0", out);
}

void scalar_print_duration(int64_t milliseconds, FILE *out)
{
    if (milliseconds == CONF_FOREVER)
        fputs("never", out);
    else
        print((uint64_t)milliseconds, duration_units, COUNT(duration_units), "0s", out);
}

static void print_units(const struct unit *units, size_t count, FILE *out)
{
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%s", i ? "|" : "", units[i].name);
}

void scalar_print_size_units(FILE *out)
{
    print_units(size_units, COUNT(size_units), out);
}

void scalar_print_duration_units(FILE *out)
{
    print_units(duration_units, COUNT(duration_units), out);
}

/* ---- words ------------------------------------------------------------------------------------ */

static bool is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool scalar_is_name(const char *text)
{
    size_t len = strlen(text);
    if (len < 1 || len > 64 || text[0] == '.' || text[0] == '-')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!is_alphanumeric(text[i]) && !strchr("._-", text[i]))
            return false;
    return true;
}

bool scalar_is_token(const char *text)
{
    if (*text == '\0')
        return false;
    for (; *text; text++)
        if (!is_alphanumeric(*text) && !strchr("!#$%&'*+-.^_`|~", *text))
            return false;
    return true;
}

enum { LONGEST_WORD = 40 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
}

/* Letters inserted, left out, replaced or swapped with their neighbour; case does not count. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t rows[LONGEST_WORD + 1][LONGEST_WORD + 1];
    for (size_t i = 0; i <= a_len; i++)
        rows[i][0] = i;
    for (size_t j = 0; j <= b_len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        for (size_t j = 1; j <= b_len; j++) {
            bool equal = lower(a[i - 1]) == lower(b[j - 1]);
            size_t best = least(rows[i - 1][j] + 1, rows[i][j - 1] + 1);
            best = least(best, rows[i - 1][j - 1] + !equal);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
                best = least(best, rows[i - 2][j - 2] + 1);
            rows[i][j] = best;
        }
    }
    return rows[a_len][b_len];
}

const char *scalar_nearest(const char *word, const char *const *words, size_t count)
{
    size_t len = strlen(word);
    size_t limit = len < 4 ? 1 : len < 9 ? 2 : 3, best = limit + 1;
    const char *nearest = NULL;
    if (len == 0 || len > LONGEST_WORD)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t other = strlen(words[i]);
        if (other > LONGEST_WORD)
            continue;
        size_t found = distance(word, len, words[i], other);
        if (found < best && found < other) {
            best = found;
            nearest = words[i];
        }
    }
    return nearest;
}
