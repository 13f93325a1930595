/*
 * explain_text.c - an explanation for people: what came, each route, each alternative of the key, what names the
 * action, and what the API's answer would mean.
 */
#include "proxy/explain_write.h"

#include <assert.h>

enum { LABEL = 13, SHOWN_MAX = 72 };

/* ---- words ------------------------------------------------------------------------------------ */

const char *explain_route_why(enum route_verdict verdict, bool behind)
{
    switch (verdict) {
    case ROUTE_MATCHES:
        return behind ? "earlier" : "";
    case ROUTE_OTHER_HOST:
        return "host";
    case ROUTE_OTHER_PATH:
        return "path";
    case ROUTE_OTHER_METHOD:
        return "method";
    }
    return "";
}

const char *explain_scope_word(enum key_scope scope)
{
    switch (scope) {
    case KEY_SCOPE_LIST:
        return "components";
    case KEY_SCOPE_AUTHORIZATION:
        return "authorization";
    case KEY_SCOPE_COOKIE:
        return "cookie";
    case KEY_SCOPE_CERTIFICATE:
        return "certificate";
    case KEY_SCOPE_ANONYMOUS:
        return "anonymous";
    }
    return "";
}

const char *explain_fingerprint_word(enum conf_fingerprint_kind kind)
{
    switch (kind) {
    case FINGERPRINT_NONE:
        return "none";
    case FINGERPRINT_BODY:
        return "body";
    case FINGERPRINT_JSON:
        return "json";
    case FINGERPRINT_COMPONENTS:
        return "components";
    case FINGERPRINT_DEFAULT:
        break;
    }
    assert(!"resolved by key_fingerprint_kind");
    return "";
}

const char *explain_class_word(enum status_class class)
{
    switch (class) {
    case STATUS_COMPLETED:
        return "completed";
    case STATUS_RELEASE:
        return "release";
    case STATUS_UNKNOWN:
        return "unknown";
    }
    return "";
}

static bool means(const struct conf_route *route, unsigned status, enum status_class class, bool retry_after)
{
    enum status_class usual = route_status_meaning(route, (uint16_t)status, false);
    if (!retry_after)
        return usual == class;
    return usual != class && route_status_meaning(route, (uint16_t)status, true) == class;
}

void explain_statuses(const struct conf_route *route, enum status_class class, bool retry_after,
                      void (*each)(void *arg, unsigned first, unsigned last), void *arg)
{
    for (unsigned status = 200; status <= 599; status++) {
        unsigned first = status;
        while (status <= 599 && means(route, status, class, retry_after))
            status++;
        if (status > first)
            each(arg, first, status - 1);
    }
}

/* ---- lines ------------------------------------------------------------------------------------ */

static void label(FILE *out, const char *text)
{
    fprintf(out, "%-*s", LABEL, text);
}

/* On one line, cut, and nothing in it that a terminal would obey. */
static void print_value(FILE *out, struct span text)
{
    size_t len = text.len < SHOWN_MAX ? text.len : SHOWN_MAX;
    fputc('"', out);
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (byte == '"' || byte == '\\')
            fprintf(out, "\\%c", byte);
        else if (byte < 0x20 || byte == 0x7F)
            fprintf(out, "\\x%02x", byte);
        else
            fputc(byte, out);
    }
    fputs(len < text.len ? "…\"" : "\"", out);
    if (len < text.len)
        fprintf(out, " (%zu bytes)", text.len);
}

static void print_component_line(const struct explanation *explanation, const struct component *component,
                                 struct buffer *scratch, FILE *out)
{
    struct explain_value value = explain_component(explanation, component, scratch);
    fprintf(out, "%*s  ", LABEL, "");
    conf_print_component(explanation->conf, component, out);
    if (component->kind == COMPONENT_LITERAL) {
        fputc('\n', out);
        return;
    }
    fputs(" = ", out);
    if (value.shown)
        print_value(out, value.text);
    else if (value.hidden)
        fputs("(hidden: a credential)", out);
    else
        fputs(value.why_not ? "-" : value.state, out);
    if (value.why_not)
        fprintf(out, "  %s", value.why_not);
    fputc('\n', out);
}

static void print_components(const struct explanation *explanation, const struct component_list *list, FILE *out)
{
    struct buffer scratch = {0};
    for (size_t i = 0; i < list->count; i++)
        print_component_line(explanation, &list->items[i], &scratch, out);
    buffer_free(&scratch);
}

/* ---- routes ----------------------------------------------------------------------------------- */

static void print_route(const struct explanation *explanation, size_t index, FILE *out)
{
    const struct conf_route *route = &explanation->conf->routes[index];
    bool behind;
    enum route_verdict verdict = explain_route(explanation, index, &behind);
    label(out, index == 0 ? "routes" : "");
    fprintf(out, "%s: ", route->name);
    switch (verdict) {
    case ROUTE_MATCHES:
        fputs(behind ? "matches, too, but an earlier route applies" : "applies", out);
        break;
    case ROUTE_OTHER_HOST:
        fprintf(out, "another host: it is for %s%s", route->match.host_wildcard ? "*" : "", route->match.host);
        break;
    case ROUTE_OTHER_PATH:
        fprintf(out, "another path: it is for %s", route->match.path_text);
        break;
    case ROUTE_OTHER_METHOD:
        fputs("another method: it is for", out);
        for (char *const *method = route->match.methods; *method; method++)
            fprintf(out, " %s", *method);
        break;
    }
    fputc('\n', out);
}

static void print_request(const struct explanation *explanation, FILE *out)
{
    const struct key_request *request = &explanation->request;
    struct span method = explanation->message.method;
    label(out, "request");
    fprintf(out, "%.*s %.*s, host %.*s (as matched and bound)\n", (int)method.len, method.data, (int)request->path.len,
            request->path.data, (int)request->host.len, request->host.data);
    for (size_t i = 0; i < explanation->conf->route_count; i++)
        print_route(explanation, i, out);
    if (explanation->conf->route_count == 0) {
        label(out, "routes");
        fputs("none\n", out);
    }
    if (!explanation->choice.upstream)
        return;
    label(out, "upstream");
    fprintf(out, "%s, %s\n", explanation->choice.upstream->name, explanation->choice.upstream->url);
}

/* ---- key -------------------------------------------------------------------------------------- */

static void print_alternative(const struct explanation *explanation, size_t index, FILE *out)
{
    const struct conf_key *key = &explanation->choice.route->keys[index];
    const char *why;
    enum explain_alternative verdict = explain_key(explanation, index, &why);
    label(out, index == 0 ? "key" : "");
    if (key->derived)
        fputs("derived: ", out);
    else
        fprintf(out, "header %s: ", key->header);
    switch (verdict) {
    case ALTERNATIVE_COUNTS:
        fputs("counts", out);
        if (!key->derived) {
            fputs(", ", out);
            print_value(out, span_of(explanation->identity.text));
        }
        break;
    case ALTERNATIVE_YIELDS_NONE:
        fputs(key->derived ? "yields no key" : "not sent", out);
        break;
    case ALTERNATIVE_NOT_ASKED:
        fputs("not asked: an earlier alternative yields the key", out);
        break;
    case ALTERNATIVE_BAD:
        fprintf(out, "refused. %s", why ? why : "");
        break;
    case ALTERNATIVE_UNDECIDED:
        fputs("not decided", out);
        break;
    }
    fputc('\n', out);
    if (key->derived && verdict != ALTERNATIVE_NOT_ASKED)
        print_components(explanation, &key->derive, out);
}

static void print_scope(const struct explanation *explanation, FILE *out)
{
    label(out, "scope");
    fprintf(out, "%s; ", explanation->choice.route->scope_name);
    switch (explanation->identity.scope) {
    case KEY_SCOPE_LIST:
        fputs(explanation->choice.route->scope.count ? "identity by components\n" : "no identity: all callers share\n",
              out);
        print_components(explanation, &explanation->choice.route->scope, out);
        break;
    case KEY_SCOPE_AUTHORIZATION:
        fprintf(out, "identity by Authorization (hidden)%s\n",
                explanation->identity.both_credentials ? "; Cookie was sent, too, and does not count" : "");
        break;
    case KEY_SCOPE_COOKIE:
        fputs("identity by Cookie (hidden)\n", out);
        break;
    case KEY_SCOPE_CERTIFICATE:
        fputs("identity by the client certificate\n", out);
        break;
    case KEY_SCOPE_ANONYMOUS:
        fputs("anonymous: all callers without credentials share\n", out);
        break;
    }
}

static void print_hex(FILE *out, const uint8_t bytes[32])
{
    char hex[65];
    key_id_hex(bytes, hex);
    fputs(hex, out);
}

static void print_fingerprint(const struct explanation *explanation, FILE *out)
{
    const struct conf_route *route = explanation->choice.route;
    enum conf_fingerprint_kind kind = key_fingerprint_kind(route, explanation->identity.derived);
    label(out, "fingerprint");
    print_hex(out, explanation->identity.fingerprint);
    fprintf(out, "\n%*smethod, host, path", LABEL, "");
    switch (kind) {
    case FINGERPRINT_BODY:
        fputs(", query, content type and coding, the exact body\n", out);
        break;
    case FINGERPRINT_JSON:
        fprintf(out, ", query, content type and coding, the body as canonical JSON%s\n",
                route->ignore[0] ? " without what is ignored" : "");
        break;
    case FINGERPRINT_COMPONENTS:
        fputs(", and\n", out);
        print_components(explanation, &route->fingerprint, out);
        break;
    case FINGERPRINT_NONE:
    case FINGERPRINT_DEFAULT:
        fputs("\n", out);
        break;
    }
}

static void print_action(const struct explanation *explanation, FILE *out)
{
    print_scope(explanation, out);
    print_fingerprint(explanation, out);
    label(out, "action");
    print_hex(out, explanation->identity.id);
    fputs(explanation->choice.route->mismatch_is_new ? "\n             with the fingerprint: other content is another "
                                                       "action\n"
                                                     : "\n",
          out);
    if (explanation->choice.route->task) {
        label(out, "task");
        if (*explanation->identity.task)
            print_value(out, span_of(explanation->identity.task));
        else
            fputs("none", out);
        fputc('\n', out);
    }
}

/* ---- statuses --------------------------------------------------------------------------------- */

struct runs {
    FILE *out;
    size_t count;
};

static void print_run(void *arg, unsigned first, unsigned last)
{
    struct runs *runs = arg;
    fprintf(runs->out, first == last ? "%s%u" : "%s%u-%u", runs->count++ ? " " : "", first, last);
}

static void print_class(const struct explanation *explanation, enum status_class class, const char *meaning, FILE *out)
{
    struct runs runs = {out, 0};
    label(out, class == STATUS_COMPLETED ? "statuses" : "");
    fprintf(out, "%s (%s): ", explain_class_word(class), meaning);
    explain_statuses(explanation->choice.route, class, false, print_run, &runs);
    if (runs.count == 0)
        fputs("none", out);
    char *more = NULL;
    size_t size;
    FILE *memory = must_allocate(open_memstream(&more, &size));
    struct runs with = {memory, 0};
    explain_statuses(explanation->choice.route, class, true, print_run, &with);
    fclose(memory);
    if (with.count)
        fprintf(out, "; with Retry-After also %s", more);
    free(more);
    fputc('\n', out);
}

static const char *later_attempts(const struct conf_route *route)
{
    switch (route->on_unknown) {
    case ON_UNKNOWN_REPORT:
        return "nobody can tell; later attempts are told so";
    case ON_UNKNOWN_RETRY:
        return "nobody can tell; the next attempt executes";
    case ON_UNKNOWN_PROBE:
        return "nobody can tell; the API is asked first";
    }
    return "";
}

static void print_statuses(const struct explanation *explanation, FILE *out)
{
    print_class(explanation, STATUS_COMPLETED, "recorded, repetitions get it", out);
    print_class(explanation, STATUS_RELEASE, "not acted, the next attempt executes", out);
    print_class(explanation, STATUS_UNKNOWN, later_attempts(explanation->choice.route), out);
}

/* ---- the result ------------------------------------------------------------------------------- */

static const char *verdict_text(const struct explanation *explanation)
{
    if (explanation->refused != PROBLEM_NONE)
        return "refused";
    switch (explanation->admission) {
    case ADMISSION_NO_ROUTE:
        return "passes unprotected: no route is for it";
    case ADMISSION_NO_KEY:
        return "passes unprotected: no key is to be had, and none is required";
    case ADMISSION_PROTECTED:
        return "protected: executed once";
    case ADMISSION_NO_UPSTREAM:
    case ADMISSION_KEY_MISSING:
    case ADMISSION_KEY_INVALID:
    case ADMISSION_SCOPE_LINES:
    case ADMISSION_BODY_TOO_LARGE:
        return "refused";
    case ADMISSION_READ_BODY:
        break;
    }
    assert(!"explain() reads the body");
    return "";
}

static void print_result(const struct explanation *explanation, FILE *out)
{
    enum problem_code problem = explain_problem(explanation);
    label(out, "result");
    fputs(verdict_text(explanation), out);
    if (problem != PROBLEM_NONE) {
        const struct problem_row *row = problem_row(problem);
        fprintf(out, ": %u %s. %s", (unsigned)row->status, row->name,
                explanation->why ? explanation->why : row->detail);
    }
    fputc('\n', out);
}

void explain_write_text(const struct explanation *explanation, FILE *out)
{
    if (explanation->refused == PROBLEM_NONE) {
        print_request(explanation, out);
        for (size_t i = 0; explanation->choice.route && i < explanation->choice.route->key_count; i++)
            print_alternative(explanation, i, out);
        if (explanation->admission == ADMISSION_PROTECTED) {
            print_action(explanation, out);
            print_statuses(explanation, out);
        }
    }
    print_result(explanation, out);
}
