/*
 * test_log.c - times as they are written, and lines that nobody reads. What a peer puts into a line: test_json_text.c.
 */
#include "proxy/log.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

Test(log, format_time)
{
    static const struct {
        int64_t ms;
        const char *text;
    } rows[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {1, "1970-01-01T00:00:00.001Z"},
        {951782399999, "2000-02-28T23:59:59.999Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {4102444800000, "2100-01-01T00:00:00.000Z"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[32];
        format_time(text, rows[i].ms);
        cr_assert_str_eq(text, rows[i].text);
    }
}

/* What a metric tells of it must be true while nobody reads, not only once somebody does. */
Test(log, lines_that_nobody_reads_are_counted_while_nobody_reads_them, .timeout = 20)
{
    static const char filler[4096];
    int ends[2];
    signal(SIGPIPE, SIG_IGN);
    cr_assert_eq(pipe2(ends, O_NONBLOCK), 0);
    while (write(ends[1], filler, sizeof filler) > 0) {
    }
    int standard_output = dup(STDOUT_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    struct log *log = log_new();
    struct access_log *workers[] = {access_log_open(log), access_log_open(log)};
    const struct access_entry entry = {.method = SPAN("GET"),
                                       .host = SPAN("a"),
                                       .path = SPAN("/"),
                                       .route = "-",
                                       .outcome = "passed",
                                       .status = 200,
                                       .upstream_us = -1,
                                       .wait_us = -1};
    cr_expect_eq(log_access_dropped(log), 0);
    uint64_t before = 0;
    for (size_t i = 0; i < 2; i++) { /* each has room for some MiB */
        for (size_t lines = 0; lines < 60000; lines++)
            access_log_write(workers[i], &entry);
        uint64_t dropped = log_access_dropped(log);
        cr_expect(dropped > before, "of worker %zu: %llu", i, (unsigned long long)dropped);
        before = dropped;
    }
    close(ends[0]);
    dup2(standard_output, STDOUT_FILENO);
    access_log_close(workers[0]);
    access_log_close(workers[1]);
    log_free(log);
}
