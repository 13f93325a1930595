/*
 * stream_tls.h - the TLS half of stream.h. For stream.c only.
 */
#pragma once

#include "proxy/stream.h"

enum stream_result stream_tls_read(struct stream *stream, void *to, size_t size, size_t *moved);
enum stream_result stream_tls_write(struct stream *stream, const struct iovec *parts, int count, size_t *moved);
bool stream_tls_is_quiet(struct stream *stream);
/* close_notify: OK, or AGAIN. */
enum stream_result stream_tls_end(struct stream *stream);
void stream_tls_free(struct stream *stream); /* nothing is said to the peer */
