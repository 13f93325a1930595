/*
 * tls.h - contexts of OpenSSL: what a listener shows and asks of its clients, and how an https upstream is met
 * (contract §3 `listen[].tls` and `upstreams.*.tls`).
 *
 * They are built once for a configuration, so that nothing in a file can be wrong later, and shared by all workers. A
 * reload builds new ones; each connection holds what it began with.
 *
 * As a server: TLS 1.2 and 1.3, no renegotiation, ALPN http/1.1 or none (a client that offers only others is refused),
 * resumption by tickets only. Tickets outlive a reload, because their keys do, and are good for one listener with one
 * set of client authorities: a ticket never stands in for a certificate that was not asked for when it was made. Who
 * resumes is who showed the certificate then, for as long as OpenSSL lets a session live (two hours).
 *
 * As a client: the certificate and the name in it are verified unless the configuration says otherwise; the name must
 * stand in subjectAltName (RFC 9110 §4.3.4), wildcards only for a whole label. SNI carries the name, never an address.
 * Sessions are kept per upstream; each was verified under the same name and authorities.
 *
 * THREAD: contexts and references any; streams the worker's.
 */
#pragma once

#include "conf/conf.h"
#include "proxy/stream.h"

struct tls;        /* all contexts of a configuration */
struct tls_server; /* of one listener */
struct tls_client; /* of one upstream */

#define TLS_TICKET_KEYS_LEN 80
struct tls_ticket_keys { /* made once in a process */
    uint8_t bytes[TLS_TICKET_KEYS_LEN];
};
void tls_make_ticket_keys(struct tls_ticket_keys *keys);

/* Reads every file that the configuration names. NULL: lines FILE:LINE:COLUMN: error: … were written, one for each file
 * that is wrong. The first reference is the caller's. keys NULL: for checking only. */
struct tls *tls_load(const struct conf *conf, const struct tls_ticket_keys *keys, FILE *messages);
struct tls *tls_ref(struct tls *tls);
void tls_unref(struct tls *tls); /* NULL is fine */

/* The context of conf->listen[index]; NULL: plain. Borrowed. */
struct tls_server *tls_server_of(const struct tls *tls, size_t index);
struct tls_server *tls_server_ref(struct tls_server *server); /* both: NULL is fine */
void tls_server_unref(struct tls_server *server);
/* The stream's next bytes are those of a handshake, which reading and writing carry on by themselves. */
void tls_server_begin(struct tls_server *server, struct stream *stream);

/* The context of the upstream, which is one of `conf`, that was loaded from; NULL: plain. Borrowed. */
struct tls_client *tls_client_of(const struct tls *tls, const struct conf *conf, const struct conf_upstream *upstream);
struct tls_client *tls_client_ref(struct tls_client *client); /* both: NULL is fine */
void tls_client_unref(struct tls_client *client);
/* stream_handshake() comes next. */
void tls_client_begin(struct tls_client *client, struct stream *stream);

/* Why the handshake has just failed, for the log. */
void tls_explain(const struct stream *stream, char *text, size_t size);

/* Who the client is by its verified certificate. */
struct tls_identity {
    char fingerprint[65]; /* SHA-256 of the certificate, lower-case hex */
    char subject[];       /* RFC 2253 */
};
/* NULL: it showed none. Free it with free(). */
struct tls_identity *tls_identity_new(const struct stream *stream);
/* By the first certificate of a PEM file, unverified: who its owner would be. NULL: there is none. */
struct tls_identity *tls_identity_read(const char *file);
struct tls_identity *tls_identity_copy(const struct tls_identity *identity); /* NULL of NULL */
