/*
 * exchange_tunnel.c - the API has answered 101: from here on bytes go both ways, whatever they mean (WebSocket).
 *
 * Only unkeyed requests come here, and they stay PASSING: no state of its own, no row of the flow table. What the
 * client sends is the body of a request without end, what the API sends the body of a response without end: the same
 * pieces, the same back-pressure. Each side's FIN is handed on to the other; the second one ends the tunnel, as
 * COMPLETE. A reset of one side becomes a reset of the other. One access line at the end, with status 101.
 *
 * CLOCKS. No deadline of heads or bodies applies. While both halves are open a tunnel may be silent for an hour: the
 * kernel asks whether the peers still exist. Once one side has said FIN the other has stall_timeout between two bytes.
 * A drain waits for tunnels up to its limit, then they are cut.
 */
#include "proxy/exchange_internal.h"

#include <assert.h>

#define SILENCE_MS (60 * 60 * INT64_C(1000))

void tunnel_touch(struct exchange *exchange)
{
    bool both_open = !exchange->body_complete && !exchange->api_half_closed;
    deadline_set(&exchange->timer,
                 monotonic_ms() + (both_open ? SILENCE_MS : exchange->choice.upstream->stall_timeout));
}

void tunnel_begin(void *owner, const struct http_message *message)
{
    struct exchange *exchange = owner;
    const struct http_field *upgrade = http_find(message, SPAN("Upgrade"));
    struct http_field fields[HTTP_MAX_FIELDS];
    assert(exchange->state == FLOW_PASSING && exchange->client && !exchange->keyed && upgrade);
    exchange->tunnel = exchange->response_seen = true;
    exchange->request.keep_alive = exchange->body_complete = false;
    size_t count = headers_select_response(message, "", fields);
    reply_head(exchange, &(struct response_head){
                             .parts = {message->status, message->reason, fields, count},
                             .framing = RESPONSE_NO_BODY,
                             .upgrade = upgrade->value,
                         });
    client_tunnel(exchange->client);
    client_read_body(exchange->client, CLIENT_PACE_FREE);
    tunnel_touch(exchange);
}

/* The API sends no more; the client still may. */
void tunnel_half_closed(void *owner)
{
    struct exchange *exchange = owner;
    exchange->api_half_closed = true;
    tunnel_touch(exchange);
    client_end_writing(exchange->client);
}

void tunnel_silent(struct exchange *exchange)
{
    log_line(exchange->worker->shared->log, LOG_LEVEL_INFO, "request %s: its tunnel was silent for too long; cut",
             exchange->request_id);
    exchange_raise(exchange, FLOW_RESPONSE_TIMEOUT);
}
