#include "lib/model/probe.h"

#include "lib/model/stage.h"

#include <stdlib.h>

dt_status dt_probe_create(const struct dt_model_family *family, struct dt_device *device, size_t region_bytes, struct dt_probe **out)
{
    DT_DESTROYED(dt_probe_destroy) struct dt_probe *p = calloc(1, sizeof *p);
    *out = NULL;
    DT_TRY(dt_allocated(p, "no host memory for a probe"));
    p->family = family;
    p->device = device;
    DT_TRY(dt_stream_create(device, "compute", &p->stream));
    for (int i = 0; i < DT_PROBE_REGIONS; i++)
        DT_TRY(dt_alloc(p->stream, DT_WORKSPACE, region_bytes, &p->regions[i]));
    *out = DT_PASSED_ON(p);
    return DT_OK;
}

void dt_probe_destroy(struct dt_probe *p)
{
    if (!p)
        return;
    dt_kernels_destroy(p->kernels);
    for (int i = 0; i < DT_PROBE_REGIONS && p->stream; i++)
        dt_free(p->stream, &p->regions[i]);
    dt_stream_destroy(p->stream);
    free(p);
}

/* Fill all memory with small numbers of both signs. */
static dt_status fill(struct dt_probe *p)
{
    struct dt_initial a = {.seed = 1, .tensor_id = 1, .scale = 0.5f};
    for (int i = 0; i < DT_PROBE_REGIONS; i++) {
        a.to = p->regions[i].data;
        a.count = p->regions[i].bytes / dt_dtype_bytes(p->model.dtype);
        DT_TRY(dt_kernels_initialise(p->kernels, p->stream, &a));
    }
    return DT_OK;
}

dt_status dt_probe_set(struct dt_probe *p, const struct dt_measured *what)
{
    const struct dt_prober *prober = p->family->prober;
    bool shared = what->kernel < DT_PRICED_SHARED, refill = !p->kernels || p->model.dtype != what->dtype;
    const struct dt_priced *priced =
        shared ? &dt_shared_pricing.kernels[what->kernel] : &p->family->pricing->kernels[what->kernel - DT_PRICED_SHARED];
    if (prober->most_bytes(what) > (double)p->regions[0].bytes || !(dt_measured_work(priced->shape, what->shape) >= 1))
        return dt_fail(DT_ERR_INVALID, "probe: a kernel on %g x %g x %g does not fit", what->shape[0], what->shape[1], what->shape[2]);
    p->what = *what;
    dt_kernels_destroy(p->kernels);
    p->kernels = NULL;
    p->model = prober->model_for(what);
    DT_TRY(dt_kernels_create(p->family->kernels, &p->model, p->device, &p->kernels));
    if (refill)
        DT_TRY(fill(p));
    if (prober->prepare)
        DT_TRY(prober->prepare(p));
    return dt_stream_synchronize(p->stream);
}

dt_status dt_probe_run(struct dt_probe *p, int times)
{
    for (int i = 0; i < times; i++)
        DT_TRY(p->family->prober->queue(p));
    return dt_stream_synchronize(p->stream);
}
