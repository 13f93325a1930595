/*
 * cgroup.h - PURE: how many processors the control groups of a process leave it, from what the kernel's files say.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first line of the file at `path`, without its end, into `line`; false: there is none. */
typedef bool cgroup_read_line(void *arg, const char *path, char *line, size_t size);

/* `membership`: a line of /proc/self/cgroup. The smallest quota of that group and those above it, in processors,
 * rounded up; UINT32_MAX: none, or a line of controllers that say nothing of processors. */
uint32_t cgroup_quota(const char *membership, cgroup_read_line *read_line, void *arg);
