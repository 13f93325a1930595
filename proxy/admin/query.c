/*
 * query.c - PURE. Parameters by rows; whatever is misspelt, repeated or out of range is refused and named, since a
 * filter that is silently ignored shows the wrong actions.
 */
#include "proxy/admin/query.h"
#include "proxy/ascii.h"

#include <stdio.h>

#define COUNT(array)  (sizeof(array) / sizeof((array)[0]))
#define LIMIT_DEFAULT 100
#define WAIT_MAX      3600
#define CURSOR_MARK   'a' /* of this kind of cursor, should there be another one day */

/* ---- percent-encoding ------------------------------------------------------------------------- */

/* `plus`: "+" is a space, as forms write it. */
static char *decode(struct span text, bool plus)
{
    char *to = must_allocate(malloc(text.len + 1));
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        int value = (unsigned char)text.data[i];
        if (value == '%') {
            int coded = ascii_percent_value(text.data + i, text.len - i);
            value = coded < 0 ? 0 : coded;
            i += 2;
        } else if (value == '+' && plus) {
            value = ' ';
        }
        if (value == 0) {
            free(to);
            return NULL;
        }
        to[len++] = (char)value;
    }
    to[len] = '\0';
    return to;
}

char *query_segment(struct span text)
{
    return decode(text, false);
}

/* ---- single values ---------------------------------------------------------------------------- */

/* Decimal digits only; false: not, or beyond `max`. */
static bool number(const char *text, uint64_t max, uint64_t *value)
{
    *value = 0;
    if (!*text || strlen(text) > 9)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        *value = *value * 10 + (uint64_t)(*text - '0');
    }
    return *value <= max;
}

static bool take_state(struct query *query, char *text)
{
    static const enum store_state states[] = {STORE_IN_PROGRESS, STORE_COMPLETED, STORE_UNKNOWN};
    for (size_t i = 0; i < COUNT(states); i++)
        if (strcmp(text, store_state_name(states[i])) == 0)
            query->store.state = states[i];
    free(text);
    return query->store.state != 0;
}

static bool take_limit(struct query *query, char *text)
{
    uint64_t value;
    bool fine = number(text, STORE_PAGE_MAX, &value) && value > 0;
    query->store.limit = (size_t)value;
    free(text);
    return fine;
}

/* 0–15; -1: no digit, or an upper-case one, which we never write. */
static int lower_hex(char digit)
{
    return digit >= 'A' && digit <= 'F' ? -1 : ascii_hex_value(digit);
}

static bool cursor(const char *text, uint64_t *value)
{
    *value = 0;
    if (*text != CURSOR_MARK || strlen(text) != QUERY_CURSOR_TEXT - 1)
        return false;
    for (text++; *text; text++) {
        int digit = lower_hex(*text);
        if (digit < 0)
            return false;
        *value = *value << 4 | (uint64_t)digit;
    }
    return *value != 0;
}

static bool take_after(struct query *query, char *text)
{
    bool fine = cursor(text, &query->store.after);
    free(text);
    return fine;
}

static bool take_wait(struct query *query, char *text)
{
    uint64_t value;
    bool fine = number(text, WAIT_MAX, &value);
    query->wait = (int64_t)value;
    free(text);
    return fine;
}

static bool take_text(const char **to, char *text)
{
    *to = text;
    return *text != '\0';
}

static bool take_route(struct query *query, char *text)
{
    return take_text(&query->store.route, text);
}

static bool take_task(struct query *query, char *text)
{
    return take_text(&query->store.task, text);
}

static bool take_key(struct query *query, char *text)
{
    return take_text(&query->store.key, text);
}

/* ---- parameters ------------------------------------------------------------------------------- */

struct parameter {
    enum query_name bit;
    const char *name, *form;
    bool (*take)(struct query *query, char *text); /* takes over the text */
};

static const struct parameter parameters[] = {
    {QUERY_STATE, "state", "in_progress, completed or unknown", take_state},
    {QUERY_ROUTE, "route", "the name of a route", take_route},
    {QUERY_TASK, "task", "the name of a task", take_task},
    {QUERY_KEY, "key", "the text of a sent key", take_key},
    {QUERY_LIMIT, "limit", "a number from 1 to 1000", take_limit},
    {QUERY_AFTER, "after", "the cursor that the page before gave as next", take_after},
    {QUERY_WAIT, "wait", "seconds, 0 to 3600", take_wait},
};

static void say_unknown(unsigned allowed, char why[QUERY_WHY_SIZE])
{
    size_t len = (size_t)snprintf(
        why, QUERY_WHY_SIZE, allowed ? "unknown query parameter; known are" : "no query parameters are known here");
    const char *before = " ";
    for (size_t i = 0; i < COUNT(parameters); i++)
        if (allowed & parameters[i].bit) {
            len += (size_t)snprintf(why + len, QUERY_WHY_SIZE - len, "%s%s", before, parameters[i].name);
            before = ", ";
        }
}

static bool take_parameter(const struct parameter *parameter, struct span value, struct query *query,
                           char why[QUERY_WHY_SIZE])
{
    char *text = decode(value, true);
    if (text && parameter->take(query, text))
        return true;
    snprintf(why, QUERY_WHY_SIZE, "query parameter %s: expected %s", parameter->name, parameter->form);
    return false;
}

static bool take_pair(struct span pair, unsigned allowed, unsigned *seen, struct query *query, char why[QUERY_WHY_SIZE])
{
    const char *equals = memchr(pair.data, '=', pair.len);
    struct span name = {pair.data, equals ? (size_t)(equals - pair.data) : pair.len};
    struct span value = equals ? span_after(pair, name.len + 1) : (struct span){"", 0};
    for (size_t i = 0; i < COUNT(parameters); i++) {
        const struct parameter *parameter = &parameters[i];
        if (!(allowed & parameter->bit) || !span_equal(name, span_of(parameter->name)))
            continue;
        if (*seen & parameter->bit) {
            snprintf(why, QUERY_WHY_SIZE, "query parameter %s: given more than once", parameter->name);
            return false;
        }
        *seen |= parameter->bit;
        return take_parameter(parameter, value, query, why);
    }
    say_unknown(allowed, why);
    return false;
}

bool query_parse(struct span text, unsigned allowed, struct query *query, char why[QUERY_WHY_SIZE])
{
    unsigned seen = 0;
    *query = (struct query){.store = {.limit = LIMIT_DEFAULT}};
    while (text.len) {
        const char *ampersand = memchr(text.data, '&', text.len);
        struct span pair = {text.data, ampersand ? (size_t)(ampersand - text.data) : text.len};
        text = span_after(text, ampersand ? pair.len + 1 : pair.len);
        if (pair.len && !take_pair(pair, allowed, &seen, query, why))
            return false;
    }
    return true;
}

void query_clear(struct query *query)
{
    free((char *)query->store.route);
    free((char *)query->store.task);
    free((char *)query->store.key);
    *query = (struct query){.wait = 0};
}

/* ---- ids and cursors -------------------------------------------------------------------------- */

bool query_id(struct span text, struct store_id *id)
{
    if (text.len != 2 * STORE_ID_LEN)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        int value = lower_hex(text.data[i]);
        if (value < 0)
            return false;
        id->bytes[i / 2] = (uint8_t)(i % 2 ? id->bytes[i / 2] | value : value << 4);
    }
    return true;
}

void query_id_text(const struct store_id *id, char to[QUERY_ID_TEXT])
{
    ascii_hex_text(to, id->bytes, STORE_ID_LEN);
}

void query_cursor_text(uint64_t last, char to[QUERY_CURSOR_TEXT])
{
    snprintf(to, QUERY_CURSOR_TEXT, "%c%016llx", CURSOR_MARK, (unsigned long long)last);
}
