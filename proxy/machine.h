/*
 * machine.h - what this process may use: processors and descriptors.
 */
#pragma once

#include <stdint.h>

/* Processors usable: affinity, and the cgroup's CPU quota rounded up (cgroup v2 and v1). At least 1. */
uint32_t machine_processors(void);
/* Raises the soft limit of open descriptors to what `connections` need (one for the client, one for the API, some for
 * us), at most to the hard limit. Returns how many connections that allows: `connections`, or fewer. */
uint32_t machine_allow_connections(uint32_t connections);
