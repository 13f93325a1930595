/*
 * fuzz_json.c - any bytes as a JSON text.
 *
 * Input: a pointer, a line feed, the text. Laws beyond what the sanitizers see: the three questions agree on what is
 * valid; the canonical form is valid, is its own canonical form, and a pointer finds the same in it; what a pointer
 * finds as object or array is valid itself; what was ignored is not there any more.
 */
#include <assert.h>

#include "proxy/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_same(struct span text, struct span canonical, const char *pointer)
{
    enum json_kind kind, again;
    struct buffer value = {0}, found = {0};
    bool there = json_pointer(text, pointer, &kind, &value), still = json_pointer(canonical, pointer, &again, &found);
    assert(there && still && kind == again);
    if (kind == JSON_OBJECT || kind == JSON_ARRAY)
        assert(json_valid(buffer_span(&value)));
    else
        assert(span_equal(buffer_span(&value), buffer_span(&found)));
    buffer_free(&value);
    buffer_free(&found);
}

/* After an element of an array has gone the next one has its place, so only members are looked for. */
static void check_ignored(struct span text, char *pointer)
{
    char *ignore[] = {pointer, NULL};
    struct buffer out = {0}, value = {0};
    enum json_kind kind;
    bool valid = json_canonical(text, ignore, &out);
    assert(valid);
    size_t last = strlen(pointer);
    while (last && pointer[last - 1] != '/')
        last--;
    bool index = pointer[last] >= '0' && pointer[last] <= '9';
    if (*pointer && !index) {
        bool found = json_pointer(buffer_span(&out), pointer, &kind, &value);
        assert(found && kind == JSON_ABSENT);
    }
    buffer_free(&out);
    buffer_free(&value);
}

static void check_valid(struct span text, char *pointer)
{
    struct buffer once = {0}, twice = {0};
    bool first = json_canonical(text, NULL, &once), second = json_canonical(buffer_span(&once), NULL, &twice);
    assert(first && second);
    assert(json_valid(buffer_span(&once)) && span_equal(buffer_span(&once), buffer_span(&twice)));
    assert(buffer_len(&once) <= text.len);
    check_same(text, buffer_span(&once), pointer);
    check_ignored(text, pointer);
    buffer_free(&once);
    buffer_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
    if (!line)
        return 0;
    size_t len = (size_t)(line - data);
    char *pointer = NEW_ARRAY(char, len + 1);
    memcpy(pointer, data, len);
    if (!json_pointer_valid(pointer))
        *pointer = '\0';
    struct span text = {(const char *)line + 1, size - len - 1};
    struct buffer out = {0};
    enum json_kind kind;
    bool valid = json_valid(text);
    if (valid)
        check_valid(text, pointer);
    else
        assert(!json_canonical(text, NULL, &out) && !json_pointer(text, pointer, &kind, &out) && kind == JSON_ABSENT);
    assert(buffer_len(&out) == 0);
    buffer_free(&out);
    free(pointer);
    return 0;
}
