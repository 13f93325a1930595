/*
 * engine_memory.h - what the two halves of the memory engine share. Private to engine_memory*.c.
 */
#pragma once

#include "store/engine.h"

#include <pthread.h>

#define CHAINS    1024
#define NODE_SIZE 512 /* what a record without its response counts for the quota */

/* Texts of `record` point into `texts` and `decision`; `response` and `decision` are shared with the undo list. */
struct node {
    struct node *next;
    struct record record;
    char *texts;
    struct store_bytes *response, *decision;
};

enum undo_kind { UNDO_LINK, UNDO_UNLINK, UNDO_CHANGE };

struct undo {
    struct undo *next;
    enum undo_kind kind;
    struct node *node;
    struct node before; /* UNDO_CHANGE; holds references to its response and decision */
};

struct scope {
    struct scope *next;
    char *name;
    struct record_scope value;
};

struct memory {
    struct engine engine; /* first */
    pthread_mutex_t lock;
    struct node *chains[CHAINS];
    struct undo *undo;
    struct scope *scopes;
    uint64_t used, max_size;
    uint64_t in_progress, completed, unknown;
    int64_t next_expiry_ms; /* nothing expires before */
    bool in_transaction, dead;
    enum engine_memory_fault fault;
    unsigned faults;
};

static inline struct memory *memory_of(struct engine *engine)
{
    return (struct memory *)engine;
}

struct node *memory_find(struct memory *memory, const struct store_id *id);

/* engine_memory_scan.c: what people see */
enum engine_error memory_walk(struct engine *engine, struct engine_walk *walk);
enum engine_error memory_show(struct engine *engine, const struct store_id *id,
                              void (*visit)(void *arg, const struct record *record, struct store_bytes *response),
                              void *arg, bool *found);
bool memory_backup(struct engine *engine, int fd, char *error, size_t error_size);
void memory_stop_backup(struct engine *engine);
