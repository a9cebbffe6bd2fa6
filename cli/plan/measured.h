/* The first candidates of a plan that can be told apart, really run on this machine: which one wins, and how far off each prediction was. */
#ifndef CLI_PLAN_MEASURED_H
#define CLI_PLAN_MEASURED_H

#include "cli/plan/planner.h"
#include "lib/base/statistics.h"
#include "lib/record/record.h"

enum { MEASURED_MOST = 16, MEASURED_ROUNDS_MOST = 20 };

struct measured {
    const char *device; /* of the runs */
    int count;
    struct measured_run {
        dt_status status;
        char error[256];
        int place;                            /* in the plan, from 0 */
        int done;                             /* runs that count */
        double steps_s[MEASURED_ROUNDS_MOST]; /* [done] the median of each run's timed steps */
        double step_s, tokens_per_s;          /* of the median run; NAN where it failed */
        double error_of_step;                 /* predicted / measured - 1; NAN where it failed */
        struct dt_ratio of_fastest;           /* its throughput over the fastest one's */
        bool wins;                            /* it is the fastest, or cannot be told from it: the interval reaches 1, or there is none */
    } runs[MEASURED_MOST];
    int won; /* the fastest one's index in runs; -1: all failed */
};

/* Run the first `count` in processes of their own; fewer where there are fewer. Of candidates whose predictions differ by less than 2 % the
 * first is run, since a measurement of a few steps would not tell them apart; the others only where nothing else is left.
 *
 * The first one is run once for nothing. Then rounds follow in which each is run once, one round there and the next one back, so that a
 * machine that becomes slower favours none; after the third round only those that may still be the fastest, until one is told from all
 * others (lib/base/statistics.h, a run's median counting as a step) or `rounds` are over. Ctrl-C ends it: what was not run has the status
 * DT_ERR_INTERRUPTED. A run that fails is a result, and that candidate's last. records: NULL, or the file that gets a record of each run
 * that counts. Errors: DT_ERR_IO of the records, DT_ERR_HOST_MEMORY. */
dt_status measured_run(const struct planner *planner, const char *device, int count, int rounds, bool quiet, struct dt_record_file *records,
                       struct measured *out);

/* Errors: DT_ERR_HOST_MEMORY. */
dt_status measured_print(const struct planner *planner, const struct measured *measured, FILE *to);

#endif
