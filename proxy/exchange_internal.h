/*
 * exchange_internal.h - shared by exchange*.c only.
 *
 *     exchange.c          birth, the driver, timers, what the client reports, death
 *     exchange_read.c     route, key, the whole body, look-up and reservation
 *     exchange_probe.c    an unknown action: the API is asked whether it happened
 *     exchange_forward.c  the call to the API and what it reports, for both lives
 *     exchange_settle.c   how it ended → COMPLETE, RELEASE, ABANDON
 *     exchange_reply.c    what the client gets: problems, replays, streams
 *     exchange_tunnel.c   the API has answered 101: bytes both ways
 */
#pragma once

#include "proxy/admission.h"
#include "proxy/arena.h"
#include "proxy/cors.h"
#include "proxy/exchange.h"
#include "proxy/flow.h"
#include "proxy/headers.h"
#include "proxy/key.h"
#include "proxy/stored_response.h"

#define APPEND_BELOW (16 * 1024) /* smaller pieces are collected for one write a turn, larger ones are not copied */

/* What an API answered that was asked about an unknown action; exchange_probe.c fills it. */
struct exchange_probe {
    int64_t asked_ms; /* store time: what it says held then or later */
    int64_t began_us;
    struct http_message head; /* copy; status 0: none came yet */
    void *head_memory;
    struct buffer body;
    bool too_large; /* to be recorded; `body` is empty then */
};

/* Where the bytes of the answer's body come from. */
struct answer {
    struct buffer body;           /* a live recording; what has been handed to the client lies before `sent` */
    struct store_bytes *stored;   /* a replay, or the outcome once it has been encoded */
    struct span stored_body;      /* within `stored` */
    struct response_parts replay; /* a replay's head, within `stored` */
    uint64_t sent;                /* bytes of the body that the client has been given */
    bool head_written, flushed;   /* collected; and given to the socket */
    size_t head_at;               /* where the head begins in what was collected */
    bool chunked;
    bool framed_by_length;
    uint64_t length;   /* framed_by_length */
    bool dropped_sent; /* too large to record: `body` holds only what was not sent */
    bool end_allowed;  /* the end may go out: the outcome is durable, or nothing waits for it */
    bool complete;     /* all of the body is here */
    bool no_body;      /* HEAD, 204, 304 */
};

struct exchange {
    struct worker *worker;
    struct worker_conf *conf;
    struct exchange *next, *prev;
    struct client *client; /* NULL: gone, or answered */
    enum flow_state state;

    /* ---- the request ------------------------------------------------------------------------------ */
    struct http_message request;
    struct span host, path;
    struct route_choice choice;
    struct cors cors;
    struct buffer body; /* keyed: the whole of it */
    struct key_identity identity;
    bool keyed, has_identity, continue_sent, half_closed, body_complete, client_paused, upstream_paused;
    char request_id[129];
    char peer[64];
    bool client_tls;
    struct tls_identity *client_identity; /* our copy; NULL: the client showed no certificate */
    char action[65];

    /* ---- the store -------------------------------------------------------------------------------- */
    struct store_op reserve, settle;
    bool reserve_out, settle_out, queued, degraded, regranted;
    uint64_t token;
    struct store_result known; /* the store's answer to RESERVE; `response` moved to answer.stored */

    struct exchange_probe *probe; /* the question to the API and its answer; NULL: none was asked */

    /* ---- the API ---------------------------------------------------------------------------------- */
    struct upstream_call *call;
    struct upstream_end ended;
    struct http_message response;       /* copy of its head */
    struct http_field *response_fields; /* selected end-to-end fields */
    size_t response_field_count;
    bool response_seen, response_too_large;
    bool tunnel, api_half_closed; /* it has answered 101; and then said FIN */
    int64_t outcome_due_ms;

    /* ---- the answer ------------------------------------------------------------------------------- */
    struct answer answer;
    struct problem problem; /* code PROBLEM_NONE: the answer is a response */
    char detail[256];
    enum store_reason reason;
    enum outcome outcome;

    /* ---- account ---------------------------------------------------------------------------------- */
    uint64_t charged;             /* bytes of the worker's budget */
    uint64_t bytes_in, bytes_out; /* heads and bodies, without chunk framing */
    uint64_t body_in;             /* of bytes_in, the body */
    int64_t began_us, forwarded_us, upstream_us, queued_us, wait_us;
    uint16_t status; /* what was sent; 0: nothing */

    /* ---- from here on kept for the next request, see exchange_new ---------------------------------- */
    struct deadline timer;
    struct buffer normal; /* normalised host, then path */
    struct arena arena;   /* copies of both heads */
};

/* The driver. Raising an event is the last thing that a callback does: the exchange may be gone afterwards. */
void exchange_raise(struct exchange *exchange, enum flow_event event);
void exchange_free_if_over(struct exchange *exchange);

const struct conf *exchange_conf(const struct exchange *exchange);
bool exchange_charge(struct exchange *exchange, uint64_t size);

/* Actions: each returns the next event, or FLOW_NONE. */
enum flow_event read_begin(struct exchange *exchange);
enum flow_event reserve_submit(struct exchange *exchange);
enum flow_event reserve_cancel(struct exchange *exchange);
enum flow_event reserve_answer_cancel(struct exchange *exchange);
enum flow_event probe_start(struct exchange *exchange);
enum flow_event forward_start(struct exchange *exchange);
enum flow_event pass_start(struct exchange *exchange);
enum flow_event pass_end(struct exchange *exchange);
enum flow_event pass_break(struct exchange *exchange);
enum flow_event pass_stop(struct exchange *exchange);
enum flow_event settle(struct exchange *exchange);
enum flow_event settle_withdraw(struct exchange *exchange);
enum flow_event settle_put_back(struct exchange *exchange);
enum flow_event settle_probed(struct exchange *exchange);
enum flow_event reply_stream(struct exchange *exchange);
enum flow_event reply_end_early(struct exchange *exchange);
enum flow_event reply(struct exchange *exchange);
enum flow_event reply_504(struct exchange *exchange);

/* Everything of the request that components speak of; its spans live in the exchange. */
struct key_request key_request_of(const struct exchange *exchange);
/* on_unknown: report: what is known of an unknown action becomes the answer. */
void read_report_unknown(struct exchange *exchange, const struct store_result *result);
/* The probe has taken too long: it is given up. What follows from that. */
enum flow_event probe_give_up(struct exchange *exchange);
void probe_free(struct exchange *exchange);

/* What the client side reports, by file. */
void read_body(void *exchange, const char *data, size_t len);
void read_body_end(void *exchange);

/* Sets the problem that will be the answer. */
void exchange_problem(struct exchange *exchange, enum problem_code code, enum outcome outcome);
void reply_head(struct exchange *exchange, struct response_head *head); /* appends it; keeps the account */
void reply_with_stored(struct exchange *exchange, const struct stored_response *view);
void reply_begin(struct exchange *exchange);
void reply_pump(struct exchange *exchange);
void reply_problem_now(struct exchange *exchange);
/* exchange_tunnel.c: what the upstream reports, and the clock of silence. */
void tunnel_begin(void *exchange, const struct http_message *message);
void tunnel_half_closed(void *exchange);
void tunnel_touch(struct exchange *exchange);
void tunnel_silent(struct exchange *exchange);
enum problem_code problem_of_fault(enum upstream_fault fault);
enum problem_code problem_of_reason(enum store_reason reason);
