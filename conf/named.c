/*
 * named.c - does what a configuration names exist? Asked by `einmal check`, which would otherwise call fine what fails
 * at the start.
 *
 * A missing store is fine where it will be created; upstreams need not be there (contract §9). Left out: permissions
 * and what is in the store, which only opening it can tell.
 *
 * And which files a reload reads, for whoever watches them.
 */
#include "conf/conf.h"
#include "proxy/span.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* 0: a directory is there; else what is wrong, as in errno. */
static int check_directory(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return errno;
    return S_ISDIR(status.st_mode) ? 0 : ENOTDIR;
}

static bool check_store(const struct conf *conf, FILE *messages)
{
    int error = check_directory(conf->store.path);
    if (!error || (error == ENOENT && conf->store.create))
        return true;
    fprintf(messages, "einmal: store.path %s: %s%s\n", conf->store.path, strerror(error),
            error == ENOENT ? " (and store.create is false)" : "");
    return false;
}

static bool check_socket(const char *setting, const struct conf_listen *listen, FILE *messages)
{
    char parent[128]; /* an address has at most 107 bytes */
    const char *slash = strrchr(listen->unix_path, '/');
    snprintf(parent, sizeof parent, "%.*s", slash == listen->unix_path ? 1 : (int)(slash - listen->unix_path),
             listen->unix_path);
    int error = check_directory(parent);
    if (error)
        fprintf(messages, "einmal: %s %s: %s: %s\n", setting, listen->address, parent, strerror(error));
    return error == 0;
}

bool conf_check_named(const struct conf *conf, FILE *messages)
{
    bool fine = check_store(conf, messages);
    for (size_t i = 0; i < conf->listen_count; i++)
        if (conf->listen[i].unix_path)
            fine &= check_socket("listen", &conf->listen[i], messages);
    if (conf->health.unix_path)
        fine &= check_socket("health.address", &conf->health, messages);
    if (conf->admin.listen.unix_path)
        fine &= check_socket("admin.address", &conf->admin.listen, messages);
    return fine;
}

const char **conf_files(const struct conf *conf, size_t *count)
{
    const char **paths = NEW_ARRAY(const char *, 2 + 3 * (conf->listen_count + conf->upstream_count));
    *count = 0;
    if (conf->file)
        paths[(*count)++] = conf->file;
    if (conf->admin.token_file.path)
        paths[(*count)++] = conf->admin.token_file.path;
    for (size_t i = 0; i < conf->listen_count + conf->upstream_count; i++) {
        bool is_listen = i < conf->listen_count;
        const struct conf_listen *listen = is_listen ? &conf->listen[i] : NULL;
        const struct conf_upstream *upstream = is_listen ? NULL : &conf->upstreams[i - conf->listen_count];
        const struct conf_file *files[] = {is_listen ? &listen->certificate : &upstream->tls_settings.certificate,
                                           is_listen ? &listen->key : &upstream->tls_settings.key,
                                           is_listen ? &listen->client_ca : &upstream->tls_settings.ca};
        for (size_t j = 0; j < sizeof files / sizeof *files; j++)
            if (files[j]->path)
                paths[(*count)++] = files[j]->path;
    }
    return paths;
}
