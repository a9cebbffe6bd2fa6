/* The cpu device: its host is the device. */
#include "lib/device/cpu/device.h"
#include "lib/kernels/cpu/host.h"

static dt_status cpu_init(struct dt_kernels *k)
{
    k->host.submit = dt_cpu_submit;
    return dt_host_init(k, dt_cpu_threads(k->device));
}

static dt_status cpu_overflows(struct dt_kernels *k, struct dt_stream *stream, uint64_t *to)
{
    *to = 0;
    return dt_host_overflows(k, stream, to);
}

const struct dt_kernel_backend dt_kernels_cpu = {.name = "cpu",
                                                 .init = cpu_init,
                                                 .begin_step = dt_host_begin_step,
                                                 .overflows = cpu_overflows,
                                                 .update = dt_host_update,
                                                 .add = dt_host_add,
                                                 .fill = dt_host_fill,
                                                 .normal = dt_host_normal};
