/*
 * stream_move: bytes go from one socket to another by way of a pipe, and whatever the other does not take comes back in
 * order. Nothing stays in the pipe, whoever has ended.
 */
#include "net.h"
#include "proxy/stream.h"

#include <stdlib.h>

#define SIZE (256 * 1024)

struct way { /* api → from … to → client: the test is api and client */
    int api, client, pipe[2];
    struct stream from, to;
};

static void way_open(struct way *way)
{
    int in[2], out[2];
    net_begin();
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, in) == 0);
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, out) == 0);
    cr_assert(pipe2(way->pipe, O_NONBLOCK) == 0 && fcntl(way->pipe[1], F_SETPIPE_SZ, 4 * SIZE) > 0);
    way->api = in[0];
    way->client = out[1];
    way->from = (struct stream){.fd = in[1], .ready = true};
    way->to = (struct stream){.fd = out[0], .ready = true};
}

static void way_close(struct way *way)
{
    char byte;
    cr_expect(read(way->pipe[0], &byte, 1) < 0 && errno == EAGAIN, "nothing is left in the pipe");
    const int fds[] = {way->api, way->client, way->pipe[0], way->pipe[1], way->from.fd, way->to.fd};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        close(fds[i]);
    net_end();
}

/* Bytes that tell where they belong. */
static uint8_t byte_at(size_t at)
{
    return (uint8_t)(at ^ at >> 8 ^ at >> 16);
}

static size_t produce(int fd, size_t at)
{
    static uint8_t bytes[SIZE];
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = byte_at(at + i);
    ssize_t put = write(fd, bytes, SIZE);
    return put > 0 ? (size_t)put : 0;
}

static size_t consume(int fd, size_t at, size_t most)
{
    static uint8_t bytes[SIZE];
    ssize_t got = read(fd, bytes, most);
    for (ssize_t i = 0; i < got; i++)
        cr_assert_eq(bytes[i], byte_at(at + (size_t)i), "byte %zu", at + (size_t)i);
    return got > 0 ? (size_t)got : 0;
}

/* The client reads as long as something is there and on its way. Returns how much it has seen in all. */
static size_t catch_up(int client, size_t seen, size_t *on_way, size_t most)
{
    size_t took;
    while (*on_way && (took = consume(client, seen, most))) {
        seen += took;
        *on_way -= took;
    }
    return seen;
}

Test(stream, moves_in_order_whatever_the_pace)
{
    static char rest[SIZE];
    static const size_t paces[] = {SIZE, 4096, 1000, 0};
    struct way way;
    way_open(&way);
    for (size_t i = 0; i < sizeof paces / sizeof paces[0]; i++) {
        size_t made = 0, seen = 0, on_way = 0, moved, len;
        for (int turn = 0; turn < 200; turn++) {
            made += produce(way.api, made);
            while (stream_move(&way.from, &way.to, way.pipe, SIZE, &moved, rest, &len)) {
                for (size_t at = 0; at < len; at++) /* what the client did not take: a caller would keep it */
                    cr_assert_eq((uint8_t)rest[at], byte_at(seen + on_way + moved + at));
                on_way += moved;
                if (!len)
                    continue;
                seen = catch_up(way.client, seen, &on_way, SIZE); /* and then the rest */
                cr_assert_eq(on_way, 0, "what was moved is there");
                seen += len;
            }
            if (paces[i])
                seen = catch_up(way.client, seen, &on_way, paces[i]);
        }
        seen = catch_up(way.client, seen, &on_way, SIZE);
        cr_assert_eq(on_way, 0);
        cr_assert_eq(seen, made, "pace %zu: all of it, and once", paces[i]);
        cr_assert(made > 4 * SIZE);
    }
    way_close(&way);
}

Test(stream, tells_that_there_is_nothing_and_leaves_the_end_to_a_read)
{
    static char rest[SIZE];
    size_t moved, len;
    struct way way;
    way_open(&way);
    cr_expect(!stream_move(&way.from, &way.to, way.pipe, SIZE, &moved, rest, &len), "nothing there");
    cr_expect_eq(stream_read(&way.from, rest, SIZE, &moved), STREAM_AGAIN);
    cr_assert_eq(write(way.api, "last", 4), 4);
    shutdown(way.api, SHUT_WR);
    cr_expect(stream_move(&way.from, &way.to, way.pipe, SIZE, &moved, rest, &len) && moved == 4 && len == 0);
    cr_expect(!stream_move(&way.from, &way.to, way.pipe, SIZE, &moved, rest, &len), "the end");
    cr_expect_eq(stream_read(&way.from, rest, SIZE, &moved), STREAM_END);
    way_close(&way);
}

Test(stream, gives_back_what_a_client_that_left_does_not_take)
{
    static char rest[SIZE];
    size_t moved, len;
    struct way way;
    way_open(&way);
    shutdown(way.client, SHUT_RD);
    cr_assert_eq(write(way.api, "for nobody", 10), 10);
    cr_expect(stream_move(&way.from, &way.to, way.pipe, SIZE, &moved, rest, &len));
    cr_expect(moved == 0 && len == 10 && memcmp(rest, "for nobody", 10) == 0);
    struct iovec part = {rest, len};
    cr_expect_eq(stream_write(&way.to, &part, 1, &moved), STREAM_BROKEN, "its next write tells");
    way_close(&way);
}

Test(stream, moves_no_more_than_it_was_told)
{
    static char rest[SIZE];
    size_t moved, len;
    struct way way;
    way_open(&way);
    size_t made = produce(way.api, 0);
    cr_expect(stream_move(&way.from, &way.to, way.pipe, 1000, &moved, rest, &len) && moved + len == 1000);
    cr_expect(made > 1000 && consume(way.client, 0, SIZE) == moved);
    way_close(&way);
}
