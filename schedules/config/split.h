/* Which layers the stages of a pipeline have. */
#pragma once

#include "schedules/config/experiment.h"

const char *split_rule_name(int rule); /* NULL past the last */

/* points [SPLIT_MOST_POINTS] gets the numbers of a pipeline.split such as "4-8": the first blocks
 * of all parts but the first. Returns how many; 0: the text names a rule. Only for
 * experiment_settle: others read the strategy. */
int split_points(const char *text, uint16_t *points);

/* first_layer [virtual_stages + 1] gets the first layer of each part of each stage, in the model's
 * order, and the end. The same on every rank and device. Errors: DT_ERR_INVALID, whose text begins
 * with the key that does not fit: more stages than the model has pieces, or points that are too
 * many or too few, not rising, or after the last block; DT_ERR_HOST_MEMORY. */
dt_status experiment_partition(const struct experiment *experiment, int virtual_stages, int *first_layer);
