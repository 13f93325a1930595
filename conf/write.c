/*
 * write.c - the effective configuration as YAML, by the rows of schema.c: what `einmal check --print` shows.
 *
 * Whatever is written is read back by the same rows to the same configuration (tested for every row). So texts are
 * quoted unless they are plain beyond doubt, a dollar is doubled, and a setting that has no value is a comment that
 * says what holds instead.
 *
 * Left out: the values of secret variables (writer.h), the contents of files that are named, comments of the original.
 */
#include "conf/writer.h"

#include "conf/component.h"
#include "conf/scalar.h"
#include "proxy/span.h"

#include <assert.h>
#include <stdarg.h>

/* ---- scalars ---------------------------------------------------------------------------------- */

static bool is_plain_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("_./+-", c));
}

/* Letters first, so no number, no list item, no "~"; and none of the words that some YAML takes for something else. */
static bool is_plain(const char *text)
{
    static const char *const words[] = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"};
    bool letter = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') || *text == '/';
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0)
            return false;
    for (const char *c = text; *c; c++)
        if (!is_plain_byte(*c))
            return false;
    return letter;
}

static const char *written_form(const struct conf *conf, const char *text)
{
    for (const struct conf_hidden *hidden = conf->hidden; hidden; hidden = hidden->next)
        if (strcmp(hidden->text, text) == 0)
            return hidden->written;
    return NULL;
}

static void print_scalar(const struct writer *writer, const char *text)
{
    const char *written = written_form(writer->conf, text);
    if (!written && is_plain(text)) {
        fputs(text, writer->out);
        return;
    }
    fputc('"', writer->out);
    for (const char *c = written ? written : text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(writer->out, "\\%c", *c);
        else if ((unsigned char)*c < 0x20 || *c == 0x7F)
            fprintf(writer->out, "\\x%02X", (unsigned)*c);
        else if (*c == '$' && !written)
            fputs("$$", writer->out);
        else
            fputc(*c, writer->out);
    }
    fputc('"', writer->out);
}

/* ---- lines ------------------------------------------------------------------------------------ */

static void begin_line(struct writer *writer)
{
    unsigned blanks = 2 * writer->depth;
    if (writer->item)
        fprintf(writer->out, "%*s- ", (int)blanks - 2, "");
    else
        fprintf(writer->out, "%*s", (int)blanks, "");
    writer->item = false;
}

static void begin_setting(struct writer *writer, const struct setting *setting)
{
    begin_line(writer);
    fprintf(writer->out, "%s: ", setting_key(setting));
}

void writer_open(struct writer *writer, const char *name)
{
    begin_line(writer);
    fprintf(writer->out, "%s:\n", name);
    writer->depth++;
}

void writer_item(struct writer *writer)
{
    writer->item = true;
    writer->depth++;
}

void writer_close(struct writer *writer)
{
    assert(writer->depth > 0 && !writer->item);
    writer->depth--;
}

void write_absent(struct writer *writer, const struct setting *setting)
{
    assert(!writer->item); /* the first row of an item always has a value */
    fprintf(writer->out, "%*s# %s: %s\n", (int)(2 * writer->depth), "", setting_key(setting),
            setting->otherwise ? setting->otherwise : "none");
}

void write_text(struct writer *writer, const struct setting *setting, const char *text)
{
    if (!text) {
        write_absent(writer, setting);
        return;
    }
    begin_setting(writer, setting);
    print_scalar(writer, text);
    fputc('\n', writer->out);
}

void write_plain(struct writer *writer, const struct setting *setting, const char *format, ...)
{
    va_list arguments;
    begin_setting(writer, setting);
    va_start(arguments, format);
    vfprintf(writer->out, format, arguments);
    va_end(arguments);
    fputc('\n', writer->out);
}

void write_duration(struct writer *writer, const struct setting *setting, int64_t milliseconds)
{
    begin_setting(writer, setting);
    scalar_print_duration(milliseconds, writer->out);
    fputc('\n', writer->out);
}

void write_texts(struct writer *writer, const struct setting *setting, char *const *texts)
{
    begin_setting(writer, setting);
    fputc('[', writer->out);
    for (size_t i = 0; texts[i]; i++) {
        fputs(i ? ", " : "", writer->out);
        print_scalar(writer, texts[i]);
    }
    fputs("]\n", writer->out);
}

static char *component_text(const struct component *component)
{
    char *text = NULL;
    size_t size;
    FILE *memory = must_allocate(open_memstream(&text, &size));
    component_print(component, memory);
    fclose(memory);
    return text;
}

void conf_print_component(const struct conf *conf, const struct component *component, FILE *out)
{
    char *text = component_text(component);
    const char *written = written_form(conf, text);
    fputs(written ? written : text, out);
    free(text);
}

static void print_component(const struct writer *writer, const struct component *component)
{
    char *text = component_text(component);
    print_scalar(writer, text);
    free(text);
}

void write_component(struct writer *writer, const struct setting *setting, const struct component *component)
{
    if (!component) {
        write_absent(writer, setting);
        return;
    }
    begin_setting(writer, setting);
    print_component(writer, component);
    fputc('\n', writer->out);
}

void write_components(struct writer *writer, const struct setting *setting, const struct component_list *list)
{
    begin_setting(writer, setting);
    fputc('[', writer->out);
    for (size_t i = 0; i < list->count; i++) {
        fputs(i ? ", " : "", writer->out);
        print_component(writer, &list->items[i]);
    }
    fputs("]\n", writer->out);
}

/* ---- rows ------------------------------------------------------------------------------------- */

static bool is_comment(const char *line)
{
    return line[strspn(line, " ")] == '#';
}

static bool all_comments(const char *lines)
{
    while (*lines) {
        if (!is_comment(lines))
            return false;
        lines += strcspn(lines, "\n");
        lines += *lines == '\n';
    }
    return true;
}

/* Of a section that is off only comments are left: then its name is one, too, for a name without a value is an error.
 */
static void write_group(struct writer *writer, const struct setting *setting, const void *base)
{
    char *lines = NULL;
    size_t size;
    struct writer inner = *writer;
    inner.out = must_allocate(open_memstream(&lines, &size));
    inner.depth++;
    writer_section(&inner, setting->section, base);
    fclose(inner.out);
    begin_line(writer);
    fprintf(writer->out, "%s%s:\n%s", all_comments(lines) ? "# " : "", setting_key(setting), lines);
    free(lines);
}

static void write_setting(struct writer *writer, const struct setting *setting, const void *base)
{
    switch (setting->type) {
    case SETTING_BOOL:
    case SETTING_NUMBER:
    case SETTING_SIZE:
    case SETTING_SIZE32:
    case SETTING_DURATION:
    case SETTING_DURATION_NEVER:
    case SETTING_CHOICE:
    case SETTING_CHOICE_BOOL:
        begin_setting(writer, setting);
        setting_print_value(setting, base, writer->out);
        fputc('\n', writer->out);
        break;
    case SETTING_SECTION:
        write_group(writer, setting, base);
        break;
    case SETTING_OWN:
        if (setting->write)
            setting->write(writer, setting, (const char *)base + setting->offset);
        break;
    }
}

void writer_section(struct writer *writer, const struct section *section, const void *base)
{
    for (size_t i = 0; i < section->count; i++)
        write_setting(writer, &section->settings[i], base);
}

void conf_write(const struct conf *conf, FILE *out)
{
    struct writer writer = {.conf = conf, .out = out};
    writer_section(&writer, &root_section, conf);
}
