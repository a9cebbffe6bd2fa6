/* The one executor: runs a step of this rank's stage, whatever the paradigm.
 *
 * An order says which forward or backward comes next, a data-parallel mode keeps parameters and gradients where they must be, an
 * activation policy decides what forward leaves for backward, and neighbouring stages exchange activations and their gradients. One stage
 * and one micro-batch is plain training; gradient accumulation runs the order several times in a step.
 *
 * Every pair of neighbours has two communicators of its own, one for each direction, and each end drives its part on a stream of its own:
 * a message never queues behind another neighbour's. */
#ifndef SCHEDULES_PIPELINE_PIPELINE_H
#define SCHEDULES_PIPELINE_PIPELINE_H

#include "schedules/data_parallel/mode.h"
#include "schedules/mesh/mesh.h"
#include "schedules/pipeline/activation.h"
#include "schedules/pipeline/order.h"

struct pipeline_setup {
    const struct experiment *experiment;
    struct dt_stage *stage;
    struct data_parallel *dp;
    struct dt_device *device;
    struct dt_stream *compute;
    struct timeline *timeline;
    const struct mesh *mesh; /* this rank's stage, and its neighbours */
    int stage_index, stages;
    size_t replica_samples; /* of one step: divided into rounds * chunks, the first ones a sample larger where it does not come out even */
    int rounds;             /* how often in a step the order runs, one after the other: gradient accumulation */
    int chunks;             /* micro-batches of the order */
    bool reduce_each_round; /* gradients are reduced after every round, not only after the last */
    const char *order;
};

struct pipeline;

/* Collective over the mesh's world. The parts of setup outlive the pipeline. Errors: DT_ERR_COMM, DT_ERR_HOST_MEMORY, DT_ERR_DEVICE. */
dt_status pipeline_create(const struct pipeline_setup *setup, struct pipeline **out);
void pipeline_destroy(struct pipeline *pipeline); /* streams must be synchronized; takes NULL */

/* Queue one whole step on the streams. `step` counts from 1 over the run; samples are numbered from the replica's first one in it, which
 * the kernels have been told (begin_step). After pipeline_synchronize, the stage's loss buffer holds this replica's mean loss on its last
 * stage. */
dt_status pipeline_step(struct pipeline *pipeline, int step);

/* Wait for everything that is queued on the compute and neighbour streams; the first failure wins. */
dt_status pipeline_synchronize(struct pipeline *pipeline);

#endif
