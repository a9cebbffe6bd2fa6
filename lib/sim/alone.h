/* Times one collective of all ranks of a placement, without other work: what benchmarks of
 * collectives measure. */
#pragma once

#include "lib/sim/cluster.h"
#include "lib/sim/program.h"

/* bytes: as lib/sim/program.h counts them. Errors: DT_ERR_INVALID if the cluster is too small
 * (`where` is its file), DT_ERR_HOST_MEMORY. */
dt_status dt_sim_time_alone(const struct dt_sim_cluster *cluster, const char *where, const struct dt_sim_placement *placement,
                            enum dt_sim_collective kind, double bytes, double *out_s);
