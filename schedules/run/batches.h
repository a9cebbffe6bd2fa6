/* The samples of a rank's steps, if they come from a file. A thread reads them a step ahead. They
 * are copied from the same place in host memory in every step, so that a captured step finds them,
 * too. */
#pragma once

#include "lib/comm/comm.h"
#include "lib/data/prefetch.h"
#include "schedules/config/experiment.h"

struct batches {
    const struct experiment *experiment;
    const struct mesh_shape *shape;
    int rank;
    size_t samples, input_bytes, target_bytes; /* of a step; of a sample */
    struct dt_sampler sampler;
    struct dt_data_set set;
    char path[2048];
    struct dt_buffer now, ahead;  /* inputs of all samples, then their targets; host memory. now: of this step; ahead: of the next */
    struct dt_prefetch *prefetch; /* NULL: nothing is read */
    double waited_s;              /* by the last batches_take */
};

/* The number of the first sample of `rank` in step `step`, counted over all ranks and steps.
 * samples: of a replica's step. */
uint64_t batches_first(const struct experiment *experiment, const struct mesh_shape *shape, int rank, size_t samples, int step);

/* Open the experiment's file and read ahead for step 0; nothing happens where samples are random. A
 * stage that is neither first nor last needs none. On sim memory is counted and nothing is read.
 * Collective: the ranks agree that all have a file of that size. The arguments outlive it. Call
 * batches_finish also after a failure. Errors: DT_ERR_INVALID on all ranks if one cannot read its
 * file; DT_ERR_OOM, DT_ERR_HOST_MEMORY, DT_ERR_COMM. */
dt_status batches_init(struct batches *batches, const struct experiment *experiment, struct dt_comm *world, const struct mesh_shape *shape,
                       size_t samples, struct dt_stage *stage, struct dt_stream *stream);
void batches_finish(struct batches *batches, struct dt_stream *stream); /* streams are synchronized; takes a zeroed one */

/* Wait until the samples of `step` are read, and put them where the stage finds them. The previous
 * step's work must be done. Errors: DT_ERR_IO, only on this rank. */
dt_status batches_take(struct batches *batches, int step);
