/*
 * jobs.h - work that may block, on a thread of its own; its end is told in the event loop.
 *
 * One thread, first come first served. A job is embedded in what asks for it and belongs to the thread from
 * jobs_submit() until its done() runs on the loop's thread. Nothing can be taken back.
 */
#pragma once

#include <event2/event.h>

struct jobs;

struct job {
    void (*run)(struct job *job);  /* on the thread; may block */
    void (*done)(struct job *job); /* in the loop; may free the job or submit it again */
    struct job *next;
};

struct jobs *jobs_new(struct event_base *base);
void jobs_submit(struct jobs *jobs, struct job *job); /* the loop's thread */
void jobs_free(struct jobs *jobs);                    /* no job may be out; NULL is fine */
