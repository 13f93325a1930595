/*
 * test_backup.c - a copy of the store that is in use: whole, and never at the cost of what is in use.
 *
 * A pipe that nobody reads stands for a disk that takes no more: LMDB's transaction then lasts until somebody ends the
 * copy. The writes of the store come to lmdb_fault.c.
 */
#include "tests/support/lmdb_fault.c"

#include "tests/store/cases.h"

#define THREADS 4
#define EACH    100000 /* keys of one thread */

/* ---- copies that succeed ---------------------------------------------------------------------- */

/* A store whose data.mdb is the copy. */
static int begin_copy(struct fixture *fixture, struct driver *copy)
{
    char file[300];
    driver_configure(copy, "lmdb");
    copy->config.max_size = fixture->driver.config.max_size;
    copy->config.create = false;
    snprintf(file, sizeof file, "%s/data.mdb", copy->path);
    int fd = open(file, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    return fd;
}

static void open_copy(struct fixture *fixture, struct driver *copy, int fd)
{
    char error[500] = "";
    close(fd);
    if (!driver_open(copy, error, sizeof error))
        cr_assert_fail("%s: the copy does not open: %s", fixture->name, error);
}

static void take_copy(struct fixture *fixture, struct driver *copy)
{
    char error[500] = "";
    int fd = begin_copy(fixture, copy);
    if (!store_backup(fixture->driver.store, fd, error, sizeof error))
        cr_assert_fail("%s: no backup: %s", fixture->name, error);
    open_copy(fixture, copy, fd);
}

static bool has_body(struct driver *driver, unsigned key, size_t len, unsigned seed)
{
    struct asked op = reserve_op(key, 1);
    bool has = store_look_up(driver->handle, &op.op) && op.op.result.answer == STORE_REPLAY &&
               is_body(op.op.result.response, len, seed);
    store_bytes_unref(op.op.result.response);
    return has;
}

static size_t count_pages(struct fixture *fixture, struct store *store, struct store_query query)
{
    struct store_page page;
    size_t count = 0;
    query.limit = 50;
    do {
        CHECK_EQUAL(store_scan(store, &query, &page), STORE_READ_DONE);
        count += page.count;
        query.after = page.next;
        store_page_clear(&page);
    } while (query.after);
    return count;
}

static void a_copy_is_a_store(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver, copy;
    for (unsigned i = 0; i < 300; i++)
        tell_with(driver, ending_op(STORE_COMPLETE, 100 + i, granted(driver, 100 + i, 1), 0), i * 37, i);
    for (unsigned i = 0; i < 300; i += 3)
        tell(driver, ending_op(STORE_FORGET, 100 + i, 0, 0)); /* so that there are free pages to leave out */
    tell(driver, ending_op(STORE_ABANDON, 1, granted(driver, 1, 1), STORE_REASON_STALL));
    uint64_t token = granted(driver, 2, 1);
    take_copy(fixture, &copy);
    for (unsigned i = 0; i < 300; i++)
        CHECK(has_body(&copy, 100 + i, i * 37, i) == (i % 3 != 0));
    CHECK_EQUAL(count_pages(fixture, copy.store, (struct store_query){0}), 202);
    CHECK_EQUAL(count_pages(fixture, copy.store, (struct store_query){.task = "t"}), 202);
    CHECK_EQUAL(count_pages(fixture, copy.store, (struct store_query){.state = STORE_UNKNOWN}), 2);
    CHECK_EQUAL(tell(&copy, reserve_op(2, 1)).reason, STORE_REASON_CRASH, "what was in progress may have happened");
    CHECK(granted(&copy, 3, 1) > token, "tokens go on");
    CHECK(driver_stop(&copy));
    CHECK_EQUAL(tell(driver, ending_op(STORE_COMPLETE, 2, token, 0)).answer, STORE_DONE, "the store goes on");
}

struct client {
    struct store *store;
    unsigned number;
    atomic_uint acknowledged; /* keys from number * EACH on */
    pthread_t thread;
};

static atomic_bool over;

static void *write_on(void *arg)
{
    struct client *client = arg;
    struct driver driver = {.store = client->store, .handle = store_handle_open(client->store)};
    for (unsigned i = 0; i < EACH && !atomic_load(&over); i++) {
        unsigned key = client->number * EACH + i;
        tell_with(&driver, ending_op(STORE_COMPLETE, key, granted(&driver, key, 1), 0), 100 + key % 5000, key);
        atomic_store(&client->acknowledged, i + 1);
    }
    store_handle_close(driver.handle);
    return NULL;
}

static void copies_while_others_write(struct fixture *fixture)
{
    static struct client clients[THREADS];
    atomic_store(&over, false);
    for (unsigned i = 0; i < THREADS; i++) {
        clients[i] = (struct client){.store = fixture->driver.store, .number = i};
        pthread_create(&clients[i].thread, NULL, write_on, &clients[i]);
    }
    for (unsigned round = 0; round < 4; round++) {
        struct driver copy;
        unsigned acknowledged[THREADS];
        usleep(150000);
        for (unsigned i = 0; i < THREADS; i++)
            acknowledged[i] = atomic_load(&clients[i].acknowledged);
        take_copy(fixture, &copy);
        for (unsigned i = 0; i < THREADS; i++)
            for (unsigned key = i * EACH; key < i * EACH + acknowledged[i]; key++)
                CHECK(has_body(&copy, key, 100 + key % 5000, key), "what was acknowledged before is in the copy");
        CHECK(driver_stop(&copy));
    }
    atomic_store(&over, true);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(clients[i].thread, NULL);
        CHECK(atomic_load(&clients[i].acknowledged) > 0);
    }
}

static void large_store(struct store_config *config)
{
    config->max_size = 1u << 30;
}

/* ---- copies that do not ----------------------------------------------------------------------- */

static void a_full_disk_says_so(struct fixture *fixture)
{
    char error[500] = "";
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(!store_backup(fixture->driver.store, fd, error, sizeof error));
    CHECK(strstr(error, "No space left on device"), "the message gives the reason");
    close(fd);
    struct driver copy;
    take_copy(fixture, &copy);
    CHECK(driver_stop(&copy), "and the next one succeeds");
}

/* A backup on a thread of its own, into a pipe. */
struct stuck {
    struct store *store;
    int pipe[2];
    bool succeeded;
    char error[500];
    pthread_t thread;
};

static void *back_up(void *arg)
{
    struct stuck *stuck = arg;
    stuck->succeeded = store_backup(stuck->store, stuck->pipe[1], stuck->error, sizeof stuck->error);
    close(stuck->pipe[1]);
    return NULL;
}

/* Enough records that pipe and socket cannot take all of them; then the backup waits in the middle. */
static void get_stuck(struct fixture *fixture, struct stuck *stuck)
{
    struct driver *driver = &fixture->driver;
    for (unsigned i = 0; i < 20; i++)
        tell_with(driver, ending_op(STORE_COMPLETE, 100 + i, granted(driver, 100 + i, 1), 0), 100000, i);
    *stuck = (struct stuck){.store = driver->store};
    CHECK_EQUAL(pipe(stuck->pipe), 0);
    pthread_create(&stuck->thread, NULL, back_up, stuck);
    struct pollfd readable = {.fd = stuck->pipe[0], .events = POLLIN};
    CHECK_EQUAL(poll(&readable, 1, PATIENCE_MS), 1);
    usleep(100000);
}

/* Only now somebody reads. */
static size_t drain(struct fixture *fixture, struct stuck *stuck)
{
    static char chunk[65536];
    size_t total = 0;
    for (ssize_t got; (got = read(stuck->pipe[0], chunk, sizeof chunk)) > 0;)
        total += (size_t)got;
    pthread_join(stuck->thread, NULL);
    close(stuck->pipe[0]);
    CHECK(total > 0);
    return total;
}

static void a_slow_copy_is_whole(struct fixture *fixture)
{
    struct stuck stuck;
    get_stuck(fixture, &stuck);
    for (unsigned i = 0; i < 20; i++)
        CHECK(granted(&fixture->driver, 200 + i, 1) != 0, "nobody waits for it");
    CHECK_EQUAL(count_pages(fixture, fixture->driver.store, (struct store_query){0}), 40);
    drain(fixture, &stuck);
    CHECK(stuck.succeeded, "however long it took");
}

static void one_at_a_time(struct fixture *fixture)
{
    struct stuck stuck;
    char error[500] = "";
    get_stuck(fixture, &stuck);
    CHECK(!store_backup(fixture->driver.store, -1, error, sizeof error));
    CHECK(strstr(error, "another backup"));
    drain(fixture, &stuck);
    CHECK(stuck.succeeded);
}

static void it_can_be_stopped(struct fixture *fixture)
{
    struct stuck stuck;
    store_backup_stop(fixture->driver.store); /* none runs: nothing happens */
    get_stuck(fixture, &stuck);
    store_backup_stop(fixture->driver.store);
    drain(fixture, &stuck);
    CHECK(!stuck.succeeded && strstr(stuck.error, "told to stop"));
    struct driver copy;
    take_copy(fixture, &copy);
    CHECK(driver_stop(&copy));
}

/* After a failed write of the meta page LMDB refuses all transactions until the environment is closed and opened. */
static void reopening_does_not_wait_for_it(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct stuck stuck;
    get_stuck(fixture, &stuck);
    lmdb_fault_set("meta EIO 1 1");
    uint64_t token = granted(driver, 1, 1);
    CHECK(token != 0, "the store was reopened, with a copy under way");
    CHECK_EQUAL(tell(driver, ending_op(STORE_COMPLETE, 1, token, 0)).answer, STORE_DONE);
    CHECK(strstr(driver->log, "can write again"));
    CHECK_EQUAL(count_pages(fixture, driver->store, (struct store_query){0}), 21);
    drain(fixture, &stuck);
    CHECK(!stuck.succeeded && strstr(stuck.error, "had to be reopened"));
    struct driver copy;
    take_copy(fixture, &copy);
    CHECK(driver_stop(&copy), "the next one succeeds");
}

static void strict_durability(struct store_config *config)
{
    config->strict = true;
}

/* The copy's snapshot pins pages, so the file grows with each commit, although the same few records come and go. */
static void it_never_costs_an_outcome(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    struct stuck stuck;
    get_stuck(fixture, &stuck);
    for (unsigned i = 0; i < 3000; i++) {
        uint64_t token = granted(driver, 1, 1);
        CHECK(token != 0, "never full");
        CHECK_EQUAL(tell_with(driver, ending_op(STORE_COMPLETE, 1, token, 0), 500, i).answer, STORE_DONE);
        CHECK(has_body(driver, 1, 500, i));
        CHECK_EQUAL(tell(driver, ending_op(STORE_FORGET, 1, 0, 0)).answer, STORE_DONE);
    }
    drain(fixture, &stuck);
    CHECK(!stuck.succeeded && strstr(stuck.error, "outcomes come first"));
}

static void small_store(struct store_config *config)
{
    config->max_size = 16 << 20;
}

static const struct store_case backup_cases[] = {
    {"a copy is a store", a_copy_is_a_store, NULL},
    {"copies while others write", copies_while_others_write, large_store},
    {"a full disk says so", a_full_disk_says_so, NULL},
    {"a slow copy is whole", a_slow_copy_is_whole, NULL},
    {"one at a time", one_at_a_time, NULL},
    {"it can be stopped", it_can_be_stopped, NULL},
    {"reopening does not wait for it", reopening_does_not_wait_for_it, strict_durability},
    {"it never costs an outcome", it_never_costs_an_outcome, small_store},
};

RUN_CASES(backup, backup_cases, "lmdb")

static void the_memory_engine_has_none(struct fixture *fixture)
{
    char error[500] = "";
    CHECK(!store_backup(fixture->driver.store, -1, error, sizeof error));
    CHECK(strstr(error, "no backup"));
    store_backup_stop(fixture->driver.store);
}

static const struct store_case memory_cases[] = {{"the memory engine has none", the_memory_engine_has_none, NULL}};

RUN_CASES(backup_memory, memory_cases, "memory")
