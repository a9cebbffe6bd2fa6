/* What a kernel adds to the program of a simulated device (lib/device/sim.h). `costs` NULL: nothing. */
#ifndef LIB_COST_WORK_H
#define LIB_COST_WORK_H

#include "lib/cost/cost.h"
#include "lib/device/device.h"

/* One call: a kernel by its number, its variant, and its shape as enum dt_shape says. */
struct dt_cost_call {
    int kernel;
    enum dt_variant variant;
    enum dt_dtype dtype;
    double shape[3];
};

/* `launches` kernels that take `seconds` together. Forward and the optimizer are issued by the framework's interpreter, operation for
 * operation; backward by its compiled engine. */
dt_status dt_cost_work(const struct dt_costs *costs, struct dt_stream *stream, int kernel, double launches, double seconds);
/* Queue a call whose time follows from the profile's measurements. *out_found: there are some of this kernel; otherwise nothing is queued. */
dt_status dt_cost_measured(const struct dt_costs *costs, struct dt_stream *stream, const struct dt_cost_call *c, bool *out_found);
/* A kernel that only moves memory: its passes over elems, and its other passes over other_elems. */
dt_status dt_cost_memory_bound(const struct dt_costs *costs, struct dt_stream *stream, const struct dt_cost_call *c, double elems,
                               double other_elems);

#endif
