/*
 * http_scan.c - the raw bytes of a head, each looked at once, however they are cut.
 *
 * The scan goes strictly from left to right and the first violation decides. So a refusal never waits for more bytes
 * than it needs (a TLS hello is refused by its first byte, HTTP/2.0 by its line), and a head gets the same verdict in
 * one piece and byte by byte. Each stage either moves on, or leaves parser->scanned where it must go on when more bytes
 * have come. Invariant: when STAGE_HEAD_END is reached, the head consists of CRLF lines without any control character
 * but tabs in fields, no line is folded, and start line, size and number of lines are within rules and limits. Left
 * out: everything that needs whole fields (http_fields.c and after).
 */
#include "proxy/http_internal.h"

struct scan {
    struct http_parser *parser;
    const char *bytes;
    size_t len; /* what may be looked at: never beyond limits.header_bytes */
    enum problem_code *problem;
};

/* One step: MOVED to another stage, WAITS for more bytes, or REFUSED. */
enum step { STEP_MOVED, STEP_WAITS, STEP_REFUSED };

static enum step refuse(const struct scan *scan, enum problem_code code, const char *why)
{
    http_refuse(scan->parser, scan->problem, code, why);
    return STEP_REFUSED;
}

static enum step bad(const struct scan *scan, const char *why)
{
    return refuse(scan, PROBLEM_BAD_REQUEST, why);
}

static enum step waits(const struct scan *scan, size_t at)
{
    scan->parser->scanned = at;
    return STEP_WAITS;
}

static enum step moved(const struct scan *scan, enum http_stage stage, size_t at)
{
    scan->parser->scanned = at;
    scan->parser->stage = stage;
    return STEP_MOVED;
}

/* One CRLF before a request is forgiven (RFC 9112 §2.2), not before a response: there it is a stray byte of the last
 * one. */
static enum step scan_begin(const struct scan *scan)
{
    struct http_parser *parser = scan->parser;

    if (scan->len == 0)
        return waits(scan, 0);
    if (parser->kind == HTTP_RESPONSES) {
        parser->text = 0;
        return moved(scan, STAGE_STATUS, 0);
    }
    if (scan->bytes[0] == '\r') {
        if (scan->len == 1)
            return waits(scan, 0);
        if (scan->bytes[1] != '\n')
            return bad(scan, "bare CR before the request line");
        if (scan->len == 2)
            return waits(scan, 0);
        parser->start = 2;
    }
    return moved(scan, STAGE_METHOD, parser->start);
}

static enum step scan_method(const struct scan *scan)
{
    struct http_parser *parser = scan->parser;
    size_t at = parser->scanned;
    struct span method;

    while (at < scan->len && at - parser->start <= HTTP_METHOD_MAX && http_is(scan->bytes[at], HTTP_CHAR_TOKEN))
        at++;
    if (at - parser->start > HTTP_METHOD_MAX)
        return refuse(scan, PROBLEM_NOT_IMPLEMENTED, "method not implemented");
    if (at == scan->len)
        return waits(scan, at);
    method = (struct span){scan->bytes + parser->start, at - parser->start};
    if (scan->bytes[at] != ' ' || method.len == 0)
        return bad(scan, "no method at the start of the request line");
    if (!http_method_find(method, &parser->method))
        return refuse(scan, PROBLEM_NOT_IMPLEMENTED, "method not implemented");
    parser->target = at + 1;
    return moved(scan, STAGE_TARGET, at + 1);
}

static enum step scan_target(const struct scan *scan)
{
    struct http_parser *parser = scan->parser;
    size_t at = parser->scanned;

    while (at < scan->len && at - parser->target <= parser->limits.request_target &&
           http_is(scan->bytes[at], HTTP_CHAR_TARGET))
        at++;
    if (at - parser->target > parser->limits.request_target)
        return refuse(scan, PROBLEM_TARGET_TOO_LONG, "request target longer than limits.request_target");
    if (at == scan->len)
        return waits(scan, at);
    if (scan->bytes[at] == '#')
        return bad(scan, "fragment in the request target");
    if (scan->bytes[at] == '\r' || scan->bytes[at] == '\n')
        return bad(scan, "no HTTP version in the request line");
    if (scan->bytes[at] != ' ' || at == parser->target)
        return bad(scan, "invalid character in the request target");
    parser->target_end = at;
    parser->text = at + 1;
    return moved(scan, STAGE_VERSION, at + 1);
}

/* Compares with a pattern in which "d" stands for a digit, from parser->text on. Moves *at past what fits; true: all of
 * it. */
static bool fits(const struct scan *scan, const char *pattern, size_t *at)
{
    size_t begin = scan->parser->text;

    for (; *at < scan->len && pattern[*at - begin]; ++*at) {
        char want = pattern[*at - begin], is = scan->bytes[*at];

        if (want == 'd' ? !http_is(is, HTTP_CHAR_DIGIT) : is != want)
            return false;
    }
    return pattern[*at - begin] == '\0';
}

static enum step scan_version(const struct scan *scan)
{
    struct http_parser *parser = scan->parser;
    const char *version = scan->bytes + parser->text;
    size_t at = parser->scanned;

    if (!fits(scan, "HTTP/d.d\r\n", &at))
        return at < scan->len ? bad(scan, "no HTTP version at the end of the request line") : waits(scan, at);
    if (version[5] != '1' || version[7] > '1')
        return refuse(scan, PROBLEM_VERSION_NOT_SUPPORTED, "HTTP version other than 1.0 and 1.1");
    parser->minor = (uint8_t)(version[7] - '0');
    parser->fields_begin = at;
    return moved(scan, STAGE_LINE_BEGIN, at);
}

/* "HTTP/1.1 200", then a space or the end of the line. */
static enum step scan_status(const struct scan *scan)
{
    struct http_parser *parser = scan->parser;
    const char *line = scan->bytes;
    size_t at = parser->scanned;

    if (!fits(scan, "HTTP/d.d ddd", &at))
        return at < scan->len ? bad(scan, "no status line") : waits(scan, at);
    if (at == scan->len)
        return waits(scan, at);
    if (line[5] != '1' || line[7] > '1')
        return bad(scan, "HTTP version other than 1.0 and 1.1");
    if (line[9] == '0')
        return bad(scan, "status below 100");
    if (line[at] != ' ' && line[at] != '\r')
        return bad(scan, "status of more than three digits");
    parser->minor = (uint8_t)(line[7] - '0');
    parser->status = (uint16_t)((line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0'));
    parser->text = line[at] == ' ' ? at + 1 : at;
    return moved(scan, STAGE_REASON, parser->text);
}

static const char *control_refusal(char byte)
{
    if (byte == '\n')
        return "bare LF";
    return byte == '\r' ? "bare CR" : "control character";
}

/* The rest of a line, tabs allowed, up to its CRLF. The stage says what kind of line it is. */
static enum step scan_line(const struct scan *scan)
{
    struct http_parser *parser = scan->parser;
    const char *at = scan->bytes + parser->scanned, *end = scan->bytes + scan->len;

    while ((at = http_find_control(at, end)) < end && *at == '\t')
        at++;
    if (at == end)
        return waits(scan, scan->len);
    if (*at != '\r')
        return bad(scan, control_refusal(*at));
    if (at + 1 == end)
        return waits(scan, scan->len - 1);
    if (at[1] != '\n')
        return bad(scan, control_refusal('\r'));
    if (parser->stage == STAGE_REASON) {
        parser->reason_end = (size_t)(at - scan->bytes);
        parser->fields_begin = parser->reason_end + 2;
    }
    return moved(scan, STAGE_LINE_BEGIN, (size_t)(at - scan->bytes) + 2);
}

static enum step scan_line_begin(const struct scan *scan)
{
    struct http_parser *parser = scan->parser;
    size_t at = parser->scanned;

    if (at == scan->len)
        return waits(scan, at);
    if (scan->bytes[at] == ' ' || scan->bytes[at] == '\t')
        return bad(scan, "folded line, or white space before a field name");
    if (scan->bytes[at] == '\r') {
        if (at + 1 == scan->len)
            return waits(scan, at);
        if (scan->bytes[at + 1] != '\n')
            return bad(scan, control_refusal('\r'));
        return moved(scan, STAGE_HEAD_END, at + 2);
    }
    if (++parser->field_lines > parser->limits.headers)
        return refuse(scan, PROBLEM_HEADER_TOO_LARGE, "more fields than limits.headers");
    return moved(scan, STAGE_LINE, at);
}

static enum step scan_step(const struct scan *scan)
{
    switch (scan->parser->stage) {
    case STAGE_BEGIN:
        return scan_begin(scan);
    case STAGE_METHOD:
        return scan_method(scan);
    case STAGE_TARGET:
        return scan_target(scan);
    case STAGE_VERSION:
        return scan_version(scan);
    case STAGE_STATUS:
        return scan_status(scan);
    case STAGE_REASON:
    case STAGE_LINE:
        return scan_line(scan);
    case STAGE_LINE_BEGIN:
        return scan_line_begin(scan);
    case STAGE_HEAD_END:
    case STAGE_BODY:
    case STAGE_OVER:
    case STAGE_REFUSED:
        break;
    }
    return STEP_WAITS;
}

bool http_scan(struct http_parser *parser, const char *bytes, size_t len, enum problem_code *problem)
{
    size_t limit = parser->limits.header_bytes;
    struct scan scan = {parser, bytes, len < limit ? len : limit, problem};
    enum step step = STEP_MOVED;

    while (step == STEP_MOVED && parser->stage != STAGE_HEAD_END)
        step = scan_step(&scan);
    if (step == STEP_REFUSED)
        return false;
    if (parser->stage != STAGE_HEAD_END && len >= limit)
        return http_refuse(parser, problem, PROBLEM_HEADER_TOO_LARGE, "more bytes than limits.header_bytes");
    return true;
}
