/* What an experiment keeps of a micro-batch for its backward: one policy, or one for each part of a rank
 * (schedules/pipeline/activation.h says what they do). */
#ifndef SCHEDULES_CONFIG_ACTIVATION_H
#define SCHEDULES_CONFIG_ACTIVATION_H

#include "schedules/config/experiment.h"

const char *activation_name(enum activation_kind kind); /* NULL past the last */

/* The policy of part `part` of every rank: pipeline.activation's, where the experiment has a pipeline and the key is given; else
 * `activation`. */
enum activation_kind experiment_activation(const struct experiment *experiment, int part);

/* Whether pipeline.activation has a policy for each of a rank's `parts`. `where` begins the text. Errors: DT_ERR_INVALID. */
dt_status experiment_check_activation(const struct experiment *experiment, int parts, const char *where);

#endif
