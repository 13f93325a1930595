/*
 * store.h - what einmal remembers: actions, reservations, outcomes.
 *
 * The store knows nothing of HTTP. It is asked with *verbs* (struct store_op) by workers and answers each op exactly
 * once. One thread of its own (the writer) takes everything that is queued, applies it in one write transaction,
 * commits, and delivers the answers: that is group commit, and it needs no timer.
 *
 * Order of a worker's life with it:
 *
 *     handle = store_handle_open(store)  one per worker thread; its fd goes into the worker's event loop
 *     store_look_up(handle, op)          settles replays from a snapshot, on the worker's thread
 *     store_submit(handle, op)           everything else: the writer decides
 *     store_handle_deliver(handle)       when the fd is readable: runs op->notice() and op->done() here
 *
 * OWNERSHIP. A store_op is embedded in the exchange that asks. It belongs to the store from store_submit() until its
 * done() runs on the asker's thread (out of store_handle_deliver); between the two the asker touches nothing of it but
 * through store_cancel() and store_no_grant(). Everything that an op points to (strings, the response) must live as
 * long. `response` blocks are reference counted: what an answer carries in result.response is a reference that the
 * asker owns and must drop with store_bytes_unref().
 *
 * THREADS. A handle belongs to one thread. store_open, store_close and store_declare_scope belong to control threads,
 * never to a worker's loop: they block.
 *
 * ERRORS. STORE_FAILED means *not known to have changed*: asking again with the same token is safe. Out of memory
 * aborts.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;
struct store_handle;

/* ---- reference-counted immutable bytes (a recorded response) ---------------------------------- */

struct store_bytes {
    atomic_uint refs;
    size_t len;
    uint8_t data[];
};

struct store_bytes *store_bytes_new(size_t len); /* refs = 1, contents undefined: fill before sharing */
struct store_bytes *store_bytes_ref(struct store_bytes *bytes);
void store_bytes_unref(struct store_bytes *bytes); /* NULL is fine */

/* ---- names ------------------------------------------------------------------------------------ */

#define STORE_ID_LEN   32
#define STORE_HASH_LEN 32

/* An action's identity: H128(scope name, key) ‖ H128(scope name, key, identity). The first half is shared by equal keys
 * of different identities, so that they are neighbours. Written as 64 lower-case hex digits. */
struct store_id {
    uint8_t bytes[STORE_ID_LEN];
};

/* contract §1. RELEASED is never stored: the record is gone. */
enum store_state { STORE_IN_PROGRESS = 1, STORE_COMPLETED, STORE_UNKNOWN, STORE_RELEASED };
/* "in_progress", "completed", "unknown", "released"; NULL for 0. */
const char *store_state_name(enum store_state state);

/* Why an action is unknown, or how the attempt ended that others waited for. Stored as a number: append only. */
enum store_reason {
    STORE_REASON_NONE = 0,
    STORE_REASON_STATUS,          /* a complete response whose status does not tell (500, 504 …) */
    STORE_REASON_CLOSED,          /* the API closed without an answer */
    STORE_REASON_INVALID,         /* reset, truncated or unparsable response */
    STORE_REASON_SEND_TIMEOUT,    /* no progress in writing the request */
    STORE_REASON_STALL,           /* no progress in reading the response */
    STORE_REASON_OUTCOME_TIMEOUT, /* no final response for as long as einmal listens */
    STORE_REASON_CRASH,           /* einmal died in between; found at the next start */
    STORE_REASON_DRAIN,           /* einmal was told to end before the API answered */
    STORE_REASON_LOST,            /* no living exchange holds its token */
    STORE_REASON_UNSENT,          /* not one byte was sent (only in answers) */
    STORE_REASON_WITHDRAWN,       /* the asker was gone before it was granted, and none of those who waited may execute:
                                     nothing was sent (only in answers) */
    STORE_REASON_PROBED,          /* asked the API, which did not know (only in ops and answers) */
};
/* "status", "crash" …; NULL for STORE_REASON_NONE. */
const char *store_reason_name(enum store_reason reason);

enum store_key_source { STORE_KEY_SENT = 1, STORE_KEY_DERIVED };

/* What is written beside the record for people to read. NULL strings count as empty. */
struct store_about {
    /* NUL-terminated, UTF-8 or bytes as they came, each < 512 bytes (cut beyond) */
    const char *route, *scope_name, *task;
    const char *key; /* text of a sent key; NULL for a derived one */
    enum store_key_source key_source;
};

/* ---- ops -------------------------------------------------------------------------------------- */

enum store_verb {
    STORE_RESERVE,  /* may I execute this action? */
    STORE_COMPLETE, /* it is done; this is the outcome */
    STORE_RELEASE,  /* nothing was sent, or the API's status says that it did not act: the record goes */
    STORE_ABANDON,  /* begun, ending not known: always written anew */
    STORE_RESTORE,  /* only after GRANTED_UNKNOWN with nothing sent: the record as it was */
    STORE_RESOLVE,  /* a person says how an unknown action ended */
    STORE_FORGET,   /* a person removes a completed or unknown record */
};

enum store_answer {
    STORE_NOT_ANSWERED = 0,
    /* RESERVE */
    STORE_GRANTED, /* result.token: the action is yours, durably; forward it, then COMPLETE, RELEASE or ABANDON */
    STORE_GRANTED_UNKNOWN, /* the same on an action that was unknown (only if op.retry_unknown): what was known is in
                              result */
    STORE_REPLAY, /* result.response, or NULL with result.not_kept: completed (or, to those who waited, RELEASED or
                     UNKNOWN with the response that ended it: see result.state) */
    STORE_ENDED,  /* to those who waited: the attempt ended without a response, result.reason tells how */
    STORE_BUSY,   /* in progress, and no_wait was set or the line is full; or (waited, state UNKNOWN) a probe came too
                     early: see result.forwarded_until_ms */
    STORE_OTHER_IDENTITY, /* no record of one's own, but a live one of another identity with the same key and content */
    STORE_MISMATCH,       /* same id, different fingerprint */
    STORE_REPORT_UNKNOWN, /* unknown, and op.retry_unknown is not set: result.since_ms, .reason, .response (or NULL) */
    STORE_CANCELLED,      /* store_cancel() took it out of queue or line */
    /* the others */
    STORE_DONE,
    STORE_LOST,    /* the token is not (or no longer) the record's: somebody settled it meanwhile; nothing changed */
    STORE_REFUSED, /* RESOLVE, FORGET: no such record, or not in a state that allows it (result.state) */
    /* all */
    STORE_FAILED, /* the store could not: result.failure */
};

enum store_failure { STORE_FAILURE_NONE = 0, STORE_FAILURE_FULL, STORE_FAILURE_IO, STORE_FAILURE_CLOSING };

struct store_result {
    enum store_answer answer;
    enum store_failure failure;
    enum store_state state; /* of the action at the moment of the answer; 0 where there is none */
    enum store_reason reason;
    bool waited;                /* the answer was got by standing in line */
    bool not_kept;              /* there was a response, too large to record */
    uint16_t status;            /* status of the recorded or last response, 0 if none was seen */
    uint32_t executions;        /* how often the action was forwarded */
    uint64_t token;             /* never 0, never reused, of one persistent counter */
    int64_t created_ms;         /* first reservation; all times are store time: ms since 1970 UTC */
    int64_t since_ms;           /* when the present state began */
    int64_t forwarded_until_ms; /* when the last forwarding ended; for a crash: the start that found it */
    int64_t expires_ms;         /* INT64_MAX: never */
    struct store_bytes *response;
};

#define STORE_FOREVER INT64_MAX

struct store_op;
typedef void store_op_cb(struct store_op *op);

struct store_op {
    /* ---- set by the asker before store_submit() --------------------------------------------------- */
    enum store_verb verb;
    struct store_id id;
    store_op_cb *done;   /* required: op->result is filled; runs once, on the handle's thread */
    store_op_cb *notice; /* RESERVE, optional: stands in line now (at most once, before done) */

    /* RESERVE */
    uint8_t fingerprint[STORE_HASH_LEN];
    uint8_t content[STORE_HASH_LEN]; /* hash of what OTHER_IDENTITY compares */
    bool reject_other_identity;
    bool retry_unknown; /* on_unknown: retry or probe: grant unknown actions */
    bool no_wait;       /* on_concurrent: reject */
    struct store_about about;
    int64_t unknown_retention_ms; /* a duration or STORE_FOREVER; kept with the reservation for what a crash leaves */

    /* COMPLETE, RELEASE, ABANDON, RESTORE */
    uint64_t token;
    /* RELEASE: UNSENT, WITHDRAWN, STATUS. RESTORE: UNSENT, WITHDRAWN, PROBED, DRAIN. ABANDON: why. COMPLETE: NONE, or
     * PROBED: nothing was forwarded, a probe's answer is the outcome. */
    enum store_reason reason;
    /* COMPLETE, RELEASE by status, ABANDON: borrowed until done(); NULL: none or not kept. */
    struct store_bytes *response;
    bool not_kept;     /* there was a response that is too large to record */
    bool not_happened; /* RELEASE after GRANTED_UNKNOWN: a settled probe said so, the action counts as new.
                          Without it a RELEASE of such a grant acts as RESTORE (unsent, withdrawn) or ABANDON.
                          RESTORE, PROBED: the API said so, too early to be believed: those who wait get BUSY */
    uint16_t status;
    int64_t retention_ms;       /* from the moment it is recorded; a duration or STORE_FOREVER */
    int64_t forwarded_until_ms; /* ABANDON: when this forwarding ended */

    /* RESOLVE: to_state COMPLETED (response, status, retention_ms) or RELEASED (not executed); `decision` is kept */
    enum store_state to_state;
    const char *decision;

    /* ---- filled by the store ---------------------------------------------------------------------- */
    struct store_result result;

    /* ---- private to the store --------------------------------------------------------------------- */
    struct store_handle *handle;
    struct store_op *queue_next;                /* submission queue, then what the writer has not decided yet */
    struct store_op *line_next, *line_prev;     /* the line of those who wait for one action */
    struct store_op *notice_next, *done_next;   /* delivery */
    struct store_op *cancel_next, *cancel_prev; /* taken back; the writer has not heard of it yet */
    int place;                                  /* the writer's */
    bool cancel_listed, answered;               /* under the handle's lock */
    atomic_bool no_grant;                       /* half-closed asker: passed over when an execution is handed on */
    atomic_bool cancelled;
};

/* ---- opening and closing ---------------------------------------------------------------------- */

enum store_log_level { STORE_LOG_ERROR, STORE_LOG_WARNING, STORE_LOG_INFO, STORE_LOG_DEBUG };

struct store_config {
    const char *engine; /* "lmdb" or "memory" */
    const char *path;   /* directory; created 0700 if `create` */
    uint64_t max_size;  /* bytes */
    bool create;
    int64_t lock_wait_ms; /* how long to wait for another instance to let go of the directory */
    bool strict;          /* durability: each commit survives power loss before it counts */
    uint32_t waiters_per_action, waiters;
    uint32_t recent_max; /* for tests: ids in memory before they are merged into the index; 0: as many as is good */
    void (*log)(void *arg, enum store_log_level level, const char *message);
    void *log_arg;
    const char *crash_at; /* debug builds: name of the step at which to kill -9 ourselves; NULL: never */
};

/* NULL on error, and `error` says what to do, naming the path. Starts the writer thread. */
struct store *store_open(const struct store_config *config, char *error, size_t error_size);
/* From now on every RESERVE, queued, waiting or new, is answered FAILED/CLOSING; owners may still end their executions.
 * Waits until every handle is closed and kept outcomes are written, at most timeout_ms; then joins the thread and
 * frees. True if every record was committed. If handles are still open by then it returns false and frees nothing: the
 * process is about to end. */
bool store_close(struct store *store, int64_t timeout_ms);

/* ---- a worker's side -------------------------------------------------------------------------- */

struct store_handle *store_handle_open(struct store *store);
void store_handle_close(struct store_handle *handle); /* no op of it may be out */
int store_handle_fd(const struct store_handle *handle);
void store_handle_deliver(struct store_handle *handle);
int64_t store_now_ms(const struct store_handle *handle); /* store time: a step of the wall clock does not move it */

/* Decides a RESERVE from a read snapshot, without leaving the thread. True: op->result is filled (REPLAY, MISMATCH,
 * REPORT_UNKNOWN); done() is not called. False: nothing is known, submit it. A miss is never an answer. */
bool store_look_up(struct store_handle *handle, struct store_op *op);
void store_submit(struct store_handle *handle, struct store_op *op);
/* Takes a RESERVE out of queue or line: done() follows, with CANCELLED, or with whatever was already on its way (a
 * grant must then be withdrawn by RELEASE or RESTORE). */
void store_cancel(struct store_handle *handle, struct store_op *op);
void store_no_grant(struct store_op *op, bool no_grant);

/* ---- control side (blocking) ------------------------------------------------------------------ */

struct store_status {
    bool failing;             /* commits or look-ups fail now */
    int64_t failing_since_ms; /* store time; 0 if not failing */
    bool look_ups_fail;       /* …of which these, now */
    bool full;                /* new keys are refused */
    int64_t now_ms;           /* store time of this look */
    uint64_t used_bytes, max_bytes;
    uint64_t in_progress, completed, unknown;
    uint64_t waiters;
    int64_t oldest_unknown_ms; /* when it became unknown; 0: none */
    /* Since the store was opened. Commits without an op (sweeping alone) are in no group. */
    uint64_t commits, commit_ops;
    uint64_t commit_ns_sum;
    uint64_t commit_ns_buckets[24]; /* bucket i: commits shorter than 64 µs << i, and not in one before; the last takes
                                       all that remain. Their sum is `commits` */
    uint64_t group_size_buckets[12]; /* bucket i: groups of 1 << i up to (2 << i) - 1 ops; the ops' sum is commit_ops */
};
void store_status(struct store *store, struct store_status *out); /* any thread; cheap */

enum store_declared {
    STORE_DECLARED_SAME,         /* as before, or for the first time, or nothing of the old form lives */
    STORE_DECLARED_CHANGED,      /* records of the old form live until *until_ms (0: none does) */
    STORE_DECLARED_NOT_ANSWERED, /* the writer did not get to it within timeout_ms; it may still note it later */
};
/* Says what identifies the actions of a scope name (scope, key, on_mismatch, fingerprint). Blocks at most for
 * timeout_ms. */
enum store_declared store_declare_scope(struct store *store, const char *scope_name,
                                        const uint8_t digest[STORE_HASH_LEN], int64_t timeout_ms, int64_t *until_ms);

/* ---- for people (blocking; never on a worker's loop) ------------------------------------------- */

/* One action as it is recorded now. What it points to is its own until store_action_clear(). */
struct store_action {
    struct store_id id;
    uint64_t number; /* grows with each first reservation, never given twice: the order of a listing, and its cursor */
    char *route, *scope_name;
    char *task; /* NULL: none */
    char *key;  /* text of a sent key; NULL for a derived one */
    enum store_key_source key_source;
    enum store_state state;
    enum store_reason reason; /* why it is unknown; of a completed one STORE_REASON_NONE */
    uint16_t status;          /* of the recorded or last response, 0 if none was seen */
    uint32_t executions;
    int64_t created_ms, since_ms, expires_ms; /* store time; expires_ms STORE_FOREVER: never, also while in progress */
    bool not_kept;                            /* there was a response, too large to record */
    char *decision;                           /* what a person decided and when; NULL: nobody did */
    struct store_bytes *response;             /* store_get() only; NULL: none is recorded */
};
void store_action_clear(struct store_action *action); /* of a zeroed one too */

enum store_read {
    STORE_READ_DONE,
    STORE_READ_ABSENT, /* store_get: no such record, or it has expired */
    STORE_READ_FAILED, /* the engine cannot be read now; asking again is safe */
};

/* Which actions. NULL and 0 leave a field open; what is set must hold together. */
struct store_query {
    enum store_state state;         /* 0: any */
    const char *route, *task, *key; /* exact; `key` is the text of a sent key */
    uint64_t after;                 /* cursor of the page before; 0: from the oldest */
    size_t limit;                   /* at most so many actions, 1 … STORE_PAGE_MAX */
};
#define STORE_PAGE_MAX 1000

struct store_page {
    struct store_action *actions; /* by number */
    size_t count;
    uint64_t next; /* cursor of the next page; 0: that was all. A page may be short, even empty, and yet have a next:
                      a call looks at a bounded number of records */
};

/* A page of the records that are there now. Paging stays right while records change: each action that is there from
 * the first page to the last and fits the query all the while is seen exactly once. Expired records are left out.
 * Threads: any; calls do not hold up the writer. */
enum store_read store_scan(struct store *store, const struct store_query *query, struct store_page *out);
void store_page_clear(struct store_page *page);

/* One action, its response included. */
enum store_read store_get(struct store *store, const struct store_id *id, struct store_action *out);

/* Writes a consistent copy of the store to `fd` (an open, empty file): a directory with this file as data.mdb is a
 * store. Every outcome that was acknowledged before the call is in it. False, with a message in `error`, if it could
 * not; what has been written by then is of no use. Takes as long as the disk needs; the proxy goes on meanwhile. One at
 * a time. It is given up when the store must be reopened, or when what is written meanwhile nearly fills it: a copy
 * never costs an outcome its room. The copy is not synced. The memory engine has no backup. Restoring forgets newer
 * keys: they would execute again. */
bool store_backup(struct store *store, int fd, char *error, size_t error_size);
/* From any thread: a backup that runs fails soon. For the end of the process; store_close() must find none of the calls
 * for people running. */
void store_backup_stop(struct store *store);
