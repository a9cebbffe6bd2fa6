#include "schedules/activation.h"

#include <stdlib.h>

struct activation {
    struct activation_setup setup;
    struct activation_segment *segments; /* [segment_count] */
    int segment_count;
    struct dt_buffer *inputs; /* [slots, segment_count] what input_only segments read, from their forward to their backward */
};

/* ---- segments ---- */

static int block_of(const struct gpt_stage *stage, int group)
{
    return stage->layers[stage->groups[group].first_layer].block;
}

static bool has_head(const struct gpt_stage *stage, int group)
{
    return stage->last && group == stage->group_count - 1;
}

/* Blocks are counted from the stage's first one. What is no block, embedding and final norm or head, is a segment by itself. */
static void divide(struct activation *a)
{
    const struct gpt_stage *stage = a->setup.stage;
    int first_block = -1, previous = -1;

    if (a->setup.experiment->activation == ACTIVATION_KEEP) {
        a->segments[a->segment_count++] = (struct activation_segment){.end_group = stage->group_count};
        return;
    }
    for (int g = 0; g < stage->group_count; g++) {
        int block = block_of(stage, g), number = -1;
        if (block >= 0) {
            first_block = first_block < 0 ? block : first_block;
            number = (block - first_block) / a->setup.experiment->activation_blocks;
        }
        if (number < 0 || number != previous)
            a->segments[a->segment_count++] = (struct activation_segment){
                .first_group = g,
                .input_only = g > 0 || !stage->first, /* the embedding keeps nothing but its tokens */
                .late = has_head(stage, g),
            };
        a->segments[a->segment_count - 1].end_group = g + 1;
        previous = number;
    }
}

int activation_segment_count(const struct activation *a)
{
    return a->segment_count;
}

const struct activation_segment *activation_segment(const struct activation *a, int index)
{
    return &a->segments[index];
}

/* A block keeps ten columns of width d: two inputs, q, k, v, the heads' outputs, and four of the MLP. */
size_t activation_logit_rows(const struct activation *a, size_t rows)
{
    enum { COLUMNS_OF_A_BLOCK = 10 };
    const struct gpt_model *model = a->setup.stage->model;
    size_t columns = (size_t)a->setup.experiment->activation_blocks * COLUMNS_OF_A_BLOCK * (size_t)model->hidden;
    size_t pieces = ((size_t)model->vocab_size + columns - 1) / columns;
    return (rows + pieces - 1) / pieces;
}

/* ---- forward and backward ---- */

static struct dt_buffer *input_at(const struct activation *a, struct activation_place place)
{
    return &a->inputs[place.slot * a->segment_count + place.segment];
}

dt_status activation_before_forward(struct activation *a, struct activation_place place, struct gpt_stash *stash, bool backward_follows)
{
    return DT_OK;
}

dt_status activation_after_forward(struct activation *a, struct activation_place place, struct gpt_stash *stash)
{
    const struct activation_segment *segment = &a->segments[place.segment];
    if (!segment->input_only)
        return DT_OK;
    struct dt_buffer *input = input_at(a, place);
    if (segment->late) {
        *input = stash->x;
        stash->x = (struct dt_buffer){0};
    } else {
        gpt_stash_forget(a->setup.stage, stash, segment->first_group, segment->end_group, a->setup.compute, input);
    }
    return DT_OK;
}

dt_status activation_before_backward(struct activation *a, struct activation_place place, struct gpt_stash *stash,
                                     const struct activation_place *next)
{
    if (!a->segments[place.segment].input_only)
        return DT_OK;
    struct dt_buffer *input = input_at(a, place);
    stash->x = *input;
    *input = (struct dt_buffer){0};
    return DT_OK;
}

/* ---- setting up ---- */

dt_status activation_create(const struct activation_setup *setup, struct activation **out)
{
    struct activation *a = *out = calloc(1, sizeof *a);
    if (!a)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for an activation policy");
    a->setup = *setup;
    a->segments = calloc((size_t)setup->stage->group_count, sizeof *a->segments);
    if (a->segments)
        divide(a);
    a->inputs = calloc((size_t)setup->slots * (size_t)(a->segment_count + 1), sizeof *a->inputs);
    if (!a->segments || !a->inputs) {
        activation_destroy(a);
        *out = NULL;
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the segments of %d micro-batches", setup->slots);
    }
    return DT_OK;
}

void activation_destroy(struct activation *a)
{
    if (!a)
        return;
    for (int i = 0; a->inputs && i < a->setup.slots * a->segment_count; i++) /* left by a step that failed */
        dt_free(a->setup.compute, &a->inputs[i]);
    free(a->inputs);
    free(a->segments);
    free(a);
}
