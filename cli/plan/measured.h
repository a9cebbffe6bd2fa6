/* The first candidates of a plan that can be told apart, really run on this machine: which one wins, and how far off each prediction was. */
#ifndef CLI_PLAN_MEASURED_H
#define CLI_PLAN_MEASURED_H

#include "cli/plan/planner.h"
#include "lib/record/record.h"

enum { MEASURED_MOST = 16 };

struct measured {
    const char *device; /* of the runs */
    int count;
    struct measured_run {
        dt_status status;
        char error[256];
        double step_s, tokens_per_s; /* median of the timed steps, the mean of two runs; NAN where it failed */
        double error_of_step;        /* predicted / measured - 1; NAN where it failed */
        double spread;               /* by which the two runs differ, of their mean; NAN where there is one */
        int place;                   /* in the plan, from 0 */
    } runs[MEASURED_MOST];
    int won; /* the fastest one's index in runs; -1: all failed */
};

/* Run the first `count` in processes of their own: the first one once for nothing, then all there and back, so that each has two runs at the
 * same mean time; fewer where there are fewer. Of candidates whose predictions differ by less than 2 % the first is run, since a measurement
 * of a few steps would not tell them apart; the others only where nothing else is left. Ctrl-C ends it: what was not run has the status DT_ERR_INTERRUPTED. A run that fails is a
 * result. records: NULL, or the file that gets a record of each run that counts. Errors: DT_ERR_IO of the
 * records, DT_ERR_HOST_MEMORY. */
dt_status measured_run(const struct planner *planner, const char *device, int count, bool quiet, struct dt_record_file *records,
                       struct measured *out);

/* Errors: DT_ERR_HOST_MEMORY. */
dt_status measured_print(const struct planner *planner, const struct measured *measured, FILE *to);

#endif
