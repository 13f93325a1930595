/*
 * describe.c - the table of README.md and the settings of the manual page, made from the rows that the program reads
 * by, so that they cannot be wrong.
 */
#include "conf/scalar.h"
#include "conf/setting.h"
#include "proxy/roff.h"
#include "proxy/span.h"

static void describe_choices(const struct choice *choices, FILE *out)
{
    for (const struct choice *choice = choices; choice->name; choice++)
        fprintf(out, "%s%s", choice == choices ? "" : choice[1].name ? ", " : " or ", choice->name);
}

static void describe_range(const struct setting *setting, void (*print)(uint64_t value, FILE *out), FILE *out)
{
    fputs(" from ", out);
    print(setting->min, out);
    fputs(" to ", out);
    print(setting->max, out);
}

static void print_number(uint64_t value, FILE *out)
{
    fprintf(out, "%llu", (unsigned long long)value);
}

static void print_duration(uint64_t value, FILE *out)
{
    scalar_print_duration((int64_t)value, out);
}

static void describe(const struct setting *setting, FILE *out)
{
    switch (setting->type) {
    case SETTING_BOOL:
        fputs("true or false", out);
        break;
    case SETTING_NUMBER:
        fputs("a number", out);
        describe_range(setting, print_number, out);
        break;
    case SETTING_SIZE:
    case SETTING_SIZE32:
        fputs("a size", out);
        describe_range(setting, scalar_print_size, out);
        break;
    case SETTING_DURATION:
        fputs("a duration", out);
        describe_range(setting, print_duration, out);
        break;
    case SETTING_DURATION_NEVER:
        fputs("never or a duration", out);
        describe_range(setting, print_duration, out);
        break;
    case SETTING_CHOICE:
    case SETTING_CHOICE_BOOL:
        describe_choices(setting->choices, out);
        break;
    case SETTING_SECTION:
        fputs("mapping", out);
        break;
    case SETTING_OWN:
        fputs(setting->form ? setting->form : "", out);
        break;
    }
}

void setting_describe(const struct setting *setting, char *text, size_t size)
{
    FILE *out = must_allocate(fmemopen(text, size, "w"));
    describe(setting, out);
    fclose(out);
    text[size - 1] = '\0';
}

bool setting_is_fixed(const struct setting *setting, bool outer)
{
    return (setting->flags & SETTING_FIXED) || (outer && !(setting->flags & SETTING_RELOADED));
}

static const char *change_words(const struct setting *setting, bool fixed)
{
    if (setting->type == SETTING_SECTION)
        return "";
    return fixed ? "restart" : "reload";
}

static void write_row(const struct setting *setting, bool fixed, FILE *out)
{
    bool code = setting->standard && strcmp(setting->standard, "{}") != 0;
    const char *otherwise = setting->otherwise ? setting->otherwise : "";
    const char *words = setting->flags & SETTING_REQUIRED ? "required" : otherwise;
    fprintf(out, "| `%s` | ", setting->name);
    describe(setting, out);
    fprintf(out, " | %s%s%s | %s | %s |\n", code ? "`" : "", code ? setting->standard : words, code ? "`" : "",
            change_words(setting, fixed), setting->text);
}

static void write_section(const struct section *section, bool outer, FILE *out)
{
    for (size_t i = 0; i < section->count; i++) {
        const struct setting *setting = &section->settings[i];
        bool fixed = setting_is_fixed(setting, outer);
        write_row(setting, fixed, out);
        if (setting->section)
            write_section(setting->section, fixed, out);
    }
}

void conf_write_reference(FILE *out)
{
    fputs("| setting | value | default | change | meaning |\n| --- | --- | --- | --- | --- |\n", out);
    write_section(&root_section, false, out);
}

/* ---- einmal.yaml(5) --------------------------------------------------------------------------- */

/* "A size from 0 to 1GiB; default 16MiB; restart." */
static void write_facts(const struct setting *setting, bool fixed, FILE *out)
{
    char *facts = NULL;
    size_t size;
    FILE *memory = must_allocate(open_memstream(&facts, &size));
    describe(setting, memory);
    if (setting->flags & SETTING_REQUIRED)
        fputs("; required", memory);
    else if (setting->standard && strcmp(setting->standard, "{}") != 0)
        fprintf(memory, "; default %s", setting->standard);
    else if (setting->otherwise)
        fprintf(memory, "; default %s", setting->otherwise);
    if (fixed && setting->type != SETTING_SECTION)
        fputs("; restart", memory);
    fclose(memory);
    fputs(".Pq ", out);
    roff_argument(facts, out);
    fputc('\n', out);
    free(facts);
}

static void write_entries(const struct section *section, bool outer, FILE *out)
{
    for (size_t i = 0; i < section->count; i++) {
        const struct setting *setting = &section->settings[i];
        bool fixed = setting_is_fixed(setting, outer);
        fputs(".It Ic ", out);
        roff_argument(setting->name, out);
        fputc('\n', out);
        roff_text(setting->text, out);
        write_facts(setting, fixed, out);
        if (setting->section)
            write_entries(setting->section, fixed, out);
    }
}

void conf_write_manual(FILE *out)
{
    fputs(".Bl -tag -width Ds\n", out);
    write_entries(&root_section, false, out);
    fputs(".El\n", out);
}
