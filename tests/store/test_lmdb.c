/*
 * test_lmdb.c - what only a store on disk has: it outlives the process, and it can be unfit.
 */
#include <lmdb.h>

#include "store/engine_lmdb.h"
#include "tests/store/cases.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define KEY 7

static void reopen(struct fixture *fixture)
{
    char error[500] = "";
    CHECK(driver_close(&fixture->driver));
    fixture->driver.log[0] = '\0';
    if (!driver_open(&fixture->driver, error, sizeof error))
        cr_assert_fail("%s: cannot reopen: %s", fixture->name, error);
}

/* Closes the store for good; what it says when it is opened again must contain `text`. */
static void expect_refusal(struct fixture *fixture, const char *text)
{
    char error[500] = "";
    if (fixture->driver.store)
        driver_close(&fixture->driver);
    CHECK(!driver_open(&fixture->driver, error, sizeof error), "it must refuse");
    cr_assert(strstr(error, text), "%s: \"%s\" does not say \"%s\"", fixture->name, error, text);
    cr_assert(strstr(error, fixture->driver.config.path), "%s: \"%s\" does not name the path", fixture->name, error);
}

/* ---- outliving -------------------------------------------------------------------------------- */

static void records_survive(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    CHECK(strstr(driver->log, "new store in"), "a new store is announced");
    for (unsigned i = 0; i < 50; i++)
        tell_with(driver, ending_op(STORE_COMPLETE, 100 + i, granted(driver, 100 + i, 1), 0), i * 300, i);
    uint64_t token = granted(driver, KEY, 1);
    tell(driver, ending_op(STORE_ABANDON, KEY, token, STORE_REASON_STALL));
    reopen(fixture);
    CHECK(!strstr(driver->log, "new store"));
    for (unsigned i = 0; i < 50; i++) {
        struct asked op = reserve_op(100 + i, 1);
        CHECK(store_look_up(driver->handle, &op.op));
        CHECK(is_body(op.op.result.response, i * 300, i));
        store_bytes_unref(op.op.result.response);
    }
    CHECK_EQUAL(tell(driver, reserve_op(KEY, 1)).reason, STORE_REASON_STALL);
    CHECK(granted(driver, 8, 1) > token, "tokens go on");
    struct store_status status;
    store_status(driver->store, &status);
    CHECK(status.completed == 50 && status.unknown == 1 && status.in_progress == 1);
}

static void store_time_never_goes_back(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    store_move_clock(driver->store, 5000000);
    tell_with(driver, ending_op(STORE_COMPLETE, KEY, granted(driver, KEY, 1), 0), 10, 1);
    int64_t before = store_now_ms(driver->handle);
    reopen(fixture);
    CHECK(store_now_ms(driver->handle) >= before - 1000, "not below the newest time in the store");
}

/* A process of its own opens the store, does `work` and kills itself. */
static void die_in_between(struct fixture *fixture, void (*work)(struct driver *driver))
{
    CHECK(driver_close(&fixture->driver));
    pid_t child = fork();
    if (child == 0) {
        char error[500];
        if (!driver_open(&fixture->driver, error, sizeof error))
            _exit(3);
        work(&fixture->driver);
        raise(SIGKILL);
    }
    int status;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status), "the child must die by its own hand");
    char error[500] = "";
    fixture->driver.log[0] = '\0';
    CHECK(driver_open(&fixture->driver, error, sizeof error), "the lock dies with its holder");
}

static void leave_in_progress(struct driver *driver)
{
    for (unsigned i = 0; i < 600; i++)
        granted(driver, 100 + i, 1);
    struct asked forever = reserve_op(8, 1);
    forever.op.unknown_retention_ms = STORE_FOREVER;
    tell(driver, forever);
}

static void a_crash_leaves_unknown(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    die_in_between(fixture, leave_in_progress);
    struct store_status status;
    store_status(driver->store, &status);
    CHECK_EQUAL(status.unknown, 601, "at once, before anybody asks");
    CHECK_EQUAL(status.in_progress, 0);
    struct store_page page;
    CHECK_EQUAL(
        store_scan(driver->store, &(struct store_query){.state = STORE_UNKNOWN, .limit = STORE_PAGE_MAX}, &page),
        STORE_READ_DONE);
    CHECK(page.count == 601 && page.actions[0].reason == STORE_REASON_CRASH, "and people see it");
    store_page_clear(&page);
    struct asked op = reserve_op(100, 1);
    CHECK(store_look_up(driver->handle, &op.op), "no wait");
    struct store_result *result = &op.op.result;
    CHECK_EQUAL(result->answer, STORE_REPORT_UNKNOWN);
    CHECK_EQUAL(result->reason, STORE_REASON_CRASH);
    CHECK_EQUAL(result->executions, 1);
    CHECK_EQUAL(result->forwarded_until_ms, result->since_ms);
    CHECK_EQUAL(result->expires_ms, result->since_ms + 1000000, "its own retention, from the start that found it");
    CHECK_EQUAL(tell(driver, reserve_op(8, 1)).expires_ms, STORE_FOREVER);
    op.op.retry_unknown = true;
    CHECK_EQUAL(tell(driver, op).answer, STORE_GRANTED_UNKNOWN);
}

/* Everything is in progress, and what room outcomes would need is taken. */
static void leave_full(struct driver *driver)
{
    static uint64_t tokens[5000];
    unsigned count = 0;
    while (count < 5000 && (tokens[count] = granted(driver, 100 + count, 1)))
        count++;
    for (unsigned i = 0; i < count; i += 2)
        tell_with(driver, ending_op(STORE_COMPLETE, 100 + i, tokens[i], 0), 1500, i);
}

static void small_store(struct store_config *config)
{
    config->max_size = 1 << 20;
}

/* All that are listed in this state; each must look as what a crash leaves. */
static size_t count_dead(struct fixture *fixture, enum store_state state)
{
    struct store_query query = {.state = state, .limit = 300};
    size_t count = 0;
    do {
        struct store_page page;
        CHECK_EQUAL(store_scan(fixture->driver.store, &query, &page), STORE_READ_DONE);
        for (size_t i = 0; i < page.count; i++, count++) {
            struct store_action action;
            CHECK(page.actions[i].reason == STORE_REASON_CRASH && page.actions[i].executions == 1);
            CHECK_EQUAL(store_get(fixture->driver.store, &page.actions[i].id, &action), STORE_READ_DONE);
            CHECK_EQUAL(action.state, state);
            store_action_clear(&action);
        }
        query.after = page.next;
        store_page_clear(&page);
    } while (query.after);
    return count;
}

/* What people see is right even so: whose owner is dead is unknown. */
static void a_crash_leaves_unknown_in_a_full_store(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    die_in_between(fixture, leave_full);
    struct store_status status;
    store_status(driver->store, &status);
    CHECK(status.in_progress > 0, "the store was too full to make all of them unknown");
    CHECK_EQUAL(count_dead(fixture, STORE_UNKNOWN), status.in_progress + status.unknown);
    CHECK_EQUAL(count_dead(fixture, STORE_IN_PROGRESS), 0);
}

static void leave_regranted(struct driver *driver)
{
    struct asked retry = reserve_op(KEY, 1);
    tell_with(driver, ending_op(STORE_ABANDON, KEY, granted(driver, KEY, 1), STORE_REASON_STATUS), 2000, 5);
    retry.op.retry_unknown = true;
    tell(driver, retry);
}

static void a_crash_keeps_the_prior_outcome(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    die_in_between(fixture, leave_regranted);
    struct asked op = reserve_op(KEY, 1);
    struct store_result result = *ask_now(driver, &op);
    CHECK_EQUAL(result.answer, STORE_REPORT_UNKNOWN);
    CHECK_EQUAL(result.reason, STORE_REASON_CRASH);
    CHECK_EQUAL(result.executions, 2);
    CHECK_EQUAL(result.status, 201);
    CHECK(is_body(result.response, 2000, 5), "what the earlier execution answered is still known");
    store_bytes_unref(result.response);
}

static void leave_completed(struct driver *driver)
{
    for (unsigned i = 0; i < 50; i++)
        tell_with(driver, ending_op(STORE_COMPLETE, 100 + i, granted(driver, 100 + i, 1), 0), i * 500, i);
}

static void process_durability(struct store_config *config)
{
    config->strict = false;
}

static void strict_durability(struct store_config *config)
{
    config->strict = true;
}

static void what_was_answered_survives_kill(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    die_in_between(fixture, leave_completed);
    for (unsigned i = 0; i < 50; i++) {
        struct asked op = reserve_op(100 + i, 1);
        CHECK(store_look_up(driver->handle, &op.op));
        CHECK(is_body(op.op.result.response, i * 500, i));
        store_bytes_unref(op.op.result.response);
    }
}

#ifdef EINMAL_CRASH_POINTS
static void live_until_killed(struct driver *driver)
{
    struct asked waits = reserve_op(KEY, 1);
    tell_with(driver, ending_op(STORE_COMPLETE, 99, granted(driver, 99, 1), 0), 100, 1);
    store_move_clock(driver->store, 2000000);
    uint64_t token = granted(driver, KEY, 1);
    ask(driver, &waits);
    until_noticed(driver, &waits);
    tell(driver, ending_op(STORE_RELEASE, KEY, token, STORE_REASON_UNSENT));
    answered(driver, &waits);
    sleep(3); /* a sweep */
}

/* Dead at any step: what was acknowledged is there, what was not may be unknown, and nothing is granted that may have
 * been. */
static void dies_at_each_step(struct fixture *fixture)
{
    static const struct {
        const char *step;
        enum store_answer answer; /* to KEY afterwards */
    } steps[] = {{"op-queued", STORE_GRANTED},
                 {"committed-not-delivered", STORE_GRANTED},
                 {"completed-not-delivered", STORE_GRANTED},
                 {"handed-over", STORE_REPORT_UNKNOWN},
                 {"sweep", STORE_GRANTED}}; /* in the transaction of the RESERVE, before its commit */
    struct driver *driver = &fixture->driver;
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++) {
        driver->config.crash_at = steps[i].step;
        char error[500] = "";
        CHECK(driver_close(driver));
        pid_t child = fork();
        if (child == 0) {
            if (!driver_open(driver, error, sizeof error))
                _exit(3);
            live_until_killed(driver);
            _exit(4);
        }
        int status;
        waitpid(child, &status, 0);
        cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%s: status %d", steps[i].step, status);
        driver->config.crash_at = NULL;
        CHECK(driver_open(driver, error, sizeof error));
        struct store_result result = tell(driver, reserve_op(KEY, 1));
        cr_assert(result.answer == steps[i].answer, "%s: answer %d", steps[i].step, (int)result.answer);
        if (result.answer == STORE_GRANTED)
            tell(driver, ending_op(STORE_RELEASE, KEY, result.token, STORE_REASON_UNSENT));
        else
            tell(driver, ending_op(STORE_FORGET, KEY, 0, 0));
        result = tell(driver, reserve_op(99, 1));
        CHECK(result.answer == STORE_GRANTED || result.answer == STORE_REPLAY || result.answer == STORE_REPORT_UNKNOWN);
        if (result.answer == STORE_GRANTED)
            tell(driver, ending_op(STORE_RELEASE, 99, result.token, STORE_REASON_UNSENT));
        else
            tell(driver, ending_op(STORE_FORGET, 99, 0, 0));
    }
}
#endif

/* ---- unfit ------------------------------------------------------------------------------------ */

static void only_one_at_a_time(struct fixture *fixture)
{
    char error[500] = "", pid[32];
    struct store_config config = fixture->driver.config;
    config.lock_wait_ms = 200;
    int64_t start = boot_time_ms();
    CHECK(!store_open(&config, error, sizeof error));
    CHECK(boot_time_ms() - start >= 190, "it waits as long as it is told");
    snprintf(pid, sizeof pid, "pid %ld", (long)getpid());
    cr_assert(strstr(error, pid) && strstr(error, config.path), "the message names holder and path: %s", error);
}

static void *close_soon(void *arg)
{
    usleep(300000);
    driver_close(arg);
    return NULL;
}

static void waits_for_the_other_to_go(struct fixture *fixture)
{
    pthread_t closer;
    char error[500] = "";
    struct driver second = fixture->driver;
    second.config.lock_wait_ms = 10000;
    pthread_create(&closer, NULL, close_soon, &fixture->driver);
    CHECK(driver_open(&second, error, sizeof error));
    pthread_join(closer, NULL);
    CHECK(driver_close(&second));
}

static void must_be_there_if_not_to_be_made(struct fixture *fixture)
{
    char missing[300];
    struct driver *driver = &fixture->driver;
    driver_close(driver);
    driver->config.create = false;
    char error[500];
    CHECK(driver_open(driver, error, sizeof error), "it is there");
    driver_close(driver);
    snprintf(missing, sizeof missing, "%s/data.mdb", driver->path);
    unlink(missing);
    expect_refusal(fixture, "store.create is false");
    snprintf(missing, sizeof missing, "%s/deeper", driver->path);
    driver->config.path = missing;
    expect_refusal(fixture, "does not exist");
    driver->config.path = driver->path;
}

static void must_be_a_directory(struct fixture *fixture)
{
    char file[300];
    snprintf(file, sizeof file, "%s/file", fixture->driver.path);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    fixture->driver.config.path = file;
    expect_refusal(fixture, "not a directory");
    fixture->driver.config.path = "/dev/null/nowhere";
    expect_refusal(fixture, "cannot make");
}

static void must_be_allowed(struct fixture *fixture)
{
    CHECK(driver_close(&fixture->driver));
    int status;
    pid_t child = fork(); /* root may do everything: give that up in a process of its own */
    if (child == 0) {
        char error[500] = "";
        if (geteuid() == 0 && (chown(fixture->driver.path, 0, 0) != 0 || setegid(65534) != 0 || seteuid(65534) != 0))
            _exit(3);
        if (geteuid() != 65534)
            chmod(fixture->driver.path, 0500);
        bool opened = driver_open(&fixture->driver, error, sizeof error);
        _exit(!opened && strstr(error, fixture->driver.path) && strstr(error, "Permission denied") ? 0 : 4);
    }
    waitpid(child, &status, 0);
    chmod(fixture->driver.path, 0700);
    CHECK(WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 0);
}

static void change_file(struct fixture *fixture, off_t length, off_t at, const void *bytes, size_t len)
{
    char file[300];
    if (fixture->driver.store)
        driver_close(&fixture->driver);
    snprintf(file, sizeof file, "%s/data.mdb", fixture->driver.path);
    int fd = open(file, O_RDWR);
    CHECK(fd >= 0);
    if (length >= 0)
        CHECK_EQUAL(ftruncate(fd, length), 0);
    if (len)
        CHECK_EQUAL(pwrite(fd, bytes, len, at), len);
    close(fd);
}

static void fill(struct fixture *fixture)
{
    for (unsigned i = 0; i < 200; i++)
        tell_with(&fixture->driver, ending_op(STORE_COMPLETE, 100 + i, granted(&fixture->driver, 100 + i, 1), 0), 6000,
                  i);
}

/* Missing pages that LMDB has marked as free are no damage: then all must be readable. */
static void cut_by(struct fixture *fixture, off_t len)
{
    char error[500] = "";
    change_file(fixture, len, 0, NULL, 0);
    if (!driver_open(&fixture->driver, error, sizeof error)) {
        cr_assert(strstr(error, "truncated"), "%s: %s", fixture->name, error);
        return;
    }
    for (unsigned i = 0; i < 200; i++) {
        struct asked op = reserve_op(100 + i, 1);
        CHECK(store_look_up(fixture->driver.handle, &op.op));
        CHECK(is_body(op.op.result.response, 6000, i));
        store_bytes_unref(op.op.result.response);
    }
}

static void truncated_files_are_refused(struct fixture *fixture)
{
    fill(fixture);
    char file[300];
    struct stat before;
    snprintf(file, sizeof file, "%s/data.mdb", fixture->driver.path);
    CHECK_EQUAL(stat(file, &before), 0);
    for (off_t pages = 1; pages < 30; pages++)
        cut_by(fixture, before.st_size - pages * 4096);
    CHECK(!fixture->driver.store, "thirty pages cannot all be free");
    CHECK(truncate(file, before.st_size / 2 / 4096 * 4096) == 0);
    expect_refusal(fixture, "truncated");
    CHECK(truncate(file, 5000) == 0);
    expect_refusal(fixture, "truncated");
}

static void other_files_are_refused(struct fixture *fixture)
{
    change_file(fixture, -1, 0, "this is no LMDB file at all, and so is the second page", 50);
    char junk[8192];
    memset(junk, 'j', sizeof junk);
    char file[300];
    snprintf(file, sizeof file, "%s/data.mdb", fixture->driver.path);
    int fd = open(file, O_RDWR);
    CHECK_EQUAL(pwrite(fd, junk, sizeof junk, 0), sizeof junk);
    close(fd);
    expect_refusal(fixture, "no LMDB file");
}

static void other_versions_are_refused(struct fixture *fixture)
{
    /* The value of "format" is one byte behind its name in a leaf. */
    char file[300], *bytes = malloc(1 << 20);
    driver_close(&fixture->driver);
    snprintf(file, sizeof file, "%s/data.mdb", fixture->driver.path);
    int fd = open(file, O_RDWR);
    ssize_t len = pread(fd, bytes, 1 << 20, 0);
    unsigned found = 0;
    for (ssize_t at = 0; at + 7 < len; at++)
        if (memcmp(bytes + at, "format", 6) == 0 && bytes[at + 6] == RECORD_FORMAT) {
            CHECK_EQUAL(pwrite(fd, "\x63", 1, at + 6), 1);
            found++;
        }
    close(fd);
    free(bytes);
    CHECK(found > 0);
    expect_refusal(fixture, "format 99");
}

static void descriptors_do_not_leak_to_children(struct fixture *fixture)
{
    char path[64], target[256];
    unsigned ours = 0;
    for (int fd = 0; fd < 256; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t len = readlink(path, target, sizeof target - 1);
        if (len <= 0)
            continue;
        target[len] = '\0';
        if (!strstr(target, fixture->driver.path) && !strstr(target, "eventfd"))
            continue;
        ours++;
        cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC, "%s is inherited by children", target);
    }
    CHECK(ours >= 4, "directory, lock, data");
}

static void a_larger_file_than_max_size(struct fixture *fixture)
{
    fill(fixture);
    driver_close(&fixture->driver);
    char error[500] = "";
    fixture->driver.config.max_size = 1 << 20;
    CHECK(driver_open(&fixture->driver, error, sizeof error), "a lowered quota does not lock anybody out");
    struct asked op = reserve_op(100, 1);
    CHECK(store_look_up(fixture->driver.handle, &op.op));
    store_bytes_unref(op.op.result.response);
    CHECK(granted(&fixture->driver, 99, 1) == 0, "but nothing new");
}

#define NEARLY 32 /* pages: what one transaction takes */

static uint64_t pages_of_file(struct driver *driver)
{
    MDB_envinfo info;
    mdb_env_info(lmdb_of(store_engine_of(driver->store))->env, &info);
    return info.me_last_pgno + 1;
}

struct stopped { /* a look-up whose thread does not get on */
    struct store_handle *handle;
    MDB_txn *snapshot;
};

static struct stopped stop_in_a_look_up(struct driver *driver)
{
    struct stopped stopped = {.handle = driver->handle};
    pthread_mutex_lock(&stopped.handle->look_up_lock);
    if (mdb_txn_begin(lmdb_of(store_engine_of(driver->store))->env, NULL, MDB_RDONLY, &stopped.snapshot) != 0)
        driver_die("no snapshot");
    return stopped;
}

static void go_on(struct stopped *stopped)
{
    mdb_txn_abort(stopped->snapshot);
    stopped->snapshot = NULL;
    pthread_mutex_unlock(&stopped->handle->look_up_lock);
}

/* No page that was freed since a look-up began can be used before it ends: they pile up until the file is full. The
 * store is not: whoever asks then waits for the look-up. */
static void a_look_up_that_stands_still_makes_nobody_fail(struct fixture *fixture)
{
    struct driver *driver = &fixture->driver;
    uint64_t most = driver->config.max_size / (uint64_t)sysconf(_SC_PAGESIZE);
    for (unsigned round = 0; round < 4; round++) {
        struct stopped stopped = stop_in_a_look_up(driver);
        uint64_t token = 0;
        for (unsigned asked = 0; stopped.snapshot && asked < 10000; asked++) {
            struct asked op = token ? ending_op(STORE_RELEASE, KEY, token, STORE_REASON_UNSENT) : reserve_op(KEY, 1);
            ask(driver, &op);
            while (!op.done)
                if (!driver_turn(driver, 50) && stopped.snapshot && pages_of_file(driver) + NEARLY > most)
                    go_on(&stopped);
            CHECK_EQUAL(op.op.result.answer, token ? STORE_DONE : STORE_GRANTED);
            token = token ? 0 : op.op.result.token;
        }
        CHECK(!stopped.snapshot, "the file fills up");
        if (token)
            CHECK_EQUAL(tell(driver, ending_op(STORE_RELEASE, KEY, token, STORE_REASON_UNSENT)).answer, STORE_DONE);
    }
}

static const struct store_case lmdb_cases[] = {
    {"records survive", records_survive, NULL},
    {"store time never goes back", store_time_never_goes_back, NULL},
    {"a crash leaves unknown", a_crash_leaves_unknown, NULL},
    {"a crash leaves unknown in a full store", a_crash_leaves_unknown_in_a_full_store, small_store},
    {"a crash keeps the prior outcome", a_crash_keeps_the_prior_outcome, NULL},
    {"answered survives kill, strict", what_was_answered_survives_kill, strict_durability},
    {"answered survives kill, process", what_was_answered_survives_kill, process_durability},
#ifdef EINMAL_CRASH_POINTS
    {"dies at each step", dies_at_each_step, NULL},
#endif
    {"only one at a time", only_one_at_a_time, NULL},
    {"waits for the other to go", waits_for_the_other_to_go, NULL},
    {"must be there if not to be made", must_be_there_if_not_to_be_made, NULL},
    {"must be a directory", must_be_a_directory, NULL},
    {"must be allowed", must_be_allowed, NULL},
    {"truncated files are refused", truncated_files_are_refused, NULL},
    {"other files are refused", other_files_are_refused, NULL},
    {"other versions are refused", other_versions_are_refused, NULL},
    {"descriptors do not leak to children", descriptors_do_not_leak_to_children, NULL},
    {"a larger file than max_size", a_larger_file_than_max_size, NULL},
    {"a look-up that stands still makes nobody fail", a_look_up_that_stands_still_makes_nobody_fail, small_store},
};

RUN_CASES(lmdb, lmdb_cases, "lmdb", "lmdb-merging")
