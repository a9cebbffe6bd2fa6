/* Adds a family of models to dtbench without changing its sources: perceptrons on random vectors.
 * They differ from decoders: no tokens and no embedding, and two sizes of activations between
 * layers. The family has its own keys, its own kernels for cpu, and their costs for sim.
 * test_made_up.py tries it.
 *
 * Layer i of `depth`: y = tanh(W x), W [out, in]; widths alternate between `width` and twice of it.
 * The loss is the mean over samples of half the squared distance to a random target. fp32 alone. */
#include "lib/cost/cost.h"
#include "lib/device/cpu/device.h"
#include "lib/device/sim.h"
#include "lib/kernels/backend.h"
#include "schedules/config/families.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct __attribute__((may_alias)) toy {
    int width, depth;
};

struct dt_layer_stash {
    struct dt_buffer input, dout;
};

static const struct toy *toy_of(const struct dt_model *model)
{
    return dt_model_own(model);
}

/* The number of features between layer i - 1 and layer i. */
static size_t width_at(const struct dt_model *model, int i)
{
    return (size_t)toy_of(model)->width * (i % 2 ? 2 : 1);
}

static size_t weights_of(const struct dt_model *model, int i)
{
    return width_at(model, i) * width_at(model, i + 1);
}

/* ---- its description ---- */

#define AT(member) .offset = offsetof(struct toy, member), .size = sizeof(((struct toy *)0)->member)

static bool without_preset(const void *source)
{
    return !*((const struct dt_model *)source)->preset;
}

static const struct dt_field keys[] = {
    {"model.width", DT_FIELD_INT, AT(width), .min = 1, .max = 4096, .matters = without_preset, .description = "Features of a vector."},
    {"model.depth", DT_FIELD_INT, AT(depth), .min = 1, .max = 4096, .matters = without_preset, .description = "Layers."},
};
static const char *const titles[] = {"width", "depth"}, *const shape[] = {"model.width", "model.depth", NULL};
static const struct dt_model_preset presets[] = {{"ToySmall", &(const struct toy){16, 6}, true}, {0}};

static dt_status check_model(struct dt_model *model)
{
    return model->dtype == DT_FP32 ? DT_OK : dt_fail(DT_ERR_INVALID, "model.dtype: perceptrons compute fp32 alone");
}

static void facts(const struct dt_model *model, struct dt_model_facts *out)
{
    const struct toy *toy = toy_of(model);
    *out = (struct dt_model_facts){.blocks = toy->depth,
                                   .units = 1,
                                   .loss_terms = 1,
                                   .outputs = (double)width_at(model, toy->depth),
                                   .least_boundary_elems = toy->width};
}

static void describe(const struct dt_model *model, struct dt_model_texts *out)
{
    snprintf(out->label, sizeof out->label, "%dx%d", toy_of(model)->depth, toy_of(model)->width);
    snprintf(out->sizes, sizeof out->sizes, "%d layers of width %d", toy_of(model)->depth, toy_of(model)->width);
    snprintf(out->sample, sizeof out->sample, "a vector a sample");
    out->flops_formula = "3 * 2 * N per vector, N weights";
}

static void layers_size(const struct dt_model *model, struct dt_layers layers, struct dt_layers_size *out)
{
    *out = (struct dt_layers_size){.tensors = layers.end - layers.first};
    for (int i = layers.first; i < layers.end; i++)
        out->parameters += weights_of(model, i);
    out->forward_flops = 2 * (int64_t)out->parameters;
}

/* ---- kernels ---- */

enum kind { FORWARD, LOSS, INPUT_GRADIENT, WEIGHT_GRADIENT };

struct task {
    enum kind kind;
    float *to, *x, *w, *dy, *target;
    double *loss;
    size_t rows, in, out;
    float scale, loss_scale;
    bool accumulate;
};

/* tanh(W x) of one row's output `o`. */
static float activated(const struct task *t, size_t row, size_t o)
{
    float sum = 0;
    for (size_t i = 0; i < t->in; i++)
        sum += t->w[o * t->in + i] * t->x[row * t->in + i];
    return tanhf(sum);
}

/* The gradient before the activation. */
static float inner(const struct task *t, size_t row, size_t o)
{
    float y = activated(t, row, o);
    return t->dy[row * t->out + o] * (1 - y * y);
}

static dt_status run(void *arguments)
{
    const struct task *t = arguments;
    for (size_t i = 0; t->kind == LOSS && i < t->rows * t->out; i++) {
        float off = t->to[i] - t->target[i];
        *t->loss += 0.5 * (double)(off * off) * (double)t->loss_scale;
        t->to[i] = off * t->scale;
    }
    for (size_t r = 0; t->kind == FORWARD && r < t->rows; r++)
        for (size_t o = 0; o < t->out; o++)
            t->to[r * t->out + o] = activated(t, r, o);
    if (t->kind == INPUT_GRADIENT)
        memset(t->to, 0, t->rows * t->in * sizeof *t->to);
    if (t->kind == WEIGHT_GRADIENT && !t->accumulate)
        memset(t->to, 0, t->in * t->out * sizeof *t->to);
    for (size_t r = 0; (t->kind == INPUT_GRADIENT || t->kind == WEIGHT_GRADIENT) && r < t->rows; r++)
        for (size_t o = 0; o < t->out; o++) {
            float g = inner(t, r, o);
            for (size_t i = 0; i < t->in; i++)
                if (t->kind == INPUT_GRADIENT)
                    t->to[r * t->in + i] += g * t->w[o * t->in + i];
                else
                    t->to[o * t->in + i] += g * t->x[r * t->in + i];
        }
    return DT_OK;
}

/* On sim: two products [rows, in] x [in, out] at most, or memory alone. */
static dt_status queue(const struct dt_kernels *k, struct dt_stream *stream, const char *label, const struct task *t)
{
    if (!dt_device_kind_of(k->device)->simulated)
        return dt_cpu_submit(stream, label, run, t, sizeof *t);
    const struct dt_costs *costs = dt_sim_costs_of(k->device);
    if (!costs)
        return DT_OK;
    double seconds = t->in > 0 ? dt_cost_product_s(costs, 1, (double)t->rows, (double)t->out, (double)t->in, t->in, t->in, sizeof(float))
                               : dt_cost_memory_s(costs, 1, (double)t->rows * sizeof(float));
    return dt_sim_work(stream, 1, costs->profile.host.launch_s, seconds, label);
}

/* ---- a rank's part ---- */

static size_t boundary_elems(const struct dt_stage *stage, int part, bool output, size_t samples)
{
    const struct dt_part *p = &stage->parts[part];
    return samples * width_at(stage->model, output ? stage->groups[p->end_group - 1].block + 1 : stage->groups[p->first_group].block);
}

static dt_status draw(const struct dt_stage *stage, struct dt_stream *stream, void *to, size_t count, uint32_t number, uint64_t first,
                      float scale)
{
    struct dt_initial normal = {.to = to, .count = count, .seed = stage->seed, .tensor_id = number, .first_element = first, .scale = scale};
    return dt_kernels_initialise(stage->kernels, stream, &normal);
}

static bool tensor(const struct dt_stage *stage, const struct dt_group *group, int index, struct dt_model_tensor *out)
{
    int layer = group->block;
    size_t in = width_at(stage->model, layer), out_features = width_at(stage->model, layer + 1), count = in * out_features;
    *out = (struct dt_model_tensor){.count_elems = count,
                                    .run_elems = count,
                                    .stride_elems = count,
                                    .rows = out_features,
                                    .columns = in,
                                    .id = 2 + (uint32_t)layer,
                                    .scale = 1 / sqrtf((float)in)};
    snprintf(out->name, sizeof out->name, "layers.%d.weight", layer);
    return index == 0;
}

static dt_status begin_samples(const struct dt_stage *stage, struct dt_stash *stash, struct dt_stream *stream)
{
    const struct dt_part *part = &stage->parts[stash->part];
    size_t ends[] = {width_at(stage->model, 0), width_at(stage->model, toy_of(stage->model)->depth)};
    uint64_t sample = (uint64_t)stage->kernels->first_sample + stash->first_sample;
    size_t samples = stash->samples;
    if (part->first) {
        DT_TRY(dt_alloc(stream, DT_ACTIVATIONS, samples * ends[0] * sizeof(float), &stash->x));
        DT_TRY(draw(stage, stream, stash->x.data, samples * ends[0], 0, sample * ends[0], 1));
    }
    if (!part->last)
        return DT_OK;
    DT_TRY(dt_alloc(stream, DT_ACTIVATIONS, samples * ends[1] * sizeof(float), &stash->targets));
    return draw(stage, stream, stash->targets.data, samples * ends[1], 1, sample * ends[1], 0.5f);
}

static struct task task_of(const struct dt_stage *stage, int g, const struct dt_stash *stash, enum kind kind)
{
    int layer = stage->groups[g].block;
    return (struct task){.kind = kind,
                         .x = stash->layers[g].input.data,
                         .w = stage->groups[g].params,
                         .rows = stash->samples,
                         .in = width_at(stage->model, layer),
                         .out = width_at(stage->model, layer + 1)};
}

/* Move x to the kept input; ends_here: the output is not needed. */
static dt_status recompute(struct dt_stage *stage, int g, struct dt_stash *stash, bool ends_here, struct dt_stream *stream)
{
    stash->layers[g].input = stash->x;
    stash->x = (struct dt_buffer){0};
    struct task t = task_of(stage, g, stash, FORWARD);
    if (ends_here)
        return DT_OK;
    DT_TRY(dt_alloc(stream, DT_ACTIVATIONS, t.rows * t.out * sizeof(float), &stash->x));
    t.to = stash->x.data;
    return queue(stage->kernels, stream, "forward", &t);
}

static dt_status forward(struct dt_stage *stage, int g, struct dt_stash *stash, struct dt_loss_scales scales, struct dt_stream *stream)
{
    DT_TRY(recompute(stage, g, stash, false, stream));
    if (stage->groups[g].block != toy_of(stage->model)->depth - 1)
        return DT_OK;
    stash->dx = stash->x;
    stash->x = (struct dt_buffer){0};
    struct task t = task_of(stage, g, stash, LOSS);
    t.in = 0;
    t.to = stash->dx.data;
    t.target = stash->targets.data;
    t.loss = stage->loss.data;
    t.scale = scales.gradient;
    t.loss_scale = scales.loss;
    return queue(stage->kernels, stream, "loss", &t);
}

static dt_status backward(struct dt_stage *stage, int g, struct dt_stash *stash, enum dt_backward part, struct dt_stream *stream)
{
    struct dt_layer_stash *kept = &stash->layers[g];
    struct task t = task_of(stage, g, stash, INPUT_GRADIENT);
    if (part & DT_BACKWARD_INPUT) {
        kept->dout = stash->dx;
        stash->dx = (struct dt_buffer){0};
        t.dy = kept->dout.data;
        if (stage->groups[g].block > 0) {
            DT_TRY(dt_alloc(stream, DT_ACTIVATIONS, t.rows * t.in * sizeof(float), &stash->dx));
            t.to = stash->dx.data;
            DT_TRY(queue(stage->kernels, stream, "input gradient", &t));
        }
    }
    if (!(part & DT_BACKWARD_WEIGHTS))
        return DT_OK;
    t.kind = WEIGHT_GRADIENT;
    t.dy = kept->dout.data;
    t.to = stage->groups[g].grads;
    t.accumulate = stage->groups[g].accumulate;
    DT_TRY(queue(stage->kernels, stream, "weight gradient", &t));
    dt_free(stream, &kept->input);
    dt_free(stream, &kept->dout);
    return DT_OK;
}

static const struct dt_model_family toys = {
    .name = "toy",
    .presets = presets,
    .keys = keys,
    .key_count = 2,
    .sizes = 2,
    .first_keys = 2,
    .titles = titles,
    .shape = shape,
    .own_bytes = sizeof(struct toy),
    .unit = "vector",
    .loss_spread = 1,
    .check_model = check_model,
    .facts = facts,
    .describe = describe,
    .blocks_at = offsetof(struct toy, depth),
    .block_layers = 1,
    .layers_size = layers_size,
    .boundary_elems = boundary_elems,
    .tensor = tensor,
    .stash_bytes = sizeof(struct dt_layer_stash),
    .stash_buffers = sizeof(struct dt_layer_stash) / sizeof(struct dt_buffer),
    .begin_samples = begin_samples,
    .forward = forward,
    .backward = backward,
    .recompute = recompute,
};

const struct dt_model_family *model_family_more(int index)
{
    return index == 0 ? &toys : NULL;
}
