/*
 * cli_manual.c - the part of einmal.1 that the rows of commands and options say, in mdoc(7).
 */
#include "proxy/cli_derived.h"
#include "proxy/command.h"
#include "proxy/roff.h"

static void write_option(const struct option_row *row, FILE *out)
{
    fputs(".It ", out);
    if (row->letter)
        fprintf(out, "Fl %c , ", row->letter);
    fprintf(out, "Fl \\-%s", row->name);
    if (row->value) {
        fputs(" Ar ", out);
        roff_argument(row->value, out);
    }
    fputc('\n', out);
    roff_text(row->text, out);
}

static void write_command(size_t command, FILE *out)
{
    const struct command *row = &commands[command];
    char usage[300];
    snprintf(usage, sizeof usage, "%s %s", row->name, row->arguments);
    fputs(".Ss ", out);
    roff_line(row->name, out);
    fputs(".Dl einmal ", out);
    roff_line(usage, out);
    fputs(".Pp\n", out);
    char text[300];
    snprintf(text, sizeof text, "%c%s.", row->text[0] - 'a' + 'A', row->text + 1);
    roff_text(text, out);
    if (row->more)
        roff_text(row->more, out);
    fputs(".Bl -tag -width Ds\n", out);
    for (size_t i = 0; i < option_row_count; i++)
        if (option_applies(&option_rows[i], command) && !option_rows[i].is_debug && option_rows[i].letter != 'h')
            write_option(&option_rows[i], out);
    fputs(".El\n", out);
}

void cli_write_manual(FILE *out)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        write_command(i, out);
}
