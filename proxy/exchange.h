/*
 * exchange.h - one request from first byte to last. Runs the flow; owned by the worker, not by the client.
 *
 * The client may leave: the exchange goes on until the action has ended and its outcome is durable. It is freed when
 * the flow is OVER and nobody owes it a callback (store op, upstream call, client).
 */
#pragma once

#include "proxy/worker.h"

extern const struct client_events exchange_client_events; /* context: struct connection */

/* The drain's limit has passed: end now, as contract §9 says. */
void exchange_drain_limit(struct exchange *exchange);
void exchange_free_spares(struct worker *worker);
struct exchange *exchange_next(const struct exchange *exchange); /* the worker's list */
