/*
 * command_actions.c - actions list, show, resolve, forget; tasks show: what is recorded, for people and for scripts.
 *
 * A list is read page by page and printed as it comes; with --json the pages' actions go out as they are, as one list.
 * Left out: what the admin interface decides (which actions may be resolved or forgotten).
 */
#include "proxy/clock.h"
#include "proxy/command_record.h"
#include "proxy/control.h"
#include "proxy/table.h"

#include <openssl/evp.h>
#include <unistd.h>

enum { PAGE = 100, SHORT_ID = 12, PREFIX_MIN = 8, BODY_MAX = 16 * 1024 * 1024 };

/* ---- pages ------------------------------------------------------------------------------------ */

static void parameter(struct buffer *target, const char *name, const char *value)
{
    if (!value)
        return;
    buffer_printf(target, "&%s=", name);
    control_encode(target, value);
}

/* Tells how far a long listing is, where somebody sits and looks at nothing else. */
static void progress(size_t seen, bool over)
{
    if (!isatty(STDERR_FILENO) || (isatty(STDOUT_FILENO) && !over))
        return;
    if (over)
        fputs("\r\033[K", stderr);
    else
        fprintf(stderr, "\r%zu actions …", seen);
    fflush(stderr);
}

struct listing {
    const struct control *control;
    const struct arguments *arguments; /* its filters */
    size_t limit;                      /* 0: all */
    /* One action; `last` of a page. False: enough. */
    bool (*each)(void *arg, struct span action, bool last);
    void *arg;
    char *next; /* afterwards: the cursor behind the last one, or NULL */
};

static bool read_page(const struct listing *listing, size_t want, struct control_answer *answer)
{
    const struct arguments *arguments = listing->arguments;
    struct buffer target = {0};
    buffer_printf(&target, "/v1/actions?limit=%zu", want);
    parameter(&target, "state", arguments->state);
    parameter(&target, "route", arguments->route);
    parameter(&target, "task", arguments->task);
    parameter(&target, "key", arguments->key);
    parameter(&target, "after", listing->next);
    buffer_append(&target, "", 1);
    bool fine = control_ask_fine(
        listing->control, &(struct control_request){.method = "GET", .target = buffer_data(&target), .has = "/actions"},
        answer);
    buffer_free(&target);
    return fine;
}

/* How many it had; *enough: nobody wants more. */
static size_t take_page(const struct listing *listing, struct span body, bool *enough)
{
    char *array = record_text(body, "/actions");
    struct span rest = span_of(array), action, following;
    size_t count = 0;
    bool more = array && json_next_element(&rest, &action);
    while (more && !*enough) {
        more = json_next_element(&rest, &following);
        *enough = !listing->each(listing->arg, action, !more);
        action = following;
        count++;
    }
    free(array);
    return count;
}

/* The cursor of the page moves the listing on. False: it stands still, which none of einmal's does. */
static bool turn_page(struct listing *listing, struct span body)
{
    char *next = record_text(body, "/next");
    bool moves = !next || !listing->next || strcmp(next, listing->next) != 0;
    free(listing->next);
    listing->next = next;
    if (!moves)
        fprintf(stderr, "einmal: %s answers the same page again and again\n", listing->control->address);
    return moves;
}

/* False: it failed, and why was printed. */
static bool list(struct listing *listing)
{
    size_t seen = 0;
    bool enough = false;
    do {
        size_t left = listing->limit ? listing->limit - seen : PAGE;
        struct control_answer answer;
        if (!read_page(listing, left < PAGE ? left : PAGE, &answer))
            return false;
        bool moves = turn_page(listing, buffer_span(&answer.body));
        seen += take_page(listing, buffer_span(&answer.body), &enough);
        control_answer_free(&answer);
        if (!moves)
            return false;
        progress(seen, false);
    } while (listing->next && !enough && (!listing->limit || seen < listing->limit));
    progress(seen, true);
    return true;
}

/* ---- list ------------------------------------------------------------------------------------- */

static const char *const list_titles[] = {"ID",   "STATE",  "AGE",  "ROUTE", "STATUS",
                                          "RUNS", "REASON", "TASK", "KEY",   NULL};

struct printing {
    struct table table;
    int64_t now_ms;
    size_t count;
};

static bool print_row(void *arg, struct span action, bool last)
{
    struct printing *printing = arg;
    struct table *table = &printing->table;
    char *id = record_text(action, "/id");
    char age[AGE_TEXT];
    if (id && strlen(id) > SHORT_ID)
        id[SHORT_ID] = '\0';
    table_add(table, id, 0);
    free(id);
    record_cell(table, action, "/state", 0);
    record_age(action, printing->now_ms, age);
    table_add(table, age, 0);
    record_cell(table, action, "/route", 24);
    record_cell(table, action, "/status", 0);
    record_cell(table, action, "/executions", 0);
    record_cell(table, action, "/reason", 0);
    record_cell(table, action, "/task", 32);
    record_cell(table, action, "/key", 64);
    printing->count++;
    if (last)
        table_flush(table);
    return !ferror(stdout);
}

static bool print_json(void *arg, struct span action, bool last)
{
    size_t *count = arg;
    (void)last;
    fputs((*count)++ ? "," : "", stdout);
    fwrite(action.data, 1, action.len, stdout);
    return !ferror(stdout);
}

static bool list_as_table(struct listing *listing)
{
    struct printing printing = {.table = {.out = stdout, .titles = list_titles}, .now_ms = clock_ms(CLOCK_REALTIME)};
    listing->each = print_row;
    listing->arg = &printing;
    bool fine = list(listing);
    table_flush(&printing.table);
    table_free(&printing.table);
    if (fine && printing.count == 0)
        fprintf(stderr, "einmal: no such action is recorded\n");
    return fine;
}

/* A list that breaks off stays cut JSON, so that no script takes it for a whole one. */
static bool list_as_json(struct listing *listing)
{
    size_t count = 0;
    listing->each = print_json;
    listing->arg = &count;
    fputs("{\"actions\":[", stdout);
    if (!list(listing))
        return false;
    struct buffer end = {0};
    buffer_append_span(&end, SPAN("],\"next\":"));
    if (listing->next)
        json_escape(&end, span_of(listing->next));
    else
        buffer_append_span(&end, SPAN("null"));
    buffer_append_span(&end, SPAN("}\n"));
    fwrite(buffer_data(&end), 1, buffer_len(&end), stdout);
    buffer_free(&end);
    return true;
}

int command_actions_list(const struct arguments *arguments)
{
    struct control control;
    int code;
    if (!control_find(arguments, false, &control, &code))
        return code;
    struct listing listing = {.control = &control, .arguments = arguments, .limit = arguments->limit};
    bool fine = arguments->json ? list_as_json(&listing) : list_as_table(&listing);
    free(listing.next);
    control_free(&control);
    return fine ? EXIT_FINE : EXIT_FAILED;
}

/* ---- which one -------------------------------------------------------------------------------- */

struct search {
    const char *beginning;
    char found[ACTION_ID_TEXT];
    size_t count;
};

static bool search_one(void *arg, struct span action, bool last)
{
    struct search *search = arg;
    char *id = record_text(action, "/id");
    (void)last;
    if (id && strncmp(id, search->beginning, strlen(search->beginning)) == 0 && search->count++ == 0)
        snprintf(search->found, sizeof search->found, "%s", id);
    free(id);
    return search->count < 2;
}

/* The whole id of what was given; EXIT_FINE, or what went wrong, printed. A beginning is looked for in all that is
 * recorded: only so is it known to be the only one. */
static int find_action(const struct control *control, const char *given, char id[ACTION_ID_TEXT])
{
    size_t len = strlen(given);
    if (len != strspn(given, "0123456789abcdef") || len < PREFIX_MIN || len >= ACTION_ID_TEXT)
        return usage_error("actions", "'%s' is no id: 64 digits of 0-9 and a-f, or at least 8 that begin one", given);
    if (len == ACTION_ID_TEXT - 1) {
        memcpy(id, given, ACTION_ID_TEXT);
        return EXIT_FINE;
    }
    static const struct arguments everything;
    struct search search = {.beginning = given};
    struct listing listing = {.control = control, .arguments = &everything, .each = search_one, .arg = &search};
    bool fine = list(&listing);
    free(listing.next);
    if (fine && search.count != 1)
        fprintf(stderr,
                search.count ? "einmal: several actions begin with %s: give more of the id\n"
                             : "einmal: no recorded action begins with %s\n",
                given);
    memcpy(id, search.found, ACTION_ID_TEXT);
    return fine && search.count == 1 ? EXIT_FINE : EXIT_FAILED;
}

/* One request about one action. `show` prints the answer for people. */
static int ask_about(const struct arguments *arguments, struct control_request request, const char *suffix,
                     void (*show)(struct span answer, FILE *out))
{
    struct control control;
    struct control_answer answer;
    char id[ACTION_ID_TEXT], target[128];
    int code;
    if (!control_find(arguments, false, &control, &code))
        return code;
    code = find_action(&control, arguments->operands[0], id);
    snprintf(target, sizeof target, "/v1/actions/%s%s", id, suffix);
    request.target = target;
    request.has = "/id";
    if (code == EXIT_FINE && !control_ask_fine(&control, &request, &answer)) {
        code = EXIT_FAILED;
    } else if (code == EXIT_FINE) {
        record_print(&answer, arguments->json ? NULL : show);
        control_answer_free(&answer);
    }
    control_free(&control);
    return code;
}

/* ---- show, resolve, forget -------------------------------------------------------------------- */

int command_actions_show(const struct arguments *arguments)
{
    return ask_about(arguments, (struct control_request){.method = "GET"}, "", record_show);
}

int command_actions_forget(const struct arguments *arguments)
{
    return ask_about(arguments, (struct control_request){.method = "DELETE"}, "", record_show);
}

static bool write_headers(const struct argument_texts *headers, struct buffer *out)
{
    buffer_append_span(out, SPAN(",\"headers\":["));
    for (size_t i = 0; i < headers->count; i++) {
        const char *text = headers->items[i], *colon = strchr(text, ':');
        if (!colon || colon == text) {
            usage_error("actions resolve", "-H '%s': expected 'Name: value'", text);
            return false;
        }
        buffer_append_span(out, i ? SPAN(",[") : SPAN("["));
        json_escape(out, (struct span){text, (size_t)(colon - text)});
        buffer_append(out, ",", 1);
        json_escape(out, span_trim(span_of(colon + 1)));
        buffer_append(out, "]", 1);
    }
    buffer_append(out, "]", 1);
    return true;
}

static void write_base64(struct span body, struct buffer *out)
{
    size_t len = 4 * ((body.len + 2) / 3);
    buffer_append_span(out, SPAN(",\"body_base64\":\""));
    char *to = buffer_reserve(out, len + 1); /* OpenSSL adds a NUL */
    buffer_commit(out, (size_t)EVP_EncodeBlock((unsigned char *)to, (const unsigned char *)body.data, (int)body.len));
    buffer_append(out, "\"", 1);
}

/* False: usage error or an unreadable file, printed. */
static bool write_resolution(const struct arguments *arguments, struct buffer *out)
{
    struct buffer body = {0};
    if (arguments->not_executed) {
        buffer_append_span(out, SPAN("{\"as\":\"not-executed\"}"));
        return true;
    }
    buffer_printf(out, "{\"as\":\"completed\",\"status\":%u", arguments->status);
    bool fine = write_headers(&arguments->headers, out) && read_data(arguments->body, BODY_MAX, &body);
    if (fine && buffer_len(&body) > BODY_MAX) {
        fprintf(stderr, "einmal: the body is larger than 16 MiB\n");
        fine = false;
    }
    if (fine && buffer_len(&body))
        write_base64(buffer_span(&body), out);
    buffer_append(out, "}", 1);
    buffer_free(&body);
    return fine;
}

int command_actions_resolve(const struct arguments *arguments)
{
    struct buffer body = {0};
    if (arguments->completed == arguments->not_executed)
        return usage_error("actions resolve", "say either --completed or --not-executed");
    if (arguments->completed && !arguments->status)
        return usage_error("actions resolve", "--completed needs the --status of the response that repetitions get");
    if (arguments->not_executed && (arguments->status || arguments->body || arguments->headers.count))
        return usage_error("actions resolve", "--not-executed has no response: --status, -H and --body go with "
                                              "--completed");
    if (!write_resolution(arguments, &body)) {
        buffer_free(&body);
        return EXIT_USAGE;
    }
    int code = ask_about(arguments, (struct control_request){.method = "POST", .body = buffer_span(&body)}, "/resolve",
                         record_show);
    buffer_free(&body);
    return code;
}

/* ---- tasks ------------------------------------------------------------------------------------ */

int command_tasks_show(const struct arguments *arguments)
{
    struct control control;
    struct control_answer answer;
    struct buffer target = {0};
    int code;
    if (!control_find(arguments, false, &control, &code))
        return code;
    buffer_append_span(&target, SPAN("/v1/tasks/"));
    control_encode(&target, arguments->operands[0]);
    buffer_append(&target, "", 1);
    code = EXIT_FAILED;
    if (control_ask_fine(&control,
                         &(struct control_request){.method = "GET", .target = buffer_data(&target), .has = "/actions"},
                         &answer)) {
        record_print(&answer, arguments->json ? NULL : record_show_task);
        control_answer_free(&answer);
        code = EXIT_FINE;
    }
    buffer_free(&target);
    control_free(&control);
    return code;
}
