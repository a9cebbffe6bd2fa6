#include "schedules/pipeline/activation.h"
#include "lib/model/stage.h"

#include <stdlib.h>

/* The input of a recomputed segment, from its forward to its backward: on the device, on the host,
 * or on both during a copy. */
struct segment_input {
    struct dt_buffer device, host; /* [M, d] */
};

/* One part of the stage. */
struct part {
    struct plan_segment *segments; /* [segment_count] */
    int segment_count;
    bool offload;
    struct segment_input *inputs; /* [slots, segment_count + 1]: the last one of each slot is the part's own input */
};

struct activation {
    struct activation_setup setup;
    struct part *parts; /* [the stage's part_count] */

    /* offload only */
    struct dt_stream *out, *in;
    struct dt_event *left;          /* out: all copies to host memory are complete */
    struct dt_event *arrived;       /* in: the copy to the device is complete */
    struct segment_input *arriving; /* an input whose copy compute has not yet waited for; or NULL */
};

/* ---- segments ---- */

static struct plan_segment new_segment(const struct activation *a, int g)
{
    const struct dt_stage *stage = a->setup.stage;
    enum activation_head rule = a->setup.rules.head;
    bool head = stage->last && g == stage->group_count - 1;
    bool keeps_nothing = g == 0 && stage->first; /* the embedding keeps only its tokens */
    return (struct plan_segment){
        .first_group = g,
        .input_only = !keeps_nothing && !(head && rule == ACTIVATION_HEAD_KEPT),
        .late = head && rule == ACTIVATION_HEAD_LATE,
    };
}

/* A model with many outputs does not keep them: its head runs late, in pieces, as with
 * recomputation. */
static bool has_late_head(const struct activation *a, const struct dt_part *part)
{
    return part->last && a->setup.rules.head == ACTIVATION_HEAD_LATE && dt_model_facts(a->setup.stage->model).late_head;
}

/* Divide a part into segments. Blocks are counted from the part's first one. The embedding, and the
 * final norm and head, are segments by themselves. */
static void divide(const struct activation *a, enum activation_kind kind, const struct dt_part *from, struct part *part)
{
    const struct dt_stage *stage = a->setup.stage;
    int first_block = -1, previous = -1;

    if (!activation_has_segments(kind)) {
        int end = has_late_head(a, from) ? from->end_group - 1 : from->end_group;
        if (end > from->first_group)
            part->segments[part->segment_count++] = (struct plan_segment){.first_group = from->first_group, .end_group = end};
        for (int g = from->first_group; g < end - 1; g++)
            stage->groups[g].goes_on = true;
        if (end < from->end_group)
            part->segments[part->segment_count++] = new_segment(a, end);
        part->segments[part->segment_count - 1].end_group = from->end_group;
        return;
    }
    for (int g = from->first_group; g < from->end_group; g++) {
        int block = stage->groups[g].block, number = -1;
        if (block >= 0) {
            first_block = first_block < 0 ? block : first_block;
            number = (block - first_block) / a->setup.experiment->activation_blocks;
        }
        if (number < 0 || number != previous) {
            part->segments[part->segment_count] = new_segment(a, g);
            if (number >= 0 && (number + 1) % a->setup.experiment->activation_every != 0)
                part->segments[part->segment_count].input_only = false;
            part->segment_count++;
        }
        part->segments[part->segment_count - 1].end_group = g + 1;
        previous = number;
    }
}

void activation_describe(const struct activation *a, int part, struct plan_part *out)
{
    out->segments = a->parts[part].segments;
    out->segment_count = a->parts[part].segment_count;
    out->offload = a->parts[part].offload;
}

/* ---- the plan's actions ---- */

static struct segment_input *input_of(const struct activation *a, const struct action *action)
{
    const struct part *part = &a->parts[action->part];
    int segment = action->segment == ACTION_WHOLE_PART ? part->segment_count : action->segment;
    return &part->inputs[action->slot * (part->segment_count + 1) + segment];
}

void activation_keep_input(struct activation *a, const struct action *action, struct dt_stash *stash)
{
    const struct dt_stage *stage = a->setup.stage;
    struct dt_buffer *input = &input_of(a, action)->device;
    if (action->group == action->end)
        dt_buffer_move(input, &stash->x);
    else
        dt_stash_forget(stage, stash, action->group, action->end, a->setup.compute, input);
}

dt_status activation_take_input(struct activation *a, const struct action *action, struct dt_stash *stash)
{
    struct segment_input *input = input_of(a, action);
    if (a->arriving == input) {
        DT_TRY(timeline_wait(a->setup.timeline, a->arrived));
        a->arriving = NULL;
    }
    dt_buffer_move(&stash->x, &input->device);
    return DT_OK;
}

/* Copy x, which queued work computes, to the host concurrently with the kernels that read it. */
dt_status activation_copy_out(struct activation *a, const struct action *action, const struct dt_stash *stash)
{
    struct segment_input *input = input_of(a, action);
    DT_TRY(dt_stream_follow(a->out, a->setup.compute));
    DT_TRY(dt_alloc_host(a->out, DT_ACTIVATIONS, stash->x.bytes, &input->host));
    DT_TRY(dt_copy_to_host(a->out, input->host.data, stash->x.data, stash->x.bytes));
    return dt_event_record(a->left, a->out);
}

dt_status activation_await_out(struct activation *a, const struct action *action)
{
    DT_TRY(timeline_wait(a->setup.timeline, a->left));
    dt_free(a->setup.compute, &input_of(a, action)->device);
    return DT_OK;
}

/* There is room for two inputs on the device: this one replaces the input that backward has
 * used. */
dt_status activation_copy_in(struct activation *a, const struct action *action)
{
    struct segment_input *input = input_of(a, action);
    size_t bytes = input->host.bytes;
    DT_TRY(dt_stream_follow(a->in, a->setup.compute));
    DT_TRY(dt_alloc(a->in, DT_ACTIVATIONS, bytes, &input->device));
    DT_TRY(dt_copy_from_host(a->in, input->device.data, input->host.data, bytes));
    dt_free(a->in, &input->host);
    DT_TRY(dt_event_record(a->arrived, a->in));
    a->arriving = input;
    return DT_OK;
}

void activation_streams(const struct activation *a, struct dt_stream *streams[2])
{
    streams[0] = a->out;
    streams[1] = a->in;
}

/* ---- setting up ---- */

static dt_status create_copying(struct activation *a)
{
    if (a->setup.rules.copies_in_turn) {
        a->out = a->in = a->setup.compute;
    } else {
        DT_TRY(dt_stream_create(a->setup.device, "copies out", &a->out));
        DT_TRY(dt_stream_create(a->setup.device, "copies in", &a->in));
    }
    DT_TRY(dt_event_create(a->setup.device, &a->left));
    return dt_event_create(a->setup.device, &a->arrived);
}

static int input_count(const struct activation *a, const struct part *part)
{
    return a->setup.slots * (part->segment_count + 1);
}

static dt_status part_init(const struct activation *a, int index, struct part *part)
{
    const struct dt_part *from = &a->setup.stage->parts[index];
    enum activation_kind kind = a->setup.experiment->strategy.activations[index];
    part->offload = kind == ACTIVATION_OFFLOAD;
    part->segments = calloc((size_t)(from->end_group - from->first_group), sizeof *part->segments);
    if (part->segments) {
        divide(a, kind, from, part);
        part->inputs = calloc((size_t)input_count(a, part), sizeof *part->inputs);
    }
    return dt_allocated(part->inputs, "no host memory for the segments of %d micro-batches", a->setup.slots);
}

static void part_finish(const struct activation *a, struct part *part)
{
    for (int i = 0; part->inputs && i < input_count(a, part); i++) { /* left over from a failed step */
        dt_free(a->setup.compute, &part->inputs[i].device);
        dt_free(a->setup.compute, &part->inputs[i].host);
    }
    free(part->inputs);
    free(part->segments);
}

dt_status activation_create(const struct activation_setup *setup, struct activation **out)
{
    int part_count = setup->stage->part_count;
    DT_DESTROYED(activation_destroy) struct activation *a = calloc(1, sizeof *a);
    *out = NULL;
    DT_TRY(dt_allocated(a, "no host memory for an activation policy"));
    a->setup = *setup;
    a->parts = calloc((size_t)part_count, sizeof *a->parts);
    DT_TRY(dt_allocated(a->parts, "no host memory for %d parts", part_count));
    bool offloads = false;
    for (int i = 0; i < part_count; i++) {
        DT_TRY(part_init(a, i, &a->parts[i]));
        offloads |= a->parts[i].offload;
    }
    if (offloads)
        DT_TRY(create_copying(a));
    *out = DT_PASSED_ON(a);
    return DT_OK;
}

void activation_destroy(struct activation *a)
{
    if (!a)
        return;
    for (int i = 0; a->parts && i < a->setup.stage->part_count; i++)
        part_finish(a, &a->parts[i]);
    dt_event_destroy(a->left);
    dt_event_destroy(a->arrived);
    if (a->out != a->setup.compute) {
        dt_stream_destroy(a->out);
        dt_stream_destroy(a->in);
    }
    free(a->parts);
    free(a);
}
