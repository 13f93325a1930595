/*
 * base64.h - PURE. RFC 4648 §4, strict: padded, no white space, no bits left over.
 */
#pragma once

#include "proxy/buffer.h"

/* Appends the bytes. False: not base64, and nothing is appended. */
bool base64_decode(struct span text, struct buffer *out);
