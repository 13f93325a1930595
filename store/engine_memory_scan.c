/*
 * engine_memory_scan.c - the memory engine's side of what people see: the whole table is looked through and sorted.
 *
 * It has no backup: nothing of it outlives the process.
 */
#include "store/allocate.h"
#include "store/engine_memory.h"

#include <stdio.h>
#include <string.h>

static bool is_in_range(const struct engine_walk *walk, const struct record *record)
{
    const struct record_text *task = &record->reservation.task;
    switch (walk->range) {
    case ENGINE_ALL:
        return true;
    case ENGINE_OPEN:
        return record->open;
    case ENGINE_UNKNOWN:
        return !record->open && record->outcome.state == STORE_UNKNOWN;
    case ENGINE_TASK:
        return task->len == walk->task.len && memcmp(task->data, walk->task.data, task->len) == 0;
    }
    return false;
}

static int by_number(const void *left, const void *right)
{
    const struct node *const *one = left, *const *other = right;
    return ((*one)->record.seq > (*other)->record.seq) - ((*one)->record.seq < (*other)->record.seq);
}

/* All that the walk may meet, in order. */
static struct node **collect(struct memory *memory, const struct engine_walk *walk, size_t *count)
{
    struct node **nodes = STORE_NEW_ARRAY(struct node *, memory->in_progress + memory->completed + memory->unknown);
    *count = 0;
    for (unsigned i = 0; i < CHAINS; i++)
        for (struct node *node = memory->chains[i]; node; node = node->next)
            if (node->record.seq > walk->after && is_in_range(walk, &node->record))
                nodes[(*count)++] = node;
    qsort(nodes, *count, sizeof(*nodes), by_number);
    return nodes;
}

enum engine_error memory_walk(struct engine *engine, struct engine_walk *walk)
{
    struct memory *memory = memory_of(engine);
    size_t count, at = 0;
    pthread_mutex_lock(&memory->lock);
    bool dead = memory->dead, enough = dead;
    struct node **nodes = collect(memory, walk, &count);
    walk->last = walk->after;
    while (!enough && at < count && at < walk->budget) {
        walk->last = nodes[at]->record.seq;
        enough = !walk->visit(walk->arg, &nodes[at++]->record);
    }
    walk->over = at == count;
    pthread_mutex_unlock(&memory->lock);
    free(nodes);
    return dead ? ENGINE_IO : ENGINE_OK;
}

enum engine_error memory_show(struct engine *engine, const struct store_id *id,
                              void (*visit)(void *arg, const struct record *record, struct store_bytes *response),
                              void *arg, bool *found)
{
    struct memory *memory = memory_of(engine);
    pthread_mutex_lock(&memory->lock);
    bool dead = memory->dead;
    struct node *node = dead ? NULL : memory_find(memory, id);
    *found = node != NULL;
    if (node)
        visit(arg, &node->record, node->record.has_outcome ? node->response : NULL);
    pthread_mutex_unlock(&memory->lock);
    return dead ? ENGINE_IO : ENGINE_OK;
}

bool memory_backup(struct engine *engine, int fd, char *error, size_t error_size)
{
    (void)engine, (void)fd;
    snprintf(error, error_size, "the memory engine has no backup");
    return false;
}

void memory_stop_backup(struct engine *engine)
{
    (void)engine;
}
