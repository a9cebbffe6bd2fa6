/* `dtbench check --plan`: what every rank does in a step. */
#ifndef CLI_PREDICT_PLAN_H
#define CLI_PREDICT_PLAN_H

#include "schedules/config/experiment_list.h"

#include <stdio.h>

/* One line of letters for each rank of a pipeline, time to the right; the same ranks of other pipelines do the same. With one stage a column
 * is an action; with several it is the time of a forward pass, so that the bubble shows. Lines are at most `width` columns long; a note says
 * what was cut. Errors: DT_ERR_HOST_MEMORY, DT_ERR_INVALID where the order does not fit. */
dt_status plan_print(const struct experiment *experiment, int width, FILE *to);

/* All actions of the experiments' plans, an array with an object for each experiment. Errors: as plan_print. */
dt_status plan_print_json(const struct experiment_list *experiments, FILE *to);

#endif
