#include "lib/cost/cost.h"

#include "lib/cost/priced.h"
#include "lib/device/sim.h"

#include <math.h>

double dt_cost_memory_s(const struct dt_costs *c, double launches, double bytes)
{
    double moved_s = bytes / (c->hardware.memory_bytes_per_s * c->profile.bandwidth_fraction);
    return fmax(moved_s, launches * c->profile.kernel_s);
}

double dt_cost_update_bytes(const struct dt_profile *p, size_t element_bytes, bool adam, size_t state_bytes)
{
    double passes = p->kernels[adam ? DT_PRICED_ADAM : DT_PRICED_SGD].passes;
    return passes * (double)element_bytes + 2 * (double)state_bytes;
}

/* ---- work of simulated devices ---- */

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

/* ---- the shared kernels, and the copy within the device ---- */

static const struct dt_priced kernels[DT_PRICED_SHARED] = {
    [DT_PRICED_SGD] = {"sgd", DT_PHASE_UPDATE, DT_SHAPE_FLAT},   [DT_PRICED_ADAM] = {"adam", DT_PHASE_UPDATE, DT_SHAPE_FLAT},
    [DT_PRICED_ADD] = {"add", DT_PHASE_UPDATE, DT_SHAPE_FLAT},   [DT_PRICED_SQUARES] = {"squares", DT_PHASE_UPDATE, DT_SHAPE_FLAT},
    [DT_PRICED_COPY] = {"copy", DT_PHASE_UPDATE, DT_SHAPE_FLAT},
};

/* A copy has no constants: the memory's bandwidth is known. dt_cost_update_bytes() counts the
 * traffic of Adam's fp32 state. */
static const struct dt_field keys[] = {DT_PRICED_KEYS(sgd, DT_PRICED_SGD, "the parameters", NULL) DT_PRICED_KEYS(
    adam, DT_PRICED_ADAM, "the parameters", NULL) DT_PRICED_KEYS(add, DT_PRICED_ADD, "the elements", NULL)
                                           DT_PRICED_KEYS(squares, DT_PRICED_SQUARES, "the gradients, if their norm is computed", "1")};

const struct dt_pricing dt_shared_pricing = {
    .kernels = kernels, .count = DT_PRICED_SHARED, .keys = keys, .key_count = sizeof keys / sizeof *keys};
