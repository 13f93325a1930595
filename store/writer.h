/*
 * writer.h - the store from inside: what its thread owns, and what it shares. Private to store/.
 *
 *     store.c    opening, closing, status, scopes' declarations
 *     handle.c   a worker's side: submitting, look-ups, delivery
 *     writer.c   the thread: what is queued becomes groups, a group becomes a transaction
 *     task.c     one op of a group: inside the transaction, and after it
 *     line.c     who holds an action, who waits for it
 *     scan.c     what people see
 *
 * The law of a group: no action occurs in it twice. An op about an action that this group is busy with waits for the
 * next one. So whatever the transaction does to an action is done by one op, nothing in memory changes before the
 * commit has succeeded, and after a failed commit every op can be tried again alone.
 */
#pragma once

#include "store/clock.h"
#include "store/engine.h"
#include "store/handle.h"
#include "store/ledger.h"
#include "store/line.h"
#include "store/lock.h"

#include <pthread.h>

#define KEPT_MAX        10000 /* endings; beyond, while commits fail, new reservations are refused without a try */
#define KEPT_BYTES_MAX  (64u << 20) /* the same for their responses */
#define GROUP_OPS_MAX   256
#define GROUP_BYTES_MAX (8u << 20) /* responses in one transaction */
#define SWEEP_MAX       256

/* What identifies the actions of a scope name is told by store_declare_scope(); until when its records live, by each
 * ending. */
struct scope {
    struct scope *next;
    char *name;
    bool known;                /* `value` is what the engine has */
    struct record_scope value; /* as committed */
    int64_t pending_ms;        /* an expiry written in the present transaction; 0: none */
};

/* What became of one question to the ledger. */
struct decision {
    struct ledger_verdict verdict;
    struct record record; /* of a grant: the record as it now is; of others: as it was */
    bool had_record;
};

/* One op of the present group, and what came out in the present transaction. */
struct task {
    struct store_op *op; /* as submitted; for what the store writes again by itself: action->kept */
    struct action *action;
    bool own;            /* op is action->kept */
    bool bare;           /* tried again without its response, which did not fit */
    bool ambiguous;      /* a commit with it failed: its traces may be in the engine all the same */
    bool owns;           /* op's token is held */
    uint64_t token;      /* offered to op; the same in each try */
    uint64_t heir_token; /* offered to whoever in the line executes next */

    bool wrote_kept; /* the action's kept ending was written first */
    struct decision decision;
    struct store_op *heir; /* got the execution handed on */
    struct decision heir_decision;
    bool hands_on; /* the line was asked for an heir */
};

/* A call of a control thread, run by the writer between two groups. On the heap: a caller who cannot wait any longer
 * leaves it to the writer, which then frees it. */
struct control {
    struct control *next;
    void (*run)(struct store *store, struct control *control);
    bool done, left;
};

struct writer { /* the thread's own */
    struct lines lines;
    struct store_op *pending, **pending_end; /* taken from the queue, not yet decided; linked by queue_next */
    struct task tasks[GROUP_OPS_MAX];
    unsigned task_count;
    size_t group_bytes;
    struct store_handle *decided; /* handles with answers to hand over, linked by decided_next */
    struct scope *scopes;
    unsigned sweep_limit;   /* halved when a sweep does not fit */
    bool failing;           /* the last commit or begin failed, for another reason than room */
    bool sweep_more;        /* the last one found as much as it was allowed to */
    bool wrote;             /* the present transaction has something to commit */
    bool knows_closing;     /* …and has looked once whether there is nothing more to do */
    int64_t maintain_at_ms; /* these by the boot-time clock, which tests do not move */
    int64_t retry_at_ms;    /* kept outcomes, and commits while the store fails */
    int64_t retry_delay_ms; /* 0: nothing failed lately */
    int64_t reopen_at_ms;
};

struct store {
    struct store_config config; /* strings are our own copies */
    struct store_lock lock;
    struct engine *engine; /* the writer's; handles only peek() */
    struct store_clock clock;
    uint8_t boot[RECORD_BOOT_LEN];
    pthread_t thread;

    pthread_mutex_t queue_lock;
    pthread_cond_t wake, control_over;
    struct store_op *queue, **queue_end;
    struct control *controls, **controls_end;
    bool sleeping, has_cancelled, closing;
    int64_t close_by_ms;     /* boot-time clock */
    bool written, abandoned; /* how the thread ended: every outcome is written; handles were still open */

    pthread_mutex_t handles_lock;
    struct store_handle *handles;

    pthread_mutex_t people_lock; /* held while people read; the writer takes it to reopen the engine */
    bool left_open; /* what an earlier run left in progress could not all be made unknown; set at the start */

    pthread_mutex_t status_lock;
    struct store_status status;
    atomic_bool look_ups_fail;

    struct writer writer;
};

static inline int64_t boot_time_ms(void)
{
    return store_clock_read_ms(CLOCK_BOOTTIME);
}

void store_say(struct store *store, enum store_log_level level, const char *message);

/* Debug builds only: dies here if config->crash_at names this step. */
#ifdef EINMAL_CRASH_POINTS
void store_crash_point(struct store *store, const char *step);
#else
static inline void store_crash_point(struct store *store, const char *step)
{
    (void)store, (void)step;
}
#endif

/* writer.c */
void *writer_main(void *store);
/* Wakes the thread; the queue's lock is held. */
void writer_wake(struct store *store);
/* A transaction on the writer's thread, the engine reopened first if it refuses; before the thread runs, on the
 * opener's. */
enum engine_error writer_begin(struct store *store);

/* task.c */
struct store_result failed_result(enum engine_error error);
void answer_op(struct store_op *op, const struct store_result *result);
/* Decides a RESERVE by what is known in memory. True: it is answered, or stands in line. */
bool answer_from_memory(struct store *store, struct action *action, struct store_op *op);
/* Inside a transaction. An error means that the transaction must be aborted. */
enum engine_error task_run(struct store *store, struct task *task);
/* Forgets what came out: the transaction did not count. */
void task_reset(struct task *task);
/* The transaction counts. */
void task_finish(struct store *store, struct task *task);
/* It did not, after all tries. */
void task_fail(struct store *store, struct task *task, enum engine_error error);
/* Everybody in the line is answered the same. Takes no reference of result->response: each answer gets its own. */
void answer_line(struct store *store, struct action *action, struct store_result result);

/* scope.c */
struct scope *scope_intern(struct writer *writer, const char *name);
/* In a transaction: a record of the scope expires then. */
enum engine_error scope_expects(struct store *store, struct scope *scope, int64_t expires_ms);
/* In a transaction: the scope's value is known afterwards. */
enum engine_error scope_load(struct store *store, struct scope *scope);
void scopes_transaction_over(struct writer *writer, bool counts);
void scopes_close(struct writer *writer);

/* For tests. */
struct engine *store_engine_of(struct store *store);
void store_move_clock(struct store *store, int64_t ms);
