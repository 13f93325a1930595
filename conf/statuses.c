/*
 * statuses.c - what a complete response means, from lists to a table of every status.
 *
 * Precedence, from the weakest: other, class, class with Retry-After, status, status with Retry-After. So the order of
 * lists does not matter, and an entry may stand in one list only.
 */
#include "conf/statuses.h"

#include "conf/own.h"
#include "proxy/span.h"

enum { FIRST_STATUS = 200, END_OF_STATUSES = 1000, LAST_PRINTED = 599 };

static const char *const class_names[STATUS_LISTS] = {
    [STATUS_COMPLETED] = "completed",
    [STATUS_RELEASE] = "release",
    [STATUS_UNKNOWN] = "unknown",
};

/* ---- reading ---------------------------------------------------------------------------------- */

static bool parse_entry(const char *text, struct status_entry *entry)
{
    bool is_class = text[0] && text[1] == 'x' && text[2] == 'x';
    if (text[0] < '2' || text[0] > '9')
        return false;
    for (size_t i = 1; i < 3 && !is_class; i++)
        if (text[i] < '0' || text[i] > '9')
            return false;
    unsigned hundred = (unsigned)(text[0] - '0') * 100;
    unsigned number = is_class ? hundred : hundred + (unsigned)(text[1] - '0') * 10 + (unsigned)(text[2] - '0');
    entry->first = (uint16_t)number;
    entry->last = (uint16_t)(is_class ? number + 99 : number);
    entry->retry_after = strcmp(text + 3, "+retry-after") == 0;
    return entry->retry_after || text[3] == '\0';
}

void read_status_list(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct status_list *list = target;
    static const char expected[] = "a status such as 409, \"409+retry-after\" or a class such as 5xx";
    (void)setting;
    if (!reader_sequence(reader, node, "a list of statuses"))
        return;
    list->entries = CONF_NEW_ARRAY(reader->conf, struct status_entry, reader_count(node));
    list->is_default = reader->in_default;
    for (size_t i = 0; i < reader_count(node); i++) {
        const yaml_node_t *item = reader_item(reader, node, i);
        struct status_entry *entry = &list->entries[list->count];
        struct scalar scalar;
        size_t before = reader_enter_item(reader, i);
        entry->place = reader_place(reader, item);
        if (reader_scalar(reader, item, expected, &scalar)) {
            if (parse_entry(scalar.text, entry))
                list->count++;
            else
                reader_error(reader, item, "expected %s, not '%s'", expected, scalar.text);
        }
        reader_leave(reader, before);
    }
}

/* Told at the later of the two in the file; at the written one if the other is a default. */
static void report_twice(struct reader *reader, const struct status_lists *read, int a, const struct status_entry *one,
                         int b, const struct status_entry *two)
{
    bool two_is_later = two->place.line > one->place.line ||
                        (two->place.line == one->place.line && two->place.column > one->place.column);
    bool tell_two = read->lists[a].is_default ? true : read->lists[b].is_default ? false : two_is_later;
    const struct status_entry *entry = tell_two ? two : one;
    int other = tell_two ? a : b;
    char text[40];
    if (entry->first == entry->last)
        snprintf(text, sizeof text, "%u%s", entry->first, entry->retry_after ? "+retry-after" : "");
    else
        snprintf(text, sizeof text, "%uxx%s", entry->first / 100, entry->retry_after ? "+retry-after" : "");
    if (a == b)
        report_add(reader->report, entry->place, MESSAGE_ERROR, "%s.%s: %s is listed twice", reader->path,
                   class_names[a], text);
    else
        report_add(reader->report, entry->place, MESSAGE_ERROR,
                   "%s: %s is in '%s' as well%s: it may be in one list only", reader->path, text, class_names[other],
                   !read->lists[other].is_default ? ""
                   : reader->route->preset        ? " (which is left as the preset has it)"
                                                  : " (which is left at its default)");
}

static void check_twice(struct reader *reader, const struct status_lists *read)
{
    /* The entry that begins at a status, and its list; by class or not, with Retry-After or not. */
    const struct status_entry *seen[2][2][END_OF_STATUSES] = {{{NULL}}};
    unsigned char where[2][2][END_OF_STATUSES];
    for (int list = 0; list < STATUS_LISTS; list++) {
        for (size_t i = 0; i < read->lists[list].count; i++) {
            const struct status_entry *entry = &read->lists[list].entries[i];
            bool is_class = entry->first != entry->last;
            const struct status_entry **slot = &seen[is_class][entry->retry_after][entry->first];
            unsigned char *home = &where[is_class][entry->retry_after][entry->first];
            if (*slot)
                report_twice(reader, read, *home, *slot, list, entry);
            *slot = entry;
            *home = (unsigned char)list;
        }
    }
}

/* ---- the table -------------------------------------------------------------------------------- */

static void apply(struct conf_statuses *statuses, const struct status_lists *read, bool classes, bool retry_after)
{
    for (int list = 0; list < STATUS_LISTS; list++) {
        for (size_t i = 0; i < read->lists[list].count; i++) {
            const struct status_entry *entry = &read->lists[list].entries[i];
            if ((entry->first != entry->last) != classes || entry->retry_after != retry_after)
                continue;
            size_t len = (size_t)(entry->last - entry->first) + 1;
            memset(statuses->meaning_with_retry_after + entry->first, list, len);
            if (!retry_after)
                memset(statuses->meaning + entry->first, list, len);
        }
    }
}

void read_statuses(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct conf_statuses *statuses = target;
    struct status_lists read = {0};
    (void)setting;
    if (!reader_mapping(reader, node, "a mapping"))
        return;
    reader_section(reader, &statuses_section, node, &read);
    check_twice(reader, &read);
    memset(statuses->meaning, read.other, sizeof statuses->meaning);
    memset(statuses->meaning_with_retry_after, read.other, sizeof statuses->meaning_with_retry_after);
    apply(statuses, &read, true, false);
    apply(statuses, &read, true, true);
    apply(statuses, &read, false, false);
    apply(statuses, &read, false, true);
}

/* ---- printing --------------------------------------------------------------------------------- */

/* "200-306 309" …: the runs of statuses for which `wanted` says yes. */
static void print_runs(const struct conf_statuses *statuses, uint8_t class, bool differing, FILE *out)
{
    const char *before = "";
    for (unsigned status = FIRST_STATUS; status <= LAST_PRINTED; status++) {
        unsigned first = status;
        for (; status <= LAST_PRINTED; status++) {
            uint8_t usual = statuses->meaning[status], with = statuses->meaning_with_retry_after[status];
            if (differing ? with == usual || with != class : usual != class)
                break;
        }
        if (status == first)
            continue;
        fprintf(out, "%s%u", before, first);
        if (status - 1 > first)
            fprintf(out, "-%u", status - 1);
        before = " ";
    }
    if (!*before)
        fputs(differing ? "" : "none", out);
}

static bool differs_anywhere(const struct conf_statuses *statuses, uint8_t class)
{
    for (unsigned status = FIRST_STATUS; status <= LAST_PRINTED; status++)
        if (statuses->meaning[status] != class && statuses->meaning_with_retry_after[status] == class)
            return true;
    return false;
}

void print_statuses(const void *target, FILE *out)
{
    const struct conf_statuses *statuses = target;
    for (uint8_t class = 0; class < STATUS_LISTS; class ++) {
        fprintf(out, "%s%-10s", class ? "\n                               " : "", class_names[class]);
        print_runs(statuses, class, false, out);
        if (!differs_anywhere(statuses, class))
            continue;
        fputs("; with Retry-After also ", out);
        print_runs(statuses, class, true, out);
    }
}

/* ---- written back ----------------------------------------------------------------------------- */

/* The meaning that most statuses of a hundred share. */
static uint8_t usual_meaning(const uint8_t *meanings, unsigned hundred)
{
    unsigned counts[STATUS_LISTS] = {0};
    uint8_t usual = 0;
    for (unsigned status = hundred; status < hundred + 100; status++)
        counts[meanings[status]]++;
    for (uint8_t class = 1; class < STATUS_LISTS; class ++)
        if (counts[class] > counts[usual])
            usual = class;
    return usual;
}

static void list_entry(FILE *out, bool *first, uint8_t class, uint8_t wanted, const char *format, unsigned number)
{
    if (class != wanted)
        return;
    fputs(*first ? "" : ", ", out);
    fprintf(out, format, number);
    *first = false;
}

/* The entries of one hundred that belong into the list `wanted`: a status only where it differs from its class. */
static void list_hundred(const struct conf_statuses *statuses, unsigned hundred, uint8_t other, uint8_t wanted,
                         bool *first, FILE *out)
{
    uint8_t plain = usual_meaning(statuses->meaning, hundred);
    uint8_t with = usual_meaning(statuses->meaning_with_retry_after, hundred);
    if (plain != other)
        list_entry(out, first, plain, wanted, "%uxx", hundred / 100);
    if (with != plain)
        list_entry(out, first, with, wanted, "\"%uxx+retry-after\"", hundred / 100);
    for (unsigned status = hundred; status < hundred + 100; status++) {
        uint8_t mine = statuses->meaning[status], mine_with = statuses->meaning_with_retry_after[status];
        if (mine != plain)
            list_entry(out, first, mine, wanted, "%u", status);
        if (mine_with != (mine != plain ? mine : with))
            list_entry(out, first, mine_with, wanted, "\"%u+retry-after\"", status);
    }
}

/* Not the lists as they were, but some that make the same table. No list reaches below 200, so what 100 means is
 * `other`. */
void write_statuses(struct writer *writer, const struct setting *setting, const void *target)
{
    const struct conf_statuses *statuses = target;
    uint8_t other = statuses->meaning[100];
    writer_open(writer, setting_key(setting));
    for (uint8_t class = 0; class < STATUS_LISTS; class ++) {
        char *list = NULL;
        size_t size;
        bool first = true;
        FILE *out = must_allocate(open_memstream(&list, &size));
        for (unsigned hundred = FIRST_STATUS; hundred < END_OF_STATUSES; hundred += 100)
            list_hundred(statuses, hundred, other, class, &first, out);
        fclose(out);
        write_plain(writer, &setting->section->settings[class], "[%s]", list);
        free(list);
    }
    write_plain(writer, &setting->section->settings[STATUS_LISTS], "%s", class_names[other]);
    writer_close(writer);
}
