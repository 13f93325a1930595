/*
 * query.h - PURE. What stands in a target of the admin interface: parameters, ids, cursors; nothing is taken for
 * granted.
 */
#pragma once

#include "proxy/admin/endpoint.h"
#include "store/store.h"

struct query {
    struct store_query store; /* its strings are owned; `after` 0: from the oldest */
    int64_t wait;             /* seconds */
};

#define QUERY_WHY_SIZE 200

/* Reads "a=b&c=d" with the parameters of `allowed` (enum query_name). What is not named keeps its default. False: `why`
 * says what to correct. In both cases query_clear() gives the strings back. */
bool query_parse(struct span text, unsigned allowed, struct query *query, char why[QUERY_WHY_SIZE]);
void query_clear(struct query *query);

/* A segment of a path, percent-decoded; NULL: malformed, or it holds a NUL. To be freed. */
char *query_segment(struct span text);
/* 64 lower-case hex digits. */
bool query_id(struct span text, struct store_id *id);

#define QUERY_ID_TEXT     (2 * STORE_ID_LEN + 1)
#define QUERY_CURSOR_TEXT 18
void query_id_text(const struct store_id *id, char to[QUERY_ID_TEXT]);
/* A cursor is the number of the last action of the page before, written so that nobody is tempted to count with it. */
void query_cursor_text(uint64_t number, char to[QUERY_CURSOR_TEXT]);
