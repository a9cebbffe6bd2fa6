/* The cpu device: kernels run on the host's processor. */
#include "lib/device/cpu/device.h"
#include "lib/kernels/cpu/host.h"
#include "lib/kernels/cpu/team.h"

#include <assert.h>
#include <stdalign.h>
#include <string.h>

struct work_task {
    struct dt_cpu_work work;
    alignas(8) char arguments[DT_CPU_WORK_BYTES];
};
_Static_assert(sizeof(struct work_task) <= DT_CPU_ARGUMENT_BYTES, "a stream's task takes no more");

static void work_part(void *argument, int thread, int threads)
{
    const struct work_task *t = argument;
    struct dt_cpu_share share = dt_cpu_share(t->work.count, t->work.granule, thread, threads);
    t->work.make(t->work.k, t->arguments, share.first, share.end);
}

static dt_status run_work(void *arguments)
{
    struct work_task *t = arguments;
    dt_cpu_parallel(t->work.threads, work_part, t);
    return DT_OK;
}

dt_status dt_cpu_submit_work(struct dt_stream *stream, const char *label, const struct dt_cpu_work *work, const void *arguments,
                             size_t arguments_bytes)
{
    struct work_task t = {.work = *work};
    assert(arguments_bytes <= sizeof t.arguments);
    memcpy(t.arguments, arguments, arguments_bytes);
    return dt_cpu_submit(stream, label, run_work, &t, offsetof(struct work_task, arguments) + arguments_bytes);
}

static dt_status cpu_init(struct dt_kernels *k)
{
    k->host.submit = dt_cpu_submit;
    return dt_host_init(k, dt_cpu_threads(k->device));
}

const struct dt_kernel_backend dt_kernels_cpu = {.init = cpu_init, .calls = &dt_host_calls, .host = &dt_host_calls};
