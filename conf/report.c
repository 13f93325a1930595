/*
 * report.c - collects messages with their places and writes them in the order of the file.
 *
 * Invariant: two messages at one place keep the order in which they were found. Whatever a file holds, a message is
 * one line: control characters are written as "?".
 */
#include "conf/report.h"

#include "proxy/span.h"

struct message {
    struct place place;
    enum message_kind kind;
    size_t order;
    char *text;
};

void report_add_list(struct report *report, struct place place, enum message_kind kind, const char *format,
                     va_list arguments)
{
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0)
        abort();
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            *c = '?';
    if (report->count == report->capacity) {
        report->capacity = report->capacity ? 2 * report->capacity : 16;
        report->messages = must_allocate(realloc(report->messages, report->capacity * sizeof *report->messages));
    }
    report->messages[report->count] = (struct message){place, kind, report->count, text};
    report->count++;
    if (kind == MESSAGE_ERROR)
        report->errors++;
}

void report_add(struct report *report, struct place place, enum message_kind kind, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    report_add_list(report, place, kind, format, arguments);
    va_end(arguments);
}

static int compare(const void *left, const void *right)
{
    const struct message *a = left, *b = right;
    if (a->place.line != b->place.line)
        return a->place.line < b->place.line ? -1 : 1;
    if (a->place.column != b->place.column)
        return a->place.column < b->place.column ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static const char *kind_words(enum message_kind kind, bool has_place)
{
    switch (kind) {
    case MESSAGE_ERROR:
        return has_place ? "error: " : ""; /* errors of commands are "einmal: …" (contract §2) */
    case MESSAGE_WARNING:
        return "warning: ";
    }
    abort();
}

void report_write(struct report *report, FILE *out)
{
    if (report->count)
        qsort(report->messages, report->count, sizeof *report->messages, compare);
    for (size_t i = 0; i < report->count; i++) {
        const struct message *message = &report->messages[i];
        const char *kind = kind_words(message->kind, message->place.line);
        if (message->place.line)
            fprintf(out, "%s:%zu:%zu: %s%s\n", report->name, message->place.line, message->place.column, kind,
                    message->text);
        else
            fprintf(out, "einmal: %s%s\n", kind, message->text);
        free(message->text);
    }
    free(report->messages);
    report->messages = NULL;
    report->count = report->capacity = report->errors = 0;
}
