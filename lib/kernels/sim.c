/* The sim device: nothing is computed. Memory is what callers allocate around the kernels; what they cost, the device's description says. */
#include "lib/device/sim.h"
#include "lib/kernels/backend.h"

static dt_status sim_init(struct dt_kernels *k)
{
    return DT_OK;
}

static dt_status sim_begin_step(struct dt_kernels *k, struct dt_stream *stream, int step)
{
    k->updated = false;
    return DT_OK;
}

static dt_status sim_overflows(struct dt_kernels *k, struct dt_stream *stream, uint64_t *to)
{
    *to = 0;
    return DT_OK;
}

static dt_status sim_update(struct dt_kernels *k, struct dt_stream *stream, const struct dt_update *u)
{
    const struct dt_sim_device *described = dt_sim_device_of(k->device);
    bool first = !k->updated;
    if (!described || !described->costs)
        return DT_OK;
    k->updated |= !u->on_host;
    return described->update(described->costs, stream, k->dtype, u, first);
}

static dt_status sim_add(struct dt_kernels *k, struct dt_stream *stream, bool on_host, void *to, const void *from, size_t count)
{
    const struct dt_sim_device *described = dt_sim_device_of(k->device);
    return described && described->costs ? described->add(described->costs, stream, k->dtype, on_host, count) : DT_OK;
}

/* Before the first step. */
static dt_status sim_fill(struct dt_kernels *k, struct dt_stream *stream, void *to, size_t count, float value)
{
    return DT_OK;
}

static dt_status sim_normal(struct dt_kernels *k, struct dt_stream *stream, const struct dt_normal *normal)
{
    return DT_OK;
}

const struct dt_kernel_backend dt_kernels_sim = {.name = "sim",
                                                 .init = sim_init,
                                                 .begin_step = sim_begin_step,
                                                 .overflows = sim_overflows,
                                                 .update = sim_update,
                                                 .add = sim_add,
                                                 .fill = sim_fill,
                                                 .normal = sim_normal};
