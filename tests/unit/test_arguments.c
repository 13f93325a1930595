/* From argv to struct arguments: every option of every command, and what is refused. */
#include "proxy/command.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define MAX_WORDS    12

static bool parse(size_t command, const char *const *words, struct arguments *out)
{
    char *argv[MAX_WORDS + 2] = {(char *)"einmal"};
    int argc = 1;
    for (; words[argc - 1]; argc++)
        argv[argc] = (char *)words[argc - 1];
    static char *kept[MAX_WORDS + 2];
    memcpy(kept, argv, sizeof kept); /* operands point into it */
    *out = (struct arguments){0};
    return arguments_parse(command, argc, kept, out);
}

Test(arguments, of_the_commands_with_a_configuration)
{
    struct arguments a;
    cr_assert(
        parse(COMMAND_RUN, (const char *const[]){"-c", "f", "--listen=l", "--data", "d", "--admin", "a", NULL}, &a));
    cr_expect_str_eq(a.file, "f");
    cr_expect_str_eq(a.overrides.listen, "l");
    cr_expect_str_eq(a.overrides.data, "d");
    cr_expect_str_eq(a.overrides.admin, "a");
    cr_expect_null(a.body);
    cr_assert(parse(COMMAND_CHECK, (const char *const[]){"--print", "--config", "f", NULL}, &a));
    cr_expect(a.print && strcmp(a.file, "f") == 0);
    cr_assert(parse(COMMAND_EXPLAIN,
                    (const char *const[]){"/a", "-X", "PUT", "-H", "A: b", "-d", "x", "-HC: d", "--json", NULL}, &a));
    cr_expect_str_eq(a.method, "PUT");
    cr_expect_str_eq(a.body, "x", "-d is the body here, not the store");
    cr_expect_null(a.overrides.data);
    cr_expect_eq(a.headers.count, 2);
    cr_expect_str_eq(a.headers.items[0], "A: b");
    cr_expect_str_eq(a.headers.items[1], "C: d");
    cr_expect(a.json);
    cr_expect_eq(a.operand_count, 1);
    cr_expect_str_eq(a.operands[0], "/a", "wherever it stands");
}

Test(arguments, of_the_commands_that_ask)
{
    struct arguments a;
    cr_assert(parse(COMMAND_ACTIONS_LIST,
                    (const char *const[]){"--state", "unknown", "--route=r", "--task", "t", "--key", "k", "--limit",
                                          "7", "--admin", "a", NULL},
                    &a));
    cr_expect(strcmp(a.state, "unknown") == 0 && strcmp(a.route, "r") == 0 && strcmp(a.task, "t") == 0);
    cr_expect_str_eq(a.key, "k");
    cr_expect_eq(a.limit, 7);
    cr_expect_str_eq(a.overrides.admin, "a");
    cr_assert(parse(COMMAND_ACTIONS_RESOLVE,
                    (const char *const[]){"id", "--completed", "--status", "201", "--body", "-", NULL}, &a));
    cr_expect(a.completed && !a.not_executed && a.status == 201 && strcmp(a.body, "-") == 0);
    cr_assert(parse(COMMAND_DRAIN, (const char *const[]){"--max", "90s", "--token-file", "f", NULL}, &a));
    cr_expect_eq(a.max_ms, 90000);
    cr_expect_str_eq(a.token_file, "f");
    cr_assert(parse(COMMAND_HEALTH, (const char *const[]){"--ready", NULL}, &a));
    cr_expect(a.ready);
    cr_assert(parse(COMMAND_BACKUP, (const char *const[]){"--force", "--", "-file", NULL}, &a));
    cr_expect(a.force);
    cr_expect_str_eq(a.operands[0], "-file", "behind --");
}

Test(arguments, help_needs_no_operand)
{
    struct arguments a;
    for (size_t command = 0; command < COMMAND_COUNT; command++) {
        cr_assert(parse(command, (const char *const[]){"--help", NULL}, &a), "%s", commands[command].name);
        cr_expect(a.help);
        cr_assert(parse(command, (const char *const[]){"-h", NULL}, &a), "%s", commands[command].name);
        cr_expect(a.help);
    }
}

Test(arguments, what_is_refused, .init = cr_redirect_stderr)
{
    static const struct {
        size_t command;
        const char *words[4];
        const char *message;
    } rows[] = {
        {COMMAND_RUN, {"--bogus"}, "einmal: unknown option --bogus; see einmal run --help\n"},
        {COMMAND_RUN, {"-c"}, "einmal: -c needs a value; see einmal run --help\n"},
        {COMMAND_RUN, {"extra"}, "einmal: unexpected argument extra; see einmal run --help\n"},
        {COMMAND_RUN, {"--json"}, "einmal: unknown option --json; see einmal run --help\n"},
        {COMMAND_EXPLAIN, {NULL}, NULL},
        {COMMAND_ACTIONS_LIST,
         {"--state", "unknwon"},
         "einmal: --state must be STATE, not 'unknwon' (did you mean unknown?); see einmal actions list --help\n"},
        {COMMAND_ACTIONS_LIST,
         {"--limit", "0"},
         "einmal: --limit must be a number from 1 to 4294967295, not '0'; see einmal actions list --help\n"},
        {COMMAND_ACTIONS_RESOLVE, {"id", "--status", "99"}, NULL},
        {COMMAND_ACTIONS_RESOLVE, {"id", "--status", "20x"}, NULL},
        {COMMAND_DRAIN,
         {"--max", "5"},
         "einmal: --max must be a duration such as 500ms, 10s or 5m, not '5'; see einmal drain --help\n"},
        {COMMAND_ACTIONS_SHOW, {"a", "b"}, "einmal: unexpected argument b; see einmal actions show --help\n"},
    };
    char expected[4000] = "";
    bool all_told = true;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct arguments a;
        const char *words[5] = {0};
        memcpy(words, rows[i].words, sizeof rows[i].words);
        cr_expect_not(parse(rows[i].command, words, &a), "row %zu", i);
        if (rows[i].message && all_told)
            strcat(expected, rows[i].message);
        all_told &= rows[i].message != NULL;
    }
    fflush(stderr);
    char got[8000];
    size_t len = fread(got, 1, sizeof got - 1, cr_get_redirected_stderr());
    got[len] = '\0';
    cr_expect(strncmp(got, expected, strlen(expected)) == 0, "is\n%s", got);
    for (size_t i = 0; i < COUNT(rows); i++)
        if (rows[i].message)
            cr_expect_not_null(strstr(got, rows[i].message), "'%s' is told in\n%s", rows[i].message, got);
}

/* An option that two rows spell must not belong to one command twice. */
Test(arguments, rows_are_distinct)
{
    for (size_t command = 0; command < COMMAND_COUNT; command++) {
        cr_expect(commands[command].run && commands[command].name && commands[command].text);
        for (size_t i = 0; i < option_row_count; i++)
            for (size_t j = 0; j < i; j++) {
                const struct option_row *a = &option_rows[i], *b = &option_rows[j];
                if (!option_applies(a, command) || !option_applies(b, command))
                    continue;
                cr_expect_str_neq(a->name, b->name, "--%s of %s", a->name, commands[command].name);
                cr_expect(!a->letter || a->letter != b->letter, "-%c of %s", a->letter, commands[command].name);
            }
    }
}
