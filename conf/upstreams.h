/* upstreams.h - finds an upstream by the name in a node; NULL: reported. Private to conf/. */
#pragma once

#include "conf/reader.h"

const struct conf_upstream *upstream_named(struct reader *reader, const yaml_node_t *node);
