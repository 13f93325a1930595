/*
 * fuzz_stored.c - any bytes as what a disk gives back for a response.
 *
 * Refused, or: within the bytes, writable to a client as a head that we would accept ourselves, and encoded again the
 * same.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include <assert.h>

#include "proxy/stored_response.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_written(const struct response_parts *parts)
{
    struct response_head head = {
        .parts = *parts, .framing = RESPONSE_LENGTH, .length = 7, .keep_alive = true, .client_minor = 1};
    struct buffer out = {0};
    const char *end;

    headers_write_response(&out, &head);
    end = memmem(buffer_data(&out), buffer_len(&out), "\r\n\r\n", 4);
    assert(end && end + 4 == buffer_data(&out) + buffer_len(&out)); /* nothing in it ends the head early */
    buffer_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stored_response read;
    uint8_t *again;
    size_t head_size;

    if (!stored_response_read(&read, data, size))
        return 0;
    head_size = stored_response_head_size(&read.parts);
    assert(head_size + read.body.len == size);
    again = must_allocate(malloc(head_size));
    stored_response_write_head(again, &read.parts, read.body.len);
    assert(memcmp(again, data, head_size) == 0);
    free(again);
    check_written(&read.parts);
    return 0;
}
