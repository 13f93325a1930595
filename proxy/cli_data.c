/*
 * cli_data.c - data that arguments name: themselves, a file, standard input.
 */
#include "proxy/command.h"

#include <errno.h>

enum { PIECE = 64 * 1024 };

/* 0, or an errno. */
static int read_stream(FILE *in, size_t most, struct buffer *out)
{
    size_t len;
    while (buffer_len(out) <= most && (len = fread(buffer_reserve(out, PIECE), 1, PIECE, in)) > 0)
        buffer_commit(out, len);
    return ferror(in) ? errno : 0;
}

bool read_data(const char *argument, size_t most, struct buffer *out)
{
    if (!argument || argument[0] != '@') {
        buffer_append_span(out, span_of(argument));
        return true;
    }
    const char *name = argument + 1;
    bool is_input = strcmp(name, "-") == 0;
    FILE *in = is_input ? stdin : fopen(name, "rbe");
    int error = in ? read_stream(in, most, out) : errno;
    if (in && !is_input)
        fclose(in);
    if (error)
        fprintf(stderr, "einmal: cannot read %s: %s\n", is_input ? "standard input" : name, strerror(error));
    return error == 0;
}
