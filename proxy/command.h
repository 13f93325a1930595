/*
 * command.h - what the commands share: their rows, their options' rows, and what was asked. Private to the command line
 * (cli*.c, command_*.c).
 *
 * Two tables are all that is known of commands (cli.c) and options (cli_options.c): parsing, help, the manual page and
 * the shells' completions are made from them.
 */
#pragma once

#include "conf/conf.h"
#include "proxy/buffer.h"

#include <stdio.h>

enum { EXIT_FINE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

#define COMMAND_DEFAULT_FILE "/etc/einmal/einmal.yaml"

enum command_id {
    COMMAND_RUN,
    COMMAND_CHECK,
    COMMAND_EXPLAIN,
    COMMAND_ACTIONS_LIST,
    COMMAND_ACTIONS_SHOW,
    COMMAND_ACTIONS_RESOLVE,
    COMMAND_ACTIONS_FORGET,
    COMMAND_TASKS_SHOW,
    COMMAND_BACKUP,
    COMMAND_HEALTH,
    COMMAND_WAIT,
    COMMAND_DRAIN,
    COMMAND_COUNT,
};

/* ---- what was asked --------------------------------------------------------------------------- */

#define ARGUMENT_MAX_TEXTS 256

struct argument_texts { /* of an option that may be repeated */
    const char *items[ARGUMENT_MAX_TEXTS];
    size_t count;
};

struct arguments { /* NULL, 0, false: not said. Texts are argv's or the environment's */
    bool help;
    const char *file;
    struct conf_overrides overrides;
    const char *crash_at;
    bool json, print;
    const char *method, *body, *certificate; /* explain; `body` and `headers` of actions resolve, too */
    struct argument_texts headers;
    const char *token_file;
    const char *state, *route, *task, *key; /* actions list */
    uint32_t limit, status;
    bool completed, not_executed; /* actions resolve */
    bool force, ready;
    int64_t max_ms;
    const char *const *operands;
    size_t operand_count;
};

/* ---- rows ------------------------------------------------------------------------------------- */

struct command {
    const char *name;      /* "run"; of a family both words: "actions list" */
    const char *arguments; /* as in a usage line */
    const char *text;      /* one line, for lists */
    const char *more;      /* paragraphs for its own help and the manual; NULL: none */
    size_t operands_min, operands_max;
    int (*run)(const struct arguments *arguments);
};
extern const struct command commands[COMMAND_COUNT];

enum option_kind {
    OPTION_FLAG,     /* bool */
    OPTION_TEXT,     /* const char * */
    OPTION_TEXTS,    /* struct argument_texts */
    OPTION_NUMBER,   /* uint32_t, min … max */
    OPTION_DURATION, /* int64_t milliseconds */
    OPTION_FILE,     /* as OPTION_TEXT; completed as a file */
    OPTION_WORD,     /* as OPTION_TEXT: one of `words` */
};

struct option_row {
    const char *name;  /* without dashes */
    char letter;       /* '\0': none */
    const char *value; /* as help calls it; NULL: takes none */
    enum option_kind kind;
    size_t offset;            /* in struct arguments */
    unsigned commands;        /* bit 1 << command_id */
    uint32_t min, max;        /* NUMBER */
    const char *const *words; /* WORD; NULL-terminated */
    const char *text;
    bool is_debug; /* of debug builds only: not in manuals and completions */
};
extern const struct option_row option_rows[];
extern const size_t option_row_count;

static inline bool option_applies(const struct option_row *row, size_t command)
{
    return row->commands & 1u << command;
}

/* Parses what follows the command. False: usage error, already printed to standard error. */
bool arguments_parse(size_t command, int argc, char **argv, struct arguments *out);

/* Prints "einmal: …; see einmal COMMAND --help" and gives EXIT_USAGE. */
int usage_error(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- the configuration ------------------------------------------------------------------------ */

/* The environment fills what flags left open: upstream, addresses, the file. False: usage error, printed. */
bool arguments_complete(const struct arguments *arguments, struct arguments *completed);
const char *arguments_environment(void *arg, const char *name);
/* NULL: its errors were printed. Quietly: no warnings, which are check's and run's to give. */
struct conf *arguments_load(const struct arguments *completed);
struct conf *arguments_load_quietly(const struct arguments *completed);

/* ---- commands --------------------------------------------------------------------------------- */

int command_run(const struct arguments *arguments);
int command_check(const struct arguments *arguments);
int command_explain(const struct arguments *arguments);
int command_actions_list(const struct arguments *arguments);
int command_actions_show(const struct arguments *arguments);
int command_actions_resolve(const struct arguments *arguments);
int command_actions_forget(const struct arguments *arguments);
int command_tasks_show(const struct arguments *arguments);
int command_backup(const struct arguments *arguments);
int command_health(const struct arguments *arguments);
int command_wait(const struct arguments *arguments);
int command_drain(const struct arguments *arguments);

/* DATA, or with "@" the content of FILE ("@-": standard input); NULL: nothing. At most `most` bytes and one more are
 * read, so that too much is seen. False: it cannot be read, printed. */
bool read_data(const char *argument, size_t most, struct buffer *out);

/* Help of one command, and of all whose names begin with that word. */
void cli_print_help(size_t command, FILE *out);
/* An option as it is written: "-c, --config FILE". */
void cli_spell_option(const struct option_row *row, char *text, size_t size);
