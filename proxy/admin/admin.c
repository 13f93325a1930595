/*
 * admin.c - the thread of the side listeners.
 *
 * What comes from the control thread comes as orders, through one list and an eventfd. The end has two steps, because
 * the listeners outlive what they report on: detaching waits until the store and the hooks are left alone, stopping
 * ends the thread.
 *
 * Invariant: after detaching, `store` is NULL, no work is out, and no hook is called.
 */
#include "proxy/admin/internal.h"
#include "proxy/thread.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#define HEADER_BYTES   (16 * 1024)
#define HEADERS        100
#define REQUEST_TARGET (8 * 1024)
#define HEADER_MS      10000
#define BODY_MS        10000 /* at least 1 KiB a second */
#define IDLE_MS        60000
#define SEND_MS        30000

enum order_kind { ORDER_RELOAD, ORDER_DETACH, ORDER_STOP };

struct order {
    struct order *next;
    enum order_kind kind;
    struct conf *conf;
    struct admin_token token;
};

/* ---- orders ----------------------------------------------------------------------------------- */

static void give(struct admin *admin, struct order *order)
{
    pthread_mutex_lock(&admin->lock);
    struct order **end = &admin->orders;
    while (*end)
        end = &(*end)->next;
    *end = order;
    pthread_mutex_unlock(&admin->lock);
    waker_wake(admin->order_fd);
}

static void give_kind(struct admin *admin, enum order_kind kind)
{
    struct order *order = NEW(struct order);
    order->kind = kind;
    give(admin, order);
}

static void reload(struct admin *admin, struct order *order)
{
    conf_unref(admin->conf);
    admin_token_free(&admin->token);
    admin->conf = order->conf;
    admin->token = order->token;
}

/* A copy may take longer than anybody waits: its file is taken from under it, so that it fails. */
static void stop_copying(struct admin *admin)
{
    atomic_store(&admin->backup_stop, true);
    int fd = atomic_load(&admin->backup_fd);
    int null = fd >= 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
    if (null < 0)
        return;
    dup3(null, fd, O_CLOEXEC);
    close(null);
}

void admin_work_is_over(struct admin *admin)
{
    if (!admin->detaching || admin->work_count || !admin->store)
        return;
    event_free(admin->store_event);
    store_handle_close(admin->handle);
    jobs_free(admin->readers);
    jobs_free(admin->copier);
    admin->store = NULL;
    pthread_mutex_lock(&admin->lock);
    admin->detached = true;
    pthread_cond_signal(&admin->detached_cond);
    pthread_mutex_unlock(&admin->lock);
}

static void detach(struct admin *admin)
{
    admin->detaching = true;
    admin_end_drain_waits(admin);
    stop_copying(admin);
    work_end_parked(admin);
    admin_work_is_over(admin);
}

static void follow(struct admin *admin, struct order *order)
{
    switch (order->kind) {
    case ORDER_RELOAD:
        reload(admin, order);
        break;
    case ORDER_DETACH:
        detach(admin);
        break;
    case ORDER_STOP:
        admin->stopping = true;
        break;
    }
    free(order);
}

static void on_order(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct admin *admin = arg;
    waker_heard(fd);
    pthread_mutex_lock(&admin->lock);
    struct order *order = admin->orders;
    admin->orders = NULL;
    pthread_mutex_unlock(&admin->lock);
    while (order) {
        struct order *next = order->next;
        follow(admin, order);
        order = next;
    }
}

static void on_store(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    store_handle_deliver(((struct admin *)arg)->handle);
}

/* ---- the thread ------------------------------------------------------------------------------- */

static void *admin_main(void *arg)
{
    struct admin *admin = arg;
    while (!admin->stopping)
        event_base_loop(admin->base, EVLOOP_ONCE);
    return NULL;
}

void admin_start(struct admin *admin)
{
    thread_start(&admin->thread, admin_main, admin);
    admin->running = true;
}

/* ---- beginning and end ------------------------------------------------------------------------ */

static struct event *watch(struct admin *admin, int fd, event_callback_fn callback)
{
    struct event *event = must_allocate(event_new(admin->base, fd, EV_READ | EV_PERSIST, callback, admin));
    event_add(event, NULL);
    return event;
}

/* Connections beyond CONNECTIONS_MAX push out others, so the acceptor never stops for their number. */
static bool open_listener(struct side_listener *listener, struct admin *admin, const struct conf_listen *address,
                          char *error, size_t error_size)
{
    listener->admin = admin;
    listener->listen = address;
    if (!address->address)
        return true;
    listener->acceptor = acceptor_new(admin->base, address, 1, UINT32_MAX, admin_accepted, listener, error, error_size);
    return listener->acceptor != NULL;
}

static void open_store_side(struct admin *admin, struct store *store)
{
    admin->store = store;
    admin->handle = store_handle_open(store);
    admin->store_event = watch(admin, store_handle_fd(admin->handle), on_store);
    admin->readers = jobs_new(admin->base);
    admin->copier = jobs_new(admin->base);
    atomic_init(&admin->backup_fd, -1);
}

struct admin *admin_new(struct conf *conf, struct admin_token token, struct store *store, struct log *log,
                        const struct admin_hooks *hooks, char *error, size_t error_size)
{
    struct admin *admin = NEW(struct admin);
    admin->base = thread_new_base();
    admin->conf = conf_ref(conf);
    admin->started_with = conf_ref(conf);
    admin->token = token;
    admin->log = log;
    admin->hooks = *hooks;
    admin->started_ms = monotonic_ms();
    admin->settings = (struct client_settings){.limits = {HEADER_BYTES, HEADERS, REQUEST_TARGET},
                                               .fresh = must_allocate(malloc(CLIENT_INPUT_MAX)),
                                               .header_timeout = HEADER_MS,
                                               .body_timeout = BODY_MS,
                                               .idle_timeout = IDLE_MS,
                                               .send_timeout = SEND_MS};
    pthread_mutex_init(&admin->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&admin->detached_cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
    admin->order_fd = waker_open();
    admin->order_event = watch(admin, admin->order_fd, on_order);
    open_store_side(admin, store);
    admin->health.open_only = true;
    if (open_listener(&admin->health, admin, &admin->started_with->health, error, error_size) &&
        open_listener(&admin->everything, admin, &admin->started_with->admin.listen, error, error_size))
        return admin;
    admin_free(admin);
    return NULL;
}

void admin_reload(struct admin *admin, struct conf *conf, struct admin_token token)
{
    struct order *order = NEW(struct order);
    order->kind = ORDER_RELOAD;
    order->conf = conf_ref(conf);
    order->token = token;
    give(admin, order);
}

bool admin_detach(struct admin *admin, int64_t timeout_ms)
{
    int64_t until_ms = monotonic_ms() + timeout_ms;
    struct timespec until = {until_ms / 1000, until_ms % 1000 * 1000000};
    int failed = 0;
    give_kind(admin, ORDER_DETACH);
    pthread_mutex_lock(&admin->lock);
    while (!admin->detached && failed != ETIMEDOUT)
        failed = pthread_cond_timedwait(&admin->detached_cond, &admin->lock, &until);
    bool detached = admin->detached;
    pthread_mutex_unlock(&admin->lock);
    return detached;
}

static void close_listener(struct side_listener *listener)
{
    admin_close_connections(listener);
    acceptor_free(listener->acceptor);
}

void admin_free(struct admin *admin)
{
    if (!admin)
        return;
    if (admin->running) {
        assert(admin->detached);
        give_kind(admin, ORDER_STOP);
        pthread_join(admin->thread, NULL);
    }
    close_listener(&admin->health);
    close_listener(&admin->everything);
    detach(admin); /* where the thread never ran */
    assert(!admin->store && !admin->works && !admin->body_bytes && !admin->orders);
    event_free(admin->order_event);
    close(admin->order_fd);
    event_base_free(admin->base);
    free(admin->settings.fresh);
    conf_unref(admin->conf);
    conf_unref(admin->started_with);
    admin_token_free(&admin->token);
    pthread_mutex_destroy(&admin->lock);
    pthread_cond_destroy(&admin->detached_cond);
    free(admin);
}
