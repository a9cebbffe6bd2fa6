/* What the files of this folder share. */
#pragma once

#include "lib/tensors/safetensors.h"
#include "lib/tensors/tensor_part.h"
#include "schedules/checkpoint/checkpoint.h"

/* ---- what a rank holds ---- */

/* A part of a tensor in this rank's memory, one element after the other. */
struct piece {
    char name[DT_TENSOR_NAME]; /* of the tensor; optimizer state has a prefix: "optimizer.master.head.weight" */
    enum dp_kind kind;
    enum dt_dtype dtype;
    uint64_t rows, columns; /* of the tensor; a vector has one column */
    struct dt_tensor_part part;
    void *data;
    bool own;   /* only this rank saves these elements */
    bool state; /* not trained: forward passes change it */
};

struct pieces {
    struct piece *all; /* [count] */
    int count, room;
};

/* Whether `data` of pieces is host memory, which needs no copies: true if parameters are offloaded,
 * and on devices without a memory of their own. */
bool pieces_are_on_host(const struct checkpoint_rank *rank);
/* The pieces in the order of a checkpoint file. Owner: the caller, pieces_finish, also after a
 * failure. Errors: DT_ERR_HOST_MEMORY. */
dt_status pieces_find(const struct checkpoint_rank *rank, struct pieces *out);
/* Drop all pieces for which `keep` is false. */
void pieces_keep(struct pieces *pieces, bool (*keep)(const struct piece *piece));
void pieces_finish(struct pieces *pieces);
size_t piece_bytes(const struct piece *piece);
/* The name of the tensor itself: "head.weight". */
const char *piece_tensor(const struct piece *piece);

/* ---- the folder ---- */

/* The index: it names the checkpoint that counts. */
struct checkpoint_index {
    int steps;
    char folder[64];  /* of the files, within the checkpoint's */
    char model[128];  /* the name of the model's family */
    char shape[1024]; /* the model's keys and values, as JSON; "": unknown, as in checkpoints of earlier versions */
    char optimizer[16];
    double loss_scale, good_steps, skipped_steps; /* of struct dt_norm_state; loss_scale 0: unknown */
    int count;                                    /* of the files: rank-00000.safetensors, ... */
    double *bytes;                                /* [count] how long each is */
};

#define MASTER_PREFIX "optimizer.master."

/* Errors: DT_ERR_IO if there is no index or it cannot be read, DT_ERR_INVALID if it is not one of
 * dtbench. Owner: the caller, free(bytes). */
dt_status checkpoint_index_read(const char *path, struct checkpoint_index *out);
/* Replace the previous index, and wait until the new one is on the disk. Errors: DT_ERR_IO. */
dt_status checkpoint_index_write(const char *path, const struct checkpoint_index *index);
/* Remove the folders of files that the index does not name, except `keep`; "": no exception. */
void checkpoint_folder_clean(const char *path, const char *keep);
/* Make the names in a folder survive a loss of power. Errors: DT_ERR_IO. */
dt_status checkpoint_sync_folder(const char *path);
void checkpoint_file_name(const char *path, const char *folder, int rank, char *out, size_t out_bytes);
void checkpoint_model_text(const struct dt_model *model, char *out, size_t out_bytes);

/* Make all ranks fail if one has failed, and say why. `status` and its text are this rank's.
 * Errors: DT_ERR_COMM, or `status`, or `others`, with the number and the text of the first rank that has failed. */
dt_status checkpoint_agree(struct dt_comm *world, dt_status status, dt_status others);
