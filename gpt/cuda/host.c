/* The entries that run on the host's processor: the cpu kernels' loops, in the stream's order. And what is read of a step. */
#include "gpt/cuda/kernels.h"

#include "gpt/cpu/loops/loops.h"
#include "gpt/cpu/loops/team.h"
#include "lib/base/machine.h"

#include <math.h>

enum { GRANULE = 256, LEAST_FOR_A_TEAM = 8192 }; /* elements, as on the cpu */

struct host_task {
    struct gpt_kernels *k;
    gpt_cpu_part part;
    size_t count;
    union {
        struct gpt_sgd sgd;
        struct gpt_adam adam;
        struct gpt_add add;
        uint64_t *overflows;
    };
    struct gpt_adam_step numbers;
};

/* ---- on a thread of the driver's ---- */

static const struct gpt_simd *loops(const struct gpt_kernels *k)
{
    return gpt_simd_for(dt_cpu_isa(), k->model.dtype);
}

/* Where a thread's share of the task's elements begins, in memory of the model's dtype. */
static size_t offset_bytes(const struct host_task *t, struct gpt_cpu_share share)
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
    const struct host_task *t = argument;
    struct gpt_cpu_share share = gpt_cpu_share(t->count, GRANULE, thread, threads);
    size_t offset = offset_bytes(t, share);
    count_overflows(t->k, loops(t->k)->sgd((char *)t->sgd.params + offset, (const char *)t->sgd.grads + offset, share.end - share.first,
                                           t->sgd.learning_rate * t->sgd.gradient_scale));
}

static void adam_part(void *argument, int thread, int threads)
{
    const struct host_task *t = argument;
    const struct gpt_adam *a = &t->adam;
    struct gpt_cpu_share share = gpt_cpu_share(t->count, GRANULE, thread, threads);
    size_t offset = offset_bytes(t, share);
    count_overflows(t->k, loops(t->k)->adam((char *)a->params + offset, (const char *)a->grads + offset, a->first_moment + share.first,
                                            a->second_moment + share.first, a->master + share.first, share.end - share.first, &t->numbers));
}

static void add_part(void *argument, int thread, int threads)
{
    const struct host_task *t = argument;
    struct gpt_cpu_share share = gpt_cpu_share(t->count, GRANULE, thread, threads);
    size_t offset = offset_bytes(t, share);
    loops(t->k)->add((char *)t->add.to + offset, (const char *)t->add.from + offset, share.end - share.first);
}

static void overflows_part(void *argument, int thread, int threads)
{
    const struct host_task *t = argument;
    *t->overflows += __atomic_load_n(&t->k->host_step.overflows, __ATOMIC_RELAXED);
}

/* The step's number is read here, not where the task is queued: a graph runs it again in other steps. */
static dt_status run(void *arguments)
{
    struct host_task *t = arguments;
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
    return DT_OK;
}

/* ---- queueing ---- */

static dt_status submit(struct gpt_kernels *k, struct dt_stream *stream, const char *label, struct host_task task)
{
    struct dt_device_info info;
    if (k->host_threads == 0) {
        dt_device_info(k->device, &info);
        k->host_threads = info.threads > 0 ? info.threads : dt_machine_processors();
    }
    task.k = k;
    return dt_cuda_submit_host(stream, label, run, &task, sizeof task);
}

GPT_KERNEL_FUNCTION(gpt_cuda_sgd_host, gpt_sgd)
{
    return submit(k, stream, "sgd on the host", (struct host_task){.part = sgd_part, .count = a->count, .sgd = *a});
}

GPT_KERNEL_FUNCTION(gpt_cuda_adam_host, gpt_adam)
{
    return submit(k, stream, "adam on the host", (struct host_task){.part = adam_part, .count = a->count, .adam = *a});
}

GPT_KERNEL_FUNCTION(gpt_cuda_add_host, gpt_add)
{
    return submit(k, stream, "add on the host", (struct host_task){.part = add_part, .count = a->count, .add = *a});
}

/* Those of the device, and where the host has made updates its own. */
dt_status gpt_cuda_step_overflows(struct gpt_kernels *k, struct dt_stream *stream, uint64_t *to)
{
    DT_TRY(dt_copy_to_host(stream, to, &k->step->overflows, sizeof *to));
    return k->host_threads ? submit(k, stream, "overflows", (struct host_task){.part = overflows_part, .count = 1, .overflows = to})
                           : DT_OK;
}
