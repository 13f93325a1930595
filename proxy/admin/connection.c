/*
 * connection.c - connections of the side listeners, and the requests on them.
 *
 * A head is judged at once: path, method, rights, parameters. Only then is a body read, where the endpoint takes one.
 * So who may not ask costs a few hundred bytes. Connections are kept in the order in which they were last heard of; the
 * one that a new one pushes out is the quietest of those that are not being answered.
 *
 * Invariant: connection->request and request->connection point at each other as long as both live.
 */
#include "proxy/admin/internal.h"
#include "proxy/headers.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DRAIN_LIMIT (64u * 1024) /* of a body that nobody asked for */

/* ---- requests --------------------------------------------------------------------------------- */

static void on_deadline(void *arg)
{
    struct admin_request *request = arg;
    request->on_deadline(request);
}

static void hold_body(struct admin_request *request, size_t before)
{
    request->admin->body_bytes += buffer_len(&request->body) - before;
}

static struct admin_request *new_request(struct connection *connection, const struct http_message *message)
{
    struct admin_request *request = NEW(struct admin_request);
    request->admin = connection->listener->admin;
    request->connection = connection;
    request->method = message->method_id;
    request->minor = message->minor;
    request->keep_alive = message->keep_alive;
    deadline_init(&request->deadline, request->admin->base, on_deadline, request);
    connection->request = request;
    return request;
}

/* Its connection has let go of it. */
static void free_request(struct admin_request *request)
{
    if (request->work)
        work_forget(request->work);
    deadline_destroy(&request->deadline);
    request->admin->body_bytes -= buffer_len(&request->body);
    buffer_free(&request->body);
    query_clear(&request->query);
    free(request->parameter);
    free(request);
}

static struct client *let_go(struct admin_request *request)
{
    struct client *client = request->connection->client;
    request->connection->request = NULL;
    free_request(request);
    return client;
}

/* ---- answers ---------------------------------------------------------------------------------- */

static size_t collect_fields(const struct answer *answer, struct http_field fields[8])
{
    size_t count = 0;
    fields[count++] = (struct http_field){SPAN("Content-Type"), answer->type};
    fields[count++] = (struct http_field){SPAN("Cache-Control"), SPAN("no-store")};
    fields[count++] = (struct http_field){SPAN("X-Content-Type-Options"), SPAN("nosniff")};
    for (size_t i = 0; i < sizeof answer->extra / sizeof answer->extra[0] && answer->extra[i].name.len; i++)
        fields[count++] = answer->extra[i];
    return count;
}

static void write_head(struct client *client, const struct answer *answer, uint64_t length, bool is_head,
                       bool keep_alive, uint8_t minor)
{
    struct http_field fields[8];
    uint16_t status = answer->status ? answer->status : 200;
    headers_write_response(client_output(client), &(struct response_head){
                                                      .parts = {.status = status,
                                                                .reason = http_reason(status),
                                                                .fields = fields,
                                                                .field_count = collect_fields(answer, fields)},
                                                      .framing = is_head ? RESPONSE_NO_BODY : RESPONSE_LENGTH,
                                                      .length = length,
                                                      .write_length_without_body = is_head,
                                                      .keep_alive = keep_alive,
                                                      .client_minor = minor,
                                                      .date = time(NULL),
                                                  });
}

static bool keeps_alive(const struct admin_request *request)
{
    return request->keep_alive && !request->close && !request->admin->detaching;
}

bool admin_begin_answer(struct admin_request *request, const struct answer *answer, uint64_t length)
{
    bool is_head = request->method == HTTP_HEAD_METHOD;
    write_head(request->connection->client, answer, length, is_head, keeps_alive(request), request->minor);
    return !is_head;
}

void admin_end_answer(struct admin_request *request, bool whole)
{
    bool keep_alive = keeps_alive(request);
    struct client *client = let_go(request);
    if (whole)
        client_finish(client, keep_alive, DRAIN_LIMIT);
    else
        client_cut(client);
}

void admin_answer(struct admin_request *request, const struct answer *answer)
{
    if (admin_begin_answer(request, answer, answer->body.len))
        client_append(request->connection->client, answer->body.data, answer->body.len);
    admin_end_answer(request, true);
}

void admin_answer_json(struct admin_request *request, struct buffer *json)
{
    buffer_append(json, "\n", 1);
    admin_answer(request, &(struct answer){.type = SPAN("application/json"), .body = buffer_span(json)});
    buffer_free(json);
}

static struct answer problem_answer(const struct problem_row *row, const struct problem *problem, struct buffer *body)
{
    struct answer answer = {.status = row->status, .type = SPAN("application/problem+json")};
    size_t extra = 0;
    problem_write_row(body, row, problem);
    answer.body = buffer_span(body);
    if (row->retry_after)
        answer.extra[extra++] = (struct http_field){SPAN("Retry-After"), SPAN("1")};
    if (row == refusal_row(REFUSAL_UNAUTHORIZED)) {
        answer.extra[extra++] = (struct http_field){SPAN("WWW-Authenticate"), SPAN("Bearer realm=\"einmal\"")};
        answer.extra[extra++] =
            (struct http_field){SPAN("WWW-Authenticate"), SPAN("Basic realm=\"einmal\", charset=\"UTF-8\"")};
    }
    return answer;
}

void admin_refuse_about(struct admin_request *request, enum refusal refusal, const struct problem *problem)
{
    const struct problem_row *row = refusal_row(refusal);
    struct buffer body = {0};
    struct answer answer = problem_answer(row, problem, &body);
    request->close |= row->closes;
    admin_answer(request, &answer);
    buffer_free(&body);
}

void admin_refuse(struct admin_request *request, enum refusal refusal, const char *format, ...)
{
    char detail[512];
    struct problem problem = {.detail = format ? detail : NULL};
    if (format) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(detail, sizeof detail, format, arguments);
        va_end(arguments);
    }
    admin_refuse_about(request, refusal, &problem);
}

static void refuse_method(struct admin_request *request, const char *allow)
{
    struct buffer body = {0};
    struct answer answer = problem_answer(refusal_row(REFUSAL_METHOD_NOT_ALLOWED), &(struct problem){0}, &body);
    answer.extra[0] = (struct http_field){SPAN("Allow"), span_of(allow)};
    admin_answer(request, &answer);
    buffer_free(&body);
}

bool admin_take_id(struct admin_request *request, struct store_id *id)
{
    if (query_id(span_of(request->parameter), id))
        return true;
    admin_refuse(request, REFUSAL_BAD_REQUEST, "the id of an action is 64 lower-case hex digits");
    return false;
}

void admin_who(const struct admin_request *request, char who[ADMIN_WHO_MAX])
{
    snprintf(who, ADMIN_WHO_MAX, "%s%s%s", request->user, *request->user ? " from " : "", request->connection->peer);
}

/* ---- a head ----------------------------------------------------------------------------------- */

/* True: it may go on. */
static bool pass_guard(struct admin_request *request, const struct http_message *message, bool open, bool changes)
{
    const struct guard guard = {request->connection->listener->listen, request->admin->token.text};
    switch (guard_check(&guard, message, open, changes)) {
    case GUARD_PASS:
        return true;
    case GUARD_HOST:
        admin_refuse(request, REFUSAL_HOST_NOT_ALLOWED, NULL);
        return false;
    case GUARD_TOKEN:
        admin_refuse(request, REFUSAL_UNAUTHORIZED, NULL);
        return false;
    case GUARD_ORIGIN:
        admin_refuse(request, REFUSAL_CROSS_ORIGIN, NULL);
        return false;
    }
    return false;
}

static bool take_target(struct admin_request *request, const struct endpoint_match *match,
                        const struct http_message *message)
{
    char why[QUERY_WHY_SIZE];
    if (match->parameter.len && !(request->parameter = query_segment(match->parameter)))
        admin_refuse(request, REFUSAL_BAD_REQUEST, "the path is not percent-encoded as it should be");
    else if (!query_parse(message->query, match->endpoint->query, &request->query, why))
        admin_refuse(request, REFUSAL_BAD_REQUEST, "%s", why);
    else
        return true;
    return false;
}

static void ask_for_body(struct admin_request *request, const struct http_message *message)
{
    struct client *client = request->connection->client;
    if (!http_has_type(message, SPAN("application/json"))) {
        admin_refuse(request, REFUSAL_UNSUPPORTED_MEDIA_TYPE, NULL);
    } else if (message->framing == HTTP_LENGTH && message->content_length > BODY_MAX) {
        request->close = true;
        admin_refuse(request, REFUSAL_BODY_TOO_LARGE, NULL);
    } else {
        if (message->expect_continue)
            client_write_continue(client);
        client_read_body(client, CLIENT_PACE_RATE);
    }
}

static void begin(struct admin_request *request, const struct http_message *message)
{
    bool open_only = request->connection->listener->open_only;
    struct endpoint_match match = endpoint_find(message->method_id, message->path, open_only);
    unsigned flags = match.endpoint ? match.endpoint->flags : 0;
    if (!pass_guard(request, message, open_only || match.open, flags & ENDPOINT_CHANGES))
        return;
    request->endpoint = match.endpoint;
    guard_user(message, request->user);
    if (match.allow) {
        refuse_method(request, match.allow);
    } else if (!match.endpoint) {
        admin_refuse(request, REFUSAL_NOT_FOUND,
                     open_only ? "this is the health listener: it has /healthz, /readyz and /metrics" : NULL);
    } else if (take_target(request, &match, message)) {
        if (flags & ENDPOINT_BODY)
            ask_for_body(request, message);
        else
            match.endpoint->handle(request);
    }
}

/* ---- what the client reports ------------------------------------------------------------------ */

static void append(struct connection *connection)
{
    struct side_listener *listener = connection->listener;
    connection->next = NULL;
    connection->prev = listener->last;
    if (listener->last)
        listener->last->next = connection;
    else
        listener->first = connection;
    listener->last = connection;
    listener->count++;
}

static void take_out(struct connection *connection)
{
    struct side_listener *listener = connection->listener;
    if (connection->prev)
        connection->prev->next = connection->next;
    else
        listener->first = connection->next;
    if (connection->next)
        connection->next->prev = connection->prev;
    else
        listener->last = connection->prev;
    listener->count--;
}

static void *on_head(void *context, struct client *client, const struct http_message *message)
{
    (void)client;
    struct connection *connection = context;
    take_out(connection);
    append(connection);
    struct admin_request *request = new_request(connection, message);
    begin(request, message);
    return request; /* where it has been answered already the client does not keep it */
}

static void on_body(void *exchange, const char *data, size_t len)
{
    struct admin_request *request = exchange;
    size_t before = buffer_len(&request->body);
    if (before + len > BODY_MAX) {
        request->close = true;
        admin_refuse(request, REFUSAL_BODY_TOO_LARGE, NULL);
    } else if (request->admin->body_bytes + len > BODIES_MAX) {
        request->close = true;
        admin_refuse(request, REFUSAL_OVERLOADED, NULL);
    } else {
        buffer_append(&request->body, data, len);
        hold_body(request, before);
    }
}

static void on_body_end(void *exchange)
{
    struct admin_request *request = exchange;
    request->endpoint->handle(request);
}

static void refuse_unread(struct client *client, enum problem_code code, const char *detail)
{
    struct buffer body = {0};
    struct answer answer = problem_answer(problem_row(code), &(struct problem){.detail = detail}, &body);
    write_head(client, &answer, answer.body.len, false, false, 1);
    client_append(client, answer.body.data, answer.body.len);
    buffer_free(&body);
    client_finish(client, false, 0);
}

static void on_body_refused(void *exchange, enum problem_code problem, const char *detail)
{
    refuse_unread(let_go(exchange), problem, detail);
}

static void on_refused(void *context, struct client *client, enum problem_code problem, const char *detail)
{
    (void)context;
    refuse_unread(client, problem, detail);
}

static void on_half_closed(void *exchange)
{
    (void)exchange; /* it is answered all the same */
}

static void on_gone(void *exchange)
{
    let_go(exchange);
}

static void on_writable(void *exchange)
{
    struct admin_request *request = exchange;
    if (request->on_writable)
        request->on_writable(request);
}

static void on_closed(void *context, struct client *client)
{
    (void)client;
    struct connection *connection = context;
    if (connection->request)
        let_go(connection->request);
    take_out(connection);
    acceptor_connection_closed(connection->listener->acceptor);
    free(connection);
}

/* ---- accepting -------------------------------------------------------------------------------- */

static const struct client_events events = {
    .head = on_head,
    .body = on_body,
    .body_end = on_body_end,
    .body_refused = on_body_refused,
    .refused = on_refused,
    .half_closed = on_half_closed,
    .gone = on_gone,
    .writable = on_writable,
    .closed = on_closed,
};

/* Who still reads or sends, or does not even ask, makes way for who asks now; who waits for us does not. */
static void make_room(struct side_listener *listener)
{
    struct connection *connection = listener->first;
    while (connection && connection->request && connection->request->work)
        connection = connection->next;
    if (connection)
        client_free_now(connection->client);
}

static void note_peer(struct connection *connection, int fd, const char *peer)
{
    struct ucred user;
    socklen_t len = sizeof user;
    if (connection->listener->listen->unix_path && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &len) == 0)
        snprintf(connection->peer, sizeof connection->peer, "uid %u", (unsigned)user.uid);
    else
        snprintf(connection->peer, sizeof connection->peer, "%s", peer);
}

void admin_accepted(void *arg, size_t listener_index, int fd, const char *peer)
{
    (void)listener_index; /* one address each */
    struct side_listener *listener = arg;
    struct admin *admin = listener->admin;
    if (listener->count >= CONNECTIONS_MAX)
        make_room(listener);
    if (listener->count >= CONNECTIONS_MAX) {
        acceptor_connection_closed(listener->acceptor);
        close(fd);
        return;
    }
    struct connection *connection = NEW(struct connection);
    connection->listener = listener;
    note_peer(connection, fd, peer);
    append(connection);
    connection->client = client_new(admin->base, fd, peer, &admin->settings, &events, connection);
}

void admin_close_connections(struct side_listener *listener)
{
    while (listener->first)
        client_free_now(listener->first->client);
}
