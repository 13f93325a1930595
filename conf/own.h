/*
 * own.h - readers and printers of the settings that are more than one plain value; schema.c names them in its rows.
 * Private to conf/.
 */
#pragma once

#include "conf/reader.h"
#include "conf/writer.h"

/* read_global.c */
setting_read read_listen, read_listen_address, read_listen_mode, read_workers;
setting_read read_store_path, read_upstreams, read_upstream_url, read_upstream_host, read_default_upstream;
setting_print print_listen, print_workers, print_text, print_default_upstream, print_upstream_host;
setting_write write_listen, write_listen_address, write_listen_mode, write_workers, write_string, write_upstreams;
setting_write write_upstream_url, write_upstream_host, write_upstream_name;
setting_same same_listen, same_workers, same_store_path;

/* read_admin.c */
setting_read read_health_address, read_admin_address, read_admin_mode;
setting_print print_side_address, print_side_mode;
setting_write write_side_address, write_side_mode;
setting_same same_health_address, same_admin_address, same_admin_mode;
/* What the listeners mean for one another, flags included; once all of them are known. */
void check_side_listeners(const struct conf *conf, struct report *report);

/* read_tls.c */
setting_read read_listen_tls, read_upstream_tls, read_file_name, read_server_name;
setting_print print_upstream_tls, print_file_name;
setting_write write_listen_tls, write_upstream_tls, write_file_name;
/* What the tls of an upstream means together with its url; once both are read. */
void check_upstream_tls(struct reader *reader, const yaml_node_t *node, const struct conf_upstream *upstream);

/* read_route.c */
setting_read read_routes, read_name, read_match_host, read_match_methods, read_match_path, read_route_upstream;
setting_read read_keys, read_header_name, read_derive, read_ignore, read_header_names;
setting_print print_match_host, print_match_methods, print_match_path, print_route_upstream, print_keys;
setting_read read_origins;
setting_print print_ignore, print_header_names;
setting_write write_routes, write_match_host, write_match_path, write_keys, write_header_names, write_ignore;

/* read_identity.c */
setting_read read_scope, read_fingerprint, read_task;
setting_print print_scope, print_fingerprint, print_task;
setting_write write_scope, write_fingerprint, write_task;

/* presets.c */
setting_read read_preset;
setting_print print_preset;
setting_write write_preset;

/* statuses.c */
setting_read read_statuses, read_status_list;
setting_print print_statuses;
setting_write write_statuses;

/* read_probe.c */
setting_read read_probe;
setting_print print_probe;
setting_write write_probe;
/* What probe, on_unknown and the upstream mean together; fills in the default of settle. Once all are read. */
void check_probe(struct reader *reader, const yaml_node_t *node, struct conf_route *route);

/* A list of components into `list`; false where some are wrong (reported). */
bool read_components(struct reader *reader, const yaml_node_t *node, const char *expected, struct component_list *list);
/* One component; false: reported. */
bool read_component(struct reader *reader, const yaml_node_t *node, struct component *component);
/* Has the route's path the NAME of a path:NAME? False: reported. */
bool check_path_name(struct reader *reader, const yaml_node_t *node, const struct component *component);
