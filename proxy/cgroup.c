/*
 * cgroup.c - PURE. The quota of processors, in both versions of control groups.
 *
 *     version 2    0::/GROUP                      /sys/fs/cgroup/GROUP/cpu.max: "QUOTA PERIOD" or "max PERIOD"
 *     version 1    N:CONTROLLER,CONTROLLER:/GROUP /sys/fs/cgroup/cpu/GROUP/cpu.cfs_quota_us (-1: none)
 *                                                 and cpu.cfs_period_us beside it
 *
 * A group is bound by all above it, too. In a container the group's name may be that of the host while only the
 * container's own part of the tree is there to be seen: folders that are not there are passed over, up to the root of
 * what is seen.
 *
 * Left out: weights, which bind only where others want the processor, and sets of processors, which show in the
 * affinity.
 */
#include "proxy/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_QUOTA UINT32_MAX

struct source {
    cgroup_read_line *read_line;
    void *arg;
};

typedef uint32_t folder_quota(const struct source *source, const char *folder);

/* Digits only, and more than 0: "max" and "-1" are none. Gives what follows, or NULL. */
static const char *parse_time(const char *text, uint64_t *microseconds)
{
    char *end;
    if (*text < '0' || *text > '9')
        return NULL;
    *microseconds = strtoull(text, &end, 10);
    return *microseconds ? end : NULL;
}

static uint32_t rounded_up(uint64_t quota, uint64_t period)
{
    uint64_t processors = quota / period + (quota % period != 0);
    return processors < NO_QUOTA ? (uint32_t)processors : NO_QUOTA;
}

static uint32_t quota_v2(const struct source *source, const char *folder)
{
    char path[PATH_MAX + 64], line[128];
    uint64_t quota, period;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (!source->read_line(source->arg, path, line, sizeof line))
        return NO_QUOTA;
    const char *rest = parse_time(line, &quota);
    if (!rest || *rest != ' ' || !parse_time(rest + 1, &period))
        return NO_QUOTA;
    return rounded_up(quota, period);
}

static bool read_time(const struct source *source, const char *folder, const char *file, uint64_t *microseconds)
{
    char path[PATH_MAX + 64], line[128];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return source->read_line(source->arg, path, line, sizeof line) && parse_time(line, microseconds);
}

static uint32_t quota_v1(const struct source *source, const char *folder)
{
    uint64_t quota, period;
    if (!read_time(source, folder, "cpu.cfs_quota_us", &quota) ||
        !read_time(source, folder, "cpu.cfs_period_us", &period))
        return NO_QUOTA;
    return rounded_up(quota, period);
}

/* From the group up to the root of what is seen. */
static uint32_t smallest(const struct source *source, const char *root, const char *group, folder_quota *quota)
{
    uint32_t least = NO_QUOTA;
    char folder[PATH_MAX];
    int len = snprintf(folder, sizeof folder, "%s%s", root, strcmp(group, "/") == 0 ? "" : group);
    if (len < 0 || (size_t)len >= sizeof folder)
        return NO_QUOTA;
    for (;;) {
        uint32_t here = quota(source, folder);
        if (here < least)
            least = here;
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < strlen(root))
            return least;
        *slash = '\0';
    }
}

/* "cpuacct,cpu" in any order; "cpuset" is another one. */
static bool has_controller(const char *list, size_t len, const char *name)
{
    while (len) {
        const char *comma = memchr(list, ',', len);
        size_t here = comma ? (size_t)(comma - list) : len;
        if (here == strlen(name) && memcmp(list, name, here) == 0)
            return true;
        size_t used = comma ? here + 1 : here;
        list += used;
        len -= used;
    }
    return false;
}

uint32_t cgroup_quota(const char *membership, cgroup_read_line *read_line, void *arg)
{
    const struct source source = {read_line, arg};
    const char *list = strchr(membership, ':');
    const char *group = list ? strchr(list + 1, ':') : NULL;
    if (!group || group[1] != '/')
        return NO_QUOTA;
    size_t len = (size_t)(group - list) - 1;
    if (len == 0)
        return smallest(&source, "/sys/fs/cgroup", group + 1, quota_v2);
    if (has_controller(list + 1, len, "cpu"))
        return smallest(&source, "/sys/fs/cgroup/cpu", group + 1, quota_v1);
    return NO_QUOTA;
}
