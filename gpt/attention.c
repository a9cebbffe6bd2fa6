/* The attention layer: x + dropout(projection(attention(norm(x)))). The heads of q and k have norms
 * and rotary position embedding if the model has them. */
#include "gpt/attend.h"
#include "gpt/layer_branch.h"
#include "gpt/layer_shared.h"

/* Norms of the heads of q and k, from kept->raw to kept->qkv. */
static dt_status normalize_heads(const struct layer_run *r)
{
    const struct dt_model *model = r->stage->base.model;
    dt_buffer_move(&r->kept->raw, &r->kept->qkv);
    DT_TRY(layer_allocate(r, DT_ACTIVATIONS, r->c, &r->kept->qkv));
    struct gpt_head_norm a = {
        .qkv = r->kept->raw.data,
        .q_gain = layer_param(r, GPT_Q_NORM_GAIN),
        .k_gain = layer_param(r, GPT_K_NORM_GAIN),
        .out = r->kept->qkv.data,
        .rows = r->rows,
        .heads = gpt_cut_heads(r->stage->cut, model).count,
        .kv_heads = gpt_cut_kv_heads(r->stage->cut, model).count,
        .epsilon = (float)gpt_norm_epsilon(model),
    };
    return r->k->head_norm(r->kernels, r->stream, &a);
}

static dt_status normalize_heads_backward(const struct layer_run *r)
{
    const struct dt_model *model = r->stage->base.model;
    struct gpt_head_norm_gradient a = {
        .qkv = r->kept->raw.data,
        .q_gain = layer_param(r, GPT_Q_NORM_GAIN),
        .k_gain = layer_param(r, GPT_K_NORM_GAIN),
        .dqkv = r->kept->dqkv.data,
        .dq_gain = layer_grad(r, GPT_Q_NORM_GAIN),
        .dk_gain = layer_grad(r, GPT_K_NORM_GAIN),
        .rows = r->rows,
        .heads = gpt_cut_heads(r->stage->cut, model).count,
        .kv_heads = gpt_cut_kv_heads(r->stage->cut, model).count,
        .epsilon = (float)gpt_norm_epsilon(model),
        .accumulate = layer_adds_to_copy(r, r->stage->cut.rank),
    };
    DT_TRY(r->k->head_norm_gradient(r->kernels, r->stream, &a));
    dt_free(r->stream, &r->kept->raw);
    return layer_sum_head_gains_begin(r);
}

/* Rotate the heads of q and k by their positions. inverse: rotate their gradients back. */
static dt_status turn(const struct layer_run *r, void *qkv, bool inverse)
{
    const struct dt_model *model = r->stage->base.model;
    size_t heads = gpt_cut_heads(r->stage->cut, model).count + gpt_cut_kv_heads(r->stage->cut, model).count;
    return r->k->rope(r->kernels, r->stream, &(struct gpt_rope){qkv, r->rows, heads, r->c, inverse, r->stage->where});
}

/* Compute kept->qkv, as attention reads it. */
static dt_status make_qkv(const struct layer_run *r, const void *normed)
{
    const struct dt_model *model = r->stage->base.model;
    DT_TRY(layer_allocate(r, DT_ACTIVATIONS, r->c, &r->kept->qkv));
    /* The weights of k and v follow those of q: one product. */
    DT_TRY(layer_linear(r, r->kept->qkv.data, normed, GPT_Q_WEIGHT, GPT_Q_BIAS, r->c, r->d));
    if (gpt_of(model)->qk_norm)
        DT_TRY(normalize_heads(r));
    return gpt_of(model)->position == GPT_POSITION_ROPE ? turn(r, r->kept->qkv.data, false) : DT_OK;
}

/* From the gradient of attention's input to the gradient of the product's output. */
static dt_status make_dqkv(const struct layer_run *r)
{
    const struct dt_model *model = r->stage->base.model;
    if (gpt_of(model)->position == GPT_POSITION_ROPE && !attend_turns_back(r))
        DT_TRY(turn(r, r->kept->dqkv.data, true));
    return gpt_of(model)->qk_norm ? normalize_heads_backward(r) : DT_OK;
}

dt_status layer_attention_forward(const struct layer_run *r)
{
    struct dt_buffer normed;
    DT_TRY(layer_keep_norm_input(r));
    DT_TRY(layer_normed_rows(r, &normed));
    DT_TRY(make_qkv(r, normed.data));
    layer_normed_read(r, &normed);

    DT_TRY(attend_prepare(r));
    DT_TRY(attend(r));
    DT_TRY(layer_project_to_stream(r, r->kept->mixed.data, NULL, GPT_PROJECTION_WEIGHT, GPT_PROJECTION_BIAS, r->e, r->kept->input.data));
    if (attends_again(r))
        attend_forget(r);
    return DT_OK;
}

dt_status layer_attention_backward(const struct layer_run *r)
{
    struct dt_layer_stash *kept = r->kept;
    struct dt_buffer dmixed;

    if (attends_again(r) && inputs_now(r))
        DT_TRY(attend(r));
    if (inputs_now(r))
        DT_TRY(layer_branch_gradient(r));
    if (weights_now(r))
        DT_TRY(layer_weight_gradients(r, layer_dbranch(r), kept->mixed.data, GPT_PROJECTION_WEIGHT, GPT_PROJECTION_BIAS, r->d, r->e));
    if (inputs_now(r)) {
        DT_TRY(layer_allocate(r, DT_WORKSPACE, r->e, &dmixed));
        DT_TRY(layer_input_gradient(r, dmixed.data, layer_dbranch(r), GPT_PROJECTION_WEIGHT, r->d, r->e));
    }
    if (weights_now(r))
        dt_free(r->stream, &kept->dbranch);
    if (inputs_now(r)) {
        DT_TRY(attend_backward(r, &dmixed));
        DT_TRY(make_dqkv(r));
    }
    if (weights_now(r))
        dt_free(r->stream, &kept->mixed);
    return layer_backward_through_norm(r, &kept->dqkv, GPT_Q_WEIGHT, GPT_Q_BIAS, r->c);
}
