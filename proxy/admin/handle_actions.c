/*
 * handle_actions.c - what is recorded, for people to read.
 *
 * The store is read on a thread of its own; a call of the store looks at a bounded number of records, so a page is
 * filled by several calls, and by as many as fit into a moment: a filter that hits little in a store of millions
 * answers with a short page and a cursor.
 */
#include "proxy/admin/internal.h"
#include "proxy/json_text.h"

#include <stdio.h>

#define SCAN_MS  250   /* for one page of a list */
#define TASK_MAX 10000 /* actions of one task */

struct reading {
    struct admin_work work;
    struct query query;
    struct store_id id;
    int64_t scan_ms;
    size_t most;
    /* ---- filled by the thread --------------------------------------------------------------------- */
    enum store_read result;
    struct store_action *actions;
    size_t count;
    uint64_t next;
};

static void free_reading(struct admin_work *work)
{
    struct reading *reading = (struct reading *)work;
    for (size_t i = 0; i < reading->count; i++)
        store_action_clear(&reading->actions[i]);
    free(reading->actions);
    query_clear(&reading->query);
    free(reading);
}

/* The query becomes the reading's. */
static struct reading *new_reading(struct admin_request *request)
{
    struct reading *reading = NEW(struct reading);
    reading->work.free = free_reading;
    reading->query = request->query;
    request->query = (struct query){.wait = 0};
    return reading;
}

static void begin(struct reading *reading, struct admin_request *request)
{
    if (!work_begin(&reading->work, request))
        return;
    work_wait(request);
    work_run(&reading->work, request->admin->readers);
}

/* ---- pages ------------------------------------------------------------------------------------ */

static void take_page(struct reading *reading, struct store_page *page)
{
    if (page->count) {
        size_t count = reading->count + page->count;
        reading->actions = must_allocate(realloc(reading->actions, count * sizeof *reading->actions));
        memcpy(reading->actions + reading->count, page->actions, page->count * sizeof *reading->actions);
        reading->count = count;
    }
    free(page->actions); /* what it pointed to is the reading's now */
    reading->next = page->next;
}

static void scan(struct admin_work *work)
{
    struct reading *reading = (struct reading *)work;
    struct store_query query = reading->query.store;
    int64_t until_ms = monotonic_ms() + reading->scan_ms;
    do {
        struct store_page page = {0};
        size_t left = reading->most - reading->count;
        query.limit = left < STORE_PAGE_MAX ? left : STORE_PAGE_MAX;
        reading->result = store_scan(work->admin->store, &query, &page);
        if (reading->result != STORE_READ_DONE)
            return;
        take_page(reading, &page);
        query.after = reading->next;
    } while (reading->next && reading->count < reading->most && monotonic_ms() < until_ms);
}

static void write_actions(struct buffer *out, const struct reading *reading, enum action_detail detail)
{
    buffer_append_span(out, SPAN("\"actions\":["));
    for (size_t i = 0; i < reading->count; i++) {
        if (i)
            buffer_append(out, ",", 1);
        action_write(out, &reading->actions[i], detail);
    }
    buffer_append(out, "]", 1);
}

static void answer_list(struct admin_work *work)
{
    struct reading *reading = (struct reading *)work;
    struct buffer body = {0};
    char cursor[QUERY_CURSOR_TEXT];
    if (work->request && reading->result != STORE_READ_DONE) {
        admin_refuse(work->request, REFUSAL_STORE_UNAVAILABLE, "the store cannot be read now");
    } else if (work->request) {
        buffer_append(&body, "{", 1);
        write_actions(&body, reading, ACTION_LISTED);
        query_cursor_text(reading->next, cursor);
        if (reading->next)
            buffer_printf(&body, ",\"next\":\"%s\"}", cursor);
        else
            buffer_append_span(&body, SPAN(",\"next\":null}"));
        admin_answer_json(work->request, &body);
    }
    work_over(work);
}

void handle_list(struct admin_request *request)
{
    struct reading *reading = new_reading(request);
    reading->most = reading->query.store.limit;
    reading->scan_ms = SCAN_MS;
    reading->work.run = scan;
    reading->work.then = answer_list;
    begin(reading, request);
}

/* ---- a task ----------------------------------------------------------------------------------- */

/* Of a task all actions count: one that is left out would look as if it could be sent again. */
static void answer_task(struct admin_work *work)
{
    struct reading *reading = (struct reading *)work;
    struct admin_request *request = work->request;
    struct buffer body = {0};
    if (request && reading->result != STORE_READ_DONE) {
        admin_refuse(request, REFUSAL_STORE_UNAVAILABLE, "the store cannot be read now");
    } else if (request && reading->next) {
        admin_refuse(request, REFUSAL_BAD_REQUEST,
                     "the task has too many actions for one answer: list them page by page with /v1/actions?task=");
    } else if (request) {
        buffer_append_span(&body, SPAN("{\"task\":"));
        json_escape(&body, span_of(reading->query.store.task));
        buffer_append(&body, ",", 1);
        write_actions(&body, reading, ACTION_RESUME);
        buffer_append(&body, "}", 1);
        admin_answer_json(request, &body);
    }
    work_over(work);
}

void handle_task(struct admin_request *request)
{
    struct reading *reading = new_reading(request);
    reading->query.store.task = request->parameter;
    request->parameter = NULL;
    reading->most = TASK_MAX;
    reading->scan_ms = request->admin->conf->store.timeout; /* as long as it is waited for */
    reading->work.run = scan;
    reading->work.then = answer_task;
    begin(reading, request);
}

/* ---- one action ------------------------------------------------------------------------------- */

static void get(struct admin_work *work)
{
    struct reading *reading = (struct reading *)work;
    reading->result = store_get(work->admin->store, &reading->id, reading->actions);
    reading->count = reading->result == STORE_READ_DONE;
}

static void answer_show(struct admin_work *work)
{
    struct reading *reading = (struct reading *)work;
    struct buffer body = {0};
    if (work->request)
        switch (reading->result) {
        case STORE_READ_DONE:
            action_write(&body, reading->actions, ACTION_WHOLE);
            admin_answer_json(work->request, &body);
            break;
        case STORE_READ_ABSENT:
            admin_refuse(work->request, REFUSAL_NO_ACTION, NULL);
            break;
        case STORE_READ_FAILED:
            admin_refuse(work->request, REFUSAL_STORE_UNAVAILABLE, "the store cannot be read now");
            break;
        }
    work_over(work);
}

void handle_show(struct admin_request *request)
{
    struct store_id id;
    if (!admin_take_id(request, &id))
        return;
    struct reading *reading = new_reading(request);
    reading->id = id;
    reading->actions = NEW(struct store_action);
    reading->work.run = get;
    reading->work.then = answer_show;
    begin(reading, request);
}
