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

/* The same beside the next steps: what the rank saves is copied to host memory, of which there is as much, and a thread writes that. The copy is
 * made on a stream of its own, beside the forward passes of the next step, but for what these change. The index
 * follows once all files have their names, which rank 0's thread sees in the folder. One save at a time: wait for the one before. What could not
 * be written is said by the wait. The rank's parts stay what they were when the copy was made. */
struct checkpoint_copy;
/* Destroy it also after a failure. Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY. */
dt_status checkpoint_copy_create(const struct checkpoint_rank *rank, struct checkpoint_copy **out);
void checkpoint_copy_destroy(struct checkpoint_copy *copy, struct dt_stream *stream); /* a save under way is given up; takes NULL */
/* Collective. *bytes: of the copy. Errors: DT_ERR_HOST_MEMORY, DT_ERR_COMM. */
dt_status checkpoint_save_beside(const struct checkpoint_folder *folder, const struct checkpoint_rank *rank, struct checkpoint_copy *copy,
                                 int steps, uint64_t *bytes);
/* What comes before the first change of parameters or of the optimizer's state in each step: nothing of the last save is to be copied any more.
 * NULL: on a simulated device. Lives as long as the copy. */
const struct dt_event *checkpoint_copied(const struct checkpoint_copy *copy);
/* Before a step is queued: what was copied beside the one before is written from here on. */
void checkpoint_copy_begin_step(struct checkpoint_copy *copy);
/* Until the last save is whole, if there is one. Collective. Errors: as checkpoint_save. */
dt_status checkpoint_copy_wait(struct checkpoint_copy *copy, struct dt_comm *world);

/* Load the folder's checkpoint, and find after how many steps it was saved. Collective. Errors, on all ranks: DT_ERR_INVALID where it is not
 * whole, or of another model; DT_ERR_COMM. */
dt_status checkpoint_load(const char *path, const struct checkpoint_rank *rank, int *steps);
/* Whether there is one. */
bool checkpoint_exists(const char *path);

/* What checkpoint_export has written. */
struct checkpoint_exported {
    const char *type, *architecture; /* of the model, by their names */
    int files;
    uint64_t bytes; /* of all tensors */
};

/* Write the parameters of the checkpoint in `path`, or of a Hugging Face folder, as a Hugging Face folder: config.json, and safetensors in the model's
 * dtype, in files of at most most_bytes, or of one tensor. No rank is needed: a tensor at a time is in memory. Where the checkpoint has fp32 copies
 * they are what is written. Errors: DT_ERR_INVALID where no type of theirs is this model, or the checkpoint is of another; DT_ERR_IO, also where
 * `folder` has a model. */
dt_status checkpoint_export(const struct experiment *experiment, const char *path, const char *folder, uint64_t most_bytes,
                            struct checkpoint_exported *out);

/* Bytes of what a rank saves, and of what it loads, without the files' headers. Errors: DT_ERR_HOST_MEMORY. */
struct checkpoint_size {
    double saved, loaded;
};
dt_status checkpoint_size_of(const struct checkpoint_rank *rank, struct checkpoint_size *out);

/* Bytes that all ranks together write, without the files' headers: of each parameter, and of the optimizer's state for it. */
uint64_t checkpoint_bytes(const struct experiment *experiment);

#endif
