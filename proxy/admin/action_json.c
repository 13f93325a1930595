/*
 * action_json.c - PURE. An action for people and scripts. What is not there is null, never left out: a script can rely
 * on every member.
 */
#include "proxy/admin/action_json.h"
#include "proxy/admin/query.h"
#include "proxy/json_text.h"
#include "proxy/log.h"
#include "proxy/stored_response.h"

/* What a task's owner may do next with the action (contract §8). */
static const char *resume_name(enum store_state state)
{
    switch (state) {
    case STORE_COMPLETED:
        return "no";
    case STORE_IN_PROGRESS:
        return "wait";
    case STORE_UNKNOWN:
        return "settle";
    case STORE_RELEASED:
        break; /* never recorded */
    }
    return "settle";
}

static void write_string(struct buffer *out, const char *text)
{
    if (text)
        json_escape(out, span_of(text));
    else
        buffer_append_span(out, SPAN("null"));
}

void json_member(struct buffer *out, const char *name, const char *text)
{
    buffer_printf(out, ",\"%s\":", name);
    write_string(out, text);
}

static void write_time(struct buffer *out, const char *name, int64_t ms)
{
    char text[32];
    format_time(text, ms);
    buffer_printf(out, ",\"%s\":\"%s\"", name, text);
}

/* Null where nothing is recorded; also where what is recorded cannot be read, which a replay would refuse, too. */
static void write_response(struct buffer *out, const struct store_bytes *bytes)
{
    struct stored_response response;
    buffer_append_span(out, SPAN(",\"response\":"));
    if (!bytes || !stored_response_read(&response, bytes->data, bytes->len)) {
        buffer_append_span(out, SPAN("null"));
        return;
    }
    buffer_printf(out, "{\"status\":%u,\"headers\":[", response.parts.status);
    for (size_t i = 0; i < response.parts.field_count; i++) {
        buffer_append_span(out, i ? SPAN(",[") : SPAN("["));
        json_escape(out, response.fields[i].name);
        buffer_append(out, ",", 1);
        json_escape(out, response.fields[i].value);
        buffer_append(out, "]", 1);
    }
    buffer_printf(out, "],\"body_bytes\":%zu}", response.body.len);
}

void action_write(struct buffer *out, const struct store_action *action, enum action_detail detail)
{
    char id[QUERY_ID_TEXT];
    query_id_text(&action->id, id);
    buffer_printf(out, "{\"id\":\"%s\"", id);
    json_member(out, "route", action->route);
    json_member(out, "scope_name", action->scope_name);
    json_member(out, "task", action->task);
    json_member(out, "key", action->key);
    json_member(out, "key_source", action->key_source == STORE_KEY_SENT ? "sent" : "derived");
    json_member(out, "state", store_state_name(action->state));
    if (action->status)
        buffer_printf(out, ",\"status\":%u", action->status);
    else
        buffer_append_span(out, SPAN(",\"status\":null"));
    json_member(out, "reason", store_reason_name(action->reason));
    buffer_printf(out, ",\"executions\":%u", action->executions);
    write_time(out, "created", action->created_ms);
    write_time(out, "since", action->since_ms);
    if (action->expires_ms == STORE_FOREVER)
        buffer_append_span(out, SPAN(",\"expires\":null"));
    else
        write_time(out, "expires", action->expires_ms);
    switch (detail) {
    case ACTION_LISTED:
        break;
    case ACTION_RESUME:
        json_member(out, "resume", resume_name(action->state));
        break;
    case ACTION_WHOLE:
        write_response(out, action->response);
        json_member(out, "decision", action->decision);
        break;
    }
    buffer_append(out, "}", 1);
}
