/*
 * report.h - what is wrong with a file, said as a compiler does: FILE:LINE:COLUMN: error: …
 *
 * Messages are collected and written in the order of the file, whichever check found them. Private to conf/.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Where in the file, counted from 1, columns in characters. Line 0: nowhere; such a message is one of the command,
 * "einmal: …". */
struct place {
    size_t line, column;
};

enum message_kind { MESSAGE_ERROR, MESSAGE_WARNING };

struct report {
    const char *name; /* of the file; borrowed */
    struct message *messages;
    size_t count, capacity, errors;
};

void report_add(struct report *report, struct place place, enum message_kind kind, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void report_add_list(struct report *report, struct place place, enum message_kind kind, const char *format,
                     va_list arguments);
/* Writes all messages and forgets them. */
void report_write(struct report *report, FILE *out);
