/*
 * cli_options.c - the options of all commands as rows, and from argv and the environment to struct arguments. Flags
 * count over environment over file (contract §3).
 *
 * Without an upstream the configuration comes from -c, else EINMAL_CONFIG, else the usual place.
 */
#include "conf/scalar.h"
#include "proxy/command.h"
#include "proxy/span.h"

#include <getopt.h>
#include <stddef.h>

#define ONLY(command) (1u << (command))
#define EVERY         (~0u)
#define OF_CONF       (ONLY(COMMAND_RUN) | ONLY(COMMAND_CHECK) | ONLY(COMMAND_EXPLAIN))
#define OF_CONTROL    (EVERY & ~OF_CONF)
#define OF_RESOLVE    ONLY(COMMAND_ACTIONS_RESOLVE)
#define OF_LIST       ONLY(COMMAND_ACTIONS_LIST)
#define IN(field)     offsetof(struct arguments, field)

static const char *const states[] = {"in_progress", "completed", "unknown", NULL};

const struct option_row option_rows[] = {
    {.name = "config",
     .letter = 'c',
     .value = "FILE",
     .kind = OPTION_FILE,
     .offset = IN(file),
     .commands = EVERY,
     .text = "configuration file; default $EINMAL_CONFIG, else " COMMAND_DEFAULT_FILE},
    {.name = "upstream",
     .value = "URL",
     .kind = OPTION_TEXT,
     .offset = IN(overrides.upstream),
     .commands = OF_CONF,
     .text = "the API to stand in front of, without a file; also $EINMAL_UPSTREAM"},
    {.name = "listen",
     .value = "ADDR",
     .kind = OPTION_TEXT,
     .offset = IN(overrides.listen),
     .commands = ONLY(COMMAND_RUN) | ONLY(COMMAND_CHECK),
     .text = "host:port or unix:/path instead of the file's; also $EINMAL_LISTEN; default 0.0.0.0:8080"},
    {.name = "data",
     .value = "DIR",
     .kind = OPTION_FILE,
     .offset = IN(overrides.data),
     .commands = ONLY(COMMAND_RUN) | ONLY(COMMAND_CHECK),
     .text = "directory of the store instead of the file's; also $EINMAL_DATA; default /var/lib/einmal"},
    {.name = "admin",
     .value = "ADDR",
     .kind = OPTION_TEXT,
     .offset = IN(overrides.admin),
     .commands = ONLY(COMMAND_RUN) | ONLY(COMMAND_CHECK),
     .text = "host:port, unix:/path or off instead of the file's; also $EINMAL_ADMIN; default 127.0.0.1:9180"},
    {.name = "admin",
     .value = "ADDR",
     .kind = OPTION_TEXT,
     .offset = IN(overrides.admin),
     .commands = OF_CONTROL,
     .text = "where to ask: host:port, http://host:port or unix:/path; default $EINMAL_ADMIN, else the file's, else "
             "127.0.0.1:9180"},
    {.name = "token-file",
     .value = "FILE",
     .kind = OPTION_FILE,
     .offset = IN(token_file),
     .commands = OF_CONTROL,
     .text = "holds the admin interface's token; default $EINMAL_ADMIN_TOKEN_FILE, else the file's admin.token_file"},
#ifdef EINMAL_CRASH_POINTS
    {.name = "crash-at",
     .value = "STEP",
     .kind = OPTION_TEXT,
     .offset = IN(crash_at),
     .commands = ONLY(COMMAND_RUN),
     .text = "debug builds: kill -9 ourselves at that step; also $EINMAL_CRASH_AT",
     .is_debug = true},
#endif
    {.name = "print",
     .kind = OPTION_FLAG,
     .offset = IN(print),
     .commands = ONLY(COMMAND_CHECK),
     .text = "write the effective configuration as YAML"},
    {.name = "method",
     .letter = 'X',
     .value = "METHOD",
     .kind = OPTION_TEXT,
     .offset = IN(method),
     .commands = ONLY(COMMAND_EXPLAIN),
     .text = "method; default POST"},
    {.name = "header",
     .letter = 'H',
     .value = "'NAME: VALUE'",
     .kind = OPTION_TEXTS,
     .offset = IN(headers),
     .commands = ONLY(COMMAND_EXPLAIN) | OF_RESOLVE,
     .text = "a header; may be repeated"},
    {.name = "data",
     .letter = 'd',
     .value = "DATA",
     .kind = OPTION_TEXT,
     .offset = IN(body),
     .commands = ONLY(COMMAND_EXPLAIN),
     .text = "the body; @FILE: what is in it, @-: standard input"},
    {.name = "cert",
     .value = "FILE",
     .kind = OPTION_FILE,
     .offset = IN(certificate),
     .commands = ONLY(COMMAND_EXPLAIN),
     .text = "the client's certificate (PEM), where callers are known by theirs"},
    {.name = "state",
     .value = "STATE",
     .kind = OPTION_WORD,
     .offset = IN(state),
     .commands = OF_LIST,
     .words = states,
     .text = "in_progress, completed or unknown"},
    {.name = "route",
     .value = "NAME",
     .kind = OPTION_TEXT,
     .offset = IN(route),
     .commands = OF_LIST,
     .text = "of this route"},
    {.name = "task",
     .value = "TASK",
     .kind = OPTION_TEXT,
     .offset = IN(task),
     .commands = OF_LIST,
     .text = "of this task"},
    {.name = "key",
     .value = "KEY",
     .kind = OPTION_TEXT,
     .offset = IN(key),
     .commands = OF_LIST,
     .text = "with this key, as it was sent, without quotes"},
    {.name = "limit",
     .value = "N",
     .kind = OPTION_NUMBER,
     .offset = IN(limit),
     .commands = OF_LIST,
     .min = 1,
     .max = UINT32_MAX,
     .text = "at most so many; default all"},
    {.name = "completed",
     .kind = OPTION_FLAG,
     .offset = IN(completed),
     .commands = OF_RESOLVE,
     .text = "it has happened"},
    {.name = "not-executed",
     .kind = OPTION_FLAG,
     .offset = IN(not_executed),
     .commands = OF_RESOLVE,
     .text = "it has not happened"},
    {.name = "status",
     .value = "N",
     .kind = OPTION_NUMBER,
     .offset = IN(status),
     .commands = OF_RESOLVE,
     .min = 200,
     .max = 599,
     .text = "of the response that repetitions get"},
    {.name = "body",
     .value = "DATA",
     .kind = OPTION_TEXT,
     .offset = IN(body),
     .commands = OF_RESOLVE,
     .text = "of that response; @FILE: what is in it, @-: standard input"},
    {.name = "force",
     .kind = OPTION_FLAG,
     .offset = IN(force),
     .commands = ONLY(COMMAND_BACKUP),
     .text = "replace FILE if it is there"},
    {.name = "ready",
     .kind = OPTION_FLAG,
     .offset = IN(ready),
     .commands = ONLY(COMMAND_HEALTH),
     .text = "ask for readiness"},
    {.name = "max",
     .value = "DURATION",
     .kind = OPTION_DURATION,
     .offset = IN(max_ms),
     .commands = ONLY(COMMAND_WAIT),
     .text = "how long; default 10s"},
    {.name = "max",
     .value = "DURATION",
     .kind = OPTION_DURATION,
     .offset = IN(max_ms),
     .commands = ONLY(COMMAND_DRAIN),
     .text = "how long, at most 1h; default 25s"},
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = IN(json),
     .commands = ONLY(COMMAND_EXPLAIN) | (OF_CONTROL & ~ONLY(COMMAND_BACKUP)),
     .text = "for scripts"},
    {.name = "help", .letter = 'h', .kind = OPTION_FLAG, .offset = IN(help), .commands = EVERY, .text = "this text"},
};
const size_t option_row_count = sizeof option_rows / sizeof *option_rows;

/* ---- argv ------------------------------------------------------------------------------------- */

enum { FIRST_LONG = 256, MAX_ROWS = 64 };

/* What getopt_long wants, of the rows of one command. */
struct spelled {
    struct option options[MAX_ROWS + 1];
    char letters[2 * MAX_ROWS + 2];
};

static void spell(size_t command, struct spelled *out)
{
    size_t count = 0, len = 0;
    out->letters[len++] = ':';
    for (size_t i = 0; i < option_row_count && i < MAX_ROWS; i++) {
        const struct option_row *row = &option_rows[i];
        if (!option_applies(row, command))
            continue;
        out->options[count++] =
            (struct option){row->name, row->value ? required_argument : no_argument, NULL, FIRST_LONG + (int)i};
        if (row->letter)
            out->letters[len++] = row->letter;
        if (row->letter && row->value)
            out->letters[len++] = ':';
    }
    out->options[count] = (struct option){0};
    out->letters[len] = '\0';
}

static const struct option_row *row_of(size_t command, int found)
{
    if (found >= FIRST_LONG)
        return &option_rows[found - FIRST_LONG];
    for (size_t i = 0; i < option_row_count; i++)
        if (option_applies(&option_rows[i], command) && option_rows[i].letter == (char)found)
            return &option_rows[i];
    return NULL;
}

static bool set_number(const char *command, const struct option_row *row, const char *value, uint32_t *target)
{
    uint64_t number;
    if (scalar_number(value, &number) && number >= row->min && number <= row->max) {
        *target = (uint32_t)number;
        return true;
    }
    usage_error(command, "--%s must be a number from %u to %u, not '%s'", row->name, row->min, row->max, value);
    return false;
}

static bool set_word(const char *command, const struct option_row *row, const char *value, const char **target)
{
    size_t count = 0;
    for (; row->words[count]; count++)
        if (strcmp(row->words[count], value) == 0)
            return *target = value, true;
    const char *nearest = scalar_nearest(value, row->words, count);
    usage_error(command, "--%s must be %s, not '%s'%s%s%s", row->name, row->value, value,
                nearest ? " (did you mean " : "", nearest ? nearest : "", nearest ? "?)" : "");
    return false;
}

static bool set_text(const char *command, const struct option_row *row, const char *value,
                     struct argument_texts *target)
{
    if (target->count == ARGUMENT_MAX_TEXTS) {
        usage_error(command, "--%s is given more than %d times", row->name, ARGUMENT_MAX_TEXTS);
        return false;
    }
    target->items[target->count++] = value;
    return true;
}

/* False: usage error, printed. */
static bool set_option(const char *command, const struct option_row *row, const char *value, struct arguments *out)
{
    void *target = (char *)out + row->offset;
    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)target = true;
        return true;
    case OPTION_TEXT:
    case OPTION_FILE:
        *(const char **)target = value;
        return true;
    case OPTION_TEXTS:
        return set_text(command, row, value, target);
    case OPTION_NUMBER:
        return set_number(command, row, value, target);
    case OPTION_DURATION:
        if (scalar_duration(value, target))
            return true;
        usage_error(command, "--%s must be a duration such as 500ms, 10s or 5m, not '%s'", row->name, value);
        return false;
    case OPTION_WORD:
        return set_word(command, row, value, target);
    }
    return false;
}

static bool check_operands(const struct command *command, const struct arguments *arguments)
{
    if (arguments->help)
        return true;
    if (arguments->operand_count < command->operands_min) {
        usage_error(command->name, "%s: usage is einmal %s %s", command->name, command->name, command->arguments);
        return false;
    }
    if (arguments->operand_count > command->operands_max) {
        usage_error(command->name, "unexpected argument %s", arguments->operands[command->operands_max]);
        return false;
    }
    return true;
}

bool arguments_parse(size_t command, int argc, char **argv, struct arguments *out)
{
    const char *name = commands[command].name;
    struct spelled spelled;
    int found;
    spell(command, &spelled);
    opterr = 0;
    optind = 0; /* glibc: from the beginning, whatever was parsed before */
    while ((found = getopt_long(argc, argv, spelled.letters, spelled.options, NULL)) != -1) {
        if (found == '?' || found == ':') {
            usage_error(name, found == ':' ? "%s needs a value" : "unknown option %s", argv[optind - 1]);
            return false;
        }
        if (!set_option(name, row_of(command, found), optarg, out))
            return false;
    }
    out->operands = (const char *const *)argv + optind;
    out->operand_count = (size_t)(argc - optind);
    return check_operands(&commands[command], out);
}

/* ---- the environment -------------------------------------------------------------------------- */

const char *arguments_environment(void *arg, const char *name)
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

bool arguments_complete(const struct arguments *arguments, struct arguments *completed)
{
    *completed = *arguments;
    if (completed->overrides.upstream && completed->file) {
        usage_error(NULL, "--upstream and -c exclude each other: a file names its upstreams itself");
        return false;
    }
    if (!completed->file)
        from_environment(&completed->overrides.upstream, "EINMAL_UPSTREAM");
    from_environment(&completed->overrides.listen, "EINMAL_LISTEN");
    from_environment(&completed->overrides.data, "EINMAL_DATA");
    from_environment(&completed->overrides.admin, "EINMAL_ADMIN");
#ifdef EINMAL_CRASH_POINTS
    from_environment(&completed->crash_at, "EINMAL_CRASH_AT");
#endif
    if (completed->overrides.upstream)
        return true;
    from_environment(&completed->file, "EINMAL_CONFIG");
    if (!completed->file)
        completed->file = COMMAND_DEFAULT_FILE;
    return true;
}

static struct conf *load(const struct arguments *completed, FILE *messages)
{
    const char *file = completed->overrides.upstream ? NULL : completed->file;
    return conf_load(file, &completed->overrides, arguments_environment, NULL, messages);
}

struct conf *arguments_load(const struct arguments *completed)
{
    return load(completed, stderr);
}

struct conf *arguments_load_quietly(const struct arguments *completed)
{
    char *messages = NULL;
    size_t size;
    FILE *memory = must_allocate(open_memstream(&messages, &size));
    struct conf *conf = load(completed, memory);
    fclose(memory);
    if (!conf)
        fputs(messages, stderr);
    free(messages);
    return conf;
}
