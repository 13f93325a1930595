/*
 * endpoint.h - PURE. What the side listeners answer to: a table of methods, paths, rights and handlers.
 */
#pragma once

#include "proxy/http.h"

struct admin_request;

enum endpoint_flag {
    ENDPOINT_OPEN = 1,    /* on the health listener too, and never asked for a token */
    ENDPOINT_CHANGES = 2, /* refused to pages of other sites */
    ENDPOINT_BODY = 4,    /* takes a JSON body, which is here when it is handled */
    ENDPOINT_NO_HEAD = 8, /* making the answer only to throw it away would cost too much */
};

/* Names of query parameters (query.h), as bits. */
enum query_name {
    QUERY_STATE = 1,
    QUERY_ROUTE = 2,
    QUERY_TASK = 4,
    QUERY_KEY = 8,
    QUERY_LIMIT = 16,
    QUERY_AFTER = 32,
    QUERY_WAIT = 64,
};

struct endpoint {
    enum http_method method; /* HTTP_GET stands for HEAD, too */
    const char *path;        /* "{}" stands for one segment that is not empty */
    unsigned flags;
    unsigned query; /* which parameters it takes */
    void (*handle)(struct admin_request *request);
};

struct endpoint_match {
    const struct endpoint *endpoint; /* NULL: none */
    struct span parameter;           /* what stands for "{}", as it came */
    bool open;                       /* the path is one of those that anybody may ask */
    const char *allow; /* not NULL: the path is there, but not with this method; what the Allow field says */
};

/* `open_only`: the health listener, which knows no other paths. */
struct endpoint_match endpoint_find(enum http_method method, struct span path, bool open_only);

/* handle_*.c */
void handle_healthz(struct admin_request *request);
void handle_readyz(struct admin_request *request);
void handle_metrics(struct admin_request *request);
void handle_page(struct admin_request *request);
void handle_status(struct admin_request *request);
void handle_drain(struct admin_request *request);
void handle_list(struct admin_request *request);
void handle_show(struct admin_request *request);
void handle_task(struct admin_request *request);
void handle_resolve(struct admin_request *request);
void handle_forget(struct admin_request *request);
void handle_backup(struct admin_request *request);
