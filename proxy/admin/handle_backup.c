/*
 * handle_backup.c - a copy of the store, while it runs.
 *
 *     copy to a file without a name  →  head  →  (read a piece → write it) … →  end
 *
 * The file comes first, so that a client that reads slowly holds up nobody: a copy is a long read of the store, during
 * which it cannot use again what it frees. Reading the file may block, too, so both are done by the copier's thread.
 * One at a time: the disk has room for one.
 */
#include "proxy/admin/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE (256 * 1024)

struct backup {
    struct admin_work work;
    int fd;
    uint64_t size, sent;
    bool made;
    char error[512];
    size_t piece_len;
    char piece[PIECE];
};

static void free_backup(struct admin_work *work)
{
    struct backup *backup = (struct backup *)work;
    atomic_store(&work->admin->backup_fd, -1);
    work->admin->backup_running = false;
    if (backup->fd >= 0)
        close(backup->fd);
    free(backup);
}

/* ---- sending ---------------------------------------------------------------------------------- */

static void read_piece(struct admin_work *work)
{
    struct backup *backup = (struct backup *)work;
    ssize_t got = pread(backup->fd, backup->piece, sizeof backup->piece, (off_t)backup->sent);
    backup->piece_len = got > 0 ? (size_t)got : 0;
}

static void go_on(struct admin_request *request)
{
    request->on_writable = NULL;
    request->work->parked = false;
    work_run(request->work, request->admin->copier);
}

static void send_piece(struct admin_work *work)
{
    struct backup *backup = (struct backup *)work;
    struct admin_request *request = work->request;
    bool cut = !backup->piece_len || work->admin->detaching; /* not to be read to its end, or no time left to */
    backup->sent += backup->piece_len;
    if (request)
        client_write(request->connection->client, backup->piece, backup->piece_len);
    if (request && (cut || backup->sent >= backup->size))
        admin_end_answer(request, !cut);
    if (!work->request) {
        work_over(work);
    } else if (client_queued(request->connection->client) > CLIENT_LOW_WATER) {
        request->on_writable = go_on;
        work->parked = true;
    } else {
        work_run(work, work->admin->copier);
    }
}

/* ---- copying ---------------------------------------------------------------------------------- */

/* Beside the store: there is room for it if anywhere, and the directory can be written to. */
static int make_file(const char *directory)
{
    char path[4096];
    int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return fd;
    if (snprintf(path, sizeof path, "%s/backup.XXXXXX", directory) >= (int)sizeof path)
        return -1;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static bool fail(struct backup *backup, const char *why)
{
    snprintf(backup->error, sizeof backup->error, "%s", why);
    return false;
}

static bool make_copy(struct backup *backup)
{
    struct admin *admin = backup->work.admin;
    struct stat made;
    backup->fd = make_file(admin->started_with->store.path);
    if (backup->fd < 0) {
        snprintf(backup->error, sizeof backup->error, "no file can be made in store.path: %s", strerror(errno));
        return false;
    }
    atomic_store(&admin->backup_fd, backup->fd);
    if (atomic_load(&admin->backup_stop))
        return fail(backup, "this instance is about to end");
    if (!store_backup(admin->store, backup->fd, backup->error, sizeof backup->error))
        return false;
    if (fstat(backup->fd, &made) != 0)
        return fail(backup, strerror(errno));
    backup->size = (uint64_t)made.st_size;
    return true;
}

static void copy(struct admin_work *work)
{
    struct backup *backup = (struct backup *)work;
    backup->made = make_copy(backup);
}

static void copied(struct admin_work *work)
{
    struct backup *backup = (struct backup *)work;
    struct admin_request *request = work->request;
    if (!backup->made) {
        log_line(work->admin->log, LOG_LEVEL_ERROR, "admin: backup failed: %s", backup->error);
        if (request)
            admin_refuse(request, REFUSAL_BACKUP_FAILED, "%s", backup->error);
    }
    if (!work->request) {
        work_over(work);
        return;
    }
    admin_begin_answer(
        request,
        &(struct answer){.type = SPAN("application/octet-stream"),
                         .extra = {{SPAN("Content-Disposition"), SPAN("attachment; filename=\"data.mdb\"")}}},
        backup->size);
    work->run = read_piece;
    work->then = send_piece;
    work_run(work, work->admin->copier);
}

void handle_backup(struct admin_request *request)
{
    struct admin *admin = request->admin;
    char who[ADMIN_WHO_MAX];
    if (admin->backup_running) {
        admin_refuse(request, REFUSAL_BACKUP_RUNNING, NULL);
        return;
    }
    struct backup *backup = NEW(struct backup);
    backup->work.admin = admin;
    backup->work.free = free_backup;
    backup->work.run = copy;
    backup->work.then = copied;
    backup->fd = -1;
    admin->backup_running = true;
    if (!work_begin(&backup->work, request))
        return;
    admin_who(request, who);
    log_line(admin->log, LOG_LEVEL_WARNING, "admin: backup asked for by %s", who);
    work_run(&backup->work, admin->copier);
}
