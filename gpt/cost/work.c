#include "gpt/cost/work.h"

#include "lib/device/sim.h"

dt_status gpt_cost_work(const struct gpt_costs *costs, struct dt_stream *stream, enum gpt_kernel_kind kind, double launches, double seconds)
{
    const struct gpt_cost_profile *p = &costs->profile;
    const struct gpt_kernel_info *info = gpt_kernel_info(kind);
    bool compiled = info->phase == GPT_PHASE_BACKWARD;
    double launch_s = compiled ? p->host.launch_s : p->host.interpreter_launch_s * costs->interpreter_sharers;
    return dt_sim_work(stream, launches, launches * launch_s, seconds, info->name);
}

dt_status gpt_cost_measured(const struct gpt_costs *costs, struct dt_stream *stream, const struct gpt_cost_call *c, bool *out_found)
{
    const struct gpt_measured what = {.kernel = c->kind,
                                      .variant = c->variant,
                                      .dtype = c->dtype,
                                      .ranks = costs->measured_ranks,
                                      .threads = costs->measured_threads,
                                      .shape = {c->shape[0], c->shape[1], c->shape[2]}};
    double seconds, load;
    *out_found = costs->profile.measured.count > 0 && gpt_measured_find(&costs->profile.measured, &what, &seconds, &load);
    return *out_found ? dt_sim_shared_work(stream, seconds, load, gpt_kernel_info(c->kind)->name) : DT_OK;
}

dt_status gpt_cost_memory_bound(const struct gpt_costs *costs, struct dt_stream *stream, const struct gpt_cost_call *c, double elems,
                                double other_elems)
{
    bool measured;
    if (!costs)
        return DT_OK;
    DT_TRY(gpt_cost_measured(costs, stream, c, &measured));
    if (measured)
        return DT_OK;
    const struct gpt_kernel_cost *cost = &costs->profile.kernels[c->kind];
    double bytes = (cost->passes * elems + cost->other_passes * other_elems) * (double)dt_dtype_bytes(c->dtype);
    return gpt_cost_work(costs, stream, c->kind, cost->launches, gpt_cost_memory_s(costs, cost->launches, bytes));
}

/* Of SGD with momentum, read and written. */
static double moment_bytes(const struct dt_update *u)
{
    return !u->adam && u->first_moment ? 2 * sizeof(float) : 0;
}

/* What the host's processor moves of its memory: parameters and gradients are read, and what changes is written; Adam's moments and master
 * twice. */
static dt_status update_on_host(struct dt_stream *stream, enum dt_dtype dtype, const struct dt_update *u)
{
    double element = (double)dt_dtype_bytes(dtype), bytes = u->adam ? 2 * element + 3 * 2 * sizeof(float) : 3 * element + moment_bytes(u);
    return dt_sim_host_memory(stream, bytes * (double)u->count, u->adam ? "adam on the host" : "sgd on the host");
}

dt_status gpt_cost_update(const void *of, struct dt_stream *stream, enum dt_dtype dtype, const struct dt_update *u, bool first)
{
    const struct gpt_costs *costs = of;
    enum gpt_kernel_kind kind = u->adam ? GPT_KERNEL_ADAM : GPT_KERNEL_SGD;
    bool measured;
    if (u->on_host)
        return update_on_host(stream, dtype, u);
    DT_TRY(gpt_cost_measured(costs, stream, &(struct gpt_cost_call){kind, GPT_VARIANT_PLAIN, dtype, {(double)u->count, 1, 1}}, &measured));
    if (measured)
        return DT_OK; /* sgd's kernel was measured without momentum */
    double launches = costs->profile.kernels[kind].launches;
    double bytes = (gpt_cost_update_bytes(&costs->profile, dt_dtype_bytes(dtype), u->adam) + moment_bytes(u)) * (double)u->count;
    switch (costs->profile.optimizer_fused) {
    case 0: launches *= u->tensors; break;
    case 1: break;
    default: launches = first ? launches : 0; break;
    }
    return gpt_cost_work(costs, stream, kind, launches, gpt_cost_memory_s(costs, launches, bytes));
}

dt_status gpt_cost_add(const void *costs, struct dt_stream *stream, enum dt_dtype dtype, bool on_host, size_t count)
{
    if (on_host)
        return dt_sim_host_memory(stream, 3 * (double)dt_dtype_bytes(dtype) * (double)count, "add on the host");
    const struct gpt_cost_call c = {GPT_KERNEL_ADD, GPT_VARIANT_PLAIN, dtype, {(double)count, 1, 1}};
    return gpt_cost_memory_bound(costs, stream, &c, (double)count, 0);
}
