/* Trains a small model for some steps and writes everything that another program needs to do the
 * same and compare: initial weights, tokens, the loss of each step and the gradient of every
 * parameter. Usage: peer_steps CONFIG STEPS OUT
 *
 * OUT begins with a line of JSON: the tensors in the order of their elements, and for each step its
 * tokens (of a decoder), targets and loss. fp32 numbers follow: all parameters as they are before
 * the first step, all gradients of each step, and (of a convolutional network) the images of each
 * step; the model's dtype widened. The config's model, device, batch_size, seed and learning rate
 * count; updates are SGD's. */
#include "gpt/family.h"
#include "gpt/layer.h"
#include "gpt/model.h"
#include "gpt/stage.h"
#include "lib/model/stage.h"
#include "schedules/config/parse.h"
#include "vision/layers.h"

#include <stdio.h>
#include <stdlib.h>

struct run {
    const struct experiment *e;
    const struct dt_model_family *family;
    size_t tokens, targets, pixels; /* numbers of a step */
    struct dt_device *device;
    struct dt_stream *stream;
    struct dt_kernels *kernels;
    struct dt_stage *stage;
    struct dt_stash stash;
    struct dt_buffer params, grads; /* the whole model's */
    size_t element_bytes;
};

static dt_status open_run(struct run *r)
{
    const struct dt_model *model = &r->e->model;
    struct dt_device_options options = {.threads = 1, .local_size = 1};
    struct dt_layers all = {.end = dt_layer_count(model)};
    struct dt_stage_options stage = {.parts = &all, .part_count = 1, .unit = DT_UNIT_LINEAR, .seed = r->e->seed};
    size_t offset = 0;
    r->element_bytes = dt_dtype_bytes(model->dtype);
    DT_TRY(dt_device_create(r->e->device, &options, &r->device));
    DT_TRY(dt_stream_create(r->device, "compute", &r->stream));
    DT_TRY(dt_kernels_create(r->family->kernels, model, r->device, &r->kernels));
    DT_TRY(dt_stage_create(model, &stage, r->kernels, r->stream, &r->stage));
    DT_TRY(dt_stash_create(r->stage, 0, &r->stash));
    DT_TRY(dt_alloc(r->stream, DT_WORKSPACE, r->stage->param_elems * r->element_bytes, &r->params));
    DT_TRY(dt_alloc(r->stream, DT_WORKSPACE, r->stage->param_elems * r->element_bytes, &r->grads));
    for (int g = 0; g < r->stage->group_count; g++) {
        struct dt_group *group = &r->stage->groups[g];
        group->params = (char *)r->params.data + offset;
        group->grads = (char *)r->grads.data + offset;
        DT_TRY(dt_init_params(r->stage, group, 0, group->param_elems, group->params, r->stream));
        offset += group->param_elems * r->element_bytes;
    }
    return dt_stream_synchronize(r->stream);
}

static void close_run(struct run *r)
{
    if (!r->stage)
        return; /* the process ends */
    dt_free(r->stream, &r->params);
    dt_free(r->stream, &r->grads);
    dt_stash_destroy(r->stage, &r->stash, r->stream);
    dt_stage_destroy(r->stage, r->stream);
    dt_kernels_destroy(r->kernels);
    dt_stream_destroy(r->stream);
    dt_device_destroy(r->device);
}

/* Results of a step. */
struct result {
    int32_t *tokens, *targets;
    double loss;
    float *grads, *images;
};

/* Copy a buffer from the device, as fp32. */
static dt_status fetch(struct run *r, const struct dt_buffer *from, size_t count, float *to)
{
    DT_TRY(dt_copy_to_host(r->stream, to, from->data, count * r->element_bytes));
    DT_TRY(dt_stream_synchronize(r->stream));
    const uint16_t *half = (const uint16_t *)to;
    for (size_t i = count; i-- > 0 && r->element_bytes == 2;) {
        uint16_t bits = half[i]; /* read before this place is written, as it lies below */
        to[i] = r->e->model.dtype == DT_BF16 ? dt_bf16_to_fp32(bits) : dt_fp16_to_fp32(bits);
    }
    return DT_OK;
}

static dt_status train_step(struct run *r, int step, struct result *out)
{
    size_t samples = (size_t)r->e->batch_size;
    float scale = 1 / (float)r->targets;
    DT_TRY(dt_kernels_begin_step(r->kernels, r->stream, (uint32_t)((size_t)step * samples), step + 1));
    DT_TRY(dt_stash_begin(r->stage, &r->stash, samples, 0, r->stream));
    if (r->tokens > 0)
        DT_TRY(dt_copy_to_host(r->stream, out->tokens, r->stash.inputs.data, r->tokens * sizeof *out->tokens));
    if (r->pixels > 0)
        DT_TRY(fetch(r, &r->stash.x, r->pixels, out->images));
    DT_TRY(dt_copy_to_host(r->stream, out->targets, r->stash.targets.data, r->targets * sizeof *out->targets));
    DT_TRY(dt_zero(r->stream, r->stage->loss.data, sizeof out->loss));
    for (int g = 0; g < r->stage->group_count; g++)
        DT_TRY(r->family->forward(r->stage, g, &r->stash, (struct dt_loss_scales){scale, scale}, r->stream));
    for (int g = r->stage->group_count - 1; g >= 0; g--) {
        DT_TRY(r->family->backward(r->stage, g, &r->stash, DT_BACKWARD_WHOLE, r->stream));
        if (r->stage->groups[g].reads_first) /* a tied head has written to the table's gradient */
            r->stage->groups[0].accumulate = true;
    }
    r->stage->groups[0].accumulate = false;
    dt_stash_end(&r->stash, r->stream);
    DT_TRY(dt_copy_to_host(r->stream, &out->loss, r->stage->loss.data, sizeof out->loss));
    DT_TRY(fetch(r, &r->grads, r->stage->param_elems, out->grads));
    struct dt_update update = {.params = r->params.data,
                               .grads = r->grads.data,
                               .count = r->stage->param_elems,
                               .learning_rate = (float)r->e->optimizer.learning_rate,
                               .gradient_scale = 1};
    DT_TRY(dt_kernels_update(r->kernels, r->stream, &update));
    return dt_stream_synchronize(r->stream);
}

/* Print a network's tensors. A convolution's weight is [out, kernel, kernel, in]; other tensors
 * have one number for each channel. */
static void print_network(FILE *file, const struct dt_model *model)
{
    struct vision_layer layer;
    const char *comma = "";
    for (int i = 0; i < vision_layer_count(model); i++) {
        vision_describe_layer(model, i, &layer);
        for (const struct vision_node *n = layer.nodes; n < layer.nodes + layer.node_count; n++) {
            if (n->op == VISION_CONV)
                fprintf(file, "%s{\"shape\": [%d, %d, %d, %d]}", comma, n->shape.channels, n->window.kernel, n->window.kernel,
                        layer.nodes[n->inputs[0]].shape.channels);
            for (int j = 0; j < (n->op == VISION_NORM ? 2 : n->op == VISION_CONV && n->bias); j++)
                fprintf(file, ", {\"shape\": [%d]}", n->shape.channels);
            comma = layer.index == 0 && n == layer.nodes ? "" : ", ";
        }
    }
}

static void print_tensors(FILE *file, const struct gpt_stage *stage)
{
    const char *comma = "";
    for (int i = 0; i < stage->base.layer_count; i++)
        for (int j = 0; j < stage->layers[i].tensor_count; j++, comma = ", ")
            fprintf(file, "%s{\"layer\": \"%s\", \"block\": %d, \"name\": \"%s\", \"count\": %zu}", comma,
                    gpt_layer_kind_name(stage->layers[i].kind), stage->layers[i].block, gpt_tensor_text(stage->layers[i].tensors[j].name),
                    stage->layers[i].tensors[j].count_elems);
}

static void print_numbers(FILE *file, const int32_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fprintf(file, "%s%d", i ? ", " : "", (int)numbers[i]);
}

static dt_status write_out(const struct run *r, const char *path, int steps, const float *params, const struct result *results)
{
    size_t count = r->stage->param_elems;
    FILE *file = fopen(path, "wb");
    if (!file)
        return dt_fail(DT_ERR_IO, "%s: cannot be written", path);
    fprintf(file, "{\"tensors\": [");
    if (r->family == &gpt_family)
        print_tensors(file, (const struct gpt_stage *)r->stage);
    else
        print_network(file, &r->e->model);
    fprintf(file, "], \"steps\": [");
    for (int step = 0; step < steps; step++) {
        fprintf(file, "%s{\"loss\": %.17g, \"tokens\": [", step ? ", " : "", results[step].loss);
        print_numbers(file, results[step].tokens, r->tokens);
        fprintf(file, "], \"targets\": [");
        print_numbers(file, results[step].targets, r->targets);
        fprintf(file, "]}");
    }
    fprintf(file, "]}\n");
    fwrite(params, sizeof *params, count, file);
    for (int step = 0; step < steps; step++)
        fwrite(results[step].grads, sizeof *params, count, file);
    for (int step = 0; step < steps; step++)
        fwrite(results[step].images, sizeof *params, r->pixels, file);
    return fclose(file) ? dt_fail(DT_ERR_IO, "%s: could not be written", path) : DT_OK;
}

static dt_status train(struct run *r, int steps, const char *path)
{
    DT_TRY(open_run(r));
    size_t count = r->stage->param_elems, samples = (size_t)r->e->batch_size;
    bool images = r->family != &gpt_family;
    r->targets = samples * (size_t)dt_model_facts(&r->e->model).loss_terms;
    r->tokens = images ? 0 : r->targets;
    r->pixels = images ? r->family->boundary_elems(r->stage, 0, false, samples) : 0;
    float *floats = calloc((size_t)(steps + 1) * count + (size_t)steps * r->pixels, sizeof *floats);
    float *pixels = floats + (size_t)(steps + 1) * count;
    int32_t *tokens = calloc((size_t)steps * 2 * r->targets, sizeof *tokens);
    struct result *results = calloc((size_t)steps, sizeof *results);
    dt_status status =
        floats && tokens && results ? fetch(r, &r->params, count, floats) : dt_fail(DT_ERR_HOST_MEMORY, "no memory for results");
    for (int step = 0; step < steps && status >= 0; step++) {
        results[step] = (struct result){.tokens = tokens + 2 * (size_t)step * r->targets,
                                        .targets = tokens + (2 * (size_t)step + 1) * r->targets,
                                        .images = pixels + (size_t)step * r->pixels,
                                        .grads = floats + (size_t)(step + 1) * count};
        status = train_step(r, step, &results[step]);
    }
    if (status >= 0)
        status = write_out(r, path, steps, floats, results);
    free(floats);
    free(tokens);
    free(results);
    return status;
}

int main(int argc, char **argv)
{
    struct experiment_list *experiments;
    int steps = argc == 4 ? atoi(argv[2]) : 0;
    if (steps < 1) {
        fprintf(stderr, "usage: peer_steps CONFIG STEPS OUT\n");
        return 2;
    }
    dt_status status = experiments_read(argv[1], NULL, 0, false, &experiments);
    if (status >= 0) {
        struct run r = {.e = &experiments->all[0]};
        r.family = r.e->model.family;
        status = train(&r, steps, argv[3]);
        close_run(&r);
        experiment_list_destroy(experiments);
    }
    if (status < 0)
        fprintf(stderr, "peer_steps: %s\n", dt_error_message());
    return status < 0;
}
