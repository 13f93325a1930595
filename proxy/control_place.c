/*
 * control_place.c - where a running einmal is asked, and with which token (control.h).
 *
 * The file is read only for what nothing else has said, so that `einmal drain --admin ADDR` works whatever has become
 * of it. A file that nobody named and that is not there is none; one that is wrong is an error where it was named.
 */
#include "proxy/admin/token.h"
#include "proxy/control.h"

#include <errno.h>
#include <unistd.h>

/* ---- addresses -------------------------------------------------------------------------------- */

/* "http://host:port/" is what people copy from a browser. */
static char *without_scheme(const char *address)
{
    static const char scheme[] = "http://";
    bool has_scheme = strncasecmp(address, scheme, strlen(scheme)) == 0;
    char *text = copy_string(has_scheme ? address + strlen(scheme) : address);
    size_t len = strlen(text);
    if (has_scheme && len && text[len - 1] == '/')
        text[len - 1] = '\0';
    return text;
}

/* False: usage error, printed. */
static bool take_address(struct control *out, const char *address, const char *origin)
{
    const char *wrong;
    char *text = without_scheme(address);
    out->memory = conf_of_address(text, &wrong);
    snprintf(out->address, sizeof out->address, "%s", text);
    snprintf(out->origin, sizeof out->origin, "%s", origin);
    free(text);
    if (!out->memory) {
        usage_error(NULL, "%s '%s': %s", origin, address, wrong);
        return false;
    }
    const struct conf_listen *listen = &out->memory->listen[0];
    out->unix_path = listen->unix_path;
    out->host = listen->host;
    out->port = listen->port;
    return true;
}

/* ---- the file --------------------------------------------------------------------------------- */

struct from_file {
    struct conf *conf; /* NULL: there is none */
    const char *name;
};

/* False: it is wrong, and that was printed. */
static bool load(const struct arguments *completed, bool named, struct from_file *out)
{
    struct arguments plain = {.file = completed->file};
    *out = (struct from_file){NULL, completed->file};
    if (completed->overrides.upstream || (!named && access(completed->file, F_OK) != 0))
        return true;
    out->conf = arguments_load_quietly(&plain);
    return out->conf != NULL;
}

static const struct conf_listen *listener_of(const struct conf *conf, bool health_first, const char **setting)
{
    if (health_first && conf->health.address) {
        *setting = "health.address";
        return &conf->health;
    }
    *setting = "admin.address";
    return conf->admin.listen.address ? &conf->admin.listen : NULL;
}

static bool take_address_of_file(struct control *out, const struct from_file *file, bool health_first)
{
    const char *setting;
    char origin[sizeof out->origin];
    const struct conf_listen *listen = file->conf ? listener_of(file->conf, health_first, &setting) : NULL;
    if (listen)
        snprintf(origin, sizeof origin, "%s of %s", setting, file->name);
    else if (file->conf)
        snprintf(origin, sizeof origin, "the default, as %s sets no admin.address", file->name);
    else
        snprintf(origin, sizeof origin, "the default");
    return take_address(out, listen ? listen->address : CONTROL_DEFAULT_ADDRESS, origin);
}

/* ---- the token -------------------------------------------------------------------------------- */

/* False: it cannot be read or is none, printed. */
static bool take_token(struct control *out, const char *name)
{
    char text[ADMIN_TOKEN_MAX + 3]; /* CRLF, and one more: so it is seen to be too long */
    FILE *in = fopen(name, "re");
    size_t len = in ? fread(text, 1, sizeof text - 1, in) : 0;
    int error = !in ? errno : ferror(in) ? EIO : 0;
    if (in)
        fclose(in);
    if (error) {
        fprintf(stderr, "einmal: cannot read the token in %s: %s\n", name, strerror(error));
        return false;
    }
    while (len && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    bool valid = len > 0 && len <= ADMIN_TOKEN_MAX;
    for (size_t i = 0; i < len; i++)
        valid &= text[i] > 0x20 && text[i] < 0x7F;
    if (!valid)
        fprintf(stderr, "einmal: %s holds no token: one line of visible ASCII characters\n", name);
    else
        out->token = must_allocate(strndup(text, len));
    explicit_bzero(text, sizeof text);
    return valid;
}

/* ---- all of it -------------------------------------------------------------------------------- */

static int find(const struct arguments *arguments, bool health_first, struct control *out)
{
    struct arguments completed;
    struct from_file file = {0};
    const char *variable = getenv("EINMAL_CONFIG");
    bool named = arguments->file || (variable && *variable);
    const char *token_file = arguments->token_file ? arguments->token_file : getenv("EINMAL_ADMIN_TOKEN_FILE");
    bool fine = true;
    if (!arguments_complete(arguments, &completed))
        return EXIT_USAGE;
    if (token_file && !*token_file)
        token_file = NULL;
    const char *address = completed.overrides.admin;
    bool wants_token = !health_first; /* health needs none, and must not fail for want of one */
    bool asks_file = !address || (wants_token && !token_file && named);
    if (asks_file && !load(&completed, named, &file))
        return EXIT_USAGE;
    if (address)
        fine = take_address(out, address, arguments->overrides.admin ? "--admin" : "EINMAL_ADMIN");
    else
        fine = take_address_of_file(out, &file, health_first);
    if (!token_file && file.conf)
        token_file = file.conf->admin.token_file.path;
    if (fine && token_file && wants_token && !take_token(out, token_file)) {
        conf_unref(file.conf);
        return EXIT_FAILED;
    }
    conf_unref(file.conf);
    return fine ? EXIT_FINE : EXIT_USAGE;
}

bool control_find(const struct arguments *arguments, bool health_first, struct control *out, int *code)
{
    *out = (struct control){0};
    *code = find(arguments, health_first, out);
    if (*code == EXIT_FINE)
        return true;
    control_free(out);
    return false;
}

void control_free(struct control *control)
{
    conf_unref(control->memory);
    if (control->token)
        explicit_bzero(control->token, strlen(control->token));
    free(control->token);
    *control = (struct control){0};
}
