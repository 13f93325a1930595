/*
 * driver.h - asks the store as a worker would, one op after the other or many at once: for the tests of store/.
 *
 * An `asked` is an op with what came back. ask() submits, answered() runs the handle until the answer is there;
 * ask_now() is both. Bodies are real blocks whose bytes tell where they came from, so that a mixed-up answer shows.
 * Without a test framework, so that plain programs (races, benchmarks) use it too; it ends the process when the store
 * does not answer.
 */
#pragma once

#include "store/store.h"
#include "store/writer.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATIENCE_MS 20000

struct asked {
    struct store_op op;
    bool noticed, done;
    unsigned notices, answers;
};

struct driver {
    struct store *store;
    struct store_handle *handle;
    struct store_config config;
    char path[200];
    char log[8192]; /* all messages, one a line */
};

static inline void driver_log(void *arg, enum store_log_level level, const char *message)
{
    struct driver *driver = arg;
    size_t used = strlen(driver->log);
    (void)level;
    if (used + strlen(message) + 2 < sizeof driver->log)
        sprintf(driver->log + used, "%s\n", message);
}

static inline void driver_die(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

/* The same, with what the store answered instead, and what it said. */
static inline void driver_die_of(const struct driver *driver, const char *what, const struct store_result *result)
{
    struct store_status status;
    store_status(driver->store, &status);
    fprintf(stderr, "%s: answer %d, failure %d, state %d, reason %d; %llu of %llu bytes used, %s%s\n%s", what,
            (int)result->answer, (int)result->failure, (int)result->state, (int)result->reason,
            (unsigned long long)status.used_bytes, (unsigned long long)status.max_bytes,
            status.full ? "full" : "not full", status.failing ? ", failing" : "", driver->log);
    abort();
}

/* "lmdb-merging" is the engine lmdb with so little memory for recent ids that it merges all the time. */
static inline void driver_configure(struct driver *driver, const char *name)
{
    bool merging = strcmp(name, "lmdb-merging") == 0;
    const char *engine = merging ? "lmdb" : name;
    const char *base = getenv("TMPDIR");
    memset(driver, 0, sizeof *driver);
    snprintf(driver->path, sizeof driver->path, "%s/einmal-store-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(driver->path))
        driver_die("no directory for the test");
    driver->config = (struct store_config){.engine = engine,
                                           .path = driver->path,
                                           .max_size = 64u << 20,
                                           .create = true,
                                           .waiters_per_action = 128,
                                           .waiters = 1000,
                                           .recent_max = merging ? 3 : 0,
                                           .log = driver_log,
                                           .log_arg = driver};
}

static inline bool driver_open(struct driver *driver, char *error, size_t size)
{
    driver->store = store_open(&driver->config, error, size);
    driver->handle = driver->store ? store_handle_open(driver->store) : NULL;
    return driver->store != NULL;
}

static inline void driver_start(struct driver *driver, const char *engine)
{
    char error[500];
    driver_configure(driver, engine);
    if (!driver_open(driver, error, sizeof error))
        driver_die(error);
}

static inline bool driver_close(struct driver *driver)
{
    store_handle_close(driver->handle);
    driver->handle = NULL;
    bool written = store_close(driver->store, 2000);
    driver->store = NULL;
    return written;
}

static inline void driver_remove(struct driver *driver)
{
    DIR *directory = opendir(driver->path);
    struct dirent *entry;
    while (directory && (entry = readdir(directory)))
        unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory)
        closedir(directory);
    rmdir(driver->path);
}

static inline bool driver_stop(struct driver *driver)
{
    bool written = driver_close(driver);
    driver_remove(driver);
    return written;
}

/* ---- asking ----------------------------------------------------------------------------------- */

static inline void driver_done(struct store_op *op)
{
    struct asked *asked = (struct asked *)op;
    asked->done = true;
    asked->answers++;
}

static inline void driver_notice(struct store_op *op)
{
    struct asked *asked = (struct asked *)op;
    if (asked->done)
        driver_die("a notice after the answer");
    asked->noticed = true;
    asked->notices++;
}

static inline void ask(struct driver *driver, struct asked *asked)
{
    asked->done = asked->noticed = false;
    asked->notices = asked->answers = 0;
    asked->op.done = driver_done;
    asked->op.notice = driver_notice;
    store_submit(driver->handle, &asked->op);
}

/* Delivers what comes within `ms`; true if anything did. */
static inline bool driver_turn(struct driver *driver, int ms)
{
    struct pollfd readable = {.fd = store_handle_fd(driver->handle), .events = POLLIN};
    if (poll(&readable, 1, ms) <= 0)
        return false;
    store_handle_deliver(driver->handle);
    return true;
}

static inline const struct store_result *answered(struct driver *driver, struct asked *asked)
{
    while (!asked->done)
        if (!driver_turn(driver, PATIENCE_MS))
            driver_die("the store does not answer");
    return &asked->op.result;
}

static inline void until_noticed(struct driver *driver, struct asked *asked)
{
    while (!asked->noticed && !asked->done)
        if (!driver_turn(driver, PATIENCE_MS))
            driver_die("the store gives no notice");
}

static inline const struct store_result *ask_now(struct driver *driver, struct asked *asked)
{
    ask(driver, asked);
    return answered(driver, asked);
}

/* ---- ops -------------------------------------------------------------------------------------- */

/* key and identity fill the two halves of the id. */
static inline struct store_id id_of(unsigned key, unsigned identity)
{
    struct store_id id;
    memset(&id, 0, sizeof id);
    for (int i = 0; i < 16; i++) {
        id.bytes[i] = (uint8_t)((key * 2654435761u) >> (i % 4 * 8)) ^ (uint8_t)(key >> (i % 3 * 8));
        id.bytes[16 + i] = (uint8_t)((identity * 2246822519u) >> (i % 4 * 8)) ^ (uint8_t)identity;
    }
    return id;
}

/* fingerprint and content are the same where nothing else is said. */
static inline struct asked reserve_op(unsigned key, unsigned fingerprint)
{
    struct asked asked;
    memset(&asked, 0, sizeof asked);
    asked.op.verb = STORE_RESERVE;
    asked.op.id = id_of(key, 1);
    memset(asked.op.fingerprint, (int)fingerprint, STORE_HASH_LEN);
    memset(asked.op.content, (int)fingerprint, STORE_HASH_LEN);
    asked.op.unknown_retention_ms = 1000000;
    asked.op.about = (struct store_about){
        .route = "orders", .scope_name = "orders", .task = "t", .key = "k", .key_source = STORE_KEY_SENT};
    return asked;
}

static inline struct store_bytes *body_of(size_t len, unsigned seed)
{
    struct store_bytes *bytes = store_bytes_new(len);
    for (size_t i = 0; i < len; i++)
        bytes->data[i] = (uint8_t)(i * 31 + i / 251 + seed * 7);
    return bytes;
}

static inline bool is_body(const struct store_bytes *bytes, size_t len, unsigned seed)
{
    if (!bytes || bytes->len != len)
        return false;
    for (size_t i = 0; i < len; i++)
        if (bytes->data[i] != (uint8_t)(i * 31 + i / 251 + seed * 7))
            return false;
    return true;
}

static inline struct asked ending_op(enum store_verb verb, unsigned key, uint64_t token, enum store_reason reason)
{
    struct asked asked;
    memset(&asked, 0, sizeof asked);
    asked.op.verb = verb;
    asked.op.id = id_of(key, 1);
    asked.op.token = token;
    asked.op.reason = reason;
    asked.op.retention_ms = 1000000;
    return asked;
}

/* Asks and gives the reference to the response back. */
static inline struct store_result tell(struct driver *driver, struct asked asked)
{
    struct store_result result = *ask_now(driver, &asked);
    store_bytes_unref(result.response);
    result.response = NULL;
    return result;
}

static inline struct store_result tell_with(struct driver *driver, struct asked asked, size_t len, unsigned seed)
{
    asked.op.response = body_of(len, seed);
    asked.op.status = 201;
    struct store_result result = *ask_now(driver, &asked);
    store_bytes_unref(asked.op.response);
    store_bytes_unref(result.response);
    return result;
}

static inline uint64_t granted(struct driver *driver, unsigned key, unsigned fingerprint)
{
    struct store_result result = tell(driver, reserve_op(key, fingerprint));
    return result.answer == STORE_GRANTED ? result.token : 0;
}
