/*
 * lock.c - one running einmal per directory.
 *
 * The lock is flock() on a file of our own, `store.lock`: it belongs to the open file, so it works across pid
 * namespaces and dies with the process, however that ends. Process ids are for people only: the file says who holds it,
 * nobody decides by them. LMDB's own lock file would not do: it allows several processes.
 *
 * Network file systems are refused: neither flock nor the shared map can be trusted there.
 */
#include "store/lock.h"
#include "store/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS 50

/* f_type of statfs(2); linux/magic.h does not have them all. */
static const struct {
    unsigned long magic;
    const char *name;
} network_file_systems[] = {
    {0x6969, "NFS"},      {0xFF534D42, "CIFS"}, {0xFE534D42, "SMB"},  {0x517B, "SMB"},        {0x01021997, "9p"},
    {0x00C36400, "Ceph"}, {0x5346414F, "AFS"},  {0x73757245, "Coda"}, {0x0BD00BD0, "Lustre"}, {0x01161970, "GFS2"},
};

static const char *network_file_system(int directory)
{
    struct statfs about;
    if (fstatfs(directory, &about) != 0)
        return NULL;
    for (size_t i = 0; i < sizeof network_file_systems / sizeof *network_file_systems; i++)
        if (((unsigned long)about.f_type & 0xFFFFFFFF) == network_file_systems[i].magic)
            return network_file_systems[i].name;
    return NULL;
}

static bool open_directory(struct store_lock *lock, const struct store_config *config, char *error, size_t error_size)
{
    const char *path = config->path;
    if (config->create && mkdir(path, 0700) != 0 && errno != EEXIST) {
        snprintf(error, error_size, "store %s: cannot make the directory: %s", path, strerror(errno));
        return false;
    }
    lock->directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock->directory >= 0)
        return true;
    if (errno == ENOENT)
        snprintf(error, error_size, "store %s: the directory does not exist, and store.create is false", path);
    else if (errno == ENOTDIR)
        snprintf(error, error_size, "store %s: not a directory", path);
    else
        snprintf(error, error_size, "store %s: cannot open the directory: %s", path, strerror(errno));
    return false;
}

static bool check_directory(const struct store_lock *lock, const char *path, char *error, size_t error_size)
{
    struct stat about;
    const char *network = network_file_system(lock->directory);
    if (network) {
        snprintf(error, error_size, "store %s: lies on a network file system (%s); it needs a local one", path,
                 network);
        return false;
    }
    if (faccessat(lock->directory, ".", R_OK | W_OK | X_OK, AT_EACCESS) == 0)
        return true;
    int reason = errno;
    if (fstat(lock->directory, &about) != 0)
        memset(&about, 0, sizeof about);
    if (reason == EROFS)
        snprintf(error, error_size, "store %s: read-only file system; the store needs a writable directory", path);
    else
        snprintf(error, error_size, "store %s: %s: it belongs to user %u with mode %04o, einmal runs as user %u", path,
                 strerror(reason), (unsigned)about.st_uid, (unsigned)about.st_mode & 07777, (unsigned)geteuid());
    return false;
}

static void name_holder(const struct store_lock *lock, const char *path, char *error, size_t error_size)
{
    char holder[300];
    ssize_t len = pread(lock->file, holder, sizeof holder - 1, 0);
    holder[len > 0 ? len : 0] = '\0';
    holder[strcspn(holder, "\n")] = '\0';
    snprintf(error, error_size, "store %s: in use by another einmal (%s)", path,
             holder[0] ? holder : "it did not say which");
}

static bool wait_for_lock(const struct store_lock *lock, const struct store_config *config, char *error,
                          size_t error_size)
{
    int64_t until = store_clock_read_ms(CLOCK_MONOTONIC) + config->lock_wait_ms;
    while (flock(lock->file, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            snprintf(error, error_size, "store %s: cannot lock store.lock: %s", config->path, strerror(errno));
            return false;
        }
        if (store_clock_read_ms(CLOCK_MONOTONIC) >= until) {
            name_holder(lock, config->path, error, error_size);
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
    }
    return true;
}

/* For the message of whoever comes second. Failing to write it is no reason not to run: the lock is held. */
static void sign(const struct store_lock *lock)
{
    char host[200] = "", line[300];
    gethostname(host, sizeof host - 1);
    int len = snprintf(line, sizeof line, "pid %ld on %s\n", (long)getpid(), host);
    if (ftruncate(lock->file, 0) != 0 || pwrite(lock->file, line, (size_t)len, 0) != len)
        return;
}

static bool open_file(struct store_lock *lock, const char *path, char *error, size_t error_size)
{
    lock->file = openat(lock->directory, "store.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (lock->file < 0)
        snprintf(error, error_size, "store %s: cannot open store.lock: %s", path, strerror(errno));
    return lock->file >= 0;
}

bool store_lock_take(struct store_lock *lock, const struct store_config *config, char *error, size_t error_size)
{
    *lock = (struct store_lock){-1, -1};
    if (open_directory(lock, config, error, error_size) && check_directory(lock, config->path, error, error_size) &&
        open_file(lock, config->path, error, error_size) && wait_for_lock(lock, config, error, error_size)) {
        sign(lock);
        return true;
    }
    store_lock_release(lock);
    return false;
}

void store_lock_release(struct store_lock *lock)
{
    if (lock->file >= 0)
        close(lock->file);
    if (lock->directory >= 0)
        close(lock->directory);
    *lock = (struct store_lock){-1, -1};
}
