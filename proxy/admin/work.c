/*
 * work.c - what is asked of the store. It may take as long as the disk likes: whoever asked is answered in time, and
 * the work ends by itself.
 */
#include "proxy/admin/internal.h"

#include <assert.h>

static void unlink_work(struct admin_work *work)
{
    struct admin *admin = work->admin;
    if (work->prev)
        work->prev->next = work->next;
    else
        admin->works = work->next;
    if (work->next)
        work->next->prev = work->prev;
    admin->work_count--;
}

bool work_begin(struct admin_work *work, struct admin_request *request)
{
    struct admin *admin = request->admin;
    bool is_going = admin->detaching;
    if (is_going || admin->work_count >= WORKS_MAX) {
        work->free(work);
        admin_refuse(request, is_going ? REFUSAL_DRAINING : REFUSAL_OVERLOADED, NULL);
        return false;
    }
    work->admin = admin;
    work->request = request;
    request->work = work;
    work->next = admin->works;
    if (work->next)
        work->next->prev = work;
    admin->works = work;
    admin->work_count++;
    return true;
}

static void job_run(struct job *job)
{
    struct admin_work *work = (struct admin_work *)job;
    work->run(work);
}

static void job_done(struct job *job)
{
    struct admin_work *work = (struct admin_work *)job;
    work->then(work);
}

void work_run(struct admin_work *work, struct jobs *jobs)
{
    work->job.run = job_run;
    work->job.done = job_done;
    jobs_submit(jobs, &work->job);
}

void work_forget(struct admin_work *work)
{
    assert(work->request->work == work);
    work->request->work = NULL;
    work->request = NULL;
    if (work->parked)
        work_over(work);
}

void work_end_parked(struct admin *admin)
{
    struct admin_work *work = admin->works;
    while (work && !work->parked)
        work = work->next;
    if (!work)
        return;
    admin_end_answer(work->request, false);
    work_end_parked(admin);
}

void work_over(struct admin_work *work)
{
    struct admin *admin = work->admin;
    assert(!work->request && "it has been answered, or is gone");
    unlink_work(work);
    work->free(work);
    admin_work_is_over(admin);
}

static void too_late(struct admin_request *request)
{
    admin_refuse(request, REFUSAL_STORE_UNAVAILABLE, NULL);
}

void work_wait(struct admin_request *request)
{
    request->on_deadline = too_late;
    deadline_set(&request->deadline, monotonic_ms() + request->admin->conf->store.timeout);
}
