/*
 * explain.c - PURE. The steps of a request up to the store, each kept (explain.h).
 *
 * Credentials are known by name and never shown: a name that is taken for one by mistake hides a value, the other way
 * round shows a secret, so the list is generous. Left out: words for people, and JSON (explain_text.c, explain_json.c).
 */
#include "proxy/explain.h"

#include "proxy/ascii.h"
#include "proxy/key_internal.h"

/* ---- the steps -------------------------------------------------------------------------------- */

static bool read_head(struct explanation *out, struct span head)
{
    const struct conf *conf = out->conf;
    struct http_limits limits = {conf->limits.header_bytes, conf->limits.headers, conf->limits.request_target};
    size_t used = 0;
    out->parser = http_parser_new(HTTP_REQUESTS, &limits);
    switch (http_read_head(out->parser, head.data, head.len, &used, &out->message, &out->refused)) {
    case HTTP_HEAD_READY:
        out->refused = used == head.len ? PROBLEM_NONE : PROBLEM_BAD_REQUEST;
        break;
    case HTTP_HEAD_MORE: /* it ends in an empty line, so it is complete or wrong */
        out->refused = PROBLEM_BAD_REQUEST;
        break;
    case HTTP_HEAD_REFUSED:
        out->why = http_refusal(out->parser);
        break;
    }
    return out->refused == PROBLEM_NONE;
}

void explain(struct explanation *out, const struct conf *conf, const struct explain_request *request)
{
    struct span host, path;
    *out = (struct explanation){.conf = conf};
    if (!read_head(out, request->head))
        return;
    admission_normalise(&out->normal, &out->message, &host, &path);
    route_choose(&out->choice, conf, host, path, out->message.method);
    out->request = (struct key_request){
        .message = &out->message,
        .host = host,
        .path = path,
        .values = &out->choice.values,
        .tls_subject = request->tls_subject,
        .tls_fingerprint = request->tls_fingerprint,
    };
    out->admission = admission_of_head(&out->choice, &out->request, &out->why);
    if (out->admission != ADMISSION_READ_BODY)
        return;
    if (request->body.len > out->choice.route->max_request_body) { /* chunked: seen while it arrives */
        out->admission = ADMISSION_BODY_TOO_LARGE;
        return;
    }
    out->request.body = request->body;
    out->request.body_complete = true;
    out->admission = admission_of_request(out->choice.route, &out->request, &out->identity, &out->why);
}

void explain_free(struct explanation *explanation)
{
    http_parser_free(explanation->parser);
    buffer_free(&explanation->normal);
}

enum problem_code explain_problem(const struct explanation *explanation)
{
    if (explanation->refused != PROBLEM_NONE)
        return explanation->refused;
    switch (explanation->admission) {
    case ADMISSION_NO_UPSTREAM:
        return PROBLEM_NO_ROUTE;
    case ADMISSION_KEY_MISSING:
        return PROBLEM_KEY_MISSING;
    case ADMISSION_KEY_INVALID:
        return PROBLEM_KEY_INVALID;
    case ADMISSION_SCOPE_LINES:
        return PROBLEM_BAD_REQUEST;
    case ADMISSION_BODY_TOO_LARGE:
        return PROBLEM_BODY_TOO_LARGE;
    case ADMISSION_NO_ROUTE:
    case ADMISSION_NO_KEY:
    case ADMISSION_READ_BODY:
    case ADMISSION_PROTECTED:
        break;
    }
    return PROBLEM_NONE;
}

enum route_verdict explain_route(const struct explanation *explanation, size_t index, bool *behind)
{
    const struct conf_route *route = &explanation->conf->routes[index];
    struct route_values values;
    *behind = explanation->choice.route && route > explanation->choice.route;
    return route_match(route, explanation->request.host, explanation->request.path, explanation->message.method,
                       &values);
}

/* ---- credentials ------------------------------------------------------------------------------ */

static bool contains(struct span text, struct span word)
{
    for (size_t i = 0; i + word.len <= text.len; i++)
        if (span_equal_nocase((struct span){text.data + i, word.len}, word))
            return true;
    return false;
}

bool explain_is_credential(struct span name)
{
    static const char *const words[] = {"auth",      "cookie",     "token",   "secret",     "passw",
                                        "api-key",   "api_key",    "apikey",  "access-key", "access_key",
                                        "accesskey", "credential", "session", "signature",  "jwt"};
    if (contains(name, SPAN("idempoten"))) /* tokens that name an action, not a caller */
        return false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (contains(name, span_of(words[i])))
            return true;
    return false;
}

/* a=1&token=2: is one of the names that of a credential? */
static bool names_credential(struct span query)
{
    while (query.len) {
        const char *ampersand = memchr(query.data, '&', query.len);
        struct span pair = {query.data, ampersand ? (size_t)(ampersand - query.data) : query.len};
        const char *equals = memchr(pair.data, '=', pair.len);
        struct span name = {pair.data, equals ? (size_t)(equals - pair.data) : pair.len};
        if (explain_is_credential(name))
            return true;
        query = span_after(query, ampersand ? pair.len + 1 : pair.len);
    }
    return false;
}

static bool is_hidden(const struct component *component, const struct key_value *value)
{
    switch (component->kind) {
    case COMPONENT_COOKIE:
    case COMPONENT_LITERAL: /* it stands in the component, as far as it may be shown */
        return true;
    case COMPONENT_HEADER:
    case COMPONENT_QUERY_NAME:
    case COMPONENT_FORM:
    case COMPONENT_JSON:
        return explain_is_credential(span_of(component->argument));
    case COMPONENT_QUERY:
        return names_credential(value->bytes);
    case COMPONENT_METHOD:
    case COMPONENT_HOST:
    case COMPONENT_PATH:
    case COMPONENT_BODY:
    case COMPONENT_PATH_NAME:
    case COMPONENT_TLS_SUBJECT:
    case COMPONENT_TLS_FINGERPRINT:
        break;
    }
    return false;
}

/* ---- components ------------------------------------------------------------------------------- */

struct kind_row {
    const char *state, *why_not;
    bool shown;
};

static const struct kind_row kind_rows[] = {
    [VALUE_ABSENT] = {"absent", "is absent", false},
    [VALUE_NULL] = {"null", "is null", false},
    [VALUE_TRUE] = {"true", NULL, false},
    [VALUE_FALSE] = {"false", NULL, false},
    [VALUE_NUMBER] = {"number", NULL, true},
    [VALUE_TEXT] = {"text", NULL, true},
    [VALUE_TREE] = {"object or array", "is an object or an array", true},
    [VALUE_SEVERAL] = {"several values", "has several values", false},
    [VALUE_UNREADABLE] = {"unreadable", "cannot be read from this body", false},
};

static const char *unreadable_because(const struct component *component, const struct http_message *message)
{
    if (key_body_coded(message))
        return "cannot be read: the body has a Content-Encoding";
    return component->kind == COMPONENT_FORM
               ? "cannot be read: the Content-Type is not application/x-www-form-urlencoded"
               : "cannot be read: the body is no valid JSON, or has a duplicate member";
}

struct explain_value explain_component(const struct explanation *explanation, const struct component *component,
                                       struct buffer *scratch)
{
    if (component_needs_body(component) && !explanation->request.body_complete)
        return (struct explain_value){.state = "not read", .why_not = "is in the body, which is not read"};
    struct key_value value = key_value(component, &explanation->request, scratch);
    const struct kind_row *row = &kind_rows[value.kind];
    bool hidden = row->shown && is_hidden(component, &value);
    struct explain_value out = {row->state, row->why_not, row->shown && !hidden, hidden, value.bytes};
    if (!out.why_not && !key_value_names(&value)) {
        out.state = "empty";
        out.why_not = "is empty";
    }
    if (value.kind == VALUE_UNREADABLE)
        out.why_not = unreadable_because(component, explanation->request.message);
    return out;
}

/* ---- alternatives ----------------------------------------------------------------------------- */

static enum explain_alternative explain_header(const struct explanation *explanation, const char *header,
                                               const char **why)
{
    const struct http_message *message = explanation->request.message;
    const struct http_field *field = http_find(message, span_of(header));
    char text[KEY_MAX_LEN];
    size_t len;
    if (!field)
        return ALTERNATIVE_YIELDS_NONE;
    if (http_count(message, span_of(header)) > 1)
        *why = explanation->why; /* key.c's words */
    else if (key_parse(field->value, text, &len, why) == KEY_OK)
        return ALTERNATIVE_UNDECIDED;
    return ALTERNATIVE_BAD;
}

enum explain_alternative explain_key(const struct explanation *explanation, size_t index, const char **why)
{
    const struct conf_key *key = &explanation->choice.route->keys[index];
    bool named = explanation->admission == ADMISSION_PROTECTED;
    *why = NULL;
    if (named && index == explanation->identity.alternative)
        return ALTERNATIVE_COUNTS;
    if (named && index > explanation->identity.alternative)
        return ALTERNATIVE_NOT_ASKED;
    if (!key->derived)
        return explain_header(explanation, key->header, why);
    struct buffer scratch = {0};
    enum explain_alternative verdict = ALTERNATIVE_UNDECIDED;
    for (size_t i = 0; i < key->derive.count; i++) {
        bool read = explanation->request.body_complete || !component_needs_body(&key->derive.items[i]);
        if (read && explain_component(explanation, &key->derive.items[i], &scratch).why_not)
            verdict = ALTERNATIVE_YIELDS_NONE;
    }
    buffer_free(&scratch);
    return verdict;
}
