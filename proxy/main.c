/*
 * main.c - where the process begins. Everything else is in the library, so that tests can have it.
 */
#include "proxy/cli.h"

int main(int argc, char **argv)
{
    return cli_main(argc, argv);
}
