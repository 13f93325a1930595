/*
 * roff.c - PURE. Plain text as roff input.
 */
#include "proxy/roff.h"

#include <stdbool.h>
#include <string.h>

static const char ellipsis[] = "…";

/* One character; returns what follows it. */
static const char *put(const char *text, bool quoted, FILE *out)
{
    if (strncmp(text, ellipsis, strlen(ellipsis)) == 0) {
        fputs("\\&...", out);
        return text + strlen(ellipsis);
    }
    switch (*text) {
    case '\\':
        fputs("\\e", out);
        break;
    case '-':
        fputs("\\-", out);
        break;
    case '\'':
        fputs("\\(aq", out);
        break;
    case '"':
        fputs(quoted ? "\\(dq" : "\"", out);
        break;
    default:
        fputc(*text, out);
    }
    return text + 1;
}

enum { LINE_MAX_LEN = 76 };

static bool ends_sentence(const char *word, size_t len)
{
    return len > 1 && word[len - 1] == '.' && word[len] == ' ' && word[len + 1] >= 'A' && word[len + 1] <= 'Z';
}

void roff_text(const char *text, FILE *out)
{
    size_t column = 0;
    while (*text) {
        size_t len = strcspn(text, " ");
        bool last = ends_sentence(text, len);
        if (column && column + 1 + len > LINE_MAX_LEN) {
            fputc('\n', out);
            column = 0;
        }
        if (column)
            fputc(' ', out);
        else if (*text == '.' || *text == '\'')
            fputs("\\&", out);
        column += len + 1;
        for (const char *end = text + len; text < end;)
            text = put(text, false, out);
        text += *text == ' ';
        if (last) {
            fputc('\n', out);
            column = 0;
        }
    }
    fputc('\n', out);
}

/* \& before a word keeps it from being a macro or punctuation. */
void roff_line(const char *text, FILE *out)
{
    for (bool begins = true; *text;) {
        if (begins && *text != ' ')
            fputs("\\&", out);
        begins = *text == ' ';
        text = put(text, true, out);
    }
    fputc('\n', out);
}

void roff_argument(const char *text, FILE *out)
{
    fputc('"', out);
    while (*text)
        text = put(text, true, out);
    fputc('"', out);
}
