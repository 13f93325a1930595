/*
 * Files that come with the program and are made from its tables: the manual pages' parts on commands and settings, and
 * completions, the schema for editors. EINMAL_WRITE_DERIVED=1 writes them anew.
 */
#include "conf/setting.h"
#include "proxy/cli_derived.h"
#include "proxy/command.h"
#include "proxy/roff.h"
#include "tests/unit/conf_run.h"

#include <criterion/criterion.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char *made_by(void (*write)(FILE *out))
{
    char *text = NULL;
    size_t size;
    FILE *out = must_allocate(open_memstream(&text, &size));
    write(out);
    fclose(out);
    return text;
}

static void write_anew(const char *path, const char *before, size_t before_len, const char *made, const char *after)
{
    FILE *out = getenv("EINMAL_WRITE_DERIVED") ? fopen(path, "w") : NULL;
    if (!out)
        return;
    fprintf(out, "%.*s%s%s", (int)before_len, before, made, after);
    fclose(out);
}

Test(derived, files_are_as_the_tables_make_them)
{
    static const struct {
        const char *file;
        void (*write)(FILE *out);
        const char *begin, *end; /* lines around what is made; NULL: all of it is */
    } rows[] = {
        {"man/einmal.1", cli_write_manual, ".\\\" begin commands\n", ".\\\" end commands\n"},
        {"man/einmal.yaml.5", conf_write_manual, ".\\\" begin settings\n", ".\\\" end settings\n"},
        {"completion/einmal.bash", cli_write_bash, NULL, NULL},
        {"completion/_einmal", cli_write_zsh, NULL, NULL},
        {"einmal.schema.json", conf_write_json_schema, NULL, NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char path[500];
        snprintf(path, sizeof path, TEST_SOURCE_DIR "/../conf/%s", rows[i].file);
        char *made = made_by(rows[i].write), *text = conf_read_whole(path);
        if (!text)
            text = copy_string("");
        const char *begin = rows[i].begin ? strstr(text, rows[i].begin) : text;
        const char *end = rows[i].end ? strstr(text, rows[i].end) : text + strlen(text);
        cr_assert(begin && end, "%s has its marks", rows[i].file);
        begin += rows[i].begin ? strlen(rows[i].begin) : 0;
        bool same = (size_t)(end - begin) == strlen(made) && strncmp(begin, made, strlen(made)) == 0;
        cr_expect(same, "conf/%s is as the tables make it: EINMAL_WRITE_DERIVED=1 test_derived", rows[i].file);
        if (!same)
            write_anew(path, text, (size_t)(begin - text), made, end);
        free(made), free(text);
    }
}

/* Every command and every option of it is in the manual, but for what is of debug builds. */
Test(derived, the_manual_names_everything)
{
    char *manual = made_by(cli_write_manual);
    for (size_t command = 0; command < COMMAND_COUNT; command++) {
        char heading[64] = ".Ss ";
        FILE *out = fmemopen(heading + 4, sizeof heading - 4, "w");
        roff_line(commands[command].name, out);
        fclose(out);
        cr_expect_not_null(strstr(manual, heading), "%s has its heading", commands[command].name);
    }
    cr_expect_null(strstr(manual, "crash\\-at"), "nothing of debug builds");
    cr_expect_not_null(strstr(manual, ".It Fl H , Fl \\-header Ar \"\\(aqNAME: VALUE\\(aq\""), "%s", manual);
    free(manual);
}

Test(derived, text_is_no_roff)
{
    static const struct {
        void (*write)(const char *text, FILE *out);
        const char *text, *roff;
    } rows[] = {
        {roff_text, "Plain text.", "Plain text.\n"},
        {roff_text, "One. Two. three", "One.\nTwo. three\n"},
        {roff_text, ".Sh no request", "\\&.Sh no request\n"},
        {roff_text, "A. .B", "A. .B\n"},
        {roff_text, "a\\b -c 'd' \"e\" …", "a\\eb \\-c \\(aqd\\(aq \"e\" \\&...\n"},
        {roff_line, "Fl -c [FILE] …", "\\&Fl \\&\\-c \\&[FILE] \\&\\&...\n"},
        {roff_argument, "say \"it\" \\ 'x'", "\"say \\(dqit\\(dq \\e \\(aqx\\(aq\""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *roff = NULL;
        size_t size;
        FILE *out = must_allocate(open_memstream(&roff, &size));
        rows[i].write(rows[i].text, out);
        fclose(out);
        cr_expect_str_eq(roff, rows[i].roff, "'%s' becomes '%s'", rows[i].text, roff);
        free(roff);
    }
}
