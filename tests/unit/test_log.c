/*
 * test_log.c - a log line is one line of valid JSON whatever a peer puts into it.
 */
#include "proxy/log.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

static const struct {
    const char *name, *text;
    size_t len;
    const char *json;
} escapes[] = {
    {"plain", "abc", 3, "\"abc\""},
    {"empty", "", 0, "\"\""},
    {"quote and backslash", "a\"b\\c", 5, "\"a\\\"b\\\\c\""},
    {"line feed cannot start a second line", "a\nb", 3, "\"a\\u000ab\""},
    {"NUL", "a\0b", 3, "\"a\\u0000b\""},
    {"DEL", "\x7f", 1, "\"\\u007f\""},
    {"two bytes", "\xc3\xa4", 2, "\"\xc3\xa4\""},
    {"three bytes", "\xe2\x82\xac", 3, "\"\xe2\x82\xac\""},
    {"four bytes", "\xf0\x9f\x98\x80", 4, "\"\xf0\x9f\x98\x80\""},
    {"a lone continuation byte", "a\x80z", 3, "\"a\\ufffdz\""},
    {"an overlong form", "\xc0\xaf", 2, "\"\\ufffd\\ufffd\""},
    {"a surrogate in UTF-8", "\xed\xa0\x80", 3, "\"\\ufffd\\ufffd\\ufffd\""},
    {"a sequence cut at the end", "\xe2\x82", 2, "\"\\ufffd\\ufffd\""},
    {"beyond Unicode", "\xf4\x90\x80\x80", 4, "\"\\ufffd\\ufffd\\ufffd\\ufffd\""},
};

Test(log, json_escape)
{
    for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
        struct buffer out = {0};
        json_escape(&out, (struct span){escapes[i].text, escapes[i].len});
        struct span got = buffer_span(&out);
        cr_assert(span_equal(got, span_of(escapes[i].json)), "%s: got %.*s", escapes[i].name, (int)got.len, got.data);
        buffer_free(&out);
    }
}

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
