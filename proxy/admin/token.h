/*
 * token.h - the token that the admin interface asks for, out of its file (contract §3, admin.token_file).
 */
#pragma once

#include "conf/conf.h"
#include "proxy/span.h"

struct admin_token { /* immutable; may be copied with struct assignment, freed once */
    char *text;      /* NULL: none is asked for */
};

#define ADMIN_TOKEN_MAX 1024

/* Reads the file that `conf` names, if it names one and there is an admin listener. A line end behind the token is not
 * part of it. False: a message says what is wrong, at the place in the configuration that names the file. */
bool admin_token_load(const struct conf *conf, struct admin_token *token, FILE *messages);
void admin_token_free(struct admin_token *token);
