/*
 * route.h - PURE. Which route, and what a status means there (contract §3).
 */
#pragma once

#include "conf/conf.h"
#include "proxy/http.h"

/* Normal form of a path for matching and binding: %XX of unreserved characters decoded, other %XX in upper case, empty
 * segments merged, dot segments removed; %2F is no separator; case and a trailing slash count. Appends to `out`. */
void path_normalise(struct buffer *out, struct span path);
/* Lower case, default port (80 or 443) removed. Appends to `out`. */
void host_normalise(struct buffer *out, struct span host);

#define ROUTE_MAX_NAMES 32

struct route_values { /* what {name} segments matched; spans into the normalised path */
    struct {
        const char *name;
        struct span value;
    } items[ROUTE_MAX_NAMES];
    size_t count;
};

struct route_choice {
    const struct conf_route *route;       /* NULL: unprotected */
    const struct conf_upstream *upstream; /* NULL: 404 no-route */
    struct route_values values;           /* of `route` */
};
/* The first that matches host, path and method; else upstream of the first that matches host and path; else the
 * default. */
void route_choose(struct route_choice *out, const struct conf *conf, struct span host, struct span path,
                  struct span method);

/* One route's verdict, for `explain` and for conf's warning about hidden routes. */
enum route_verdict { ROUTE_MATCHES, ROUTE_OTHER_HOST, ROUTE_OTHER_PATH, ROUTE_OTHER_METHOD };
enum route_verdict route_match(const struct conf_route *route, struct span host, struct span path, struct span method,
                               struct route_values *values);

enum status_class route_status_meaning(const struct conf_route *route, uint16_t status, bool has_retry_after);
