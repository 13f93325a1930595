/*
 * cli_derived.h - what is made from the rows of commands and options and comes with the program as files: the manual's
 * part on commands, and completions for shells. A test compares the files with these; EINMAL_WRITE_DERIVED=1 makes it
 * write them anew (conf/README.md).
 */
#pragma once

#include <stdio.h>

void cli_write_manual(FILE *out); /* of conf/man/einmal.1, mdoc */
void cli_write_bash(FILE *out);   /* conf/completion/einmal.bash, whole */
void cli_write_zsh(FILE *out);    /* conf/completion/_einmal, whole */
