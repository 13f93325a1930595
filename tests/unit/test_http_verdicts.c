/*
 * test_http_verdicts.c - 194 inputs at which parsers part ways, and what they are here.
 *
 * The rows are in http/verdicts.tsv, which the end-to-end tests and the comparison with another llhttp read, too. The
 * verdicts are the contract's (§5, §7), not those of llhttp, which differ between its versions. A refusal that depends
 * on how the bytes were cut would let a sender choose the verdict by timing: so each row is also run cut in two at
 * every offset, and byte by byte.
 */
#include <criterion/criterion.h>

#include "conf_run.h"
#include "http_run.h"

#define ROWS "/unit/http/verdicts.tsv"

struct row {
    enum http_kind kind;
    const char *verdict; /* as in http_run.h */
    const char *name;
    char *bytes;
    size_t len;
    bool no_body; /* answers HEAD */
};

static const struct http_limits limits = {.header_bytes = 32768, .headers = 100, .request_target = 8192};

static char unescaped(const char **at)
{
    char byte = *(*at)++;

    switch (byte) {
    case 'r':
        return '\r';
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'x':
        *at += 2;
        return (char)strtol((char[]){(*at)[-2], (*at)[-1], '\0'}, NULL, 16);
    default:
        return byte;
    }
}

static void unescape(struct row *row, const char *text)
{
    row->bytes = must_allocate(malloc(strlen(text) + 1));
    while (*text) {
        char byte = *text++;
        row->bytes[row->len++] = byte == '\\' ? unescaped(&text) : byte;
    }
}

static void check(const struct row *row, const size_t *cuts, size_t cut_count, const char *how)
{
    struct http_run run;

    http_run(&run, row->kind, &limits, row->bytes, row->len, cuts, cut_count, row->no_body);
    cr_expect_str_neq(run.refusal, "malformed head", "%s: only llhttp refuses it, and each version in its own way",
                      row->name);
    cr_expect_null(run.why_wrong, "%s (%s, first cut %zu): %s", row->name, how, cut_count ? cuts[0] : 0, run.why_wrong);
    cr_expect_str_eq(run.verdict, row->verdict, "%s (%s, first cut %zu): %s instead of %s, because: %s", row->name, how,
                     cut_count ? cuts[0] : 0, run.verdict, row->verdict, run.refusal);
}

static void check_cuts(const struct row *row)
{
    size_t *every = NEW_ARRAY(size_t, row->len);

    check(row, NULL, 0, "whole");
    for (size_t cut = 0; cut < row->len; cut++) {
        check(row, &cut, 1, "cut in two");
        every[cut] = cut;
    }
    check(row, every, row->len, "byte by byte");
    free(every);
}

/* kind, verdict, name and bytes, by tabs. */
static void check_line(char *line)
{
    char *rest = line, *kind = strsep(&rest, "\t");
    struct row row = {.verdict = strsep(&rest, "\t"), .name = strsep(&rest, "\t")};

    cr_assert(rest, "four columns: %s", line);
    row.kind = strcmp(kind, "request") == 0 ? HTTP_REQUESTS : HTTP_RESPONSES;
    row.no_body = strcmp(kind, "head-response") == 0;
    unescape(&row, rest);
    check_cuts(&row);
    free(row.bytes);
}

Test(http_verdicts, every_row_at_every_cut)
{
    char *text = conf_read_whole(TEST_SOURCE_DIR ROWS), *rest = text, *line;
    size_t count = 0;

    cr_assert_not_null(text, "the rows are there");
    while ((line = strsep(&rest, "\n")) && *line) {
        check_line(line);
        count++;
    }
    cr_expect_eq(count, 194, "the table is only worth something if it is the whole one: %zu rows", count);
    free(text);
}
