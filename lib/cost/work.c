#include "lib/cost/work.h"

#include "lib/device/sim.h"

dt_status dt_cost_work(const struct dt_costs *costs, struct dt_stream *stream, int kernel, double launches, double seconds)
{
    const struct dt_profile *p = &costs->profile;
    const struct dt_priced *info = p->priced->kernels[kernel];
    bool compiled = info->phase == DT_PHASE_BACKWARD;
    double launch_s = compiled ? p->host.launch_s : p->host.interpreter_launch_s * costs->interpreter_sharers;
    return dt_sim_work(stream, launches, launches * launch_s, seconds, info->name);
}

dt_status dt_cost_measured(const struct dt_costs *costs, struct dt_stream *stream, const struct dt_cost_call *c, bool *out_found)
{
    const struct dt_priced *kernel = costs->profile.priced->kernels[c->kernel];
    const struct dt_measured what = {.kernel = c->kernel,
                                     .variant = c->variant,
                                     .dtype = c->dtype,
                                     .ranks = costs->measured_ranks,
                                     .threads = costs->measured_threads,
                                     .shape = {c->shape[0], c->shape[1], c->shape[2]}};
    double seconds, load;
    *out_found = costs->profile.measured.count > 0 && dt_measured_find(&costs->profile.measured, kernel->shape, &what, &seconds, &load);
    return *out_found ? dt_sim_shared_work(stream, seconds, load, kernel->name) : DT_OK;
}

dt_status dt_cost_memory_bound(const struct dt_costs *costs, struct dt_stream *stream, const struct dt_cost_call *c, double elems,
                               double other_elems)
{
    bool measured;
    if (!costs)
        return DT_OK;
    DT_TRY(dt_cost_measured(costs, stream, c, &measured));
    if (measured)
        return DT_OK;
    const struct dt_kernel_cost *cost = &costs->profile.kernels[c->kernel];
    double bytes = (cost->passes * elems + cost->other_passes * other_elems) * (double)dt_dtype_bytes(c->dtype);
    return dt_cost_work(costs, stream, c->kernel, cost->launches, dt_cost_memory_s(costs, cost->launches, bytes));
}
