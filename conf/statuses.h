/*
 * statuses.h - the lists under `statuses` as they are read. Private to conf/.
 */
#pragma once

#include "conf/conf.h"
#include "conf/report.h"

enum { STATUS_LISTS = 3 }; /* as enum status_class */

struct status_entry {
    uint16_t first, last; /* one status, or a class */
    bool retry_after;     /* only where the response has Retry-After */
    struct place place;
};

struct status_list {
    struct status_entry *entries;
    size_t count;
    bool is_default; /* not written in the file: the default, or what the preset says */
};

struct status_lists { /* what the rows of statuses_section fill */
    struct status_list lists[STATUS_LISTS];
    enum status_class other;
};
