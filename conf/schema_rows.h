/* schema_rows.h - short forms for the rows of schema.c and schema_route.c. Private to these two. */
#pragma once

#include "conf/own.h"
#include "conf/scalar.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define SECTION(name, settings)         \
    {                                   \
        name, settings, COUNT(settings) \
    }
#define IN_CONF(field)     offsetof(struct conf, field)
#define IN_UPSTREAM(field) offsetof(struct conf_upstream, field)
#define IN_ROUTE(field)    offsetof(struct conf_route, field)

#define SECOND             1000ull
#define HOUR               (3600 * SECOND)
#define DAY                (24 * HOUR)
#define YEAR               (366 * DAY)
#define KIB                1024ull
#define MIB                (1024 * KIB)
#define GIB                (1024 * MIB)
#define TIB                (1024 * 1024 * MIB)

#define DURATION(name_, offset_, min_, max_, standard_, text_)                                                       \
    {                                                                                                                \
        .name = name_, .type = SETTING_DURATION, .offset = offset_, .min = min_, .max = max_, .standard = standard_, \
        .text = text_                                                                                                \
    }
#define GROUP(name_, section_, text_)                                                                \
    {                                                                                                \
        .name = name_, .type = SETTING_SECTION, .section = section_, .standard = "{}", .text = text_ \
    }
