/* Checkpoints: parameters, the optimizer's state, and the step, in a folder that every rank reaches.
 *
 * Each rank writes what it owns, whole tensors or parts of some, to a file of its own; nothing is gathered. An index names the files of the
 * one checkpoint that counts. It is replaced last, after all files are on the disk, so that whoever looks finds the old checkpoint or the new
 * one, and both whole. Random numbers and the order of samples follow from seed and step (lib/base/random.h, lib/data/sampler.h), and need no
 * files.
 *
 * Loading knows nothing of how the ranks were divided that have saved: each one looks up the elements that it holds, in whatever files have
 * them. */
#ifndef SCHEDULES_CHECKPOINT_CHECKPOINT_H
#define SCHEDULES_CHECKPOINT_CHECKPOINT_H

#include "lib/comm/comm.h"
#include "schedules/data_parallel/mode.h"

/* What a rank of a run holds. All of it outlives what is done with it; streams are synchronized. */
struct checkpoint_rank {
    const struct experiment *experiment;
    struct dt_comm *world;
    const struct dt_stage *stage;
    struct data_parallel *dp;
    struct dt_stream *stream; /* for copies */
    /* Where the experiment asks for gradients' norms: of the last step, which is saved; loading puts that of the checkpoint here, if it has one.
     * NULL: it does not. */
    struct dt_norm_state *norm;
};

/* A folder that a run writes to. */
struct checkpoint_folder {
    char path[512];
    int lock; /* rank 0's descriptor; -1: none */
};

/* Make the folder where there is none; on rank 0 lock it against other runs, and remove what an interrupted save has left. Collective; close it also
 * after a failure. Errors, on all ranks: DT_ERR_INVALID with what is wrong with the folder; DT_ERR_COMM. */
dt_status checkpoint_folder_open(const char *path, struct dt_comm *world, struct checkpoint_folder *out);
void checkpoint_folder_close(struct checkpoint_folder *folder); /* takes one that is not open: lock -1 */

/* Save the state after `steps` steps, over all runs that it has gone through. Collective. *bytes: of this rank's file. Errors: DT_ERR_IO on all
 * ranks, where one could not write: the checkpoint before is then still there; DT_ERR_COMM, DT_ERR_HOST_MEMORY. */
dt_status checkpoint_save(const struct checkpoint_folder *folder, const struct checkpoint_rank *rank, int steps, uint64_t *bytes);

/* Load the folder's checkpoint, and find after how many steps it was saved. Collective. Errors, on all ranks: DT_ERR_INVALID where it is not
 * whole, or of another model; DT_ERR_COMM. */
dt_status checkpoint_load(const char *path, const struct checkpoint_rank *rank, int *steps);
/* Whether there is one. */
bool checkpoint_exists(const char *path);

/* Bytes that all ranks together write, without the files' headers: of each parameter, and of the optimizer's state for it. */
uint64_t checkpoint_bytes(const struct experiment *experiment);

#endif
