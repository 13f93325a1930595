/*
 * explain_json.c - an explanation for scripts.
 *
 *     {"result": "protected" | "passed" | "refused",
 *      "request": {"method", "host", "path"}, "upstream": {"name", "url"} | null,
 *      "routes": [{"name", "applies": bool, "why": "host" | "path" | "method" | "earlier" | null}],
 *      "route": NAME | null,
 *      "key": {"source": "sent" | "derived", "text": KEY | null} | null,
 *      "alternatives": [{"header": NAME | "derive": [C], "verdict", "why"}],
 *      "scope": {"name", "by", "components": [C]}, "fingerprint": {"of", "value", "components": [C]},
 *      "action": ID, "task": T | null,
 *      "statuses": {CLASS: {"statuses": ["200-306"], "with_retry_after": [...]}},
 *      "answer": {"status", "code", "detail"} | null}
 *
 * C: {"component", "state", "value": TEXT | null, "hidden": bool, "why": CLAUSE | null}. What a refusal leaves
 * undecided is null or missing.
 */
#include "proxy/explain_write.h"

#include "proxy/json_text.h"

static void text_member(struct buffer *out, const char *name, struct span text)
{
    buffer_printf(out, "\"%s\":", name);
    if (text.data)
        json_escape(out, text);
    else
        buffer_append_span(out, SPAN("null"));
}

static void comma(struct buffer *out)
{
    buffer_append(out, ",", 1);
}

static void put(struct buffer *out, const char *text)
{
    buffer_append_span(out, span_of(text));
}

static void hex_member(struct buffer *out, const char *name, const uint8_t bytes[32])
{
    char hex[65];
    key_id_hex(bytes, hex);
    text_member(out, name, span_of(hex));
}

/* ---- parts ------------------------------------------------------------------------------------ */

static void write_component(const struct explanation *explanation, const struct component *component,
                            struct buffer *scratch, struct buffer *out)
{
    struct explain_value value = explain_component(explanation, component, scratch);
    char *name = NULL;
    size_t size;
    FILE *memory = must_allocate(open_memstream(&name, &size));
    conf_print_component(explanation->conf, component, memory);
    fclose(memory);
    put(out, "{");
    text_member(out, "component", span_of(name));
    comma(out);
    text_member(out, "state", span_of(value.state));
    comma(out);
    struct span text = value.shown && value.text.len == 0 ? SPAN("") : value.text;
    text_member(out, "value", value.shown ? text : (struct span){0});
    buffer_printf(out, ",\"hidden\":%s,", value.hidden ? "true" : "false");
    text_member(out, "why", span_of(value.why_not));
    put(out, "}");
    free(name);
}

static void components_member(const struct explanation *explanation, const char *name,
                              const struct component_list *list, struct buffer *out)
{
    struct buffer scratch = {0};
    buffer_printf(out, "\"%s\":[", name);
    for (size_t i = 0; i < list->count; i++) {
        put(out, i ? "," : "");
        write_component(explanation, &list->items[i], &scratch, out);
    }
    put(out, "]");
    buffer_free(&scratch);
}

static void write_routes(const struct explanation *explanation, struct buffer *out)
{
    put(out, "\"routes\":[");
    for (size_t i = 0; i < explanation->conf->route_count; i++) {
        bool behind;
        enum route_verdict verdict = explain_route(explanation, i, &behind);
        const char *why = explain_route_why(verdict, behind);
        put(out, i ? ",{" : "{");
        text_member(out, "name", span_of(explanation->conf->routes[i].name));
        buffer_printf(out, ",\"applies\":%s,", *why ? "false" : "true");
        text_member(out, "why", *why ? span_of(why) : (struct span){0});
        put(out, "}");
    }
    put(out, "]");
}

static void write_alternatives(const struct explanation *explanation, struct buffer *out)
{
    static const char *const words[] = {
        [ALTERNATIVE_COUNTS] = "counts",       [ALTERNATIVE_YIELDS_NONE] = "yields_none",
        [ALTERNATIVE_NOT_ASKED] = "not_asked", [ALTERNATIVE_BAD] = "bad",
        [ALTERNATIVE_UNDECIDED] = "undecided",
    };
    const struct conf_route *route = explanation->choice.route;
    put(out, "\"alternatives\":[");
    for (size_t i = 0; route && i < route->key_count; i++) {
        const char *why;
        enum explain_alternative verdict = explain_key(explanation, i, &why);
        put(out, i ? ",{" : "{");
        if (route->keys[i].derived)
            components_member(explanation, "derive", &route->keys[i].derive, out);
        else
            text_member(out, "header", span_of(route->keys[i].header));
        comma(out);
        text_member(out, "verdict", span_of(words[verdict]));
        comma(out);
        text_member(out, "why", span_of(why));
        put(out, "}");
    }
    put(out, "]");
}

struct runs {
    struct buffer *out;
    size_t count;
};

static void write_run(void *arg, unsigned first, unsigned last)
{
    struct runs *runs = arg;
    put(runs->out, runs->count++ ? "," : "");
    if (first == last)
        buffer_printf(runs->out, "\"%u\"", first);
    else
        buffer_printf(runs->out, "\"%u-%u\"", first, last);
}

static void write_statuses(const struct conf_route *route, struct buffer *out)
{
    static const enum status_class classes[] = {STATUS_COMPLETED, STATUS_RELEASE, STATUS_UNKNOWN};
    put(out, "\"statuses\":{");
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        struct runs runs = {out, 0}, with = {out, 0};
        buffer_printf(out, "%s\"%s\":{\"statuses\":[", i ? "," : "", explain_class_word(classes[i]));
        explain_statuses(route, classes[i], false, write_run, &runs);
        put(out, "],\"with_retry_after\":[");
        explain_statuses(route, classes[i], true, write_run, &with);
        put(out, "]}");
    }
    put(out, "}");
}

/* ---- the whole -------------------------------------------------------------------------------- */

static void write_action(const struct explanation *explanation, struct buffer *out)
{
    const struct key_identity *identity = &explanation->identity;
    const struct conf_route *route = explanation->choice.route;
    static const struct component_list none = {0};
    enum conf_fingerprint_kind kind = key_fingerprint_kind(route, identity->derived);
    put(out, "\"key\":{");
    text_member(out, "source", identity->derived ? SPAN("derived") : SPAN("sent"));
    comma(out);
    text_member(out, "text", identity->derived ? (struct span){0} : span_of(identity->text));
    put(out, "},\"scope\":{");
    text_member(out, "name", span_of(route->scope_name));
    comma(out);
    text_member(out, "by", span_of(explain_scope_word(identity->scope)));
    comma(out);
    components_member(explanation, "components", &route->scope, out);
    put(out, "},\"fingerprint\":{");
    text_member(out, "of", span_of(explain_fingerprint_word(kind)));
    comma(out);
    hex_member(out, "value", identity->fingerprint);
    comma(out);
    components_member(explanation, "components", kind == FINGERPRINT_COMPONENTS ? &route->fingerprint : &none, out);
    put(out, "},");
    hex_member(out, "action", identity->id);
    comma(out);
    text_member(out, "task", *identity->task ? span_of(identity->task) : (struct span){0});
    comma(out);
    write_statuses(route, out);
}

static void write_request(const struct explanation *explanation, struct buffer *out)
{
    const struct conf_upstream *upstream = explanation->choice.upstream;
    put(out, ",\"request\":{");
    text_member(out, "method", explanation->message.method);
    comma(out);
    text_member(out, "host", explanation->request.host);
    comma(out);
    text_member(out, "path", explanation->request.path);
    put(out, "},\"upstream\":");
    if (upstream) {
        put(out, "{");
        text_member(out, "name", span_of(upstream->name));
        comma(out);
        text_member(out, "url", span_of(upstream->url));
        put(out, "},");
    } else {
        put(out, "null,");
    }
    write_routes(explanation, out);
    comma(out);
    text_member(out, "route", span_of(explanation->choice.route ? explanation->choice.route->name : NULL));
    comma(out);
    write_alternatives(explanation, out);
    comma(out);
    if (explanation->admission == ADMISSION_PROTECTED)
        write_action(explanation, out);
    else
        put(out, "\"key\":null,\"action\":null");
}

void explain_write_json(const struct explanation *explanation, struct buffer *out)
{
    enum problem_code problem = explain_problem(explanation);
    bool is_protected = explanation->refused == PROBLEM_NONE && explanation->admission == ADMISSION_PROTECTED;
    put(out, "{");
    text_member(out, "result", span_of(problem ? "refused" : is_protected ? "protected" : "passed"));
    if (explanation->refused == PROBLEM_NONE)
        write_request(explanation, out);
    put(out, ",\"answer\":");
    if (problem) {
        const struct problem_row *row = problem_row(problem);
        buffer_printf(out, "{\"status\":%u,", (unsigned)row->status);
        text_member(out, "code", span_of(row->name));
        comma(out);
        text_member(out, "detail", span_of(explanation->why ? explanation->why : row->detail));
        put(out, "}");
    } else {
        put(out, "null");
    }
    put(out, "}\n");
}
