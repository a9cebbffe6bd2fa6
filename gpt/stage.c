/* A group of layers, one after the other: forward, backward, and what saves memory. */
#include "gpt/stage.h"
#include "gpt/stage_layers.h"

static const struct {
    dt_status (*forward)(const struct turn *t);
    dt_status (*backward)(const struct turn *t);
} passes[] = {
    [GPT_EMBEDDING] = {turn_embedding_forward, turn_embedding_backward},
    [GPT_ATTENTION] = {turn_attention_forward, turn_attention_backward},
    [GPT_MLP_UP] = {turn_mlp_up_forward, turn_mlp_up_backward},
    [GPT_MLP_DOWN] = {turn_mlp_down_forward, turn_mlp_down_backward},
    [GPT_FINAL_NORM] = {turn_final_norm_forward, turn_final_norm_backward},
    [GPT_HEAD] = {turn_head_forward, turn_head_backward},
};

static struct turn turn_of(struct gpt_stage *stage, int g, struct gpt_stash *stash, struct dt_stream *stream)
{
    return (struct turn){
        .stage = stage,
        .group = &stage->groups[g],
        .accumulate = stage->groups[g].accumulate,
        .stash = stash,
        .stream = stream,
        .k = stage->table,
        .rows = stash->samples * (size_t)stage->model->block_size,
        .d = (size_t)stage->model->hidden,
        .element_bytes = dt_dtype_bytes(stage->model->dtype),
    };
}

dt_status gpt_forward(struct gpt_stage *stage, int g, struct gpt_stash *stash, float loss_scale, float gradient_scale,
                      struct dt_stream *stream)
{
    struct turn t = turn_of(stage, g, stash, stream);
    t.loss_scale = loss_scale;
    t.gradient_scale = gradient_scale;
    for (int i = t.group->first_layer; i < t.group->first_layer + t.group->layer_count; i++) {
        t.layer = &stage->layers[i];
        t.kept = &stash->layers[i];
        DT_TRY(passes[t.layer->kind].forward(&t));
    }
    return DT_OK;
}

dt_status gpt_backward(struct gpt_stage *stage, int g, struct gpt_stash *stash, struct dt_stream *stream)
{
    struct turn t = turn_of(stage, g, stash, stream);
    for (int i = t.group->first_layer + t.group->layer_count - 1; i >= t.group->first_layer; i--) {
        t.layer = &stage->layers[i];
        t.kept = &stash->layers[i];
        DT_TRY(passes[t.layer->kind].backward(&t));
    }
    return DT_OK;
}

dt_status gpt_recompute(struct gpt_stage *stage, int g, struct gpt_stash *stash, bool ends_here, struct dt_stream *stream)
{
    struct turn t = turn_of(stage, g, stash, stream);
    t.recompute = true;
    int end = t.group->first_layer + t.group->layer_count;
    for (int i = t.group->first_layer; i < end; i++) {
        t.layer = &stage->layers[i];
        t.kept = &stash->layers[i];
        if (t.layer->kind == GPT_MLP_DOWN && ends_here && i == end - 1)
            return DT_OK; /* it keeps nothing for its backward */
        DT_TRY(passes[t.layer->kind].forward(&t));
    }
    return DT_OK;
}

dt_status gpt_forward_backward(struct gpt_stage *stage, int g, struct gpt_stash *stash, size_t piece_rows, float loss_scale,
                               float gradient_scale, struct dt_stream *stream)
{
    struct turn t = turn_of(stage, g, stash, stream), head = t;
    bool with_norm = t.group->layer_count > 1;
    t.layer = &stage->layers[t.group->first_layer];
    t.kept = &stash->layers[t.group->first_layer];
    if (with_norm)
        DT_TRY(turn_final_norm_forward(&t));

    head.layer = &stage->layers[stage->layer_count - 1];
    head.loss_scale = loss_scale;
    head.gradient_scale = gradient_scale;
    DT_TRY(turn_allocate(&head, DT_ACTIVATIONS, t.d, &stash->dx));
    DT_TRY(turn_head_in_pieces(&head, &stash->x, &stash->dx, piece_rows));
    dt_free(stream, &stash->x);
    return with_norm ? turn_final_norm_backward(&t) : DT_OK;
}
