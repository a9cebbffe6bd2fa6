/* Which layers the stages of a pipeline have. */
#ifndef SCHEDULES_CONFIG_SPLIT_H
#define SCHEDULES_CONFIG_SPLIT_H

#include "schedules/config/experiment.h"

enum { SPLIT_MOST_POINTS = 255 };

const char *split_rule_name(int rule); /* NULL past the last */

/* How many first blocks of stages pipeline.split lists, as "4-8"; 0: it names a rule. For experiment_settle: others read the strategy. */
int experiment_split_points(const struct experiment *experiment);

/* first_layer [virtual_stages + 1] gets the layer with which each part of each stage begins, in the model's sequence, and the end. The same
 * on every rank and device. Errors: DT_ERR_INVALID, whose text begins with the key that does not fit: more stages than the model has
 * pieces, or points whose number is wrong, that do not rise, or are after the last block; DT_ERR_HOST_MEMORY. */
dt_status experiment_partition(const struct experiment *experiment, int virtual_stages, int *first_layer);

#endif
