/*
 * guard.h - PURE. Who may ask the admin interface for what (contract §8).
 *
 * Three dangers, three checks. Others reach the port: a token. A page of another site, open in the browser of somebody
 * who may, sends requests along: changes need an Origin of our own or none. Another site's name is made to point here
 * (DNS rebinding), so that its pages count as ours: Host must be an address, localhost or the configured name.
 */
#pragma once

#include "conf/conf.h"
#include "proxy/http.h"

struct guard { /* one listener's */
    const struct conf_listen *listen;
    const char *token; /* NULL: none is asked for */
};

enum guard_verdict { GUARD_PASS, GUARD_HOST, GUARD_TOKEN, GUARD_ORIGIN };

/* `open`: one of the paths that anybody may ask; `changes`: a mutation. */
enum guard_verdict guard_check(const struct guard *guard, const struct http_message *request, bool open, bool changes);

#define GUARD_USER_MAX 64
/* The user name of Basic credentials, for the log, if there is one: printable ASCII, cut beyond. Else "". */
void guard_user(const struct http_message *request, char user[GUARD_USER_MAX + 1]);
