/* Abort all communicators at once, and wait for this with a time limit.
 *
 * ncclCommAbort waits for three things: for the kernels of its own communicator, which its flag
 * ends; when it frees memory, for kernels of other communicators, which only their flags end; and
 * for the destruction of captured graphs with its operations (localPersistentRefs in NCCL's
 * sources). So each communicator is aborted by a separate thread, which sets all flags, and
 * meanwhile this thread destroys the graphs. Aborts that still wait after the limit are abandoned:
 * the process reports its failure and ends. */
#include "lib/comm/nccl/comm.h"

#include <stdlib.h>
#include <time.h>

/* A normal abort takes milliseconds. */
static const double abort_s = 3;

/* The abort of one communicator. It owns everything that its thread uses, since the thread may
 * outlive the family. */
struct nccl_abort {
    ncclResult_t (*abort)(ncclComm_t comm);
    ncclComm_t handle;
    int gpu;
    pthread_t thread;
    struct nccl_abort *next;
};

static void *run(void *argument)
{
    const struct nccl_abort *a = argument;
    cudaSetDevice(a->gpu);
    a->abort(a->handle);
    return NULL;
}

/* Without memory or a thread for the abort, the handle is abandoned. */
static void start(struct nccl_family *f, struct nccl_comm *comm)
{
    struct nccl_abort *a = malloc(sizeof *a);
    ncclComm_t handle = comm->handle;
    comm->handle = NULL;
    if (!a)
        return;
    *a = (struct nccl_abort){.abort = f->nccl.comm_abort, .handle = handle, .gpu = dt_cuda_ordinal(f->device), .next = f->aborts};
    if (pthread_create(&a->thread, NULL, run, a) == 0)
        f->aborts = a;
    else
        free(a);
}

void dt_nccl_abort_wait(struct nccl_family *f)
{
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += (time_t)abort_s;
    for (struct nccl_abort *a = f->aborts, *next; a; a = next) {
        next = a->next;
        if (pthread_timedjoin_np(a->thread, NULL, &deadline) == 0)
            free(a);
        else
            pthread_detach(a->thread);
    }
    f->aborts = NULL;
}

void dt_nccl_abort_all(struct nccl_family *f)
{
    for (struct nccl_comm *c = f->members; c; c = c->next) { /* no other thread changes the list */
        if (c->handle)
            start(f, c);
    }
    dt_cuda_graphs_drop(f->device);
    if (!dt_cuda_capturing(f->device)) /* a capture holds operations, too: then the family's end waits for the aborts */
        dt_nccl_abort_wait(f);
}

void dt_nccl_abort_one(struct nccl_comm *comm)
{
    start(comm->family, comm);
    dt_nccl_abort_wait(comm->family);
}
