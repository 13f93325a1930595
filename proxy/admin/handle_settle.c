/*
 * handle_settle.c - what a person decides: how an unknown action ended, or that a record is to go.
 *
 *     resolve:  read what was said, and the action  →  RESOLVE  →  read the action again  →  answer
 *     forget:   FORGET  →  answer
 *
 * The store decides, in one transaction, whether the action is still in a state that allows it: of two people one wins.
 * What was asked of it is done and logged even if nobody waits any more. The log says who, when, what; never the key or
 * the response.
 */
#include "proxy/admin/internal.h"
#include "proxy/admin/resolution.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#define RETENTION_MS (24 * 3600 * 1000ll) /* where the action's route is not configured any more */
#define DECISION_MAX 300

struct settling {
    struct admin_work work;
    struct store_op op;
    struct buffer text; /* of the request, counted in admin->body_bytes */
    char id[QUERY_ID_TEXT], who[ADMIN_WHO_MAX], decision[DECISION_MAX];
    struct resolution resolution;
    bool understood;
    char why[RESOLUTION_WHY_SIZE];
    enum store_read read;
    struct store_action action;
    struct store_bytes *response;
};

static void free_settling(struct admin_work *work)
{
    struct settling *settling = (struct settling *)work;
    work->admin->body_bytes -= buffer_len(&settling->text);
    buffer_free(&settling->text);
    resolution_clear(&settling->resolution);
    store_action_clear(&settling->action);
    store_bytes_unref(settling->response);
    free(settling);
}

/* Takes over the request's body. */
static struct settling *new_settling(struct admin_request *request, enum store_verb verb, const struct store_id *id)
{
    struct settling *settling = NEW(struct settling);
    settling->work.admin = request->admin;
    settling->work.free = free_settling;
    settling->text = request->body;
    request->body = (struct buffer){0};
    settling->op.verb = verb;
    settling->op.id = *id;
    query_id_text(id, settling->id);
    admin_who(request, settling->who);
    return settling;
}

/* What, who and when: kept with the record where there is one, and logged. */
__attribute__((format(printf, 2, 3))) static void decide(struct settling *settling, const char *format, ...)
{
    char what[80], when[32];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    format_time(when, store_now_ms(settling->work.admin->handle));
    snprintf(settling->decision, DECISION_MAX, "%s by %s at %s", what, settling->who, when);
}

static void log_decision(const struct settling *settling)
{
    log_line(settling->work.admin->log, LOG_LEVEL_WARNING, "admin: action %s %s", settling->id, settling->decision);
}

/* ---- what both answer ------------------------------------------------------------------------- */

static void refuse_state(struct settling *settling, enum store_state state, const char *allowed)
{
    char detail[200];
    snprintf(detail, sizeof detail, "The action is %s; %s.", store_state_name(state), allowed);
    admin_refuse_about(settling->work.request, REFUSAL_WRONG_STATE,
                       &(struct problem){.detail = detail, .action = settling->id, .state = store_state_name(state)});
}

static const char *failure_text(enum store_failure failure)
{
    switch (failure) {
    case STORE_FAILURE_FULL:
        return "the store is full: nothing was changed";
    case STORE_FAILURE_CLOSING:
        return "this instance is about to end: nothing was changed";
    case STORE_FAILURE_IO:
    case STORE_FAILURE_NONE:
        break;
    }
    return "the store could not write: whether the change was made is not known. Look before asking again";
}

/* Not DONE. */
static void refuse_result(struct settling *settling, const char *allowed)
{
    const struct store_result *result = &settling->op.result;
    if (!settling->work.request)
        return;
    if (result->answer != STORE_REFUSED)
        admin_refuse(settling->work.request, REFUSAL_STORE_UNAVAILABLE, "%s", failure_text(result->failure));
    else if (!result->state)
        admin_refuse(settling->work.request, REFUSAL_NO_ACTION, NULL);
    else
        refuse_state(settling, result->state, allowed);
}

static struct settling *settling_of(struct store_op *op)
{
    return (struct settling *)((char *)op - offsetof(struct settling, op));
}

/* ---- resolve ---------------------------------------------------------------------------------- */

static const char only_unknown[] = "only an unknown one can be resolved";

static void look(struct admin_work *work)
{
    struct settling *settling = (struct settling *)work;
    settling->understood = resolution_read(buffer_span(&settling->text), &settling->resolution, settling->why);
    if (settling->understood)
        settling->read = store_get(work->admin->store, &settling->op.id, &settling->action);
}

static void look_again(struct admin_work *work)
{
    struct settling *settling = (struct settling *)work;
    store_action_clear(&settling->action);
    settling->action = (struct store_action){0};
    settling->read = store_get(work->admin->store, &settling->op.id, &settling->action);
}

/* True: there is such an action. */
static bool was_found(struct settling *settling)
{
    switch (settling->read) {
    case STORE_READ_DONE:
        return true;
    case STORE_READ_ABSENT:
        admin_refuse(settling->work.request, REFUSAL_NO_ACTION, NULL);
        return false;
    case STORE_READ_FAILED:
        admin_refuse(settling->work.request, REFUSAL_STORE_UNAVAILABLE, "the store cannot be read now");
        return false;
    }
    return false;
}

static void show(struct admin_work *work)
{
    struct settling *settling = (struct settling *)work;
    struct buffer body = {0};
    if (work->request && was_found(settling)) {
        action_write(&body, &settling->action, ACTION_WHOLE);
        admin_answer_json(work->request, &body);
    }
    work_over(work);
}

static void on_resolved(struct store_op *op)
{
    struct settling *settling = settling_of(op);
    struct admin_work *work = &settling->work;
    bool done = op->result.answer == STORE_DONE;
    if (done)
        log_decision(settling);
    else
        refuse_result(settling, only_unknown);
    if (done && work->request && op->to_state == STORE_COMPLETED) {
        work->run = look_again;
        work->then = show;
        work_run(work, work->admin->readers);
        return;
    }
    if (work->request) {
        struct buffer body = {0};
        buffer_printf(&body, "{\"id\":\"%s\",\"state\":\"released\"}", settling->id);
        admin_answer_json(work->request, &body);
    }
    work_over(work);
}

static const struct conf_route *route_named(const struct conf *conf, const char *name)
{
    for (size_t i = 0; i < conf->route_count; i++)
        if (name && strcmp(conf->routes[i].name, name) == 0)
            return &conf->routes[i];
    return NULL;
}

static void resolve(struct settling *settling)
{
    static char set_cookie[] = "Set-Cookie";
    static char *const drop_usual[] = {set_cookie, NULL};
    struct admin *admin = settling->work.admin;
    const struct conf_route *route = route_named(admin->conf, settling->action.route);
    struct store_op *op = &settling->op;
    struct resolution *resolution = &settling->resolution;
    op->to_state = resolution->to_state;
    if (op->to_state == STORE_COMPLETED) {
        settling->response = resolution_response(resolution, route ? route->replayed_header : "Idempotent-Replayed",
                                                 route ? route->replay_drop : drop_usual);
        op->response = settling->response;
        op->status = resolution->status;
        op->retention_ms = route ? route->retention : RETENTION_MS;
        decide(settling, "resolved as completed with status %u", op->status);
    } else {
        decide(settling, "resolved as not executed");
    }
    op->decision = settling->decision;
    op->done = on_resolved;
    store_submit(admin->handle, op);
}

static void looked(struct admin_work *work)
{
    struct settling *settling = (struct settling *)work;
    if (work->request && !settling->understood)
        admin_refuse(work->request, REFUSAL_BAD_REQUEST, "%s", settling->why);
    else if (work->request && was_found(settling) && settling->action.state != STORE_UNKNOWN)
        refuse_state(settling, settling->action.state, only_unknown);
    if (work->request)
        resolve(settling);
    else
        work_over(work);
}

void handle_resolve(struct admin_request *request)
{
    struct store_id id;
    if (!admin_take_id(request, &id))
        return;
    struct settling *settling = new_settling(request, STORE_RESOLVE, &id);
    settling->work.run = look;
    settling->work.then = looked;
    if (!work_begin(&settling->work, request))
        return;
    work_wait(request);
    work_run(&settling->work, request->admin->readers);
}

/* ---- forget ----------------------------------------------------------------------------------- */

static void on_forgotten(struct store_op *op)
{
    struct settling *settling = settling_of(op);
    struct admin_work *work = &settling->work;
    if (op->result.answer == STORE_DONE)
        log_decision(settling);
    else
        refuse_result(settling, "only an unknown or a completed one can be forgotten");
    if (work->request) {
        struct buffer body = {0};
        buffer_printf(&body, "{\"id\":\"%s\",\"forgotten\":true}", settling->id);
        admin_answer_json(work->request, &body);
    }
    work_over(work);
}

void handle_forget(struct admin_request *request)
{
    struct store_id id;
    if (!admin_take_id(request, &id))
        return;
    struct settling *settling = new_settling(request, STORE_FORGET, &id);
    settling->op.done = on_forgotten;
    if (!work_begin(&settling->work, request))
        return;
    work_wait(request);
    decide(settling, "forgotten");
    store_submit(request->admin->handle, &settling->op);
}
