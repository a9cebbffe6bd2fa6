/* Everything one rank needs to train an experiment: kernels, its stage, its data-parallel mode and the pipeline that runs them. */
#ifndef SCHEDULES_RUN_RANK_SETUP_H
#define SCHEDULES_RUN_RANK_SETUP_H

#include "schedules/pipeline/pipeline.h"

/* Where a rank stands: ranks of one pipeline are neighbours in the world, replicas follow each other. */
struct training_place {
    int stages, stage; /* stages is 1 unless the paradigm has a pipeline */
    int replicas, replica;
};

struct training_place training_place_of(const struct experiment *experiment, int rank);

/* One rank of each kind that needs its own look at memory, by index, -1 past the last: the stages of a pipeline, the parameter servers.
 * What is left out is like one of these or needs less. */
int training_kind_of_rank(const struct experiment *experiment, int index);

struct training;

/* Build it for this rank of `world`, whose size is the experiment's. Collective. Parameters are initialised where they live; the work is
 * queued, training_synchronize waits for it. The arguments outlive it.
 * Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY, DT_ERR_COMM, DT_ERR_UNAVAILABLE (no kernels for this device). */
dt_status training_create(const struct experiment *experiment, struct dt_device *device, struct dt_comm *world, struct training **out);
void training_destroy(struct training *training); /* collective; takes NULL */

/* Queue step `step` (from 0 over warm-up and timed steps). Where the device has graphs, and unless the experiment says no, the third step is
 * captured and replayed from then on: a step is then one small kernel, the graph, and the copies of what the host wants to know. */
dt_status training_step(struct training *training, int step);
/* How steps are queued: "replayed" as a graph, "off" by the experiment's word, or else why not; "" where the device has no graphs. */
const char *training_graph(const struct training *training);
/* The same, piece by piece and traced: *out [*count] is what ran when, phases first; the caller's to free. Waits before and after.
 * Errors: as training_step and training_synchronize. */
dt_status training_traced_step(struct training *training, int step, struct dt_span **out, int *count);
/* Wait for all that is queued; the first failure wins. */
dt_status training_synchronize(struct training *training);

/* After a step and training_synchronize: its loss, the mean over this replica's samples, on the pipeline's last stage (NaN elsewhere; 0 on
 * sim), the parameters that its updates have left out for a gradient that was not finite, each on one rank alone, and the compute stream's
 * time by phase. */
double training_loss(const struct training *training);
uint64_t training_overflows(const struct training *training);
dt_status training_phases(const struct training *training, int64_t phase_ns[TIMELINE_PHASES]);

#endif
