/*
 * record.h - PURE. What is stored of an action, and its form as bytes.
 *
 * A record has up to three parts, each written for itself so that little is written at each step:
 *
 *     reservation   once, when the action is reserved: what it is (immutable)
 *     opening       while it is in progress: who executes it
 *     outcome       when it has ended: how
 *
 *     in progress   opening, no outcome
 *     in progress   opening and outcome: an unknown action that was granted again; the outcome is the prior one, which
 * stays true until the new execution ends completed     outcome unknown       outcome
 *
 * Each part begins with a format version. Reading is bounds-checked and never trusts a length; bytes of another version
 * or with something left over are refused, not guessed at. Integers are big-endian. Times are store time in
 * milliseconds.
 */
#pragma once

#include "store/store.h"

#define RECORD_FORMAT       2
#define RECORD_BOOT_LEN     16
#define RECORD_STRING_MAX   511  /* longer strings of store_about are cut */
#define RECORD_INLINE_MAX   1536 /* a larger response is kept in pieces beside the outcome */
#define RECORD_RESERVED_MAX (128 + 4 * (2 + RECORD_STRING_MAX))
#define RECORD_OUTCOME_MAX  (64 + 2 + RECORD_STRING_MAX + RECORD_INLINE_MAX)
#define RECORD_OPENING_LEN  73
#define RECORD_COUNTERS_LEN 41
#define RECORD_SCOPE_LEN    41

struct record_text { /* bytes inside a stored part; not NUL-terminated */
    const char *data;
    size_t len;
};

struct record_reservation {
    struct store_id id;
    uint8_t fingerprint[STORE_HASH_LEN];
    uint8_t content[STORE_HASH_LEN];
    int64_t created_ms;
    enum store_key_source key_source;
    struct record_text route, scope_name, task, key; /* only as long as the bytes that were read live */
};

struct record_opening {
    struct store_id id;
    uint64_t token;
    uint8_t boot[RECORD_BOOT_LEN]; /* of the process that was granted it */
    int64_t since_ms;
    int64_t unknown_retention_ms; /* for what a crash leaves */
};

struct record_outcome {
    enum store_state state; /* STORE_COMPLETED or STORE_UNKNOWN */
    enum store_reason reason;
    uint16_t status;
    uint32_t executions;
    uint64_t token; /* of the reservation that it ended */
    int64_t since_ms, expires_ms, forwarded_until_ms;
    bool has_response, not_kept;
    uint32_t response_len;
    struct record_text decision; /* only as long as the bytes that were read live */
    struct record_text inlined;  /* the response, if it is not in pieces; the same */
};

struct record {
    uint64_t seq;
    struct record_reservation reservation;
    bool open, has_outcome;
    struct record_opening opening;
    struct record_outcome outcome;
};

struct record_counters {
    uint64_t next_seq, next_token;
    int64_t newest_ms; /* the latest store time that was written */
    uint64_t completed;
    uint64_t merged_seq; /* reservations before it are in the index, or gone */
};

struct record_scope {
    uint8_t digest[STORE_HASH_LEN]; /* of what identifies the scope's actions */
    int64_t expires_ms;             /* no record of the scope lives longer */
};

static inline bool record_response_inlined(size_t len)
{
    return len <= RECORD_INLINE_MAX;
}

/* Writers return the length; `out` has room for the _MAX or _LEN above. */
size_t record_write_reservation(uint8_t *out, const struct record_reservation *reservation);
size_t record_write_opening(uint8_t *out, const struct record_opening *opening);
size_t record_write_outcome(uint8_t *out, const struct record_outcome *outcome);
size_t record_write_counters(uint8_t *out, const struct record_counters *counters);
size_t record_write_scope(uint8_t *out, const struct record_scope *scope);

/* Readers return false for bytes that this version did not write; *out is then undefined. */
bool record_read_reservation(struct record_reservation *out, const uint8_t *data, size_t len);
bool record_read_opening(struct record_opening *out, const uint8_t *data, size_t len);
bool record_read_outcome(struct record_outcome *out, const uint8_t *data, size_t len);
bool record_read_counters(struct record_counters *out, const uint8_t *data, size_t len);
bool record_read_scope(struct record_scope *out, const uint8_t *data, size_t len);

/* Big-endian numbers, also used for keys, so that bytes sort as numbers. */
void record_put64(uint8_t *out, uint64_t value);
uint64_t record_get64(const uint8_t *data);
