/*
 * http_grammar.c - llhttp as the second reader of a head; the only file that knows it.
 *
 * Our own scan has already refused what llhttp's versions treat loosely or each in its own way (facts: 8.1 and 9.2
 * differ on 18 of 194 inputs). Here llhttp runs over the complete head in one go, on the stack, and its fields are
 * compared with ours, slice by slice. Nothing of it lives on between messages: it is paused at the head's end and
 * thrown away, so that neither `upgrade` nor a left-over flag can stop it. Left out: bodies. llhttp 8.1 refuses valid
 * chunk extensions that 9.2 accepts, and accepts a bare LF at the end of a chunked body that 9.2 refuses: one decoder
 * of our own gives one verdict on both (http_body.c).
 */
#include "proxy/http_grammar.h"

#include <llhttp.h>

#if LLHTTP_VERSION_MAJOR < 9 && !(defined(LLHTTP_STRICT_MODE) && LLHTTP_STRICT_MODE)
#error "llhttp before 9 must be compiled with LLHTTP_STRICT_MODE=1: its default takes any byte after CR for LF"
#endif

struct reading {
    const struct http_field *fields;
    size_t field_count;
    size_t names, values; /* read so far */
};

/* A piece of a slice is a disagreement, too: the head is here in one piece, so llhttp has no reason to cut. */
static int compare_name(llhttp_t *llhttp, const char *at, size_t len)
{
    struct reading *reading = llhttp->data;
    const struct http_field *field = &reading->fields[reading->names];

    if (reading->names == reading->field_count || field->name.data != at || field->name.len != len)
        return -1;
    reading->names++;
    return 0;
}

static int compare_value(llhttp_t *llhttp, const char *at, size_t len)
{
    struct reading *reading = llhttp->data;
    struct span value = span_trim((struct span){at, len}); /* llhttp leaves white space at the end */
    const struct http_field *field = &reading->fields[reading->values];

    if (reading->values == reading->field_count || field->value.len != value.len)
        return -1;
    if (value.len && field->value.data != value.data) /* an empty value's place does not matter */
        return -1;
    reading->values++;
    return 0;
}

static int stop_here(llhttp_t *llhttp)
{
    (void)llhttp;
    return HPE_PAUSED;
}

/* static: llhttp keeps the pointer. */
static const llhttp_settings_t settings = {
    .on_header_field = compare_name,
    .on_header_value = compare_value,
    .on_headers_complete = stop_here,
};

bool http_grammar_agrees(bool response, struct span head, const struct http_field *fields, size_t field_count)
{
    struct reading reading = {.fields = fields, .field_count = field_count};
    llhttp_t llhttp;

    llhttp_init(&llhttp, response ? HTTP_RESPONSE : HTTP_REQUEST, &settings);
    llhttp.data = &reading;
    return llhttp_execute(&llhttp, head.data, head.len) == HPE_PAUSED && reading.names == field_count &&
           llhttp_get_error_pos(&llhttp) == head.data + head.len;
}
