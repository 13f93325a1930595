/*
 * power_loss.c - a disk that can lose its power: preloaded before einmal, it remembers what is not yet safe.
 *
 *     LD_PRELOAD=…/libpower_loss.so EINMAL_POWER_LOSS_LOG=/tmp/log einmal run …
 *
 * kill -9 loses nothing that was written: the page cache outlives the process. A power loss loses what was written and
 * not synced, all of it or any part. So each write to data.mdb goes through as always, because LMDB reads it back
 * through its map, but before it the log gets what was there and what comes. A sync that succeeds empties the log:
 * what is in it is what a loss of power may take. After a kill the harness (tests/crash/power_loss.py) takes it.
 *
 * The log is a row of records, each a struct entry, then `had` bytes that were there, then `len` that were written:
 *
 *     WRITTEN   may be lost
 *     DURABLE   was written through a descriptor with O_DSYNC: is not lost, while what was written before may be
 *
 * A kill in between is no lie: the record is there before the write, and the log is emptied before fdatasync() returns.
 * A record that the kill cut short belongs to a write that never began.
 *
 * EINMAL_POWER_LOSS_SYNCS=ignored makes a disk that lies: a sync returns and nothing is safe. With it a test that
 * claims to see losses can show that it does. The sync itself is not done, nothing here needs it; it only takes its
 * time, so that most kills come while something is unsafe.
 *
 * Left out: lengths (a file that grew is cut by the harness), directory entries, torn sectors, writes through a map.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define SYNC_US 1000

enum kind { WRITTEN = 1, DURABLE = 2 };

struct entry {
    uint32_t kind, len;
    uint64_t at, had, size; /* size: of the file before */
};

ssize_t pwrite(int fd, const void *data, size_t len, off_t at);
ssize_t pwrite64(int fd, const void *data, size_t len, off64_t at);
ssize_t writev(int fd, const struct iovec *parts, int count);
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at);
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at);
int fdatasync(int fd);
int fsync(int fd);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;

static void fail(const char *what)
{
    fprintf(stderr, "power_loss: %s: %s\n", what, strerror(errno));
    abort(); /* a test that goes on would claim what it has not seen */
}

static bool is_data_file(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    if (len < 9)
        return false;
    path[len] = '\0';
    return strcmp(path + len - 9, "/data.mdb") == 0;
}

static bool syncs_are_ignored(void)
{
    const char *syncs = getenv("EINMAL_POWER_LOSS_SYNCS");
    return syncs && strcmp(syncs, "ignored") == 0;
}

static void open_log(void)
{
    const char *path = getenv("EINMAL_POWER_LOSS_LOG");
    if (log_fd < 0 && path)
        log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0)
        fail("EINMAL_POWER_LOSS_LOG");
}

/* What is about to be written at `at`; the lock is held. */
static void remember(int fd, const struct iovec *parts, int count, off_t at)
{
    struct stat about;
    struct entry entry = {.kind = WRITTEN, .at = (uint64_t)at};
    struct iovec record[2 + IOV_MAX];
    if (count > IOV_MAX || fstat(fd, &about) != 0)
        fail("a write that cannot be remembered");
    for (int i = 0; i < count; i++)
        entry.len += (uint32_t)parts[i].iov_len;
    if ((fcntl(fd, F_GETFL) & O_DSYNC) && !syncs_are_ignored())
        entry.kind = DURABLE;
    char *old = malloc(entry.len ? entry.len : 1);
    ssize_t had = old ? pread(fd, old, entry.len, at) : -1;
    char path[64];
    if (had < 0) { /* a descriptor that only writes: read by its name */
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        int reader = open(path, O_RDONLY | O_CLOEXEC);
        had = old && reader >= 0 ? pread(reader, old, entry.len, at) : -1;
        close(reader);
    }
    if (had < 0)
        fail("what was there cannot be read");
    entry.had = (uint64_t)had;
    entry.size = (uint64_t)about.st_size;
    record[0] = (struct iovec){&entry, sizeof entry};
    record[1] = (struct iovec){old, (size_t)had};
    memcpy(record + 2, parts, (size_t)count * sizeof *parts);
    ssize_t expected = (ssize_t)(sizeof entry + (size_t)had + entry.len);
    open_log();
    for (int done = 0; done < count + 2; done += IOV_MAX) { /* in one call, unless there are too many parts */
        int some = count + 2 - done < IOV_MAX ? count + 2 - done : IOV_MAX;
        ssize_t written = syscall(SYS_writev, log_fd, record + done, some);
        if (written < 0)
            fail("the log");
        expected -= written;
    }
    if (expected != 0)
        fail("the log is short");
    free(old);
}

static ssize_t write_parts(int fd, const struct iovec *parts, int count, off_t at, bool moves)
{
    bool is_data = is_data_file(fd);
    if (is_data) {
        pthread_mutex_lock(&lock);
        remember(fd, parts, count, at);
    }
    ssize_t written =
        moves ? syscall(SYS_writev, fd, parts, count) : syscall(SYS_pwritev, fd, parts, count, at, (off_t)0);
    if (is_data)
        pthread_mutex_unlock(&lock);
    return written;
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
    struct iovec part = {(void *)data, len};
    return write_parts(fd, &part, 1, at, false);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t at)
{
    return pwrite(fd, data, len, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return write_parts(fd, parts, count, is_data_file(fd) ? lseek(fd, 0, SEEK_CUR) : 0, true);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    return write_parts(fd, parts, count, at, false);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at)
{
    return pwritev(fd, parts, count, at);
}

static int sync_file(int fd, long number)
{
    if (!is_data_file(fd))
        return (int)syscall(number, fd);
    usleep(SYNC_US);
    pthread_mutex_lock(&lock);
    open_log();
    if (!syncs_are_ignored() && ftruncate(log_fd, 0) != 0)
        fail("the log cannot be emptied");
    pthread_mutex_unlock(&lock);
    return 0;
}

int fdatasync(int fd)
{
    return sync_file(fd, SYS_fdatasync);
}

int fsync(int fd)
{
    return sync_file(fd, SYS_fsync);
}
