/*
 * cli.h - arguments and subcommands (contract §2). No logic of its own: it finds out what is asked and calls who can do
 * it.
 */
#pragma once

/* Returns the exit code. */
int cli_main(int argc, char **argv);
