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
    {"config", 'c', "FILE", OPTION_FILE, IN(file), EVERY, 0, 0, NULL,
     "configuration file; default $EINMAL_CONFIG, else " COMMAND_DEFAULT_FILE},
    {"upstream", 0, "URL", OPTION_TEXT, IN(overrides.upstream), OF_CONF, 0, 0, NULL,
     "the API to stand in front of, without a file; also $EINMAL_UPSTREAM"},
    {"listen", 0, "ADDR", OPTION_TEXT, IN(overrides.listen), ONLY(COMMAND_RUN) | ONLY(COMMAND_CHECK), 0, 0, NULL,
     "host:port or unix:/path instead of the file's; also $EINMAL_LISTEN; default 0.0.0.0:8080"},
    {"data", 0, "DIR", OPTION_FILE, IN(overrides.data), ONLY(COMMAND_RUN) | ONLY(COMMAND_CHECK), 0, 0, NULL,
     "directory of the store instead of the file's; also $EINMAL_DATA; default /var/lib/einmal"},
    {"admin", 0, "ADDR", OPTION_TEXT, IN(overrides.admin), ONLY(COMMAND_RUN) | ONLY(COMMAND_CHECK), 0, 0, NULL,
     "host:port, unix:/path or off instead of the file's; also $EINMAL_ADMIN; default 127.0.0.1:9180"},
    {"admin", 0, "ADDR", OPTION_TEXT, IN(overrides.admin), OF_CONTROL, 0, 0, NULL,
     "where to ask: host:port, http://host:port or unix:/path; default $EINMAL_ADMIN, else the file's, else "
     "127.0.0.1:9180"},
    {"token-file", 0, "FILE", OPTION_FILE, IN(token_file), OF_CONTROL, 0, 0, NULL,
     "holds the admin interface's token; default $EINMAL_ADMIN_TOKEN_FILE, else the file's admin.token_file"},
#ifdef EINMAL_CRASH_POINTS
    {"crash-at", 0, "STEP", OPTION_TEXT, IN(crash_at), ONLY(COMMAND_RUN), 0, 0, NULL,
     "debug builds: kill -9 ourselves at that step; also $EINMAL_CRASH_AT"},
#endif
    {"print", 0, NULL, OPTION_FLAG, IN(print), ONLY(COMMAND_CHECK), 0, 0, NULL,
     "write the effective configuration as YAML"},
    {"method", 'X', "METHOD", OPTION_TEXT, IN(method), ONLY(COMMAND_EXPLAIN), 0, 0, NULL, "method; default POST"},
    {"header", 'H', "'NAME: VALUE'", OPTION_TEXTS, IN(headers), ONLY(COMMAND_EXPLAIN) | OF_RESOLVE, 0, 0, NULL,
     "a header; may be repeated"},
    {"data", 'd', "DATA", OPTION_TEXT, IN(body), ONLY(COMMAND_EXPLAIN), 0, 0, NULL,
     "the body; @FILE: what is in it, @-: standard input"},
    {"cert", 0, "FILE", OPTION_FILE, IN(certificate), ONLY(COMMAND_EXPLAIN), 0, 0, NULL,
     "the client's certificate (PEM), where callers are known by theirs"},
    {"state", 0, "STATE", OPTION_WORD, IN(state), OF_LIST, 0, 0, states, "in_progress, completed or unknown"},
    {"route", 0, "NAME", OPTION_TEXT, IN(route), OF_LIST, 0, 0, NULL, "of this route"},
    {"task", 0, "TASK", OPTION_TEXT, IN(task), OF_LIST, 0, 0, NULL, "of this task"},
    {"key", 0, "KEY", OPTION_TEXT, IN(key), OF_LIST, 0, 0, NULL, "with this key, as it was sent, without quotes"},
    {"limit", 0, "N", OPTION_NUMBER, IN(limit), OF_LIST, 1, UINT32_MAX, NULL, "at most so many; default all"},
    {"completed", 0, NULL, OPTION_FLAG, IN(completed), OF_RESOLVE, 0, 0, NULL, "it has happened"},
    {"not-executed", 0, NULL, OPTION_FLAG, IN(not_executed), OF_RESOLVE, 0, 0, NULL, "it has not happened"},
    {"status", 0, "N", OPTION_NUMBER, IN(status), OF_RESOLVE, 200, 599, NULL, "of the response that repetitions get"},
    {"body", 0, "DATA", OPTION_TEXT, IN(body), OF_RESOLVE, 0, 0, NULL,
     "of that response; @FILE: what is in it, @-: standard input"},
    {"force", 0, NULL, OPTION_FLAG, IN(force), ONLY(COMMAND_BACKUP), 0, 0, NULL, "replace FILE if it is there"},
    {"ready", 0, NULL, OPTION_FLAG, IN(ready), ONLY(COMMAND_HEALTH), 0, 0, NULL, "ask for readiness"},
    {"max", 0, "DURATION", OPTION_DURATION, IN(max_ms), ONLY(COMMAND_WAIT), 0, 0, NULL, "how long; default 10s"},
    {"max", 0, "DURATION", OPTION_DURATION, IN(max_ms), ONLY(COMMAND_DRAIN), 0, 0, NULL,
     "how long, at most 1h; default 25s"},
    {"json", 0, NULL, OPTION_FLAG, IN(json), ONLY(COMMAND_EXPLAIN) | (OF_CONTROL & ~ONLY(COMMAND_BACKUP)), 0, 0, NULL,
     "for scripts"},
    {"help", 'h', NULL, OPTION_FLAG, IN(help), EVERY, 0, 0, NULL, "this text"},
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
