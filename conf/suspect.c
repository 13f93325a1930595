/*
 * suspect.c - names that tell of a time, a signature, a trace or a count of attempts, as rows.
 *
 * A key of these is a new key for every repetition, so nothing is ever recognised: the mistake that is made most often
 * with derived keys. Only names are known here, so the rows are words that hardly ever mean anything else; an id
 * ("signature_request_id", "pull_request_id") is none of them, however it begins.
 */
#include "conf/suspect.h"
#include "proxy/span.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum name_test {
    NAME_IS,
    NAME_ENDS, /* with a word before it */
    NAME_CONTAINS,
    NAME_IS_OR_X, /* is, or is the end of a name that begins with "x_" */
};

struct suspect {
    enum name_test test;
    const char *text; /* lower case, "_" for "-" */
    const char *what;
};

static const char a_time[] = "a time";
static const char a_signature[] = "a signature";
static const char a_trace[] = "a trace or request id";
static const char a_count[] = "a count of attempts";
static const char a_nonce[] = "a nonce";

static const struct suspect suspects[] = {
    {NAME_IS, "date", a_time},
    {NAME_IS, "time", a_time},
    {NAME_IS, "datetime", a_time},
    {NAME_IS, "ts", a_time},
    {NAME_IS, "now", a_time},
    {NAME_IS, "age", a_time},
    {NAME_IS, "epoch", a_time},
    {NAME_IS, "expires", a_time},
    {NAME_IS, "created", a_time},
    {NAME_IS, "updated", a_time},
    {NAME_IS, "last_modified", a_time},
    {NAME_ENDS, "_at", a_time},
    {NAME_ENDS, "_date", a_time},
    {NAME_ENDS, "_time", a_time},
    {NAME_ENDS, "_ts", a_time},
    {NAME_CONTAINS, "timestamp", a_time},
    {NAME_IS, "sig", a_signature},
    {NAME_ENDS, "_sig", a_signature},
    {NAME_CONTAINS, "signature", a_signature},
    {NAME_CONTAINS, "hmac", a_signature},
    {NAME_CONTAINS, "nonce", a_nonce},
    {NAME_IS, "b3", a_trace},
    {NAME_IS, "cf_ray", a_trace},
    {NAME_IS, "traceparent", a_trace},
    {NAME_IS, "tracestate", a_trace},
    {NAME_ENDS, "_trace", a_trace},
    {NAME_CONTAINS, "trace_id", a_trace},
    {NAME_CONTAINS, "traceid", a_trace},
    {NAME_CONTAINS, "trace_context", a_trace},
    {NAME_CONTAINS, "span_id", a_trace},
    {NAME_CONTAINS, "spanid", a_trace},
    {NAME_CONTAINS, "x_b3_", a_trace},
    {NAME_IS_OR_X, "request_id", a_trace},
    {NAME_IS_OR_X, "requestid", a_trace},
    {NAME_IS, "attempt", a_count},
    {NAME_IS, "attempts", a_count},
    {NAME_ENDS, "_attempt", a_count},
    {NAME_ENDS, "_attempts", a_count},
    {NAME_CONTAINS, "attempt_num", a_count},
    {NAME_CONTAINS, "attempt_count", a_count},
    {NAME_CONTAINS, "retry_num", a_count},
    {NAME_CONTAINS, "retry_count", a_count},
    {NAME_IS, "retries", a_count},
};

/* "sentAt", "Sent-At" and "sent_at" are one name to us: lower case with "_" between the words. */
static void plain_name(const char *name, size_t name_len, char *out, size_t size)
{
    size_t len = 0;
    for (const char *c = name; c < name + name_len && len + 2 < size; c++) {
        bool upper = *c >= 'A' && *c <= 'Z';
        bool begins_word = upper && c > name && c[-1] >= 'a' && c[-1] <= 'z';
        if (begins_word)
            out[len++] = '_';
        out[len++] = (char)(upper ? *c | 0x20 : *c == '-' ? '_' : *c);
    }
    out[len] = '\0';
}

static bool ends_with(const char *name, const char *end)
{
    size_t len = strlen(name), end_len = strlen(end);
    return len >= end_len && strcmp(name + len - end_len, end) == 0;
}

static bool looks_like(const char *name, const struct suspect *suspect)
{
    bool same = strcmp(name, suspect->text) == 0;
    switch (suspect->test) {
    case NAME_IS:
        return same;
    case NAME_ENDS:
        return !same && ends_with(name, suspect->text);
    case NAME_CONTAINS:
        return strstr(name, suspect->text) && (!ends_with(name, "_id") || ends_with(suspect->text, "_id"));
    case NAME_IS_OR_X:
        return same || (strncmp(name, "x_", 2) == 0 && ends_with(name, suspect->text));
    }
    return false;
}

/* A signature's own members ("/signature/token") are no better than it. */
static bool is_in_signature(const char *pointer)
{
    char name[128];
    while (*pointer == '/') {
        size_t len = strcspn(pointer + 1, "/");
        plain_name(pointer + 1, len, name, sizeof name);
        pointer += 1 + len;
        if (*pointer && strcmp(name, "signature") == 0)
            return true;
    }
    return false;
}

static bool is_named(const struct component *component)
{
    switch (component->kind) {
    case COMPONENT_PATH_NAME:
    case COMPONENT_QUERY_NAME:
    case COMPONENT_HEADER:
    case COMPONENT_COOKIE:
    case COMPONENT_FORM:
    case COMPONENT_JSON:
        return true;
    case COMPONENT_METHOD:
    case COMPONENT_HOST:
    case COMPONENT_PATH:
    case COMPONENT_QUERY:
    case COMPONENT_BODY:
    case COMPONENT_TLS_SUBJECT:
    case COMPONENT_TLS_FINGERPRINT:
    case COMPONENT_LITERAL:
        break;
    }
    return false;
}

const char *suspect_component(const struct component *component)
{
    char name[128];
    if (!is_named(component))
        return NULL;
    const char *slash = component->kind == COMPONENT_JSON ? strrchr(component->argument, '/') : NULL;
    const char *last = slash ? slash + 1 : component->argument;
    plain_name(last, strlen(last), name, sizeof name);
    for (size_t i = 0; i < COUNT(suspects); i++)
        if (looks_like(name, &suspects[i]))
            return suspects[i].what;
    return slash && is_in_signature(component->argument) ? a_signature : NULL;
}
