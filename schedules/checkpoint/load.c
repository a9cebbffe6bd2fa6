#include "schedules/checkpoint/hugging_face.h"
#include "schedules/checkpoint/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 8 << 20 };

/* A master copy that the checkpoint has none of is made of the parameter itself. */
static const struct source *find_of_piece(const struct sources *s, const struct piece *piece, int *count)
{
    const struct source *own = sources_find(s, piece->name, count);
    return *count == 0 && piece->kind == DP_MASTER ? sources_find(s, piece_tensor(piece), count) : own;
}

static dt_status load_piece(const struct checkpoint_rank *rank, const struct sources *s, const struct piece *piece, char *chunk)
{
    int count;
    const struct wanted wanted = {piece->name, piece->dtype, &piece->part};
    const struct source *found = find_of_piece(s, piece, &count);
    size_t bytes = dt_dtype_bytes(piece->dtype);
    bool on_host = pieces_are_on_host(rank);
    if (count == 0)
        return dt_fail(DT_ERR_INVALID, "no file has the tensor %s", piece->name);
    for (uint64_t k = piece->part.from, step; k < piece->part.until; k += step) {
        step = piece->part.until - k < CHUNK_BYTES / bytes ? piece->part.until - k : CHUNK_BYTES / bytes;
        char *to = (char *)piece->data + (k - piece->part.from) * bytes;
        DT_TRY(sources_collect(s, &wanted, found, count, k, step, on_host ? to : chunk));
        if (on_host)
            continue;
        DT_TRY(dt_copy_from_host(rank->stream, to, chunk, step * bytes));
        DT_TRY(dt_stream_synchronize(rank->stream));
    }
    return DT_OK;
}

/* Others' files have parameters alone: moments stay as a run begins with them, and the optimizer's copies of parameters are these. */
static dt_status load_pieces(const struct checkpoint_rank *rank, const struct sources *s, bool parameters_alone)
{
    struct pieces pieces;
    char *chunk = malloc(CHUNK_BYTES);
    dt_status status = pieces_find(rank, &pieces);
    if (status == DT_OK)
        status = dt_allocated(chunk, "no host memory for reading a checkpoint");
    for (const struct piece *p = pieces.all; p < pieces.all + pieces.count && status == DT_OK; p++)
        if (!parameters_alone || p->kind == DP_PARAMETERS || p->kind == DP_MASTER)
            status = load_piece(rank, s, p, chunk);
    pieces_finish(&pieces);
    free(chunk);
    return status;
}

/* ---- a checkpoint ---- */

/* The loss scale is of runs that find it as they go. */
static void take_norm(const struct checkpoint_rank *rank, const struct checkpoint_index *index)
{
    if (!rank->norm || index->loss_scale <= 0)
        return;
    rank->norm->skipped = (uint32_t)index->skipped_steps;
    if (!experiment_scales_dynamically(rank->experiment))
        return;
    rank->norm->loss_scale = (float)index->loss_scale;
    rank->norm->good = (uint32_t)index->good_steps;
}

static dt_status load(const char *path, const struct checkpoint_rank *rank, int *steps)
{
    struct sources sources;
    struct checkpoint_index index;
    const struct experiment *e = rank->experiment;
    dt_status status = sources_open(&sources, path, &e->model, &index);
    if (status == DT_OK && index.count > 0 && experiment_is_adam(e) && strcmp(index.optimizer, "adam") != 0)
        status = dt_fail(DT_ERR_INVALID, "the checkpoint has no state of adam: it is one of %s", index.optimizer);
    if (status == DT_OK)
        status = load_pieces(rank, &sources, index.count == 0);
    if (status == DT_OK)
        take_norm(rank, &index);
    *steps = index.steps;
    sources_close(&sources);
    free(index.bytes);
    return status;
}

dt_status checkpoint_load(const char *path, const struct checkpoint_rank *rank, int *steps)
{
    char why[1024];
    dt_status status = load(path, rank, steps);
    snprintf(why, sizeof why, "%s", dt_error_message());
    if (status < 0)
        status = dt_fail(DT_ERR_INVALID, "checkpoint.from: %s: %.900s", path, why);
    return checkpoint_agree(rank->world, status, DT_ERR_INVALID, "checkpoint.from");
}
