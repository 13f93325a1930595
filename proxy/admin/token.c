/*
 * token.c - reads the admin interface's token.
 *
 * Only visible ASCII is taken: nothing else can be sent in an Authorization field as it is, and a token nobody can send
 * would lock everybody out. Left out: permissions of the file, which are its owner's business (a mounted secret is
 * often readable by all in its container).
 */
#include "proxy/admin/token.h"

#include <errno.h>
#include <stdarg.h>

__attribute__((format(printf, 3, 4))) static bool complain(const struct conf *conf, FILE *messages, const char *format,
                                                           ...)
{
    const struct conf_file *file = &conf->admin.token_file;
    va_list arguments;
    if (conf->file && file->line)
        fprintf(messages, "%s:%d:%d: error: ", conf->file, file->line, file->column);
    else
        fputs("einmal: ", messages);
    fprintf(messages, "admin.token_file: %s: ", file->path);
    va_start(arguments, format);
    vfprintf(messages, format, arguments);
    va_end(arguments);
    fputc('\n', messages);
    return false;
}

static bool read_file(const char *path, char *text, size_t size, size_t *len)
{
    FILE *in = fopen(path, "re");
    if (!in)
        return false;
    *len = fread(text, 1, size, in);
    int error = ferror(in) ? errno : 0;
    fclose(in);
    errno = error;
    return error == 0;
}

static bool is_visible(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] <= 0x20 || text[i] >= 0x7F)
            return false;
    return true;
}

bool admin_token_load(const struct conf *conf, struct admin_token *token, FILE *messages)
{
    char text[ADMIN_TOKEN_MAX + 3]; /* CRLF, and one more: so it is seen to be too long */
    size_t len;
    *token = (struct admin_token){NULL};
    if (!conf->admin.token_file.path)
        return true;
    if (!read_file(conf->admin.token_file.path, text, sizeof text, &len))
        return complain(conf, messages, "cannot be read: %s", strerror(errno));
    if (len && text[len - 1] == '\n')
        len--;
    if (len && text[len - 1] == '\r')
        len--;
    if (len == 0)
        return complain(conf, messages, "is empty: it must hold the token, one line of visible ASCII characters");
    if (len > ADMIN_TOKEN_MAX)
        return complain(conf, messages, "is too long: a token has at most %d characters", ADMIN_TOKEN_MAX);
    if (!is_visible(text, len))
        return complain(conf, messages, "must hold the token and nothing else: one line of visible ASCII characters");
    token->text = must_allocate(strndup(text, len));
    return true;
}

void admin_token_free(struct admin_token *token)
{
    if (token->text)
        explicit_bzero(token->text, strlen(token->text));
    free(token->text);
    token->text = NULL;
}
