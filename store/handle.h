/*
 * handle.h - the way back from the writer to a worker: private to store/.
 *
 * The writer calls handle_notice() and handle_answer(), and with handle_deliver_all() hands over what was answered
 * since: a group's answers go with one lock and one wake-up. The worker finds out by its descriptor and runs the
 * callbacks in store_handle_deliver(). The other direction has two ways: the store's queue (store_submit) and the
 * handle's list of ops that their askers take back, which the writer empties by handle_take_cancelled().
 *
 * The rule that makes store_cancel() safe: only the writer answers an op, and it takes the op off the list of cancelled
 * ones when it does. So what the writer has taken from that list lives until the writer itself answers it.
 */
#pragma once

#include "store/store.h"

#include <pthread.h>

struct store_handle {
    struct store *store;
    struct store_handle *next, *prev; /* all handles of the store, under store->handles_lock */
    int fd;                           /* eventfd: readable while something is to be delivered */
    unsigned out;                     /* ops submitted and not yet delivered; the worker's */

    struct store_op *decided, **decided_end; /* answered, not yet handed over; these three are the writer's */
    struct store_handle *decided_next;

    pthread_mutex_t lock; /* what follows */
    struct store_op *notices, **notices_end;
    struct store_op *answers, **answers_end;
    struct store_op *cancelled; /* doubly linked */

    pthread_mutex_t look_up_lock; /* held during a look-up; the writer takes all of them to be without readers */
};

/* All on the writer's thread. After handle_answer() the writer no longer touches the op; after handle_deliver_all() it
 * is the worker's, and the handle may be gone. */
void handle_notice(struct store_op *op);
void handle_answer(struct store_op *op);
void handle_deliver_all(struct store *store);
/* All that was cancelled since the last call, linked by cancel_next. */
struct store_op *handle_take_cancelled(struct store_handle *handle);
