#include "schedules/pipeline.h"

#include <stdio.h>
#include <stdlib.h>

/* One direction of traffic with one neighbour. */
struct link {
    struct dt_comm *comm; /* two ranks: the lower stage is 0; NULL where there is no neighbour */
    struct dt_stream *stream;
    struct dt_event *ready;    /* compute: what is to be sent is there */
    struct dt_event **arrived; /* [micro_batches] stream: received */
};

struct pipeline {
    struct pipeline_setup setup;
    struct pipeline_order order;
    struct gpt_stash *stashes;                 /* [micro_batches] */
    struct link activation_in, activation_out; /* from the previous stage, to the next */
    struct link gradient_in, gradient_out;     /* from the next stage, to the previous */
    float loss_scale, gradient_scale;
};

/* ---- neighbours ---- */

static dt_status link_create(struct pipeline *p, struct link *link, bool upper_end_is_next, const char *name)
{
    struct pipeline_setup *s = &p->setup;
    int lower = upper_end_is_next ? s->stage_index : s->stage_index - 1; /* this rank's pair is (lower, lower + 1) */
    int first_rank = s->replica * s->stages;
    bool exists = lower >= 0 && lower + 1 < s->stages;
    int ranks[2] = {first_rank + lower, first_rank + lower + 1};

    DT_TRY(dt_comm_subset(s->world, exists ? ranks : NULL, exists ? 2 : 0, name, &link->comm));
    if (!exists)
        return DT_OK;
    DT_TRY(dt_stream_create(s->device, name, &link->stream));
    DT_TRY(dt_event_create(s->device, &link->ready));
    link->arrived = calloc((size_t)s->micro_batches, sizeof(struct dt_event *));
    if (!link->arrived)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d micro-batches", s->micro_batches);
    for (int i = 0; i < s->micro_batches; i++)
        DT_TRY(dt_event_create(s->device, &link->arrived[i]));
    return DT_OK;
}

static void link_finish(struct pipeline *p, struct link *link)
{
    for (int i = 0; link->arrived && i < p->setup.micro_batches; i++)
        dt_event_destroy(link->arrived[i]);
    free(link->arrived);
    dt_event_destroy(link->ready);
    dt_stream_destroy(link->stream);
    dt_comm_destroy(link->comm);
}

/* Pairs share a rank, so a communicator for every pair takes two rounds: pairs that begin at an even stage, then those at an odd one. */
static dt_status create_links(struct pipeline *p)
{
    bool even = p->setup.stage_index % 2 == 0;
    for (int round = 0; round < 2; round++) {
        bool with_next = even == (round == 0);
        struct link *activation = with_next ? &p->activation_out : &p->activation_in;
        struct link *gradient = with_next ? &p->gradient_in : &p->gradient_out;
        DT_TRY(link_create(p, activation, with_next, "activations"));
        DT_TRY(link_create(p, gradient, with_next, "gradients"));
    }
    return DT_OK;
}

/* Elements of one micro-batch's activations. */
static size_t message_elems(const struct pipeline *p, const struct gpt_stash *stash)
{
    const struct gpt_model *model = &p->setup.experiment->model;
    return stash->samples * (size_t)model->block_size * (size_t)model->hidden;
}

/* buffer comes from the neighbour; compute goes on once it is there. */
static dt_status receive(struct pipeline *p, struct link *link, int micro_batch, struct dt_buffer *buffer)
{
    enum dt_dtype dtype = p->setup.experiment->model.dtype;
    size_t elems = message_elems(p, &p->stashes[micro_batch]);
    DT_TRY(dt_alloc(link->stream, DT_ACTIVATIONS, elems * dt_dtype_bytes(dtype), buffer));
    DT_TRY(dt_recv(link->comm, buffer->data, elems, dtype, 1 - dt_comm_rank(link->comm), link->stream));
    DT_TRY(dt_event_record(link->arrived[micro_batch], link->stream));
    return timeline_wait(p->setup.timeline, link->arrived[micro_batch]);
}

/* buffer, which compute has just been given the work to fill, goes to the neighbour and is freed behind that. */
static dt_status send(struct pipeline *p, struct link *link, int micro_batch, struct dt_buffer *buffer)
{
    DT_TRY(dt_event_record(link->ready, p->setup.compute));
    DT_TRY(dt_stream_wait(link->stream, link->ready));
    DT_TRY(dt_send(link->comm, buffer->data, message_elems(p, &p->stashes[micro_batch]), p->setup.experiment->model.dtype,
                   1 - dt_comm_rank(link->comm), link->stream));
    dt_free(link->stream, buffer);
    return DT_OK;
}

/* ---- one action ---- */

/* moment->next_group of the last group of action `i` is the first one of the action after it. */
static int first_group_after(const struct pipeline *p, int i)
{
    if (i + 1 == p->order.count)
        return -1;
    return p->order.actions[i + 1].kind == PIPELINE_FORWARD ? 0 : p->setup.stage->group_count - 1;
}

static dt_status forward(struct pipeline *p, int micro_batch, uint32_t first_sample, size_t samples, int next_action_group,
                         struct dp_moment *moment)
{
    const struct pipeline_setup *s = &p->setup;
    struct gpt_stash *stash = &p->stashes[micro_batch];

    DT_TRY(timeline_enter(s->timeline, TIMELINE_FORWARD));
    DT_TRY(gpt_stash_begin(s->stage, stash, samples, first_sample, s->compute));
    if (p->activation_in.comm)
        DT_TRY(receive(p, &p->activation_in, micro_batch, &stash->x));
    for (int g = 0; g < s->stage->group_count; g++) {
        moment->next_group = g + 1 < s->stage->group_count ? g + 1 : next_action_group;
        DT_TRY(s->dp->mode->before_forward(s->dp, &s->stage->groups[g], moment));
        DT_TRY(gpt_forward(s->stage, g, stash, p->loss_scale, p->gradient_scale, s->compute));
        DT_TRY(s->dp->mode->after_forward(s->dp, &s->stage->groups[g], moment));
    }
    return p->activation_out.comm ? send(p, &p->activation_out, micro_batch, &stash->x) : DT_OK;
}

static dt_status backward(struct pipeline *p, int micro_batch, int next_action_group, struct dp_moment *moment)
{
    const struct pipeline_setup *s = &p->setup;
    struct gpt_stash *stash = &p->stashes[micro_batch];

    DT_TRY(timeline_enter(s->timeline, TIMELINE_BACKWARD));
    if (p->gradient_in.comm)
        DT_TRY(receive(p, &p->gradient_in, micro_batch, &stash->dx));
    for (int g = s->stage->group_count - 1; g >= 0; g--) {
        moment->next_group = g > 0 ? g - 1 : next_action_group;
        DT_TRY(s->dp->mode->before_backward(s->dp, &s->stage->groups[g], moment));
        DT_TRY(gpt_backward(s->stage, g, stash, s->compute));
        DT_TRY(s->dp->mode->after_backward(s->dp, &s->stage->groups[g], moment));
    }
    gpt_stash_end(stash, s->compute);
    return p->gradient_out.comm ? send(p, &p->gradient_out, micro_batch, &stash->dx) : DT_OK;
}

dt_status pipeline_step(struct pipeline *p, int step, uint32_t first_sample)
{
    const struct pipeline_setup *s = &p->setup;
    size_t even = s->replica_samples / (size_t)s->micro_batches, larger = s->replica_samples % (size_t)s->micro_batches;
    int forwards_done = 0, backwards_done = 0;
    struct dp_moment moment = {.step = step};

    DT_TRY(timeline_start(s->timeline));
    if (s->stage->last)
        DT_TRY(dt_zero(s->compute, s->stage->loss.data, sizeof(double)));
    for (int i = 0; i < p->order.count; i++) {
        const struct pipeline_action *a = &p->order.actions[i];
        size_t number = (size_t)a->micro_batch, samples_before = number * even + (number < larger ? number : larger);
        int *done = a->kind == PIPELINE_FORWARD ? &forwards_done : &backwards_done;
        moment.first_micro_batch = *done == 0;
        moment.last_micro_batch = ++*done == s->micro_batches;
        if (a->kind == PIPELINE_FORWARD)
            DT_TRY(forward(p, a->micro_batch, first_sample + (uint32_t)samples_before, even + (number < larger), first_group_after(p, i),
                           &moment));
        else
            DT_TRY(backward(p, a->micro_batch, first_group_after(p, i), &moment));
    }
    DT_TRY(s->dp->mode->end_step(s->dp, &moment));
    return timeline_stop(s->timeline);
}

dt_status pipeline_synchronize(struct pipeline *p)
{
    struct dt_stream *streams[] = {p->setup.compute, p->activation_in.stream, p->activation_out.stream, p->gradient_in.stream,
                                   p->gradient_out.stream};
    dt_status first = DT_OK;
    char text[1024] = "";
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

    /* The mean over the replica's step, whatever pieces it is done in. The study's sum of logits is taken per sample for the same reason.
     */
    double rows = (double)setup->replica_samples * (setup->experiment->loss == LOSS_SUM ? 1 : setup->experiment->model.block_size);
    p->loss_scale = (float)(1 / rows);
    p->gradient_scale = (float)(setup->experiment->loss_scaling / rows);

    if ((status = pipeline_order_init(setup->order, setup->stage_index, setup->stages, setup->micro_batches, &p->order)) < 0)
        goto fail;
    p->stashes = calloc((size_t)setup->micro_batches, sizeof *p->stashes);
    if (!p->stashes) {
        status = dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d stashes", setup->micro_batches);
        goto fail;
    }
    for (int i = 0; i < setup->micro_batches; i++)
        if ((status = gpt_stash_create(setup->stage, &p->stashes[i])) < 0)
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
    for (int i = 0; p->stashes && i < p->setup.micro_batches; i++)
        gpt_stash_destroy(p->setup.stage, &p->stashes[i], p->setup.compute);
    link_finish(p, &p->activation_in);
    link_finish(p, &p->activation_out);
    link_finish(p, &p->gradient_in);
    link_finish(p, &p->gradient_out);
    pipeline_order_finish(&p->order);
    free(p->stashes);
    free(p);
}
