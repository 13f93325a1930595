/*
 * probe.h - PURE. The question to the API whether an action happened (contract §3 `probe`, §4): what is asked, and what
 * the answer's status says.
 */
#pragma once

#include "proxy/key.h"

enum probe_target {
    PROBE_TARGET_READY,
    PROBE_TARGET_NO_VALUE, /* a value of the path is absent, empty, null, an object or an array, or given twice */
    PROBE_TARGET_DOTS,     /* a value, or a segment made with one, is "." or "..": it would ask for something else */
    PROBE_TARGET_TOO_LONG, /* longer than `limit` */
};

/*
 * Appends the request target of the question to `out`; unless READY, `out` holds nothing that may be sent. `key` is the
 * key as the API got it. Every byte of a value that is not unreserved (RFC 3986 §2.3) is written as %XX; {path:NAME} is
 * decoded before, since it comes encoded. So no value leaves the segment or query parameter that it stands in.
 */
enum probe_target probe_expand(const struct conf_probe *probe, const struct key_request *request, struct span key,
                               size_t limit, struct buffer *out);
/* Why it is not asked, for the log. */
const char *probe_target_text(enum probe_target target);

enum probe_verdict {
    PROBE_VERDICT_HAPPENED,
    PROBE_VERDICT_NOT_HAPPENED,
    PROBE_VERDICT_NOT_SETTLED, /* not happened, but the API may still be working on it: not to be believed yet */
    PROBE_VERDICT_UNKNOWN,     /* the answer does not tell */
};

/* What a complete answer with this status says at `now_ms`, when the last forwarding ended at `forwarded_until_ms`.
 * Both are store time. */
enum probe_verdict probe_judge(const struct conf_probe *probe, uint16_t status, int64_t forwarded_until_ms,
                               int64_t now_ms);
const char *probe_verdict_text(enum probe_verdict verdict);
/* Seconds until *not happened* is believed, rounded up; at least 1. */
int64_t probe_seconds_left(const struct conf_probe *probe, int64_t forwarded_until_ms, int64_t now_ms);
