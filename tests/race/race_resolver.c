/*
 * race_resolver.c - several loops at one resolver, for the thread sanitizer.
 *
 *     race_resolver [SECONDS]
 *
 * Each thread asks for a handful of names, cancels some of its queries, reports failures to connect, and now and then
 * gives its end of the resolver back and takes a new one, while the names' answers come and fail. What must hold: each
 * query is answered exactly once or was cancelled, on the loop that asked, and at the end nobody waits. The table is
 * freed while resolving threads are still inside.
 */
#include "proxy/deadline.h"
#include "proxy/resolver.h"
#include "proxy/span.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define LOOPS   3
#define QUERIES 32
#define NAMES   20 /* more than threads */

static atomic_uint turn, inside;

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
    (void)hints, (void)node;
    atomic_fetch_add(&inside, 1);
    unsigned now = atomic_fetch_add(&turn, 1);
    nanosleep(&(struct timespec){0, now % 7 * 300000}, NULL);
    *list = NULL;
    if (now % 3) {
        struct addrinfo *item = NEW(struct addrinfo);
        struct sockaddr_in *v4 = NEW(struct sockaddr_in);
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)atoi(service));
        v4->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        *item = (struct addrinfo){.ai_family = AF_INET, .ai_addr = (struct sockaddr *)v4, .ai_addrlen = sizeof *v4};
        *list = item;
    }
    atomic_fetch_sub(&inside, 1);
    return *list ? 0 : EAI_AGAIN;
}

void freeaddrinfo(struct addrinfo *list)
{
    free(list->ai_addr);
    free(list);
}

struct asked {
    struct loop *loop;
    struct resolver_query *query;
};

struct loop {
    struct resolver *resolver;
    struct resolver_client *client;
    struct event_base *base;
    struct asked asked[QUERIES];
    pthread_t thread;
    uint64_t random, answers, cancels;
    int64_t until_ms;
};

static uint64_t next(struct loop *loop)
{
    loop->random ^= loop->random << 13;
    loop->random ^= loop->random >> 7;
    return loop->random ^= loop->random << 17;
}

static void done(void *arg, const struct resolver_addresses *addresses)
{
    struct asked *asked = arg;
    assert(asked->query && "neither twice nor after a cancel");
    assert(pthread_equal(asked->loop->thread, pthread_self()));
    assert(addresses->count >= 0 && addresses->count <= RESOLVER_MAX_ADDRESSES);
    asked->query = NULL;
    asked->loop->answers++;
}

static void cancel(struct asked *asked)
{
    if (!asked->query)
        return;
    resolver_cancel(asked->query);
    asked->query = NULL;
    asked->loop->cancels++;
}

static void play(struct loop *loop)
{
    char name[32];
    struct resolver_addresses addresses;
    struct asked *asked = &loop->asked[next(loop) % QUERIES];
    snprintf(name, sizeof name, "name%u.test", (unsigned)(next(loop) % NAMES));
    if (asked->query && next(loop) % 4 == 0)
        cancel(asked);
    else if (!asked->query && resolver_look_up(loop->client, name, (uint16_t)(80 + next(loop) % 200), &addresses,
                                               &asked->query, done, asked))
        loop->answers++;
    if (next(loop) % 8 == 0)
        resolver_failed(loop->client, name, 80);
}

static void leave(struct loop *loop)
{
    for (size_t i = 0; i < QUERIES; i++)
        cancel(&loop->asked[i]);
    resolver_client_free(loop->client);
}

static void *run(void *arg)
{
    struct loop *loop = arg;
    loop->base = must_allocate(event_base_new());
    loop->client = resolver_client_new(loop->resolver, loop->base);
    while (monotonic_ms() < loop->until_ms) {
        for (int i = 0; i < 4; i++)
            play(loop);
        event_base_loop(loop->base, EVLOOP_NONBLOCK);
        if (next(loop) % 512 == 0) {
            leave(loop);
            loop->client = resolver_client_new(loop->resolver, loop->base);
        }
    }
    leave(loop);
    event_base_free(loop->base);
    return NULL;
}

int main(int argc, char **argv)
{
    static struct loop loops[LOOPS];
    struct resolver *resolver = resolver_new();
    int64_t until = monotonic_ms() + (argc > 1 ? atoi(argv[1]) : 3) * 1000;
    uint64_t answers = 0, cancels = 0;
    for (size_t i = 0; i < LOOPS; i++) {
        loops[i].resolver = resolver;
        loops[i].random = 88172645463325252u + i;
        loops[i].until_ms = until;
        for (size_t j = 0; j < QUERIES; j++)
            loops[i].asked[j].loop = &loops[i];
        int failed = pthread_create(&loops[i].thread, NULL, run, &loops[i]);
        assert(!failed);
    }
    for (size_t i = 0; i < LOOPS; i++) {
        pthread_join(loops[i].thread, NULL);
        answers += loops[i].answers;
        cancels += loops[i].cancels;
    }
    resolver_free(resolver);
    for (int i = 0; i < 5000 && atomic_load(&inside); i++)
        usleep(1000);
    usleep(100000); /* the last thread frees the table */
    printf("%llu answers, %llu cancels, %u names resolved\n", (unsigned long long)answers, (unsigned long long)cancels,
           atomic_load(&turn));
    return answers && cancels ? 0 : 1;
}
