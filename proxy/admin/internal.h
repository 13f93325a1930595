/*
 * internal.h - shared by the files of proxy/admin that run on its thread.
 *
 *     admin.c          the thread: listeners, orders from the control thread, the end
 *     connection.c     connections and requests: who is asked, what is answered
 *     work.c           what is asked of the store, and outlives who asked
 *     handle_*.c       the endpoints
 *
 * A REQUEST belongs to its connection and dies with its answer or with the peer. WORK belongs to the threads that do it
 * and dies when it is done. Who dies first clears the other's pointer.
 */
#pragma once

#include "proxy/acceptor.h"
#include "proxy/admin/action_json.h"
#include "proxy/admin/admin.h"
#include "proxy/admin/guard.h"
#include "proxy/admin/jobs.h"
#include "proxy/admin/query.h"
#include "proxy/admin/refusal.h"
#include "proxy/client.h"

#include <pthread.h>
#include <stdatomic.h>

#define CONNECTIONS_MAX 64 /* of each listener; beyond, the one that has been quiet longest goes */
#define WORKS_MAX       32 /* asked of the store at once, those included that nobody waits for any more */
#define BODY_MAX        (24u * 1024 * 1024) /* of a request: 16 MiB in base64, and room for the rest */
#define BODIES_MAX      (2 * BODY_MAX)      /* of all requests together */

struct admin_request;
struct admin_work;

struct side_listener {
    struct admin *admin;
    const struct conf_listen *listen;
    struct acceptor *acceptor;       /* NULL: off */
    bool open_only;                  /* health */
    struct connection *first, *last; /* in the order in which they were last heard of */
    size_t count;
};

struct connection {
    struct side_listener *listener;
    struct client *client;
    struct admin_request *request; /* that is being answered; NULL: none */
    struct connection *next, *prev;
    char peer[64]; /* for the log: an address, or "uid 1000" */
};

struct order;

struct admin {
    struct event_base *base;
    struct conf *conf;         /* the present one */
    struct conf *started_with; /* addresses, store */
    struct admin_token token;
    struct log *log;
    struct admin_hooks hooks;
    struct client_settings settings;
    int64_t started_ms;
    struct side_listener health, everything;

    /* ---- the store; NULL once detached ------------------------------------------------------------ */
    struct store *store;
    struct store_handle *handle;
    struct event *store_event;
    struct jobs *readers, *copier;
    struct admin_work *works;
    size_t work_count;
    bool backup_running;
    atomic_int backup_fd;    /* of the copy that is being made; -1: none */
    atomic_bool backup_stop; /* no copy may be begun */
    uint64_t body_bytes;     /* held by requests */

    /* ---- orders ----------------------------------------------------------------------------------- */
    pthread_t thread;
    bool running, stopping;
    bool detaching; /* nothing new may be asked of the store */
    struct event *order_event;
    int order_fd;
    pthread_mutex_t lock;
    pthread_cond_t detached_cond;
    struct order *orders; /* under the lock */
    bool detached;        /* under the lock */
};

/* ---- connection.c ----------------------------------------------------------------------------- */

struct admin_request {
    struct admin *admin;
    struct connection *connection;
    const struct endpoint *endpoint;
    enum http_method method;
    bool keep_alive, close; /* what the client says; what we do */
    uint8_t minor;
    char *parameter; /* what stands for "{}" in the path, decoded */
    struct query query;
    struct buffer body;
    char user[GUARD_USER_MAX + 1];
    struct admin_work *work;
    int64_t wait_until_ms; /* a drain */
    struct deadline deadline;
    void (*on_deadline)(struct admin_request *request);
    void (*on_writable)(struct admin_request *request);
};

struct answer {
    uint16_t status; /* 0: 200 */
    struct span type, body;
    struct http_field extra[4]; /* up to the first without a name */
};

/* Each of these ends the request. */
void admin_answer(struct admin_request *request, const struct answer *answer);
void admin_answer_json(struct admin_request *request, struct buffer *json); /* takes the text; adds a line end */
void admin_refuse(struct admin_request *request, enum refusal refusal, const char *format, ...)
    __attribute__((format(printf, 3, 4))); /* NULL: the row's own words */
void admin_refuse_about(struct admin_request *request, enum refusal refusal, const struct problem *problem);
/* For an answer whose body follows: writes the head, tells whether a body is wanted. */
bool admin_begin_answer(struct admin_request *request, const struct answer *answer, uint64_t length);
void admin_end_answer(struct admin_request *request, bool whole);

/* The id in its path. False: refused. */
bool admin_take_id(struct admin_request *request, struct store_id *id);

void admin_accepted(void *arg, size_t listener, int fd, const char *peer); /* arg: struct side_listener */
void admin_close_connections(struct side_listener *listener);
/* "alice from 127.0.0.1", for decisions and the log. */
#define ADMIN_WHO_MAX 160
void admin_who(const struct admin_request *request, char who[ADMIN_WHO_MAX]);

/* ---- work.c ----------------------------------------------------------------------------------- */

struct admin_work { /* first member of what a handler asks the store for */
    struct job job;
    struct admin *admin;
    struct admin_request *request; /* NULL: nobody waits for it any more */
    struct admin_work *next, *prev;
    void (*run)(struct admin_work *work);  /* on another thread: the store only */
    void (*then)(struct admin_work *work); /* in the loop: answers, or goes on; with work_over() as the last thing */
    void (*free)(struct admin_work *work); /* what belongs to it, and itself */
    bool parked;                           /* no thread has it, it waits for its peer: it ends with its request */
};

/* Binds it to the request. False: refused and answered (too many, or the store is going), and the work is freed. */
bool work_begin(struct admin_work *work, struct admin_request *request);
void work_run(struct admin_work *work, struct jobs *jobs); /* run() on the thread, then then() */
void work_over(struct admin_work *work);
void work_end_parked(struct admin *admin);
/* The peer is gone, or does not wait any longer. */
void work_forget(struct admin_work *work);
/* From now on the request waits for its work at most store.timeout. */
void work_wait(struct admin_request *request);

/* ---- admin.c ---------------------------------------------------------------------------------- */

void admin_work_is_over(struct admin *admin); /* detaching may be complete */

/* ---- handle_status.c -------------------------------------------------------------------------- */

void admin_end_drain_waits(struct admin *admin);
