/*
 * test_record.c - stored bytes and back: everything that is written is read again as it was, and nothing else is read
 * at all.
 *
 * The damaged inputs lie at the end of a block of their own size, so that the sanitizers see a read beyond it.
 */
#include "store/record.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum part { RESERVATION, OPENING, OUTCOME, COUNTERS, SCOPE, PARTS };

static const char *const names[PARTS] = {"reservation", "opening", "outcome", "counters", "scope"};

static struct record_text text(const char *string)
{
    return (struct record_text){string, strlen(string)};
}

static struct record_reservation a_reservation(void)
{
    struct record_reservation reservation = {.created_ms = 1700000000123,
                                             .key_source = STORE_KEY_DERIVED,
                                             .route = text("orders"),
                                             .scope_name = text("orders-v1"),
                                             .task = text("t 1"),
                                             .key = text("")};
    memset(&reservation.id, 0xA1, sizeof reservation.id);
    memset(reservation.fingerprint, 0xB2, STORE_HASH_LEN);
    memset(reservation.content, 0xC3, STORE_HASH_LEN);
    return reservation;
}

static struct record_outcome an_outcome(void)
{
    return (struct record_outcome){.state = STORE_UNKNOWN,
                                   .reason = STORE_REASON_STALL,
                                   .status = 502,
                                   .executions = 3,
                                   .token = UINT64_MAX - 1,
                                   .since_ms = 5,
                                   .expires_ms = STORE_FOREVER,
                                   .forwarded_until_ms = 4,
                                   .has_response = true,
                                   .response_len = 5,
                                   .decision = text("seen"),
                                   .inlined = text("hello")};
}

static size_t write_part(enum part part, uint8_t *out)
{
    struct record_reservation reservation = a_reservation();
    struct record_outcome outcome = an_outcome();
    struct record_opening opening = {.token = 77, .since_ms = 8, .unknown_retention_ms = 9};
    struct record_counters counters = {1, 2, 3, 4, 5};
    struct record_scope scope = {.expires_ms = 6};
    switch (part) {
    case RESERVATION:
        return record_write_reservation(out, &reservation);
    case OPENING:
        return record_write_opening(out, &opening);
    case OUTCOME:
        return record_write_outcome(out, &outcome);
    case COUNTERS:
        return record_write_counters(out, &counters);
    case SCOPE:
        return record_write_scope(out, &scope);
    case PARTS:
        break;
    }
    return 0;
}

static bool read_part(enum part part, const uint8_t *data, size_t len)
{
    struct record record;
    struct record_counters counters;
    struct record_scope scope;
    switch (part) {
    case RESERVATION:
        return record_read_reservation(&record.reservation, data, len);
    case OPENING:
        return record_read_opening(&record.opening, data, len);
    case OUTCOME:
        return record_read_outcome(&record.outcome, data, len);
    case COUNTERS:
        return record_read_counters(&counters, data, len);
    case SCOPE:
        return record_read_scope(&scope, data, len);
    case PARTS:
        break;
    }
    return false;
}

static bool same_text(struct record_text a, struct record_text b)
{
    return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

Test(record, a_reservation_comes_back)
{
    uint8_t buffer[RECORD_RESERVED_MAX];
    struct record_reservation in = a_reservation(), out;
    cr_assert(record_read_reservation(&out, buffer, record_write_reservation(buffer, &in)));
    cr_assert(memcmp(&in.id, &out.id, sizeof in.id) == 0 &&
              memcmp(in.fingerprint, out.fingerprint, STORE_HASH_LEN) == 0 &&
              memcmp(in.content, out.content, STORE_HASH_LEN) == 0);
    cr_assert(in.created_ms == out.created_ms && in.key_source == out.key_source);
    cr_assert(same_text(in.route, out.route) && same_text(in.scope_name, out.scope_name) &&
              same_text(in.task, out.task) && same_text(in.key, out.key));
}

Test(record, long_texts_are_cut)
{
    uint8_t buffer[RECORD_RESERVED_MAX];
    char *longest = calloc(1, 5000);
    struct record_reservation in = a_reservation(), out;
    memset(longest, 'x', 4999);
    in.route = in.scope_name = in.task = in.key = text(longest);
    size_t len = record_write_reservation(buffer, &in);
    cr_assert(len <= RECORD_RESERVED_MAX && record_read_reservation(&out, buffer, len));
    cr_assert(out.route.len == RECORD_STRING_MAX && out.key.len == RECORD_STRING_MAX,
              "cut, and the others not shifted");
    free(longest);
}

Test(record, an_outcome_comes_back)
{
    static const struct {
        const char *name;
        bool has_response, not_kept;
        uint32_t len;
    } cases[] = {{"none", false, false, 0},
                 {"not kept", false, true, 0},
                 {"empty", true, false, 0},
                 {"inline", true, false, RECORD_INLINE_MAX},
                 {"in pieces", true, false, RECORD_INLINE_MAX + 1},
                 {"huge", true, false, UINT32_MAX}};
    static char body[RECORD_INLINE_MAX];
    uint8_t buffer[RECORD_OUTCOME_MAX];
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct record_outcome in = an_outcome(), out;
        in.has_response = cases[i].has_response;
        in.not_kept = cases[i].not_kept;
        in.response_len = cases[i].len;
        bool inlined = cases[i].has_response && cases[i].len <= RECORD_INLINE_MAX;
        in.inlined = (struct record_text){body, inlined ? cases[i].len : 0};
        memset(body, 'b', sizeof body);
        cr_assert(record_read_outcome(&out, buffer, record_write_outcome(buffer, &in)), "%s", cases[i].name);
        cr_assert(in.state == out.state && in.reason == out.reason && in.status == out.status &&
                      in.executions == out.executions && in.token == out.token && in.since_ms == out.since_ms &&
                      in.expires_ms == out.expires_ms && in.forwarded_until_ms == out.forwarded_until_ms,
                  "%s", cases[i].name);
        cr_assert(in.has_response == out.has_response && in.not_kept == out.not_kept &&
                      in.response_len == out.response_len && same_text(in.inlined, out.inlined) &&
                      same_text(in.decision, out.decision),
                  "%s", cases[i].name);
    }
}

Test(record, the_small_parts_come_back)
{
    uint8_t buffer[128];
    struct record_opening opening = {.token = 1ull << 63, .since_ms = -1, .unknown_retention_ms = STORE_FOREVER},
                          opened;
    struct record_counters counters = {UINT64_MAX, 1, INT64_MAX, 12, 13}, counted;
    struct record_scope scope = {.digest = {1, 2, 3}, .expires_ms = 99}, scoped;
    memset(opening.boot, 7, sizeof opening.boot);
    cr_assert(record_read_opening(&opened, buffer, record_write_opening(buffer, &opening)));
    cr_assert(memcmp(&opening.id, &opened.id, sizeof opening.id) == 0 && opening.token == opened.token &&
              memcmp(opening.boot, opened.boot, sizeof opening.boot) == 0 && opened.since_ms == -1 &&
              opened.unknown_retention_ms == STORE_FOREVER);
    cr_assert(record_read_counters(&counted, buffer, record_write_counters(buffer, &counters)));
    cr_assert(memcmp(&counters, &counted, sizeof counters) == 0);
    cr_assert(record_read_scope(&scoped, buffer, record_write_scope(buffer, &scope)));
    cr_assert(memcmp(scope.digest, scoped.digest, sizeof scope.digest) == 0 && scoped.expires_ms == 99);
}

/* Every shorter and every longer piece is refused. */
Test(record, truncated_bytes_are_refused)
{
    for (enum part part = 0; part < PARTS; part++) {
        uint8_t whole[RECORD_RESERVED_MAX + 1] = {0};
        size_t len = write_part(part, whole);
        cr_assert(read_part(part, whole, len), "%s", names[part]);
        for (size_t cut = 0; cut < len; cut++) {
            uint8_t *piece = malloc(cut ? cut : 1);
            memcpy(piece, whole, cut);
            cr_assert(!read_part(part, piece, cut), "%s cut at %zu", names[part], cut);
            free(piece);
        }
        cr_assert(!read_part(part, whole, len + 1), "%s with something left over", names[part]);
    }
}

Test(record, other_versions_are_refused)
{
    for (enum part part = 0; part < PARTS; part++) {
        uint8_t bytes[RECORD_RESERVED_MAX];
        size_t len = write_part(part, bytes);
        for (unsigned version = 0; version < 256; version++) {
            bytes[0] = (uint8_t)version;
            cr_assert(read_part(part, bytes, len) == (version == RECORD_FORMAT), "%s version %u", names[part], version);
        }
    }
}

/* One byte changed, anywhere, to anything: refused or read, never read beyond. */
Test(record, corrupted_bytes_never_over_read)
{
    for (enum part part = 0; part < PARTS; part++) {
        uint8_t whole[RECORD_RESERVED_MAX];
        size_t len = write_part(part, whole);
        for (size_t at = 0; at < len; at++)
            for (unsigned value = 0; value < 256; value += at < 12 ? 1 : 15) {
                uint8_t *piece = malloc(len);
                memcpy(piece, whole, len);
                piece[at] = (uint8_t)value;
                read_part(part, piece, len);
                free(piece);
            }
    }
}

Test(record, values_that_mean_nothing_are_refused)
{
    uint8_t bytes[RECORD_RESERVED_MAX];
    static const struct {
        enum part part;
        size_t at;
        uint8_t value;
        const char *what;
    } cases[] = {{OUTCOME, 1, STORE_IN_PROGRESS, "an outcome in progress"},
                 {OUTCOME, 1, STORE_RELEASED, "released is never stored"},
                 {OUTCOME, 2, STORE_REASON_PROBED + 1, "a reason of the future"},
                 {OUTCOME, 3, 4, "a flag of the future"},
                 {OUTCOME, 3, 0, "a length without a response"},
                 {RESERVATION, 1, 0, "no key source"},
                 {RESERVATION, 1, 3, "an unknown key source"}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t len = write_part(cases[i].part, bytes);
        bytes[cases[i].at] = cases[i].value;
        cr_assert(!read_part(cases[i].part, bytes, len), "%s", cases[i].what);
    }
    size_t len = write_part(OPENING, bytes);
    memset(bytes + 33, 0, 8);
    cr_assert(!read_part(OPENING, bytes, len), "token 0 is nobody's");
}

Test(record, numbers_sort_as_bytes)
{
    static const uint64_t values[] = {0, 1, 255, 256, 65535, 1ull << 32, INT64_MAX, UINT64_MAX};
    for (unsigned i = 1; i < sizeof values / sizeof *values; i++) {
        uint8_t low[8], high[8];
        record_put64(low, values[i - 1]);
        record_put64(high, values[i]);
        cr_assert(memcmp(low, high, 8) < 0 && record_get64(high) == values[i]);
    }
}
