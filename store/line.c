/*
 * line.c - a hash table of actions, each with its line, and the list of outcomes that are still to be written.
 *
 * Ids are hashes already, so their bytes choose the chain. The table doubles when there are more actions than chains;
 * that moves pointers only. Invariants: whoever stands in a line, its action has a token; kept actions are in the list
 * of kept ones.
 */
#include "store/line.h"

#include "store/allocate.h"

#include <assert.h>
#include <string.h>

#define FIRST_CHAINS 1024 /* a power of two */

void lines_open(struct lines *lines)
{
    *lines = (struct lines){.chain_count = FIRST_CHAINS};
    lines->chains = STORE_NEW_ARRAY(struct action *, lines->chain_count);
}

void lines_close(struct lines *lines)
{
    assert(lines->waiting == 0);
    for (size_t i = 0; i < lines->chain_count; i++)
        for (struct action *action = lines->chains[i], *next; action; action = next) {
            next = action->next;
            if (action->kept)
                lines_forget_kept(lines, action);
            free(action);
        }
    free(lines->chains);
}

static size_t chain_of(const struct lines *lines, const struct store_id *id)
{
    uint64_t key = record_get64(id->bytes) ^ record_get64(id->bytes + STORE_ID_LEN / 2);
    return (size_t)key & (lines->chain_count - 1);
}

struct action *lines_find(struct lines *lines, const struct store_id *id)
{
    struct action *action = lines->chains[chain_of(lines, id)];
    while (action && memcmp(&action->id, id, sizeof *id) != 0)
        action = action->next;
    return action;
}

static void grow(struct lines *lines)
{
    struct action **before = lines->chains;
    size_t count = lines->chain_count;
    lines->chain_count *= 2;
    lines->chains = STORE_NEW_ARRAY(struct action *, lines->chain_count);
    for (size_t i = 0; i < count; i++)
        for (struct action *action = before[i], *next; action; action = next) {
            struct action **chain = &lines->chains[chain_of(lines, &action->id)];
            next = action->next;
            action->next = *chain;
            *chain = action;
        }
    free(before);
}

struct action *lines_get(struct lines *lines, const struct store_id *id)
{
    struct action *action = lines_find(lines, id);
    if (action)
        return action;
    if (lines->actions >= lines->chain_count)
        grow(lines);
    struct action **chain = &lines->chains[chain_of(lines, id)];
    action = STORE_NEW(struct action);
    action->id = *id;
    action->next = *chain;
    *chain = action;
    lines->actions++;
    return action;
}

void lines_drop_idle(struct lines *lines, struct action *action)
{
    if (action->token || action->kept || action->busy)
        return;
    assert(!action->first);
    struct action **at = &lines->chains[chain_of(lines, &action->id)];
    while (*at != action)
        at = &(*at)->next;
    *at = action->next;
    lines->actions--;
    free(action);
}

void line_join(struct lines *lines, struct action *action, struct store_op *op)
{
    assert(action->token && op->verb == STORE_RESERVE);
    op->place = PLACE_LINE;
    op->line_next = NULL;
    op->line_prev = action->last;
    if (action->last)
        action->last->line_next = op;
    else
        action->first = op;
    action->last = op;
    action->waiting++;
    lines->waiting++;
}

void line_leave(struct lines *lines, struct action *action, struct store_op *op)
{
    assert(op->place == PLACE_LINE || op->place == PLACE_PASSED);
    if (op->line_prev)
        op->line_prev->line_next = op->line_next;
    else
        action->first = op->line_next;
    if (op->line_next)
        op->line_next->line_prev = op->line_prev;
    else
        action->last = op->line_prev;
    op->line_next = op->line_prev = NULL;
    op->place = PLACE_NONE;
    action->waiting--;
    lines->waiting--;
}

/* Only what the ledger and the engine read of an owner's op; its strings are not theirs to read. */
void lines_keep(struct lines *lines, struct action *action, const struct store_op *op)
{
    assert(!action->kept);
    action->kept = STORE_NEW(struct store_op);
    action->kept->verb = op->verb;
    action->kept->id = op->id;
    action->kept->token = op->token;
    action->kept->reason = op->reason;
    action->kept->response = store_bytes_ref(op->response);
    action->kept->not_kept = op->not_kept;
    action->kept->not_happened = op->not_happened;
    action->kept->status = op->status;
    action->kept->retention_ms = op->retention_ms;
    action->kept->forwarded_until_ms = op->forwarded_until_ms;
    action->kept_next = NULL;
    action->kept_prev = lines->kept_last;
    if (lines->kept_last)
        lines->kept_last->kept_next = action;
    else
        lines->kept_first = action;
    lines->kept_last = action;
    lines->kept++;
    lines->kept_bytes += op->response ? op->response->len : 0;
}

void lines_forget_kept(struct lines *lines, struct action *action)
{
    assert(action->kept);
    if (action->kept_prev)
        action->kept_prev->kept_next = action->kept_next;
    else
        lines->kept_first = action->kept_next;
    if (action->kept_next)
        action->kept_next->kept_prev = action->kept_prev;
    else
        lines->kept_last = action->kept_prev;
    action->kept_next = action->kept_prev = NULL;
    lines->kept_bytes -= action->kept->response ? action->kept->response->len : 0;
    store_bytes_unref(action->kept->response);
    free(action->kept);
    action->kept = NULL;
    lines->kept--;
}
