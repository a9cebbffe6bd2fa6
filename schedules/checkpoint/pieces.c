#include "schedules/checkpoint/internal.h"

#include "lib/base/grow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const prefixes[] = {
    [DP_PARAMETERS] = "",
    [DP_FIRST_MOMENT] = "optimizer.first_moment.",
    [DP_SECOND_MOMENT] = "optimizer.second_moment.",
    [DP_MASTER] = MASTER_PREFIX,
};

struct listing {
    const struct checkpoint_rank *rank;
    struct pieces *pieces;
};

static dt_status add(struct pieces *pieces, const struct piece *piece)
{
    DT_TRY(dt_allocated(DT_ROOM(pieces->all, pieces->count, pieces->room), "no host memory for a list of %d tensors", pieces->count + 1));
    pieces->all[pieces->count++] = *piece;
    return DT_OK;
}

/* Add the part of the tensor that this rank holds, if it holds one. */
static dt_status add_tensor(struct listing *l, const struct dp_held *held, const struct dt_model_tensor *tensor)
{
    size_t begin = tensor->offset_elems, end = begin + tensor->count_elems, held_end = held->first_elem + held->count_elems;
    size_t from = begin > held->first_elem ? begin : held->first_elem, until = end < held_end ? end : held_end;
    enum dt_dtype dtype = held->kind == DP_PARAMETERS ? l->rank->experiment->model.dtype : DT_FP32;
    if (from >= until)
        return DT_OK;
    struct piece piece = {
        .kind = held->kind,
        .dtype = dtype,
        .rows = tensor->rows,
        .columns = tensor->columns,
        .part = {tensor->first_elem, tensor->run_elems, tensor->stride_elems, from - begin, until - begin},
        .data = (char *)held->data + (from - held->first_elem) * dt_dtype_bytes(dtype),
        .own = held->own && !tensor->copy,
    };
    snprintf(piece.name, sizeof piece.name, "%s%s", prefixes[held->kind], tensor->name);
    return add(l->pieces, &piece);
}

static dt_status add_run(void *context, const struct dp_held *held)
{
    struct listing *l = context;
    const struct dt_stage *stage = l->rank->stage;
    struct dt_model_tensor tensor;
    for (int i = 0; stage->model->family->tensor(stage, &stage->groups[held->group], i, &tensor); i++)
        DT_TRY(add_tensor(l, held, &tensor));
    return DT_OK;
}

/* State that is not trained is equal on all ranks with these layers after each step: the first of
 * them writes it. */
static dt_status add_state(const struct checkpoint_rank *rank, struct pieces *pieces)
{
    const struct dt_stage *stage = rank->stage;
    const struct dt_comm *shards = rank->dp->setup.shards, *replicas = rank->dp->setup.replicas;
    bool first = (!shards || dt_comm_rank(shards) == 0) && (!replicas || dt_comm_rank(replicas) == 0);
    struct dt_model_tensor tensor;
    for (int i = 0; stage->state_elems > 0 && stage->model->family->state_tensor(stage, i, &tensor); i++) {
        struct piece piece = {.dtype = DT_FP32,
                              .rows = tensor.rows,
                              .columns = tensor.columns,
                              .part = {tensor.first_elem, tensor.run_elems, tensor.stride_elems, 0, tensor.count_elems},
                              .data = (float *)stage->state.data + tensor.offset_elems,
                              .own = first,
                              .state = true};
        snprintf(piece.name, sizeof piece.name, "%s", tensor.name);
        DT_TRY(tensor.count_elems > 0 ? add(pieces, &piece) : DT_OK);
    }
    return DT_OK;
}

/* Order by width, widest elements first: every piece then lies at a multiple of its element
 * size. */
static int compare(const void *left, const void *right)
{
    const struct piece *a = left, *b = right;
    int sizes = (int)dt_dtype_bytes(b->dtype) - (int)dt_dtype_bytes(a->dtype);
    return sizes                      ? sizes
           : strcmp(a->name, b->name) ? strcmp(a->name, b->name)
                                      : (a->part.from > b->part.from) - (a->part.from < b->part.from);
}

dt_status pieces_find(const struct checkpoint_rank *rank, struct pieces *out)
{
    struct listing listing = {rank, out};
    *out = (struct pieces){0};
    DT_TRY(rank->dp->mode->visit(rank->dp, add_run, &listing));
    DT_TRY(add_state(rank, out));
    if (out->count > 0)
        qsort(out->all, (size_t)out->count, sizeof *out->all, compare);
    return DT_OK;
}

void pieces_keep(struct pieces *pieces, bool (*keep)(const struct piece *piece))
{
    int kept = 0;
    for (int i = 0; i < pieces->count; i++)
        if (keep(&pieces->all[i]))
            pieces->all[kept++] = pieces->all[i];
    pieces->count = kept;
}

bool pieces_are_on_host(const struct checkpoint_rank *rank)
{
    return rank->experiment->parameter_offload || !dt_device_kind_of(dt_stream_device(rank->stream))->gpus;
}

const char *piece_tensor(const struct piece *piece)
{
    return piece->name + strlen(prefixes[piece->kind]);
}

void pieces_finish(struct pieces *pieces)
{
    free(pieces->all);
    *pieces = (struct pieces){0};
}

size_t piece_bytes(const struct piece *piece)
{
    return (piece->part.until - piece->part.from) * dt_dtype_bytes(piece->dtype);
}

dt_status checkpoint_size_of(const struct checkpoint_rank *rank, struct checkpoint_size *out)
{
    DT_ENDED(pieces_finish) struct pieces pieces = {0};
    *out = (struct checkpoint_size){0};
    dt_status status = pieces_find(rank, &pieces);
    for (int i = 0; i < pieces.count; i++) {
        out->saved += pieces.all[i].own ? (double)piece_bytes(&pieces.all[i]) : 0;
        out->loaded += (double)piece_bytes(&pieces.all[i]);
    }
    return status;
}

uint64_t checkpoint_bytes(const struct experiment *e)
{
    return dt_model_parameter_count(&e->model) * (dt_dtype_bytes(e->model.dtype) + experiment_state_bytes(e)) +
           dt_model_facts(&e->model).state_elems * sizeof(float);
}
