/*
 * engine_memory.c - the same contract in a hash table: for tests, and as the thing that the LMDB engine is compared
 * with.
 *
 * Nodes are chained by the first half of the id, so that the neighbours of other identities share a chain. A
 * transaction holds the lock from begin to its end and changes nodes in place; an undo list brings them back when it is
 * aborted. Look-ups take the same lock. Nothing survives close(). What it leaves out: texts (but the scope's name),
 * undoing of scopes, speed.
 *
 * The invariant: after commit or abort the undo list is empty, and `used` is the sum over all nodes.
 */
#include "store/allocate.h"
#include "store/engine.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define CHAINS    1024
#define NODE_SIZE 512 /* what a record without its response counts for the quota */

struct node {
    struct node *next;
    struct record record;
    char *scope_name;
    struct store_bytes *response;
};

enum undo_kind { UNDO_LINK, UNDO_UNLINK, UNDO_CHANGE };

struct undo {
    struct undo *next;
    enum undo_kind kind;
    struct node *node;
    struct node before; /* UNDO_CHANGE; holds a reference to its response */
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
    int64_t next_expiry_ms; /* nothing expires before */
    bool in_transaction, dead;
    enum engine_memory_fault fault;
    unsigned faults;
};

static struct memory *memory_of(struct engine *engine)
{
    return (struct memory *)engine;
}

static struct node **chain_of(struct memory *memory, const struct store_id *id)
{
    return &memory->chains[((unsigned)id->bytes[0] << 8 | id->bytes[1]) % CHAINS];
}

static struct node *find_node(struct memory *memory, const struct store_id *id)
{
    struct node *node = *chain_of(memory, id);
    while (node && memcmp(&node->record.reservation.id, id, sizeof *id) != 0)
        node = node->next;
    return node;
}

static uint64_t size_of(const struct node *node)
{
    return NODE_SIZE + (node->response ? node->response->len : 0);
}

/* ---- undo ------------------------------------------------------------------------------------- */

static void link_node(struct memory *memory, struct node *node)
{
    struct node **chain = chain_of(memory, &node->record.reservation.id);
    node->next = *chain;
    *chain = node;
    memory->used += size_of(node);
}

static void unlink_node(struct memory *memory, struct node *node)
{
    struct node **at = chain_of(memory, &node->record.reservation.id);
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    memory->used -= size_of(node);
}

static void free_node(struct node *node)
{
    store_bytes_unref(node->response);
    free(node->scope_name);
    free(node);
}

static void remember(struct memory *memory, enum undo_kind kind, struct node *node)
{
    struct undo *undo = STORE_NEW(struct undo);
    *undo = (struct undo){.next = memory->undo, .kind = kind, .node = node};
    if (kind == UNDO_CHANGE) {
        undo->before = *node;
        store_bytes_ref(undo->before.response);
    }
    memory->undo = undo;
}

static void take_back(struct memory *memory, struct undo *undo)
{
    struct node *node = undo->node;
    switch (undo->kind) {
    case UNDO_LINK:
        unlink_node(memory, node);
        free_node(node);
        return;
    case UNDO_UNLINK:
        link_node(memory, node);
        return;
    case UNDO_CHANGE:
        memory->used -= size_of(node);
        store_bytes_unref(node->response);
        node->record = undo->before.record;
        node->response = undo->before.response;
        memory->used += size_of(node);
        return;
    }
}

static void let_stand(struct undo *undo)
{
    if (undo->kind == UNDO_UNLINK)
        free_node(undo->node);
    else if (undo->kind == UNDO_CHANGE)
        store_bytes_unref(undo->before.response);
}

static void end_transaction(struct memory *memory, bool counts)
{
    assert(memory->in_transaction);
    while (memory->undo) {
        struct undo *undo = memory->undo;
        memory->undo = undo->next;
        if (counts)
            let_stand(undo);
        else
            take_back(memory, undo);
        free(undo);
    }
    memory->in_transaction = false;
    pthread_mutex_unlock(&memory->lock);
}

/* ---- transactions ----------------------------------------------------------------------------- */

static bool strike(struct memory *memory, enum engine_memory_fault fault)
{
    if (memory->fault != fault || memory->faults == 0)
        return false;
    memory->faults--;
    return true;
}

static enum engine_error begin(struct engine *engine)
{
    struct memory *memory = memory_of(engine);
    pthread_mutex_lock(&memory->lock);
    assert(!memory->in_transaction && !memory->undo);
    if (memory->dead || strike(memory, ENGINE_MEMORY_BEGIN_FAILS)) {
        memory->dead = true;
        pthread_mutex_unlock(&memory->lock);
        return ENGINE_IO;
    }
    memory->in_transaction = true;
    engine->has_room = memory->used < memory->max_size - memory->max_size / 10;
    return ENGINE_OK;
}

static enum engine_error commit(struct engine *engine, int64_t now_ms)
{
    struct memory *memory = memory_of(engine);
    bool fails = strike(memory, ENGINE_MEMORY_COMMIT_FAILS), lies = strike(memory, ENGINE_MEMORY_COMMIT_LIES);
    if (!fails && now_ms > engine->newest_ms)
        engine->newest_ms = now_ms;
    end_transaction(memory, !fails);
    return fails || lies ? ENGINE_IO : ENGINE_OK;
}

static void abort_transaction(struct engine *engine)
{
    if (memory_of(engine)->in_transaction)
        end_transaction(memory_of(engine), false);
}

static enum engine_error reopen(struct engine *engine)
{
    struct memory *memory = memory_of(engine);
    pthread_mutex_lock(&memory->lock);
    memory->dead = strike(memory, ENGINE_MEMORY_BEGIN_FAILS);
    bool dead = memory->dead;
    pthread_mutex_unlock(&memory->lock);
    return dead ? ENGINE_IO : ENGINE_OK;
}

void engine_memory_inject(struct engine *engine, enum engine_memory_fault fault, unsigned commits)
{
    struct memory *memory = memory_of(engine);
    assert(engine->operations == &engine_memory);
    pthread_mutex_lock(&memory->lock);
    memory->fault = fault;
    memory->faults = commits;
    pthread_mutex_unlock(&memory->lock);
}

/* ---- steps ------------------------------------------------------------------------------------ */

static enum engine_error find(struct engine *engine, const struct store_id *id, struct record *out, bool *found)
{
    struct node *node = find_node(memory_of(engine), id);
    *found = node != NULL;
    if (node)
        *out = node->record;
    return ENGINE_OK;
}

static enum engine_error find_other(struct engine *engine, const struct store_id *id, const uint8_t *content,
                                    int64_t now_ms, bool *found)
{
    *found = false;
    for (struct node *node = *chain_of(memory_of(engine), id); node && !*found; node = node->next) {
        const struct record *record = &node->record;
        bool same_key = memcmp(record->reservation.id.bytes, id->bytes, STORE_ID_LEN / 2) == 0;
        bool is_own = memcmp(&record->reservation.id, id, sizeof *id) == 0;
        bool is_live = record->open || record->outcome.expires_ms > now_ms;
        *found = same_key && !is_own && is_live && memcmp(record->reservation.content, content, STORE_HASH_LEN) == 0;
    }
    return ENGINE_OK;
}

static enum engine_error insert(struct engine *engine, const struct record_reservation *reservation,
                                const struct record_opening *opening)
{
    struct memory *memory = memory_of(engine);
    struct node *expired = find_node(memory, &reservation->id), *node = STORE_NEW(struct node);
    if (expired) {
        remember(memory, UNDO_UNLINK, expired);
        unlink_node(memory, expired);
    }
    node->record =
        (struct record){.seq = engine->next_seq++, .reservation = *reservation, .open = true, .opening = *opening};
    node->scope_name = store_must_allocate(strndup(reservation->scope_name.data, reservation->scope_name.len));
    node->record.reservation.route = node->record.reservation.scope_name = (struct record_text){"", 0};
    node->record.reservation.task = node->record.reservation.key = (struct record_text){"", 0};
    link_node(memory, node);
    remember(memory, UNDO_LINK, node);
    return ENGINE_OK;
}

static struct node *change(struct engine *engine, const struct record *record)
{
    struct node *node = find_node(memory_of(engine), &record->reservation.id);
    assert(node && node->record.seq == record->seq);
    remember(memory_of(engine), UNDO_CHANGE, node);
    return node;
}

static enum engine_error reopen_record(struct engine *engine, const struct record *record,
                                       const struct record_opening *opening)
{
    struct node *node = change(engine, record);
    node->record.open = true;
    node->record.opening = *opening;
    return ENGINE_OK;
}

static void expects(struct memory *memory, const struct record_outcome *outcome)
{
    if (outcome->expires_ms < memory->next_expiry_ms)
        memory->next_expiry_ms = outcome->expires_ms;
}

static enum engine_error settle(struct engine *engine, const struct record *record,
                                const struct record_outcome *outcome, const struct store_bytes *response, bool keep)
{
    struct memory *memory = memory_of(engine);
    if (response && strike(memory, ENGINE_MEMORY_COMMIT_FULL))
        return ENGINE_FULL;
    struct node *node = change(engine, record);
    memory->used -= size_of(node);
    struct record_outcome prior = node->record.outcome;
    node->record.open = false;
    node->record.has_outcome = true;
    node->record.outcome = *outcome;
    node->record.outcome.decision = node->record.outcome.inlined = (struct record_text){"", 0};
    if (keep) {
        node->record.outcome.has_response = prior.has_response;
        node->record.outcome.response_len = prior.response_len;
    } else {
        struct store_bytes *copy = response ? store_bytes_new(response->len) : NULL;
        if (copy)
            memcpy(copy->data, response->data, response->len);
        store_bytes_unref(node->response);
        node->response = copy;
    }
    memory->used += size_of(node);
    expects(memory, outcome);
    return ENGINE_OK;
}

static enum engine_error restore(struct engine *engine, const struct record *record)
{
    struct node *node = change(engine, record);
    node->record.open = false;
    expects(memory_of(engine), &node->record.outcome);
    return ENGINE_OK;
}

static enum engine_error erase(struct engine *engine, const struct record *record)
{
    struct memory *memory = memory_of(engine);
    struct node *node = find_node(memory, &record->reservation.id);
    assert(node && node->record.seq == record->seq);
    remember(memory, UNDO_UNLINK, node);
    unlink_node(memory, node);
    return ENGINE_OK;
}

static enum engine_error response_of(struct engine *engine, const struct record *record, struct store_bytes **out)
{
    struct node *node = find_node(memory_of(engine), &record->reservation.id);
    *out = node ? store_bytes_ref(node->response) : NULL;
    return *out ? ENGINE_OK : ENGINE_IO;
}

/* The whole table, but only when something may have expired. */
static enum engine_error sweep(struct engine *engine, int64_t now_ms, unsigned limit, unsigned *swept)
{
    struct memory *memory = memory_of(engine);
    int64_t next_ms = STORE_FOREVER;
    *swept = 0;
    if (memory->next_expiry_ms > now_ms)
        return ENGINE_OK;
    for (unsigned i = 0; i < CHAINS; i++) {
        for (struct node *node = memory->chains[i], *after; node; node = after) {
            after = node->next;
            if (node->record.open)
                continue;
            if (node->record.outcome.expires_ms <= now_ms && *swept < limit) {
                ++*swept;
                erase(engine, &node->record);
            } else if (node->record.outcome.expires_ms < next_ms) {
                next_ms = node->record.outcome.expires_ms;
            }
        }
    }
    memory->next_expiry_ms = next_ms;
    return ENGINE_OK;
}

static bool is_due(struct engine *engine, int64_t now_ms)
{
    struct memory *memory = memory_of(engine);
    pthread_mutex_lock(&memory->lock);
    bool due = memory->next_expiry_ms <= now_ms;
    pthread_mutex_unlock(&memory->lock);
    return due;
}

static enum engine_error first_open(struct engine *engine, struct record *out, bool *found, char *scope_name)
{
    struct memory *memory = memory_of(engine);
    *found = false;
    for (unsigned i = 0; i < CHAINS && !*found; i++)
        for (struct node *node = memory->chains[i]; node && !*found; node = node->next)
            if (node->record.open) {
                *out = node->record;
                *found = true;
                snprintf(scope_name, RECORD_STRING_MAX + 1, "%s", node->scope_name);
            }
    return ENGINE_OK;
}

static struct scope *find_scope(struct memory *memory, const char *name)
{
    struct scope *scope = memory->scopes;
    while (scope && strcmp(scope->name, name) != 0)
        scope = scope->next;
    return scope;
}

static enum engine_error get_scope(struct engine *engine, const char *name, struct record_scope *out, bool *found)
{
    struct scope *scope = find_scope(memory_of(engine), name);
    *found = scope != NULL;
    if (scope)
        *out = scope->value;
    return ENGINE_OK;
}

static enum engine_error put_scope(struct engine *engine, const char *name, const struct record_scope *value)
{
    struct memory *memory = memory_of(engine);
    struct scope *scope = find_scope(memory, name);
    if (!scope) {
        scope = STORE_NEW(struct scope);
        scope->name = store_must_allocate(strdup(name));
        scope->next = memory->scopes;
        memory->scopes = scope;
    }
    scope->value = *value;
    return ENGINE_OK;
}

/* ---- around them ------------------------------------------------------------------------------ */

static void count(struct memory *memory, struct engine_status *out)
{
    for (unsigned i = 0; i < CHAINS; i++)
        for (struct node *node = memory->chains[i]; node; node = node->next) {
            const struct record *record = &node->record;
            if (record->open) {
                out->in_progress++;
            } else if (record->outcome.state == STORE_COMPLETED) {
                out->completed++;
            } else {
                out->unknown++;
                if (!out->oldest_unknown_ms || record->outcome.since_ms < out->oldest_unknown_ms)
                    out->oldest_unknown_ms = record->outcome.since_ms;
            }
        }
}

static void status(struct engine *engine, struct engine_status *out)
{
    struct memory *memory = memory_of(engine);
    pthread_mutex_lock(&memory->lock);
    *out =
        (struct engine_status){.used_bytes = memory->used, .max_bytes = memory->max_size, .has_room = engine->has_room};
    count(memory, out);
    pthread_mutex_unlock(&memory->lock);
}

static enum engine_error maintain(struct engine *engine)
{
    return memory_of(engine)->dead ? ENGINE_IO : ENGINE_OK;
}

static enum engine_error peek(struct engine *engine, const struct store_id *id, const uint8_t *fingerprint,
                              struct record *out, bool *found, struct store_bytes **response)
{
    struct memory *memory = memory_of(engine);
    pthread_mutex_lock(&memory->lock);
    struct node *node = memory->dead ? NULL : find_node(memory, id);
    enum engine_error error = memory->dead ? ENGINE_IO : ENGINE_OK;
    *found = node != NULL;
    *response = NULL;
    if (node) {
        *out = node->record;
        if (!out->open && memcmp(out->reservation.fingerprint, fingerprint, STORE_HASH_LEN) == 0)
            *response = store_bytes_ref(node->response);
    }
    pthread_mutex_unlock(&memory->lock);
    return error;
}

static void close_engine(struct engine *engine)
{
    struct memory *memory = memory_of(engine);
    for (unsigned i = 0; i < CHAINS; i++)
        for (struct node *node = memory->chains[i], *after; node; node = after) {
            after = node->next;
            free_node(node);
        }
    for (struct scope *scope = memory->scopes, *after; scope; scope = after) {
        after = scope->next;
        free(scope->name);
        free(scope);
    }
    pthread_mutex_destroy(&memory->lock);
    free(memory);
}

static struct engine *open_engine(const struct engine_config *config, char *error, size_t error_size)
{
    struct memory *memory = STORE_NEW(struct memory);
    (void)error, (void)error_size;
    memory->engine = (struct engine){.operations = &engine_memory, .next_seq = 1, .next_token = 1, .has_room = true};
    memory->max_size = config->max_size;
    memory->next_expiry_ms = STORE_FOREVER;
    pthread_mutex_init(&memory->lock, NULL);
    return &memory->engine;
}

const struct engine_operations engine_memory = {
    .name = "memory",
    .needs_directory = false,
    .open = open_engine,
    .close = close_engine,
    .reopen = reopen,
    .begin = begin,
    .commit = commit,
    .abort = abort_transaction,
    .find = find,
    .find_other = find_other,
    .insert = insert,
    .reopen_record = reopen_record,
    .settle = settle,
    .restore = restore,
    .erase = erase,
    .response = response_of,
    .sweep = sweep,
    .first_open = first_open,
    .get_scope = get_scope,
    .put_scope = put_scope,
    .is_due = is_due,
    .status = status,
    .maintain = maintain,
    .peek = peek,
};
