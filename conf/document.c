/*
 * document.c - text to tree, in three passes over a small file.
 *
 *     bytes    valid UTF-8 and printable? libyaml would tell an offset only, we tell line and column
 *     events   what the tree no longer shows: anchors, aliases, tags, further documents, depth
 *     tree     names are scalars and occur once per mapping
 *
 * Invariant: after document_load the tree is one, without sharing or cycles, at most DOCUMENT_MAX_DEPTH deep; so
 * whoever walks it may recurse.
 */
#include "conf/document.h"

#include "proxy/span.h"

#include <assert.h>

struct place document_place(yaml_mark_t mark)
{
    return (struct place){mark.line + 1, mark.column + 1};
}

static void error_at(struct report *report, struct place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void error_at(struct report *report, struct place place, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    report_add_list(report, place, MESSAGE_ERROR, format, arguments);
    va_end(arguments);
}

/* ---- bytes ------------------------------------------------------------------------------------ */

/* Length of the UTF-8 sequence at `at`, 0 if it is none (RFC 3629: no overlong form, no surrogate). */
static size_t decode(const unsigned char *at, size_t left, uint32_t *code)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = at[0] < 0x80 ? 1 : at[0] >> 5 == 6 ? 2 : at[0] >> 4 == 14 ? 3 : at[0] >> 3 == 30 ? 4 : 0;
    if (len == 0 || len > left)
        return 0;
    *code = len == 1 ? at[0] : at[0] & (0x7Fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (at[i] >> 6 != 2)
            return 0;
        *code = *code << 6 | (at[i] & 0x3Fu);
    }
    bool surrogate = *code >= 0xD800 && *code <= 0xDFFF;
    return *code < smallest[len] || surrogate || *code > 0x10FFFF ? 0 : len;
}

static bool is_printable(uint32_t code) /* YAML 1.1 §5.1 */
{
    return code == '\t' || code == '\n' || code == '\r' || (code >= 0x20 && code <= 0x7E) || code == 0x85 ||
           (code >= 0xA0 && code <= 0xFFFD) || code >= 0x10000;
}

static bool is_break(uint32_t code, unsigned char next) /* as libyaml counts lines */
{
    return code == '\n' || (code == '\r' && next != '\n') || code == 0x85 || code == 0x2028 || code == 0x2029;
}

static bool bytes_valid(const char *text, size_t len, struct report *report)
{
    const unsigned char *bytes = (const unsigned char *)text;
    struct place place = {1, 1};
    for (size_t i = 0; i < len;) {
        uint32_t code = 0;
        size_t step = decode(bytes + i, len - i, &code);
        if (step == 0) {
            error_at(report, place, "not UTF-8: byte 0x%02X", bytes[i]);
            return false;
        }
        if (!is_printable(code)) {
            error_at(report, place, "control character U+%04X", (unsigned)code);
            return false;
        }
        i += step;
        place.column++;
        if (is_break(code, i < len ? bytes[i] : 0))
            place = (struct place){place.line + 1, 1};
    }
    return true;
}

/* ---- events ----------------------------------------------------------------------------------- */

static void parser_begin(yaml_parser_t *parser, const char *text, size_t len)
{
    if (!yaml_parser_initialize(parser))
        abort();
    yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(parser, (const unsigned char *)text, len);
}

static void report_syntax(const yaml_parser_t *parser, struct report *report)
{
    if (parser->error == YAML_MEMORY_ERROR)
        abort();
    struct place place = document_place(parser->problem_mark);
    if (parser->context)
        error_at(report, place, "syntax: %s (%s that begins on line %zu)", parser->problem, parser->context,
                 parser->context_mark.line + 1);
    else
        error_at(report, place, "syntax: %s", parser->problem);
}

struct event_walk {
    struct report *report;
    size_t documents, depth;
    bool stop; /* the tree would be shared, too deep or not one */
};

static void refuse_tag_and_anchor(struct event_walk *walk, struct place place, const yaml_char_t *anchor,
                                  const yaml_char_t *tag)
{
    if (anchor)
        error_at(walk->report, place, "anchors are not allowed (&%s)", anchor);
    if (tag)
        error_at(walk->report, place, "tags are not allowed (%s)", tag);
}

static void enter(struct event_walk *walk, struct place place)
{
    if (++walk->depth <= DOCUMENT_MAX_DEPTH)
        return;
    error_at(walk->report, place, "nested more than %d deep", DOCUMENT_MAX_DEPTH);
    walk->stop = true;
}

static void see_event(struct event_walk *walk, const yaml_event_t *event)
{
    struct place place = document_place(event->start_mark);
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++walk->documents == 1)
            break;
        error_at(walk->report, place, "a second document begins here: a file holds one");
        walk->stop = true;
        break;
    case YAML_ALIAS_EVENT:
        error_at(walk->report, place, "aliases are not allowed (*%s)", event->data.alias.anchor);
        walk->stop = true;
        break;
    case YAML_SCALAR_EVENT:
        refuse_tag_and_anchor(walk, place, event->data.scalar.anchor, event->data.scalar.tag);
        break;
    case YAML_SEQUENCE_START_EVENT:
        refuse_tag_and_anchor(walk, place, event->data.sequence_start.anchor, event->data.sequence_start.tag);
        enter(walk, place);
        break;
    case YAML_MAPPING_START_EVENT:
        refuse_tag_and_anchor(walk, place, event->data.mapping_start.anchor, event->data.mapping_start.tag);
        enter(walk, place);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        walk->depth--;
        break;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        break;
    }
}

/* After an alias the walk goes on, so that all of them are told in one run; the other two make the rest pointless. */
static bool events_valid(const char *text, size_t len, struct report *report)
{
    yaml_parser_t parser;
    struct event_walk walk = {.report = report};
    parser_begin(&parser, text, len);
    for (bool over = false; !over;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            report_syntax(&parser, report);
            walk.stop = true;
            break;
        }
        see_event(&walk, &event);
        over = event.type == YAML_STREAM_END_EVENT || walk.depth > DOCUMENT_MAX_DEPTH || walk.documents > 1;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return !walk.stop;
}

/* ---- tree ------------------------------------------------------------------------------------- */

static const char *text_of(const yaml_node_t *node)
{
    return (const char *)node->data.scalar.value;
}

struct named {
    const yaml_node_t *node;
};

static int compare_named(const void *left, const void *right)
{
    const yaml_node_t *a = ((const struct named *)left)->node, *b = ((const struct named *)right)->node;
    int order = strcmp(text_of(a), text_of(b));
    if (order != 0)
        return order;
    return a->start_mark.index < b->start_mark.index ? -1 : a->start_mark.index > b->start_mark.index;
}

/* Sorted, so that a file of a million equal names costs no quadratic time. */
static void check_names(yaml_document_t *document, const yaml_node_t *mapping, struct report *report)
{
    const yaml_node_pair_t *from = mapping->data.mapping.pairs.start, *to = mapping->data.mapping.pairs.top;
    struct named *names = NEW_ARRAY(struct named, (size_t)(to - from));
    size_t count = 0;
    for (const yaml_node_pair_t *pair = from; pair < to; pair++) {
        const yaml_node_t *key = yaml_document_get_node(document, pair->key);
        if (key->type == YAML_SCALAR_NODE)
            names[count++].node = key;
        else
            error_at(report, document_place(key->start_mark), "expected a name before the colon");
    }
    qsort(names, count, sizeof *names, compare_named);
    for (size_t i = 1, first = 0; i < count; i++) {
        if (strcmp(text_of(names[i].node), text_of(names[first].node)) != 0)
            first = i;
        else
            error_at(report, document_place(names[i].node->start_mark), "duplicate key '%s' (first on line %zu)",
                     text_of(names[i].node), names[first].node->start_mark.line + 1);
    }
    free(names);
}

static void check_tree(yaml_document_t *document, const yaml_node_t *node, struct report *report)
{
    switch (node->type) {
    case YAML_NO_NODE:
    case YAML_SCALAR_NODE:
        break;
    case YAML_SEQUENCE_NODE:
        for (yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++)
            check_tree(document, yaml_document_get_node(document, *item), report);
        break;
    case YAML_MAPPING_NODE:
        check_names(document, node, report);
        for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++)
            check_tree(document, yaml_document_get_node(document, pair->value), report);
        break;
    }
}

static bool is_nothing(const yaml_node_t *root)
{
    return !root || (root->type == YAML_SCALAR_NODE && root->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
                     root->data.scalar.length == 0);
}

bool document_load(yaml_document_t *document, const char *text, size_t len, struct report *report)
{
    if (len > DOCUMENT_MAX_SIZE) {
        error_at(report, (struct place){1, 1}, "larger than %d bytes", DOCUMENT_MAX_SIZE);
        return false;
    }
    if (!bytes_valid(text, len, report) || !events_valid(text, len, report))
        return false;
    yaml_parser_t parser;
    parser_begin(&parser, text, len);
    bool loaded = yaml_parser_load(&parser, document);
    if (!loaded)
        report_syntax(&parser, report);
    yaml_parser_delete(&parser);
    if (!loaded)
        return false;
    const yaml_node_t *root = yaml_document_get_root_node(document);
    if (is_nothing(root)) {
        error_at(report, (struct place){1, 1}, "the file is empty");
        yaml_document_delete(document);
        return false;
    }
    check_tree(document, root, report);
    return true;
}

yaml_node_t *document_member(yaml_document_t *document, const yaml_node_t *mapping, const char *name, yaml_node_t **key)
{
    assert(mapping->type == YAML_MAPPING_NODE);
    for (yaml_node_pair_t *pair = mapping->data.mapping.pairs.start; pair < mapping->data.mapping.pairs.top; pair++) {
        yaml_node_t *node = yaml_document_get_node(document, pair->key);
        if (node->type != YAML_SCALAR_NODE || strcmp(text_of(node), name) != 0)
            continue;
        if (key)
            *key = node;
        return yaml_document_get_node(document, pair->value);
    }
    return NULL;
}
