/*
 * watch.c - content of files, by inotify and by looking.
 *
 * inotify says when it is worth looking; what has changed is decided by the content alone, as a hash. Watched are, for
 * each file, every directory in which one of the names on the way to it is looked up (a link may be moved, a file
 * renamed over), and the file itself (a file that is mounted alone, as Docker does, is written to under another name in
 * another directory). As the kernel tells of all names in a directory, those that are not on the way are passed over:
 * a log beside the configuration must not keep us awake. kubelet changes a ConfigMap by
 *
 *     einmal.yaml → ..data/einmal.yaml     never touched
 *     ..data      → ..2026_01_02           renamed over by one that points to a new directory; the old one is removed
 *
 * so what is seen is the name ..data in the directory of the file. After each look the ways are walked anew.
 *
 * Slow looks do for what the kernel does not report: network and FUSE file systems, Docker Desktop, changes in the
 * lower layer of an overlay, directories above that are replaced, inotify instances that are used up.
 *
 * Left out: a file that is mounted alone and renamed over outside: what is mounted stays the old file, for everybody.
 * Reading a file system that hangs holds up the thread, as reading the configuration from there would.
 */
#include "proxy/watch.h"
#include "proxy/deadline.h"
#include "proxy/span.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_CONTENT (4 * 1024 * 1024) /* of a file; what lies behind is not looked at */
#define MAX_LINKS   40                /* on the way to a file, as in the kernel */
#define HASH_LEN    32

const struct watch_times watch_usual_times = {.quiet_ms = 250, .at_most_ms = 2000, .look_ms = 10000};

struct content {
    int error; /* 0: `hash` counts; else why there is none, as in errno */
    uint8_t hash[HASH_LEN];
};

struct watched_file {
    char *path;
    struct content known;
};

/* A name that is looked up in a directory on the way to a file; NULL: the file itself is watched. */
struct step {
    int descriptor; /* of inotify; the same for all names of one directory */
    char *name;
};

struct watch {
    struct event_base *base;
    struct watch_times times;
    watch_cb *changed;
    void *arg;
    struct watched_file *files;
    size_t file_count;
    struct step *steps;
    size_t step_count, step_capacity;
    int fd; /* inotify; -1: not to be had */
    struct event *news;
    struct deadline look; /* the next one, whatever for */
    int64_t first_ms;     /* of what happened since the last look; 0: nothing did */
};

/* ---- content ---------------------------------------------------------------------------------- */

static bool hash_descriptor(int fd, uint8_t hash[HASH_LEN])
{
    char bytes[16384];
    size_t left = MAX_CONTENT;
    ssize_t got = 1;
    EVP_MD_CTX *context = must_allocate(EVP_MD_CTX_new());
    int fine = EVP_DigestInit_ex(context, EVP_sha256(), NULL);
    while (left && (got = read(fd, bytes, left < sizeof bytes ? left : sizeof bytes)) > 0) {
        fine &= EVP_DigestUpdate(context, bytes, (size_t)got);
        left -= (size_t)got;
    }
    int error = errno;
    fine &= EVP_DigestFinal_ex(context, hash, NULL);
    EVP_MD_CTX_free(context);
    assert(fine == 1);
    errno = error;
    return got >= 0;
}

/* Without waiting: the path may name a FIFO by now. */
static struct content content_of(const char *path)
{
    struct content content = {0};
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &about) != 0)
        content.error = errno;
    else if (!S_ISREG(about.st_mode))
        content.error = S_ISDIR(about.st_mode) ? EISDIR : ENODEV;
    else if (!hash_descriptor(fd, content.hash))
        content = (struct content){.error = errno};
    if (fd >= 0)
        close(fd);
    return content;
}

static bool same_content(const struct content *a, const struct content *b)
{
    return a->error == b->error && memcmp(a->hash, b->hash, HASH_LEN) == 0;
}

/* ---- ways ------------------------------------------------------------------------------------- */

static void forget_steps(struct watch *watch)
{
    for (size_t i = 0; i < watch->step_count; i++)
        free(watch->steps[i].name);
    watch->step_count = 0;
}

static void add_step(struct watch *watch, const char *folder, uint32_t mask, const char *name)
{
    int descriptor = inotify_add_watch(watch->fd, folder, mask);
    if (descriptor < 0)
        return; /* gone, or no watches left: slow looks do */
    for (size_t i = 0; i < watch->step_count; i++) {
        const struct step *step = &watch->steps[i];
        if (step->descriptor == descriptor && (name ? step->name && strcmp(step->name, name) == 0 : !step->name))
            return;
    }
    if (watch->step_count == watch->step_capacity) {
        watch->step_capacity = watch->step_capacity ? watch->step_capacity * 2 : 16;
        watch->steps = must_allocate(realloc(watch->steps, watch->step_capacity * sizeof *watch->steps));
    }
    watch->steps[watch->step_count++] = (struct step){descriptor, name ? copy_string(name) : NULL};
}

#define FOLDER_EVENTS \
    (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE | IN_ATTRIB | IN_ONLYDIR | IN_MASK_ADD)
#define FILE_EVENTS (IN_CLOSE_WRITE | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF | IN_MASK_ADD)

/* Splits the first name off `path`: into `name`; what remains of the path is moved to its front. False: no more. */
static bool take_name(char *path, char *name)
{
    size_t begin = strspn(path, "/"), len = strcspn(path + begin, "/");
    memcpy(name, path + begin, len);
    name[len] = '\0';
    memmove(path, path + begin + len, strlen(path + begin + len) + 1);
    return len > 0;
}

/* Walks as the kernel does, one name after another; where one is a link, its text takes its place. Directories that are
 * no links and hold none of the way's links are not watched: they hold no news but of being replaced themselves. */
static void walk(struct watch *watch, const char *path)
{
    char folder[PATH_MAX], rest[PATH_MAX], name[PATH_MAX], at[2 * PATH_MAX], text[PATH_MAX];
    int links = 0;
    if (strlen(path) >= sizeof rest)
        return; /* nobody can open it */
    snprintf(folder, sizeof folder, "%s", *path == '/' ? "/" : ".");
    strcpy(rest, path);
    while (take_name(rest, name)) {
        bool last = rest[strspn(rest, "/")] == '\0';
        snprintf(at, sizeof at, "%s/%s", folder, name);
        ssize_t len = readlink(at, text, sizeof text - 1);
        if (len >= 0 || last)
            add_step(watch, folder, FOLDER_EVENTS, name);
        if (len >= 0) {
            text[len] = '\0';
            if (++links > MAX_LINKS || strlen(text) + 1 + strlen(rest) >= PATH_MAX)
                return;
            snprintf(at, sizeof at, "%s/%s", text, rest);
            strcpy(rest, at);
            if (*text == '/')
                strcpy(folder, "/");
        } else if (strlen(at) >= sizeof folder) {
            return;
        } else if (!last) {
            strcpy(folder, at);
        }
    }
    add_step(watch, path, FILE_EVENTS, NULL);
}

static bool is_step(const struct watch *watch, int descriptor)
{
    for (size_t i = 0; i < watch->step_count; i++)
        if (watch->steps[i].descriptor == descriptor)
            return true;
    return false;
}

/* New watches are added before old ones go: nothing is missed in between. */
static void walk_all(struct watch *watch)
{
    if (watch->fd < 0)
        return;
    struct step *before = watch->steps;
    size_t count = watch->step_count;
    watch->steps = NULL;
    watch->step_count = watch->step_capacity = 0;
    for (size_t i = 0; i < watch->file_count; i++)
        walk(watch, watch->files[i].path);
    for (size_t i = 0; i < count; i++) {
        if (!is_step(watch, before[i].descriptor))
            inotify_rm_watch(watch->fd, before[i].descriptor); /* fails where the kernel did it: fine */
        free(before[i].name);
    }
    free(before);
}

/* ---- looking ---------------------------------------------------------------------------------- */

/* The first file whose content is not the known one, or NULL. All are known afterwards. The ways are walked first, so
 * that what changes behind the look is reported. */
static const char *look(struct watch *watch)
{
    const char *first = NULL;
    walk_all(watch);
    for (size_t i = 0; i < watch->file_count; i++) {
        struct watched_file *file = &watch->files[i];
        struct content found = content_of(file->path);
        if (!first && !same_content(&found, &file->known))
            first = file->path;
        file->known = found;
    }
    watch->first_ms = 0;
    if (watch->file_count)
        deadline_set(&watch->look, monotonic_ms() + watch->times.look_ms);
    else
        deadline_clear(&watch->look);
    return first;
}

static void on_look(void *arg)
{
    struct watch *watch = arg;
    const char *path = look(watch);
    if (path)
        watch->changed(watch->arg, path);
}

void watch_look(struct watch *watch)
{
    (void)look(watch);
}

/* ---- news ------------------------------------------------------------------------------------- */

static bool concerns(const struct watch *watch, const struct inotify_event *event)
{
    if (event->mask & IN_Q_OVERFLOW)
        return true;
    for (size_t i = 0; i < watch->step_count; i++) {
        const struct step *step = &watch->steps[i];
        if (step->descriptor == event->wd && (!step->name || !event->len || strcmp(step->name, event->name) == 0))
            return true;
    }
    return false;
}

static void something_happened(struct watch *watch)
{
    int64_t now = monotonic_ms();
    if (!watch->first_ms)
        watch->first_ms = now;
    int64_t due = now + watch->times.quiet_ms, latest = watch->first_ms + watch->times.at_most_ms;
    deadline_set(&watch->look, due < latest ? due : latest);
}

static void on_news(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct watch *watch = arg;
    _Alignas(struct inotify_event) char bytes[8192];
    bool concerned = false;
    for (ssize_t len; (len = read(fd, bytes, sizeof bytes)) > 0;) {
        for (char *at = bytes; at < bytes + len;) {
            const struct inotify_event *event = (const struct inotify_event *)at;
            concerned |= concerns(watch, event);
            at += sizeof *event + event->len;
        }
    }
    if (concerned)
        something_happened(watch);
}

/* ---- life ------------------------------------------------------------------------------------- */

struct watch *watch_new(struct event_base *base, const struct watch_times *times, watch_cb *changed, void *arg)
{
    struct watch *watch = NEW(struct watch);
    watch->base = base;
    watch->times = *times;
    watch->changed = changed;
    watch->arg = arg;
    watch->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watch->fd >= 0) {
        watch->news = must_allocate(event_new(base, watch->fd, EV_READ | EV_PERSIST, on_news, watch));
        event_add(watch->news, NULL);
    }
    deadline_init(&watch->look, base, on_look, watch);
    return watch;
}

static void forget_files(struct watched_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(files[i].path);
    free(files);
}

static bool is_watched(const struct watched_file *files, size_t count, const char *path)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(files[i].path, path) == 0)
            return true;
    return false;
}

bool watch_set(struct watch *watch, const char *const *paths, size_t count)
{
    struct watched_file *before = watch->files;
    size_t before_count = watch->file_count;
    bool news = false;
    watch->files = NEW_ARRAY(struct watched_file, count);
    watch->file_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!paths[i] || is_watched(watch->files, watch->file_count, paths[i]))
            continue;
        watch->files[watch->file_count++].path = copy_string(paths[i]);
        news |= !is_watched(before, before_count, paths[i]);
    }
    forget_files(before, before_count);
    watch_look(watch);
    return news;
}

void watch_free(struct watch *watch)
{
    if (!watch)
        return;
    deadline_destroy(&watch->look);
    if (watch->news)
        event_free(watch->news);
    if (watch->fd >= 0)
        close(watch->fd);
    forget_steps(watch);
    free(watch->steps);
    forget_files(watch->files, watch->file_count);
    free(watch);
}
