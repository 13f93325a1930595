/*
 * engine_lmdb_backup.c - a copy of the environment while it is in use.
 *
 * LMDB copies within one read transaction, and while that stands, no page that is freed can be used again: the file
 * grows with everything that is written meanwhile. Also the environment cannot be closed. So a copy must be something
 * that can be ended at any moment, by the writer, whatever the descriptor that it goes to is waiting for:
 *
 *     copier, a thread         LMDB → socket
 *     lmdb_backup(), the asker's    socket → fd
 *
 * lmdb_stop_backup() shuts the socket down; LMDB's next write then fails and its transaction is over, although the
 * asker may still hang in a write to a slow disk. The copier is in LMDB while `reading`; only then anybody may wait for
 * it, and it is never long.
 *
 * Left out: syncing the copy, which is its owner's to decide.
 */
#include <errno.h>
#include <lmdb.h>

#include "store/allocate.h"
#include "store/engine_lmdb.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK (256u << 10)

enum { ASKER, COPIER };

struct lmdb_backup {
    atomic_bool watched;  /* == reading; the writer looks at this one before each transaction */
    pthread_mutex_t lock; /* what follows */
    pthread_cond_t read;
    bool running;        /* somebody is in lmdb_backup() */
    bool reading;        /* the copier is in LMDB: env must stay open */
    const char *stopped; /* why it was given up; NULL: it was not */
    int sockets[2];
    MDB_env *env;
    uint64_t pages; /* of the file when the copy began */
    int rc;         /* of the copier */
};

struct lmdb_backup *lmdb_backup_new(void)
{
    struct lmdb_backup *backup = STORE_NEW(struct lmdb_backup);
    pthread_mutex_init(&backup->lock, NULL);
    pthread_cond_init(&backup->read, NULL);
    return backup;
}

void lmdb_backup_free(struct lmdb_backup *backup)
{
    assert(!backup->running);
    pthread_mutex_destroy(&backup->lock);
    pthread_cond_destroy(&backup->read);
    free(backup);
}

/* ---- ending it -------------------------------------------------------------------------------- */

/* The lock is held. */
static void stop(struct lmdb_backup *backup, const char *why)
{
    if (!backup->reading || backup->stopped)
        return;
    backup->stopped = why;
    shutdown(backup->sockets[ASKER], SHUT_RDWR);
}

/* The same, and LMDB's transaction is over afterwards. */
static void stop_now(struct lmdb_backup *backup, const char *why)
{
    stop(backup, why);
    while (backup->reading)
        pthread_cond_wait(&backup->read, &backup->lock);
}

void lmdb_stop_backup(struct engine *engine)
{
    struct lmdb_backup *backup = lmdb_of(engine)->backup;
    pthread_mutex_lock(&backup->lock);
    stop(backup, "it was told to stop");
    pthread_mutex_unlock(&backup->lock);
}

void lmdb_backup_hold(struct lmdb_backup *backup)
{
    pthread_mutex_lock(&backup->lock);
    stop_now(backup, "the disk failed and the store had to be reopened meanwhile; try again");
}

void lmdb_backup_let(struct lmdb_backup *backup)
{
    pthread_mutex_unlock(&backup->lock);
}

void lmdb_backup_watch(struct lmdb_backup *backup, uint64_t file_pages, uint64_t limit)
{
    if (!atomic_load_explicit(&backup->watched, memory_order_relaxed))
        return;
    pthread_mutex_lock(&backup->lock);
    if (file_pages > backup->pages && file_pages > limit)
        stop_now(backup,
                 "what was written meanwhile nearly filled the store, and outcomes come first; try again when it is "
                 "less full, or less busy");
    pthread_mutex_unlock(&backup->lock);
}

/* ---- copying ---------------------------------------------------------------------------------- */

static void set_reading(struct lmdb_backup *backup, bool reading)
{
    backup->reading = reading;
    atomic_store_explicit(&backup->watched, reading, memory_order_relaxed);
}

static void *run_copier(void *arg)
{
    struct lmdb_backup *backup = arg;
    int rc = mdb_env_copyfd2(backup->env, backup->sockets[COPIER], MDB_CP_COMPACT);
    shutdown(backup->sockets[COPIER], SHUT_WR);
    pthread_mutex_lock(&backup->lock);
    backup->rc = rc;
    set_reading(backup, false);
    pthread_cond_broadcast(&backup->read);
    pthread_mutex_unlock(&backup->lock);
    return NULL;
}

/* Takes the environment as it is now. 0, or an error; then nothing has begun. */
static int begin(struct lmdb *lmdb, pthread_t *copier)
{
    struct lmdb_backup *backup = lmdb->backup;
    MDB_envinfo info;
    if (backup->running)
        return EBUSY;
    if (!lmdb->env)
        return MDB_PANIC;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, backup->sockets) != 0)
        return errno;
    mdb_env_info(lmdb->env, &info);
    backup->env = lmdb->env;
    backup->pages = info.me_last_pgno + 1;
    backup->stopped = NULL;
    set_reading(backup, true);
    int rc = pthread_create(copier, NULL, run_copier, backup);
    backup->running = rc == 0;
    if (rc == 0)
        return 0;
    set_reading(backup, false);
    close(backup->sockets[ASKER]);
    close(backup->sockets[COPIER]);
    return rc;
}

static int write_all(int fd, const uint8_t *data, size_t len)
{
    while (len) {
        ssize_t written = write(fd, data, len);
        if (written < 0 && errno != EINTR)
            return errno;
        if (written > 0) {
            data += written;
            len -= (size_t)written;
        }
    }
    return 0;
}

/* Until the copier has no more. */
static int pump(int from, int to)
{
    uint8_t *chunk = store_must_allocate(malloc(CHUNK));
    int rc = 0;
    ssize_t got = 1;
    while (rc == 0 && got != 0) {
        got = read(from, chunk, CHUNK);
        if (got > 0)
            rc = write_all(to, chunk, (size_t)got);
        else if (got < 0 && errno != EINTR)
            rc = errno;
    }
    free(chunk);
    return rc;
}

static bool end(struct lmdb_backup *backup, int written, char *error, size_t error_size)
{
    pthread_mutex_lock(&backup->lock);
    close(backup->sockets[ASKER]);
    close(backup->sockets[COPIER]);
    const char *stopped = backup->stopped;
    int rc = backup->rc;
    backup->running = false;
    pthread_mutex_unlock(&backup->lock);
    if (stopped)
        snprintf(error, error_size, "the backup was given up: %s", stopped);
    else if (written)
        snprintf(error, error_size, "the backup could not be written: %s", strerror(written));
    else if (rc)
        snprintf(error, error_size, "the store could not be copied: %s", mdb_strerror(rc));
    return !stopped && !written && !rc;
}

bool lmdb_backup(struct engine *engine, int fd, char *error, size_t error_size)
{
    struct lmdb *lmdb = lmdb_of(engine);
    struct lmdb_backup *backup = lmdb->backup;
    pthread_t copier;
    pthread_mutex_lock(&backup->lock);
    int rc = begin(lmdb, &copier);
    pthread_mutex_unlock(&backup->lock);
    if (rc == EBUSY)
        snprintf(error, error_size, "another backup is being made");
    else if (rc == MDB_PANIC)
        snprintf(error, error_size, "the store cannot be read now, so it cannot be copied");
    else if (rc)
        snprintf(error, error_size, "the backup could not be begun: %s", strerror(rc));
    if (rc)
        return false;
    int written = pump(backup->sockets[ASKER], fd);
    shutdown(backup->sockets[ASKER], SHUT_RDWR); /* for a copier that has more to say */
    pthread_join(copier, NULL);
    return end(backup, written, error, error_size);
}
