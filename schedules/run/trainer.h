/* Everything one rank needs to train an experiment: kernels, its stage, its data-parallel mode and the pipeline that runs them. */
#ifndef SCHEDULES_RUN_TRAINER_H
#define SCHEDULES_RUN_TRAINER_H

#include "lib/record/metrics.h"
#include "schedules/pipeline/pipeline.h"

struct trainer;

/* Build it for this rank of `world`, whose size is the experiment's. Collective. Parameters are initialised where they live; the work is
 * queued, trainer_synchronize waits for it. extra: what a prediction adds to the plan; NULL. The arguments outlive it.
 * Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY, DT_ERR_COMM, DT_ERR_UNAVAILABLE (no kernels for this device). */
dt_status trainer_create(const struct experiment *experiment, struct dt_device *device, struct dt_comm *world,
                         const struct pipeline_extra *extra, struct trainer **out);
void trainer_destroy(struct trainer *trainer); /* collective; takes NULL */

/* Queue step `step` (from 0 over warm-up and timed steps). Where the device has graphs, and unless the experiment says no, the third step is
 * captured and replayed from then on: a step is then one small kernel, the graph, and the copies of what the host wants to know. */
dt_status trainer_step(struct trainer *trainer, int step);
/* How steps are queued: "replayed" as a graph, "off" by the experiment's word, or else why not; "" where the device has no graphs. */
const char *trainer_graph(const struct trainer *trainer);
/* The same, piece by piece and traced: *out [*count] is what ran when, phases first; the caller's to free. Waits before and after.
 * Errors: as trainer_step and trainer_synchronize. */
dt_status trainer_traced_step(struct trainer *trainer, int step, struct dt_span **out, int *count);
/* Wait for all that is queued; the first failure wins. */
dt_status trainer_synchronize(struct trainer *trainer);

/* What each step does. Lives as long as the trainer. */
const struct plan *trainer_plan(const struct trainer *trainer);

/* After a step and trainer_synchronize: its loss, the mean over this replica's samples, on the pipeline's last stage (NaN elsewhere; 0 on
 * sim), the parameters that its updates have left out for a gradient that was not finite, each on one rank alone, and where the compute
 * stream's time went: *out's members that are times. */
bool trainer_has_loss(const struct trainer *trainer); /* it is of the last stage */
double trainer_loss(const struct trainer *trainer);
uint64_t trainer_overflows(const struct trainer *trainer);
dt_status trainer_phases(const struct trainer *trainer, struct dt_step_metrics *out);

#endif
