/*
 * cases.h - one list of cases, run for each engine in a process of its own.
 *
 * A case is a function over a fresh store. CHECK names engine and case, because criterion gives every parameter of a
 * test the same name.
 */
#pragma once

#include "tests/store/driver.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>

struct fixture {
    struct driver driver;
    const char *engine, *name;
};

struct store_case {
    const char *name;
    void (*run)(struct fixture *fixture);
    void (*configure)(struct store_config *config); /* NULL: the driver's */
};

struct parameter {
    unsigned engine, index;
};

#define CHECK(condition, ...) \
    cr_assert((condition), "%s, %s: line %d: %s", fixture->engine, fixture->name, __LINE__, "" __VA_ARGS__)
#define CHECK_EQUAL(got, expected, ...)                                                                     \
    do {                                                                                                    \
        long long got_ = (long long)(got), expected_ = (long long)(expected);                               \
        cr_assert(got_ == expected_, "%s, %s: line %d: %s is %lld and should be %lld. %s", fixture->engine, \
                  fixture->name, __LINE__, #got, got_, expected_, "" __VA_ARGS__);                          \
    } while (0)

static inline void run_case(const struct store_case *one, const char *engine)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    char error[500];
    fixture->engine = engine;
    fixture->name = one->name;
    driver_configure(&fixture->driver, engine);
    if (one->configure)
        one->configure(&fixture->driver.config);
    CHECK(driver_open(&fixture->driver, error, sizeof error), "the store must open");
    one->run(fixture);
    if (fixture->driver.store)
        CHECK(driver_close(&fixture->driver), "everything must be written at the end");
    driver_remove(&fixture->driver);
    free(fixture);
}

/* A test over every case and engine. */
#define RUN_CASES(suite, cases, ...)                                                                               \
    static const char *const suite##_engines[] = {__VA_ARGS__};                                                    \
    ParameterizedTestParameters(suite, all)                                                                        \
    {                                                                                                              \
        enum { COUNT = sizeof cases / sizeof *cases, ENGINES = sizeof suite##_engines / sizeof *suite##_engines }; \
        static struct parameter parameters[COUNT * ENGINES];                                                       \
        for (unsigned i = 0; i < COUNT * ENGINES; i++)                                                             \
            parameters[i] = (struct parameter){i / COUNT, i % COUNT};                                              \
        return cr_make_param_array(struct parameter, parameters, COUNT * ENGINES);                                 \
    }                                                                                                              \
    ParameterizedTest(struct parameter *parameter, suite, all)                                                     \
    {                                                                                                              \
        run_case(&cases[parameter->index], suite##_engines[parameter->engine]);                                    \
    }
