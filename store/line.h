/*
 * line.h - what the writer knows of an action that is going on: who holds it, who waits for it. Private to store/.
 *
 * An action is known here from the moment of a grant until its ending is written (or while an op of the present group
 * is about it). The line of an action is first come, first served. All of it belongs to the writer's thread.
 *
 *     token  kept    meaning
 *     0      NULL    only busy: an op of this group asks about it
 *     T      NULL    an exchange executes it; others may wait
 *     T      op      it has ended, but that could not be written: the store holds the token and writes again
 *     0      op      a grant whose commit failed, and which may be in the engine all the same: the store takes it back
 */
#pragma once

#include "store/record.h"

enum place { PLACE_NONE, PLACE_QUEUED, PLACE_LINE, PLACE_PASSED };

struct scope;

struct action {
    struct action *next; /* in its chain */
    struct store_id id;
    uint64_t token;
    uint64_t ghost_from;   /* not 0: a grant with it or a later one failed, and may be in the engine all the same */
    struct record record;  /* if token: as it was granted */
    struct scope *scope;   /* if token */
    struct store_op *kept; /* a copy of the op that could not be written */
    struct action *kept_next, *kept_prev;
    struct store_op *first, *last; /* the line */
    uint32_t waiting;
    bool unsent; /* handed on because nothing had been sent: that happens once */
    bool busy;
};

struct lines {
    struct action **chains;
    size_t chain_count, actions;
    atomic_uint waiting; /* in all lines; read by store_status() on other threads */
    struct action *kept_first, *kept_last;
    size_t kept;
    size_t kept_bytes; /* of their responses */
};

void lines_open(struct lines *lines);
void lines_close(struct lines *lines); /* asserts that nobody waits */

struct action *lines_find(struct lines *lines, const struct store_id *id); /* NULL: nothing is known */
struct action *lines_get(struct lines *lines, const struct store_id *id);  /* made if need be */
/* Forgets the action if there is nothing to know. */
void lines_drop_idle(struct lines *lines, struct action *action);

void line_join(struct lines *lines, struct action *action, struct store_op *op);
void line_leave(struct lines *lines, struct action *action, struct store_op *op);

/* Takes a copy of `op` with a reference to its response. */
void lines_keep(struct lines *lines, struct action *action, const struct store_op *op);
void lines_forget_kept(struct lines *lines, struct action *action);
