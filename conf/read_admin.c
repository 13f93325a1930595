/*
 * read_admin.c - the listeners beside the proxied ones: health and admin.
 *
 * Whoever reaches the admin interface decides what executes again, so it asks for a token wherever others than this
 * machine's users can reach it. What flags say is known only when the file has been read: hence a check of its own.
 *
 * Left out: whether an address can be bound, and what is in the token's file (proxy/admin/token.c).
 */
#include "conf/address.h"
#include "conf/own.h"
#include "proxy/span.h"

#include <arpa/inet.h>

/* ---- reading ---------------------------------------------------------------------------------- */

static void read_side_address(struct reader *reader, const struct setting *setting, const yaml_node_t *node,
                              struct conf_listen *listen)
{
    struct place place = reader_place(reader, node);
    read_listen_address(reader, setting, node, listen);
    listen->line = (int)place.line;
    listen->column = (int)place.column;
}

/* The setting has no `mode`: the socket of a unix address gets the usual one. */
void read_health_address(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct conf_listen *listen = target;
    read_side_address(reader, setting, node, listen);
    listen->mode = 0660;
}

void read_admin_address(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    read_side_address(reader, setting, node, target);
}

void read_admin_mode(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    if (!reader->in_default && reader->conf->admin.listen.port)
        reader_error(reader, node, "only a unix socket has permissions");
    read_listen_mode(reader, setting, node, target);
}

void print_side_address(const void *target, FILE *out)
{
    const struct conf_listen *listen = target;
    if (!listen->address)
        fputs("off", out);
    else if (listen->unix_path)
        fprintf(out, "%s (mode %04o)", listen->address, listen->mode);
    else
        fputs(listen->address, out);
}

void print_side_mode(const void *target, FILE *out)
{
    fprintf(out, "%04o", *(const unsigned *)target);
}

/* ---- reload ----------------------------------------------------------------------------------- */

static bool same_address(const struct conf_listen *a, const struct conf_listen *b)
{
    if (!a->address || !b->address)
        return !a->address && !b->address;
    return strcmp(a->address, b->address) == 0;
}

bool same_health_address(const void *left, const void *right)
{
    const struct conf *a = left, *b = right;
    return same_address(&a->health, &b->health);
}

bool same_admin_address(const void *left, const void *right)
{
    const struct conf *a = left, *b = right;
    return same_address(&a->admin.listen, &b->admin.listen);
}

bool same_admin_mode(const void *left, const void *right)
{
    const struct conf *a = left, *b = right;
    return a->admin.listen.mode == b->admin.listen.mode;
}

/* ---- what fits together ----------------------------------------------------------------------- */

struct named_listener {
    const struct conf_listen *listen;
    char name[48];
};

/* An address that came by a flag has no place. */
static void complain(struct report *report, const struct named_listener *which, const char *what)
{
    struct place place = {(size_t)which->listen->line, (size_t)which->listen->column};
    if (which->listen->line)
        report_add(report, place, MESSAGE_ERROR, "%s: '%s' %s", which->name, which->listen->address, what);
    else
        report_add(report, place, MESSAGE_ERROR, "--admin (or EINMAL_ADMIN) '%s': %s", which->listen->address, what);
}

/* Names other than localhost are not resolved here, and may mean any address tomorrow. */
bool conf_is_local(const struct conf_listen *listen)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (listen->unix_path || strcasecmp(listen->host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, listen->host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, listen->host, &v6) == 1)
        return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
    return false;
}

static bool is_one_address(const struct conf_listen *a, const struct conf_listen *b)
{
    if (a->unix_path || b->unix_path)
        return a->unix_path && b->unix_path && strcmp(a->unix_path, b->unix_path) == 0;
    return a->port == b->port && strcasecmp(a->host, b->host) == 0;
}

static void check_taken(struct report *report, const struct named_listener *which, const struct named_listener *other)
{
    char what[160];
    if (!which->listen->address || !other->listen->address || !is_one_address(which->listen, other->listen))
        return;
    snprintf(what, sizeof what, "is the address of %s already: choose another port or path", other->name);
    complain(report, which, what);
}

void check_side_listeners(const struct conf *conf, struct report *report)
{
    struct named_listener health = {&conf->health, "health.address"}, admin = {&conf->admin.listen, "admin.address"};
    const struct conf_file *token = &conf->admin.token_file;
    for (size_t i = 0; i < conf->listen_count; i++) {
        struct named_listener listen = {.listen = &conf->listen[i]};
        snprintf(listen.name, sizeof listen.name, "listen[%zu].address", i);
        check_taken(report, &health, &listen);
        check_taken(report, &admin, &listen);
    }
    check_taken(report, &admin, &health);
    if (admin.listen->address && !token->path && !conf_is_local(admin.listen))
        complain(report, &admin,
                 "can be reached from other machines: set admin.token_file, or listen on 127.0.0.1 or a unix socket");
    if (!admin.listen->address && token->path)
        report_add(report, (struct place){(size_t)token->line, (size_t)token->column}, MESSAGE_ERROR,
                   "admin.token_file: there is no admin.address to ask it at");
}

/* ---- written back ----------------------------------------------------------------------------- */

void write_side_address(struct writer *writer, const struct setting *setting, const void *target)
{
    write_text(writer, setting, ((const struct conf_listen *)target)->address);
}

void write_side_mode(struct writer *writer, const struct setting *setting, const void *target)
{
    if (writer->conf->admin.listen.unix_path)
        write_plain(writer, setting, "%04o", *(const unsigned *)target);
}
