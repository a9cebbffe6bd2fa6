/* `dtbench validate` on a table of collectives that were timed alone, as nccl-tests and its like give them: columns collective, size, gpus,
 * busbw_GB_s (or busbw_GB_s_mean), and nodes or gpus_per_node. Needs a cluster only. */
#ifndef CLI_PREDICT_VALIDATE_COLLECTIVES_H
#define CLI_PREDICT_VALIDATE_COLLECTIVES_H

#include "lib/sim/program.h"

#include <stdbool.h>
#include <stdio.h>

struct validate_collective {
    int line; /* of the file */
    enum dt_sim_collective kind;
    int gpus, nodes;
    double bytes;               /* of a rank's whole buffer, as nccl-tests counts them */
    double measured, predicted; /* GB/s of the bus: bytes over time, times 2 (n - 1) / n of an all-reduce, (n - 1) / n of an all_gather or
                                         reduce_scatter, 1 of the others. Source  NVIDIA/nccl-tests, doc/PERFORMANCE.md */
    bool skipped;
    char reason[256];
};

struct validate_collectives {
    struct validate_collective *rows; /* [count] */
    int count;
};

/* Is the file such a table? Never of standard input ("-"), which could not be read again. Errors: DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status validate_is_collectives(const char *path, bool *out);

/* Read and predict the rows that meet all conditions where [where_count] (validate_where.h). Rows that the cluster is too small for are skipped. Owner: the caller, validate_collectives_finish, also after a failure.
 * Errors, "FILE:LINE: COLUMN: ...": DT_ERR_INVALID; DT_ERR_IO, DT_ERR_HOST_MEMORY; DT_ERR_INVALID where nothing was predicted. */
dt_status validate_collectives_predict(const char *path, const char *cluster, const char *const *where, int where_count,
                                       struct validate_collectives *out);
void validate_collectives_finish(struct validate_collectives *collectives); /* takes a zeroed one */

/* Errors of rows of a kind, or of all (kind DT_SIM_COLLECTIVES), as validate.h has them; nothing but 0 rows where there are none. */
enum { VALIDATE_COLLECTIVES_SUMMARIES = DT_SIM_COLLECTIVES + 1 };
struct validate_collectives_summary {
    int rows;
    double median, p90, bias;
};
dt_status validate_collectives_summarize(const struct validate_collectives *collectives, int kind,
                                         struct validate_collectives_summary *out);
const char *validate_collectives_summary_name(int kind); /* "all_reduce", ..., "all" */

/* Errors: DT_ERR_HOST_MEMORY. */
dt_status validate_collectives_print(const struct validate_collectives *collectives, FILE *to);
dt_status validate_collectives_print_json(const struct validate_collectives *collectives, FILE *to);

#endif
