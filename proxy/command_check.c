/*
 * command_check.c - check: is the configuration valid, and what does it say? Opens no store, resolves no names.
 */
#include "proxy/admin/token.h"
#include "proxy/command.h"
#include "proxy/tls.h"

int command_check(const struct arguments *arguments)
{
    struct arguments completed;
    if (!arguments_complete(arguments, &completed))
        return EXIT_USAGE;
    struct conf *conf = arguments_load(&completed);
    if (!conf)
        return EXIT_USAGE;
    struct tls *tls = tls_load(conf, NULL, stderr);
    struct admin_token token;
    bool token_there = admin_token_load(conf, &token, stderr);
    bool there = conf_check_named(conf, stderr) && tls && token_there;
    admin_token_free(&token);
    tls_unref(tls);
    if (there && arguments->print)
        conf_write(conf, stdout);
    else if (there)
        conf_print(conf, stdout);
    conf_unref(conf);
    return there ? EXIT_FINE : EXIT_USAGE;
}
