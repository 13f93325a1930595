/*
 * client_internal.h - shared by client*.c only.
 *
 *     client.c        the life of a connection: begin, answer finished, idle, lingering, death; deadlines
 *     client_read.c   bytes of the socket to events
 *     client_write.c  collected bytes to the socket
 *     client_tunnel.c what is different in a tunnel
 */
#pragma once

#include "proxy/client.h"

enum client_state {
    CLIENT_IDLE,      /* between requests, nothing read */
    CLIENT_HEAD,      /* part of a head is here */
    CLIENT_REQUEST,   /* an exchange has it */
    CLIENT_FLUSHING,  /* the answer is complete, not all of it is on the socket */
    CLIENT_DRAINING,  /* the answer is out, the request's body is not in */
    CLIENT_LINGERING, /* FIN sent: waiting for the peer's */
    CLIENT_DEAD,      /* waits to be freed from the loop */
};

struct client {
    struct event_base *base;
    struct stream stream;
    const struct client_settings *settings;
    const struct client_events *events;
    void *context, *exchange;
    struct http_parser *parser;
    enum client_state state;
    struct event readable, writable, later;
    struct deadline deadline, send_deadline;
    struct buffer input, output;

    bool tls;
    bool handshaking;              /* tls: state is IDLE, no byte of a request can have come */
    struct tls_identity *identity; /* tls: of the certificate that the peer showed; NULL: none */

    bool processing;       /* the loop over bytes is running */
    bool reading;          /* EV_READ is armed */
    bool watching;         /* not to read, but edge-triggered: a reset is to be noticed */
    bool write_armed;      /* EV_WRITE is armed */
    bool ended;            /* the peer's FIN was seen */
    bool broken;           /* a write failed: gone() is due */
    bool above;            /* output was above low water: writable() is due when it sinks */
    bool body_wanted;      /* the exchange takes body */
    bool body_done;        /* the request is here wholly, or no more of it will be read */
    bool body_end_due;     /* …and the exchange has not been told */
    bool told_half_closed; /* at most once a request */
    bool closing;          /* no further request after this answer */
    bool close_when_idle;  /* nor after any */
    bool cut;              /* the last answer is not whole: TLS ends without close_notify */
    bool asked;            /* a request has come on this connection */
    bool tunnel;           /* the body is another protocol's, up to the peer's FIN */
    bool fin_due;          /* no more will be written: FIN when the output is empty */

    enum client_pace pace;
    uint64_t window_bytes; /* body that came since the body's deadline was set */
    size_t read_size;      /* grows with each read of a body that fills it, falls back with a pause */
    uint64_t drain_left;
    size_t head_len;
    int64_t linger_until_ms;
    char peer[64];
};

/* client.c */
void client_begin_linger(struct client *client); /* FIN, then the peer's bytes are thrown away for a while */
void client_say_end(struct client *client);      /* the first part of it; again while it does not fit */
void client_linger_on(struct client *client);    /* bytes came: another while, within the bounds */
void client_become_idle(struct client *client);
void client_leave_if_idle(struct client *client);   /* draining: closes, unless a request may be on its way */
void client_after_answer(struct client *client);    /* the whole answer is on the socket */
void client_die(struct client *client, bool reset); /* no exchange is attached */
void client_gone(struct client *client,
                 bool reset);                      /* the same under an exchange; the last thing that a callback does */
void client_look_again(struct client *client);     /* client_process_input, soon, from the loop */
void client_set_body_clock(struct client *client); /* starts a new window of body_timeout */
void client_refuse(struct client *client, enum problem_code problem, const char *detail);
void client_secured(struct client *client);     /* the handshake is over */
void client_not_secured(struct client *client); /* it has failed */

/* client_read.c */
void client_process_input(struct client *client);
void client_want_reading(struct client *client, bool wanted);
void client_on_readable(evutil_socket_t fd, short what, void *arg);

/* client_write.c */
void client_write_out(struct client *client, const void *data, size_t len);
void client_wait_to_write(struct client *client);
void client_on_writable(evutil_socket_t fd, short what, void *arg);

/* client_tunnel.c */
void client_tunnel_end(struct client *client); /* the peer's FIN */
void client_fin_if_due(struct client *client); /* the output has sunk */
