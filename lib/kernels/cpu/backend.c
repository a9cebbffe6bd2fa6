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

/* The device's updates are the host's: they are settled already. */
static dt_status cpu_settle_norm(struct dt_kernels *k, struct dt_stream *stream, bool on_host, const struct dt_norm_rule *rule,
                                 const float *squares)
{
    return on_host ? DT_OK : dt_host_settle_norm(k, stream, false, rule, squares);
}

const struct dt_kernel_backend dt_kernels_cpu = {.name = "cpu",
                                                 .init = cpu_init,
                                                 .begin_step = dt_host_begin_step,
                                                 .overflows = cpu_overflows,
                                                 .add_squares = dt_host_add_squares,
                                                 .sum_squares = dt_host_sum_squares,
                                                 .settle_norm = cpu_settle_norm,
                                                 .norm = dt_host_norm,
                                                 .set_norm = dt_host_set_norm,
                                                 .convert = dt_host_convert,
                                                 .update = dt_host_update,
                                                 .add = dt_host_add,
                                                 .add_wide = dt_host_add_wide,
                                                 .fill = dt_host_fill,
                                                 .normal = dt_host_normal};
