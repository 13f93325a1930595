/*
 * log.c - two logs and the thread that writes one of them.
 *
 * An access_log is a buffer under a lock of its own that only its worker and the writer ever take, for the time of a
 * swap. The writer sleeps until somebody has lines, waits a moment so that lines gather, takes all buffers and writes
 * them. A pipe that nobody reads stops the writer alone: buffers fill up to ACCESS_BUFFER_MAX and then lines are
 * counted instead of kept.
 *
 * Left out: rotation (the reader of stdout does that), sampling, filters.
 */
#include "proxy/log.h"
#include "proxy/clock.h"
#include "proxy/json_text.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define ACCESS_BUFFER_MAX (4u << 20)
#define GATHER_NS         (10 * 1000 * 1000)
#define ERROR_LINE_MAX    2048

struct access_log {
    struct log *log;
    struct access_log *next;
    pthread_mutex_t lock;
    struct buffer lines;
    uint64_t dropped; /* since the writer last took them */
    _Atomic uint64_t dropped_so_far;
    bool closed;
    bool wrote;       /* since the last turn; the worker's own */
    int64_t stamp_ms; /* the millisecond that `stamp` spells */
    char stamp[32];
};

struct log {
    atomic_int level;
    atomic_bool json;
    pthread_t writer;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct access_log *first;
    atomic_bool pending; /* somebody has lines and the writer was told */
    bool stopping;
    pthread_mutex_t error_lock;
    uint64_t error_dropped; /* lines of the error log that standard error did not take */
};

/* To the steps of the kernel's tick: what is logged is told apart by its ids. */
static int64_t logged_ms(void)
{
    return clock_ms(CLOCK_REALTIME_COARSE);
}

void format_time(char *to, int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    size_t len = strftime(to, 24, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(to + len, 32 - len, ".%03dZ", (int)(ms % 1000));
}

/* ---- the error log ---------------------------------------------------------------------------- */

static const char *level_name(enum conf_log_level level)
{
    switch (level) {
    case LOG_LEVEL_ERROR:
        return "error";
    case LOG_LEVEL_WARNING:
        return "warning";
    case LOG_LEVEL_INFO:
        return "info";
    case LOG_LEVEL_DEBUG:
        return "debug";
    }
    return "?";
}

bool log_wants(const struct log *log, enum conf_log_level level)
{
    return (int)level <= atomic_load_explicit(&log->level, memory_order_relaxed);
}

static void write_all(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = write(fd, data, len);
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        } else if (n < 0 && errno == EAGAIN) {
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, 1000);
        } else if (n < 0 && errno != EINTR) {
            return; /* nobody reads it any more: there is no place left to say so */
        }
    }
}

static bool takes_errors(void)
{
    return poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, 0) == 1;
}

static void tell_dropped(struct log *log)
{
    if (!log->error_dropped || !takes_errors())
        return;
    dprintf(STDERR_FILENO, "einmal: %llu lines of the error log were dropped: nobody read standard error\n",
            (unsigned long long)log->error_dropped);
    log->error_dropped = 0;
}

/* Never waits: a pipe that nobody reads must not stop a worker or the control thread. What poll(2) calls writable takes
 * at least PIPE_BUF bytes, so a line is cut to that; the lock keeps two lines from sharing the room that was seen. */
static void write_error_line(struct log *log, struct buffer *line)
{
    size_t len = buffer_len(line);
    if (len > PIPE_BUF) {
        len = PIPE_BUF;
        buffer_data(line)[len - 1] = '\n';
    }
    pthread_mutex_lock(&log->error_lock);
    if (takes_errors()) {
        write_all(STDERR_FILENO, buffer_data(line), len);
        tell_dropped(log);
    } else {
        log->error_dropped++;
    }
    pthread_mutex_unlock(&log->error_lock);
}

void log_line(struct log *log, enum conf_log_level level, const char *format, ...)
{
    if (!log_wants(log, level))
        return;
    char text[ERROR_LINE_MAX], stamp[32];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    format_time(stamp, logged_ms());
    struct buffer line = {0};
    if (atomic_load_explicit(&log->json, memory_order_relaxed)) {
        buffer_printf(&line, "{\"time\":\"%s\",\"level\":\"%s\",\"message\":", stamp, level_name(level));
        json_escape(&line, span_of(text));
        buffer_append(&line, "}\n", 2);
    } else {
        for (char *p = text; *p; p++)
            if ((unsigned char)*p < 0x20)
                *p = ' ';
        buffer_printf(&line, "%s %s: %s\n", stamp, level_name(level), text);
    }
    write_error_line(log, &line);
    buffer_free(&line);
}

void log_text(struct log *log, const char *text)
{
    while (*text) {
        const char *end = strchrnul(text, '\n');
        struct buffer line = {0};
        buffer_append(&line, text, (size_t)(end - text));
        buffer_append(&line, "\n", 1);
        write_error_line(log, &line);
        buffer_free(&line);
        text = *end ? end + 1 : end;
    }
}

/* ---- the access log --------------------------------------------------------------------------- */

/* Decimal digits, at least `width` of them. Formatting by printf was a twentieth of a whole request. */
static void append_number(struct buffer *out, uint64_t number, int width)
{
    char digits[20];
    int begin = sizeof digits;
    do {
        digits[--begin] = (char)('0' + number % 10);
        number /= 10;
    } while (number || (int)sizeof digits - begin < width);
    buffer_append(out, digits + begin, sizeof digits - (size_t)begin);
}

static void append_ms(struct buffer *out, int64_t us)
{
    append_number(out, (uint64_t)us / 1000, 1);
    buffer_append(out, ".", 1);
    append_number(out, (uint64_t)us % 1000, 3);
}

/* NAME is a literal: comma, quotes and colon are put around it by the compiler. */
#define JSON_NAME(out, name) buffer_append(out, ",\"" name "\":", sizeof(",\"" name "\":") - 1)

static void json_text(struct buffer *out, struct span value)
{
    if (value.len)
        json_escape(out, value);
    else
        buffer_append(out, "null", 4);
}

/* The same where nothing can need an escape: our own words, and what has been found to be a token or an id before. */
static void json_word(struct buffer *out, struct span value)
{
    if (!value.len) {
        buffer_append(out, "null", 4);
        return;
    }
    char *to = buffer_reserve(out, value.len + 2);
    to[0] = '"';
    memcpy(to + 1, value.data, value.len);
    to[value.len + 1] = '"';
    buffer_commit(out, value.len + 2);
}

static void json_ms(struct buffer *out, int64_t us)
{
    if (us >= 0)
        append_ms(out, us);
    else
        buffer_append(out, "null", 4);
}

#define JSON_TEXT(out, name, value)   (JSON_NAME(out, name), json_text(out, value))
#define JSON_WORD(out, name, value)   (JSON_NAME(out, name), json_word(out, value))
#define JSON_NUMBER(out, name, value) (JSON_NAME(out, name), append_number(out, value, 1))
#define JSON_MS(out, name, value)     (JSON_NAME(out, name), json_ms(out, value))

/* Every line has every field: null where there is nothing to say. */
static void write_json(struct buffer *out, const char *stamp, const struct access_entry *entry)
{
    buffer_append(out, "{\"time\":\"", 9);
    buffer_append_span(out, span_of(stamp));
    buffer_append(out, "\"", 1);
    JSON_WORD(out, "method", entry->method);
    JSON_TEXT(out, "host", entry->host);
    JSON_TEXT(out, "path", entry->path);
    JSON_TEXT(out, "route", span_of(entry->route));
    JSON_NUMBER(out, "status", entry->status);
    JSON_WORD(out, "outcome", span_of(entry->outcome));
    JSON_WORD(out, "action", span_of(entry->action));
    JSON_TEXT(out, "task", entry->task);
    JSON_WORD(out, "request_id", entry->request_id);
    JSON_NUMBER(out, "bytes_in", entry->bytes_in);
    JSON_NUMBER(out, "bytes_out", entry->bytes_out);
    JSON_MS(out, "duration_ms", entry->duration_us);
    JSON_MS(out, "upstream_ms", entry->upstream_us);
    JSON_MS(out, "wait_ms", entry->wait_us);
    JSON_TEXT(out, "client", entry->client);
    JSON_WORD(out, "trace_id", entry->trace_id);
    buffer_append(out, "}\n", 2);
}

static void plain_text(struct buffer *out, struct span value)
{
    if (!value.len) {
        buffer_append(out, "- ", 2);
        return;
    }
    char *to = buffer_reserve(out, value.len + 1);
    for (size_t i = 0; i < value.len; i++)
        to[i] = (unsigned char)value.data[i] > 0x20 && (unsigned char)value.data[i] < 0x7f ? value.data[i] : '?';
    to[value.len] = ' ';
    buffer_commit(out, value.len + 1);
}

static void plain_ms(struct buffer *out, int64_t us)
{
    if (us < 0)
        buffer_append(out, "- ", 2);
    else
        append_ms(out, us), buffer_append(out, " ", 1);
}

/* The fields of the JSON line in the same order, "-" for what is absent. */
static void write_plain(struct buffer *out, const char *stamp, const struct access_entry *entry)
{
    plain_text(out, span_of(stamp));
    plain_text(out, entry->method);
    plain_text(out, entry->host);
    plain_text(out, entry->path);
    plain_text(out, span_of(entry->route));
    buffer_printf(out, "%u ", entry->status);
    plain_text(out, span_of(entry->outcome));
    plain_text(out, span_of(entry->action));
    plain_text(out, entry->task);
    plain_text(out, entry->request_id);
    buffer_printf(out, "%llu %llu ", (unsigned long long)entry->bytes_in, (unsigned long long)entry->bytes_out);
    plain_ms(out, entry->duration_us);
    plain_ms(out, entry->upstream_us);
    plain_ms(out, entry->wait_us);
    plain_text(out, entry->client);
    plain_text(out, entry->trace_id);
    out->memory[out->end - 1] = '\n';
}

void access_log_write(struct access_log *access, const struct access_entry *entry)
{
    int64_t now = logged_ms();
    if (now / 1000 != access->stamp_ms / 1000)
        format_time(access->stamp, now);
    if (now != access->stamp_ms) { /* the rest of the second: only its last digits change */
        access->stamp_ms = now;
        access->stamp[20] = (char)('0' + now % 1000 / 100);
        access->stamp[21] = (char)('0' + now % 100 / 10);
        access->stamp[22] = (char)('0' + now % 10);
    }
    access->wrote = true;
    pthread_mutex_lock(&access->lock);
    if (buffer_len(&access->lines) > ACCESS_BUFFER_MAX)
        access->dropped++, atomic_fetch_add_explicit(&access->dropped_so_far, 1, memory_order_relaxed);
    else if (atomic_load_explicit(&access->log->json, memory_order_relaxed))
        write_json(&access->lines, access->stamp, entry);
    else
        write_plain(&access->lines, access->stamp, entry);
    pthread_mutex_unlock(&access->lock);
}

uint64_t log_access_dropped(struct log *log)
{
    uint64_t dropped = 0;
    pthread_mutex_lock(&log->lock);
    for (struct access_log *access = log->first; access; access = access->next)
        dropped += atomic_load_explicit(&access->dropped_so_far, memory_order_relaxed);
    pthread_mutex_unlock(&log->lock);
    return dropped;
}

void access_log_turn(struct access_log *access)
{
    struct log *log = access->log;
    if (!access->wrote)
        return;
    access->wrote = false;
    /* The writer clears `pending` before it takes the buffers: lines that were there before we saw it set are taken. */
    if (atomic_load(&log->pending) || atomic_exchange(&log->pending, true))
        return;
    pthread_mutex_lock(&log->lock);
    pthread_cond_signal(&log->wake);
    pthread_mutex_unlock(&log->lock);
}

/* Takes the lines of one worker. The buffer that comes back goes in for the next ones: no allocation in the long run.
 */
static void take(struct access_log *access, struct buffer *spare, uint64_t *dropped)
{
    pthread_mutex_lock(&access->lock);
    struct buffer full = access->lines;
    access->lines = *spare;
    *dropped = access->dropped;
    access->dropped = 0;
    pthread_mutex_unlock(&access->lock);
    *spare = full;
}

static void write_lines(struct log *log, struct buffer *spare)
{
    pthread_mutex_lock(&log->lock);
    struct access_log *access = log->first;
    pthread_mutex_unlock(&log->lock);
    for (; access; access = access->next) { /* the list only grows at its head while we run */
        uint64_t dropped;
        take(access, spare, &dropped);
        write_all(STDOUT_FILENO, buffer_data(spare), buffer_len(spare));
        buffer_consume(spare, buffer_len(spare));
        if (dropped)
            log_line(log, LOG_LEVEL_WARNING, "access log: %llu lines dropped, nobody read standard output fast enough",
                     (unsigned long long)dropped);
    }
}

static void *writer_main(void *arg)
{
    struct log *log = arg;
    struct buffer spare = {0};
    bool stopping = false;
    while (!stopping) {
        pthread_mutex_lock(&log->lock);
        while (!log->stopping && !atomic_load(&log->pending))
            pthread_cond_wait(&log->wake, &log->lock);
        stopping = log->stopping;
        pthread_mutex_unlock(&log->lock);
        if (!stopping)
            nanosleep(&(struct timespec){0, GATHER_NS}, NULL);
        atomic_store(&log->pending, false);
        write_lines(log, &spare);
    }
    buffer_free(&spare);
    return NULL;
}

/* ---- opening and closing ---------------------------------------------------------------------- */

struct log *log_new(void)
{
    struct log *log = NEW(struct log);
    log->level = LOG_LEVEL_INFO;
    log->json = true;
    pthread_mutex_init(&log->lock, NULL);
    pthread_cond_init(&log->wake, NULL);
    pthread_mutex_init(&log->error_lock, NULL);
    int failed = pthread_create(&log->writer, NULL, writer_main, log);
    assert(!failed && "a thread is to be had at start");
    return log;
}

void log_configure(struct log *log, enum conf_log_level level, bool json)
{
    atomic_store(&log->level, (int)level);
    atomic_store(&log->json, json);
}

struct access_log *access_log_open(struct log *log)
{
    struct access_log *access = NEW(struct access_log);
    access->log = log;
    pthread_mutex_init(&access->lock, NULL);
    pthread_mutex_lock(&log->lock);
    access->next = log->first;
    log->first = access;
    pthread_mutex_unlock(&log->lock);
    return access;
}

void access_log_close(struct access_log *access)
{
    access->closed = true; /* what it holds is written by log_free at the latest; the memory is the log's until then */
}

bool log_stop(struct log *log)
{
    pthread_mutex_lock(&log->lock);
    log->stopping = true;
    pthread_cond_signal(&log->wake);
    pthread_mutex_unlock(&log->lock);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    return pthread_timedjoin_np(log->writer, NULL, &until) == 0;
}

void log_free(struct log *log)
{
    if (!log_stop(log))
        return; /* a pipe that nobody reads: the process ends, the thread with it */
    while (log->first) {
        struct access_log *access = log->first;
        log->first = access->next;
        assert(access->closed);
        buffer_free(&access->lines);
        pthread_mutex_destroy(&access->lock);
        free(access);
    }
    pthread_mutex_destroy(&log->lock);
    pthread_cond_destroy(&log->wake);
    pthread_mutex_destroy(&log->error_lock);
    free(log);
}
