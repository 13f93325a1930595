/*
 * json_walk.c - PURE. The elements of an array.
 *
 * The text is known to be valid, so a value ends where its brackets are closed: nothing is judged here, and each byte
 * is looked at once, however many elements there are.
 */
#include "proxy/json_walk.h"

#include "proxy/json_text.h"

#include <assert.h>

static bool is_bracket(char c, char square)
{
    return c == square || c == (square == '[' ? '{' : '}');
}

/* Behind the value that begins at the cursor. */
static void skip_value(struct json_cursor *cursor)
{
    unsigned depth = 0;
    struct span raw;
    while (cursor->at < cursor->end) {
        char c = *cursor->at;
        if (depth == 0 && (c == ',' || c == ']' || c == '}'))
            return;
        if (c == '"') {
            bool valid = json_take_string(cursor, &raw);
            assert(valid);
            continue;
        }
        if (is_bracket(c, '['))
            depth++;
        else if (is_bracket(c, ']'))
            depth--;
        cursor->at++;
    }
}

bool json_next_element(struct span *array, struct span *element)
{
    struct json_cursor cursor = {array->data, array->data + array->len};
    json_skip_space(&cursor);
    if (cursor.at == cursor.end || (*cursor.at != '[' && *cursor.at != ','))
        return false;
    cursor.at++;
    json_skip_space(&cursor);
    const char *begin = cursor.at;
    skip_value(&cursor);
    const char *end = cursor.at;
    *array = (struct span){cursor.at, (size_t)(cursor.end - cursor.at)};
    while (end > begin && strchr(" \t\r\n", end[-1]))
        end--;
    *element = (struct span){begin, (size_t)(end - begin)};
    return element->len > 0;
}
