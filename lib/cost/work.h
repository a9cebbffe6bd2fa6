/* Add a kernel's work to the program of a simulated device (lib/device/sim.h). `costs` NULL:
 * nothing is added. */
#ifndef LIB_COST_WORK_H
#define LIB_COST_WORK_H

#include "lib/cost/cost.h"
#include "lib/device/device.h"

/* One call: a kernel by its number, its variant, and its shape (enum dt_shape). */
struct dt_cost_call {
    int kernel;
    enum dt_variant variant;
    enum dt_dtype dtype;
    double shape[3];
};

/* `launches` kernels that take `seconds` together. The framework's interpreter issues each
 * operation of forward and of the optimizer; its compiled engine issues backward. */
dt_status dt_cost_work(const struct dt_costs *costs, struct dt_stream *stream, int kernel, double launches, double seconds);
/* Queue a call with the time from the profile's measurements. *out_found: this kernel was measured;
 * otherwise nothing is queued. */
dt_status dt_cost_measured(const struct dt_costs *costs, struct dt_stream *stream, const struct dt_cost_call *c, bool *out_found);
/* Queue a kernel that is limited by memory: its passes over elems, and its other passes over
 * other_elems. */
dt_status dt_cost_memory_bound(const struct dt_costs *costs, struct dt_stream *stream, const struct dt_cost_call *c, double elems,
                               double other_elems);

#endif
