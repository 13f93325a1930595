/*
 * jobs.c - one thread beside the loop: a queue in, a list of what is done out, an eventfd that wakes the loop.
 */
#include "proxy/admin/jobs.h"
#include "proxy/span.h"
#include "proxy/thread.h"

#include <assert.h>
#include <pthread.h>
#include <unistd.h>

struct list {
    struct job *first, **end;
};

struct jobs {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct list queue, finished; /* under the lock */
    bool stopping;               /* under the lock */
    unsigned out;                /* the loop's: submitted and not yet told */
    int fd;
    struct event *event;
};

static void append(struct list *list, struct job *job)
{
    job->next = NULL;
    *list->end = job;
    list->end = &job->next;
}

static struct job *take(struct list *list)
{
    struct job *job = list->first;
    if (job && !(list->first = job->next))
        list->end = &list->first;
    return job;
}

static void *run_jobs(void *arg)
{
    struct jobs *jobs = arg;
    pthread_mutex_lock(&jobs->lock);
    for (;;) {
        struct job *job = take(&jobs->queue);
        if (job) {
            pthread_mutex_unlock(&jobs->lock);
            job->run(job);
            pthread_mutex_lock(&jobs->lock);
            append(&jobs->finished, job);
            waker_wake(jobs->fd);
        } else if (jobs->stopping) {
            break;
        } else {
            pthread_cond_wait(&jobs->wake, &jobs->lock);
        }
    }
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

static void on_finished(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct jobs *jobs = arg;
    struct job *job;
    waker_heard(fd);
    do {
        pthread_mutex_lock(&jobs->lock);
        job = take(&jobs->finished);
        pthread_mutex_unlock(&jobs->lock);
        if (job) {
            jobs->out--;
            job->done(job);
        }
    } while (job);
}

struct jobs *jobs_new(struct event_base *base)
{
    struct jobs *jobs = NEW(struct jobs);
    jobs->queue.end = &jobs->queue.first;
    jobs->finished.end = &jobs->finished.first;
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_cond_init(&jobs->wake, NULL);
    jobs->fd = waker_open();
    jobs->event = must_allocate(event_new(base, jobs->fd, EV_READ | EV_PERSIST, on_finished, jobs));
    event_add(jobs->event, NULL);
    thread_start(&jobs->thread, run_jobs, jobs);
    return jobs;
}

void jobs_submit(struct jobs *jobs, struct job *job)
{
    jobs->out++;
    pthread_mutex_lock(&jobs->lock);
    append(&jobs->queue, job);
    pthread_cond_signal(&jobs->wake);
    pthread_mutex_unlock(&jobs->lock);
}

void jobs_free(struct jobs *jobs)
{
    if (!jobs)
        return;
    assert(jobs->out == 0);
    pthread_mutex_lock(&jobs->lock);
    jobs->stopping = true;
    pthread_cond_signal(&jobs->wake);
    pthread_mutex_unlock(&jobs->lock);
    pthread_join(jobs->thread, NULL);
    event_free(jobs->event);
    close(jobs->fd);
    pthread_mutex_destroy(&jobs->lock);
    pthread_cond_destroy(&jobs->wake);
    free(jobs);
}
