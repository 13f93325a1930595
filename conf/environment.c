/*
 * environment.c - ${NAME} and ${NAME:-default} (contract §3), replaced after parsing, so that no value of a variable
 * can change what the file says elsewhere.
 *
 * As in a shell, the default counts for a variable that is unset or empty. A dollar that begins none of the forms is an
 * error: $NAME would otherwise pass for a text that nobody meant. Defaults are taken as they stand.
 */
#include "conf/environment.h"

#include "proxy/buffer.h"

#include <stdarg.h>
#include <stdio.h>

static bool is_name(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (!first && c >= '0' && c <= '9');
}

static void explain(char **why, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void explain(char **why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(why, format, arguments) < 0)
        abort();
    va_end(arguments);
}

/* `at` is behind "${". Returns what follows "}", or NULL. */
static const char *expand_one(const char *at, conf_environment *environment, void *arg, struct buffer *out, char **why)
{
    const char *end = at;
    while (is_name(*end, end == at))
        end++;
    const char *close = strchr(end, '}');
    bool has_default = end[0] == ':' && end[1] == '-';
    if (!close || end == at || (close != end && !has_default)) {
        explain(why, "expected ${NAME} or ${NAME:-default} at '${%.40s'", at);
        return NULL;
    }
    char *name = must_allocate(strndup(at, (size_t)(end - at)));
    const char *value = environment(arg, name);
    if (has_default && (!value || !*value))
        buffer_append(out, end + 2, (size_t)(close - end - 2));
    else if (value)
        buffer_append_span(out, span_of(value));
    else
        explain(why, "environment variable %s is not set", name);
    free(name);
    return *why ? NULL : close + 1;
}

char *environment_expand(const char *text, conf_environment *environment, void *arg, char **why)
{
    struct buffer out = {0};
    *why = NULL;
    while (text && *text) {
        size_t plain = strcspn(text, "$");
        buffer_append(&out, text, plain);
        text += plain;
        if (text[0] == '$' && text[1] == '$') {
            buffer_append(&out, "$", 1);
            text += 2;
        } else if (text[0] == '$' && text[1] == '{') {
            text = expand_one(text + 2, environment, arg, &out, why);
        } else if (text[0] == '$') {
            explain(why, "a dollar must be written $$ (or ${NAME} for an environment variable)");
            text = NULL;
        }
    }
    char *expanded = text ? must_allocate(strndup(buffer_len(&out) ? buffer_data(&out) : "", buffer_len(&out))) : NULL;
    buffer_free(&out);
    return expanded;
}

/* ---- secrets ---------------------------------------------------------------------------------- */

bool environment_is_secret(const char *text)
{
    static const char *const words[] = {"TOKEN", "SECRET", "PASS", "KEY", "CREDENTIAL", "AUTH"};
    char name[128];
    for (const char *at = text; (at = strchr(at, '$'));) {
        if (at[1] != '{') { /* "$$" */
            at += at[1] ? 2 : 1;
            continue;
        }
        size_t len = strcspn(at + 2, ":}");
        snprintf(name, sizeof name, "%.*s", (int)len, at + 2);
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (strcasestr(name, words[i]))
                return true;
        at += 2 + len;
    }
    return false;
}
