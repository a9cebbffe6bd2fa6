/* A stage: created, initialised; what it keeps of a micro-batch. */
#include "vision/stage.h"
#include "vision/data.h"

#include <stdlib.h>

static struct vision_stage *own(struct dt_stage *stage)
{
    return (struct vision_stage *)stage;
}

static const struct vision_stage *own_const(const struct dt_stage *stage)
{
    return (const struct vision_stage *)stage;
}

/* ---- a stage ---- */

static void add_group(struct vision_stage *s, const struct vision_layer *layer)
{
    struct dt_stage *base = &s->base;
    int g = base->group_count++;
    s->layers[g] = *layer;
    s->state_first[g + 1] = s->state_first[g] + layer->state_elems;
    base->groups[g] = (struct dt_group){.index = g,
                                        .first_layer = g,
                                        .layer_count = 1,
                                        .block = layer->block,
                                        .param_elems = layer->param_elems,
                                        .backward_reads_params = true};
    base->param_elems += layer->param_elems;
}

/* Layers and groups of one part, after those that the stage has. */
static void add_part(struct vision_stage *s, const struct dt_layers *from)
{
    struct dt_stage *base = &s->base;
    struct dt_part *part = &base->parts[base->part_count++];
    struct vision_layer layer;
    *part = (struct dt_part){.first_group = base->group_count,
                             .end_group = base->group_count + from->end - from->first,
                             .first = from->first == 0,
                             .last = from->end == vision_layer_count(base->model)};
    vision_first_layer(base->model, &layer);
    for (int i = 0; i < from->end; i++) {
        if (i > 0)
            vision_next_layer(base->model, &layer);
        if (i >= from->first)
            add_group(s, &layer);
    }
    base->first |= part->first;
    base->last |= part->last;
}

/* Means begin at 0, variances at 1. */
static dt_status create_state(struct vision_stage *s, struct dt_stream *stream)
{
    size_t elems = s->base.state_elems = s->state_first[s->base.group_count];
    s->initial_state = calloc(elems, sizeof *s->initial_state);
    DT_TRY(dt_allocated(s->initial_state, "no host memory for running statistics"));
    for (int g = 0; g < s->base.group_count; g++)
        for (const struct vision_node *n = s->layers[g].nodes; n < s->layers[g].nodes + s->layers[g].node_count; n++)
            for (int c = 0; n->op == VISION_NORM && c < n->shape.channels; c++)
                s->initial_state[s->state_first[g] + n->state_elem + (size_t)(n->shape.channels + c)] = 1;
    DT_TRY(dt_alloc(stream, DT_PARAMETERS, elems * sizeof(float), &s->base.state));
    return elems > 0 ? dt_copy_from_host(stream, s->base.state.data, s->initial_state, elems * sizeof(float)) : DT_OK;
}

static dt_status allocate(struct vision_stage *s, const struct dt_stage_options *options)
{
    size_t layers = 0, parts = 0;
    for (; parts < (size_t)options->part_count; parts++)
        layers += (size_t)(options->parts[parts].end - options->parts[parts].first);
    s->layers = calloc(layers, sizeof *s->layers);
    s->state_first = calloc(layers + 1, sizeof *s->state_first);
    s->base.groups = calloc(layers, sizeof *s->base.groups);
    s->base.parts = calloc(parts, sizeof *s->base.parts);
    bool all = s->layers && s->state_first && s->base.groups && s->base.parts;
    return all ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a stage of %zu layers", layers);
}

dt_status vision_stage_create(const struct dt_model *model, const struct dt_stage_options *options, struct dt_kernels *kernels,
                              struct dt_stream *stream, struct dt_stage **out)
{
    struct vision_stage *s = calloc(1, sizeof *s);
    *out = NULL;
    DT_TRY(dt_allocated(s, "no host memory for a stage"));
    *s = (struct vision_stage){
        .base = {.model = model, .kernels = kernels}, .keep = options->keep, .seed = options->seed, .sum_loss = options->sum_loss};
    dt_status status = allocate(s, options);
    for (int i = 0; status == DT_OK && i < options->part_count; i++)
        add_part(s, &options->parts[i]);
    DT_THEN(status, create_state(s, stream));
    DT_THEN(status, vision_exchange_init(&s->exchange, options, dt_stream_device(stream)));
    if (status == DT_OK && s->base.last)
        status = dt_alloc(stream, DT_ACTIVATIONS, sizeof(double), &s->base.loss);
    if (status < 0)
        vision_stage_destroy(&s->base, stream);
    else
        *out = &s->base;
    return status;
}

void vision_stage_destroy(struct dt_stage *stage, struct dt_stream *stream)
{
    if (!stage)
        return;
    dt_free(stream, &stage->loss);
    dt_free(stream, &stage->state);
    vision_exchange_finish(&own(stage)->exchange);
    free(own(stage)->initial_state);
    free(own(stage)->state_first);
    free(own(stage)->layers);
    free(stage->parts);
    free(stage->groups);
    free(stage);
}

size_t vision_boundary_elems(const struct dt_stage *stage, int part, bool output, size_t samples)
{
    const struct dt_part *p = &stage->parts[part];
    const struct vision_layer *layers = own_const(stage)->layers;
    return samples * (output ? vision_output_elems(&layers[p->end_group - 1]) : vision_input_elems(&layers[p->first_group]));
}

/* Write elements [from, until) of a tensor to `to`. */
static dt_status init_tensor(const struct vision_stage *s, const struct vision_tensor *tensor, size_t from, size_t until, void *to,
                             struct dt_stream *stream)
{
    struct vision_kernels *k = (struct vision_kernels *)s->base.kernels;
    struct dt_normal normal = {.to = to,
                               .count = until - from,
                               .seed = s->seed,
                               .first_element = from,
                               .tensor_id = tensor->id,
                               .standard_deviation = tensor->scale};
    struct vision_uniform uniform = {
        .to = to, .count = until - from, .seed = s->seed, .first_element = from, .tensor_id = tensor->id, .bound = tensor->scale};
    switch (tensor->init) {
    case VISION_INIT_NORMAL: return dt_kernels_normal(&k->base, stream, &normal);
    case VISION_INIT_UNIFORM: return k->table->uniform(k, stream, &uniform);
    case VISION_INIT_ZERO: return dt_kernels_fill(&k->base, stream, to, until - from, 0);
    case VISION_INIT_ONE: break;
    }
    return dt_kernels_fill(&k->base, stream, to, until - from, 1);
}

dt_status vision_init_params(const struct dt_stage *stage, const struct dt_group *group, size_t first, size_t count, void *to,
                             struct dt_stream *stream)
{
    const struct vision_layer *layer = &own_const(stage)->layers[group->index];
    size_t element_bytes = dt_dtype_bytes(stage->model->dtype), end = first + count;
    for (const struct vision_tensor *t = layer->tensors; t < layer->tensors + layer->tensor_count; t++) {
        size_t from = first > t->first_elem ? first : t->first_elem;
        size_t until = end < t->first_elem + t->count ? end : t->first_elem + t->count;
        if (from < until) /* otherwise another rank's part */
            DT_TRY(init_tensor(own_const(stage), t, from - t->first_elem, until - t->first_elem,
                               (char *)to + (from - first) * element_bytes, stream));
    }
    return DT_OK;
}

/* ---- a stash ---- */

dt_status vision_stash_create(const struct dt_stage *stage, int part, struct dt_stash *out)
{
    *out = (struct dt_stash){.part = part, .layers = calloc((size_t)stage->group_count, sizeof *out->layers)};
    return out->layers ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the stash of %d layers", stage->group_count);
}

static void free_layer_stash(struct dt_layer_stash *kept, struct dt_stream *stream)
{
    for (int n = 0; n < VISION_MOST_NODES; n++) {
        dt_free(stream, &kept->values[n]);
        dt_free(stream, &kept->besides[n]);
        dt_free(stream, &kept->gradients[n]);
    }
}

void vision_stash_forget(const struct dt_stage *stage, struct dt_stash *stash, int first, int end, struct dt_stream *stream,
                         struct dt_buffer *input)
{
    *input = stash->layers[first].values[0];
    stash->layers[first].values[0] = (struct dt_buffer){0};
    for (int g = first; g < end; g++)
        free_layer_stash(&stash->layers[g], stream);
}

void vision_stash_destroy(const struct dt_stage *stage, struct dt_stash *stash, struct dt_stream *stream)
{
    for (int g = 0; stash->layers && g < stage->group_count; g++)
        free_layer_stash(&stash->layers[g], stream);
    vision_stash_end(stash, stream);
    dt_free(stream, &stash->x);
    dt_free(stream, &stash->dx);
    free(stash->layers);
    stash->layers = NULL;
}

/* The step's samples are in the host's memory: bytes of images, of which x is made, and labels. */
static dt_status take_batch(const struct dt_stage *stage, struct dt_stash *stash, struct vision_images *a, struct dt_stream *stream)
{
    struct vision_kernels *k = (struct vision_kernels *)stage->kernels;
    size_t image_bytes, label_bytes;
    struct dt_buffer pixels;
    vision_sample_bytes(stage->model, &image_bytes, &label_bytes);
    if (a->labels)
        DT_TRY(dt_copy_from_host(stream, a->labels, (const char *)stage->batch.targets + stash->first_sample * label_bytes,
                                 stash->samples * label_bytes));
    a->labels = NULL;
    if (!a->images)
        return DT_OK;
    DT_TRY(dt_alloc(stream, DT_ACTIVATIONS, stash->samples * image_bytes, &pixels));
    DT_TRY(dt_copy_from_host(stream, pixels.data, (const char *)stage->batch.inputs + stash->first_sample * image_bytes,
                             stash->samples * image_bytes));
    a->pixels = pixels.data;
    a->image_bytes = image_bytes;
    DT_TRY(k->table->images(k, stream, a));
    dt_free(stream, &pixels);
    return DT_OK;
}

/* The first part reads images, which are its x; the last one labels. */
dt_status vision_stash_begin(const struct dt_stage *stage, struct dt_stash *stash, size_t samples, uint32_t first_sample,
                             struct dt_stream *stream)
{
    struct vision_kernels *k = (struct vision_kernels *)stage->kernels;
    const struct dt_part *part = &stage->parts[stash->part];
    const struct vision_model *m = vision_of(stage->model);
    size_t labels = vision_labels_of_image(stage->model);
    stash->samples = samples;
    stash->first_sample = first_sample;
    if (!part->first && !part->last)
        return DT_OK;
    if (part->first)
        DT_TRY(dt_alloc(stream, DT_ACTIVATIONS, vision_boundary_elems(stage, stash->part, false, samples) * dt_dtype_bytes(k->base.dtype),
                        &stash->x));
    if (part->last)
        DT_TRY(dt_alloc(stream, DT_ACTIVATIONS, samples * labels * sizeof(int32_t), &stash->targets));
    struct vision_images a = {
        .images = part->first ? stash->x.data : NULL,
        .labels = stash->targets.data,
        .samples = samples,
        .labels_of_image = labels,
        .size = m->image_size,
        .classes = m->classes,
        .seed = own_const(stage)->seed,
        .first_sample = first_sample,
    };
    return stage->batch.inputs ? take_batch(stage, stash, &a, stream) : k->table->images(k, stream, &a);
}

void vision_stash_end(struct dt_stash *stash, struct dt_stream *stream)
{
    dt_free(stream, &stash->inputs);
    dt_free(stream, &stash->targets);
}
