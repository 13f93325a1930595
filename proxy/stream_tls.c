/*
 * stream_tls.c - reading and writing on a TLS connection.
 *
 * The kernel wakes us for bytes on the socket only, so whatever OpenSSL has already taken from it must be asked for:
 * stream_has_pending() tells. `dry` is true when the last read found the socket empty; then half a record may lie
 * inside, and the event tells when the rest is here.
 *
 * Either direction may wait for the other (a key update is answered while reading, a handshake message is read while
 * writing): read_wants_write and write_wants_read say so, and last until the waiting side tries again.
 *
 * UNSENT. A write of which *moved tells nothing may have left half a record on the wire. Nobody can read half a record:
 * for the peer not one byte of it was sent.
 *
 * Left out: sending file pages, kernel TLS.
 */
#include "proxy/stream_tls.h"

#include <assert.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <string.h>

#define RECORD_SIZE 16384 /* the most that one record holds, RFC 8446 §5.1 */

/* What a call that did not succeed means. The error queue is the thread's: it was cleared before the call. */
static enum stream_result failure(struct stream *stream, int returned, bool writing)
{
    int error = SSL_get_error(stream->ssl, returned);
    if (error == SSL_ERROR_WANT_READ) {
        stream->dry = true;
        if (writing)
            stream->write_wants_read = true;
        return STREAM_AGAIN;
    }
    if (error == SSL_ERROR_WANT_WRITE) {
        if (!writing)
            stream->read_wants_write = true;
        return STREAM_AGAIN;
    }
    if (error == SSL_ERROR_ZERO_RETURN)
        return STREAM_END;
    if (error == SSL_ERROR_SSL && ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        return STREAM_CUT;
    return STREAM_BROKEN;
}

enum stream_result stream_handshake(struct stream *stream)
{
    assert(stream->ssl && !stream->ready);
    ERR_clear_error();
    stream->dry = stream->read_wants_write = false;
    int done = SSL_do_handshake(stream->ssl);
    if (done == 1) {
        stream->ready = true;
        return STREAM_OK;
    }
    return failure(stream, done, false) == STREAM_AGAIN ? STREAM_AGAIN : STREAM_BROKEN;
}

enum stream_result stream_tls_read(struct stream *stream, void *to, size_t size, size_t *moved)
{
    *moved = 0;
    if (!stream->ready) {
        enum stream_result result = stream_handshake(stream);
        if (result != STREAM_OK)
            return result;
    }
    stream->dry = stream->over = stream->read_wants_write = false;
    if (stream->ending != STREAM_OK)
        return stream->ending; /* OpenSSL would say something else the second time */
    do {
        ERR_clear_error();
        int got = SSL_read(stream->ssl, (char *)to + *moved, (int)(size - *moved));
        if (got <= 0) {
            enum stream_result result = failure(stream, got, false);
            if (result != STREAM_AGAIN)
                stream->ending = result;
            if (!*moved)
                return result;
            stream->over = result != STREAM_AGAIN;
            return STREAM_OK;
        }
        *moved += (size_t)got;
    } while (*moved < size && SSL_has_pending(stream->ssl));
    return STREAM_OK;
}

bool stream_has_pending(const struct stream *stream)
{
    return stream->ssl && (stream->over || (!stream->dry && SSL_has_pending(stream->ssl)));
}

/* ---- writing ---------------------------------------------------------------------------------- */

struct source { /* what is left of the parts */
    const struct iovec *parts;
    int count;
    size_t offset; /* in the first of them */
};

static void advance(struct source *source, size_t len)
{
    source->offset += len;
    while (source->count && source->offset >= source->parts->iov_len) {
        source->offset -= source->parts->iov_len;
        source->parts++;
        source->count--;
    }
}

/* The next bytes to go: those of the first part where they fill a record or are the last, else copied together, so that
 * a head and a short body are one record and one packet. */
static size_t next_piece(const struct source *source, char record[RECORD_SIZE], const char **piece)
{
    size_t len = source->parts->iov_len - source->offset;
    *piece = (const char *)source->parts->iov_base + source->offset;
    if (source->count == 1 || len >= RECORD_SIZE)
        return len < INT32_MAX ? len : INT32_MAX;
    memcpy(record, *piece, len);
    for (int i = 1; i < source->count && len < RECORD_SIZE; i++) {
        size_t room = RECORD_SIZE - len, more = source->parts[i].iov_len;
        if (more > room)
            more = room;
        if (more)
            memcpy(record + len, source->parts[i].iov_base, more);
        len += more;
    }
    *piece = record;
    return len;
}

/* A record that the socket did not take is tried again with the same bytes: callers keep what was not moved, and offer
 * it with no less behind it. */
enum stream_result stream_tls_write(struct stream *stream, const struct iovec *parts, int count, size_t *moved)
{
    char record[RECORD_SIZE];
    struct source source = {parts, count, 0};
    const char *piece;
    assert(stream->ready);
    *moved = 0;
    stream->write_wants_read = false;
    for (advance(&source, 0); source.count;) {
        size_t len = next_piece(&source, record, &piece);
        ERR_clear_error();
        int put = SSL_write(stream->ssl, piece, (int)len);
        if (put <= 0) {
            enum stream_result result = failure(stream, put, true);
            if (*moved)
                return STREAM_OK; /* an error is found again by the next write */
            return result == STREAM_AGAIN ? STREAM_AGAIN : STREAM_BROKEN;
        }
        *moved += (size_t)put;
        advance(&source, (size_t)put);
    }
    return STREAM_OK;
}

/* ---- idle and over ---------------------------------------------------------------------------- */

/* Looking takes what is no data, such as tickets, out of the way. */
bool stream_tls_is_quiet(struct stream *stream)
{
    char byte;
    ERR_clear_error();
    int got = SSL_peek(stream->ssl, &byte, 1);
    if (got > 0)
        return false;
    return SSL_get_error(stream->ssl, got) == SSL_ERROR_WANT_READ && !SSL_has_pending(stream->ssl);
}

enum stream_result stream_tls_end(struct stream *stream)
{
    if (!stream->ready || stream->said_end)
        return STREAM_OK;
    ERR_clear_error();
    int result = SSL_shutdown(stream->ssl);
    bool full = result < 0 && SSL_get_error(stream->ssl, result) == SSL_ERROR_WANT_WRITE;
    stream->said_end = !full;
    return full ? STREAM_AGAIN : STREAM_OK;
}

/* Without the flags OpenSSL would take the session for spoilt and refuse to resume it. */
void stream_tls_free(struct stream *stream)
{
    SSL_set_shutdown(stream->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
    SSL_free(stream->ssl);
    stream->ssl = NULL;
    stream->read_wants_write = stream->write_wants_read = false;
}
