/*
 * cli.c - the commands (contract §2): their rows, which of them is asked for, and help.
 *
 * A command is one word or, in a family, two. Everything about options is in cli_options.c, what a command does in
 * command_*.c.
 */
#include "proxy/cli.h"

#include "conf/scalar.h"
#include "proxy/command.h"
#include "proxy/span.h"

#include <errno.h>
#include <stdarg.h>

const struct command commands[COMMAND_COUNT] = {
    [COMMAND_RUN] =
        {"run", "[-c FILE] | --upstream URL [--listen ADDR] [--data DIR] [--admin ADDR]",
         "run the proxy in the foreground",
         "Without an upstream the configuration is read from FILE. With one there is no file, but one route "
         "for POST and PATCH on every path, whose requests are protected if they carry a key.",
         0, 0, command_run},
    [COMMAND_CHECK] =
        {"check", "[-c FILE] [--print]", "validate the configuration and print each route's effective rule",
         "Validates the file and everything that it names; every mistake is told, with its line and column. "
         "With --print the effective configuration is written instead, as YAML that loads again to the "
         "same one, defaults filled in. A value from an environment variable whose name holds TOKEN, "
         "SECRET, PASS, KEY, CREDENTIAL or AUTH stays ${NAME}; files that are named are never shown.",
         0, 0, command_check},
    [COMMAND_EXPLAIN] =
        {"explain", "[-c FILE] [-X METHOD] [-H 'Name: value']… [-d DATA | -d @FILE] [--json] URL-PATH",
         "tell what would become of one request, without sending it",
         "Tells which route applies and why others do not, where the key comes from, what names the action, and what "
         "each status of the API would mean. Nothing is sent and no store is opened. Credentials are hidden. URL-PATH "
         "may carry a query, or be a whole URL, whose host counts; without one and without -H 'Host: …' the host is "
         "localhost. No header is added but Host and Content-Length.",
         1, 1, command_explain},
    [COMMAND_ACTIONS_LIST] =
        {"actions list", "[--state STATE] [--route NAME] [--task TASK] [--key KEY] [--limit N] [--json]",
         "list recorded actions, oldest first",
         "Lists what a running einmal has recorded, through its admin interface. Ids are cut to what tells them apart "
         "nearly always; other commands take such a beginning, and --json gives them whole. AGE counts from the last "
         "change of state.",
         0, 0, command_actions_list},
    [COMMAND_ACTIONS_SHOW] = {"actions show", "ID [--json]", "show one action with its recorded response",
                              "ID may be its beginning, if at least 8 digits tell it from all others.", 1, 1,
                              command_actions_show},
    [COMMAND_ACTIONS_RESOLVE] =
        {"actions resolve",
         "ID --completed --status N [-H 'Name: value']… [--body DATA | --body @FILE] | ID --not-executed",
         "decide how an unknown action ended",
         "Only a person who has looked at the API can tell what became of an unknown action. With --completed it has "
         "happened, and repetitions get the response that is given here. With --not-executed it has not: the record is "
         "gone, and the next attempt executes. Decisions are logged.",
         1, 1, command_actions_resolve},
    [COMMAND_ACTIONS_FORGET] = {"actions forget", "ID", "forget an action: its next attempt executes",
                                "Only completed and unknown actions can be forgotten, never one that runs. The API "
                                "gets the next attempt even if the action has happened.",
                                1, 1, command_actions_forget},
    [COMMAND_TASKS_SHOW] = {"tasks show", "TASK [--json]", "show the actions of one task in order",
                            "Tells of each action whether it is done, runs, or is open. What is not listed has not "
                            "begun, or is forgotten, and may be sent.",
                            1, 1, command_tasks_show},
    [COMMAND_BACKUP] = {"backup", "[--force] FILE", "write a consistent copy of the store while einmal runs",
                        "The copy is complete when FILE is there, readable by its owner only. As data.mdb in an empty "
                        "directory it is a store. A restored backup forgets all keys that are newer: their repetitions "
                        "would execute again.",
                        1, 1, command_backup},
    [COMMAND_HEALTH] = {"health", "[--ready]",
                        "tell whether einmal lives; with --ready whether it can serve keyed requests",
                        "For images without a shell: HEALTHCHECK, livenessProbe, readinessProbe. Exit status 0 or 1.",
                        0, 0, command_health},
    [COMMAND_WAIT] = {"wait", "[--max DURATION]", "wait until einmal is ready",
                      "For start-up order. Exit status 0 as soon as it is ready, 1 if it is not within DURATION.", 0, 0,
                      command_wait},
    [COMMAND_DRAIN] = {"drain", "[--max DURATION]", "let einmal finish what runs; it stays until SIGTERM",
                       "For preStop. Returns when nothing runs any more, with exit status 0, or after DURATION with 1.",
                       0, 0, command_drain},
};

/* ---- help ------------------------------------------------------------------------------------- */

static void print_usage(FILE *out)
{
    fprintf(out, "einmal makes unsafe HTTP requests safe to repeat: it stands in front of an API and lets each action "
                 "through once.\n\n"
                 "usage: einmal COMMAND [OPTION]…\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-16s %s\n", commands[i].name, commands[i].text);
    fprintf(out, "\n  einmal --version, einmal --help, einmal COMMAND --help\n\n"
                 "exit status: 0 fine, 1 runtime failure, 2 bad usage or configuration\n");
}

void cli_spell_option(const struct option_row *row, char *text, size_t size)
{
    char letter[8] = "";
    if (row->letter)
        snprintf(letter, sizeof letter, "-%c, ", row->letter);
    snprintf(text, size, "%s--%s%s%s", letter, row->name, row->value ? " " : "", row->value ? row->value : "");
}

enum { HELP_WIDTH = 100 };

/* The text, broken at spaces. */
static void print_paragraph(FILE *out, const char *text)
{
    size_t column = 0;
    while (*text) {
        size_t word = strcspn(text, " ");
        if (column && column + 1 + word > HELP_WIDTH) {
            fputc('\n', out);
            column = 0;
        }
        column += (size_t)fprintf(out, "%s%.*s", column ? " " : "", (int)word, text);
        text += word;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

void cli_print_help(size_t command, FILE *out)
{
    const struct command *row = &commands[command];
    fprintf(out, "usage: einmal %s %s\n\n%s\n\n", row->name, row->arguments, row->text);
    if (row->more) {
        print_paragraph(out, row->more);
        fputc('\n', out);
    }
    for (size_t i = 0; i < option_row_count; i++) {
        char spelled[64];
        if (!option_applies(&option_rows[i], command))
            continue;
        cli_spell_option(&option_rows[i], spelled, sizeof spelled);
        fprintf(out, "  %-24s %s\n", spelled, option_rows[i].text);
    }
}

int usage_error(const char *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "einmal: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "; see einmal %s%s--help\n", command ? command : "", command ? " " : "");
    va_end(arguments);
    return EXIT_USAGE;
}

/* ---- which command ---------------------------------------------------------------------------- */

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

/* How many of argv's words from 1 on name the command: 0, 1 or 2. */
static int names_command(const struct command *command, int argc, char **argv)
{
    const char *second = strchr(command->name, ' ');
    size_t first_len = second ? (size_t)(second - command->name) : strlen(command->name);
    if (strlen(argv[1]) != first_len || strncmp(argv[1], command->name, first_len) != 0)
        return 0;
    if (!second)
        return 1;
    return argc > 2 && strcmp(argv[2], second + 1) == 0 ? 2 : 0;
}

static bool is_family(const struct command *command, const char *word)
{
    size_t len = strlen(word);
    return strncmp(command->name, word, len) == 0 && command->name[len] == ' ';
}

/* "einmal actions" and "einmal actions --help": the usage of each of a family. */
static void print_family(const char *word, FILE *out)
{
    const char *before = "usage:";
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (!is_family(&commands[i], word))
            continue;
        fprintf(out, "%s einmal %s %s\n", before, commands[i].name, commands[i].arguments);
        fprintf(out, "           %s\n", commands[i].text);
        before = "      ";
    }
}

static bool names_family(const char *word)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (is_family(&commands[i], word))
            return true;
    return false;
}

static int unknown_command(const char *word)
{
    const char *names[COMMAND_COUNT];
    char firsts[COMMAND_COUNT][32];
    if (word[0] == '-')
        return usage_error(NULL, "unknown option %s", word);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        snprintf(firsts[i], sizeof firsts[i], "%.*s", (int)strcspn(commands[i].name, " "), commands[i].name);
        names[i] = firsts[i];
    }
    const char *nearest = scalar_nearest(word, names, COMMAND_COUNT);
    if (nearest)
        return usage_error(NULL, "unknown command %s (did you mean %s?)", word, nearest);
    return usage_error(NULL, "unknown command %s", word);
}

static int run_command(size_t command, int argc, char **argv)
{
    struct arguments arguments = {0};
    if (!arguments_parse(command, argc, argv, &arguments))
        return EXIT_USAGE;
    if (arguments.help) {
        cli_print_help(command, stdout);
        return EXIT_FINE;
    }
    return commands[command].run(&arguments);
}

static int choose(int argc, char **argv)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        int words = names_command(&commands[i], argc, argv);
        if (words)
            return run_command(i, argc - words, argv + words);
    }
    if (!names_family(argv[1]))
        return unknown_command(argv[1]);
    if (argc > 2 && is_help(argv[2])) {
        print_family(argv[1], stdout);
        return EXIT_FINE;
    }
    if (argc > 2)
        return usage_error(argv[1], "%s: no such command: %s", argv[1], argv[2]);
    print_family(argv[1], stderr);
    return EXIT_USAGE;
}

/* A reader that has left (`| head`) is no error to talk about; what could not be written otherwise is. */
static int finish(int code)
{
    bool failed = fflush(stdout) != 0 || ferror(stdout);
    if (!failed || errno == EPIPE)
        return code;
    fprintf(stderr, "einmal: cannot write to standard output: %s\n", strerror(errno));
    return code ? code : EXIT_FAILED;
}

int cli_main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 && argc > 2) { /* einmal help run: as einmal run --help */
        char *swapped[4] = {argv[0], argv[2], argc > 3 ? argv[3] : (char *)"--help", (char *)"--help"};
        return finish(choose(argc > 3 ? 4 : 3, swapped));
    }
    if (is_help(argv[1])) {
        print_usage(stdout);
        return finish(EXIT_FINE);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("einmal %s\n", EINMAL_VERSION);
        return finish(EXIT_FINE);
    }
    return finish(choose(argc, argv));
}
