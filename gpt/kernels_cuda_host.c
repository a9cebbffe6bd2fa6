/* The entries that run on the host's processor, and what is read of a step.
 *
 * A host function of cuda's runs the cpu kernels' loops in the stream's order. What it is to do is in memory of its own: freed behind it,
 * or kept until the kernels are destroyed where it is captured, since the graph runs it again and again. */
#include "gpt/kernels_cuda.h"

#include "gpt/kernels_cpu_team.h"
#include "gpt/kernels_simd.h"
#include "lib/machine.h"

#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>

enum { GRANULE = 256, LEAST_FOR_A_TEAM = 8192 }; /* elements, as on the cpu */

struct gpt_cuda_host_task {
    struct gpt_kernels *k;
    gpt_cpu_part part;
    size_t count;
    union {
        struct gpt_sgd sgd;
        struct gpt_adam adam;
        struct {
            void *to;
            const void *from;
        } add;
        uint64_t *overflows;
    };
    struct gpt_adam_step numbers;
    struct gpt_cuda_host_task *next; /* of those that are kept */
    bool kept;
};

void gpt_cuda_host_destroy(struct gpt_kernels *k)
{
    while (k->host_tasks) {
        struct gpt_cuda_host_task *task = k->host_tasks;
        k->host_tasks = task->next;
        free(task);
    }
}

/* ---- on cuda's thread ---- */

static const struct gpt_simd *loops(const struct gpt_kernels *k)
{
    return gpt_simd_for(dt_cpu_isa(), k->model.dtype);
}

/* Where a thread's share of the task's elements begins, in memory of the model's dtype. */
static size_t offset_bytes(const struct gpt_cuda_host_task *t, struct gpt_cpu_share share)
{
    return share.first * dt_dtype_bytes(t->k->model.dtype);
}

static void count_overflows(struct gpt_kernels *k, size_t left_out)
{
    if (left_out)
        __atomic_fetch_add(&k->host_step.overflows, left_out, __ATOMIC_RELAXED);
}

static void sgd_part(void *argument, int thread, int threads)
{
    const struct gpt_cuda_host_task *t = argument;
    struct gpt_cpu_share share = gpt_cpu_share(t->count, GRANULE, thread, threads);
    size_t offset = offset_bytes(t, share);
    count_overflows(t->k, loops(t->k)->sgd((char *)t->sgd.params + offset, (const char *)t->sgd.grads + offset, share.end - share.first,
                                           t->sgd.learning_rate * t->sgd.gradient_scale));
}

static void adam_part(void *argument, int thread, int threads)
{
    const struct gpt_cuda_host_task *t = argument;
    const struct gpt_adam *a = &t->adam;
    struct gpt_cpu_share share = gpt_cpu_share(t->count, GRANULE, thread, threads);
    size_t offset = offset_bytes(t, share);
    count_overflows(t->k, loops(t->k)->adam((char *)a->params + offset, (const char *)a->grads + offset, a->first_moment + share.first,
                                            a->second_moment + share.first, a->master + share.first, share.end - share.first, &t->numbers));
}

static void add_part(void *argument, int thread, int threads)
{
    const struct gpt_cuda_host_task *t = argument;
    struct gpt_cpu_share share = gpt_cpu_share(t->count, GRANULE, thread, threads);
    size_t offset = offset_bytes(t, share);
    loops(t->k)->add((char *)t->add.to + offset, (const char *)t->add.from + offset, share.end - share.first);
}

static void overflows_part(void *argument, int thread, int threads)
{
    const struct gpt_cuda_host_task *t = argument;
    *t->overflows += __atomic_load_n(&t->k->host_step.overflows, __ATOMIC_RELAXED);
}

/* The step's numbers are read here, not where the task is queued: it may be run again in another step. */
static void run(void *argument)
{
    struct gpt_cuda_host_task *t = argument;
    int number = t->k->host_step.number;
    if (t->part == adam_part)
        t->numbers = (struct gpt_adam_step){.first = number == 1,
                                            .learning_rate = t->adam.learning_rate,
                                            .beta1 = t->adam.beta1,
                                            .beta2 = t->adam.beta2,
                                            .epsilon = t->adam.epsilon,
                                            .gradient_scale = t->adam.gradient_scale,
                                            .correction1 = (float)(1 / (1 - pow(t->adam.beta1, number))),
                                            .correction2 = (float)(1 / (1 - pow(t->adam.beta2, number)))};
    gpt_cpu_parallel(t->count < LEAST_FOR_A_TEAM ? 1 : t->k->host_threads, t->part, t);
    if (!t->kept)
        free(t);
}

/* ---- queueing ---- */

static int team_size(const struct gpt_kernels *k)
{
    struct dt_device_info info;
    dt_device_info(k->device, &info);
    return info.threads > 0 ? info.threads : dt_machine_processors();
}

/* Queue a copy of `task`. */
static dt_status submit(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_cuda_host_task *task)
{
    struct gpt_cuda_host_task *own = malloc(sizeof *own);
    if (!own)
        return dt_fail(DT_ERR_HOST_MEMORY, "cuda kernels: no host memory");
    if (k->host_threads == 0)
        k->host_threads = team_size(k);
    *own = *task;
    own->k = k;
    own->kept = dt_cuda_capturing(k->device);
    dt_status status = dt_cuda_status(cudaLaunchHostFunc(dt_cuda_stream(stream), run, own), "host kernel");
    if (status < 0) {
        free(own);
    } else if (own->kept) {
        own->next = k->host_tasks;
        k->host_tasks = own;
    }
    return status;
}

dt_status gpt_cuda_sgd_host(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_sgd *a)
{
    return submit(k, stream, &(struct gpt_cuda_host_task){.part = sgd_part, .count = a->count, .sgd = *a});
}

dt_status gpt_cuda_adam_host(struct gpt_kernels *k, struct dt_stream *stream, const struct gpt_adam *a)
{
    return submit(k, stream, &(struct gpt_cuda_host_task){.part = adam_part, .count = a->count, .adam = *a});
}

dt_status gpt_cuda_add_host(struct gpt_kernels *k, struct dt_stream *stream, void *to, const void *from, size_t count)
{
    return submit(k, stream, &(struct gpt_cuda_host_task){.part = add_part, .count = count, .add = {to, from}});
}

/* Those of the device, and where the host has made updates its own. */
dt_status gpt_cuda_step_overflows(struct gpt_kernels *k, struct dt_stream *stream, uint64_t *to)
{
    DT_TRY(dt_copy_to_host(stream, to, &k->step->overflows, sizeof *to));
    return k->host_threads ? submit(k, stream, &(struct gpt_cuda_host_task){.part = overflows_part, .count = 1, .overflows = to}) : DT_OK;
}
