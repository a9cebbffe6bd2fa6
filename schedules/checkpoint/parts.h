/* What the files of this folder share. */
#ifndef SCHEDULES_CHECKPOINT_PARTS_H
#define SCHEDULES_CHECKPOINT_PARTS_H

#include "lib/tensors/safetensors.h"
#include "lib/tensors/tensor_part.h"
#include "schedules/checkpoint/checkpoint.h"

/* ---- what a rank holds ---- */

/* A part of a tensor in this rank's memory, one element after the other. */
struct piece {
    char name[DT_TENSOR_NAME]; /* of the tensor; of state with what it is: "optimizer.master.head.weight" */
    enum dp_kind kind;
    enum dt_dtype dtype;
    uint64_t rows, columns; /* of the tensor; a vector has one column */
    struct dt_tensor_part part;
    void *data;
    bool own;   /* no other rank says so of these elements */
    bool state; /* not trained: forward passes change it */
};

struct pieces {
    struct piece *all; /* [count] */
    int count, room;
};

/* Whether `data` of pieces is host memory, which needs no copies: where parameters are offloaded, and on devices without a memory of their own. */
bool pieces_are_on_host(const struct checkpoint_rank *rank);
/* In the sequence of a file of theirs. Owner: the caller, pieces_finish, also after a failure. Errors: DT_ERR_HOST_MEMORY. */
dt_status pieces_find(const struct checkpoint_rank *rank, struct pieces *out);
/* Only those that are kept. */
void pieces_keep(struct pieces *pieces, bool (*keep)(const struct piece *piece));
void pieces_finish(struct pieces *pieces);
size_t piece_bytes(const struct piece *piece);
/* The name of the tensor itself: "head.weight". */
const char *piece_tensor(const struct piece *piece);

/* ---- the folder ---- */

/* The index: which checkpoint counts. */
struct checkpoint_index {
    int steps;
    char folder[64];  /* of the files, within the checkpoint's */
    char model[128];  /* what it is one of */
    char shape[1024]; /* and the keys that say which of these, as JSON; "": unknown, in checkpoints of before */
    char optimizer[16];
    double loss_scale, good_steps, skipped_steps; /* of struct dt_norm_state; loss_scale 0: unknown */
    int count;                                    /* of the files: rank-00000.safetensors, ... */
    double *bytes;                                /* [count] how long each is */
};

#define MASTER_PREFIX "optimizer.master."

/* Errors: DT_ERR_IO where there is none or it cannot be read, DT_ERR_INVALID where it is none of ours. Owner: the caller, free(bytes). */
dt_status checkpoint_index_read(const char *path, struct checkpoint_index *out);
/* Put it into the place of the one before, and onto the disk. Errors: DT_ERR_IO. */
dt_status checkpoint_index_write(const char *path, const struct checkpoint_index *index);
/* Remove the folders of files that the index does not name; keep: "": all. */
void checkpoint_folder_clean(const char *path, const char *keep);
/* Make the names in a folder survive a loss of power. Errors: DT_ERR_IO. */
dt_status checkpoint_sync_folder(const char *path);
void checkpoint_file_name(const char *path, const char *folder, int rank, char *out, size_t out_bytes);
void checkpoint_model_text(const struct dt_model *model, char *out, size_t out_bytes);

/* What one rank could not do, all have failed in, and say why. `status` and its text are this rank's; DT_OK where it did. Errors: DT_ERR_COMM, or
 * `status`, or `others` with the text of the first rank that has failed. */
dt_status checkpoint_agree(struct dt_comm *world, dt_status status, dt_status others);

#endif
