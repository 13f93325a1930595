/*
 * race_store.c - several workers at one store, for the thread sanitizer: a plain program, because criterion does not
 * run under it.
 *
 *     race_store [SECONDS]
 *
 * Each thread has a handle of its own and plays owners, waiters and those who leave, all on few keys, while another
 * thread asks for the status, declares scopes, and injects failing commits (memory engine). What must hold whatever
 * happens: one holder of a token at a time, every op answered exactly once, and after all is over nobody waits and
 * nothing is in progress.
 */
#include "tests/store/driver.h"

#include <stdatomic.h>
#include <unistd.h>

#define WORKERS 4
#define PLAYERS 24 /* of each worker */
#define KEYS    12

struct worker;

struct player {
    struct store_op op; /* first */
    struct worker *worker;
    unsigned key;
    bool out, ending, cancelled;
};

struct worker {
    struct store *store;
    struct store_handle *handle;
    struct player players[PLAYERS];
    unsigned out;
    uint64_t random, grants, answers;
    pthread_t thread;
};

static atomic_int holders[KEYS];
static atomic_bool over;

static unsigned roll(struct worker *worker, unsigned sides)
{
    worker->random = worker->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(worker->random >> 33) % sides;
}

static void start(struct player *player);
static void on_answer(struct store_op *op);

static void end(struct player *player, uint64_t token)
{
    static const struct {
        enum store_verb verb;
        enum store_reason reason;
    } endings[] = {{STORE_COMPLETE, 0},
                   {STORE_ABANDON, STORE_REASON_STALL},
                   {STORE_RELEASE, STORE_REASON_UNSENT},
                   {STORE_RELEASE, STORE_REASON_WITHDRAWN},
                   {STORE_RELEASE, STORE_REASON_STATUS},
                   {STORE_RESTORE, STORE_REASON_UNSENT}};
    unsigned which = roll(player->worker, 6);
    struct asked asked = ending_op(endings[which].verb, player->key, token, endings[which].reason);
    if (which < 2 || which == 4)
        asked.op.response = body_of(roll(player->worker, 6000), 1);
    asked.op.retention_ms = 1 + roll(player->worker, 20);
    asked.op.done = on_answer;
    player->op = asked.op;
    player->ending = true;
    store_submit(player->worker->handle, &player->op);
}

static void on_notice(struct store_op *op)
{
    struct player *player = (struct player *)op;
    if (roll(player->worker, 6) == 0) {
        player->cancelled = true;
        store_cancel(player->worker->handle, op);
    } else if (roll(player->worker, 6) == 0) {
        store_no_grant(op, true);
    }
}

static void on_answer(struct store_op *op)
{
    struct player *player = (struct player *)op;
    struct worker *worker = player->worker;
    worker->answers++;
    player->out = false;
    worker->out--;
    store_bytes_unref(op->result.response);
    if (player->ending) {
        if (op->result.answer != STORE_DONE && op->result.answer != STORE_FAILED)
            driver_die("an owner lost its token");
        store_bytes_unref(op->response);
        player->ending = false;
    } else if (op->result.answer == STORE_GRANTED || op->result.answer == STORE_GRANTED_UNKNOWN) {
        worker->grants++;
        if (atomic_fetch_add(&holders[player->key], 1) != 0)
            driver_die("two hold the same action");
        player->out = true;
        worker->out++;
        atomic_fetch_sub(&holders[player->key], 1); /* before the store hears of the ending */
        end(player, op->result.token);
        return;
    }
    if (!atomic_load(&over))
        start(player);
}

static void start(struct player *player)
{
    struct worker *worker = player->worker;
    player->key = roll(worker, KEYS);
    player->op = reserve_op(player->key, 1 + (roll(worker, 50) == 0)).op;
    player->op.retry_unknown = roll(worker, 2);
    player->op.no_wait = roll(worker, 10) == 0;
    player->op.reject_other_identity = roll(worker, 2);
    player->op.unknown_retention_ms = 50;
    player->op.done = on_answer;
    player->op.notice = on_notice;
    player->cancelled = false;
    if (store_look_up(worker->handle, &player->op))
        store_bytes_unref(player->op.result.response);
    player->out = true;
    worker->out++;
    store_submit(worker->handle, &player->op);
    if (roll(worker, 12) == 0)
        store_cancel(worker->handle, &player->op);
}

static void *run_worker(void *arg)
{
    struct worker *worker = arg;
    worker->handle = store_handle_open(worker->store);
    for (unsigned i = 0; i < PLAYERS; i++) {
        worker->players[i].worker = worker;
        start(&worker->players[i]);
    }
    while (worker->out) {
        struct pollfd readable = {.fd = store_handle_fd(worker->handle), .events = POLLIN};
        if (poll(&readable, 1, PATIENCE_MS) <= 0)
            driver_die("the store does not answer");
        store_handle_deliver(worker->handle);
    }
    store_handle_close(worker->handle);
    return NULL;
}

static void disturb(struct store *store, const char *engine, unsigned seconds)
{
    static const enum engine_memory_fault faults[] = {ENGINE_MEMORY_COMMIT_FAILS, ENGINE_MEMORY_COMMIT_LIES,
                                                      ENGINE_MEMORY_BEGIN_FAILS, ENGINE_MEMORY_COMMIT_FULL};
    int64_t until = boot_time_ms() + seconds * 1000;
    for (unsigned i = 0; boot_time_ms() < until; i++) {
        struct store_status status;
        uint8_t digest[STORE_HASH_LEN] = {(uint8_t)(i % 3)};
        int64_t ms;
        store_status(store, &status);
        store_declare_scope(store, "orders", digest, 5000, &ms);
        if (strcmp(engine, "memory") == 0)
            engine_memory_inject(store_engine_of(store), faults[i % 4], i % 5);
        usleep(3000);
    }
}

static void race(const char *engine, unsigned seconds)
{
    static struct worker workers[WORKERS];
    static struct driver driver;
    struct store_status status;
    char error[500];
    uint64_t grants = 0, answers = 0;
    driver_configure(&driver, engine);
    driver.config.log = NULL;
    driver.store = store_open(&driver.config, error, sizeof error);
    if (!driver.store)
        driver_die(error);
    atomic_store(&over, false);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.store = driver.store, .random = 1234567 + i};
        pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]);
    }
    disturb(driver.store, engine, seconds);
    atomic_store(&over, true);
    if (strcmp(engine, "memory") == 0)
        engine_memory_inject(store_engine_of(driver.store), ENGINE_MEMORY_SOUND, 0);
    for (unsigned i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        grants += workers[i].grants;
        answers += workers[i].answers;
    }
    for (unsigned i = 0; i < 400; i++) { /* what was kept is still being written */
        store_status(driver.store, &status);
        if (!status.in_progress && !status.waiters)
            break;
        usleep(25000);
    }
    if (status.in_progress || status.waiters)
        driver_die("somebody was left behind");
    if (!store_close(driver.store, 5000))
        driver_die("not everything was written");
    driver_remove(&driver);
    printf("%s: %llu answers, %llu grants\n", engine, (unsigned long long)answers, (unsigned long long)grants);
}

int main(int argc, char **argv)
{
    unsigned seconds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 3;
    race("memory", seconds);
    race("lmdb", seconds);
    race("lmdb-merging", seconds);
    return 0;
}
