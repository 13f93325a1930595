/*
 * control.c - a small HTTP client for one request on one connection, over the proxy's own parser.
 *
 * It blocks in poll() only, so every wait has its deadline. Left out: keeping connections, redirects, TLS (the admin
 * interface has none).
 */
#include "proxy/control.h"

#include "proxy/http.h"
#include "proxy/json.h"
#include "proxy/table.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CONNECT_MS = 5000, READ_SIZE = 64 * 1024 };

/* ---- words ------------------------------------------------------------------------------------ */

static bool fail(const struct control *control, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool fail(const struct control *control, const char *format, ...)
{
    va_list arguments;
    if (control->quiet)
        return false;
    va_start(arguments, format);
    fprintf(stderr, "einmal: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    return false;
}

static bool fail_to_connect(const struct control *control, const char *why)
{
    return fail(control,
                "nothing answers at %s (%s): %s. Is einmal running, and is its admin interface there (admin.address)? "
                "Another address: --admin ADDR",
                control->address, control->origin, why);
}

void control_encode(struct buffer *target, const char *text)
{
    for (; *text; text++) {
        bool plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                     (*text >= '0' && *text <= '9') || strchr("-._~", *text);
        if (plain)
            buffer_append(target, text, 1);
        else
            buffer_printf(target, "%%%02X", (unsigned char)*text);
    }
}

/* ---- connecting ------------------------------------------------------------------------------- */

/* 0: it is ready; else an errno. */
static int wait_for(int fd, short events, int64_t timeout_ms)
{
    struct pollfd poller = {.fd = fd, .events = events};
    int ready;
    do
        ready = poll(&poller, 1, (int)timeout_ms);
    while (ready < 0 && errno == EINTR);
    return ready > 0 ? 0 : ready == 0 ? ETIMEDOUT : errno;
}

/* A descriptor, or -1 and errno. */
static int connect_to(const struct sockaddr *address, socklen_t len)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int error = 0;
    socklen_t size = sizeof error;
    if (fd < 0)
        return -1;
    if (connect(fd, address, len) < 0) {
        error = errno;
        if (error == EINPROGRESS && (error = wait_for(fd, POLLOUT, CONNECT_MS)) == 0)
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (!error)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

static int connect_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return connect_to((const struct sockaddr *)&address, sizeof address);
}

static int connect_host(const char *host, uint16_t port, const char **why)
{
    char service[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int fd = -1;
    snprintf(service, sizeof service, "%u", port);
    int error = getaddrinfo(host, service, &hints, &found);
    if (error) {
        *why = gai_strerror(error);
        return -1;
    }
    for (struct addrinfo *one = found; one && fd < 0; one = one->ai_next)
        fd = connect_to(one->ai_addr, one->ai_addrlen);
    int saved = errno;
    freeaddrinfo(found);
    errno = saved;
    return fd;
}

/* What a listener listens on is not always what one connects to; and no resolver is asked for what is known. */
static int connect_any(const struct control *control, const char **why)
{
    static const struct {
        const char *host, *instead[2];
    } rows[] = {
        {"0.0.0.0", {"127.0.0.1", NULL}},
        {"::", {"::1", "127.0.0.1"}},
        {"localhost", {"127.0.0.1", "::1"}},
    };
    *why = NULL;
    if (control->unix_path)
        return connect_unix(control->unix_path);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcasecmp(control->host, rows[i].host) != 0)
            continue;
        int fd = -1;
        for (size_t j = 0; j < 2 && rows[i].instead[j] && fd < 0; j++)
            fd = connect_host(rows[i].instead[j], control->port, why);
        return fd;
    }
    return connect_host(control->host, control->port, why);
}

/* ---- the request ------------------------------------------------------------------------------ */

static void write_request(const struct control *control, const struct control_request *request, struct buffer *out)
{
    bool is_v6 = control->host && strchr(control->host, ':');
    buffer_printf(out, "%s %s HTTP/1.1\r\n", request->method, request->target);
    if (control->unix_path)
        buffer_append_span(out, SPAN("Host: localhost\r\n"));
    else
        buffer_printf(out, is_v6 ? "Host: [%s]:%u\r\n" : "Host: %s:%u\r\n", control->host, control->port);
    if (control->token)
        buffer_printf(out, "Authorization: Bearer %s\r\n", control->token);
    buffer_append_span(out, SPAN("Accept: application/json\r\nConnection: close\r\n"));
    if (request->body.len)
        buffer_printf(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", request->body.len);
    else if (strcmp(request->method, "POST") == 0)
        buffer_append_span(out, SPAN("Content-Length: 0\r\n"));
    buffer_append_span(out, SPAN("\r\n"));
    buffer_append_span(out, request->body);
}

/* 0, or an errno. A peer that answers before it has read all is no error: its answer is what counts. */
static int send_all(int fd, struct span bytes, int64_t timeout_ms)
{
    while (bytes.len) {
        ssize_t sent = send(fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        if (sent >= 0) {
            bytes = span_after(bytes, (size_t)sent);
            continue;
        }
        if (errno == EPIPE || errno == ECONNRESET)
            return 0;
        int error = errno == EAGAIN ? wait_for(fd, POLLOUT, timeout_ms) : errno == EINTR ? 0 : errno;
        if (error)
            return error;
    }
    return 0;
}

/* ---- the answer ------------------------------------------------------------------------------- */

struct reading {
    const struct control_request *request;
    struct control_answer *answer;
    struct http_parser *parser;
    struct buffer input;
    bool in_body, over;
    int write_error;
    bool too_large;
};

static void take_body(void *arg, const char *data, size_t len)
{
    struct reading *reading = arg;
    if (!reading->request->fd || reading->answer->status != 200) {
        reading->too_large |= buffer_len(&reading->answer->body) + len > CONTROL_ANSWER_MAX;
        if (!reading->too_large)
            buffer_append(&reading->answer->body, data, len);
        return;
    }
    while (len && !reading->write_error) {
        ssize_t written = write(*reading->request->fd, data, len);
        if (written < 0 && errno != EINTR)
            reading->write_error = errno;
        if (written > 0) {
            data += written;
            len -= (size_t)written;
            reading->answer->written += (uint64_t)written;
        }
    }
}

/* What is in the buffer goes through the parser. False: it is no HTTP. */
static bool parse(struct reading *reading)
{
    struct http_message message;
    enum problem_code problem;
    size_t used = 0;
    while (!reading->over) {
        struct span bytes = buffer_span(&reading->input);
        if (!reading->in_body) {
            enum http_head_verdict head =
                http_read_head(reading->parser, bytes.data, bytes.len, &used, &message, &problem);
            if (head != HTTP_HEAD_READY)
                return head == HTTP_HEAD_MORE;
            reading->answer->status = message.status;
            reading->in_body = true;
            buffer_consume(&reading->input, used);
            bytes = buffer_span(&reading->input);
        }
        enum http_body_verdict body = http_read_body(reading->parser, bytes.data, bytes.len, &used, take_body, reading);
        if (body == HTTP_BODY_REFUSED)
            return false;
        buffer_consume(&reading->input, used);
        if (body == HTTP_BODY_MORE)
            return true;
        reading->over = reading->answer->status >= 200;
        reading->in_body = false;
        if (!reading->over)
            http_next(reading->parser);
    }
    return true;
}

/* NULL: the answer is complete; else why it is not. */
static const char *read_answer(struct reading *reading, int fd, int64_t timeout_ms)
{
    while (!reading->over) {
        ssize_t got = recv(fd, buffer_reserve(&reading->input, READ_SIZE), READ_SIZE, 0);
        if (got > 0) {
            buffer_commit(&reading->input, (size_t)got);
            if (!parse(reading))
                return "what it says is no HTTP";
            if (reading->write_error)
                return strerror(reading->write_error);
            if (reading->too_large)
                return "its answer is too large";
        } else if (got == 0) {
            if (!reading->in_body || !http_read_end(reading->parser))
                return "it closed the connection before its answer was complete";
            reading->over = true;
        } else if (errno == EAGAIN) {
            int error = wait_for(fd, POLLIN, timeout_ms);
            if (error)
                return error == ETIMEDOUT ? "it does not answer in time" : strerror(error);
        } else if (errno != EINTR) {
            return strerror(errno);
        }
    }
    return NULL;
}

/* ---- all of it -------------------------------------------------------------------------------- */

static const char *converse(const struct control *control, const struct control_request *request, int fd,
                            struct control_answer *answer)
{
    static const struct http_limits limits = {64 * 1024, HTTP_MAX_FIELDS, 0};
    int64_t timeout_ms = request->timeout_ms ? request->timeout_ms : CONTROL_TIMEOUT_MS;
    struct reading reading = {.request = request, .answer = answer};
    struct buffer out = {0};
    write_request(control, request, &out);
    int error = send_all(fd, buffer_span(&out), timeout_ms);
    buffer_free(&out);
    if (error)
        return strerror(error);
    reading.parser = http_parser_new(HTTP_RESPONSES, &limits);
    const char *why = read_answer(&reading, fd, timeout_ms);
    http_parser_free(reading.parser);
    buffer_free(&reading.input);
    return why;
}

bool control_ask(const struct control *control, const struct control_request *request, struct control_answer *answer)
{
    const char *why;
    *answer = (struct control_answer){0};
    int fd = connect_any(control, &why);
    if (fd < 0)
        return fail_to_connect(control, why ? why : strerror(errno));
    why = converse(control, request, fd, answer);
    close(fd);
    if (!why)
        return true;
    control_answer_free(answer);
    return fail(control, "%s (%s): %s", control->address, control->origin, why);
}

void control_answer_free(struct control_answer *answer)
{
    buffer_free(&answer->body);
    *answer = (struct control_answer){0};
}

/* The text of a member of the problem, cleaned, or "". To be freed. */
static char *problem_text(struct span body, const char *pointer)
{
    struct buffer value = {0};
    enum json_kind kind;
    char *text = NULL;
    size_t size;
    FILE *out = must_allocate(open_memstream(&text, &size));
    if (json_pointer(body, pointer, &kind, &value) && kind == JSON_STRING)
        clean_text(buffer_span(&value), 0, out);
    fclose(out);
    buffer_free(&value);
    return text;
}

static void fail_by_answer(const struct control *control, const struct control_answer *answer)
{
    char *title = problem_text(buffer_span(&answer->body), "/title");
    char *detail = problem_text(buffer_span(&answer->body), "/detail");
    if (answer->status == 401)
        fail(control, "%s asks for a token%s: name the file that holds it with --token-file", control->address,
             control->token ? ", and the one that was sent is not it" : "");
    else if (*title || *detail)
        fail(control, "%s%s%s", title, *title && *detail ? ": " : "", detail);
    else
        fail(control, "%s (%s) answers %u: is it the admin interface of einmal?", control->address, control->origin,
             answer->status);
    free(title);
    free(detail);
}

static bool has_member(struct span body, const char *pointer)
{
    struct buffer value = {0};
    enum json_kind kind;
    bool there = json_valid(body) && json_pointer(body, pointer, &kind, &value) && kind != JSON_ABSENT;
    buffer_free(&value);
    return there;
}

bool control_ask_fine(const struct control *control, const struct control_request *request,
                      struct control_answer *answer)
{
    if (!control_ask(control, request, answer))
        return false;
    bool expected = !request->has || has_member(buffer_span(&answer->body), request->has);
    if (answer->status == 200 && expected)
        return true;
    if (answer->status == 200)
        fail(control, "%s (%s) answers something else than was asked for: is it the admin interface of einmal?",
             control->address, control->origin);
    else
        fail_by_answer(control, answer);
    control_answer_free(answer);
    return false;
}
