/* The mode of an experiment's paradigm. */
#ifndef SCHEDULES_DATA_PARALLEL_MODES_H
#define SCHEDULES_DATA_PARALLEL_MODES_H

#include "schedules/data_parallel/mode.h"

const struct dp_mode *dp_mode_of(const struct experiment *experiment);

/* Modes after dtbench's own, from DP_COUNT on. Here there are none. The function is weak, as paradigm_more (schedules/config/paradigm.h). */
const struct dp_mode *dp_mode_more(int index);

#endif
