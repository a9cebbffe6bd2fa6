/* Measured collectives and messages of a machine whose ranks share its processors. A cluster file
 * has them under collectives.measured instead of constants; `dtbench calibrate` writes them.
 *
 * Each entry has: the kind ("all_reduce", ..., "message"), the ranks of the communicator (of a
 * message: all ranks of the measured nodes), the nodes that it spans, the bytes as
 * lib/sim/program.h counts them, the seconds that it took without other work, and the part of these
 * nodes' processor time that it used (load). */
#pragma once

#include "lib/config/config.h"

enum { DT_SIM_MEASURED_MAX = 256, DT_SIM_MESSAGE = 5 }; /* DT_SIM_MESSAGE: the kind after those of enum dt_sim_collective */

struct dt_sim_measured {
    int kind, ranks;
    double bytes, seconds, load;
    int nodes;
};

struct dt_sim_measured_list {
    struct dt_sim_measured entries[DT_SIM_MEASURED_MAX];
    int count;
};

const char *dt_sim_measured_kind_name(int kind); /* NULL past the last */

/* The keys of an entry. */
const struct dt_list *dt_sim_measured_table(void);

/* array NULL: none. `where` begins every error text: the file and the list's path. Errors:
 * DT_ERR_INVALID, DT_ERR_HOST_MEMORY. */
dt_status dt_sim_measured_read(const struct cJSON *array, const char *where, struct dt_sim_measured_list *out);
/* Owner: the caller. Errors: DT_ERR_HOST_MEMORY. */
dt_status dt_sim_measured_write(const struct dt_sim_measured_list *list, struct cJSON **out);

/* Seconds and load of `bytes` among `ranks`. Between two measured sizes, seconds follow a power of
 * the bytes; below the smallest size they are constant, above the largest they grow in proportion
 * to the bytes. If the numbers of ranks and nodes were not measured, the nearest are used, but one
 * node never represents several, nor several one. False: the kind was not measured. */
bool dt_sim_measured_find(const struct dt_sim_measured_list *list, int kind, int ranks, int nodes, double bytes, double *out_seconds,
                          double *out_load);
