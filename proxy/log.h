/*
 * log.h - what einmal says: the error log on stderr, the access log on stdout (contract §8), both as JSON or text.
 *
 * Never a key, a credential or a body. Error lines are rare and are written at once, one write(2) each, from any
 * thread. Access lines never block a worker: each worker collects them in an access_log of its own, a thread of ours
 * takes them from there and writes them; what does not fit meanwhile is dropped and counted, and the number is
 * reported.
 */
#pragma once

#include "conf/conf.h"
#include "proxy/buffer.h"

struct log;
struct access_log; /* one worker's end */

struct log *log_new(void);
void log_configure(struct log *log, enum conf_log_level level, bool json); /* any thread */
/* Writes what is left, at most for a second. False: nobody reads it. For an end in a hurry: nothing is freed. */
bool log_stop(struct log *log);
void log_free(struct log *log); /* stops first; every access_log must be closed */
bool log_wants(const struct log *log, enum conf_log_level level);
void log_line(struct log *log, enum conf_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Lines that are complete already (FILE:LINE:COLUMN: error: …), one write each. Like log_line it never waits: what
 * standard error does not take at once is dropped and counted. */
void log_text(struct log *log, const char *text);

struct access_entry { /* one request, when its exchange is over */
    struct span method, host, path;
    const char *route, *outcome;
    uint16_t status; /* 499: nothing could be sent */
    const char *action;
    struct span task, request_id, trace_id;
    uint64_t bytes_in, bytes_out;
    int64_t duration_us, upstream_us, wait_us; /* upstream_us, wait_us: -1 where there was none */
    struct span client;
};

struct access_log *access_log_open(struct log *log);
void access_log_close(struct access_log *access);
void access_log_write(struct access_log *access, const struct access_entry *entry);
/* Lines of all workers that were dropped so far. Any thread. */
uint64_t log_access_dropped(struct log *log);
/* Once a turn of the loop: wakes the writer if there is something to write. */
void access_log_turn(struct access_log *access);

/* RFC 3339 UTC with milliseconds. `to` needs 32 bytes. */
void format_time(char *to, int64_t ms);
