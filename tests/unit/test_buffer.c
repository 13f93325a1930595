/*
 * test_buffer.c - what is appended comes out unchanged and in order, whatever is consumed in between, and memory stays
 * within a small multiple of what was live.
 */
#include <criterion/criterion.h>

#include "proxy/buffer.h"

Test(buffer, is_usable_and_harmless_while_empty)
{
    struct buffer b = {0};
    cr_assert_eq(buffer_len(&b), 0);
    cr_assert_null(buffer_data(&b), "no memory before the first byte: thousands of idle connections have none");
    cr_assert_eq(buffer_span(&b).len, 0);
    buffer_append(&b, NULL, 0);
    cr_assert_eq(b.capacity, 0, "appending nothing takes no memory");
    buffer_free(&b);
    buffer_free(&b);
}

Test(buffer, formats_text_at_its_end)
{
    struct buffer b = {0};
    buffer_append_span(&b, SPAN("status "));
    buffer_printf(&b, "%d %s", 201, "Made");
    buffer_printf(&b, "%s", "");
    cr_assert(span_equal(buffer_span(&b), SPAN("status 201 Made")), "the NUL of printf is no content");
    buffer_printf(&b, "%0300d", 7);
    cr_assert_eq(buffer_len(&b), 15 + 300, "longer than the room that was there");
    buffer_free(&b);
}

Test(buffer, is_usable_again_after_free)
{
    struct buffer b = {0};
    buffer_append_span(&b, SPAN("old"));
    buffer_free(&b);
    cr_assert_eq(b.capacity, 0);
    buffer_append_span(&b, SPAN("new"));
    cr_assert(span_equal(buffer_span(&b), SPAN("new")));
    buffer_free(&b);
}

struct pattern {
    const char *name;
    size_t append, consume; /* per round */
    size_t rounds, most_capacity;
};

/* The byte at position n of the endless text that the test appends. */
static char text_at(size_t n)
{
    return (char)(n * 31 + n / 256);
}

static void run_pattern(const struct pattern *row)
{
    struct buffer b = {0};
    size_t appended = 0, consumed = 0;
    for (size_t round = 0; round < row->rounds; round++) {
        char *to = buffer_reserve(&b, row->append);
        for (size_t i = 0; i < row->append; i++)
            to[i] = text_at(appended++);
        buffer_commit(&b, row->append);
        size_t drop = row->consume < buffer_len(&b) ? row->consume : buffer_len(&b);
        buffer_consume(&b, drop);
        consumed += drop;
        cr_assert_eq(buffer_len(&b), appended - consumed, "%s: length in round %zu", row->name, round);
    }
    for (size_t i = 0; i < buffer_len(&b); i++)
        cr_assert_eq(buffer_data(&b)[i], text_at(consumed + i), "%s: byte %zu", row->name, i);
    cr_assert_leq(b.capacity, row->most_capacity, "%s: capacity %zu", row->name, b.capacity);
    buffer_free(&b);
}

Test(buffer, keeps_bytes_and_bounds_memory)
{
    static const struct pattern rows[] = {
        {"only appended", 100, 0, 1000, 2 * 100 * 1000},
        {"consumed at once", 1000, 1000, 1000, 1000},
        {"a byte at a time", 1, 1, 5000, 256},
        {"a rest always stays", 1000, 999, 1000, 8 * 2000},
        {"consumed slower than appended", 300, 200, 500, 4 * 100 * 500},
        {"large and odd", 65537, 65536, 50, 8 * 65537},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        run_pattern(&rows[i]);
}
