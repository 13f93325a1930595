/*
 * read_probe.c - `probe`: how the API itself is asked whether an action happened (contract §3).
 *
 * The path is a template of literal text and {values}; it is taken apart here, once, and put together for each question
 * by proxy/probe.c. Invariants: the literal text is a valid request target that keeps to its segments, at least one
 * value is in it (a question that is the same for every action tells nothing of one), and no status means both.
 */
#include "conf/check.h"
#include "conf/component.h"
#include "conf/own.h"
#include "conf/scalar.h"
#include "conf/statuses.h"
#include "proxy/http_text.h"

#include <string.h>

enum { SETTLE_NOT_SAID = -1 };

struct probe_reading { /* what the rows of probe_section fill */
    struct conf_probe *probe;
    int method;
    int64_t settle;
    struct status_list happened, not_happened;
};

/* ---- the template ----------------------------------------------------------------------------- */

static bool is_dots(struct span segment)
{
    return span_equal(segment, SPAN(".")) || span_equal(segment, SPAN(".."));
}

/* Is a segment of the path "." or "..", as far as that stands in the template? */
static bool has_dot_segment(const char *text)
{
    struct span path = {text, strcspn(text, "?")};
    while (path.len) {
        path.data++, path.len--; /* the "/" */
        const char *slash = path.len ? memchr(path.data, '/', path.len) : NULL;
        struct span segment = {path.data, slash ? (size_t)(slash - path.data) : path.len};
        if (is_dots(segment))
            return true;
        path = span_after(path, segment.len);
    }
    return false;
}

/* What a request target may hold; braces are looked at apart. */
static const char *check_literal(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        if (c == '#')
            return "# cannot be sent";
        if (c == '}')
            return "} without a { before it";
        if ((unsigned char)c <= 0x20 || (unsigned char)c >= 0x7F || !http_is(c, HTTP_CHAR_TARGET))
            return "spaces, control characters and what is not ASCII must be written as %XX";
        if (c == '%' && (text.len - i < 3 || !http_is(text.data[i + 1], HTTP_CHAR_HEX) ||
                         !http_is(text.data[i + 2], HTTP_CHAR_HEX)))
            return "% must be followed by two hexadecimal digits";
    }
    return NULL;
}

static struct conf_probe_part *add_part(struct conf_probe *probe, enum conf_probe_kind kind)
{
    struct conf_probe_part *part = &probe->parts[probe->part_count++];
    part->kind = kind;
    return part;
}

/* {key}, or one of the components that a probe can ask by. False: reported. */
static bool read_value(struct reader *reader, const yaml_node_t *node, struct conf_probe *probe, struct span name)
{
    char *text = conf_copy(reader->conf, name.data, name.len), why[300];
    if (strcmp(text, "key") == 0) {
        add_part(probe, PROBE_KEY);
        return true;
    }
    struct conf_probe_part *part = add_part(probe, PROBE_COMPONENT);
    const char *wrong = component_parse(reader->conf, text, &part->component, why, sizeof why);
    enum component_kind kind = part->component.kind;
    if (wrong || (kind != COMPONENT_PATH_NAME && kind != COMPONENT_JSON && kind != COMPONENT_HEADER))
        reader_error(reader, node, "{%s}: expected {key}, {path:NAME}, {json:/POINTER} or {header:NAME}", text);
    else
        return check_path_name(reader, node, &part->component);
    return false;
}

static void read_template(struct reader *reader, const yaml_node_t *node, struct conf_probe *probe)
{
    const char *at = probe->path;
    size_t values = 0;
    probe->parts = CONF_NEW_ARRAY(reader->conf, struct conf_probe_part, strlen(at) + 1);
    while (*at) {
        struct span literal = {at, strcspn(at, "{")};
        const char *wrong = check_literal(literal), *end = strchr(at + literal.len, '}');
        at += literal.len;
        if (!wrong && *at && !end)
            wrong = "{ without a } after it";
        if (wrong) {
            reader_error(reader, node, "'%s': %s", probe->path, wrong);
            return;
        }
        if (literal.len)
            add_part(probe, PROBE_LITERAL)->text = conf_copy(reader->conf, literal.data, literal.len);
        if (!*at)
            break;
        if (!read_value(reader, node, probe, (struct span){at + 1, (size_t)(end - at) - 1}))
            return;
        values++;
        at = end + 1;
    }
    if (!values)
        reader_error(reader, node, "'%s': names no value of the attempt, so it cannot tell one action from another",
                     probe->path);
}

static void read_probe_path(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct conf_probe *probe = *(struct conf_probe **)target;
    struct scalar scalar;
    (void)setting;
    if (!reader_scalar(reader, node, "a path with {values}", &scalar))
        return;
    probe->path = conf_copy(reader->conf, scalar.text, strlen(scalar.text));
    if (probe->path[0] != '/')
        reader_error(reader, node, "'%s': a path begins with /", probe->path);
    else if (has_dot_segment(probe->path))
        reader_error(reader, node, "'%s': no segment may be . or ..", probe->path);
    else
        read_template(reader, node, probe);
}

/* ---- statuses --------------------------------------------------------------------------------- */

/* These tell that the API did not look, or cannot say: neither that something happened nor that it did not. */
static bool tells_nothing(unsigned status)
{
    return status == 401 || status == 403 || status == 407 || status == 408 || status == 429 || status >= 500;
}

static void warn_of_silence(struct reader *reader, const struct status_entry *entry, const char *list)
{
    for (unsigned status = entry->first; status <= entry->last; status++) {
        if (!tells_nothing(status))
            continue;
        reader_warn_at(reader, entry->place,
                       "%s.%s: with %u an API refuses to say or fails to look; it does not tell what happened",
                       reader->path, list, status);
        return;
    }
}

/* A status counts before its class, whichever list they are in. */
static void apply_list(struct reader *reader, struct conf_probe *probe, const struct status_list *list,
                       enum conf_probe_meaning meaning, bool classes)
{
    const char *name = meaning == PROBE_HAPPENED ? "happened" : "not_happened";
    for (size_t i = 0; i < list->count; i++) {
        const struct status_entry *entry = &list->entries[i];
        if ((entry->first != entry->last) != classes)
            continue;
        if (entry->retry_after)
            report_add(reader->report, entry->place, MESSAGE_ERROR,
                       "%s.%s: a probe's status counts with or without "
                       "Retry-After: write it without",
                       reader->path, name);
        else if (!list->is_default)
            warn_of_silence(reader, entry, name);
        memset(probe->meaning + entry->first, meaning, (size_t)(entry->last - entry->first) + 1);
    }
}

static bool is_same(const struct status_entry *one, const struct status_entry *two)
{
    return one->first == two->first && one->last == two->last;
}

static void report_both(struct reader *reader, const struct status_entry *entry, const char *list)
{
    char text[8];
    bool is_class = entry->first != entry->last;
    snprintf(text, sizeof text, is_class ? "%uxx" : "%u", is_class ? entry->first / 100u : entry->first);
    report_add(reader->report, entry->place, MESSAGE_ERROR,
               "%s.%s: %s is in the other list as well: it cannot mean both", reader->path, list, text);
}

static void check_lists(struct reader *reader, const struct probe_reading *reading)
{
    for (size_t i = 0; i < reading->not_happened.count; i++)
        for (size_t j = 0; j < reading->happened.count; j++) {
            const struct status_entry *no = &reading->not_happened.entries[i], *yes = &reading->happened.entries[j];
            if (!is_same(no, yes))
                continue;
            if (reading->not_happened.is_default)
                report_both(reader, yes, "happened");
            else
                report_both(reader, no, "not_happened");
        }
}

static void make_meanings(struct reader *reader, struct probe_reading *reading)
{
    for (int classes = 1; classes >= 0; classes--) {
        apply_list(reader, reading->probe, &reading->happened, PROBE_HAPPENED, classes);
        apply_list(reader, reading->probe, &reading->not_happened, PROBE_NOT_HAPPENED, classes);
    }
    check_lists(reader, reading);
}

/* ---- the whole -------------------------------------------------------------------------------- */

static const struct choice methods[] = {{"GET", false}, {"HEAD", true}, {NULL, 0}};

static const struct setting probe_settings[] = {
    {.name = "routes[].probe.method",
     .type = SETTING_CHOICE,
     .offset = offsetof(struct probe_reading, method),
     .choices = methods,
     .standard = "GET",
     .text = "of the question, which has no effects"},
    {.name = "routes[].probe.path",
     .type = SETTING_OWN,
     .flags = SETTING_REQUIRED,
     .offset = offsetof(struct probe_reading, probe),
     .read = read_probe_path,
     .form = "template",
     .text = "path, and query if it needs one, with {key} (as the API got it), {path:NAME}, {json:/POINTER} and "
             "{header:NAME}, each percent-encoded"},
    {.name = "routes[].probe.happened",
     .type = SETTING_OWN,
     .offset = offsetof(struct probe_reading, happened),
     .read = read_status_list,
     .standard = "[200]",
     .form = "list of statuses and classes",
     .text = "the action has happened: this answer becomes its outcome"},
    {.name = "routes[].probe.not_happened",
     .type = SETTING_OWN,
     .offset = offsetof(struct probe_reading, not_happened),
     .read = read_status_list,
     .standard = "[404]",
     .form = "list of statuses and classes",
     .text = "it has not: the attempt executes. Whatever is in neither list leaves it unknown"},
    {.name = "routes[].probe.settle",
     .type = SETTING_DURATION,
     .offset = offsetof(struct probe_reading, settle),
     .min = 0,
     .max = 30 * 24 * 3600 * 1000ull,
     .otherwise = "response_timeout of the upstream",
     .text = "how long after the last forwarding ended not_happened is believed; before: 409 with Retry-After"},
};
const struct section probe_section = {"routes[].probe", probe_settings, sizeof probe_settings / sizeof *probe_settings};

void read_probe(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct probe_reading reading = {.settle = SETTLE_NOT_SAID};
    (void)setting;
    if (!reader_mapping(reader, node, "a mapping"))
        return;
    reading.probe = CONF_NEW_ARRAY(reader->conf, struct conf_probe, 1);
    reader_section(reader, &probe_section, node, &reading);
    make_meanings(reader, &reading);
    reading.probe->method = reading.method ? "HEAD" : "GET";
    reading.probe->settle = reading.settle;
    *(struct conf_probe **)target = reading.probe;
}

static void print_statuses_of(const struct conf_probe *probe, enum conf_probe_meaning meaning, FILE *out)
{
    bool any = false;
    for (unsigned status = 200; status < 1000; status++) {
        unsigned first = status;
        while (status < 1000 && probe->meaning[status] == meaning)
            status++;
        if (status == first)
            continue;
        fprintf(out, " %u", first);
        if (status - 1 > first)
            fprintf(out, "-%u", status - 1);
        any = true;
    }
    if (!any)
        fputs(" none", out);
}

void print_probe(const void *target, FILE *out)
{
    static const char indent[] = "\n                               ";
    const struct conf_probe *probe = *(struct conf_probe *const *)target;
    if (!probe) {
        fputs("none", out);
        return;
    }
    fprintf(out, "%s %s%shappened    ", probe->method, probe->path, indent);
    print_statuses_of(probe, PROBE_HAPPENED, out);
    fprintf(out, "%snot happened", indent);
    print_statuses_of(probe, PROBE_NOT_HAPPENED, out);
    fputs(", believed ", out);
    scalar_print_duration(probe->settle, out);
    fputs(" after the last forwarding ended", out);
}

void check_probe(struct reader *reader, const yaml_node_t *node, struct conf_route *route)
{
    const yaml_node_t *asks = document_member(reader->document, node, "on_unknown", NULL);
    yaml_node_t *key = NULL, *how = document_member(reader->document, node, "probe", &key);
    struct conf_probe *probe = route->probe;
    if (route->on_unknown == ON_UNKNOWN_PROBE && !how)
        reader_error(reader, asks ? asks : node, "on_unknown: 'probe' needs a 'probe' that says how to ask");
    if (how && route->on_unknown != ON_UNKNOWN_PROBE)
        reader_error(reader, key, "probe: asks nobody without on_unknown: probe");
    if (!probe || !route->upstream)
        return;
    if (probe->settle == SETTLE_NOT_SAID) {
        probe->settle = route->upstream->response_timeout;
        return;
    }
    const yaml_node_t *settle =
        how && how->type == YAML_MAPPING_NODE ? document_member(reader->document, how, "settle", NULL) : NULL;
    if (settle && probe->settle < route->upstream->response_timeout)
        reader_warn_at(reader, reader_place(reader, settle),
                       "%s.probe.settle: shorter than the upstream's response_timeout: an API that is still working on "
                       "the action would be believed that it has not happened, and it would execute again",
                       reader->path);
}

/* ---- written back ----------------------------------------------------------------------------- */

/* A class where most of a hundred mean the same, and the statuses that differ from it. */
static void write_meanings(struct writer *writer, const struct setting *setting, const struct conf_probe *probe,
                           enum conf_probe_meaning wanted)
{
    char *list = NULL;
    size_t size;
    const char *before = "";
    FILE *out = open_memstream(&list, &size);
    if (!out)
        abort();
    for (unsigned hundred = 200; hundred < 1000; hundred += 100) {
        unsigned counts[3] = {0};
        for (unsigned status = hundred; status < hundred + 100; status++)
            counts[probe->meaning[status]]++;
        bool is_class = counts[wanted] > 50;
        if (is_class) {
            fprintf(out, "%s%uxx", before, hundred / 100);
            before = ", ";
        }
        for (unsigned status = hundred; status < hundred + 100 && !is_class; status++) {
            if (probe->meaning[status] != wanted)
                continue;
            fprintf(out, "%s%u", before, status);
            before = ", ";
        }
    }
    fclose(out);
    write_plain(writer, setting, "[%s]", list);
    free(list);
}

void write_probe(struct writer *writer, const struct setting *setting, const void *target)
{
    const struct conf_probe *probe = *(struct conf_probe *const *)target;
    const struct setting *rows = setting->section->settings; /* method, path, happened, not_happened, settle */
    if (!probe) {
        write_absent(writer, setting);
        return;
    }
    writer_open(writer, setting_key(setting));
    write_plain(writer, &rows[0], "%s", probe->method);
    write_text(writer, &rows[1], probe->path);
    write_meanings(writer, &rows[2], probe, PROBE_HAPPENED);
    write_meanings(writer, &rows[3], probe, PROBE_NOT_HAPPENED);
    write_duration(writer, &rows[4], probe->settle);
    writer_close(writer);
}
