/*
 * resolve.h - a getaddrinfo for tests, in place of the C library's: names of their own, and ones that hang.
 *
 *     one.test     127.0.0.1                  two.test   127.0.0.2, then 127.0.0.1
 *     none.test    fails                      moving.test  what resolve_moving says, or fails where that is NULL
 *     hang.test    answers when resolve_release is set
 */
#pragma once

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static atomic_bool resolve_release;
static atomic_int resolve_calls, resolve_inside, resolve_inside_most, resolve_unblocked_signals;
static _Atomic(const char *) resolve_moving;

static struct addrinfo *resolve_item(const char *address, const char *service, struct addrinfo *next)
{
    struct addrinfo *item = calloc(1, sizeof *item);
    struct sockaddr_in *v4 = calloc(1, sizeof *v4);
    v4->sin_family = AF_INET;
    v4->sin_port = htons((uint16_t)atoi(service));
    inet_pton(AF_INET, address, &v4->sin_addr);
    *item = (struct addrinfo){.ai_family = AF_INET,
                              .ai_socktype = SOCK_STREAM,
                              .ai_addr = (struct sockaddr *)v4,
                              .ai_addrlen = sizeof *v4,
                              .ai_next = next};
    return item;
}

static void resolve_note(void)
{
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    if (!sigismember(&blocked, SIGTERM) || !sigismember(&blocked, SIGHUP))
        atomic_fetch_add(&resolve_unblocked_signals, 1);
    atomic_fetch_add(&resolve_calls, 1);
    int inside = atomic_fetch_add(&resolve_inside, 1) + 1, most = atomic_load(&resolve_inside_most);
    while (inside > most && !atomic_compare_exchange_weak(&resolve_inside_most, &most, inside))
        continue;
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
    (void)hints;
    int result = 0;
    resolve_note();
    *list = NULL;
    if (strcmp(node, "one.test") == 0) {
        *list = resolve_item("127.0.0.1", service, NULL);
    } else if (strcmp(node, "two.test") == 0) {
        *list = resolve_item("127.0.0.2", service, resolve_item("127.0.0.1", service, NULL));
    } else if (strcmp(node, "moving.test") == 0) {
        const char *address = atomic_load(&resolve_moving);
        *list = address ? resolve_item(address, service, NULL) : NULL;
    } else if (strncmp(node, "hang", 4) == 0) {
        while (!atomic_load(&resolve_release))
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        *list = resolve_item("127.0.0.1", service, NULL);
    } else if (strncmp(node, "127.", 4) == 0 || strcmp(node, "0.0.0.0") == 0) {
        *list = resolve_item(node, service, NULL);
    }
    if (!*list)
        result = EAI_NONAME;
    atomic_fetch_sub(&resolve_inside, 1);
    return result;
}

void freeaddrinfo(struct addrinfo *list)
{
    while (list) {
        struct addrinfo *next = list->ai_next;
        free(list->ai_addr);
        free(list);
        list = next;
    }
}
