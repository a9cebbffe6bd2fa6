/* How long an experiment will take, told from those that are done.
 *
 * Method  An experiment's time is what its steps take and what is left: starting and ending the ranks, filling memory, --verify. A step's
 *         time is proportional to the floating-point operations of one rank, at the rate that done experiments reached. The rate is that
 *         of the done experiments that are most alike: with the same hash; else of the same paradigm, ranks and type; else of the same
 *         ranks and type; else of any; none of them on another device. Expected is the median of what they say, high the most; of one
 *         paradigm, ranks and type the last 64 are asked. On sim the steps' times are the cluster's: a prediction takes as long as those
 *         that are alike took.
 * Limits  Communication, memory that is nearly full and small kernels all bend the proportion: between unlike experiments the forecast is
 *         an order of magnitude and no more. Experiments that failed tell nothing. */
#ifndef CLI_RECORDS_FORECAST_H
#define CLI_RECORDS_FORECAST_H

#include "schedules/config/experiment.h"

struct forecaster;

/* How alike the done experiments are that a forecast was made of. */
enum forecast_basis { FORECAST_SAME, FORECAST_ALIKE, FORECAST_SAME_RANKS, FORECAST_ANY, FORECAST_NONE };

struct forecast {
    double expected_s, high_s; /* wall time of the experiment, start-up included; NaN with FORECAST_NONE */
    int based_on;              /* done experiments */
    enum forecast_basis basis;
};

/* Owner of *out: the caller. Errors: DT_ERR_HOST_MEMORY. */
dt_status forecaster_create(struct forecaster **out);
void forecaster_destroy(struct forecaster *forecaster); /* takes NULL */

/* One that ended well: its median step, and its whole wall time. Where that is not known (NaN), start-up and steps are all of it. Numbers
 * that are not positive are left out. Errors: DT_ERR_HOST_MEMORY. */
dt_status forecaster_add(struct forecaster *forecaster, const struct experiment *done, double step_s, double startup_s, double wall_s);

/* How long the steps of a done experiment took, of its wall time: nothing where they are simulated. */
double forecast_steps_s(const struct experiment *done, double step_s);

struct forecast forecaster_predict(const struct forecaster *forecaster, const struct experiment *experiment);

#endif
