/*
 * http_request.c - what a complete request head means: method, target in its four forms, host, expectations.
 *
 * The scan has seen to the syntax of the line; here is the rest of RFC 9112 §3 and of contract §7.
 * Invariant: after it, path and query are those of an origin-form and host is the one authority of the request.
 * Left out: normal forms of path and host (route.c).
 */
#include "proxy/http_internal.h"

/* Known to llhttp 8.1 and 9.x alike; a method that only one of them knows would change its fate with the distribution.
 * CONNECT is left out: einmal is no tunnel. */
#define ROW(name, id)                \
    {                                \
        {name, sizeof(name) - 1}, id \
    }
static const struct {
    struct span name;
    enum http_method id;
} methods[] = {
    ROW("GET", HTTP_GET),
    ROW("POST", HTTP_POST),
    ROW("PUT", HTTP_PUT),
    ROW("HEAD", HTTP_HEAD_METHOD),
    ROW("PATCH", HTTP_PATCH),
    ROW("DELETE", HTTP_DELETE),
    ROW("OPTIONS", HTTP_OPTIONS),
    ROW("TRACE", HTTP_TRACE),
    ROW("ACL", HTTP_OTHER_METHOD),
    ROW("BIND", HTTP_OTHER_METHOD),
    ROW("CHECKOUT", HTTP_OTHER_METHOD),
    ROW("COPY", HTTP_OTHER_METHOD),
    ROW("LINK", HTTP_OTHER_METHOD),
    ROW("LOCK", HTTP_OTHER_METHOD),
    ROW("M-SEARCH", HTTP_OTHER_METHOD),
    ROW("MERGE", HTTP_OTHER_METHOD),
    ROW("MKACTIVITY", HTTP_OTHER_METHOD),
    ROW("MKCALENDAR", HTTP_OTHER_METHOD),
    ROW("MKCOL", HTTP_OTHER_METHOD),
    ROW("MOVE", HTTP_OTHER_METHOD),
    ROW("NOTIFY", HTTP_OTHER_METHOD),
    ROW("PROPFIND", HTTP_OTHER_METHOD),
    ROW("PROPPATCH", HTTP_OTHER_METHOD),
    ROW("PURGE", HTTP_OTHER_METHOD),
    ROW("REBIND", HTTP_OTHER_METHOD),
    ROW("REPORT", HTTP_OTHER_METHOD),
    ROW("SEARCH", HTTP_OTHER_METHOD),
    ROW("SUBSCRIBE", HTTP_OTHER_METHOD),
    ROW("UNBIND", HTTP_OTHER_METHOD),
    ROW("UNLINK", HTTP_OTHER_METHOD),
    ROW("UNLOCK", HTTP_OTHER_METHOD),
    ROW("UNSUBSCRIBE", HTTP_OTHER_METHOD),
};

bool http_method_find(struct span method, enum http_method *found)
{
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (span_equal(methods[i].name, method)) {
            *found = methods[i].id;
            return true;
        }
    return false;
}

bool http_method_known(struct span method)
{
    enum http_method found;

    return http_method_find(method, &found);
}

/* reg-name of RFC 3986, or an IPv4 address; %XX well-formed. */
static bool name_valid(struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (http_is(name.data[i], HTTP_CHAR_HOST))
            continue;
        if (name.data[i] != '%' || name.len - i < 3 || !http_is(name.data[i + 1], HTTP_CHAR_HEX) ||
            !http_is(name.data[i + 2], HTTP_CHAR_HEX))
            return false;
        i += 2;
    }
    return name.len > 0;
}

static bool port_valid(struct span port)
{
    unsigned number = 0;

    if (port.len > 5 || !http_all(port, HTTP_CHAR_DIGIT))
        return false;
    for (size_t i = 0; i < port.len; i++)
        number = number * 10 + (unsigned)(port.data[i] - '0');
    return number <= 65535;
}

/* host [":" port], the host not empty. User information has no place in it: its "@" is in neither part. */
static bool authority_valid(struct span authority)
{
    const char *end = authority.data + authority.len, *colon, *at;

    if (authority.len == 0)
        return false;
    if (authority.data[0] == '[') {
        for (at = authority.data + 1; at < end && (http_is(*at, HTTP_CHAR_HEX) || *at == ':' || *at == '.'); at++)
            ;
        if (at == end || *at != ']' || at - authority.data < 3)
            return false;
        if (++at == end)
            return true;
        return *at == ':' && port_valid((struct span){at + 1, (size_t)(end - at - 1)});
    }
    colon = memchr(authority.data, ':', authority.len);
    if (!colon)
        return name_valid(authority);
    return name_valid((struct span){authority.data, (size_t)(colon - authority.data)}) &&
           port_valid((struct span){colon + 1, (size_t)(end - colon - 1)});
}

static bool skip_prefix(struct span *text, struct span prefix)
{
    if (text->len < prefix.len || !span_equal_nocase((struct span){text->data, prefix.len}, prefix))
        return false;
    text->data += prefix.len;
    text->len -= prefix.len;
    return true;
}

/* http://authority/path?query: the authority replaces Host, the origin-form goes on (RFC 9112 §3.2.2). */
static bool judge_absolute(struct http_message *message)
{
    struct span rest = message->target;
    size_t len = 0;

    if (!skip_prefix(&rest, SPAN("http://")) && !skip_prefix(&rest, SPAN("https://")))
        return false;
    while (len < rest.len && rest.data[len] != '/' && rest.data[len] != '?')
        len++;
    message->host = (struct span){rest.data, len};
    message->target = (struct span){rest.data + len, rest.len - len};
    if (message->target.len == 0) /* OPTIONS for the whole server: RFC 9112 §3.2.4 */
        message->target = message->method_id == HTTP_OPTIONS ? SPAN("*") : SPAN("/");
    return authority_valid(message->host);
}

static void split_target(struct http_message *message)
{
    struct span target = message->target;
    const char *end = target.data + target.len, *mark = memchr(target.data, '?', target.len);

    message->path = (struct span){target.data, mark ? (size_t)(mark - target.data) : target.len};
    if (message->path.len == 0) /* "?q" of http://h?q */
        message->path = SPAN("/");
    message->has_query = mark != NULL;
    message->query = mark ? (struct span){mark + 1, (size_t)(end - mark - 1)} : (struct span){"", 0};
}

static bool judge_target(struct http_parser *parser, const struct http_facts *facts, struct http_message *message,
                         enum problem_code *problem)
{
    char first = message->target.data[0];

    if (facts->host_lines > 1)
        return http_refuse(parser, problem, PROBLEM_BAD_REQUEST, "repeated Host");
    if (facts->host_lines == 0 && parser->minor == 1)
        return http_refuse(parser, problem, PROBLEM_BAD_REQUEST, "no Host");
    if (facts->host_lines && !authority_valid(facts->host))
        return http_refuse(parser, problem, PROBLEM_BAD_REQUEST, "invalid Host");
    message->host = facts->host;
    if (first == '*') {
        if (message->target.len > 1 || message->method_id != HTTP_OPTIONS)
            return http_refuse(parser, problem, PROBLEM_BAD_REQUEST, "\"*\" is a target of OPTIONS only");
    } else if (first != '/' && !judge_absolute(message)) {
        return http_refuse(parser, problem, PROBLEM_BAD_REQUEST, "invalid request target");
    }
    split_target(message);
    return true;
}

bool http_judge_request(struct http_parser *parser, const char *bytes, const struct http_facts *facts,
                        struct http_message *message, enum problem_code *problem)
{
    message->method_id = parser->method;
    message->method = (struct span){bytes + parser->start, parser->target - 1 - parser->start};
    message->target = (struct span){bytes + parser->target, parser->target_end - parser->target};
    if (!judge_target(parser, facts, message, problem))
        return false;
    if (!http_judge_framing(parser, facts, message, problem))
        return false;
    if (parser->minor == 1 && facts->expects_other)
        return http_refuse(parser, problem, PROBLEM_EXPECTATION_FAILED, "expectation other than 100-continue");
    message->expect_continue = parser->minor == 1 && facts->expects_continue; /* HTTP/1.0: RFC 9110 §10.1.1 */
    return true;
}
