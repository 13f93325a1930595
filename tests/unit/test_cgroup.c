/*
 * How many processors control groups leave us: both versions, nested groups, containers that see a part of the tree.
 */
#include "proxy/cgroup.h"

#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define V2           "/sys/fs/cgroup"
#define V1           "/sys/fs/cgroup/cpu"
#define NONE         UINT32_MAX

struct file {
    const char *path, *line;
};

static bool read_line(void *arg, const char *path, char *line, size_t size)
{
    for (const struct file *file = arg; file->path; file++) {
        if (strcmp(file->path, path) != 0)
            continue;
        snprintf(line, size, "%s", file->line);
        return true;
    }
    return false;
}

static const struct row {
    const char *name, *membership;
    struct file files[5];
    uint32_t processors;
} rows[] = {
    {"v2: two", "0::/a", {{V2 "/a/cpu.max", "200000 100000"}}, 2},
    {"v2: half of one is one", "0::/a", {{V2 "/a/cpu.max", "50000 100000"}}, 1},
    {"v2: a thousandth is one", "0::/a", {{V2 "/a/cpu.max", "1000 1000000"}}, 1},
    {"v2: one and a half are two", "0::/a", {{V2 "/a/cpu.max", "150000 100000"}}, 2},
    {"v2: a little more than two are three", "0::/a", {{V2 "/a/cpu.max", "200001 100000"}}, 3},
    {"v2: another period", "0::/a", {{V2 "/a/cpu.max", "40000 10000"}}, 4},
    {"v2: max", "0::/a", {{V2 "/a/cpu.max", "max 100000"}}, NONE},
    {"v2: no file", "0::/a", {{NULL, NULL}}, NONE},
    {"v2: in a container the group is the root of what is seen", "0::/", {{V2 "/cpu.max", "300000 100000"}}, 3},
    {"v2: the group above binds",
     "0::/a/b",
     {{V2 "/a/cpu.max", "100000 100000"}, {V2 "/a/b/cpu.max", "400000 100000"}},
     1},
    {"v2: the group itself binds",
     "0::/a/b",
     {{V2 "/a/cpu.max", "400000 100000"}, {V2 "/a/b/cpu.max", "200000 100000"}},
     2},
    {"v2: max below a quota", "0::/a/b", {{V2 "/a/cpu.max", "200000 100000"}, {V2 "/a/b/cpu.max", "max 100000"}}, 2},
    {"v2: far above", "0::/a/b/c/d", {{V2 "/cpu.max", "500000 100000"}}, 5},
    {"v2: the host's name for what is the root here",
     "0::/kubepods/pod1/c1",
     {{V2 "/cpu.max", "200000 100000"}, {V2 "/other/cpu.max", "100000 100000"}},
     2},
    {"v2: a sibling whose name begins alike", "0::/ab", {{V2 "/a/cpu.max", "100000 100000"}}, NONE},
    {"v2: not a whole line", "0::/a", {{V2 "/a/cpu.max", "200000"}}, NONE},
    {"v2: empty", "0::/a", {{V2 "/a/cpu.max", ""}}, NONE},
    {"v2: no period", "0::/a", {{V2 "/a/cpu.max", "200000 0"}}, NONE},
    {"v2: no quota", "0::/a", {{V2 "/a/cpu.max", "0 100000"}}, NONE},
    {"v2: more than can be counted", "0::/a", {{V2 "/a/cpu.max", "18446744073709551615 1"}}, NONE},
    {"v1: one controller",
     "4:cpu:/a",
     {{V1 "/a/cpu.cfs_quota_us", "200000"}, {V1 "/a/cpu.cfs_period_us", "100000"}},
     2},
    {"v1: cpu first",
     "4:cpu,cpuacct:/a",
     {{V1 "/a/cpu.cfs_quota_us", "200000"}, {V1 "/a/cpu.cfs_period_us", "100000"}},
     2},
    {"v1: cpu last",
     "4:cpuacct,cpu:/a",
     {{V1 "/a/cpu.cfs_quota_us", "200000"}, {V1 "/a/cpu.cfs_period_us", "100000"}},
     2},
    {"v1: cpu in the middle",
     "4:a,cpu,b:/a",
     {{V1 "/a/cpu.cfs_quota_us", "200000"}, {V1 "/a/cpu.cfs_period_us", "100000"}},
     2},
    {"v1: cpuset is another",
     "4:cpuset:/a",
     {{V1 "/a/cpu.cfs_quota_us", "200000"}, {V1 "/a/cpu.cfs_period_us", "100000"}},
     NONE},
    {"v1: cpuacct alone is another",
     "4:cpuacct:/a",
     {{V1 "/a/cpu.cfs_quota_us", "1"}, {V1 "/a/cpu.cfs_period_us", "1"}},
     NONE},
    {"v1: memory", "4:memory:/a", {{V1 "/a/cpu.cfs_quota_us", "1"}, {V1 "/a/cpu.cfs_period_us", "1"}}, NONE},
    {"v1: no quota", "4:cpu:/a", {{V1 "/a/cpu.cfs_quota_us", "-1"}, {V1 "/a/cpu.cfs_period_us", "100000"}}, NONE},
    {"v1: no period", "4:cpu:/a", {{V1 "/a/cpu.cfs_quota_us", "200000"}}, NONE},
    {"v1: without its own namespace a container sees its root by the host's name",
     "4:cpu,cpuacct:/docker/0123",
     {{V1 "/cpu.cfs_quota_us", "150000"}, {V1 "/cpu.cfs_period_us", "100000"}},
     2},
    {"v1: the group above binds",
     "4:cpu:/a/b",
     {{V1 "/a/cpu.cfs_quota_us", "100000"},
      {V1 "/a/cpu.cfs_period_us", "100000"},
      {V1 "/a/b/cpu.cfs_quota_us", "400000"},
      {V1 "/a/b/cpu.cfs_period_us", "100000"}},
     1},
    {"v1: a named hierarchy", "1:name=systemd:/a", {{V2 "/a/cpu.max", "100000 100000"}}, NONE},
    {"both: a line of version 2 beside version 1",
     "0::/a",
     {{V1 "/a/cpu.cfs_quota_us", "1"}, {V1 "/a/cpu.cfs_period_us", "1"}},
     NONE},
    {"a name with colons", "0::/a:b", {{V2 "/a:b/cpu.max", "200000 100000"}}, 2},
    {"no colon", "0", {{V2 "/cpu.max", "100000 100000"}}, NONE},
    {"one colon", "0:cpu", {{V1 "/cpu.max", "100000 100000"}}, NONE},
    {"no group", "0::", {{V2 "/cpu.max", "100000 100000"}}, NONE},
    {"empty", "", {{V2 "/cpu.max", "100000 100000"}}, NONE},
};

Test(cgroup, processors)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint32_t found = cgroup_quota(rows[i].membership, read_line, (void *)rows[i].files);
        cr_expect_eq(found, rows[i].processors, "%s: %u", rows[i].name, found);
    }
}

Test(cgroup, a_name_that_is_too_long_binds_nothing)
{
    char membership[9000] = "0::";
    static const struct file files[] = {{V2 "/cpu.max", "100000 100000"}, {NULL, NULL}};
    memset(membership + 3, '/', 1);
    memset(membership + 4, 'a', sizeof membership - 5);
    cr_expect_eq(cgroup_quota(membership, read_line, (void *)files), NONE);
}
