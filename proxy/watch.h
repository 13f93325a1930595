/*
 * watch.h - tells when the content of some files has changed, however it was changed: written in place, renamed over,
 * behind a symbolic link that was moved (Kubernetes' ConfigMaps and Secrets), gone and come back.
 *
 * What counts is the content that is found at the path, not what was done to it: a file that was touched, or replaced
 * by the same bytes, has not changed. A file that is not there, or is no regular file, has a content of its own kind.
 *
 * THREAD: the one that runs the event base. OWNERSHIP: paths are copied.
 */
#pragma once

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct watch;

struct watch_times {    /* milliseconds */
    int64_t quiet_ms;   /* so long nothing may have happened to the files before they are looked at … */
    int64_t at_most_ms; /* … but not longer than this after the first thing that happened */
    int64_t look_ms;    /* they are looked at this often in any case, for changes that the kernel does not report */
};
extern const struct watch_times watch_usual_times;

/* The content at `path` differs from what was found there last. One call for all that changed together; `path` is the
 * first of them and lives until watch_set or watch_free; both may be called from here. */
typedef void watch_cb(void *arg, const char *path);

struct watch *watch_new(struct event_base *base, const struct watch_times *times, watch_cb *changed, void *arg);
/* These files from now on, none at first; NULLs among them are passed over. What is found there now counts as known.
 * True: some were not watched before, so what was read of them before this call may be older than what is known. */
bool watch_set(struct watch *watch, const char *const *paths, size_t count);
/* What is found now counts as known: for who is about to read the files for another reason. */
void watch_look(struct watch *watch);
void watch_free(struct watch *watch); /* NULL is fine */
