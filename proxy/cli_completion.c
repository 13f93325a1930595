/*
 * cli_completion.c - completions for bash and zsh from the rows of commands and options.
 *
 * Both scripts are data in their shell's words and a little code around it that does not depend on the rows. Left out:
 * completing ids, routes and tasks, which would have to ask a running einmal at every key.
 */
#include "proxy/buffer.h"
#include "proxy/cli_derived.h"
#include "proxy/command.h"

static const char made[] = "Made from the rows of the command line (proxy/cli.c, proxy/cli_options.c): do not edit.";

static const struct option_row *option_of(size_t command, size_t index)
{
    const struct option_row *row = &option_rows[index];
    return option_applies(row, command) && !row->is_debug ? row : NULL;
}

/* The first word of a command; is it the first command with it? */
static bool begins_family(size_t command, struct span *word)
{
    const char *name = commands[command].name;
    *word = (struct span){name, strcspn(name, " ")};
    for (size_t i = 0; i < command; i++)
        if (strncmp(commands[i].name, name, word->len) == 0 && strchr(" ", commands[i].name[word->len]))
            return false;
    return true;
}

static const char *second_word(size_t command)
{
    const char *space = strchr(commands[command].name, ' ');
    return space ? space + 1 : NULL;
}

static void list_first_words(FILE *out, const char *between)
{
    struct span word;
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (begins_family(i, &word))
            fprintf(out, "%s%.*s", i ? between : "", (int)word.len, word.data);
}

static void list_second_words(size_t first, FILE *out)
{
    struct span word;
    begins_family(first, &word);
    for (size_t i = first; i < COMMAND_COUNT; i++)
        if (strncmp(commands[i].name, word.data, word.len) == 0 && second_word(i))
            fprintf(out, "%s%s", i > first ? " " : "", second_word(i));
}

/* ---- bash ------------------------------------------------------------------------------------- */

static const char bash_head[] =
    "_einmal()\n"
    "{\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} first=2\n"
    "    local options= kind= words=\n"
    "    COMPREPLY=()\n"
    "    if ((COMP_CWORD == 1)); then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"";

static const char bash_families[] = " help --help --version\" -- \"$cur\")\n"
                                    "        return\n"
                                    "    fi\n"
                                    "    case $command in\n";

static const char bash_middle[] = "    esac\n"
                                  "    if [[ $words ]]; then\n"
                                  "        if ((COMP_CWORD == 2)); then\n"
                                  "            mapfile -t COMPREPLY < <(compgen -W \"$words --help\" -- \"$cur\")\n"
                                  "            return\n"
                                  "        fi\n"
                                  "        command+=\" ${COMP_WORDS[2]}\" first=3\n"
                                  "    fi\n"
                                  "    words=\n"
                                  "    case $command in\n";

static const char bash_tail[] = "    esac\n"
                                "    ((COMP_CWORD >= first)) || return\n"
                                "    if [[ ! $kind && $cur == -* ]]; then\n"
                                "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
                                "    elif [[ $kind == words ]]; then\n"
                                "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
                                "    elif [[ $kind == file || (! $kind && $command == backup) ]]; then\n"
                                "        compopt -o filenames 2>/dev/null\n"
                                "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
                                "    fi\n"
                                "}\n"
                                "complete -F _einmal einmal\n";

static void bash_options(size_t command, FILE *out)
{
    const char *before = "";
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = option_of(command, i);
        if (!row)
            continue;
        if (row->letter)
            fprintf(out, "%s-%c", before, row->letter), before = " ";
        fprintf(out, "%s--%s", before, row->name);
        before = " ";
    }
}

static void bash_words(const struct option_row *row, FILE *out)
{
    fputs("kind=words words='", out);
    for (size_t i = 0; row->words[i]; i++)
        fprintf(out, "%s%s", i ? " " : "", row->words[i]);
    fputs("' ;;\n", out);
}

/* What follows an option that takes a value. */
static void bash_value(const struct option_row *row, FILE *out)
{
    if (!row->value)
        return;
    fputs("        ", out);
    if (row->letter)
        fprintf(out, "-%c | ", row->letter);
    fprintf(out, "--%s) ", row->name);
    if (row->kind == OPTION_WORD)
        bash_words(row, out);
    else
        fprintf(out, "kind=%s ;;\n", row->kind == OPTION_FILE ? "file" : "text");
}

void cli_write_bash(FILE *out)
{
    struct span word;
    fprintf(out, "# Completion of einmal(1) for bash. %s\n%s", made, bash_head);
    list_first_words(out, " ");
    fputs(bash_families, out);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (!second_word(i) || !begins_family(i, &word))
            continue;
        fprintf(out, "    %.*s) words='", (int)word.len, word.data);
        list_second_words(i, out);
        fputs("' ;;\n", out);
    }
    fputs(bash_middle, out);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "    '%s')\n        options='", commands[i].name);
        bash_options(i, out);
        fputs("'\n        case $prev in\n", out);
        for (size_t j = 0; j < option_row_count; j++)
            if (option_of(i, j))
                bash_value(&option_rows[j], out);
        fputs("        esac\n        ;;\n", out);
    }
    fputs(bash_tail, out);
}

/* ---- zsh -------------------------------------------------------------------------------------- */

/* Within single quotes; with what _arguments and _describe take for their own. */
static void zsh_text(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr("[]:\\", *text))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

static void zsh_action(const struct option_row *row, FILE *out)
{
    if (row->kind == OPTION_FILE)
        fputs("_files", out);
    for (size_t i = 0; row->kind == OPTION_WORD && row->words[i]; i++)
        fprintf(out, "%s%s", i ? " " : "(", row->words[i]);
    if (row->kind == OPTION_WORD)
        fputc(')', out);
}

static void zsh_option(const struct option_row *row, FILE *out)
{
    fputs(" \\\n        ", out);
    if (row->letter) /* both spellings; an option that may be repeated begins with a star */
        fprintf(out, "%s{-%c,--%s}'[", row->kind == OPTION_TEXTS ? "\\*" : "", row->letter, row->name);
    else
        fprintf(out, "'--%s[", row->name);
    zsh_text(row->text, out);
    fputc(']', out);
    if (row->value) {
        fputc(':', out);
        zsh_text(row->value, out);
        fputc(':', out);
        zsh_action(row, out);
    }
    fputc('\'', out);
}

static void zsh_command(size_t command, FILE *out)
{
    fprintf(out, "    '%s')\n        _arguments -s", commands[command].name);
    for (size_t i = 0; i < option_row_count; i++)
        if (option_of(command, i))
            zsh_option(&option_rows[i], out);
    if (commands[command].operands_max)
        fprintf(out, " \\\n        '1: :%s'", command == COMMAND_BACKUP ? "_files" : "_message operand");
    fputs("\n        ;;\n", out);
}

/* 'name:text' of the commands that are one word, and of families what they are. */
static void zsh_first_words(FILE *out)
{
    struct span word;
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (!begins_family(i, &word))
            continue;
        fprintf(out, "        '%.*s:", (int)word.len, word.data);
        if (second_word(i))
            list_second_words(i, out);
        else
            zsh_text(commands[i].text, out);
        fputs("'\n", out);
    }
}

static void zsh_families(FILE *out)
{
    struct span word;
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (!second_word(i) || !begins_family(i, &word))
            continue;
        fprintf(out, "    %.*s)\n        commands=(\n", (int)word.len, word.data);
        for (size_t j = i; j < COMMAND_COUNT; j++) {
            if (strncmp(commands[j].name, word.data, word.len) != 0 || !second_word(j))
                continue;
            fprintf(out, "            '%s:", second_word(j));
            zsh_text(commands[j].text, out);
            fputs("'\n", out);
        }
        fputs("        )\n        ;;\n", out);
    }
}

void cli_write_zsh(FILE *out)
{
    fprintf(out, "#compdef einmal\n# Completion of einmal(1) for zsh. %s\n\n", made);
    fputs("_einmal() {\n    local command=$words[2]\n    local -a commands\n    if (( CURRENT == 2 )); then\n"
          "        commands=(\n",
          out);
    zsh_first_words(out);
    fputs("        )\n        _describe -t commands command commands\n        return\n    fi\n    case $command in\n",
          out);
    zsh_families(out);
    fputs(
        "    esac\n    shift words\n    (( CURRENT-- ))\n    if (( $#commands )); then\n"
        "        if (( CURRENT == 2 )); then\n"
        "            _describe -t commands command commands\n            return\n        fi\n"
        "        command+=\" $words[2]\"\n        shift words\n        (( CURRENT-- ))\n    fi\n    case $command in\n",
        out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        zsh_command(i, out);
    fputs("    esac\n}\n\n_einmal \"$@\"\n", out);
}
