#include "lib/cost/cost.h"

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
