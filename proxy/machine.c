/*
 * machine.c - processors and descriptors.
 *
 * A container with a quota of half a processor still sees all of the machine's: one worker for each of those would only
 * wait for one another. What the quotas say: cgroup.h.
 */
#include "proxy/machine.h"
#include "proxy/cgroup.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define OWN_DESCRIPTORS 400 /* store, logs, listeners, events, resolver; 2 × 64 for the side listeners */

static bool read_line(void *arg, const char *path, char *line, size_t size)
{
    (void)arg;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool got = fgets(line, (int)size, file) != NULL;
    line[got ? strcspn(line, "\n") : 0] = '\0';
    fclose(file);
    return got;
}

static uint32_t smallest_quota(void)
{
    uint32_t smallest = UINT32_MAX;
    char line[PATH_MAX];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        uint32_t here = cgroup_quota(line, read_line, NULL);
        if (here < smallest)
            smallest = here;
    }
    if (file)
        fclose(file);
    return smallest;
}

uint32_t machine_processors(void)
{
    cpu_set_t set;
    uint32_t usable = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        usable = (uint32_t)CPU_COUNT(&set);
    uint32_t quota = smallest_quota();
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
