/*
 * cli.c - arguments and subcommands (contract §2).
 *
 * Commands and options are rows; help texts are printed from them. Flags count over environment over file. Without an
 * upstream the configuration comes from -c, else EINMAL_CONFIG, else the usual place.
 *
 * Left out until they exist: the commands that talk to a running einmal.
 */
#include "proxy/cli.h"
#include "proxy/admin/token.h"
#include "proxy/server.h"
#include "proxy/span.h"
#include "proxy/tls.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_FILE "/etc/einmal/einmal.yaml"

enum { EXIT_FINE = 0, EXIT_USAGE = 2 };

struct arguments {
    const char *file, *crash_at;
    struct conf_overrides overrides;
    bool help;
};

struct option_row {
    const char *name, *value, *text;
    char letter;
    int (*command)(const struct arguments *arguments); /* NULL: of every command */
};

struct command_row {
    const char *name, *arguments, *text;
    int (*run)(const struct arguments *arguments);
};

static int command_run(const struct arguments *arguments);
static int command_check(const struct arguments *arguments);

static const struct command_row commands[] = {
    {"run", "[-c FILE] | --upstream URL [--listen ADDR] [--data DIR] [--admin ADDR]", "run the proxy in the foreground",
     command_run},
    {"check", "[-c FILE]", "validate the configuration and print each route's effective rule", command_check},
};

static const struct option_row option_rows[] = {
    {"config", "FILE", "configuration file; default $EINMAL_CONFIG, else " DEFAULT_FILE, 'c', NULL},
    {"upstream", "URL", "the API to stand in front of, without a file; also $EINMAL_UPSTREAM", 'u', command_run},
    {"listen", "ADDR", "host:port or unix:/path instead of the file's; also $EINMAL_LISTEN; default 0.0.0.0:8080", 'l',
     command_run},
    {"data", "DIR", "directory of the store instead of the file's; also $EINMAL_DATA; default /var/lib/einmal", 'd',
     command_run},
    {"admin", "ADDR", "host:port, unix:/path or off instead of the file's; also $EINMAL_ADMIN; default 127.0.0.1:9180",
     'a', command_run},
#ifdef EINMAL_CRASH_POINTS
    {"crash-at", "STEP", "debug builds: kill -9 ourselves at that step; also $EINMAL_CRASH_AT", 'X', command_run},
#endif
    {"help", NULL, "this text", 'h', NULL},
};

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

static bool applies(const struct option_row *row, const struct command_row *command)
{
    return !row->command || row->command == command->run;
}

/* ---- help ------------------------------------------------------------------------------------- */

static void print_usage(FILE *out)
{
    fprintf(out, "einmal makes unsafe HTTP requests safe to repeat: it stands in front of an API and lets each action "
                 "through once.\n\n"
                 "usage: einmal COMMAND [OPTION]…\n\n");
    for (size_t i = 0; i < COUNT(commands); i++)
        fprintf(out, "  einmal %-6s %s\n                %s\n", commands[i].name, commands[i].arguments,
                commands[i].text);
    fprintf(out, "\n  einmal --version, einmal --help, einmal COMMAND --help\n\n"
                 "exit status: 0 fine, 1 runtime failure, 2 bad usage or configuration\n");
}

static void print_command_help(const struct command_row *command)
{
    printf("usage: einmal %s %s\n\n%s\n\n", command->name, command->arguments, command->text);
    for (size_t i = 0; i < COUNT(option_rows); i++) {
        const struct option_row *row = &option_rows[i];
        char spelled[64];
        if (!applies(row, command))
            continue;
        snprintf(spelled, sizeof spelled, "%s--%s%s%s",
                 row->letter == 'c'   ? "-c, "
                 : row->letter == 'h' ? "-h, "
                                      : "",
                 row->name, row->value ? " " : "", row->value ? row->value : "");
        printf("  %-22s %s\n", spelled, row->text);
    }
}

static int usage_error(const char *format, const char *what)
{
    fprintf(stderr, "einmal: ");
    fprintf(stderr, format, what);
    fprintf(stderr, "; see einmal --help\n");
    return EXIT_USAGE;
}

/* ---- arguments -------------------------------------------------------------------------------- */

static void set_option(struct arguments *arguments, char letter, const char *value)
{
    const char **fields[] = {
        ['c'] = &arguments->file,
        ['u'] = &arguments->overrides.upstream,
        ['l'] = &arguments->overrides.listen,
        ['d'] = &arguments->overrides.data,
        ['a'] = &arguments->overrides.admin,
        ['X'] = &arguments->crash_at,
    };
    if (letter == 'h')
        arguments->help = true;
    else
        *fields[(unsigned char)letter] = value;
}

/* False: usage error, already printed. */
static bool parse_options(const struct command_row *command, int argc, char **argv, struct arguments *arguments)
{
    struct option options[COUNT(option_rows) + 1] = {0};
    size_t count = 0;
    for (size_t i = 0; i < COUNT(option_rows); i++)
        if (applies(&option_rows[i], command))
            options[count++] =
                (struct option){option_rows[i].name, option_rows[i].value ? required_argument : no_argument, NULL,
                                option_rows[i].letter};
    opterr = 0;
    optind = 1;
    int letter;
    while ((letter = getopt_long(argc, argv, ":c:h", options, NULL)) != -1) {
        if (letter == '?' || letter == ':') {
            usage_error(letter == ':' ? "%s needs a value" : "unknown option %s", argv[optind - 1]);
            return false;
        }
        set_option(arguments, (char)letter, optarg);
    }
    if (optind < argc) {
        usage_error("unexpected argument %s", argv[optind]);
        return false;
    }
    return true;
}

static const char *environment(void *arg, const char *name)
{
    (void)arg;
    return getenv(name);
}

static void from_environment(const char **field, const char *name)
{
    const char *value = getenv(name);
    if (!*field && value && *value)
        *field = value;
}

/* The environment fills what flags left open, and the file is found. False: usage error, already printed. */
static bool complete(struct arguments *arguments, bool is_run)
{
    if (arguments->overrides.upstream && arguments->file) {
        usage_error("%s and -c exclude each other: a file names its upstreams itself", "--upstream");
        return false;
    }
    if (is_run && !arguments->file)
        from_environment(&arguments->overrides.upstream, "EINMAL_UPSTREAM");
    from_environment(&arguments->overrides.listen, "EINMAL_LISTEN");
    from_environment(&arguments->overrides.data, "EINMAL_DATA");
    from_environment(&arguments->overrides.admin, "EINMAL_ADMIN");
#ifdef EINMAL_CRASH_POINTS
    from_environment(&arguments->crash_at, "EINMAL_CRASH_AT");
#endif
    if (arguments->overrides.upstream)
        return true;
    from_environment(&arguments->file, "EINMAL_CONFIG");
    if (!arguments->file)
        arguments->file = DEFAULT_FILE;
    return true;
}

/* ---- commands --------------------------------------------------------------------------------- */

static int command_run(const struct arguments *arguments)
{
    struct arguments completed = *arguments;
    if (!complete(&completed, true))
        return EXIT_USAGE;
    return server_run(&(struct server_options){
        .file = completed.file,
        .overrides = completed.overrides,
        .environment = environment,
        .crash_at = completed.crash_at,
    });
}

static int command_check(const struct arguments *arguments)
{
    struct arguments completed = *arguments;
    if (!complete(&completed, false))
        return EXIT_USAGE;
    struct conf *conf = conf_load(completed.file, &completed.overrides, environment, NULL, stderr);
    if (!conf)
        return EXIT_USAGE;
    struct tls *tls = tls_load(conf, NULL, stderr);
    struct admin_token token;
    bool token_there = admin_token_load(conf, &token, stderr);
    bool there = conf_check_named(conf, stderr) && tls && token_there;
    admin_token_free(&token);
    tls_unref(tls);
    if (there)
        conf_print(conf, stdout);
    conf_unref(conf);
    return there ? EXIT_FINE : EXIT_USAGE;
}

int cli_main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return EXIT_FINE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("einmal %s\n", EINMAL_VERSION);
        return EXIT_FINE;
    }
    for (size_t i = 0; i < COUNT(commands); i++) {
        struct arguments arguments = {0};
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        if (!parse_options(&commands[i], argc - 1, argv + 1, &arguments))
            return EXIT_USAGE;
        if (arguments.help) {
            print_command_help(&commands[i]);
            return EXIT_FINE;
        }
        return commands[i].run(&arguments);
    }
    return usage_error(argv[1][0] == '-' ? "unknown option %s" : "unknown command %s", argv[1]);
}
