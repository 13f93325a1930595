/*
 * race_store.c - several workers at one store, for the thread sanitizer: a plain program, because criterion does not
 * run under it.
 *
 *     race_store [SECONDS]
 *
 * Each thread has a handle of its own and plays owners, waiters and those who leave, all on few keys, while other
 * threads list and look at the actions, resolve and forget them, make copies, ask for the status, declare scopes, and
 * inject failing commits; LMDB is closed and opened again after each. What must hold whatever happens: what is listed
 * is listed once and in order, one holder of a token at a time, every op answered exactly once, and after all is over
 * nobody waits and nothing is in progress.
 */
#include "tests/support/lmdb_fault.c"

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

/* ---- people ----------------------------------------------------------------------------------- */

#define PEOPLE 3

static atomic_uint pages_read, copies_made, failures_survived;

static void count_message(void *arg, enum store_log_level level, const char *message)
{
    (void)arg, (void)level;
    if (strstr(message, "can write again"))
        atomic_fetch_add(&failures_survived, 1);
}

static void read_page(struct store *store, struct store_query *query)
{
    struct store_page page;
    uint64_t number = query->after;
    if (store_scan(store, query, &page) != STORE_READ_DONE)
        return; /* its engine is out of order for a moment */
    for (size_t i = 0; i < page.count; i++) {
        struct store_action action;
        if (page.actions[i].number <= number || (query->state && page.actions[i].state != query->state))
            driver_die("a page is not what was asked for");
        number = page.actions[i].number;
        store_get(store, &page.actions[i].id, &action);
        store_action_clear(&action);
    }
    query->after = page.next;
    store_page_clear(&page);
}

static void decide(struct driver *driver, unsigned turn)
{
    struct asked op = ending_op(turn % 2 ? STORE_RESOLVE : STORE_FORGET, turn % KEYS, 0, 0);
    op.op.to_state = turn % 4 == 1 ? STORE_COMPLETED : STORE_RELEASED;
    op.op.decision = "so it was";
    op.op.retention_ms = 10;
    enum store_answer answer = tell(driver, op).answer;
    if (answer != STORE_DONE && answer != STORE_REFUSED && answer != STORE_FAILED)
        driver_die("a decision was answered with something else");
}

static void *be_a_person(void *arg)
{
    struct driver driver = {.store = arg, .handle = store_handle_open(arg)};
    struct store_query queries[] = {{.limit = 3}, {.limit = 2, .state = STORE_UNKNOWN}, {.limit = 100, .task = "t"}};
    for (unsigned turn = 0; !atomic_load(&over); turn++) {
        read_page(driver.store, &queries[turn % 3]);
        if (turn % 7 == 0)
            decide(&driver, turn / 7);
        atomic_fetch_add(&pages_read, 1);
    }
    store_handle_close(driver.handle);
    return NULL;
}

/* One after the other; some are stopped on their way. */
static void *make_copies(void *arg)
{
    char error[500];
    while (!atomic_load(&over)) {
        FILE *file = tmpfile();
        if (!file)
            driver_die("no file for a copy");
        if (store_backup(arg, fileno(file), error, sizeof error))
            atomic_fetch_add(&copies_made, 1);
        fclose(file);
        usleep(1000);
    }
    return NULL;
}

/* A race in which nothing failed and nobody looked would show nothing. */
static bool saw_all(const char *engine)
{
    return atomic_load(&failures_survived) && atomic_load(&pages_read) &&
           (atomic_load(&copies_made) || strcmp(engine, "lmdb") != 0);
}

static void disturb(struct store *store, const char *engine, unsigned seconds)
{
    static const enum engine_memory_fault faults[] = {ENGINE_MEMORY_COMMIT_FAILS, ENGINE_MEMORY_COMMIT_LIES,
                                                      ENGINE_MEMORY_BEGIN_FAILS, ENGINE_MEMORY_COMMIT_FULL};
    int64_t until = boot_time_ms() + seconds * 1000, at_most = until + 20000;
    for (unsigned i = 0; boot_time_ms() < until || (!saw_all(engine) && boot_time_ms() < at_most); i++) {
        struct store_status status;
        uint8_t digest[STORE_HASH_LEN] = {(uint8_t)(i % 3)};
        int64_t ms;
        store_status(store, &status);
        store_declare_scope(store, "orders", digest, 5000, &ms);
        if (i % 32 < 3) /* some in a row; between them a copy has time to end, on a slow machine too */
            store_backup_stop(store);
        if (strcmp(engine, "memory") == 0)
            engine_memory_inject(store_engine_of(store), faults[i % 4], i % 5);
        else if (i % 16 == 15)
            lmdb_fault_set("meta EIO 1 1");
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
    driver.config.log = count_message;
    driver.store = store_open(&driver.config, error, sizeof error);
    if (!driver.store)
        driver_die(error);
    atomic_store(&over, false);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.store = driver.store, .random = 1234567 + i};
        pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]);
    }
    pthread_t people[PEOPLE], copier;
    for (unsigned i = 0; i < PEOPLE; i++)
        pthread_create(&people[i], NULL, be_a_person, driver.store);
    pthread_create(&copier, NULL, make_copies, driver.store);
    disturb(driver.store, engine, seconds);
    atomic_store(&over, true);
    if (strcmp(engine, "memory") == 0)
        engine_memory_inject(store_engine_of(driver.store), ENGINE_MEMORY_SOUND, 0);
    for (unsigned i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        grants += workers[i].grants;
        answers += workers[i].answers;
    }
    for (unsigned i = 0; i < PEOPLE; i++)
        pthread_join(people[i], NULL);
    pthread_join(copier, NULL);
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
    if (!saw_all(engine))
        driver_die("the people saw nothing, or nothing failed");
    printf("%s: %llu answers, %llu grants, %u pages read, %u copies, %u failures\n", engine,
           (unsigned long long)answers, (unsigned long long)grants, atomic_load(&pages_read), atomic_load(&copies_made),
           atomic_load(&failures_survived));
    atomic_store(&pages_read, 0);
    atomic_store(&copies_made, 0);
    atomic_store(&failures_survived, 0);
}

int main(int argc, char **argv)
{
    unsigned seconds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 3;
    race("memory", seconds);
    race("lmdb", seconds);
    race("lmdb-merging", seconds);
    return 0;
}
