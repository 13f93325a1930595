/*
 * scan.c - what the store shows to people: pages of actions, one action, a copy of everything.
 *
 * The engine walks its records in the order of their numbers and visits each here: it is turned into what the law would
 * say of it now, compared with the query, and copied out. A page ends when it is full or when the engine has looked at
 * LOOK_AT_MAX records; the cursor is the number of the last one that was looked at. Numbers are given once and never
 * again, so an action that stays can be neither skipped nor met twice, whatever comes and goes around it.
 *
 * Of the texts in a query only as much counts as is kept of those in a record (RECORD_STRING_MAX).
 *
 * What is shown is what is recorded. An ending that could not be written yet is known to the writer alone: here its
 * action is still in progress.
 */
#include "store/allocate.h"
#include "store/writer.h"

#include <assert.h>
#include <string.h>

#define LOOK_AT_MAX 20000 /* records; some tens of milliseconds, for which the snapshot stands */

/* ---- records as people see them --------------------------------------------------------------- */

static char *text_copy(struct record_text text)
{
    char *copy = store_must_allocate(malloc(text.len + 1));
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    return copy;
}

static char *text_copy_if_any(struct record_text text)
{
    return text.len ? text_copy(text) : NULL;
}

/* Its owner died with an earlier process, and the store was too full to say so at its start. */
static bool is_left_open(const struct store *store, const struct record *record)
{
    return record->open && memcmp(record->opening.boot, store->boot, RECORD_BOOT_LEN) != 0;
}

static enum store_state state_of(const struct store *store, const struct record *record)
{
    if (is_left_open(store, record))
        return STORE_UNKNOWN;
    return record->open ? STORE_IN_PROGRESS : record->outcome.state;
}

/* The law's own words for each state. */
static void describe(const struct store *store, const struct record *record, struct store_action *out)
{
    const struct record_reservation *reservation = &record->reservation;
    bool left_open = is_left_open(store, record);
    *out = (struct store_action){
        .id = reservation->id,
        .number = record->seq,
        .route = text_copy(reservation->route),
        .scope_name = text_copy(reservation->scope_name),
        .task = text_copy_if_any(reservation->task),
        .key = reservation->key_source == STORE_KEY_SENT ? text_copy(reservation->key) : NULL,
        .key_source = reservation->key_source,
        .state = state_of(store, record),
        .created_ms = reservation->created_ms,
        .since_ms = record->open ? record->opening.since_ms : record->outcome.since_ms,
        .expires_ms = record->open ? STORE_FOREVER : record->outcome.expires_ms,
    };
    if (record->has_outcome) {
        out->status = record->outcome.status;
        out->executions = record->outcome.executions;
        out->not_kept = record->outcome.not_kept;
        out->decision = text_copy_if_any(record->outcome.decision);
    }
    if (left_open) {
        out->reason = STORE_REASON_CRASH;
        out->executions++;
    } else if (!record->open) {
        out->reason = record->outcome.reason;
    }
}

void store_action_clear(struct store_action *action)
{
    free(action->route);
    free(action->scope_name);
    free(action->task);
    free(action->key);
    free(action->decision);
    store_bytes_unref(action->response);
    *action = (struct store_action){0};
}

void store_page_clear(struct store_page *page)
{
    for (size_t i = 0; i < page->count; i++)
        store_action_clear(&page->actions[i]);
    free(page->actions);
    *page = (struct store_page){0};
}

static enum store_read read_of(enum engine_error error, bool found)
{
    if (error != ENGINE_OK)
        return STORE_READ_FAILED;
    return found ? STORE_READ_DONE : STORE_READ_ABSENT;
}

/* ---- pages ------------------------------------------------------------------------------------ */

struct paging {
    const struct store *store;
    const struct store_query *query;
    struct store_page *page;
    int64_t now_ms;
    size_t room; /* in page->actions */
};

static struct record_text text_of(const char *string)
{
    return (struct record_text){string, strnlen(string, RECORD_STRING_MAX)};
}

/* wanted NULL: any. */
static bool is_text(const char *wanted, struct record_text text)
{
    if (!wanted)
        return true;
    struct record_text cut = text_of(wanted);
    return cut.len == text.len && memcmp(cut.data, text.data, text.len) == 0;
}

static bool fits(const struct paging *paging, const struct record *record)
{
    const struct store_query *query = paging->query;
    const struct record_reservation *reservation = &record->reservation;
    return !ledger_is_expired(record, paging->now_ms) &&
           (!query->state || query->state == state_of(paging->store, record)) &&
           is_text(query->route, reservation->route) && is_text(query->task, reservation->task) &&
           (!query->key || reservation->key_source == STORE_KEY_SENT) && is_text(query->key, reservation->key);
}

static bool visit_record(void *arg, const struct record *record)
{
    struct paging *paging = arg;
    struct store_page *page = paging->page;
    if (!fits(paging, record))
        return true;
    if (page->count == paging->room) {
        paging->room = paging->room ? 2 * paging->room : 16;
        page->actions = store_must_allocate(realloc(page->actions, paging->room * sizeof *page->actions));
    }
    describe(paging->store, record, &page->actions[page->count++]);
    return page->count < paging->query->limit;
}

/* The narrowest range that holds all that fits. */
static enum engine_range range_of(const struct store *store, const struct store_query *query)
{
    if (query->task)
        return ENGINE_TASK;
    if (query->state == STORE_UNKNOWN && !store->left_open)
        return ENGINE_UNKNOWN;
    return query->state == STORE_IN_PROGRESS ? ENGINE_OPEN : ENGINE_ALL;
}

enum store_read store_scan(struct store *store, const struct store_query *query, struct store_page *out)
{
    assert(query->limit >= 1 && query->limit <= STORE_PAGE_MAX);
    *out = (struct store_page){0};
    if (query->task && query->task[0] == '\0')
        return STORE_READ_DONE; /* no task is called that */
    struct paging paging = {.store = store, .query = query, .page = out, .now_ms = store_clock_now_ms(&store->clock)};
    struct engine_walk walk = {
        .range = range_of(store, query),
        .after = query->after,
        .budget = LOOK_AT_MAX,
        .visit = visit_record,
        .arg = &paging,
    };
    if (query->task)
        walk.task = text_of(query->task);
    pthread_mutex_lock(&store->people_lock);
    enum engine_error error = store->engine->operations->walk(store->engine, &walk);
    pthread_mutex_unlock(&store->people_lock);
    if (error != ENGINE_OK)
        store_page_clear(out);
    else if (!walk.over)
        out->next = walk.last;
    return read_of(error, true);
}

/* ---- one -------------------------------------------------------------------------------------- */

struct showing {
    const struct store *store;
    struct store_action *action;
    bool expired;
};

static void show_record(void *arg, const struct record *record, struct store_bytes *response)
{
    struct showing *showing = arg;
    showing->expired = ledger_is_expired(record, store_clock_now_ms(&showing->store->clock));
    if (showing->expired)
        return;
    describe(showing->store, record, showing->action);
    showing->action->response = store_bytes_ref(response);
}

enum store_read store_get(struct store *store, const struct store_id *id, struct store_action *out)
{
    struct showing showing = {.store = store, .action = out};
    bool found;
    *out = (struct store_action){0};
    pthread_mutex_lock(&store->people_lock);
    enum engine_error error = store->engine->operations->show(store->engine, id, show_record, &showing, &found);
    pthread_mutex_unlock(&store->people_lock);
    return read_of(error, found && !showing.expired);
}

/* ---- all -------------------------------------------------------------------------------------- */

bool store_backup(struct store *store, int fd, char *error, size_t error_size)
{
    return store->engine->operations->backup(store->engine, fd, error, error_size);
}

void store_backup_stop(struct store *store)
{
    store->engine->operations->stop_backup(store->engine);
}
