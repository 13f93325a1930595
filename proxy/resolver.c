/*
 * resolver.c - names to addresses on threads that may hang without anybody noticing.
 *
 * A table of names, one lock. Whoever needs a name that is not fresh starts one thread for it (at most MAX_THREADS at
 * once; further names wait for a place) and is told through the inbox of its worker. Known addresses are served at once
 * while a refresh runs, also while refreshing fails: an API does not become unreachable because a name server does. A
 * thread in getaddrinfo holds a reference on the table and on nothing else, so shutting down does not wait for it.
 *
 * Left out: TTLs (getaddrinfo does not tell them): 30 s for all.
 */
#include "proxy/resolver.h"
#include "proxy/clock.h"
#include "proxy/span.h"
#include "proxy/thread.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define FRESH_MS    30000
#define RETRY_MS    1000 /* after a failure (to resolve, or to connect), not sooner again */
#define MAX_THREADS 8

struct resolver_query {
    struct resolver_client *client;
    struct resolver_query *next;
    resolver_cb *done;
    void *arg;
    struct resolver_addresses addresses;
    bool cancelled;
};

struct name {
    struct name *next;
    char *host;
    uint16_t port;
    struct resolver_addresses good; /* the last that were found */
    int64_t resolved_ms;            /* when that was last tried */
    int64_t fresh_until_ms;         /* before, no thread is started for it, but after a failure to connect */
    bool resolving, queued;
    struct resolver_query *waiting;
};

struct resolver {
    pthread_mutex_t lock;
    unsigned refs; /* the owner, and each running thread */
    bool closed;   /* the owner has left: names that wait for a thread get none */
    unsigned threads;
    struct name *names;
};

struct resolver_client {
    struct resolver *resolver;
    struct event *event;
    int fd;
    struct resolver_query *inbox; /* under the resolver's lock */
};

struct job {
    struct resolver *resolver;
    struct name *name; /* lives as long as the resolver */
};

/* ---- resolving -------------------------------------------------------------------------------- */

static void resolve(const char *host, uint16_t port, struct resolver_addresses *out)
{
    char service[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list = NULL;
    snprintf(service, sizeof service, "%u", port);
    out->count = 0;
    if (getaddrinfo(host, service, &hints, &list) != 0)
        return;
    for (struct addrinfo *item = list; item && out->count < RESOLVER_MAX_ADDRESSES; item = item->ai_next) {
        if (item->ai_addrlen > sizeof out->items[0])
            continue;
        memcpy(&out->items[out->count], item->ai_addr, item->ai_addrlen);
        out->lengths[out->count++] = item->ai_addrlen;
    }
    freeaddrinfo(list);
}

static void unref_locked(struct resolver *resolver)
{
    bool last = --resolver->refs == 0;
    pthread_mutex_unlock(&resolver->lock);
    if (!last)
        return;
    while (resolver->names) {
        struct name *name = resolver->names;
        resolver->names = name->next;
        assert(!name->waiting);
        free(name->host);
        free(name);
    }
    pthread_mutex_destroy(&resolver->lock);
    free(resolver);
}

static void tell(struct resolver_query *query, const struct resolver_addresses *addresses)
{
    struct resolver_client *client = query->client;
    if (query->cancelled) {
        free(query);
        return;
    }
    bool was_empty = !client->inbox;
    query->addresses = *addresses;
    query->next = client->inbox;
    client->inbox = query;
    if (was_empty)
        waker_wake(client->fd);
}

static void start_thread_locked(struct resolver *resolver, struct name *name);

static void *thread_main(void *arg)
{
    struct job job = *(struct job *)arg;
    struct resolver *resolver = job.resolver;
    struct name *name = job.name;
    struct resolver_addresses found;
    free(arg);
    resolve(name->host, name->port, &found); /* host and port never change */
    pthread_mutex_lock(&resolver->lock);
    name->resolving = false;
    name->resolved_ms = clock_ms(CLOCK_MONOTONIC);
    name->fresh_until_ms = name->resolved_ms + (found.count ? FRESH_MS : RETRY_MS);
    if (found.count)
        name->good = found;
    while (name->waiting) {
        struct resolver_query *query = name->waiting;
        name->waiting = query->next;
        tell(query, &name->good);
    }
    resolver->threads--;
    for (struct name *other = resolver->names; other; other = other->next)
        if (other->queued && resolver->threads < MAX_THREADS && !resolver->closed)
            start_thread_locked(resolver, other);
    unref_locked(resolver);
    return NULL;
}

/* Signals stay with the control thread. */
static bool start_detached(struct job *job)
{
    pthread_t thread;
    pthread_attr_t detached;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&thread, &detached, thread_main, job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    return failure == 0;
}

static void start_thread_locked(struct resolver *resolver, struct name *name)
{
    name->resolving = true;
    name->queued = resolver->threads >= MAX_THREADS;
    if (name->queued)
        return;
    struct job *job = NEW(struct job);
    *job = (struct job){resolver, name};
    if (start_detached(job)) {
        resolver->refs++;
        resolver->threads++;
    } else {
        name->resolving = false; /* who waits has a time limit of its own; the next one tries again */
        free(job);
    }
}

/* ---- looking up ------------------------------------------------------------------------------- */

static bool literal(const char *host, uint16_t port, struct resolver_addresses *out)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    out->count = 1;
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) {
        memcpy(&out->items[0], &v4, sizeof v4);
        out->lengths[0] = sizeof v4;
        return true;
    }
    if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1) {
        memcpy(&out->items[0], &v6, sizeof v6);
        out->lengths[0] = sizeof v6;
        return true;
    }
    out->count = 0;
    return false;
}

static struct name *find_locked(struct resolver *resolver, const char *host, uint16_t port)
{
    for (struct name *name = resolver->names; name; name = name->next)
        if (name->port == port && strcmp(name->host, host) == 0)
            return name;
    struct name *name = NEW(struct name); /* as many as the configurations have named: a peer cannot add to them */
    name->host = copy_string(host);
    name->port = port;
    name->next = resolver->names;
    resolver->names = name;
    return name;
}

bool resolver_look_up(struct resolver_client *client, const char *host, uint16_t port, struct resolver_addresses *out,
                      struct resolver_query **query, resolver_cb *done, void *arg)
{
    struct resolver *resolver = client->resolver;
    *query = NULL;
    if (literal(host, port, out))
        return true;
    pthread_mutex_lock(&resolver->lock);
    struct name *name = find_locked(resolver, host, port);
    if (!name->resolving && clock_ms(CLOCK_MONOTONIC) >= name->fresh_until_ms)
        start_thread_locked(resolver, name);
    bool known = name->good.count > 0;
    if (known) {
        *out = name->good;
    } else if (!name->resolving) { /* failed a moment ago */
        out->count = 0;
        known = true;
    } else {
        *query = NEW(struct resolver_query);
        **query = (struct resolver_query){.client = client, .next = name->waiting, .done = done, .arg = arg};
        name->waiting = *query;
    }
    pthread_mutex_unlock(&resolver->lock);
    return known;
}

void resolver_cancel(struct resolver_query *query)
{
    struct resolver *resolver = query->client->resolver;
    pthread_mutex_lock(&resolver->lock);
    query->cancelled = true; /* freed by whoever meets it next: the thread or the inbox */
    pthread_mutex_unlock(&resolver->lock);
}

void resolver_failed(struct resolver_client *client, const char *host, uint16_t port)
{
    struct resolver_addresses ignored;
    if (literal(host, port, &ignored))
        return;
    pthread_mutex_lock(&client->resolver->lock);
    struct name *name = find_locked(client->resolver, host, port);
    int64_t now = clock_ms(CLOCK_MONOTONIC);
    if (name->good.count && !name->resolving && now >= name->resolved_ms + RETRY_MS)
        start_thread_locked(client->resolver, name);
    pthread_mutex_unlock(&client->resolver->lock);
}

/* ---- a worker's end --------------------------------------------------------------------------- */

static void on_inbox(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct resolver_client *client = arg;
    waker_heard(fd);
    for (;;) {
        pthread_mutex_lock(&client->resolver->lock);
        struct resolver_query *query = client->inbox;
        if (query)
            client->inbox = query->next;
        bool cancelled = query && query->cancelled;
        pthread_mutex_unlock(&client->resolver->lock);
        if (!query)
            return;
        if (!cancelled)
            query->done(query->arg, &query->addresses);
        free(query);
    }
}

struct resolver_client *resolver_client_new(struct resolver *resolver, struct event_base *base)
{
    struct resolver_client *client = NEW(struct resolver_client);
    client->resolver = resolver;
    client->fd = waker_open();
    client->event = must_allocate(event_new(base, client->fd, EV_READ | EV_PERSIST, on_inbox, client));
    event_add(client->event, NULL);
    return client;
}

void resolver_client_free(struct resolver_client *client)
{
    struct resolver *resolver = client->resolver;
    pthread_mutex_lock(&resolver->lock);
    for (struct name *name = resolver->names; name; name = name->next)
        for (struct resolver_query **at = &name->waiting; *at;) {
            struct resolver_query *query = *at;
            if (query->client == client) {
                assert(query->cancelled && "every call has ended");
                *at = query->next;
                free(query);
            } else {
                at = &query->next;
            }
        }
    while (client->inbox) {
        struct resolver_query *query = client->inbox;
        client->inbox = query->next;
        free(query);
    }
    pthread_mutex_unlock(&resolver->lock);
    event_free(client->event);
    close(client->fd);
    free(client);
}

struct resolver *resolver_new(void)
{
    struct resolver *resolver = NEW(struct resolver);
    pthread_mutex_init(&resolver->lock, NULL);
    resolver->refs = 1;
    return resolver;
}

void resolver_free(struct resolver *resolver)
{
    pthread_mutex_lock(&resolver->lock);
    resolver->closed = true;
    unref_locked(resolver);
}
