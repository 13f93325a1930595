/*
 * engine.h - what the store asks of whatever holds the records: private to store/.
 *
 * An engine keeps records and finds them; it decides nothing. All writing happens on the writer's thread, between
 * begin() and commit() or abort(); one write transaction at a time. The steps of a transaction see each other; nobody
 * else sees them before commit() has returned ENGINE_OK.
 *
 * ERRORS. After a failed step the transaction may be poisoned: abort it. After a failed commit() it is over, and it is
 * *not known* whether it counts: a later transaction may find its traces. ENGINE_FULL is about room, for this step or
 * this commit; ENGINE_IO about everything else, also a record that cannot be read. If begin() fails, reopen() is the
 * cure.
 *
 * THREADS. peek(), walk() and show() may be called from any thread, but not while reopen() or close() runs (the locks
 * of the handles and of the people see to that). backup() may go on while reopen() is called: that gives it up.
 *
 * MEMORY. Texts in records that find(), peek() and first_open() return are not valid: only what is held by value is.
 * What walk() and show() hand to visit() is valid, texts included, until that returns.
 */
#pragma once

#include "store/record.h"

enum engine_error { ENGINE_OK = 0, ENGINE_FULL, ENGINE_IO };

struct engine_config {
    const char *path;
    int directory; /* open descriptor of path, already locked */
    uint64_t max_size;
    bool create, strict;
    uint32_t recent_max; /* ids kept in memory before they are merged into an index; 0: the engine's own measure */
    void (*log)(void *arg, enum store_log_level level, const char *message);
    void *log_arg;
};

struct engine_status {
    uint64_t used_bytes, max_bytes;
    uint64_t in_progress, completed, unknown;
    int64_t oldest_unknown_ms; /* 0: none */
    bool has_room;             /* below the high-water mark: takes new reservations */
};

struct engine;

/* Records in the order of their numbers (record.seq), from a snapshot. */
enum engine_range {
    ENGINE_ALL,
    ENGINE_OPEN,    /* in progress, of whatever boot */
    ENGINE_UNKNOWN, /* ended, and unknown */
    ENGINE_TASK,    /* with this task, and perhaps some others: compare */
};

struct engine_walk {
    enum engine_range range;
    struct record_text task;                               /* ENGINE_TASK: not empty */
    uint64_t after;                                        /* only greater numbers */
    unsigned budget;                                       /* so many records are looked at, at most */
    bool (*visit)(void *arg, const struct record *record); /* false: enough */
    void *arg;
    /* filled by walk() */
    uint64_t last; /* the number of the last record that was looked at; `after` if there was none */
    bool over;     /* there is none beyond it */
};

struct engine_operations {
    const char *name;
    bool needs_directory;
    /* NULL on error, with a message that names the path. */
    struct engine *(*open)(const struct engine_config *config, char *error, size_t error_size);
    void (*close)(struct engine *engine);
    enum engine_error (*reopen)(struct engine *engine);

    enum engine_error (*begin)(struct engine *engine);
    enum engine_error (*commit)(struct engine *engine, int64_t now_ms);
    void (*abort)(struct engine *engine);

    /* -- inside a write transaction -- */
    enum engine_error (*find)(struct engine *engine, const struct store_id *id, struct record *out, bool *found);
    /* Is there a live record of another identity with the same first half of the id and the same content? */
    enum engine_error (*find_other)(struct engine *engine, const struct store_id *id, const uint8_t *content,
                                    int64_t now_ms, bool *found);
    /* A new record, in progress; an expired one with the same id is replaced. Texts are borrowed for the call. */
    enum engine_error (*insert)(struct engine *engine, const struct record_reservation *reservation,
                                const struct record_opening *opening);
    enum engine_error (*reopen_record)(struct engine *engine, const struct record *record,
                                       const struct record_opening *opening);
    /* `response` goes with outcome->has_response. `keep`: the response and decision of the prior outcome stay. */
    enum engine_error (*settle)(struct engine *engine, const struct record *record,
                                const struct record_outcome *outcome, const struct store_bytes *response, bool keep);
    enum engine_error (*restore)(struct engine *engine, const struct record *record);
    enum engine_error (*erase)(struct engine *engine, const struct record *record);
    enum engine_error (*response)(struct engine *engine, const struct record *record, struct store_bytes **out);
    /* Removes at most `limit` records that have expired, the oldest first; never one in progress. */
    enum engine_error (*sweep)(struct engine *engine, int64_t now_ms, unsigned limit, unsigned *swept);
    /* Any record in progress, with the name of its scope (`scope_name` has RECORD_STRING_MAX + 1 bytes). */
    enum engine_error (*first_open)(struct engine *engine, struct record *out, bool *found, char *scope_name);
    /* The name of the record's scope, into as many bytes. */
    enum engine_error (*scope_name)(struct engine *engine, const struct record *record, char *scope_name);
    enum engine_error (*get_scope)(struct engine *engine, const char *name, struct record_scope *out, bool *found);
    enum engine_error (*put_scope)(struct engine *engine, const char *name, const struct record_scope *scope);

    /* -- on the writer's thread, outside of one -- */
    bool (*is_due)(struct engine *engine, int64_t now_ms); /* has anything expired that sweep() would remove? */
    void (*status)(struct engine *engine, struct engine_status *out);
    enum engine_error (*maintain)(struct engine *engine); /* every second or so: what is not done by each commit */

    /* -- on any thread -- */
    /* The record from a snapshot, and if it has ended and has this fingerprint, its response (a reference of the
     * caller's). */
    enum engine_error (*peek)(struct engine *engine, const struct store_id *id, const uint8_t *fingerprint,
                              struct record *out, bool *found, struct store_bytes **response);
    enum engine_error (*walk)(struct engine *engine, struct engine_walk *walk);
    /* Visits the record with this id, if there is one. `response`: the recorded one or NULL, borrowed for the call. */
    enum engine_error (*show)(struct engine *engine, const struct store_id *id,
                              void (*visit)(void *arg, const struct record *record, struct store_bytes *response),
                              void *arg, bool *found);
    /* False, with a message. One at a time. */
    bool (*backup)(struct engine *engine, int fd, char *error, size_t error_size);
    void (*stop_backup)(struct engine *engine); /* one that runs fails soon; waits for nothing */
};

/* What every engine begins with. Counters only ever grow in memory, also when a transaction is aborted. */
struct engine {
    const struct engine_operations *operations;
    uint64_t next_seq, next_token;
    int64_t newest_ms; /* the latest time that was written; store time never goes below */
    bool has_room;     /* as of begin() */
};

extern const struct engine_operations engine_lmdb;
extern const struct engine_operations engine_memory;

/* For tests: what the memory engine does to the next commits. Call only while the writer is idle, or from its own
 * thread. */
enum engine_memory_fault {
    ENGINE_MEMORY_SOUND,
    ENGINE_MEMORY_COMMIT_FAILS, /* and does not count */
    ENGINE_MEMORY_COMMIT_LIES,  /* fails, and yet counts */
    ENGINE_MEMORY_BEGIN_FAILS,  /* until it is reopened */
    ENGINE_MEMORY_COMMIT_FULL,  /* whatever carries a response does not fit */
};
void engine_memory_inject(struct engine *engine, enum engine_memory_fault fault, unsigned commits);
