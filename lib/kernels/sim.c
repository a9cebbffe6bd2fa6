/* The sim device: nothing is computed. Callers allocate the same memory as on other devices; the
 * device's description gives the kernels' costs (lib/cost). */
#include "lib/device/sim.h"
#include "lib/cost/cost.h"
#include "lib/kernels/backend.h"

#include <math.h>

static dt_status sim_begin_step(struct dt_kernels *k, struct dt_stream *stream, int step)
{
    k->updated = false;
    return DT_OK;
}

/* Bytes of optimizer state for one parameter. */
static size_t state_bytes(const struct dt_update *u)
{
    return sizeof(float) * (size_t)((u->first_moment != NULL) + (u->second_moment != NULL) + (u->master != NULL));
}

static double gradient_bytes(const struct dt_kernels *k, const struct dt_update *u)
{
    return (double)(u->wide_grads ? sizeof(float) : dt_dtype_bytes(k->dtype));
}

/* The memory traffic of an update on the host's processor: gradients are read; parameters are
 * written, and read if there is no master copy; optimizer state is read and written. */
static dt_status update_on_host(const struct dt_kernels *k, struct dt_stream *stream, const struct dt_update *u)
{
    double bytes = (u->master ? 1 : 2) * (double)dt_dtype_bytes(k->dtype) + gradient_bytes(k, u) + 2 * (double)state_bytes(u);
    return dt_sim_host_memory(stream, bytes * (double)u->count, u->adam ? "adam on the host" : "sgd on the host");
}

static dt_status sim_update(struct dt_kernels *k, struct dt_stream *stream, const struct dt_update *u)
{
    const struct dt_costs *costs = dt_sim_costs_of(k->device);
    const struct dt_cost_call c = {u->adam ? DT_PRICED_ADAM : DT_PRICED_SGD, DT_VARIANT_PLAIN, k->dtype, {(double)u->count, 1, 1}};
    bool measured;
    if (!costs)
        return DT_OK;
    if (u->on_host)
        return update_on_host(k, stream, u);
    DT_TRY(dt_cost_measured(costs, stream, &c, &measured));
    if (measured)
        return DT_OK; /* measured were sgd without momentum, and adam with a master copy */
    double launches = costs->profile.kernels[c.kernel].launches;
    double wider = gradient_bytes(k, u) - (double)dt_dtype_bytes(k->dtype);
    double bytes = (wider + dt_cost_update_bytes(&costs->profile, dt_dtype_bytes(k->dtype), u->adam, state_bytes(u))) * (double)u->count;
    switch ((enum dt_update_launches)costs->profile.optimizer_fused) {
    case DT_LAUNCHES_PER_TENSOR: launches *= u->tensors; break;
    case DT_LAUNCHES_PER_CALL: break;
    case DT_LAUNCHES_PER_STEP: launches = k->updated ? 0 : launches; break;
    }
    k->updated = true;
    return dt_cost_work(costs, stream, c.kernel, launches, dt_cost_memory_s(costs, launches, bytes));
}

/* One pass over x, on the device and on the host. */
static dt_status sim_add_squares(struct dt_kernels *k, struct dt_stream *stream, bool on_host, enum dt_dtype dtype, const void *x,
                                 size_t count)
{
    const struct dt_costs *costs = dt_sim_costs_of(k->device);
    const struct dt_cost_call c = {DT_PRICED_SQUARES, DT_VARIANT_PLAIN, dtype, {(double)count, 1, 1}};
    if (costs && on_host)
        return dt_sim_host_memory(stream, (double)dt_dtype_bytes(dtype) * (double)count, "squares on the host");
    return dt_cost_memory_bound(costs, stream, &c, (double)count, 0);
}

/* A kernel on a single number: a launch on the device, and nothing on the host. */
static dt_status of_one_number(struct dt_kernels *k, struct dt_stream *stream, bool on_host)
{
    const struct dt_costs *costs = dt_sim_costs_of(k->device);
    if (!costs || on_host)
        return DT_OK;
    return dt_cost_work(costs, stream, DT_PRICED_SQUARES, 1, dt_cost_memory_s(costs, 1, sizeof(float)));
}

static dt_status sim_sum_squares(struct dt_kernels *k, struct dt_stream *stream, bool on_host, float *to)
{
    return of_one_number(k, stream, on_host);
}

static dt_status sim_settle_norm(struct dt_kernels *k, struct dt_stream *stream, bool on_host, const struct dt_norm_rule *rule,
                                 const float *squares)
{
    return of_one_number(k, stream, on_host);
}

static dt_status sim_norm(struct dt_kernels *k, struct dt_stream *stream, struct dt_norm_state *to)
{
    *to = (struct dt_norm_state){.norm = NAN, .factor = 1, .loss_scale = 1, .used_scale = 1};
    return DT_OK;
}

/* One array is read and the other written. */
static dt_status sim_convert(struct dt_kernels *k, struct dt_stream *stream, void *to, enum dt_dtype to_dtype, const void *from,
                             enum dt_dtype from_dtype, size_t count)
{
    const struct dt_costs *costs = dt_sim_costs_of(k->device);
    double bytes = (double)(dt_dtype_bytes(to_dtype) + dt_dtype_bytes(from_dtype)) * (double)count;
    return costs ? dt_cost_work(costs, stream, DT_PRICED_ADD, 1, dt_cost_memory_s(costs, 1, bytes)) : DT_OK;
}

static dt_status sim_add(struct dt_kernels *k, struct dt_stream *stream, bool on_host, void *to, const void *from, size_t count)
{
    const struct dt_costs *costs = dt_sim_costs_of(k->device);
    const struct dt_cost_call c = {DT_PRICED_ADD, DT_VARIANT_PLAIN, k->dtype, {(double)count, 1, 1}};
    if (costs && on_host)
        return dt_sim_host_memory(stream, 3 * (double)dt_dtype_bytes(k->dtype) * (double)count, "add on the host");
    return dt_cost_memory_bound(costs, stream, &c, (double)count, 0);
}

/* The sum is read and written, the summand read. */
static dt_status sim_add_wide(struct dt_kernels *k, struct dt_stream *stream, bool on_host, float *to, enum dt_dtype dtype,
                              const void *from, size_t count)
{
    const struct dt_costs *costs = dt_sim_costs_of(k->device);
    double bytes = (double)(dt_dtype_bytes(dtype) + 2 * sizeof(float)) * (double)count;
    if (!costs)
        return DT_OK;
    if (on_host)
        return dt_sim_host_memory(stream, bytes, "add on the host");
    return dt_cost_work(costs, stream, DT_PRICED_ADD, 1, dt_cost_memory_s(costs, 1, bytes));
}

/* Copies to and from the host, and what only runs before the first step, have no cost. */
#define FREE(entry, ...)                                                                                                                   \
    static DT_KERNEL_CALL(sim_##entry, __VA_ARGS__)                                                                                        \
    {                                                                                                                                      \
        return DT_OK;                                                                                                                      \
    }
FREE(overflows, uint64_t *to)
FREE(set_norm, const struct dt_norm_state *from)
FREE(fill, void *to, size_t count, float value)
FREE(draw, const struct dt_initial *initial)

#define ROW(entry, ...) .entry = sim_##entry,
static const struct dt_kernel_calls sim_calls = {DT_KERNEL_CALLS(ROW)};

const struct dt_kernel_backend dt_kernels_sim = {.calls = &sim_calls, .host = &sim_calls};
