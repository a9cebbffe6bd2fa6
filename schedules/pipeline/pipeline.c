#include "schedules/pipeline/pipeline.h"

#include "lib/device/range.h"

#include <stdio.h>
#include <stdlib.h>

/* One direction of traffic with one neighbour. */
struct link {
    struct dt_comm *comm; /* of neighbours: two ranks, the lower stage is 0; NULL where there is no neighbour */
    struct dt_stream *stream;
    struct dt_event *ready;    /* compute: what is to be sent is there */
    struct dt_event **arrived; /* [chunks] stream: received */
};

struct pipeline {
    struct pipeline_setup setup;
    struct pipeline_order order;
    struct activation *activation;
    struct dt_stash *stashes;  /* [chunks] of the round that runs */
    struct dt_buffer *outputs; /* [chunks] framework.keeps_last_chunk: of the chunk that is made again; nobody reads it */
    struct dt_buffer *inputs;  /* [chunks] what chunks that are made again read, from forward to backward */
    struct mesh_neighbours activation_neighbours, gradient_neighbours;
    struct link activation_in, activation_out; /* from the previous stage, to the next */
    struct link gradient_in, gradient_out;     /* from the next stage, to the previous */
    const struct dt_model_family *family;      /* of the model */
    struct dt_loss_scales scales;
};

/* ---- neighbours ---- */

/* comm: the neighbour's; NULL where there is none. */
static dt_status link_create(struct pipeline *p, struct link *link, struct dt_comm *comm, const char *name)
{
    struct pipeline_setup *s = &p->setup;
    if (!comm)
        return DT_OK;
    link->comm = comm;
    DT_TRY(dt_stream_create(s->device, name, &link->stream));
    DT_TRY(dt_event_create(s->device, &link->ready));
    link->arrived = calloc((size_t)s->chunks, sizeof(struct dt_event *));
    if (!link->arrived)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d chunks", s->chunks);
    for (int i = 0; i < s->chunks; i++)
        DT_TRY(dt_event_create(s->device, &link->arrived[i]));
    return DT_OK;
}

static void link_finish(struct pipeline *p, struct link *link)
{
    for (int i = 0; link->arrived && i < p->setup.chunks; i++)
        dt_event_destroy(link->arrived[i]);
    free(link->arrived);
    dt_event_destroy(link->ready);
    dt_stream_destroy(link->stream);
}

static dt_status create_links(struct pipeline *p)
{
    static const char *const activations = "activations", *const gradients = "gradients";
    DT_TRY(mesh_neighbours_init(&p->activation_neighbours, p->setup.mesh, MESH_PIPELINE, activations));
    DT_TRY(mesh_neighbours_init(&p->gradient_neighbours, p->setup.mesh, MESH_PIPELINE, gradients));
    DT_TRY(link_create(p, &p->activation_in, p->activation_neighbours.previous, activations));
    DT_TRY(link_create(p, &p->activation_out, p->activation_neighbours.next, activations));
    DT_TRY(link_create(p, &p->gradient_in, p->gradient_neighbours.next, gradients));
    return link_create(p, &p->gradient_out, p->gradient_neighbours.previous, gradients);
}

/* Elements of one micro-batch's activations. */
static size_t message_elems(const struct pipeline *p, const struct dt_stash *stash)
{
    const struct dt_model *model = &p->setup.experiment->model;
    return stash->samples * (size_t)model->block_size * (size_t)model->hidden;
}

/* buffer comes from the neighbour; compute goes on once it is there. */
static dt_status receive(struct pipeline *p, struct link *link, int chunk, struct dt_buffer *buffer)
{
    enum dt_dtype dtype = p->setup.experiment->model.dtype;
    size_t elems = message_elems(p, &p->stashes[chunk]);
    DT_TRY(dt_alloc(link->stream, DT_ACTIVATIONS, elems * dt_dtype_bytes(dtype), buffer));
    DT_TRY(dt_recv(link->comm, buffer->data, elems, dtype, 1 - dt_comm_rank(link->comm), link->stream));
    DT_TRY(dt_event_record(link->arrived[chunk], link->stream));
    return timeline_wait(p->setup.timeline, link->arrived[chunk]);
}

/* buffer, which compute has just been given the work to fill, goes to the neighbour and is freed behind that. */
static dt_status send(struct pipeline *p, struct link *link, int chunk, struct dt_buffer *buffer)
{
    DT_TRY(dt_event_record(link->ready, p->setup.compute));
    DT_TRY(dt_stream_wait(link->stream, link->ready));
    DT_TRY(dt_send(link->comm, buffer->data, message_elems(p, &p->stashes[chunk]), p->setup.experiment->model.dtype,
                   1 - dt_comm_rank(link->comm), link->stream));
    dt_free(link->stream, buffer);
    return DT_OK;
}

/* ---- one action ---- */

/* A forward or backward pass of one micro-batch, and where it stands in the step. */
struct pass {
    int chunk; /* its slot */
    uint32_t first_sample;
    size_t samples;
    const struct pipeline_action *next; /* what this stage does after it; NULL at the end of the step */
    struct dp_moment moment;
};

static const struct activation_segment *last_segment(const struct pipeline *p)
{
    return activation_segment(p->activation, activation_segment_count(p->activation) - 1);
}

static bool recomputed(const struct activation_segment *segment)
{
    return segment->input_only && !segment->late;
}

/* The group with which a segment's backward begins: a recomputation goes forward. */
static int first_in_backward(const struct activation_segment *segment)
{
    return recomputed(segment) ? segment->first_group : segment->end_group - 1;
}

static int first_group_of(const struct pipeline *p, const struct pipeline_action *action)
{
    if (!action)
        return -1;
    return action->kind == PIPELINE_FORWARD ? 0 : first_in_backward(last_segment(p));
}

static dt_status forward_groups(struct pipeline *p, struct pass *pass, const struct activation_segment *segment)
{
    const struct pipeline_setup *s = &p->setup;
    struct dt_stash *stash = &p->stashes[pass->chunk];
    int end = s->stage->group_count - (last_segment(p)->late ? 1 : 0);

    for (int g = segment->first_group; g < segment->end_group; g++) {
        struct dt_group *group = &s->stage->groups[g];
        pass->moment.next_group = g + 1 < end ? g + 1 : first_group_of(p, pass->next);
        dt_range_push("group", g);
        DT_TRY(s->dp->mode->before_forward(s->dp, group, &pass->moment));
        DT_TRY(p->family->forward(s->stage, g, stash, p->scales, s->compute));
        DT_TRY(s->dp->mode->after_forward(s->dp, group, &pass->moment));
        dt_range_pop();
    }
    return DT_OK;
}

/* A framework may keep of all chunks but the last, whose backward comes first, no more than the stage's input (framework.keeps_last_chunk).
 * Source  Kim et al., "torchgpipe: On-the-fly Pipeline Parallelism for Training Giant Models", 2020, section 3.2: checkpoint except_last. */
static bool made_again(const struct pipeline *p, const struct pass *pass)
{
    return p->setup.experiment->framework.keeps_last_chunk && p->setup.experiment->paradigm == PARADIGM_PDP &&
           pass->chunk < p->setup.chunks - 1;
}

/* All segments' forward, of which only the stage's input is kept. */
static dt_status forward_and_forget(struct pipeline *p, struct pass *pass)
{
    const struct pipeline_setup *s = &p->setup;
    struct dt_stash *stash = &p->stashes[pass->chunk];
    for (int first = 0, g = 0; g < s->stage->group_count; g++) {
        struct activation_segment one = {.first_group = g, .end_group = g + 1};
        struct dt_buffer input;
        DT_TRY(forward_groups(p, pass, &one));
        if (s->stage->groups[g].kept_with_next)
            continue;
        p->family->stash_forget(s->stage, stash, first, g + 1, s->compute, &input);
        if (first > 0)
            dt_free(s->compute, &input);
        else
            p->inputs[pass->chunk] = input; /* none on a first stage, which has the tokens */
        first = g + 1;
    }
    return DT_OK;
}

static dt_status forward_segments(struct pipeline *p, struct pass *pass, bool backward_follows)
{
    struct dt_stash *stash = &p->stashes[pass->chunk];
    for (int i = 0; i < activation_segment_count(p->activation); i++) {
        const struct activation_segment *segment = activation_segment(p->activation, i);
        DT_TRY(activation_before_forward(p->activation, pass->chunk, i, stash, backward_follows));
        if (!segment->late)
            DT_TRY(forward_groups(p, pass, segment));
        DT_TRY(activation_after_forward(p->activation, pass->chunk, i, stash));
    }
    return DT_OK;
}

/* As many copies of a chunk's output as the framework holds. */
static dt_status hold_outputs(struct pipeline *p, const struct pass *pass, int copies, struct dt_buffer *out)
{
    const struct dt_stage *stage = p->setup.stage;
    size_t bytes = p->family->output_bytes(stage->kernels, pass->samples) * (size_t)copies;
    return dt_alloc(p->setup.compute, DT_ACTIVATIONS, bytes, out);
}

/* With the last chunk the framework puts all chunks' outputs together: for a moment it has them twice. */
static dt_status gather_outputs(struct pipeline *p, const struct pass *pass)
{
    const struct pipeline_setup *s = &p->setup;
    struct dt_buffer all = {0};
    if (s->experiment->framework.holds_last_chunk && s->stage->last && pass->chunk == s->chunks - 1 && s->chunks > 2)
        DT_TRY(hold_outputs(p, pass, s->chunks - 2, &all)); /* the last one is there twice already, and once as logits */
    dt_free(s->compute, &all);
    return DT_OK;
}

/* The forward that was forgotten, once more. */
static dt_status forward_again(struct pipeline *p, struct pass *pass)
{
    struct dt_stash *stash = &p->stashes[pass->chunk];
    stash->x = p->inputs[pass->chunk];
    p->inputs[pass->chunk] = (struct dt_buffer){0};
    if (p->setup.stage->last)
        DT_TRY(hold_outputs(p, pass, 1, &p->outputs[pass->chunk]));
    DT_TRY(forward_segments(p, pass, true));
    dt_free(p->setup.compute, &stash->x); /* the next stage has had it */
    return DT_OK;
}

static dt_status forward(struct pipeline *p, struct pass *pass)
{
    const struct pipeline_setup *s = &p->setup;
    struct dt_stash *stash = &p->stashes[pass->chunk];
    bool backward_follows = pass->next && pass->next->kind == PIPELINE_BACKWARD && pass->next->micro_batch == pass->chunk;

    DT_TRY(timeline_enter(s->timeline, TIMELINE_FORWARD));
    DT_TRY(p->family->stash_begin(s->stage, stash, pass->samples, pass->first_sample, s->compute));
    if (p->activation_in.comm)
        DT_TRY(receive(p, &p->activation_in, pass->chunk, &stash->x));
    stash->output_copies = s->experiment->framework.holds_last_chunk && pass->chunk == s->chunks - 1 && s->chunks > 1 ? 2 : 1;
    DT_TRY(made_again(p, pass) ? forward_and_forget(p, pass) : forward_segments(p, pass, backward_follows));
    DT_TRY(gather_outputs(p, pass));
    return p->activation_out.comm ? send(p, &p->activation_out, pass->chunk, &stash->x) : DT_OK;
}

static dt_status recompute_groups(struct pipeline *p, struct pass *pass, const struct activation_segment *segment)
{
    const struct pipeline_setup *s = &p->setup;
    struct dt_stash *stash = &p->stashes[pass->chunk];

    pass->moment.recompute = true;
    for (int g = segment->first_group; g < segment->end_group; g++) {
        struct dt_group *group = &s->stage->groups[g];
        bool last = g == segment->end_group - 1;
        pass->moment.next_group = last ? g : g + 1;
        dt_range_push("recompute group", g);
        DT_TRY(s->dp->mode->before_forward(s->dp, group, &pass->moment));
        DT_TRY(p->family->recompute(s->stage, g, stash, last, s->compute));
        DT_TRY(s->dp->mode->after_forward(s->dp, group, &pass->moment));
        dt_range_pop();
    }
    pass->moment.recompute = false;
    dt_free(s->compute, &stash->x); /* a final norm's output, where a stage ends with it */
    return DT_OK;
}

/* next_segment_group: with which the segment before this one, or else the next action, begins. */
static dt_status backward_groups(struct pipeline *p, struct pass *pass, const struct activation_segment *segment, int next_segment_group)
{
    const struct pipeline_setup *s = &p->setup;
    struct dt_stash *stash = &p->stashes[pass->chunk];
    size_t rows = pass->samples * (size_t)s->experiment->model.block_size;

    for (int g = segment->end_group - 1; g >= segment->first_group; g--) {
        struct dt_group *group = &s->stage->groups[g];
        pass->moment.next_group = g > segment->first_group ? g - 1 : next_segment_group;
        dt_range_push("group", g);
        DT_TRY(s->dp->mode->before_backward(s->dp, group, &pass->moment));
        if (segment->late)
            DT_TRY(p->family->forward_backward(s->stage, g, stash, activation_logit_rows(p->activation, rows), p->scales, s->compute));
        else
            DT_TRY(p->family->backward(s->stage, g, stash, DT_BACKWARD_WHOLE, s->compute));
        DT_TRY(s->dp->mode->after_backward(s->dp, group, &pass->moment));
        dt_range_pop();
    }
    return DT_OK;
}

static dt_status backward(struct pipeline *p, struct pass *pass)
{
    const struct pipeline_setup *s = &p->setup;
    struct dt_stash *stash = &p->stashes[pass->chunk];
    int last = activation_segment_count(p->activation) - 1;
    int next_slot = pass->next && pass->next->kind == PIPELINE_BACKWARD ? pass->next->micro_batch : -1;

    DT_TRY(timeline_enter(s->timeline, TIMELINE_BACKWARD));
    if (made_again(p, pass))
        DT_TRY(forward_again(p, pass));
    for (int i = last; i >= 0; i--) {
        const struct activation_segment *segment = activation_segment(p->activation, i);
        DT_TRY(activation_before_backward(p->activation, pass->chunk, i, stash, next_slot));
        if (recomputed(segment))
            DT_TRY(recompute_groups(p, pass, segment));
        if (i == last && p->gradient_in.comm) /* not earlier: a recomputation fills part of the bubble */
            DT_TRY(receive(p, &p->gradient_in, pass->chunk, &stash->dx));
        DT_TRY(backward_groups(p, pass, segment,
                               i > 0 ? first_in_backward(activation_segment(p->activation, i - 1)) : first_group_of(p, pass->next)));
    }
    dt_free(s->compute, &p->outputs[pass->chunk]);
    p->family->stash_end(stash, s->compute);
    return p->gradient_out.comm ? send(p, &p->gradient_out, pass->chunk, &stash->dx) : DT_OK;
}

/* ---- a step ---- */

/* Each round runs the whole order: the pipeline drains between them, and gradients accumulate. */
dt_status pipeline_step(struct pipeline *p, int step)
{
    const struct pipeline_setup *s = &p->setup;
    int micro_batches = s->rounds * s->chunks, forwards_done = 0, backwards_done = 0;
    size_t even = s->replica_samples / (size_t)micro_batches, larger = s->replica_samples % (size_t)micro_batches;
    struct dp_moment moment = {.step = step};

    DT_TRY(timeline_start(s->timeline));
    if (s->stage->last)
        DT_TRY(dt_zero(s->compute, s->stage->loss.data, sizeof(double)));
    for (int i = 0; i < s->rounds * p->order.count; i++) {
        const struct pipeline_action *action = &p->order.actions[i % p->order.count];
        size_t number = (size_t)(i / p->order.count * s->chunks + action->micro_batch);
        int *done = action->kind == PIPELINE_FORWARD ? &forwards_done : &backwards_done;
        moment.first_micro_batch = *done == 0;
        moment.last_micro_batch = ++*done == micro_batches;
        moment.reduce = moment.last_micro_batch || (s->reduce_each_round && *done % s->chunks == 0);
        struct pass pass = {
            .chunk = action->micro_batch,
            .first_sample = (uint32_t)(number * even + (number < larger ? number : larger)),
            .samples = even + (number < larger),
            .next = i + 1 < s->rounds * p->order.count ? &p->order.actions[(i + 1) % p->order.count] : NULL,
            .moment = moment,
        };
        dt_range_push(action->kind == PIPELINE_FORWARD ? "forward" : "backward", (int)number);
        DT_TRY(action->kind == PIPELINE_FORWARD ? forward(p, &pass) : backward(p, &pass));
        dt_range_pop();
    }
    dt_range_push("end of step", -1);
    DT_TRY(s->dp->mode->end_step(s->dp, &moment));
    dt_range_pop();
    return timeline_stop(s->timeline);
}

dt_status pipeline_synchronize(struct pipeline *p)
{
    struct dt_stream *streams[7] = {p->setup.compute, p->activation_in.stream, p->activation_out.stream, p->gradient_in.stream,
                                    p->gradient_out.stream};
    dt_status first = DT_OK;
    char text[1024] = "";
    activation_streams(p->activation, streams + 5);
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        dt_status status = streams[i] ? dt_stream_synchronize(streams[i]) : DT_OK;
        if (status < 0 && first == DT_OK) {
            first = status;
            snprintf(text, sizeof text, "%s", dt_error_message());
        }
    }
    return first < 0 ? dt_fail(first, "%s", text) : DT_OK;
}

/* ---- setting up ---- */

dt_status pipeline_create(const struct pipeline_setup *setup, struct pipeline **out)
{
    dt_status status;
    struct pipeline *p = calloc(1, sizeof *p);
    *out = NULL;
    if (!p)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a pipeline");
    p->setup = *setup;
    p->family = setup->stage->model->family;

    /* The mean over the replica's step, whatever pieces it is done in. The study's sum of logits is taken per sample for the same reason.
     */
    double rows = (double)setup->replica_samples * (setup->experiment->loss == LOSS_SUM ? 1 : setup->experiment->model.block_size);
    p->scales = (struct dt_loss_scales){.loss = (float)(1 / rows), .gradient = (float)(setup->experiment->loss_scaling / rows)};

    if ((status = pipeline_order_init(setup->order, setup->stage_index, setup->stages, setup->chunks, &p->order)) < 0)
        goto fail;
    p->stashes = calloc((size_t)setup->chunks, sizeof *p->stashes);
    p->inputs = calloc((size_t)setup->chunks, sizeof *p->inputs);
    p->outputs = calloc((size_t)setup->chunks, sizeof *p->outputs);
    if (!p->stashes || !p->inputs || !p->outputs) {
        status = dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d stashes", setup->chunks);
        goto fail;
    }
    for (int i = 0; i < setup->chunks; i++)
        if ((status = p->family->stash_create(setup->stage, &p->stashes[i])) < 0)
            goto fail;
    struct activation_setup activation = {
        .experiment = setup->experiment,
        .stage = setup->stage,
        .device = setup->device,
        .compute = setup->compute,
        .timeline = setup->timeline,
        .slots = setup->chunks,
    };
    if ((status = activation_create(&activation, &p->activation)) < 0)
        goto fail;
    if (setup->stages > 1 && (status = create_links(p)) < 0)
        goto fail;
    *out = p;
    return DT_OK;

fail:
    pipeline_destroy(p);
    return status;
}

void pipeline_destroy(struct pipeline *p)
{
    if (!p)
        return;
    for (int i = 0; p->inputs && i < p->setup.chunks; i++) /* left by a step that failed */
        dt_free(p->setup.compute, &p->inputs[i]);
    for (int i = 0; p->outputs && i < p->setup.chunks; i++)
        dt_free(p->setup.compute, &p->outputs[i]);
    free(p->inputs);
    free(p->outputs);
    for (int i = 0; p->stashes && i < p->setup.chunks; i++)
        p->family->stash_destroy(p->setup.stage, &p->stashes[i], p->setup.compute);
    link_finish(p, &p->activation_in);
    link_finish(p, &p->activation_out);
    link_finish(p, &p->gradient_in);
    link_finish(p, &p->gradient_out);
    mesh_neighbours_finish(&p->activation_neighbours);
    mesh_neighbours_finish(&p->gradient_neighbours);
    activation_destroy(p->activation);
    pipeline_order_finish(&p->order);
    free(p->stashes);
    free(p);
}
