/*
 * command_run.c - run: the proxy itself (server.h).
 */
#include "proxy/command.h"
#include "proxy/server.h"

int command_run(const struct arguments *arguments)
{
    struct arguments completed;
    if (!arguments_complete(arguments, &completed))
        return EXIT_USAGE;
    return server_run(&(struct server_options){
        .file = completed.file,
        .overrides = completed.overrides,
        .environment = arguments_environment,
        .crash_at = completed.crash_at,
    });
}
