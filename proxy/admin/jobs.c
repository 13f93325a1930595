/*
 * jobs.c - one thread beside the loop: a queue in, a list of what is done out, an eventfd that wakes the loop.
 */
#include "proxy/admin/jobs.h"
#include "proxy/span.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
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
            ssize_t written = write(jobs->fd, &(uint64_t){1}, sizeof(uint64_t));
            (void)written; /* a full counter has woken the loop already */
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
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof count);
    (void)got;
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

/* Signals are the control thread's business. */
static void start_thread(struct jobs *jobs)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&jobs->thread, NULL, run_jobs, jobs);
    assert(!failed && "a thread is to be had at start");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

struct jobs *jobs_new(struct event_base *base)
{
    struct jobs *jobs = NEW(struct jobs);
    jobs->queue.end = &jobs->queue.first;
    jobs->finished.end = &jobs->finished.first;
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_cond_init(&jobs->wake, NULL);
    jobs->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert(jobs->fd >= 0 && "descriptors are there at start");
    jobs->event = must_allocate(event_new(base, jobs->fd, EV_READ | EV_PERSIST, on_finished, jobs));
    event_add(jobs->event, NULL);
    start_thread(jobs);
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
