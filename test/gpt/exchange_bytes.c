/* The bytes that the ranks of a tensor group exchange for a layer, in closed form. With M rows of d
 * elements a layer's collective on them moves A = M d elements: an all-reduce, or with sequence
 * parallelism an all-gather before the products and a reduce-scatter after them, and in backward
 * the reverse. In addition, weight gradients gather their inputs again, as does a gated MLP that
 * recomputes its second product; norms sum their gains and biases, the loss gathers three numbers a
 * row; norms of heads sum their gains, and ranks with the same heads of keys and values those
 * weights' gradients.
 * Source  Shoeybi et al., "Megatron-LM", 2019, section 3; Korthikanti et al., "Reducing Activation
 *         Recomputation in Large Transformer Models", 2022, section 4.2.2. */
#include "test/gpt/exchange_bytes.h"
#include "gpt/model.h"

#include "gpt/layer.h"

struct sizes {
    uint64_t rows, norm, loss; /* bytes of M d elements, of a norm, and of all ranks' numbers of the loss */
    uint64_t gains, copies;    /* bytes of the gains of heads' norms, and of tensors that other ranks have copies of */
    bool sliced;
    bool raises_again; /* the product next to the gate is recomputed, from gathered rows */
};

static void add_gather(const struct sizes *s, int times, struct dt_exchanged *out)
{
    if (s->sliced)
        out->all_gather += (uint64_t)times * s->rows;
}

static void add_sum(const struct sizes *s, struct dt_exchanged *out)
{
    *(s->sliced ? &out->reduce_scatter : &out->all_reduce) += s->rows;
}

static void add_norm(const struct sizes *s, struct dt_exchanged *out)
{
    if (s->sliced)
        out->all_reduce += s->norm;
}

static void add_forward(const struct sizes *s, enum gpt_layer_kind kind, struct dt_exchanged *out)
{
    if (kind == GPT_ATTENTION || kind == GPT_MLP_UP || kind == GPT_HEAD)
        add_gather(s, 1, out);
    if (kind == GPT_EMBEDDING || kind == GPT_ATTENTION || kind == GPT_MLP_DOWN)
        add_sum(s, out);
    if (kind == GPT_HEAD)
        out->all_gather += s->loss;
}

static void add_backward(const struct sizes *s, enum gpt_layer_kind kind, enum dt_backward part, struct dt_exchanged *out)
{
    bool inputs = part & DT_BACKWARD_INPUT, weights = part & DT_BACKWARD_WEIGHTS;
    bool behind_sum = kind == GPT_ATTENTION || kind == GPT_MLP_DOWN, before_product = kind == GPT_ATTENTION || kind == GPT_MLP_UP;
    if (behind_sum && inputs)
        add_gather(s, kind == GPT_MLP_DOWN && s->raises_again ? 2 : 1, out); /* the gradient of the branch */
    if ((before_product || kind == GPT_HEAD || kind == GPT_EMBEDDING) && weights)
        add_gather(s, 1, out); /* what the weight gradients read */
    if ((before_product || kind == GPT_HEAD) && inputs)
        add_sum(s, out);
    if ((before_product || kind == GPT_FINAL_NORM) && inputs)
        add_norm(s, out);
    if (kind == GPT_ATTENTION)
        out->all_reduce += (inputs ? s->gains : 0) + (weights ? s->copies : 0);
}

/* The rows of the samples at this rank's positions. */
static uint64_t rows_of(const struct gpt_stage *s, size_t samples)
{
    uint64_t ranks = s->exchange.context.comm ? (uint64_t)dt_comm_size(s->exchange.context.comm) : 1;
    return samples * (uint64_t)gpt_of(s->base.model)->block_size / ranks;
}

/* Elements of k and v that a rank shares with others. */
static uint64_t copied_elems(const struct gpt_stage *s)
{
    const struct dt_model *model = s->base.model;
    uint64_t features = 2 * gpt_cut_kv_heads(s->cut, model).count * (uint64_t)gpt_head_width(model);
    uint64_t inputs = (uint64_t)gpt_of(model)->hidden + (gpt_of(model)->bias != GPT_BIAS_NONE);
    return gpt_cut_copies(model, s->cut.size) > 1 ? features * inputs : 0;
}

void gpt_exchanged_bytes(const struct dt_stage *stage, int g, struct gpt_pass pass, size_t samples, struct dt_exchanged *out)
{
    const struct gpt_stage *s = (const struct gpt_stage *)stage;
    const struct dt_group *group = &stage->groups[g];
    uint64_t rows = rows_of(s, samples), d = (uint64_t)gpt_of(stage->model)->hidden;
    uint64_t element = dt_dtype_bytes(stage->model->dtype), ranks = (uint64_t)s->cut.size;
    struct sizes sizes = {.rows = rows * d * element,
                          .norm = gpt_norm_elems(stage->model) * element,
                          .loss = ranks * rows * sizeof(struct gpt_logit_row),
                          .gains = gpt_of(stage->model)->qk_norm ? 2 * (uint64_t)gpt_head_width(stage->model) * element : 0,
                          .copies = copied_elems(s) * element,
                          .sliced = s->sliced,
                          .raises_again = gpt_of(stage->model)->mlp == GPT_MLP_SWIGLU && stage->parts[0].again & DT_AGAIN_PRODUCTS};
    *out = (struct dt_exchanged){0};
    for (int i = group->first_layer; s->cut.size > 1 && i < group->first_layer + group->layer_count; i++) {
        enum gpt_layer_kind kind = s->layers[i].kind;
        bool last = i == group->first_layer + group->layer_count - 1;
        if (pass.forward && !(pass.ends_here && last && kind == GPT_MLP_DOWN))
            add_forward(&sizes, kind, out);
        if (pass.backward)
            add_backward(&sizes, kind, pass.backward, out);
        if (pass.late && kind == GPT_HEAD) { /* gathered once for both */
            add_gather(&sizes, 1, out);
            add_sum(&sizes, out);
            out->all_gather += sizes.loss;
        }
        if (pass.late && kind == GPT_FINAL_NORM)
            add_norm(&sizes, out);
    }
}

void gpt_context_bytes(const struct dt_stage *stage, int g, struct gpt_pass pass, size_t samples, struct dt_exchanged *out)
{
    const struct gpt_stage *s = (const struct gpt_stage *)stage;
    const struct dt_part *part = stage->parts;
    const struct dt_group *group = &stage->groups[g];
    uint64_t row = rows_of(s, samples) * (uint64_t)gpt_head_width(stage->model) * dt_dtype_bytes(stage->model->dtype);
    uint64_t heads = gpt_cut_heads(s->cut, stage->model).count * row, keys = 2 * gpt_cut_kv_heads(s->cut, stage->model).count * row;
    *out = (struct dt_exchanged){0};
    while (g >= part->end_group)
        part++;
    for (int i = group->first_layer; s->exchange.context.comm && i < group->first_layer + group->layer_count; i++) {
        uint64_t ranks = (uint64_t)dt_comm_size(s->exchange.context.comm), forward = pass.forward,
                 backward = pass.backward & DT_BACKWARD_INPUT;
        uint64_t again = backward && part->again & DT_AGAIN_WEIGHTS, heads_again = backward && part->again & DT_AGAIN_HEADS;
        if (s->layers[i].kind != GPT_ATTENTION)
            continue;
        switch (s->exchange.context.kind) {
        case DT_CONTEXT_RING: out->shift += (forward + again + 2 * backward) * (ranks - 1) * keys; break;
        case DT_CONTEXT_ALL_GATHER:
            out->all_gather += (forward + again + backward) * ranks * keys;
            out->reduce_scatter += backward * ranks * keys;
            break;
        case DT_CONTEXT_HEADS: out->all_to_all += (forward + backward) * (2 * heads + keys) + heads_again * heads; break;
        }
    }
}
