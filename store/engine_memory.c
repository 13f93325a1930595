/*
 * engine_memory.c - the same contract in a hash table: for tests, and as the thing that the LMDB engine is compared
 * with.
 *
 * Nodes are chained by the first half of the id, so that the neighbours of other identities share a chain. A
 * transaction holds the lock from begin to its end and changes nodes in place; an undo list brings them back when it is
 * aborted. Look-ups take the same lock. Nothing survives close(). What it leaves out: undoing of scopes, speed.
 *
 * The invariant: after commit or abort the undo list is empty, and `used` and the counts are the sums over all nodes.
 */
#include "store/engine_memory.h"
#include "store/allocate.h"

#include <assert.h>
#include <string.h>

static struct node **chain_of(struct memory *memory, const struct store_id *id)
{
    return &memory->chains[((unsigned)id->bytes[0] << 8 | id->bytes[1]) % CHAINS];
}

struct node *memory_find(struct memory *memory, const struct store_id *id)
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

static uint64_t *count_of(struct memory *memory, const struct record *record)
{
    if (record->open)
        return &memory->in_progress;
    return record->outcome.state == STORE_COMPLETED ? &memory->completed : &memory->unknown;
}

static void add_to_sums(struct memory *memory, const struct node *node)
{
    memory->used += size_of(node);
    ++*count_of(memory, &node->record);
}

static void take_from_sums(struct memory *memory, const struct node *node)
{
    memory->used -= size_of(node);
    --*count_of(memory, &node->record);
}

static void link_node(struct memory *memory, struct node *node)
{
    struct node **chain = chain_of(memory, &node->record.reservation.id);
    node->next = *chain;
    *chain = node;
    add_to_sums(memory, node);
}

static void unlink_node(struct memory *memory, struct node *node)
{
    struct node **at = chain_of(memory, &node->record.reservation.id);
    while (*at != node)
        at = &(*at)->next;
    *at = node->next;
    take_from_sums(memory, node);
}

static void free_node(struct node *node)
{
    store_bytes_unref(node->response);
    store_bytes_unref(node->decision);
    free(node->texts);
    free(node);
}

static void remember(struct memory *memory, enum undo_kind kind, struct node *node)
{
    struct undo *undo = STORE_NEW(struct undo);
    *undo = (struct undo){.next = memory->undo, .kind = kind, .node = node};
    if (kind == UNDO_CHANGE) {
        undo->before = *node;
        store_bytes_ref(undo->before.response);
        store_bytes_ref(undo->before.decision);
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
        take_from_sums(memory, node);
        store_bytes_unref(node->response);
        store_bytes_unref(node->decision);
        node->record = undo->before.record;
        node->response = undo->before.response;
        node->decision = undo->before.decision;
        add_to_sums(memory, node);
        return;
    }
}

static void let_stand(struct undo *undo)
{
    if (undo->kind == UNDO_UNLINK)
        free_node(undo->node);
    if (undo->kind != UNDO_CHANGE)
        return;
    store_bytes_unref(undo->before.response);
    store_bytes_unref(undo->before.decision);
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

/* Without its texts, which live only as long as the node. */
static struct record bare(const struct node *node)
{
    static const struct record_text nothing = {"", 0};
    struct record record = node->record;
    record.reservation.route = record.reservation.scope_name = nothing;
    record.reservation.task = record.reservation.key = nothing;
    record.outcome.decision = nothing;
    return record;
}

static enum engine_error find(struct engine *engine, const struct store_id *id, struct record *out, bool *found)
{
    struct node *node = memory_find(memory_of(engine), id);
    *found = node != NULL;
    if (node)
        *out = bare(node);
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

static void take_text(char **at, struct record_text *text)
{
    if (text->len)
        memcpy(*at, text->data, text->len);
    text->data = *at;
    *at += text->len;
}

static void own_texts(struct node *node)
{
    struct record_reservation *reservation = &node->record.reservation;
    struct record_text *texts[] = {&reservation->route, &reservation->scope_name, &reservation->task,
                                   &reservation->key};
    size_t len = 0;
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++)
        len += texts[i]->len;
    char *at = node->texts = STORE_NEW_ARRAY(char, len);
    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++)
        take_text(&at, texts[i]);
}

static enum engine_error insert(struct engine *engine, const struct record_reservation *reservation,
                                const struct record_opening *opening)
{
    struct memory *memory = memory_of(engine);
    struct node *expired = memory_find(memory, &reservation->id), *node = STORE_NEW(struct node);
    if (expired) {
        remember(memory, UNDO_UNLINK, expired);
        unlink_node(memory, expired);
    }
    node->record =
        (struct record){.seq = engine->next_seq++, .reservation = *reservation, .open = true, .opening = *opening};
    own_texts(node);
    link_node(memory, node);
    remember(memory, UNDO_LINK, node);
    return ENGINE_OK;
}

static struct node *change(struct engine *engine, const struct record *record)
{
    struct node *node = memory_find(memory_of(engine), &record->reservation.id);
    assert(node && node->record.seq == record->seq);
    remember(memory_of(engine), UNDO_CHANGE, node);
    return node;
}

static enum engine_error reopen_record(struct engine *engine, const struct record *record,
                                       const struct record_opening *opening)
{
    struct node *node = change(engine, record);
    take_from_sums(memory_of(engine), node);
    node->record.open = true;
    node->record.opening = *opening;
    add_to_sums(memory_of(engine), node);
    return ENGINE_OK;
}

static void expects(struct memory *memory, const struct record_outcome *outcome)
{
    if (outcome->expires_ms < memory->next_expiry_ms)
        memory->next_expiry_ms = outcome->expires_ms;
}

static struct store_bytes *copy_of(const void *data, size_t len)
{
    struct store_bytes *copy = store_bytes_new(len);
    if (len)
        memcpy(copy->data, data, len);
    return copy;
}

static enum engine_error settle(struct engine *engine, const struct record *record,
                                const struct record_outcome *outcome, const struct store_bytes *response, bool keep)
{
    struct memory *memory = memory_of(engine);
    if (response && strike(memory, ENGINE_MEMORY_COMMIT_FULL))
        return ENGINE_FULL;
    struct node *node = change(engine, record);
    take_from_sums(memory, node);
    struct record_outcome prior = node->record.outcome;
    node->record.open = false;
    node->record.has_outcome = true;
    node->record.outcome = *outcome;
    node->record.outcome.inlined = (struct record_text){"", 0};
    if (keep) {
        node->record.outcome.has_response = prior.has_response;
        node->record.outcome.response_len = prior.response_len;
        node->record.outcome.decision = prior.decision;
    } else {
        store_bytes_unref(node->response);
        store_bytes_unref(node->decision);
        node->response = response ? copy_of(response->data, response->len) : NULL;
        node->decision = copy_of(outcome->decision.data,
                                 outcome->decision.len < RECORD_STRING_MAX ? outcome->decision.len : RECORD_STRING_MAX);
        node->record.outcome.decision = (struct record_text){(const char *)node->decision->data, node->decision->len};
    }
    add_to_sums(memory, node);
    expects(memory, outcome);
    return ENGINE_OK;
}

static enum engine_error restore(struct engine *engine, const struct record *record)
{
    struct node *node = change(engine, record);
    take_from_sums(memory_of(engine), node);
    node->record.open = false;
    add_to_sums(memory_of(engine), node);
    expects(memory_of(engine), &node->record.outcome);
    return ENGINE_OK;
}

static enum engine_error erase(struct engine *engine, const struct record *record)
{
    struct memory *memory = memory_of(engine);
    struct node *node = memory_find(memory, &record->reservation.id);
    assert(node && node->record.seq == record->seq);
    remember(memory, UNDO_UNLINK, node);
    unlink_node(memory, node);
    return ENGINE_OK;
}

static enum engine_error response_of(struct engine *engine, const struct record *record, struct store_bytes **out)
{
    struct node *node = memory_find(memory_of(engine), &record->reservation.id);
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

static enum engine_error scope_name_of(struct engine *engine, const struct record *record, char *scope_name)
{
    struct node *node = memory_find(memory_of(engine), &record->reservation.id);
    struct record_text name = node ? node->record.reservation.scope_name : (struct record_text){"", 0};
    memcpy(scope_name, name.data, name.len);
    scope_name[name.len] = '\0';
    return node ? ENGINE_OK : ENGINE_IO;
}

static enum engine_error first_open(struct engine *engine, struct record *out, bool *found, char *scope_name)
{
    struct memory *memory = memory_of(engine);
    *found = false;
    for (unsigned i = 0; i < CHAINS && !*found; i++)
        for (struct node *node = memory->chains[i]; node && !*found; node = node->next)
            if (node->record.open) {
                *out = bare(node);
                *found = true;
                scope_name_of(engine, out, scope_name);
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

static int64_t oldest_unknown(const struct memory *memory)
{
    int64_t oldest_ms = 0;
    for (unsigned i = 0; i < CHAINS && memory->unknown; i++)
        for (const struct node *node = memory->chains[i]; node; node = node->next) {
            bool is_unknown = !node->record.open && node->record.outcome.state == STORE_UNKNOWN;
            if (is_unknown && (!oldest_ms || node->record.outcome.since_ms < oldest_ms))
                oldest_ms = node->record.outcome.since_ms;
        }
    return oldest_ms;
}

static void status(struct engine *engine, struct engine_status *out)
{
    struct memory *memory = memory_of(engine);
    pthread_mutex_lock(&memory->lock);
    *out = (struct engine_status){.used_bytes = memory->used,
                                  .max_bytes = memory->max_size,
                                  .in_progress = memory->in_progress,
                                  .completed = memory->completed,
                                  .unknown = memory->unknown,
                                  .oldest_unknown_ms = oldest_unknown(memory),
                                  .has_room = engine->has_room};
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
    struct node *node = memory->dead ? NULL : memory_find(memory, id);
    enum engine_error error = memory->dead ? ENGINE_IO : ENGINE_OK;
    *found = node != NULL;
    *response = NULL;
    if (node) {
        *out = bare(node);
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
    .scope_name = scope_name_of,
    .get_scope = get_scope,
    .put_scope = put_scope,
    .is_due = is_due,
    .status = status,
    .maintain = maintain,
    .peek = peek,
    .walk = memory_walk,
    .show = memory_show,
    .backup = memory_backup,
    .stop_backup = memory_stop_backup,
};
