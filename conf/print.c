/*
 * print.c - the effective configuration as `einmal check` shows it, and what differs from a running one; both by the
 * rows of schema.c.
 */
#include "conf/scalar.h"
#include "conf/setting.h"
#include "proxy/span.h"

enum { NAME_WIDTH = 26 };

static const char *choice_name(const struct choice *choices, int value)
{
    while (choices->name && choices->value != value)
        choices++;
    return choices->name ? choices->name : "?";
}

static int choice_value(const struct setting *setting, const void *target)
{
    int value;
    if (setting->type == SETTING_CHOICE_BOOL)
        return *(const bool *)target;
    memcpy(&value, target, sizeof value);
    return value;
}

void setting_print_value(const struct setting *setting, const void *base, FILE *out)
{
    const void *target = (const char *)base + setting->offset;
    switch (setting->type) {
    case SETTING_BOOL:
        fputs(*(const bool *)target ? "true" : "false", out);
        break;
    case SETTING_NUMBER:
        fprintf(out, "%u", *(const uint32_t *)target);
        break;
    case SETTING_SIZE:
        scalar_print_size(*(const uint64_t *)target, out);
        break;
    case SETTING_SIZE32:
        scalar_print_size(*(const uint32_t *)target, out);
        break;
    case SETTING_DURATION:
    case SETTING_DURATION_NEVER:
        scalar_print_duration(*(const int64_t *)target, out);
        break;
    case SETTING_CHOICE:
    case SETTING_CHOICE_BOOL:
        fputs(choice_name(setting->choices, choice_value(setting, target)), out);
        break;
    case SETTING_OWN:
        setting->print(target, out);
        break;
    case SETTING_SECTION:
        break;
    }
}

static bool is_printed(const struct setting *setting)
{
    return setting->type != SETTING_SECTION && (setting->type != SETTING_OWN || setting->print);
}

/* One setting a line; sections of a section come with their own names, "match.path". */
static void print_lines(const struct section *section, size_t prefix_len, const char *indent, const void *base,
                        FILE *out)
{
    for (size_t i = 0; i < section->count; i++) {
        const struct setting *setting = &section->settings[i];
        if (setting->type == SETTING_SECTION)
            print_lines(setting->section, prefix_len, indent, base, out);
        if (!is_printed(setting))
            continue;
        fprintf(out, "%s%-*s ", indent, NAME_WIDTH, setting->name + prefix_len);
        setting_print_value(setting, base, out);
        fputc('\n', out);
    }
}

void conf_print(const struct conf *conf, FILE *out)
{
    print_lines(&root_section, 0, "", conf, out);
    for (size_t i = 0; i < conf->upstream_count; i++) {
        fprintf(out, "\nupstream %s: %s\n", conf->upstreams[i].name, conf->upstreams[i].url);
        print_lines(&upstream_section, strlen("upstreams.NAME."), "    ", &conf->upstreams[i], out);
    }
    for (size_t i = 0; i < conf->route_count; i++) {
        fprintf(out, "\nroute %s", conf->routes[i].name);
        if (conf->routes[i].line)
            fprintf(out, " (line %d)", conf->routes[i].line);
        fputc('\n', out);
        print_lines(&route_section, strlen("routes[]."), "    ", &conf->routes[i], out);
    }
}

/* ---- what a reload cannot change -------------------------------------------------------------- */

static bool is_same(const struct setting *setting, const struct conf *a, const struct conf *b)
{
    const void *left = (const char *)a + setting->offset, *right = (const char *)b + setting->offset;
    switch (setting->type) {
    case SETTING_BOOL:
        return *(const bool *)left == *(const bool *)right;
    case SETTING_NUMBER:
    case SETTING_SIZE32:
        return *(const uint32_t *)left == *(const uint32_t *)right;
    case SETTING_SIZE:
        return *(const uint64_t *)left == *(const uint64_t *)right;
    case SETTING_DURATION:
    case SETTING_DURATION_NEVER:
        return *(const int64_t *)left == *(const int64_t *)right;
    case SETTING_CHOICE:
    case SETTING_CHOICE_BOOL:
        return choice_value(setting, left) == choice_value(setting, right);
    case SETTING_OWN:
        return setting->same(a, b);
    case SETTING_SECTION:
        break;
    }
    abort();
}

static void print_cut(const struct setting *setting, const struct conf *conf, char *text, size_t size)
{
    char *whole = NULL;
    size_t len;
    FILE *out = must_allocate(open_memstream(&whole, &len));
    setting_print_value(setting, conf, out);
    fclose(out);
    snprintf(text, size, "%s", whole);
    free(whole);
    if (len >= size)
        memcpy(text + size - strlen("...") - 1, "...", strlen("..."));
}

/* Fixed settings stand in the root and its plain sections only, whose rows are offsets into struct conf. */
static size_t find_differences(const struct section *section, const struct conf *a, const struct conf *b,
                               struct conf_difference *differences, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < section->count && count < size; i++) {
        const struct setting *setting = &section->settings[i];
        if ((setting->flags & SETTING_FIXED) && !is_same(setting, a, b)) {
            struct conf_difference *difference = &differences[count++];
            difference->name = setting->name;
            print_cut(setting, a, difference->running, sizeof difference->running);
            print_cut(setting, b, difference->wanted, sizeof difference->wanted);
        }
        if (setting->type == SETTING_SECTION)
            count += find_differences(setting->section, a, b, differences + count, size - count);
    }
    return count;
}

size_t conf_fixed_differences(const struct conf *running, const struct conf *wanted,
                              struct conf_difference *differences, size_t size)
{
    return find_differences(&root_section, running, wanted, differences, size);
}
