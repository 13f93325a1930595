/*
 * conf_run.h - reads a text as a configuration, for the tests of conf/, with an environment of its own.
 */
#pragma once

#include "conf/load.h"
#include "proxy/span.h"

#include <unistd.h>

static inline const char *conf_test_environment(void *arg, const char *name)
{
    static const char *const values[][2] = {{"PORT", "3000"},  {"EMPTY", ""},   {"LEVEL", "debug"},
                                            {"YAML", "a: [b"}, {"NUMBER", "7"}, {"NEVER", "never"}};
    (void)arg;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (strcmp(values[i][0], name) == 0)
            return values[i][1];
    return NULL;
}

/*
 * With EINMAL_KEEP_CONF=DIR: the text as DIR/N.yaml, and the messages beside it as N.accepted or N.refused. Whoever
 * reads configurations by other means is held against them (tests/support/editor_schema.py).
 */
static inline void conf_keep(const char *text, size_t len, const char *messages, bool accepted)
{
    static int count;
    const char *folder = getenv("EINMAL_KEEP_CONF");
    const char *const parts[] = {"yaml", accepted ? "accepted" : "refused"};
    count++;
    for (int i = 0; folder && i < 2; i++) {
        char path[500];
        snprintf(path, sizeof path, "%s/%d-%d.%s", folder, (int)getpid(), count, parts[i]);
        FILE *out = must_allocate(fopen(path, "w"));
        fwrite(i ? messages : text, 1, i ? strlen(messages) : len, out);
        fclose(out);
    }
}

/* The messages (to be freed); *conf gets the configuration or NULL. */
static inline char *conf_run(const char *text, size_t len, const struct conf_overrides *overrides, struct conf **conf)
{
    char *messages = NULL;
    size_t size;
    FILE *out = must_allocate(open_memstream(&messages, &size));
    *conf = conf_load_text("f.yaml", text, len, overrides, conf_test_environment, NULL, out);
    fclose(out);
    if (!overrides)
        conf_keep(text, len, messages, *conf);
    return messages;
}

static inline char *conf_printed(const struct conf *conf)
{
    char *text = NULL;
    size_t size;
    FILE *out = must_allocate(open_memstream(&text, &size));
    conf_print(conf, out);
    fclose(out);
    return text;
}

static inline char *conf_read_whole(const char *path)
{
    FILE *in = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;
    if (!in)
        return NULL;
    FILE *out = must_allocate(open_memstream(&text, &size));
    for (int c; (c = fgetc(in)) != EOF;)
        fputc(c, out);
    fclose(in);
    fclose(out);
    return text;
}

/* What most tests begin with: two lines of upstreams, two of a route; settings of the route follow from line 5 on. */
#define CONF_UPSTREAMS "upstreams:\n  api: {url: \"http://a:1\"}\n"
#define CONF_ROUTE     CONF_UPSTREAMS "routes:\n  - name: r\n"
