/*
 * lmdb_fault.c - a disk that fails on demand: preloaded before einmal, it makes writes of the store fail.
 *
 *     LD_PRELOAD=…/lmdb_fault.so EINMAL_FAULT_CONTROL=/tmp/control einmal run …
 *
 * The control file says what fails; while it does not exist nothing does. It is read again at each write, so a test
 * switches faults on and off while einmal runs: write a new file beside it and rename it over. One line:
 *
 *     KIND ERROR [FIRST [COUNT]]
 *
 *     KIND    data   writes of pages to data.mdb (pwrite, writev, pwritev)
 *             meta   writes of the page that makes a commit count (the short ones at its beginning)
 *             sync   fdatasync, fsync and fdatasync's like on data.mdb
 *             any    all of these
 *     ERROR   EIO or ENOSPC; or HANG: the call neither works nor fails before the control file is another one or gone
 *     FIRST   the how-manieth call of that kind, since the file was put there, is the first to fail; 1 if left out
 *     COUNT   how many fail from there on; all if left out
 *
 * EINMAL_FAULT="data EIO 3 1" says the same without a file. For einmal this looks like a disk: the call returns -1 and
 * nothing is written. Only a file called data.mdb is touched. A test program may include this file instead and call
 * lmdb_fault_set().
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define META_MAX  200  /* a meta page is written as its last 120 bytes or so */
#define META_AREA 8192 /* both of them lie here */
#define HANGS     0    /* for an error number */

void lmdb_fault_set(const char *line); /* for test programs; NULL: no faults */
ssize_t pwrite(int fd, const void *data, size_t len, off_t at);
ssize_t pwrite64(int fd, const void *data, size_t len, off64_t at);
ssize_t writev(int fd, const struct iovec *parts, int count);
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at);
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at);
int fdatasync(int fd);
int fsync(int fd);

enum kind { KIND_DATA = 1, KIND_META = 2, KIND_SYNC = 4 };

static struct {
    pthread_mutex_t lock;
    char line[128]; /* what is being counted for */
    struct timespec changed;
    ino_t inode;
    unsigned kinds;
    int error;
    long first, count, seen;
} fault = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void parse(const char *line)
{
    char kind[16] = "", error[16] = "";
    long first = 1, count = LONG_MAX / 2;
    snprintf(fault.line, sizeof fault.line, "%s", line);
    fault.kinds = 0;
    fault.seen = 0;
    if (sscanf(line, "%15s %15s %ld %ld", kind, error, &first, &count) < 2)
        return;
    fault.kinds = strcmp(kind, "data") == 0   ? KIND_DATA
                  : strcmp(kind, "meta") == 0 ? KIND_META
                  : strcmp(kind, "sync") == 0 ? KIND_SYNC
                                              : KIND_DATA | KIND_META | KIND_SYNC;
    fault.error = strcmp(error, "HANG") == 0 ? HANGS : strcmp(error, "ENOSPC") == 0 ? ENOSPC : EIO;
    fault.first = first;
    fault.count = count;
}

/* The control file as it is now. A new one (by inode or time) starts counting anew. */
static void read_control(const char *path)
{
    struct stat about;
    char line[128];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &about) != 0) {
        fault.kinds = 0;
        fault.inode = 0;
    } else if (about.st_ino != fault.inode || about.st_mtim.tv_sec != fault.changed.tv_sec ||
               about.st_mtim.tv_nsec != fault.changed.tv_nsec) {
        ssize_t len = read(fd, line, sizeof line - 1);
        line[len > 0 ? len : 0] = '\0';
        fault.inode = about.st_ino;
        fault.changed = about.st_mtim;
        parse(line);
    }
    if (fd >= 0)
        close(fd);
}

void lmdb_fault_set(const char *line)
{
    pthread_mutex_lock(&fault.lock);
    parse(line ? line : "");
    pthread_mutex_unlock(&fault.lock);
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

/* Is it this call's turn? Then with which error. */
static bool is_struck(enum kind kind, int *error)
{
    const char *control = getenv("EINMAL_FAULT_CONTROL"), *fixed = getenv("EINMAL_FAULT");
    pthread_mutex_lock(&fault.lock);
    if (control)
        read_control(control);
    else if (fixed && strcmp(fixed, fault.line) != 0)
        parse(fixed);
    bool strike = false;
    if (fault.kinds & kind) {
        fault.seen++;
        strike = fault.seen >= fault.first && fault.seen < fault.first + fault.count;
    }
    *error = fault.error;
    pthread_mutex_unlock(&fault.lock);
    return strike;
}

/* Does this call fail? Then errno is set. */
static bool strikes(int fd, enum kind kind)
{
    int error;
    if (!is_data_file(fd))
        return false;
    while (is_struck(kind, &error)) {
        if (error != HANGS) {
            errno = error;
            return true;
        }
        usleep(5000);
    }
    return false;
}

static enum kind kind_of(size_t len, off_t at)
{
    return len <= META_MAX && at < META_AREA ? KIND_META : KIND_DATA;
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
    return strikes(fd, kind_of(len, at)) ? -1 : syscall(SYS_pwrite64, fd, data, len, at);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t at)
{
    return pwrite(fd, data, len, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    return strikes(fd, KIND_DATA) ? -1 : syscall(SYS_writev, fd, parts, count);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
    return strikes(fd, KIND_DATA) ? -1 : syscall(SYS_pwritev, fd, parts, count, at, 0);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at)
{
    return pwritev(fd, parts, count, at);
}

int fdatasync(int fd)
{
    return strikes(fd, KIND_SYNC) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
    return strikes(fd, KIND_SYNC) ? -1 : (int)syscall(SYS_fsync, fd);
}
