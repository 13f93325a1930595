/*
 * check.h - what settings mean for one another. Private to conf/.
 */
#pragma once

#include "conf/reader.h"

/* Completes a route that has been read and reports what cannot be meant; `node` is its mapping. */
void check_route(struct reader *reader, const yaml_node_t *node, struct conf_route *route);
/* `earlier` are the routes before it. */
void check_against_earlier(struct reader *reader, const yaml_node_t *node, const struct conf_route *route,
                           const struct conf_route *earlier, size_t count);
/* SHA-256 over what identifies the actions of a route: scope, key, on_mismatch, fingerprint and ignore. */
void route_digest(const struct conf_route *route, uint8_t digest[32]);
