/*
 * address.c - addresses and URLs, checked as far as possible without resolving names.
 *
 * Left out: whether an address can be bound or reached; only the running program can tell.
 */
#include "conf/address.h"

#include "conf/memory.h"
#include "conf/scalar.h"
#include "proxy/span.h"

#include <arpa/inet.h>

enum { MAX_HOST = 253 };

struct authority {
    struct span host; /* without brackets */
    struct span port; /* data NULL: none */
    bool is_v6;
};

static const char not_an_authority[] = "expected host:port or [IPv6]:port";

/* False: brackets or colons are not where they belong. */
static bool split(struct span text, struct authority *out)
{
    *out = (struct authority){.host = text};
    const char *end = text.data + text.len, *after;
    if (text.len && text.data[0] == '[') {
        const char *bracket = memchr(text.data, ']', text.len);
        if (!bracket)
            return false;
        out->is_v6 = true;
        out->host = (struct span){text.data + 1, (size_t)(bracket - text.data - 1)};
        after = bracket + 1;
    } else {
        const char *colon = text.len ? memchr(text.data, ':', text.len) : NULL;
        after = colon ? colon : end;
        out->host.len = (size_t)(after - text.data);
    }
    if (after == end)
        return true;
    if (*after != ':' || memchr(after + 1, ':', (size_t)(end - after - 1)))
        return false;
    out->port = (struct span){after + 1, (size_t)(end - after - 1)};
    return true;
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Labels of letters, digits, "-" and "_" (container names have them); a trailing dot is fine. */
static bool is_host_name(const char *name)
{
    size_t label = 0;
    for (const char *c = name; *c; c++) {
        if (*c == '.' && label == 0)
            return false;
        if (*c != '.' && !is_name_byte(*c))
            return false;
        label = *c == '.' ? 0 : label + 1;
        if (label > 63)
            return false;
    }
    return *name != '\0';
}

static const char *check_host(const struct authority *authority)
{
    char host[MAX_HOST + 1];
    unsigned char address[16];
    if (authority->host.len == 0)
        return "the host is missing";
    if (authority->host.len > MAX_HOST)
        return "the host is longer than 253 characters";
    memcpy(host, authority->host.data, authority->host.len);
    host[authority->host.len] = '\0';
    if (authority->is_v6)
        return inet_pton(AF_INET6, host, address) == 1 ? NULL : "not an IPv6 address between the brackets";
    if (host[strspn(host, "0123456789.")] == '\0')
        return inet_pton(AF_INET, host, address) == 1 ? NULL : "not an IPv4 address";
    return is_host_name(host) ? NULL : "not a host name";
}

static const char *check_port(struct span port, uint16_t *value)
{
    char text[8];
    uint64_t number;
    if (port.len >= sizeof text)
        return "the port must be 1 to 65535";
    memcpy(text, port.data, port.len);
    text[port.len] = '\0';
    if (!scalar_number(text, &number) || number < 1 || number > 65535)
        return "the port must be 1 to 65535";
    *value = (uint16_t)number;
    return NULL;
}

static const char *check_unix_path(const char *path)
{
    if (path[0] != '/')
        return "the path of a unix socket must begin with /";
    if (strlen(path) > ADDRESS_MAX_UNIX_PATH)
        return "the path of a unix socket may have at most 107 bytes";
    for (; *path; path++)
        if ((unsigned char)*path < 0x20)
            return "a path without control characters is needed";
    return NULL;
}

const char *address_parse_listen(struct conf *memory, const char *text, struct conf_listen *listen)
{
    struct authority authority;
    listen->address = conf_copy(memory, text, strlen(text));
    if (strncmp(text, "unix:", 5) == 0) {
        listen->unix_path = listen->address + 5;
        return check_unix_path(listen->unix_path);
    }
    if (!split(span_of(text), &authority) || !authority.port.data)
        return not_an_authority;
    if (authority.host.len == 0 || span_equal(authority.host, SPAN("*")))
        return "the host is missing; for all addresses write 0.0.0.0 or [::]";
    const char *why = check_host(&authority);
    if (!why)
        why = check_port(authority.port, &listen->port);
    listen->host = conf_copy(memory, authority.host.data, authority.host.len);
    return why;
}

static char *authority_text(struct conf *memory, const struct authority *authority, uint16_t port, uint16_t usual)
{
    char text[MAX_HOST + 16], number[8] = "";
    if (port != usual)
        snprintf(number, sizeof number, ":%u", port);
    snprintf(text, sizeof text, "%s%.*s%s%s", authority->is_v6 ? "[" : "", (int)authority->host.len,
             authority->host.data, authority->is_v6 ? "]" : "", number);
    return conf_copy(memory, text, strlen(text));
}

static const char *parse_authority(struct conf *memory, struct span text, struct conf_upstream *upstream)
{
    struct authority authority;
    if (memchr(text.data, '@', text.len))
        return "user names in a URL are not allowed";
    if (!split(text, &authority))
        return upstream->tls ? "expected https://host[:port]" : "expected http://host[:port]";
    const char *why = check_host(&authority);
    uint16_t usual = upstream->tls ? 443 : 80;
    upstream->port = usual;
    if (!why && authority.port.data)
        why = check_port(authority.port, &upstream->port);
    if (why)
        return why;
    upstream->host = conf_copy(memory, authority.host.data, authority.host.len);
    upstream->authority = authority_text(memory, &authority, upstream->port, usual);
    return NULL;
}

const char *address_parse_url(struct conf *memory, const char *text, struct conf_upstream *upstream)
{
    static const char http[] = "http://", https[] = "https://", unix_scheme[] = "http+unix:";
    upstream->url = conf_copy(memory, text, strlen(text));
    if (strncasecmp(text, unix_scheme, strlen(unix_scheme)) == 0) {
        upstream->unix_path = upstream->url + strlen(unix_scheme);
        upstream->authority = conf_copy(memory, "localhost", strlen("localhost"));
        if (strncmp(upstream->unix_path, "//", 2) == 0)
            return "expected http+unix:/path, with one slash";
        return check_unix_path(upstream->unix_path);
    }
    upstream->tls = strncasecmp(text, https, strlen(https)) == 0;
    if (!upstream->tls && strncasecmp(text, http, strlen(http)) != 0)
        return "expected http://host[:port], https://host[:port] or http+unix:/path";
    struct span rest = span_of(text + (upstream->tls ? strlen(https) : strlen(http)));
    size_t authority_len = strcspn(rest.data, "/?#");
    if (rest.data[authority_len] != '\0' && strcmp(rest.data + authority_len, "/") != 0)
        return "an upstream has no path, query or fragment of its own: requests go on with theirs";
    rest.len = authority_len;
    return parse_authority(memory, rest, upstream);
}

bool address_is_authority(const char *text)
{
    struct authority authority;
    uint16_t port;
    return split(span_of(text), &authority) && !check_host(&authority) &&
           (!authority.port.data || !check_port(authority.port, &port));
}

bool address_is_host(const char *text)
{
    struct authority authority;
    return split(span_of(text), &authority) && !authority.is_v6 && !authority.port.data && !check_host(&authority);
}
