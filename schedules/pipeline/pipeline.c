#include "schedules/pipeline/pipeline.h"

#include "lib/device/range.h"
#include "lib/model/stage.h"
#include "schedules/data_parallel/residency.h"
#include "schedules/pipeline/common.h"
#include "schedules/pipeline/links.h"
#include "schedules/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>

struct pipeline {
    struct pipeline_setup setup;
    const struct dt_model_family *family; /* of the model */
    struct plan plan;
    struct plan_receipts receipts;
    struct activation *activation;
    struct dt_stash *stashes; /* [parts, slots] */
    struct links links;
    struct dt_comm *ends; /* of tied tables: the two ranks with a copy (common.h) */
    struct dt_loss_scales scales;

    /* Of the running step: */
    int step;
    int phase;            /* enum timeline_phase of compute's current time */
    int range_phase;      /* and that of the pass whose profiler range is open */
    uint32_t range_batch; /* its micro-batch */
    bool range_open;
    unsigned begun; /* a bit for each phase */
};

static struct dt_stash *stash_at(struct pipeline *p, int part, int slot)
{
    return &p->stashes[part * p->plan.slots + slot];
}

static struct dt_stash *stash_of(struct pipeline *p, const struct action *a)
{
    return stash_at(p, a->part, a->slot);
}

static struct dt_group *group_of(struct pipeline *p, const struct action *a)
{
    return &p->setup.stage->groups[a->group];
}

/* ---- passes through a group ---- */

static dt_status use_group(struct pipeline *p, struct dt_group *group, const struct action *a)
{
    struct data_parallel *dp = p->setup.dp;
    if (dp->mode->use)
        DT_TRY(dp->mode->use(dp, group, a));
    return residency_use(dp, group);
}

/* The group's parameters are there for the kernels that follow. */
static dt_status use(struct pipeline *p, const struct action *a)
{
    const struct dt_stage *stage = p->setup.stage;
    if (group_of(p, a)->reads_first)
        DT_TRY(use_group(p, &stage->groups[stage->parts[a->part].first_group], a));
    return use_group(p, group_of(p, a), a);
}

static dt_status run_forward(struct pipeline *p, const struct action *a)
{
    DT_TRY(use(p, a));
    return p->family->forward(p->setup.stage, a->group, stash_of(p, a), p->scales, p->setup.compute);
}

static dt_status run_recompute(struct pipeline *p, const struct action *a)
{
    DT_TRY(use(p, a));
    return p->family->recompute(p->setup.stage, a->group, stash_of(p, a), a->flags & ACTION_ENDS_HERE, p->setup.compute);
}

/* ---- backward ---- */

/* Gradients that a pass makes in the model's dtype, if a group's gradients are kept in fp32: they
 * are made in this buffer, and added afterwards.
 * Source  Megatron-LM, DistributedDataParallel: main_grad.add_(grad) in each parameter's hook
 *         (accumulate_allreduce_grads_in_fp32). */
struct made {
    struct dt_group *group; /* NULL: none */
    struct dt_buffer grads; /* [param_elems] */
    void *kept;
    bool adds;
};

/* half: half of a backward pass writes only some of the gradients. */
static dt_status begin_beside(struct pipeline *p, struct dt_group *group, bool half, struct made *made)
{
    size_t bytes = dp_bytes(&p->setup.dp->setup, group->param_elems);
    DT_TRY(dt_alloc(p->setup.compute, DT_GRADIENTS, bytes, &made->grads));
    made->group = group;
    made->kept = group->grads;
    made->adds = group->accumulate;
    group->grads = made->grads.data;
    group->accumulate = false;
    return half ? dt_zero(p->setup.compute, made->grads.data, bytes) : DT_OK;
}

static dt_status add_beside(struct pipeline *p, struct made *made)
{
    struct dt_kernels *k = p->setup.stage->kernels;
    size_t count = made->group->param_elems;
    made->group->grads = made->kept;
    made->group->accumulate = made->adds;
    return made->adds
               ? dt_kernels_add_wide(k, p->setup.compute, false, made->kept, p->setup.experiment->model.dtype, made->grads.data, count)
               : dt_kernels_convert(k, p->setup.compute, made->kept, DT_FP32, made->grads.data, p->setup.experiment->model.dtype, count);
}

typedef dt_status (*backward_pass)(struct pipeline *p, const struct action *a);

/* The pass of a tied head also makes gradients of the first group, whose backward has begun
 * them. */
static dt_status make_beside(struct pipeline *p, const struct action *a, backward_pass pass)
{
    struct made made[2] = {0};
    struct dt_group *group = group_of(p, a);
    bool half = a->op == ACTION_BACKWARD_INPUT || a->op == ACTION_BACKWARD_WEIGHT;
    dt_status status = begin_beside(p, group, half, &made[0]);
    if (status == DT_OK && group->reads_first && a->op != ACTION_BACKWARD_INPUT)
        status = begin_beside(p, &p->setup.stage->groups[p->setup.stage->parts[a->part].first_group], half, &made[1]);
    DT_THEN(status, pass(p, a));
    for (int i = 0; i < 2; i++) {
        if (made[i].group && status == DT_OK)
            status = add_beside(p, &made[i]);
        dt_free(p->setup.compute, &made[i].grads);
    }
    return status;
}

static dt_status make_gradients(struct pipeline *p, const struct action *a, backward_pass pass)
{
    struct data_parallel *dp = p->setup.dp;
    DT_TRY(use(p, a));
    DT_TRY(dp->mode->begin_gradients(dp, group_of(p, a), a));
    return dp->rules.whole_gradients ? make_beside(p, a, pass) : pass(p, a);
}

static dt_status backward(struct pipeline *p, const struct action *a)
{
    static const enum dt_backward halves[] = {
        [ACTION_BACKWARD] = DT_BACKWARD_WHOLE, [ACTION_BACKWARD_INPUT] = DT_BACKWARD_INPUT, [ACTION_BACKWARD_WEIGHT] = DT_BACKWARD_WEIGHTS};
    return p->family->backward(p->setup.stage, a->group, stash_of(p, a), halves[a->op], p->setup.compute);
}

static dt_status forward_backward(struct pipeline *p, const struct action *a)
{
    if (p->family->forward_backward)
        return p->family->forward_backward(p->setup.stage, a->group, stash_of(p, a), p->setup.experiment->activation_blocks, p->scales,
                                           p->setup.compute);
    DT_TRY(p->family->forward(p->setup.stage, a->group, stash_of(p, a), p->scales, p->setup.compute));
    return p->family->backward(p->setup.stage, a->group, stash_of(p, a), DT_BACKWARD_WHOLE, p->setup.compute);
}

/* ---- neighbours ---- */

/* Activations on their way to the next stage, or their gradient on its way back. */
static struct dt_buffer *message_of(struct pipeline *p, const struct action *a)
{
    bool forward = a->op == ACTION_RECV_INPUT || a->op == ACTION_SEND_OUTPUT;
    return forward ? &stash_of(p, a)->x : &stash_of(p, a)->dx;
}

/* One micro-batch's activations, or their gradient, between virtual stages v and v + 1. The key is
 * made from these numbers, and is the same on both ranks. */
static struct link_message describe_message(struct pipeline *p, const struct action *a)
{
    bool gradient = a->op == ACTION_RECV_GRADIENT || a->op == ACTION_SEND_GRADIENT;
    bool above = a->op == ACTION_RECV_INPUT || a->op == ACTION_SEND_GRADIENT;
    uint64_t boundary = (uint64_t)(plan_virtual_stage(&p->plan, a) - above);
    size_t elems = p->family->boundary_elems(p->setup.stage, a->part, !above, stash_of(p, a)->samples);
    return (struct link_message){
        .dtype = p->setup.experiment->model.dtype,
        .elems = elems / (p->setup.gather ? (size_t)dt_comm_size(p->setup.mesh->comm[MESH_TENSOR]) : 1),
        .gathered = elems,
        .key = (boundary << 33 | (uint64_t)gradient << 32 | a->micro_batch) + 1,
    };
}

static dt_status run_recv(struct pipeline *p, const struct action *a)
{
    struct link_message message = describe_message(p, a);
    struct dt_buffer *buffer = message_of(p, a);
    DT_TRY(links_recv(&p->links, a, &message, p->setup.timeline, buffer));
    if (!p->setup.gather)
        return DT_OK;
    DT_TRY(dt_stream_follow(p->setup.gather, p->setup.compute));
    DT_TRY(dt_all_gather(p->setup.mesh->comm[MESH_TENSOR], buffer->data, buffer->data, message.elems, message.dtype, p->setup.gather));
    return timeline_follow(p->setup.timeline, p->setup.gather);
}

static dt_status run_send(struct pipeline *p, const struct action *a)
{
    struct link_message message = describe_message(p, a);
    return links_send(&p->links, a, &message, p->setup.timeline, message_of(p, a));
}

/* ---- stashes ---- */

/* If the samples cannot be divided evenly, the first micro-batches have one sample more. */
static size_t samples_of(const struct pipeline *p, size_t micro_batch, size_t *first)
{
    size_t count = (size_t)p->setup.order->shape.micro_batches;
    size_t even = p->setup.samples / count, larger = p->setup.samples % count;
    *first = micro_batch * even + (micro_batch < larger ? micro_batch : larger);
    return even + (micro_batch < larger);
}

static dt_status run_begin(struct pipeline *p, const struct action *a)
{
    size_t first, samples = samples_of(p, a->micro_batch, &first);
    return dt_stash_begin(p->setup.stage, stash_of(p, a), samples, (uint32_t)first, p->setup.compute);
}

static dt_status run_drop(struct pipeline *p, const struct action *a)
{
    struct dt_stash *stash = stash_of(p, a);
    struct dt_buffer input = {0};
    if (a->group < a->end)
        dt_stash_forget(p->setup.stage, stash, a->group, a->end, p->setup.compute, &input);
    dt_free(p->setup.compute, a->group < a->end ? &input : &stash->x);
    return DT_OK;
}

static dt_status run_extra(struct pipeline *p, const struct action *a)
{
    const struct pipeline_extra *extra = p->setup.extra;
    return extra->run(extra->context, a, p->step, stash_of(p, a)->samples, p->setup.dp);
}

/* ---- a step ---- */

static dt_status perform(struct pipeline *p, const struct action *a)
{
    struct data_parallel *dp = p->setup.dp;
    switch ((enum action_op)a->op) {
    case ACTION_FORWARD: return run_forward(p, a);
    case ACTION_BACKWARD:
    case ACTION_BACKWARD_INPUT:
    case ACTION_BACKWARD_WEIGHT: return make_gradients(p, a, backward);
    case ACTION_RECOMPUTE: return run_recompute(p, a);
    case ACTION_FORWARD_BACKWARD: return make_gradients(p, a, forward_backward);
    case ACTION_RECV_INPUT:
    case ACTION_RECV_GRADIENT: return run_recv(p, a);
    case ACTION_SEND_OUTPUT:
    case ACTION_SEND_GRADIENT: return run_send(p, a);
    /* Two parts of this rank pass a buffer, without a message. The earlier part's stash keeps its
     * slot until its backward has ended. */
    case ACTION_TAKE_OVER: dt_buffer_move(&stash_of(p, a)->x, &stash_at(p, a->part - 1, a->segment)->x); break;
    case ACTION_GIVE_BACK: dt_buffer_move(&stash_at(p, a->part - 1, a->segment)->dx, &stash_of(p, a)->dx); break;
    case ACTION_BEGIN: return run_begin(p, a);
    case ACTION_END: dt_stash_end(stash_of(p, a), p->setup.compute); break;
    case ACTION_KEEP_INPUT: activation_keep_input(p->activation, a, stash_of(p, a)); break;
    case ACTION_TAKE_INPUT: return activation_take_input(p->activation, a, stash_of(p, a));
    case ACTION_DROP: return run_drop(p, a);
    case ACTION_COPY_OUT: return activation_copy_out(p->activation, a, stash_of(p, a));
    case ACTION_AWAIT_OUT: return activation_await_out(p->activation, a);
    case ACTION_COPY_IN: return activation_copy_in(p->activation, a);
    case ACTION_PUBLISH: return dp->mode->publish(dp);
    case ACTION_GATHER: return residency_gather(dp, a->group);
    case ACTION_FREE: residency_free(dp, a->group); break;
    case ACTION_BEGIN_GRADIENTS: return dp->mode->begin_gradients(dp, group_of(p, a), a);
    case ACTION_SUM_COPIES: return copies_sum(p->ends, &dp->setup, group_of(p, a));
    case ACTION_REDUCE: return dp->mode->reduce(dp, group_of(p, a), a);
    case ACTION_UPDATE: return dp->mode->update(dp, group_of(p, a));
    case ACTION_END_STEP: DT_TRY(state_share(&dp->setup)); return dp->mode->end_step(dp);
    case ACTION_EXTRA: return run_extra(p, a);
    case ACTION_OPS: break;
    }
    return DT_OK;
}

enum { SAME_PHASE = -1, NEXT_PHASE = -2 };

/* The phase of compute's time from an action on. */
static const int phases[ACTION_OPS] = {
    [ACTION_FORWARD] = TIMELINE_FORWARD,
    [ACTION_BACKWARD] = TIMELINE_BACKWARD,
    [ACTION_BACKWARD_INPUT] = TIMELINE_BACKWARD,
    [ACTION_BACKWARD_WEIGHT] = TIMELINE_BACKWARD,
    [ACTION_RECOMPUTE] = TIMELINE_BACKWARD,
    [ACTION_FORWARD_BACKWARD] = TIMELINE_BACKWARD,
    [ACTION_RECV_INPUT] = TIMELINE_FORWARD,
    [ACTION_SEND_OUTPUT] = TIMELINE_FORWARD,
    [ACTION_RECV_GRADIENT] = TIMELINE_BACKWARD,
    [ACTION_SEND_GRADIENT] = TIMELINE_BACKWARD,
    [ACTION_TAKE_OVER] = SAME_PHASE,
    [ACTION_GIVE_BACK] = SAME_PHASE,
    [ACTION_BEGIN] = TIMELINE_FORWARD,
    [ACTION_END] = SAME_PHASE,
    [ACTION_KEEP_INPUT] = SAME_PHASE,
    [ACTION_TAKE_INPUT] = TIMELINE_BACKWARD,
    [ACTION_DROP] = SAME_PHASE,
    [ACTION_COPY_OUT] = SAME_PHASE,
    [ACTION_AWAIT_OUT] = NEXT_PHASE,
    [ACTION_COPY_IN] = NEXT_PHASE,
    [ACTION_PUBLISH] = SAME_PHASE,
    [ACTION_GATHER] = NEXT_PHASE,
    [ACTION_FREE] = SAME_PHASE,
    [ACTION_BEGIN_GRADIENTS] = NEXT_PHASE,
    [ACTION_SUM_COPIES] = TIMELINE_OPTIMIZER,
    [ACTION_REDUCE] = SAME_PHASE,
    [ACTION_UPDATE] = TIMELINE_OPTIMIZER,
    [ACTION_END_STEP] = TIMELINE_OPTIMIZER,
    [ACTION_EXTRA] = SAME_PHASE,
};

/* The action whose place counts for action `at`: for a gather, the pass that waits for it. */
static const struct action *pass_of(const struct pipeline *p, int at)
{
    const struct action *a = &p->plan.actions[at];
    while (phases[a->op] == NEXT_PHASE)
        a++;
    return a;
}

/* At the beginning of a pass, or at the end of the step, begin a new profiler range. */
static bool enter_range(struct pipeline *p, const struct action *a, int phase)
{
    bool update = a->op == ACTION_UPDATE, same = phase == p->range_phase && a->micro_batch == p->range_batch;
    if (update || (p->range_open && same))
        return false;
    if (p->range_open)
        dt_range_pop();
    if (phase == TIMELINE_OPTIMIZER)
        dt_range_push("end of step", -1);
    else
        dt_range_push(phase == TIMELINE_FORWARD ? "forward" : "backward", (int)a->micro_batch);
    p->range_open = true;
    p->range_phase = phase;
    p->range_batch = a->micro_batch;
    return true;
}

/* The names of an action's work in traces. Work at the end of a step belongs to no micro-batch. */
static struct dt_pass pass_named(const struct action *a)
{
    bool of_step = a->op == ACTION_PUBLISH || phases[a->op] == TIMELINE_OPTIMIZER;
    return of_step ? dt_no_pass() : (struct dt_pass){(int)a->micro_batch, a->part};
}

static void note_memory(struct pipeline *p, int phase)
{
    if (!p->setup.memory_at || phase == SAME_PHASE || p->begun & 1u << phase)
        return;
    p->begun |= 1u << phase;
    dt_memory_usage(p->setup.device, &p->setup.memory_at[phase]);
}

static dt_status enter(struct pipeline *p, int at)
{
    const struct action *a = pass_of(p, at);
    int phase = a->flags & ACTION_AGAIN ? TIMELINE_BACKWARD : phases[a->op];
    note_memory(p, phase);
    if (phase == SAME_PHASE || (!enter_range(p, a, phase) && phase == p->phase))
        return DT_OK;
    p->phase = phase;
    if (phase == TIMELINE_BACKWARD && p->setup.copied)
        DT_TRY(dt_stream_wait(p->setup.compute, p->setup.copied));
    DT_TRY(dt_pass_enter(p->setup.device, pass_named(a)));
    return timeline_enter(p->setup.timeline, (enum timeline_phase)phase);
}

static dt_status run(struct pipeline *p, int at)
{
    const struct action *a = &p->plan.actions[at];
    DT_TRY(enter(p, at));
    DT_TRY(dt_pass_enter(p->setup.device, pass_named(a))); /* a gather may be for a later phase than the current one */
    if (!action_computes(a))
        return perform(p, a);
    dt_range_push(a->op == ACTION_RECOMPUTE ? "recompute group" : "group", a->group);
    dt_status status = perform(p, a);
    dt_range_pop();
    return status;
}

static dt_status run_plan(struct pipeline *p)
{
    const struct pipeline_setup *s = &p->setup;
    DT_TRY(timeline_start(s->timeline));
    if (s->stage->last)
        DT_TRY(dt_zero(s->compute, s->stage->loss.data, sizeof(double)));
    for (int i = 0; i < p->plan.count; i++)
        DT_TRY(run(p, i));
    DT_TRY(dt_pass_enter(s->device, dt_no_pass()));
    links_end_step(&p->links);
    return timeline_stop(s->timeline);
}

dt_status pipeline_step(struct pipeline *p, int step)
{
    p->step = step;
    p->phase = TIMELINE_FORWARD;
    p->begun = 0;
    dt_status status = run_plan(p);
    if (p->range_open)
        dt_range_pop();
    p->range_open = false;
    return status;
}

dt_status pipeline_synchronize(struct pipeline *p)
{
    struct dt_stream *streams[1 + LINKS + 2] = {p->setup.compute};
    links_streams(&p->links, streams + 1);
    activation_streams(p->activation, streams + 1 + LINKS);
    return streams_synchronize(streams, sizeof streams / sizeof *streams);
}

/* ---- setting up ---- */

static void describe_groups(const struct pipeline *p, struct plan_group *groups)
{
    const struct dt_stage *stage = p->setup.stage;
    const struct data_parallel *dp = p->setup.dp;
    for (int g = 0; g < stage->group_count; g++)
        groups[g] = (struct plan_group){
            .backward_reads_params = stage->groups[g].backward_reads_params,
            .kept_with_next = stage->groups[g].kept_with_next,
            .reads_first = stage->groups[g].reads_first,
            .has_copy = stage->groups[g].copy_elems > 0,
            .bucket = dp->bucket_of ? dp->bucket_of[g] : g,
        };
}

static dt_status expand_plan(struct pipeline *p, const struct plan_part *parts)
{
    const struct pipeline_extra *extra = p->setup.extra;
    if (extra)
        DT_TRY(extra->change_passes(extra->context, p->setup.dp, &p->plan));
    DT_TRY(plan_expand(&p->plan, parts));
    DT_TRY(plan_place_parameters(&p->plan, parts, &p->setup.dp->rules));
    return extra ? extra->change_plan(extra->context, p->setup.dp, &p->plan) : DT_OK;
}

static dt_status finish_plan(struct pipeline *p)
{
    const struct dt_stage *stage = p->setup.stage;
    DT_FREED struct plan_group *groups = calloc((size_t)stage->group_count, sizeof *groups);
    DT_FREED struct plan_part *parts = calloc((size_t)stage->part_count, sizeof *parts);
    DT_TRY(dt_allocated(groups && parts, "no host memory for a plan's groups"));
    describe_groups(p, groups);
    for (int i = 0; i < stage->part_count; i++) {
        parts[i] = (struct plan_part){.groups = groups, .first_group = stage->parts[i].first_group, .end_group = stage->parts[i].end_group};
        activation_describe(p->activation, i, &parts[i]);
    }
    return expand_plan(p, parts);
}

/* Leave out repetitions that are like those that stay: with samples of one size, and reductions
 * after the same number of micro-batches. */
static void shorten(const struct pipeline *p, struct plan *plans, int count)
{
    int micro_batches = plans[0].micro_batches, every = p->setup.dp->rules.reduce_every;
    if (p->setup.samples % (size_t)micro_batches == 0)
        plans_shorten(plans, count, every > 0 && every < micro_batches ? every : 1, p->setup.repetitions);
}

static dt_status make_passes(struct pipeline *p)
{
    int stage = p->setup.mesh->at[MESH_PIPELINE], stages = p->setup.order->shape.stages;
    int around[] = {stage, (stage + 1) % stages, (stage + stages - 1) % stages}, count = stages < 3 ? stages : 3;
    struct plan plans[3] = {0};
    dt_status status = plans_of_stages(p->setup.order->row, &p->setup.order->shape, around, count, plans);
    if (status == DT_OK && p->setup.repetitions > 0)
        shorten(p, plans, count);
    if (status == DT_OK && stages > 1)
        status = plan_receipts_find(stage, &plans[count - 1], &plans[1], &p->receipts);
    p->plan = plans[0];
    plan_finish(&plans[1]);
    plan_finish(&plans[2]);
    DT_TRY(status);
    return plan_assign_slots(&p->plan);
}

static dt_status create_stashes(struct pipeline *p)
{
    int parts = p->plan.parts, slots = p->plan.slots;
    p->stashes = calloc((size_t)parts * (size_t)slots, sizeof *p->stashes);
    DT_TRY(dt_allocated(p->stashes, "no host memory for %d stashes", parts * slots));
    for (int i = 0; i < parts * slots; i++)
        DT_TRY(dt_stash_create(p->setup.stage, i / slots, &p->stashes[i]));
    return DT_OK;
}

static dt_status create_activation(struct pipeline *p)
{
    struct activation_setup activation = {
        .experiment = p->setup.experiment,
        .rules = p->setup.activation,
        .stage = p->setup.stage,
        .device = p->setup.device,
        .compute = p->setup.compute,
        .timeline = p->setup.timeline,
        .slots = p->plan.slots,
    };
    return activation_create(&activation, &p->activation);
}

static dt_status create_parts(struct pipeline *p)
{
    const struct pipeline_setup *s = &p->setup;
    DT_TRY(make_passes(p));
    DT_TRY(create_stashes(p));
    DT_TRY(create_activation(p));
    DT_TRY(finish_plan(p));
    if (s->mesh->shape.size[MESH_PIPELINE] == 1)
        return DT_OK;
    DT_TRY(links_init(&p->links, s->mesh, s->compute, &p->plan, &p->receipts));
    return dt_model_facts(&s->experiment->model).ends_share ? copies_connect(s->mesh, &p->plan, &p->ends) : DT_OK;
}

dt_status pipeline_create(const struct pipeline_setup *setup, struct pipeline **out)
{
    DT_DESTROYED(pipeline_destroy) struct pipeline *p = calloc(1, sizeof *p);
    *out = NULL;
    DT_TRY(dt_allocated(p, "no host memory for a pipeline"));
    p->setup = *setup;
    p->family = setup->experiment->model.family;

    /* The mean over the replica's step, in however many pieces it is computed. The study's sum of
     * logits is taken per sample for the same reason. */
    double rows = (double)setup->samples * (setup->experiment->loss == LOSS_SUM ? 1 : dt_model_facts(&setup->experiment->model).loss_terms);
    rows /= setup->experiment->context.size; /* each of these ranks has a part of the rows, and sums over ranks become means */
    p->scales = (struct dt_loss_scales){.loss = (float)(1 / rows), .gradient = (float)(experiment_static_scale(setup->experiment) / rows)};

    DT_TRY(create_parts(p));
    *out = DT_PASSED_ON(p);
    return DT_OK;
}

void pipeline_destroy(struct pipeline *p)
{
    if (!p)
        return;
    if (p->setup.extra)
        p->setup.extra->finish(p->setup.extra->context, p->setup.dp);
    for (int i = 0; p->stashes && i < p->plan.parts * p->plan.slots; i++)
        dt_stash_destroy(p->setup.stage, &p->stashes[i], p->setup.compute);
    dt_comm_destroy(p->ends);
    links_finish(&p->links);
    activation_destroy(p->activation);
    plan_receipts_finish(&p->receipts);
    plan_finish(&p->plan);
    free(p->stashes);
    free(p);
}

const struct plan *pipeline_plan(const struct pipeline *p)
{
    return &p->plan;
}

uint64_t pipeline_sent_bytes(const struct pipeline *p)
{
    return links_sent_bytes(&p->links);
}

uint64_t pipeline_summed_bytes(const struct pipeline *p)
{
    return p->ends ? dt_comm_bytes(p->ends, DT_COMM_ALL_REDUCE) : 0;
}
