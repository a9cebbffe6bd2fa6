/* A stage: how it is created and initialised, and what it keeps of a micro-batch. */
#include "vision/stage.h"
#include "vision/family_parts.h"

#include <stdlib.h>

static struct vision_stage *own(struct dt_stage *stage)
{
    return (struct vision_stage *)stage;
}

/* ---- a stage ---- */

/* Running means begin at 0, variances at 1. */
static dt_status create_state(struct vision_stage *s, int layers, struct dt_stream *stream)
{
    size_t elems = s->base.state_elems = s->state_first[layers];
    s->initial_state = calloc(elems, sizeof *s->initial_state);
    DT_TRY(dt_allocated(s->initial_state, "no host memory for running statistics"));
    for (int g = 0; g < layers; g++)
        for (const struct vision_node *n = s->layers[g].nodes; n < s->layers[g].nodes + s->layers[g].node_count; n++)
            for (int c = 0; n->op == VISION_NORM && c < n->shape.channels; c++)
                s->initial_state[s->state_first[g] + n->state_elem + (size_t)(n->shape.channels + c)] = 1;
    DT_TRY(dt_alloc(stream, DT_PARAMETERS, elems * sizeof(float), &s->base.state));
    return elems > 0 ? dt_copy_from_host(stream, s->base.state.data, s->initial_state, elems * sizeof(float)) : DT_OK;
}

dt_status vision_stage_begin(struct dt_stage *stage, const struct dt_stage_options *options, int layers, struct dt_stream *stream)
{
    struct vision_stage *s = own(stage);
    s->layers = calloc((size_t)layers, sizeof *s->layers);
    s->state_first = calloc((size_t)layers + 1, sizeof *s->state_first);
    DT_TRY(dt_allocated(s->layers && s->state_first, "no host memory for a stage of %d layers", layers));
    /* Describe the layers of each part, in their order. */
    int count = 0;
    for (const struct dt_layers *part = options->parts; part < options->parts + options->part_count; part++)
        for (int i = part->first; i < part->end; i++, count++) {
            vision_describe_layer(s->base.model, i, &s->layers[count]);
            s->state_first[count + 1] = s->state_first[count] + s->layers[count].state_elems;
        }
    DT_TRY(create_state(s, layers, stream));
    struct dt_tensor_group together = options->tensor;
    together.comm = options->together;
    return dt_exchange_init(&s->exchange, &together, &options->context, dt_stream_device(stream));
}

void vision_stage_end(struct dt_stage *stage)
{
    dt_exchange_finish(&own(stage)->exchange);
    free(own(stage)->initial_state);
    free(own(stage)->state_first);
    free(own(stage)->layers);
}

size_t vision_boundary_elems(const struct dt_stage *stage, int part, bool output, size_t samples)
{
    const struct dt_part *p = &stage->parts[part];
    const struct vision_layer *layers = ((const struct vision_stage *)stage)->layers;
    return samples * (output ? vision_output_elems(&layers[p->end_group - 1]) : vision_input_elems(&layers[p->first_group]));
}

/* ---- a stash's samples ---- */

/* Take the step's samples from host memory: bytes of images, from which x is made, and labels. */
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

/* The first part reads images, into x; the last one reads labels. */
dt_status vision_begin_samples(const struct dt_stage *stage, struct dt_stash *stash, struct dt_stream *stream)
{
    struct vision_kernels *k = (struct vision_kernels *)stage->kernels;
    const struct dt_part *part = &stage->parts[stash->part];
    const struct vision_model *m = vision_of(stage->model);
    size_t labels = vision_labels_of_image(stage->model);
    if (part->first)
        DT_TRY(dt_alloc(stream, DT_ACTIVATIONS,
                        vision_boundary_elems(stage, stash->part, false, stash->samples) * dt_dtype_bytes(k->base.dtype), &stash->x));
    if (part->last)
        DT_TRY(dt_alloc(stream, DT_ACTIVATIONS, stash->samples * labels * sizeof(int32_t), &stash->targets));
    struct vision_images a = {
        .images = part->first ? stash->x.data : NULL,
        .labels = stash->targets.data,
        .samples = stash->samples,
        .labels_of_image = labels,
        .size = m->image_size,
        .classes = m->classes,
        .seed = stage->seed,
        .first_sample = stash->first_sample,
    };
    return stage->batch.inputs ? take_batch(stage, stash, &a, stream) : k->table->images(k, stream, &a);
}
