/*
 * probe.c - PURE. From an attempt to the question whether its action happened, and from the answer's status to a
 * verdict.
 *
 * Invariant: what is sent names exactly the values of the attempt, each inside of the segment or parameter that the
 * template gives it. What cannot be asked so is not asked at all. Left out: the call itself and what follows from the
 * verdict (exchange_probe.c).
 */
#include "proxy/probe.h"

#include "proxy/ascii.h"

#include <assert.h>

/* ---- values ----------------------------------------------------------------------------------- */

static bool is_unreserved(unsigned char byte) /* RFC 3986 §2.3 */
{
    char lower = ascii_lower((char)byte);
    return (lower >= 'a' && lower <= 'z') || ascii_is_digit((char)byte) || byte == '-' || byte == '.' || byte == '_' ||
           byte == '~';
}

static bool is_dots(struct span text)
{
    return span_equal(text, SPAN(".")) || span_equal(text, SPAN(".."));
}

/* In place: the text of a segment is never longer than its encoded form. */
static void decode(struct buffer *text)
{
    char *from = buffer_data(text), *to = from;
    size_t left = buffer_len(text);
    while (left) {
        int byte = ascii_percent_value(from, left);
        size_t used = byte < 0 ? 1 : 3;
        *to++ = byte < 0 ? *from : (char)byte;
        from += used;
        left -= used;
    }
    text->end = text->start + (size_t)(to - buffer_data(text));
}

static void encode(struct buffer *out, struct span text)
{
    static const char digits[] = "0123456789ABCDEF";
    char *begin = buffer_reserve(out, 3 * text.len), *to = begin;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        if (is_unreserved(byte)) {
            *to++ = (char)byte;
            continue;
        }
        *to++ = '%';
        *to++ = digits[byte >> 4];
        *to++ = digits[byte & 15];
    }
    buffer_commit(out, (size_t)(to - begin));
}

/* The value as it was meant, into `value`. False: there is none. */
static bool find_value(const struct conf_probe_part *part, const struct key_request *request, struct span key,
                       struct buffer *value)
{
    struct buffer scratch = {0};
    struct span text = key;
    bool found = part->kind == PROBE_KEY || key_component_text(&part->component, request, &scratch, &text);
    buffer_consume(value, buffer_len(value));
    if (found)
        buffer_append_span(value, text);
    if (part->kind == PROBE_COMPONENT && part->component.kind == COMPONENT_PATH_NAME)
        decode(value);
    buffer_free(&scratch);
    return buffer_len(value) > 0;
}

/* ---- the target ------------------------------------------------------------------------------- */

static enum probe_target append_part(const struct conf_probe_part *part, const struct key_request *request,
                                     struct span key, size_t limit, struct buffer *value, struct buffer *out)
{
    if (part->kind == PROBE_LITERAL) {
        buffer_append_span(out, span_of(part->text));
    } else if (!find_value(part, request, key, value)) {
        return PROBE_TARGET_NO_VALUE;
    } else if (is_dots(buffer_span(value))) {
        return PROBE_TARGET_DOTS;
    } else if (buffer_len(value) > limit) { /* before it is made larger by encoding it */
        return PROBE_TARGET_TOO_LONG;
    } else {
        encode(out, buffer_span(value));
    }
    return buffer_len(out) > limit ? PROBE_TARGET_TOO_LONG : PROBE_TARGET_READY;
}

/* A segment that is "." or ".." only together with what stands around the value, or once it is decoded. */
static bool has_dot_segment(struct span target)
{
    const char *query = memchr(target.data, '?', target.len);
    struct span rest = {target.data, query ? (size_t)(query - target.data) : target.len};
    struct buffer segment = {0};
    bool found = false;
    while (rest.len && !found) {
        rest.data++, rest.len--; /* the "/" */
        const char *slash = rest.len ? memchr(rest.data, '/', rest.len) : NULL;
        size_t len = slash ? (size_t)(slash - rest.data) : rest.len;
        buffer_consume(&segment, buffer_len(&segment));
        buffer_append(&segment, rest.data, len);
        decode(&segment);
        found = is_dots(buffer_span(&segment));
        rest = span_after(rest, len);
    }
    buffer_free(&segment);
    return found;
}

enum probe_target probe_expand(const struct conf_probe *probe, const struct key_request *request, struct span key,
                               size_t limit, struct buffer *out)
{
    enum probe_target target = PROBE_TARGET_READY;
    struct buffer value = {0};
    for (size_t i = 0; i < probe->part_count && target == PROBE_TARGET_READY; i++)
        target = append_part(&probe->parts[i], request, key, limit, &value, out);
    buffer_free(&value);
    if (target == PROBE_TARGET_READY && has_dot_segment(buffer_span(out)))
        target = PROBE_TARGET_DOTS;
    return target;
}

const char *probe_target_text(enum probe_target target)
{
    switch (target) {
    case PROBE_TARGET_READY:
        return "it can be asked";
    case PROBE_TARGET_NO_VALUE:
        return "the attempt lacks a value that its path needs";
    case PROBE_TARGET_DOTS:
        return "a value would make a segment of its path \".\" or \"..\"";
    case PROBE_TARGET_TOO_LONG:
        return "its path would be longer than limits.request_target";
    }
    return NULL;
}

/* ---- the answer ------------------------------------------------------------------------------- */

/* Milliseconds until the API cannot be working on it any more. */
static int64_t unsettled_ms(const struct conf_probe *probe, int64_t forwarded_until_ms, int64_t now_ms)
{
    return probe->settle - (now_ms - forwarded_until_ms);
}

enum probe_verdict probe_judge(const struct conf_probe *probe, uint16_t status, int64_t forwarded_until_ms,
                               int64_t now_ms)
{
    assert(status < 1000);
    switch ((enum conf_probe_meaning)probe->meaning[status]) {
    case PROBE_HAPPENED:
        return PROBE_VERDICT_HAPPENED;
    case PROBE_NOT_HAPPENED:
        return unsettled_ms(probe, forwarded_until_ms, now_ms) > 0 ? PROBE_VERDICT_NOT_SETTLED
                                                                   : PROBE_VERDICT_NOT_HAPPENED;
    case PROBE_SAYS_NOTHING:
        break;
    }
    return PROBE_VERDICT_UNKNOWN;
}

const char *probe_verdict_text(enum probe_verdict verdict)
{
    switch (verdict) {
    case PROBE_VERDICT_HAPPENED:
        return "it has happened";
    case PROBE_VERDICT_NOT_HAPPENED:
        return "it has not happened; it executes now";
    case PROBE_VERDICT_NOT_SETTLED:
        return "it has not happened yet, which is believed only after `settle`";
    case PROBE_VERDICT_UNKNOWN:
        return "that does not tell; it stays unknown";
    }
    return NULL;
}

int64_t probe_seconds_left(const struct conf_probe *probe, int64_t forwarded_until_ms, int64_t now_ms)
{
    int64_t seconds = (unsettled_ms(probe, forwarded_until_ms, now_ms) + 999) / 1000;
    return seconds > 1 ? seconds : 1;
}
