/*
 * command_check.c - check: is the configuration valid, and what does it say? Opens no store, resolves no names.
 */
#include "proxy/admin/token.h"
#include "proxy/command.h"
#include "proxy/tls.h"

/* Everything that the configuration names: certificates, the token, directories. */
static bool check_named(const struct conf *conf)
{
    struct admin_token token;
    struct tls *tls = tls_load(conf, NULL, stderr);
    bool has_token = admin_token_load(conf, &token, stderr);
    bool fine = conf_check_named(conf, stderr) && tls && has_token;
    admin_token_free(&token);
    tls_unref(tls);
    return fine;
}

int command_check(const struct arguments *arguments)
{
    struct arguments completed;
    if (!arguments_complete(arguments, &completed))
        return EXIT_USAGE;
    struct conf *conf = arguments_load(&completed);
    if (!conf)
        return EXIT_USAGE;
    bool there = check_named(conf);
    if (there && arguments->print)
        conf_write(conf, stdout);
    else if (there)
        conf_print(conf, stdout);
    conf_unref(conf);
    return there ? EXIT_FINE : EXIT_USAGE;
}
