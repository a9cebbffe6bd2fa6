/* Checkpoints: parameters, the optimizer's state, and the step, in a folder that every rank
 * reaches.
 *
 * Each rank writes what it owns, whole tensors or parts of some, to a file of its own; nothing is
 * gathered. An index names the files of the one checkpoint that counts. The index is replaced last,
 * after all files are on the disk: a reader finds the old checkpoint or the new one, and either is
 * complete. Random numbers and the order of samples follow from seed and step (lib/base/random.h,
 * lib/data/sampler.h), and need no files.
 *
 * Loading does not depend on how the saving ranks were divided: each rank looks up the elements
 * that it holds, in whichever files have them. */
#pragma once

#include "lib/comm/comm.h"
#include "schedules/data_parallel/mode.h"

/* What a rank holds. The members outlive every use of this struct; streams are synchronized. */
struct checkpoint_rank {
    const struct experiment *experiment;
    struct dt_comm *world;
    const struct dt_stage *stage;
    struct data_parallel *dp;
    struct dt_stream *stream; /* for copies */
    /* The norms of the last step's gradients, where the experiment asks for them: saved with the
     * checkpoint, and filled from it on loading. NULL: not asked for. */
    struct dt_norm_state *norm;
};

/* A folder that a run writes to. */
struct checkpoint_folder {
    char path[512];
    int lock; /* rank 0's descriptor; -1: none */
};

/* Make the folder where there is none; on rank 0 lock it against other runs, and remove the files
 * of an interrupted save. Collective; close the folder also after a failure. Errors, on all ranks:
 * DT_ERR_INVALID with what is wrong with the folder; DT_ERR_COMM. */
dt_status checkpoint_folder_open(const char *path, struct dt_comm *world, struct checkpoint_folder *out);
void checkpoint_folder_close(struct checkpoint_folder *folder); /* takes a folder that is not open: lock -1 */

/* Save the state after `steps` steps, counted over all runs that continued each other. Collective.
 * *bytes: of this rank's file. Errors: DT_ERR_IO on all ranks if one could not write: the previous
 * checkpoint is then still there; DT_ERR_COMM, DT_ERR_HOST_MEMORY. */
dt_status checkpoint_save(const struct checkpoint_folder *folder, const struct checkpoint_rank *rank, int steps, uint64_t *bytes);

/* The same, while the next steps run: each rank copies what it saves to host memory, which needs as
 * much memory again, and a thread writes the copy. The copy is made on a stream of its own during
 * the forward passes of the next step, before these change anything. The index is written once all
 * files have their final names, which rank 0's thread sees in the folder. Only one save is under
 * way at a time: wait for the last one first. The wait reports what could not be written. The
 * rank's parts stay as they were when the copy was made. */
struct checkpoint_copy;
/* Destroy the copy also after a failure. Errors: DT_ERR_OOM, DT_ERR_HOST_MEMORY. */
dt_status checkpoint_copy_create(const struct checkpoint_rank *rank, struct checkpoint_copy **out);
void checkpoint_copy_destroy(struct checkpoint_copy *copy, struct dt_stream *stream); /* a save under way is given up; takes NULL */
/* Collective. *bytes: of the copy. Errors: DT_ERR_HOST_MEMORY, DT_ERR_COMM. */
dt_status checkpoint_save_beside(const struct checkpoint_folder *folder, const struct checkpoint_rank *rank, struct checkpoint_copy *copy,
                                 int steps, uint64_t *bytes);
/* An event: the last save's copy is complete. Each step waits for it before it first changes
 * parameters or optimizer state. NULL: on a simulated device. Lives as long as the copy. */
const struct dt_event *checkpoint_copied(const struct checkpoint_copy *copy);
/* Call before a step is queued: what was copied during the step before is written from here on. */
void checkpoint_copy_begin_step(struct checkpoint_copy *copy);
/* Wait until the last save is complete, if there is one. Collective. Errors: as checkpoint_save. */
dt_status checkpoint_copy_wait(struct checkpoint_copy *copy, struct dt_comm *world);

/* Load the folder's checkpoint, and find after how many steps it was saved. Collective. Errors, on
 * all ranks: DT_ERR_INVALID if it is incomplete, or of another model; DT_ERR_COMM. */
dt_status checkpoint_load(const char *path, const struct checkpoint_rank *rank, int *steps);
/* Whether the folder has a checkpoint. */
bool checkpoint_exists(const char *path);

/* What checkpoint_export has written. */
struct checkpoint_exported {
    const char *type, *architecture; /* the model's, by their names in transformers */
    int files;
    uint64_t bytes; /* of all tensors */
};

/* Write the parameters of the checkpoint in `path`, or of a Hugging Face folder, as a Hugging Face
 * folder: config.json, and safetensors in the model's dtype, in files of at most most_bytes, or of
 * one tensor. No rank is needed: one tensor at a time is in memory. If the checkpoint has fp32
 * master copies, these are written. Errors: DT_ERR_INVALID if no Hugging Face type describes this
 * model, or the checkpoint is of another model; DT_ERR_IO, also if `folder` already has a model. */
dt_status checkpoint_export(const struct experiment *experiment, const char *path, const char *folder, uint64_t most_bytes,
                            struct checkpoint_exported *out);

/* Bytes that a rank saves, and that it loads, without the files' headers. Errors:
 * DT_ERR_HOST_MEMORY. */
struct checkpoint_size {
    double saved, loaded;
};
dt_status checkpoint_size_of(const struct checkpoint_rank *rank, struct checkpoint_size *out);

/* Bytes that all ranks together write, without the files' headers: parameters, and the optimizer's
 * state for them. */
uint64_t checkpoint_bytes(const struct experiment *experiment);
