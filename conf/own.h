/*
 * own.h - readers and printers of the settings that are more than one plain value; schema.c names them in its rows.
 * Private to conf/.
 */
#pragma once

#include "conf/reader.h"

/* read_global.c */
setting_read read_listen, read_listen_address, read_listen_mode, read_workers;
setting_read read_store_path, read_upstreams, read_upstream_url, read_upstream_host, read_default_upstream;
setting_print print_listen, print_workers, print_text, print_default_upstream, print_upstream_host;
setting_same same_listen, same_workers, same_store_path;

/* read_tls.c */
setting_read read_listen_tls, read_upstream_tls, read_file_name, read_server_name;
setting_print print_upstream_tls;
/* What the tls of an upstream means together with its url; once both are read. */
void check_upstream_tls(struct reader *reader, const yaml_node_t *node, const struct conf_upstream *upstream);

/* read_route.c */
setting_read read_routes, read_name, read_match_host, read_match_methods, read_match_path, read_route_upstream;
setting_read read_keys, read_header_name, read_derive, read_ignore, read_header_names;
setting_print print_match_host, print_match_methods, print_match_path, print_route_upstream, print_keys;
setting_read read_origins;
setting_print print_ignore, print_header_names;

/* read_identity.c */
setting_read read_scope, read_on_other_identity, read_fingerprint, read_task;
setting_print print_scope, print_fingerprint, print_task;

/* presets.c */
setting_read read_preset;
setting_print print_preset;

/* statuses.c */
setting_read read_statuses, read_status_list;
setting_print print_statuses;

/* A list of components into `list`; false where some are wrong (reported). */
bool read_components(struct reader *reader, const yaml_node_t *node, const char *expected, struct component_list *list);
/* One component; false: reported. */
bool read_component(struct reader *reader, const yaml_node_t *node, struct component *component);
