/* The embedding layer: tokens and positions. */
#include "gpt/layer_shared.h"

static bool learned(const struct layer_run *r)
{
    return gpt_of(r->stage->base.model)->position == GPT_POSITION_LEARNED;
}

/* This rank's rows of the table of positions; none without such a table. */
static struct gpt_part positions_of(const struct layer_run *r)
{
    return learned(r) ? gpt_cut_table(r->stage->cut, gpt_position_rows(r->stage->base.model)) : (struct gpt_part){0, 0};
}

/* If ranks share the embedding, each makes one summand: its rows of the tables, and zeros for rows
 * that it does not have. Dropout is after the sum. */
dt_status layer_embedding_forward(const struct layer_run *r)
{
    const struct dt_model *model = r->stage->base.model;
    struct gpt_dropout none = layer_dropout(r);
    none.probability = 0;
    DT_TRY(layer_allocate_summand(r, DT_ACTIVATIONS, &r->stash->x));
    struct gpt_embedding a = {
        .tokens = r->stash->inputs.data,
        .token_table = layer_param(r, GPT_TOKEN_WEIGHT),
        .position_table = learned(r) ? layer_param(r, GPT_POSITION_WEIGHT) : NULL,
        .out = r->stash->x.data,
        .samples = r->stash->samples,
        .vocab = gpt_cut_table(r->stage->cut, gpt_of(model)->vocab_size),
        .positions = positions_of(r),
        .dropout = shared(r) ? none : layer_dropout(r),
    };
    DT_TRY(r->k->embedding(r->kernels, r->stream, &a));
    if (!shared(r))
        return DT_OK;
    DT_TRY(layer_sum_up(r, DT_ACTIVATIONS, &r->stash->x));
    if (gpt_of(model)->dropout == 0)
        return DT_OK;
    struct gpt_dropout_gradient mask = {
        .dout = r->stash->x.data, .dbranch = r->stash->x.data, .rows = r->stream_rows, .dropout = layer_stream_dropout(r)};
    return r->k->dropout_gradient(r->kernels, r->stream, &mask);
}

dt_status layer_embedding_backward(const struct layer_run *r)
{
    const struct dt_model *model = r->stage->base.model;
    if (inputs_now(r))
        dt_buffer_move(&r->kept->dout, &r->stash->dx);
    if (!weights_now(r))
        return DT_OK;
    DT_TRY(layer_gather(r, DT_WORKSPACE, &r->kept->dout));
    struct gpt_embedding_gradient a = {
        .tokens = r->stash->inputs.data,
        .dout = r->kept->dout.data,
        .dtoken_table = layer_grad(r, GPT_TOKEN_WEIGHT),
        .dposition_table = learned(r) ? layer_grad(r, GPT_POSITION_WEIGHT) : NULL,
        .samples = r->stash->samples,
        .vocab = gpt_cut_table(r->stage->cut, gpt_of(model)->vocab_size),
        .positions = positions_of(r),
        .accumulate = r->accumulate,
        .dropout = layer_dropout(r),
    };
    DT_TRY(r->k->embedding_gradient(r->kernels, r->stream, &a));
    dt_free(r->stream, &r->kept->dout);
    return DT_OK;
}
