/*
 * command_record.c - recorded actions as text for people: cells of a table, one action whole, a task in order.
 *
 * Whatever the admin interface says is shown, also members that this version does not know; only times get an age
 * beside them. Every text is cleaned (table.h).
 */
#include "proxy/command_record.h"
#include "proxy/clock.h"

/* ---- members ---------------------------------------------------------------------------------- */

char *record_text(struct span json, const char *pointer)
{
    struct buffer value = {0};
    enum json_kind kind;
    char *text = NULL;
    if (json_pointer(json, pointer, &kind, &value) && kind != JSON_ABSENT && kind != JSON_NULL) {
        if (kind == JSON_TRUE || kind == JSON_FALSE)
            buffer_append_span(&value, kind == JSON_TRUE ? SPAN("true") : SPAN("false"));
        buffer_append(&value, "", 1);
        text = copy_string(buffer_data(&value));
    }
    buffer_free(&value);
    return text;
}

void record_cell(struct table *table, struct span action, const char *pointer, size_t columns)
{
    char *text = record_text(action, pointer);
    table_add(table, text, columns);
    free(text);
}

void record_age(struct span action, int64_t now_ms, char to[AGE_TEXT])
{
    char *since = record_text(action, "/since");
    int64_t ms;
    if (since && time_of_text(span_of(since), &ms))
        age_text(now_ms - ms, to);
    else
        snprintf(to, AGE_TEXT, "-");
    free(since);
}

void record_print(const struct control_answer *answer, void (*show)(struct span answer, FILE *out))
{
    struct span body = buffer_span(&answer->body);
    while (body.len && strchr("\r\n", body.data[body.len - 1]))
        body.len--;
    if (show && json_valid(body)) {
        show(body, stdout);
    } else {
        fwrite(body.data, 1, body.len, stdout);
        fputc('\n', stdout);
    }
}

/* ---- one action ------------------------------------------------------------------------------- */

enum { LABEL = 12 };

static const struct {
    const char *pointer, *label;
} lines[] = {
    {"/id", "id"},
    {"/state", "state"},
    {"/forgotten", "forgotten"},
    {"/reason", "reason"},
    {"/route", "route"},
    {"/scope_name", "scope name"},
    {"/task", "task"},
    {"/key", "key"},
    {"/key_source", "key source"},
    {"/status", "status"},
    {"/executions", "executions"},
    {"/created", "created"},
    {"/since", "since"},
    {"/expires", "expires"},
    {"/decision", "decision"},
    {"/response/status", "response"},
};

static void print_line(const char *label, struct span value, FILE *out)
{
    int64_t ms;
    fprintf(out, "%-*s", LABEL, label);
    clean_text(value, 0, out);
    if (time_of_text(value, &ms)) {
        char age[AGE_TEXT];
        int64_t ago = clock_ms(CLOCK_REALTIME) - ms;
        age_text(ago < 0 ? -ago : ago, age);
        fprintf(out, ago < 0 ? " (in %s)" : " (%s ago)", age);
    }
    fputc('\n', out);
}

static void print_headers(struct span action, FILE *out)
{
    char *headers = record_text(action, "/response/headers");
    struct span rest = span_of(headers), field;
    while (headers && json_next_element(&rest, &field)) {
        char *name = record_text(field, "/0"), *value = record_text(field, "/1");
        fprintf(out, "%*s", LABEL, "");
        clean_text(span_of(name), 0, out);
        fputs(": ", out);
        clean_text(span_of(value), 0, out);
        fputc('\n', out);
        free(name), free(value);
    }
    free(headers);
}

void record_show(struct span action, FILE *out)
{
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char *text = record_text(action, lines[i].pointer);
        if (text)
            print_line(lines[i].label, span_of(text), out);
        free(text);
    }
    print_headers(action, out);
    char *bytes = record_text(action, "/response/body_bytes");
    if (bytes) {
        char size[SIZE_TEXT];
        size_text(strtoull(bytes, NULL, 10), size);
        fprintf(out, "%*sbody of %s\n", LABEL, "", size);
    }
    free(bytes);
}

/* ---- a task ----------------------------------------------------------------------------------- */

static const struct resume_row {
    const char *resume, *count, *advice;
} resumes[] = {
    {"no", "done", "done: a repetition gets the recorded answer"},
    {"wait", "running", "running: repeat it and wait for its answer"},
    {"settle", "open", "open: find out whether it happened, then einmal actions resolve"},
};
enum { RESUMES = sizeof resumes / sizeof *resumes };

static const char *const task_titles[] = {"STEP", "ID", "STATE", "AGE", "ROUTE", "STATUS", "KEY", "NEXT", NULL};

static void add_step(struct table *table, struct span action, size_t number, size_t counts[RESUMES])
{
    char *resume = record_text(action, "/resume"), text[AGE_TEXT];
    const char *advice = resume;
    snprintf(text, sizeof text, "%zu", number);
    table_add(table, text, 0);
    record_cell(table, action, "/id", 13);
    record_cell(table, action, "/state", 0);
    record_age(action, clock_ms(CLOCK_REALTIME), text);
    table_add(table, text, 0);
    record_cell(table, action, "/route", 24);
    record_cell(table, action, "/status", 0);
    record_cell(table, action, "/key", 40);
    for (size_t i = 0; resume && i < RESUMES; i++) {
        if (strcmp(resume, resumes[i].resume) != 0)
            continue;
        counts[i]++;
        advice = resumes[i].advice;
    }
    table_add(table, advice, 0);
    free(resume);
}

void record_show_task(struct span task, FILE *out)
{
    struct table table = {.out = out, .titles = task_titles};
    size_t counts[RESUMES] = {0}, number = 0;
    char *actions = record_text(task, "/actions"), *name = record_text(task, "/task");
    struct span rest = span_of(actions), action;
    while (actions && json_next_element(&rest, &action))
        add_step(&table, action, ++number, counts);
    table_flush(&table);
    table_free(&table);
    fputs("task ", out);
    clean_text(span_of(name), 0, out);
    fprintf(out, ": %zu %s", number, number == 1 ? "action" : "actions");
    for (size_t i = 0; number && i < RESUMES; i++)
        fprintf(out, ", %zu %s", counts[i], resumes[i].count);
    fputs("; what is not listed may be sent\n", out);
    free(actions), free(name);
}
