/* How much the losses of the same work may differ by rounding alone: what --verify and `dtbench compare` go by. */
#ifndef CLI_RECORDS_LOSS_TOLERANCE_H
#define CLI_RECORDS_LOSS_TOLERANCE_H

#include "schedules/config/experiment.h"

/* The largest relative difference that rounding may make between two divisions of the same work. */
double loss_tolerance(const struct experiment *experiment);

#endif
