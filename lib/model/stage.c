#include "lib/model/stage.h"

#include <stdlib.h>

/* ---- kernels ---- */

dt_status dt_kernels_create(const struct dt_own_kernels *own, const struct dt_model *model, struct dt_device *device,
                            struct dt_kernels **out)
{
    DT_DESTROYED(dt_kernels_destroy) struct dt_kernels *k = calloc(1, own ? own->bytes : sizeof *k);
    *out = NULL;
    DT_TRY(dt_allocated(k, "no host memory for kernels"));
    DT_TRY(dt_kernels_init(k, device, model->dtype));
    k->own = own;
    if (own)
        DT_TRY(own->begin(k, model));
    *out = DT_PASSED_ON(k);
    return DT_OK;
}

void dt_kernels_destroy(struct dt_kernels *k)
{
    if (!k)
        return;
    if (k->own)
        k->own->end(k);
    dt_kernels_finish(k);
    free(k);
}

/* ---- a stage ---- */

static void add_group(struct dt_stage *s, const struct dt_part *part, struct dt_blocks blocks, int first, int end)
{
    const struct dt_model *model = s->model;
    struct dt_group *group = &s->groups[s->group_count];
    struct dt_layers_size size;
    *group =
        (struct dt_group){.index = s->group_count++,
                          .first_layer = s->layer_count,
                          .layer_count = end - first,
                          .model_layer = first,
                          .block = first >= blocks.first && first < blocks.end ? (first - blocks.first) / model->family->block_layers : -1,
                          .backward_reads_params = true};
    s->layer_count += group->layer_count;
    if (model->family->describe_group) {
        model->family->describe_group(s, part, group);
    } else {
        model->family->layers_size(model, (struct dt_layers){.first = first, .end = end}, &size);
        group->param_elems = size.parameters;
    }
    s->param_elems += group->param_elems;
}

/* Add the groups of one part after those that the stage has. */
static void add_part(struct dt_stage *s, const struct dt_layers *from, enum dt_unit unit)
{
    struct dt_blocks blocks = dt_blocks_of(s->model);
    struct dt_part *part = &s->parts[s->part_count++];
    *part = (struct dt_part){
        .first_group = s->group_count, .first = from->first == 0, .last = from->end == blocks.layers, .again = from->again};
    for (int layer = from->first, end; layer < from->end; layer = end) {
        end = dt_unit_end(s->model->family, blocks, layer, unit);
        end = end < from->end ? end : from->end;
        add_group(s, part, blocks, layer, end);
    }
    part->end_group = s->group_count;
    s->first |= part->first;
    s->last |= part->last;
}

static dt_status fill(struct dt_stage *s, const struct dt_stage_options *options, struct dt_stream *stream)
{
    size_t layers = 0;
    for (int i = 0; i < options->part_count; i++)
        layers += (size_t)(options->parts[i].end - options->parts[i].first);
    s->groups = calloc(layers, sizeof *s->groups);
    s->parts = calloc((size_t)options->part_count, sizeof *s->parts);
    DT_TRY(dt_allocated(s->groups && s->parts, "no host memory for a stage of %zu layers", layers));
    if (s->model->family->stage_begin)
        DT_TRY(s->model->family->stage_begin(s, options, (int)layers, stream));
    for (int i = 0; i < options->part_count; i++)
        add_part(s, &options->parts[i], options->unit);
    return s->last ? dt_alloc(stream, DT_ACTIVATIONS, sizeof(double), &s->loss) : DT_OK;
}

dt_status dt_stage_create(const struct dt_model *model, const struct dt_stage_options *options, struct dt_kernels *kernels,
                          struct dt_stream *stream, struct dt_stage **out)
{
    size_t bytes = model->family->stage_bytes ? model->family->stage_bytes : sizeof(struct dt_stage);
    struct dt_stage *s = calloc(1, bytes);
    *out = NULL;
    DT_TRY(dt_allocated(s, "no host memory for a stage"));
    *s = (struct dt_stage){.model = model,
                           .kernels = kernels,
                           .keep = options->keep,
                           .separate_kernels = options->separate_kernels,
                           .seed = options->seed,
                           .sum_loss = options->sum_loss};
    dt_status status = fill(s, options, stream);
    if (status < 0)
        dt_stage_destroy(s, stream);
    else
        *out = s;
    return status;
}

void dt_stage_destroy(struct dt_stage *s, struct dt_stream *stream)
{
    if (!s)
        return;
    dt_free(stream, &s->loss);
    dt_free(stream, &s->state);
    if (s->model->family->stage_end)
        s->model->family->stage_end(s);
    free(s->parts);
    free(s->groups);
    free(s);
}

/* Elements [from, until) of the tensor. */
static struct dt_initial initial_values(const struct dt_model_tensor *t, size_t from, size_t until, void *to, uint64_t seed)
{
    return (struct dt_initial){.to = to,
                               .count = until - from,
                               .seed = seed,
                               .first_element = t->first_elem + from / t->run_elems * t->stride_elems,
                               .run_elems = t->run_elems,
                               .run_done = from % t->run_elems,
                               .stride_elems = t->stride_elems,
                               .tensor_id = t->id,
                               .init = t->init,
                               .scale = t->scale};
}

dt_status dt_init_params(const struct dt_stage *stage, const struct dt_group *group, size_t first, size_t count, void *to,
                         struct dt_stream *stream)
{
    size_t element_bytes = dt_dtype_bytes(stage->model->dtype), end = first + count;
    bool computes = !dt_device_kind_of(stage->kernels->device)->simulated;
    struct dt_model_tensor t;
    for (int i = 0; computes && stage->model->family->tensor(stage, group, i, &t); i++) {
        size_t from = first > t.offset_elems ? first : t.offset_elems;
        size_t until = end < t.offset_elems + t.count_elems ? end : t.offset_elems + t.count_elems;
        if (from >= until)
            continue; /* the tensor is in another rank's part */
        struct dt_initial values =
            initial_values(&t, from - t.offset_elems, until - t.offset_elems, (char *)to + (from - first) * element_bytes, stage->seed);
        DT_TRY(dt_kernels_initialise(stage->kernels, stream, &values));
    }
    return DT_OK;
}

/* ---- a stash ---- */

/* What the stash keeps of layer `i` of the stage; its buffers come first. */
static struct dt_buffer *kept_of(const struct dt_stage *stage, const struct dt_stash *stash, int i)
{
    return (struct dt_buffer *)(void *)((char *)stash->layers + (size_t)i * stage->model->family->stash_bytes);
}

static void free_kept(const struct dt_stage *stage, struct dt_stash *stash, int first, int end, struct dt_stream *stream)
{
    for (int i = first; i < end; i++)
        for (int b = 0; b < stage->model->family->stash_buffers; b++)
            dt_free(stream, &kept_of(stage, stash, i)[b]);
}

dt_status dt_stash_create(const struct dt_stage *stage, int part, struct dt_stash *out)
{
    *out = (struct dt_stash){.part = part, .layers = calloc((size_t)stage->layer_count, stage->model->family->stash_bytes)};
    return dt_allocated(out->layers, "no host memory for the stash of %d layers", stage->layer_count);
}

void dt_stash_destroy(const struct dt_stage *stage, struct dt_stash *stash, struct dt_stream *stream)
{
    if (stash->layers)
        free_kept(stage, stash, 0, stage->layer_count, stream);
    dt_stash_end(stash, stream);
    dt_free(stream, &stash->x);
    dt_free(stream, &stash->dx);
    free(stash->layers);
    stash->layers = NULL;
}

dt_status dt_stash_begin(const struct dt_stage *stage, struct dt_stash *stash, size_t samples, uint32_t first_sample,
                         struct dt_stream *stream)
{
    const struct dt_part *part = &stage->parts[stash->part];
    stash->samples = samples;
    stash->first_sample = first_sample;
    return part->first || part->last ? stage->model->family->begin_samples(stage, stash, stream) : DT_OK;
}

void dt_stash_end(struct dt_stash *stash, struct dt_stream *stream)
{
    dt_free(stream, &stash->inputs);
    dt_free(stream, &stash->targets);
}

void dt_stash_forget(const struct dt_stage *stage, struct dt_stash *stash, int first, int end, struct dt_stream *stream,
                     struct dt_buffer *input)
{
    const struct dt_group *last = &stage->groups[end - 1];
    int first_layer = stage->groups[first].first_layer;
    *input = kept_of(stage, stash, first_layer)[0];
    *kept_of(stage, stash, first_layer) = (struct dt_buffer){0};
    free_kept(stage, stash, first_layer, last->first_layer + last->layer_count, stream);
}
