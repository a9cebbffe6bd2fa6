/* Backward of a whole small GPT against differences of its own loss, on the cpu device in fp32:
 * every tensor of every layer. */
#include "gpt/family.h"
#include "gpt/layer.h"
#include "gpt/stage.h"
#include "lib/model/stage.h"
#include "test/check.h"

#include <stdlib.h>

enum { SAMPLES = 2 };

struct fixture {
    struct dt_model model;
    struct dt_device *device;
    struct dt_stream *stream;
    struct dt_kernels *kernels;
    struct dt_stage *stage;
    struct dt_stash stash;
    bool halves; /* all input gradients before the first weight gradient */
    bool adds;   /* to the gradients that are there */
    float *params, *grads;
};

/* The model is deliberately odd: 3 heads of width 5, 7 positions, 11 tokens. */
static bool fixture_init_of(struct fixture *f, enum gpt_attention_kind attention, enum gpt_mlp_kind mlp, bool tied, float dropout,
                            bool sum_loss)
{
    struct dt_device_options options = {.threads = 2, .local_size = 1};
    struct gpt_model model = {.layers = 2,
                              .heads = 3,
                              .hidden = 15,
                              .vocab_size = 11,
                              .block_size = 7,
                              .dropout = dropout,
                              .attention = attention,
                              .mlp = mlp,
                              .tied = tied};
    *f = (struct fixture){.model = gpt_model_of(DT_FP32, &model)};
    f->model.family = &gpt_family;
    char reason[256];
    if (!dt_device_available("cpu", reason, sizeof reason)) {
        snprintf(test_skip_reason, sizeof test_skip_reason, "%.200s", reason);
        return false;
    }
    CHECK_OK(dt_device_create("cpu", &options, &f->device));
    CHECK_OK(dt_stream_create(f->device, "compute", &f->stream));
    CHECK_OK(dt_kernels_create(&gpt_own_kernels, &f->model, f->device, &f->kernels));
    struct dt_layers all = {.end = gpt_layer_count(&f->model)};
    struct dt_stage_options stage = {.parts = &all, .part_count = 1, .unit = DT_UNIT_LINEAR, .seed = 3, .sum_loss = sum_loss};
    CHECK_OK(dt_stage_create(&f->model, &stage, f->kernels, f->stream, &f->stage));
    CHECK_OK(dt_stash_create(f->stage, 0, &f->stash));

    f->params = calloc(f->stage->param_elems, sizeof(float));
    f->grads = calloc(f->stage->param_elems, sizeof(float));
    size_t offset = 0;
    for (int g = 0; g < f->stage->group_count; g++) {
        struct dt_group *group = &f->stage->groups[g];
        group->params = f->params + offset;
        group->grads = f->grads + offset;
        CHECK_OK(dt_init_params(f->stage, group, 0, group->param_elems, group->params, f->stream));
        offset += group->param_elems;
    }
    CHECK_OK(dt_stream_synchronize(f->stream));
    srand(11); /* larger than at the start of training, so that every path carries weight; gains and biases too */
    for (size_t i = 0; i < f->stage->param_elems; i++)
        f->params[i] += 0.4f * ((float)rand() / (float)RAND_MAX - 0.5f);
    return true;
}

static bool fixture_init(struct fixture *f, enum gpt_attention_kind attention, bool tied, float dropout, bool sum_loss)
{
    return fixture_init_of(f, attention, GPT_MLP_GELU, tied, dropout, sum_loss);
}

static void fixture_finish(struct fixture *f)
{
    if (!f->device)
        return;
    dt_stash_destroy(f->stage, &f->stash, f->stream);
    dt_stage_destroy(f->stage, f->stream);
    dt_kernels_destroy(f->kernels);
    dt_stream_destroy(f->stream);
    dt_device_destroy(f->device);
    free(f->params);
    free(f->grads);
}

static void backward(struct fixture *f, int g, enum dt_backward part)
{
    CHECK_OK(gpt_backward(f->stage, g, &f->stash, part, f->stream));
    if (f->stage->groups[g].reads_first && part & DT_BACKWARD_WEIGHTS) /* a tied head has written to the table's gradients */
        f->stage->groups[0].accumulate = true;
}

static double loss_of(struct fixture *f)
{
    double loss = 0, scale = 1.0 / (SAMPLES * gpt_of(&f->model)->block_size);
    for (int g = 0; g < f->stage->group_count; g++)
        f->stage->groups[g].accumulate = f->adds;
    if (!f->adds) /* memory that is not written, or added to by mistake, is NaN */
        memset(f->grads, 0xff, f->stage->param_elems * sizeof *f->grads);
    CHECK_OK(dt_stash_begin(f->stage, &f->stash, SAMPLES, 5, f->stream));
    CHECK_OK(dt_zero(f->stream, f->stage->loss.data, sizeof(double)));
    for (int g = 0; g < f->stage->group_count; g++)
        CHECK_OK(gpt_forward(f->stage, g, &f->stash, (struct dt_loss_scales){(float)scale, (float)scale}, f->stream));
    /* backward also when only the loss is wanted: it empties the stash */
    for (int g = f->stage->group_count - 1; g >= 0; g--)
        backward(f, g, f->halves ? DT_BACKWARD_INPUT : DT_BACKWARD_WHOLE);
    for (int g = f->stage->group_count - 1; f->halves && g >= 0; g--)
        backward(f, g, DT_BACKWARD_WEIGHTS);
    dt_stash_end(&f->stash, f->stream);
    CHECK_OK(dt_copy_to_host(f->stream, &loss, f->stage->loss.data, sizeof loss));
    CHECK_OK(dt_stream_synchronize(f->stream));
    return loss;
}

static void compare(enum gpt_attention_kind attention, bool tied, float dropout, bool sum_loss)
{
    struct fixture f;
    if (!fixture_init(&f, attention, tied, dropout, sum_loss))
        return;
    loss_of(&f);
    float *analytic = malloc(f.stage->param_elems * sizeof(float)), *direction = malloc(f.stage->param_elems * sizeof(float));
    memcpy(analytic, f.grads, f.stage->param_elems * sizeof(float));

    size_t start = 0;
    const struct gpt_stage *stage = (const struct gpt_stage *)f.stage;
    for (int i = 0; i < stage->base.layer_count; i++) {
        const struct gpt_layer *layer = &stage->layers[i];
        for (int j = 0; j < layer->tensor_count; j++) {
            const struct gpt_tensor *tensor = &layer->tensors[j];
            float *x = f.params + start + tensor->offset_elems, *g = analytic + start + tensor->offset_elems;
            double slope = 0, length = 0;
            for (size_t e = 0; e < tensor->count_elems; e++)
                length += (double)g[e] * g[e];
            length = sqrt(length);
            /* along the gradient, where the difference is largest beside fp32's rounding, and a
             * random part so that its direction counts */
            for (size_t e = 0; e < tensor->count_elems; e++) {
                double random = ((double)rand() / RAND_MAX - 0.5) / sqrt((double)tensor->count_elems);
                direction[e] = (float)((length > 0 ? g[e] / length : 0) + random);
                slope += (double)g[e] * direction[e];
            }
            const double h = 4e-3;
            for (size_t e = 0; e < tensor->count_elems; e++)
                x[e] += (float)h * direction[e];
            double above = loss_of(&f);
            for (size_t e = 0; e < tensor->count_elems; e++)
                x[e] -= 2 * (float)h * direction[e];
            double below = loss_of(&f), measured = (above - below) / (2 * h);
            for (size_t e = 0; e < tensor->count_elems; e++)
                x[e] += (float)h * direction[e];
            double error = fabs(measured - slope), scale = fmax(fabs(slope), 1e-2);
            CHECK(error <= 5e-3 * scale, "%s %d %s: slope %.6g, backward says %.6g", gpt_layer_kind_name(layer->kind), layer->block,
                  gpt_tensor_text(tensor->name), measured, slope);
        }
        start += layer->param_elems;
    }
    free(analytic);
    free(direction);
    fixture_finish(&f);
}

static void fused(void)
{
    compare(GPT_ATTENTION_FUSED, false, 0, false);
}

static void fused_dropout(void)
{
    compare(GPT_ATTENTION_FUSED, false, 0.2f, false);
}

static void unfused_dropout(void)
{
    compare(GPT_ATTENTION_UNFUSED, false, 0.2f, false);
}

static void tied_table(void)
{
    compare(GPT_ATTENTION_FUSED, true, 0.1f, false);
}

static void sum_of_logits(void)
{
    compare(GPT_ATTENTION_FUSED, false, 0.1f, true);
}

/* Backward with accumulate adds: twice the same micro-batch gives twice the gradient. */
static void accumulates(bool tied)
{
    struct fixture f;
    if (!fixture_init(&f, GPT_ATTENTION_FUSED, tied, 0.1f, false))
        return;
    loss_of(&f);
    float *once = malloc(f.stage->param_elems * sizeof(float));
    memcpy(once, f.grads, f.stage->param_elems * sizeof(float));
    f.adds = true;
    loss_of(&f);
    double error = 0, norm = 0;
    for (size_t i = 0; i < f.stage->param_elems; i++) {
        error += pow(f.grads[i] - 2.0 * once[i], 2);
        norm += pow(2.0 * once[i], 2);
    }
    CHECK(sqrt(error / norm) < 1e-6, "relative error %g", sqrt(error / norm));
    free(once);
    fixture_finish(&f);
}

static void accumulates_own_head(void)
{
    accumulates(false);
}

static void accumulates_tied_table(void)
{
    accumulates(true);
}

static uint64_t activation_bytes(struct fixture *f)
{
    struct dt_memory_usage memory;
    dt_memory_usage(f->device, &memory);
    return memory.device.current_bytes[DT_ACTIVATIONS] + memory.device.current_bytes[DT_WORKSPACE];
}

/* Input gradients of the whole stage first and weight gradients after them: the same gradients bit
 * for bit, and an empty stash. */
static void in_halves(void)
{
    for (int attention = GPT_ATTENTION_FUSED; attention <= GPT_ATTENTION_UNFUSED; attention++) {
        struct fixture f;
        if (!fixture_init(&f, (enum gpt_attention_kind)attention, true, 0.1f, false))
            return;
        uint64_t before = activation_bytes(&f);
        double loss = loss_of(&f);
        CHECK(activation_bytes(&f) == before, "%llu bytes left", (unsigned long long)(activation_bytes(&f) - before));
        size_t bytes = f.stage->param_elems * sizeof(float);
        float *whole = malloc(bytes);
        memcpy(whole, f.grads, bytes);
        f.halves = true;
        CHECK(loss_of(&f) == loss);
        CHECK(memcmp(f.grads, whole, bytes) == 0);
        CHECK(activation_bytes(&f) == before, "%llu bytes left", (unsigned long long)(activation_bytes(&f) - before));
        free(whole);
        fixture_finish(&f);
    }
}

/* Recomputation in backward, whole or in halves: the same gradients, and no recomputed arrays
 * between the passes. */
static void again(enum gpt_attention_kind attention, enum gpt_mlp_kind mlp, int what, const struct dt_layer_stash *bytes)
{
    struct fixture f;
    if (!fixture_init_of(&f, attention, mlp, true, 0.1f, false))
        return;
    uint64_t before = activation_bytes(&f);
    double loss = loss_of(&f);
    size_t size = f.stage->param_elems * sizeof(float);
    float *kept = malloc(size);
    memcpy(kept, f.grads, size);
    f.stage->parts[0].again = what;
    for (int halves = 0; halves < 2; halves++) {
        f.halves = halves;
        double off = fabs(loss_of(&f) - loss);
        for (size_t i = 0; i < f.stage->param_elems; i++)
            off = fmax(off, fabs(f.grads[i] - kept[i]));
        CHECK(off <= (mlp == GPT_MLP_SWIGLU ? 1e-6 : 0), "off by %g", off); /* two products are summed up as one is, or in another order */
        CHECK(activation_bytes(&f) == before, "%llu bytes left", (unsigned long long)(activation_bytes(&f) - before));
    }
    CHECK_OK(dt_stash_begin(f.stage, &f.stash, SAMPLES, 5, f.stream));
    for (int g = 0; g < 4; g++) /* the embedding, and the first block */
        CHECK_OK(gpt_forward(f.stage, g, &f.stash, (struct dt_loss_scales){1, 1}, f.stream));
    CHECK_OK(dt_stream_synchronize(f.stream));
    const struct dt_layer_stash *of_attention = &f.stash.layers[1], *up = &f.stash.layers[2];
    CHECK(of_attention->qkv.bytes && !of_attention->mixed.bytes == !bytes->mixed.bytes && !of_attention->lse.bytes == !bytes->lse.bytes &&
          !of_attention->weights.bytes == !bytes->weights.bytes);
    CHECK(!up->input.bytes == !bytes->input.bytes && !up->raised.bytes && (mlp == GPT_MLP_GELU || up->hidden.bytes == bytes->hidden.bytes));
    free(kept);
    fixture_finish(&f);
}

static void attention_again(void)
{
    struct dt_buffer some = {.bytes = 1};
    for (int attention = GPT_ATTENTION_FUSED; attention <= GPT_ATTENTION_UNFUSED; attention++) {
        again((enum gpt_attention_kind)attention, GPT_MLP_GELU, DT_AGAIN_WEIGHTS | DT_AGAIN_HEADS, &(struct dt_layer_stash){.input = some});
        again((enum gpt_attention_kind)attention, GPT_MLP_GELU, DT_AGAIN_WEIGHTS, &(struct dt_layer_stash){.input = some, .mixed = some});
    }
}

static void products_again(void)
{
    struct dt_buffer some = {.bytes = 1}, gate = {.bytes = (size_t)SAMPLES * 7 * 4 * 15 * sizeof(float)}; /* [M, f], f = 4 d */
    struct dt_layer_stash kept = {.mixed = some, .lse = some, .hidden = gate};
    again(GPT_ATTENTION_FUSED, GPT_MLP_GELU, DT_AGAIN_PRODUCTS, &kept);
    again(GPT_ATTENTION_FUSED, GPT_MLP_SWIGLU, DT_AGAIN_PRODUCTS, &kept);
}

/* Cheap arrays are kept instead of recomputed: the same loss and gradients bit for bit, whole or in
 * halves, with either kind of MLP, and more bytes between the passes. */
static void cheap_kept(void)
{
    for (int mlp = GPT_MLP_GELU; mlp <= GPT_MLP_RELU; mlp++) {
        struct fixture f;
        if (!fixture_init_of(&f, GPT_ATTENTION_FUSED, (enum gpt_mlp_kind)mlp, true, 0.1f, false))
            return;
        size_t bytes = f.stage->param_elems * sizeof(float), rows = (size_t)(SAMPLES * gpt_of(&f.model)->block_size);
        float *again = malloc(bytes);
        uint64_t before = activation_bytes(&f);
        double loss = loss_of(&f);
        memcpy(again, f.grads, bytes);
        for (int keep = 0; keep <= (DT_KEEP_NORMS | DT_KEEP_MLP); keep++)
            for (int halves = 0; halves < 2; halves++) {
                f.stage->keep = keep;
                f.halves = halves;
                CHECK(loss_of(&f) == loss, "keep %d", keep);
                CHECK(memcmp(f.grads, again, bytes) == 0, "keep %d", keep);
                CHECK(activation_bytes(&f) == before, "keep %d: %llu bytes left", keep,
                      (unsigned long long)(activation_bytes(&f) - before));
            }
        CHECK_OK(dt_stash_begin(f.stage, &f.stash, SAMPLES, 5, f.stream));
        for (int g = 0; g < 4; g++) /* the embedding, and the first block */
            CHECK_OK(gpt_forward(f.stage, g, &f.stash, (struct dt_loss_scales){1, 1}, f.stream));
        CHECK_OK(dt_stream_synchronize(f.stream));
        const struct dt_layer_stash *layers = f.stash.layers;
        CHECK(layers[1].normed.bytes == rows * (size_t)gpt_of(&f.model)->hidden * sizeof(float) &&
              layers[2].normed.bytes == layers[1].normed.bytes);
        CHECK(layers[3].active.bytes == rows * (size_t)gpt_ffn(&f.model) * sizeof(float));
        free(again);
        fixture_finish(&f);
    }
}

static const struct test_case cases[] = {
    {"fused attention", fused},
    {"fused attention, dropout", fused_dropout},
    {"unfused attention, dropout", unfused_dropout},
    {"the study's sum of logits", sum_of_logits},
    {"a table that is the head's weight, too", tied_table},
    {"accumulation", accumulates_own_head},
    {"accumulation in a tied table", accumulates_tied_table},
    {"weight gradients later than input gradients", in_halves},
    {"attention computed again", attention_again},
    {"every second product computed again", products_again},
    {"what is cheap to make again is kept", cheap_kept},
};
TEST_MAIN(cases)
