/* What a kernel adds to the program of a simulated device (lib/device/sim.h). `costs` NULL: nothing. */
#ifndef GPT_COST_WORK_H
#define GPT_COST_WORK_H

#include "gpt/cost/cost.h"
#include "lib/kernels/kernels.h"

/* One call: a kernel, its variant, and its shape as enum gpt_kernel_shape says. */
struct gpt_cost_call {
    enum gpt_kernel_kind kind;
    enum gpt_kernel_variant variant;
    enum dt_dtype dtype;
    double shape[3];
};

/* `launches` kernels that take `seconds` together. Forward and the optimizer are issued by the framework's interpreter, operation for
 * operation; backward by its compiled engine. */
dt_status gpt_cost_work(const struct gpt_costs *costs, struct dt_stream *stream, enum gpt_kernel_kind kind, double launches,
                        double seconds);
/* Queue a call whose time follows from the profile's measurements. *out_found: there are some of this kernel; otherwise nothing is queued. */
dt_status gpt_cost_measured(const struct gpt_costs *costs, struct dt_stream *stream, const struct gpt_cost_call *c, bool *out_found);
/* A kernel that only moves memory: its passes over elems, and its other passes over other_elems. */
dt_status gpt_cost_memory_bound(const struct gpt_costs *costs, struct dt_stream *stream, const struct gpt_cost_call *c, double elems,
                                double other_elems);

/* Entries of struct dt_sim_device. */
dt_status gpt_cost_update(const void *costs, struct dt_stream *stream, enum dt_dtype dtype, const struct dt_update *update, bool first);
dt_status gpt_cost_add(const void *costs, struct dt_stream *stream, enum dt_dtype dtype, bool on_host, size_t count);

#endif
