/*
 * machine.c - processors and descriptors.
 *
 * A container with a quota of half a processor still sees all of the machine's: one worker for each of those would only
 * wait for one another. The quota of our own cgroup and of those above it counts, the smallest of them.
 */
#include "proxy/machine.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define OWN_DESCRIPTORS 256 /* store, logs, listeners, events, resolver */

static bool read_line(const char *path, char *line, int size)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool got = fgets(line, size, file) != NULL;
    fclose(file);
    return got;
}

static uint32_t rounded_up(double quota, double period)
{
    if (quota <= 0 || period <= 0)
        return UINT32_MAX;
    double processors = quota / period;
    return processors <= 1 ? 1 : (uint32_t)(processors + 0.999);
}

/* cgroup v2: "QUOTA PERIOD" or "max PERIOD". */
static uint32_t quota_v2(const char *folder)
{
    char path[PATH_MAX + 64], line[128];
    double quota, period;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (!read_line(path, line, sizeof line) || sscanf(line, "%lf %lf", &quota, &period) != 2)
        return UINT32_MAX;
    return rounded_up(quota, period);
}

static uint32_t quota_v1(const char *folder)
{
    char path[PATH_MAX + 64], line[128];
    double quota, period;
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_line(path, line, sizeof line) || sscanf(line, "%lf", &quota) != 1)
        return UINT32_MAX;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!read_line(path, line, sizeof line) || sscanf(line, "%lf", &period) != 1)
        return UINT32_MAX;
    return rounded_up(quota, period);
}

/* From our own group up to the root of what we see. */
static uint32_t smallest_quota(const char *root, char *group, uint32_t (*quota)(const char *folder))
{
    uint32_t smallest = UINT32_MAX;
    for (;;) {
        char folder[PATH_MAX];
        snprintf(folder, sizeof folder, "%s%s", root, group);
        uint32_t here = quota(folder);
        if (here < smallest)
            smallest = here;
        char *slash = strrchr(group, '/');
        if (!slash)
            return smallest;
        *slash = '\0';
    }
}

static uint32_t cgroup_quota(void)
{
    uint32_t smallest = UINT32_MAX;
    char line[PATH_MAX];
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file)
        return smallest;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        uint32_t here = UINT32_MAX;
        if (controllers[1] == '\0')
            here = smallest_quota("/sys/fs/cgroup", group, quota_v2);
        else if (strstr(controllers + 1, "cpu,") || strcmp(controllers + 1, "cpu") == 0)
            here = smallest_quota("/sys/fs/cgroup/cpu", group, quota_v1);
        if (here < smallest)
            smallest = here;
    }
    fclose(file);
    return smallest;
}

uint32_t machine_processors(void)
{
    cpu_set_t set;
    uint32_t usable = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        usable = (uint32_t)CPU_COUNT(&set);
    uint32_t quota = cgroup_quota();
    return quota < usable ? quota : usable;
}

uint32_t machine_allow_connections(uint32_t connections)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return connections;
    rlim_t need = (rlim_t)connections * 2 + OWN_DESCRIPTORS;
    if (limit.rlim_cur < need) {
        limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || need < limit.rlim_max ? need : limit.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            getrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur >= need)
        return connections;
    return limit.rlim_cur > OWN_DESCRIPTORS + 2 ? (uint32_t)((limit.rlim_cur - OWN_DESCRIPTORS) / 2) : 1;
}
