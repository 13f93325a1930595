/*
 * address.h - where to listen and where to forward, as text. Resolves nothing; private to conf/.
 */
#pragma once

#include "conf/conf.h"

#define ADDRESS_MAX_UNIX_PATH 107 /* sun_path less its NUL */

/* host:port, [v6]:port or unix:/path into address, unix_path, host and port. NULL: fine; else what is wrong. */
const char *address_parse_listen(struct conf *memory, const char *text, struct conf_listen *listen);
/* http://host[:port], https://host[:port] or http+unix:/path into url, tls, unix_path, host, port and authority. */
const char *address_parse_url(struct conf *memory, const char *text, struct conf_upstream *upstream);
/* A name, an IPv4 address or an IPv6 address in brackets, with or without a port: what a Host field may hold. */
bool address_is_authority(const char *text);
/* A name or an IPv4 address, without a port. */
bool address_is_host(const char *text);
