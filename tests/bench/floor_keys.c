/*
 * floor_keys.c - the floor below every proxy that stores a key durably: floor_epoll's relay with floor_lmdb's commits.
 *
 *     floor_keys PORT UPSTREAM-PORT DIRECTORY
 *
 * A request is reserved, and goes on when the reservation is committed; the answer is recorded, and goes back when the
 * outcome is. Two threads: the relay, and one that commits whatever has come in the meantime. It reads no HTTP, looks
 * nothing up, knows no repetition, and takes for granted what floor_epoll does: whole messages in one read. What a real
 * proxy costs beyond this is its own; what this costs is the price of two durable commits on this machine.
 */
#include "tests/bench/floor_socket.h"
#include "tests/bench/floor_store.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/eventfd.h>

#define EVENTS 256

struct connection {
    struct connection *next; /* in the queue, or of those committed */
    struct end {
        struct connection *connection;
        int fd;
    } client, api;
    bool reserved; /* what is being committed: the reservation, or the outcome */
    size_t len;
    char message[4096];
};

struct list {
    struct connection *first, **end;
};

static struct {
    struct floor_store store;
    pthread_mutex_t lock;
    pthread_cond_t some;
    struct list queued, committed;
    int ready; /* eventfd: some are committed */
} keys;

static void list_clear(struct list *list)
{
    list->first = NULL;
    list->end = &list->first;
}

static void commit(struct connection *first)
{
    static uint64_t sequence;
    MDB_txn *txn;
    must(mdb_txn_begin(keys.store.env, NULL, 0, &txn));
    for (struct connection *connection = first; connection; connection = connection->next) {
        if (connection->reserved)
            complete_key(&keys.store, txn, sequence);
        else
            reserve_key(&keys.store, txn, sequence);
        sequence++;
    }
    must(mdb_txn_commit(txn));
}

static void *commit_all(void *arg)
{
    for (;;) {
        pthread_mutex_lock(&keys.lock);
        while (!keys.queued.first)
            pthread_cond_wait(&keys.some, &keys.lock);
        struct list group = {keys.queued.first, keys.queued.end};
        list_clear(&keys.queued);
        pthread_mutex_unlock(&keys.lock);
        commit(group.first);
        pthread_mutex_lock(&keys.lock);
        *keys.committed.end = group.first;
        keys.committed.end = group.end;
        pthread_mutex_unlock(&keys.lock);
        eventfd_write(keys.ready, 1);
    }
    return arg;
}

static void take_clients(int epoll, int listener, const char *upstream)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct connection *connection = calloc(1, sizeof *connection);
        connection->client = (struct end){connection, fd};
        connection->api = (struct end){connection, connect_to(upstream)};
        watch_fd(epoll, connection->client.fd, &connection->client);
        watch_fd(epoll, connection->api.fd, &connection->api);
    }
}

/* A message is there: what it means waits for its commit. Connections that end are left to the end of the program. */
static void take_message(int epoll, struct end *end)
{
    struct connection *connection = end->connection;
    ssize_t got = recv(end->fd, connection->message, sizeof connection->message, MSG_DONTWAIT);
    if (got <= 0) {
        epoll_ctl(epoll, EPOLL_CTL_DEL, end->fd, NULL);
        return;
    }
    connection->len = (size_t)got;
    connection->reserved = end == &connection->api;
    connection->next = NULL;
    pthread_mutex_lock(&keys.lock);
    bool was_empty = !keys.queued.first;
    *keys.queued.end = connection;
    keys.queued.end = &connection->next;
    pthread_mutex_unlock(&keys.lock);
    if (was_empty)
        pthread_cond_signal(&keys.some);
}

static void pass_on(void)
{
    eventfd_t count;
    eventfd_read(keys.ready, &count);
    pthread_mutex_lock(&keys.lock);
    struct connection *connection = keys.committed.first, *next;
    list_clear(&keys.committed);
    pthread_mutex_unlock(&keys.lock);
    for (; connection; connection = next) {
        next = connection->next;
        int fd = connection->reserved ? connection->client.fd : connection->api.fd;
        if (send(fd, connection->message, connection->len, MSG_NOSIGNAL) < 0)
            perror("send"); /* the load generator has ended */
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: floor_keys PORT UPSTREAM-PORT DIRECTORY\n");
        return 2;
    }
    struct epoll_event events[EVENTS];
    pthread_t thread;
    int epoll = epoll_create1(EPOLL_CLOEXEC), listener = listen_on(argv[1]);
    keys.ready = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    list_clear(&keys.queued);
    list_clear(&keys.committed);
    open_store(&keys.store, argv[3]);
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &(struct epoll_event){.events = EPOLLIN, .data.ptr = NULL});
    epoll_ctl(epoll, EPOLL_CTL_ADD, keys.ready, &(struct epoll_event){.events = EPOLLIN, .data.ptr = &keys});
    if (pthread_mutex_init(&keys.lock, NULL) || pthread_cond_init(&keys.some, NULL) ||
        pthread_create(&thread, NULL, commit_all, NULL))
        die("pthread");
    for (;;) {
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            if (!events[i].data.ptr)
                take_clients(epoll, listener, argv[2]);
            else if (events[i].data.ptr == &keys)
                pass_on();
            else
                take_message(epoll, events[i].data.ptr);
        }
    }
}
