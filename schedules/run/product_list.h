/* The matrix products of an experiment's steps, for a tuning. */
#ifndef SCHEDULES_RUN_PRODUCT_LIST_H
#define SCHEDULES_RUN_PRODUCT_LIST_H

#include "schedules/config/experiment.h"

/* Add to the family's tuning what a step asks for, on every rank that has products of its own: one for each place in the pipeline and in
 * the tensor group. Needs no device. Errors: as dry_rank_init and trainer_step. */
dt_status product_list_add(struct dt_tuning *tuning, const struct experiment *experiment);

#endif
