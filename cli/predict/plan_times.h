/* `dtbench check --plan --times`: how long a pipeline's passes take with given times, whatever the model and the device. */
#ifndef CLI_PREDICT_PLAN_TIMES_H
#define CLI_PREDICT_PLAN_TIMES_H

#include "schedules/config/experiment_list.h"
#include "schedules/plan/play.h"

#include <stdio.h>

/* What the passes of a pipeline come to. */
struct timed_plan {
    char order[64];
    int stages, micro_batches;
    struct rank_time *ranks; /* [stages] */
    struct plan_kept *kept;  /* [stages] */
};

/* Errors: as plans_make (schedules/plan/plans.h); finish it also then. */
dt_status timed_plan_init(struct timed_plan *plan, const struct experiment *experiment, const struct plan_times *times);
void timed_plan_finish(struct timed_plan *plan);

/* "forward=MS,backward_input=MS,backward_weight=MS,send=MS": of a micro-batch through a whole rank, and of a message. Errors:
 * DT_ERR_INVALID, with what is wrong. */
dt_status plan_parse_times(const char *text, struct plan_times *out);

/* What the passes of a pipeline come to with these times, for each rank and for all; zb_auto is found for them. The model is not asked: an
 * experiment may have more stages than layers (passes_only). Errors: DT_ERR_HOST_MEMORY. */
dt_status plan_print_times(const struct experiment *experiment, const struct plan_times *times, FILE *to);

/* The same: an object with "plan" for one experiment, an array of them for several. */
dt_status plan_print_times_json(const struct experiment_list *experiments, const struct plan_times *times, FILE *to);

#endif
