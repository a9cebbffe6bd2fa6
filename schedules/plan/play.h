/* Playing the plans of all ranks of a pipeline against each other: the proof that they run, and how long they take. */
#ifndef SCHEDULES_PLAN_PLAY_H
#define SCHEDULES_PLAN_PLAY_H

#include "schedules/plan/plan.h"

/* Play plans [stages], with messages. Messages of one kind (activations, or gradients) from one rank to another arrive in the sequence in
 * which they were sent; sending does not block, receiving does. Finds what cannot run:
 *   a deadlock               names the ranks that wait for each other, and for what each does
 *   messages that cross      the sequence in which they are received is not the one in which they were sent
 *   messages nobody receives
 * A pass takes its part of `times` (NULL: plan_unit_times), and a message is there `send` after the pass that made it (with uneven times: and after
 * the one before it in its channel); no rank is busy with it meanwhile. ends: NULL, or [stages] arrays of [count]: when each action ends, from the step's beginning.
 * Errors: DT_ERR_INVALID with that text, DT_ERR_HOST_MEMORY. */
dt_status plan_play(const struct plan *plans, int stages, const struct plan_times *times, double **ends);

/* A rank's time in a step. */
struct rank_time {
    double begin, end; /* of its first and its last pass, from the step's beginning */
    double busy;       /* of its passes */
};

/* The same, summed up: out [stages]. */
dt_status plan_time(const struct plan *plans, int stages, const struct plan_times *times, struct rank_time *out);

/* The longest of `ranks` [stages], each from its own first pass to its last: what a step takes where the next one begins on each rank as soon
 * as this one has ended there. Source: Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 5.3 ("cost"). */
double plan_makespan(const struct rank_time *ranks, int stages);

/* The part of the makespan in which a rank does nothing: 1 - busy / makespan, with the busiest rank's passes. */
double plan_bubble(const struct rank_time *ranks, int stages);

#endif
