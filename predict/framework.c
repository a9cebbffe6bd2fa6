#include "predict/framework.h"

#include "lib/device/sim.h"
#include "schedules/data_parallel/buckets.h"

#include <math.h>
#include <stdlib.h>

/* The kinds of ACTION_EXTRA, in `segment`. */
enum extra_kind {
    HOLD_OUTPUT,       /* gradients of the model's output, which are kept until the slot is used again */
    RELEASE_OUTPUT,    /* free it */
    HOLD_AGAIN,        /* the same for a forward that is recomputed, until its backward has ended */
    RELEASE_AGAIN,     /* free it */
    GATHER_OUTPUTS,    /* temporary: all chunks' outputs in one buffer */
    SEPARATE_GRADIENT, /* first step: gradients of a group outside its bucket */
    RELEASE_SEPARATE,  /* free all of them */
    FLATTEN,           /* copy a group's gradients into one buffer */
    EXCHANGE_OUTPUTS,  /* send all ranks' outputs to the root, and their gradients back */
    COPY_GRADIENTS,    /* copy a bucket's shares before they are reduced */
    COPY_AGAIN,        /* the same on the network's stream; kernels may have to wait for it */
    GATHER_SHARES,     /* gather all updated shares of all buckets in one collective */
    HOLD_STAGE,        /* allocate a stage's buffers, at the first use */
    HOLD_FP8,          /* allocate FP8 copies of the weights, at the first use */
    SHARE_AMAX,        /* reduce the largest numbers of tensors over all data-parallel ranks */
    HOLD_UPDATE,       /* allocate the optimizer's copies of gradients */
    RELEASE_UPDATE,    /* free them */
    COPY_PARAMETERS,   /* copy every rank's shares of all tensors to their places */
};

/* ---- stages ---- */

static int piece_end(const struct dt_model *model, int layer)
{
    int first = dt_block_layer(model->family, 0), behind = dt_block_layer(model->family, dt_model_blocks(model));
    return layer >= first && layer < behind ? layer + dt_block_layer(model->family, 1) - first : layer + 1;
}

/* Add a stage: the last of several pieces before stage `head` (which moves to the end) becomes a
 * separate stage. False: no stage has several pieces. */
static bool divide_before(const struct dt_model *model, int head, int *first_layer)
{
    int divided = head - 1;
    while (divided >= 0 && piece_end(model, first_layer[divided]) >= first_layer[divided + 1])
        divided--;
    for (int stage = head + 1; divided >= 0 && stage > divided + 1; stage--)
        first_layer[stage] = first_layer[stage - 1];
    if (divided >= 0)
        first_layer[divided + 1] = piece_end(model, first_layer[divided]);
    return divided >= 0;
}

static double flops_of(const struct dt_model *model, int first, int end)
{
    struct dt_layers_size size;
    model->family->layers_size(model, (struct dt_layers){.first = first, .end = end}, &size);
    return 3 * (double)size.forward_flops; /* this is a whole number */
}

dt_status framework_fill_stages(const struct experiment *e, int stages, int *first_layer)
{
    const struct dt_model *model = &e->model;
    int layers = dt_layer_count(model), stage = 0;
    double total = flops_of(model, 0, layers), seen = 0;
    first_layer[0] = 0;
    for (int layer = 0; layer < layers;) {
        int end = piece_end(model, layer);
        seen += flops_of(model, layer, end);
        layer = end;
        if (layer < layers && seen * stages > total * (stage + 1))
            first_layer[++stage] = layer;
    }
    int empty = stages - 1 - stage;
    if (empty > 1 || (empty == 1 && !divide_before(model, stage, first_layer)))
        return dt_fail(DT_ERR_UNAVAILABLE, "pipeline.stages: the framework's rule leaves %d of %d stages empty", empty, stages);
    first_layer[stages] = layers;
    return DT_OK;
}

enum { AMAX_AXES = 4 };

struct framework {
    struct trainer_options options;
    struct pipeline_extra extra;
    struct bucket_scheme scheme; /* the mode's scheme, without publish */
    const struct experiment *experiment;
    const struct dt_profile *profile;
    int chunks; /* of a pipeline; 1 without one */
    int slots, groups;
    struct dt_buffer *outputs, *again; /* [slots] */
    struct dt_buffer *separate;        /* [groups] */
    struct dt_buffer exchanged;        /* root: the other ranks' outputs; elsewhere: the gradient of this rank's; until the next step */
    struct dt_buffer buffers;          /* of a stage of a pipeline */
    struct dt_buffer fp8;              /* weights cast to FP8 */
    struct dt_buffer update;           /* gradients in fp32, while they are used */
    struct dt_stream *amaxes;          /* of FP8: their exchanges. NULL: not used yet */
    struct dt_comm *amax_groups[AMAX_AXES];
};

/* ---- passes: which forward passes are recomputed ---- */

static int chunk_of(const struct framework *f, const struct action *a)
{
    return (int)a->micro_batch % f->chunks;
}

static bool computed_again(const struct framework *f, const struct action *a)
{
    return f->profile->schedule.keeps_last_chunk && f->experiment->paradigm == PARADIGM_PDP && chunk_of(f, a) < f->chunks - 1;
}

/* A backward pass begins with its messages; recomputation is placed before them. */
static dt_status forget_and_repeat(void *context, const struct plan *from, int at, struct plan *out)
{
    const struct framework *f = context;
    struct action a = from->actions[at], forward = a;
    bool received = at > 0 && from->actions[at - 1].op == ACTION_RECV_GRADIENT;
    bool backward = a.op == ACTION_BACKWARD || a.op == ACTION_BACKWARD_INPUT;
    bool begins_backward = a.op == ACTION_RECV_GRADIENT || (backward && !received);
    forward.op = ACTION_FORWARD;
    forward.flags = ACTION_AGAIN;
    if (begins_backward && computed_again(f, &a))
        DT_TRY(plan_append(out, forward));
    if (a.op == ACTION_FORWARD && computed_again(f, &a))
        a.flags |= ACTION_FORGETS;
    return plan_append(out, a);
}

/* Whether shares of ZeRO-1 and ZeRO-2 are copied to separate places. */
static bool divides_buckets(const struct framework *f, const struct data_parallel *dp)
{
    return f->profile->schedule.copies_shares && dp->mode->ranks == DP_RANKS_SHARE_BUCKETS && !dp->setup.offload;
}

static dt_status change_passes(void *context, struct data_parallel *dp, struct plan *plan)
{
    struct framework *f = context;
    dp->rules.gathers_in_turn = f->profile->schedule.gathers_in_turn;
    if (divides_buckets(f, dp)) {
        f->scheme = *buckets_of(dp)->scheme;
        f->scheme.publish = NULL;
        dp->rules.publishes = false;
        buckets_of(dp)->scheme = &f->scheme;
    }
    return plan_rewrite(plan, forget_and_repeat, context);
}

/* ---- the finished plan: what is allocated and copied ---- */

struct change {
    const struct framework *f;
    const struct data_parallel *dp;
    bool *held;        /* [slots] an output is allocated */
    bool gather_after; /* the last chunk's forward is the action before */
};

static dt_status append_extra(struct plan *out, const struct action *like, enum extra_kind kind)
{
    struct action a = *like;
    a.op = ACTION_EXTRA;
    a.segment = (uint16_t)kind;
    a.flags = 0;
    return plan_append(out, a);
}

static bool runs_head(const struct change *c, const struct action *a)
{
    const struct dt_stage *stage = c->dp->setup.stage;
    return stage->last && a->op == ACTION_FORWARD && a->group == stage->group_count - 1;
}

/* Whether the pass is through the model's output: the part with the head. Only there the output has
 * slots. */
static bool has_output(const struct change *c, const struct action *a)
{
    const struct dt_stage *stage = c->dp->setup.stage;
    return stage->parts[a->part].last;
}

static bool last_of_several(const struct framework *f, const struct action *a)
{
    return f->profile->schedule.holds_last_chunk && f->chunks > 1 && chunk_of(f, a) == f->chunks - 1;
}

static bool gathers_outputs(const struct framework *f, const struct data_parallel *dp)
{
    return f->profile->schedule.gathers_outputs && f->experiment->paradigm == PARADIGM_DATA_PARALLEL &&
           dt_comm_size(dp->setup.replicas) > 1;
}

static bool copies_shares(const struct change *c)
{
    return divides_buckets(c->f, c->dp) && dt_comm_size(c->dp->setup.shards) > 1;
}

/* Bytes of gradients that the optimizer copies to fp32 before it updates master weights. */
static double update_bytes(const struct framework *f, const struct data_parallel *dp)
{
    const struct dp_setup *s = &dp->setup;
    bool copies = s->experiment->optimizer.master_weights && dt_dtype_bytes(s->gradient_dtype) == 2 && dp->mode->gathers.of == DP_LESS;
    int shards = dp->mode->ranks == DP_RANKS_SHARE_BUCKETS ? dt_comm_size(s->shards) : 1;
    return copies ? f->profile->memory.update_bytes * (double)s->stage->param_elems / shards : 0;
}

/* Whether parameters are divided, and their shards are cast before they are gathered. */
static bool gathers_fp8(const struct framework *f, const struct data_parallel *dp)
{
    bool keeps = dt_fp8_recipe(f->experiment->model.fp8)->weight_bytes > 0;
    return f->experiment->model.fp8_gather && (dp->mode->gathers.of != DP_LESS || (dp->mode->ranks == DP_RANKS_SHARE_BUCKETS && keeps));
}

/* Whether weights cast to FP8 are held in addition to the 16-bit ones, for all micro-batches. Where
 * parameters exist in FP8 alone, nothing is added: a weight and its transpose in FP8 have the bytes
 * of a 16-bit weight. */
static bool holds_fp8(const struct framework *f, const struct data_parallel *dp)
{
    return dt_fp8_recipe(f->experiment->model.fp8)->weight_bytes > 0 && dp->mode->gathers.of == DP_LESS && !gathers_fp8(f, dp);
}

/* Forward's amaxes are exchanged when the slot is used again, which is as often as at forward's
 * end. */
static bool shares_amax(const struct framework *f, const struct data_parallel *dp, const struct action *a)
{
    const struct dt_model *model = &f->experiment->model;
    bool pass = a->op == ACTION_BEGIN || a->op == ACTION_END;
    return (dt_fp8_recipe(model->fp8)->shares_amax && pass) || (gathers_fp8(f, dp) && a->op == ACTION_END_STEP);
}

static dt_status before(struct change *c, const struct action *a, struct plan *out)
{
    const struct framework *f = c->f;
    bool after_forward = a->op == ACTION_FREE || a->op == ACTION_KEEP_INPUT;
    if (c->gather_after && !after_forward) {
        DT_TRY(append_extra(out, a - 1, GATHER_OUTPUTS));
        c->gather_after = false;
    }
    if (a->op == ACTION_BEGIN && has_output(c, a) && c->held[a->slot]) {
        c->held[a->slot] = false;
        DT_TRY(append_extra(out, a, RELEASE_OUTPUT));
    }
    if (a->op == ACTION_BEGIN && f->profile->schedule.stage_buffers && f->experiment->strategy.stages > 1)
        DT_TRY(append_extra(out, a, HOLD_STAGE));
    if (a->op == ACTION_BEGIN && holds_fp8(f, c->dp))
        DT_TRY(append_extra(out, a, HOLD_FP8));
    if (runs_head(c, a) && !c->held[a->slot]) {
        c->held[a->slot] = true;
        DT_TRY(append_extra(out, a, HOLD_OUTPUT));
    }
    if (a->op == ACTION_END && has_output(c, a) && computed_again(f, a))
        DT_TRY(append_extra(out, a, RELEASE_AGAIN));
    if (a->op == ACTION_REDUCE && copies_shares(c))
        DT_TRY(append_extra(out, a, COPY_GRADIENTS));
    if (shares_amax(f, c->dp, a))
        DT_TRY(append_extra(out, a, SHARE_AMAX));
    if (a->op == ACTION_END_STEP && update_bytes(f, c->dp) > 0)
        DT_TRY(append_extra(out, a, HOLD_UPDATE));
    return a->op == ACTION_END_STEP && f->profile->schedule.separate_first_gradients ? append_extra(out, a, RELEASE_SEPARATE) : DT_OK;
}

static bool is_backward(const struct action *a)
{
    return a->op == ACTION_BACKWARD || a->op == ACTION_FORWARD_BACKWARD;
}

static dt_status after(struct change *c, const struct plan *from, int at, struct plan *out)
{
    const struct framework *f = c->f;
    const struct action *a = &from->actions[at];
    bool freed = at > 0 && a->op == ACTION_FREE && is_backward(a - 1), free_follows = at + 1 < from->count && a[1].op == ACTION_FREE;
    const struct action *backward = freed ? a - 1 : is_backward(a) && !free_follows ? a : NULL;
    c->gather_after |= runs_head(c, a) && last_of_several(f, a) && f->chunks > 2;
    if (a->op == ACTION_TAKE_INPUT && a->segment == ACTION_WHOLE_PART && has_output(c, a))
        DT_TRY(append_extra(out, a, HOLD_AGAIN));
    if (is_backward(a) && (a->flags & ACTION_REDUCES) && c->dp->mode->gathers.of != DP_LESS) /* only fsdp does so */
        DT_TRY(append_extra(out, a, FLATTEN));
    if (runs_head(c, a) && gathers_outputs(f, c->dp))
        DT_TRY(append_extra(out, a, EXCHANGE_OUTPUTS));
    if (a->op == ACTION_REDUCE && copies_shares(c))
        DT_TRY(append_extra(out, a, COPY_AGAIN));
    if (a->op == ACTION_END_STEP && update_bytes(f, c->dp) > 0)
        DT_TRY(append_extra(out, a, RELEASE_UPDATE));
    if (a->op == ACTION_END_STEP && divides_buckets(f, c->dp))
        DT_TRY(append_extra(out, a, GATHER_SHARES));
    if (a->op == ACTION_END_STEP && copies_shares(c))
        DT_TRY(append_extra(out, a, COPY_PARAMETERS));
    bool separate = f->profile->schedule.separate_first_gradients && c->dp->mode->destroy == buckets_destroy &&
                    ((const struct buckets *)c->dp)->scheme->keep_gradients;
    return separate && backward && (backward->flags & ACTION_FIRST) ? append_extra(out, backward, SEPARATE_GRADIENT) : DT_OK;
}

static dt_status change_action(void *context, const struct plan *from, int at, struct plan *out)
{
    struct change *c = context;
    struct action action = from->actions[at];
    if (action.op == ACTION_RECOMPUTE && c->f->profile->schedule.recomputes_outputs)
        action.flags &= ~ACTION_ENDS_HERE;
    DT_TRY(before(c, &from->actions[at], out));
    DT_TRY(plan_append(out, action));
    return after(c, from, at, out);
}

/* Groups and a stream of their own: amaxes do not wait for gradients that are being reduced. */
static dt_status make_amax_groups(struct framework *f, const struct dp_setup *s)
{
    struct dt_comm *const axes[AMAX_AXES] = {s->tensor, s->contexts, s->shards, s->replicas};
    for (int i = 0; i < AMAX_AXES; i++)
        DT_TRY(axes[i] ? dt_comm_twin(axes[i], "amaxes", &f->amax_groups[i]) : DT_OK);
    return dt_stream_create(s->device, "amaxes", &f->amaxes);
}

/* Memory that a step leaves in a slot is freed when the next step uses the slot. The plan is the
 * same in every step, so the first BEGIN of every slot that is ever allocated frees. In the first
 * step there is nothing to free. */
static dt_status change_plan(void *context, const struct data_parallel *dp, struct plan *plan)
{
    struct framework *f = context;
    f->slots = plan->slots;
    f->groups = dp->setup.stage->group_count;
    f->outputs = calloc((size_t)f->slots, sizeof *f->outputs);
    f->again = calloc((size_t)f->slots, sizeof *f->again);
    f->separate = calloc((size_t)f->groups, sizeof *f->separate);
    struct change c = {.f = f, .dp = dp, .held = calloc((size_t)f->slots, sizeof *c.held)};
    bool all = f->outputs && f->again && f->separate && c.held;
    for (int i = 0; all && i < f->slots; i++)
        c.held[i] = dp->setup.stage->last;
    dt_status status =
        all ? plan_rewrite(plan, change_action, &c) : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for what a framework holds");
    free(c.held);
    const struct dt_model *model = &f->experiment->model;
    return status == DT_OK && (dt_fp8_recipe(model->fp8)->shares_amax || model->fp8_gather) ? make_amax_groups(f, &dp->setup) : status;
}

/* ---- running the extra actions ---- */

/* Elements per sample that are held of the output, and of the head's input if tensor parallelism
 * has gathered it. */
static double held_elems(const struct dt_profile *p, const struct experiment *e)
{
    const struct dt_model_facts facts = dt_model_facts(&e->model);
    double of_output = p->memory.output_elems + (e->tensor.size > 1 ? p->memory.shared_output_elems : 0);
    double of_input = e->tensor.sequence_parallel ? p->memory.gathered_elems / 2 * (1 - 1.0 / e->tensor.size) : 0;
    return (of_output * facts.outputs / e->tensor.size + of_input * facts.least_boundary_elems) / e->context.size;
}

/* Allocate this number of copies of a chunk's output. */
static dt_status hold(const struct framework *f, const struct data_parallel *dp, size_t samples, int copies, struct dt_buffer *out)
{
    double elems = (double)samples * held_elems(f->profile, f->experiment);
    return dt_alloc(dp->setup.compute, DT_ACTIVATIONS, dp_bytes(&dp->setup, (size_t)elems) * (size_t)copies, out);
}

static dt_status flatten(const struct framework *f, const struct data_parallel *dp, int group)
{
    size_t elems = dp->setup.stage->groups[group].param_elems, ranks = (size_t)dt_comm_size(dp->setup.shards);
    size_t bytes = dp_bytes(&dp->setup, (elems + ranks - 1) / ranks * ranks);
    struct dt_buffer flat;
    if (f->profile->schedule.flattening_copies == 0)
        return DT_OK;
    DT_TRY(dt_alloc(dp->setup.compute, DT_COMMUNICATION, bytes, &flat));
    for (int i = 0; i < f->profile->schedule.flattening_copies; i++)
        DT_TRY(dt_copy(dp->setup.compute, flat.data, flat.data, bytes));
    dt_free(dp->setup.compute, &flat);
    return DT_OK;
}

/* `copies` small copies, of `bytes` in total, which the host queues one by one. */
static dt_status copy_in_pieces(const struct data_parallel *dp, struct dt_stream *stream, double copies, double bytes)
{
    const struct dt_sim_device *d = dt_sim_device_of(dp->setup.device);
    if (!d)
        return DT_OK;
    double moved_s = d->memory_bytes_per_s > 0 ? 2 * bytes / d->memory_bytes_per_s : 0; /* bytes are read and written */
    return dt_sim_work(stream, copies, copies * d->copy_host_s, fmax(moved_s, copies * d->kernel_s), "copy");
}

/* Copy every rank's share of the bucket to a separate buffer. */
static dt_status copy_gradients(const struct data_parallel *dp, struct dt_stream *stream, int group)
{
    const struct dp_setup *s = &dp->setup;
    size_t elems = 0;
    for (int g = 0; g < s->stage->group_count; g++)
        elems += dp->bucket_of[g] == dp->bucket_of[group] ? s->stage->groups[g].param_elems : 0;
    return copy_in_pieces(dp, stream, dt_comm_size(s->shards), (double)(elems * dt_dtype_bytes(s->reduce_dtype)));
}

/* The copies that PyTorch makes. Operations that wait for the reduction are queued after it; if all
 * streams share a queue, kernels come after them. */
static dt_status copy_again(struct framework *f, const struct data_parallel *dp, int group)
{
    const struct dp_setup *s = &dp->setup;
    DT_TRY(copy_gradients(dp, s->network, group));
    return f->experiment->tensor.size == 1 ? DT_OK : timeline_follow(s->timeline, s->network);
}

static dt_status gather_shares(struct data_parallel *dp)
{
    struct buckets *b = buckets_of(dp);
    const struct dp_setup *s = &dp->setup;
    size_t share_elems = 0;
    for (int i = 0; i < b->bucket_count; i++)
        share_elems += b->buckets[i].shard.shard.share_elems;
    if (b->bucket_count == 0)
        return DT_OK;
    DT_TRY(dt_stream_follow(s->network, s->compute));
    void *params = replica_params(&b->replica, s, 0);
    DT_TRY(dt_all_gather(s->shards, params, params, share_elems, s->experiment->model.dtype, s->network));
    return timeline_follow(s->timeline, s->network);
}

/* Copy what PyTorch has gathered to one buffer per rank, then every rank's share of each tensor to
 * its place. */
static dt_status copy_parameters(const struct data_parallel *dp)
{
    const struct dp_setup *s = &dp->setup;
    double tensors = 0;
    for (int g = 0; g < s->stage->group_count; g++)
        tensors += s->stage->groups[g].param_elems > 0;
    return copy_in_pieces(dp, s->compute, (tensors + 1) * dt_comm_size(s->shards), 2 * (double)dp_bytes(s, s->stage->param_elems));
}

/* Send outputs to the root, or gradients back from it. */
static dt_status carry_outputs(const struct framework *f, const struct data_parallel *dp, size_t elems, bool back)
{
    enum { ROOT = 0 };
    struct dt_comm *replicas = dp->setup.replicas;
    enum dt_dtype dtype = f->experiment->model.dtype;
    struct dt_stream *network = dp->setup.network;
    void *data = f->exchanged.data;
    if (dt_comm_rank(replicas) != ROOT)
        return back ? dt_recv(replicas, data, elems, dtype, ROOT, network) : dt_send(replicas, data, elems, dtype, ROOT, network);
    for (int rank = ROOT + 1; rank < dt_comm_size(replicas); rank++)
        DT_TRY(back ? dt_send(replicas, data, elems, dtype, rank, network) : dt_recv(replicas, data, elems, dtype, rank, network));
    return DT_OK;
}

static dt_status exchange_outputs(struct framework *f, size_t samples, const struct data_parallel *dp)
{
    const struct dp_setup *s = &dp->setup;
    const struct dt_model *model = &f->experiment->model;
    size_t elems = samples * (size_t)dt_model_facts(model).outputs;
    size_t others = dt_comm_rank(s->replicas) == 0 ? (size_t)dt_comm_size(s->replicas) - 1 : 1;
    dt_free(s->compute, &f->exchanged);
    DT_TRY(dt_alloc(s->compute, DT_COMMUNICATION, others * dp_bytes(s, elems), &f->exchanged));
    DT_TRY(dt_stream_follow(s->network, s->compute));
    DT_TRY(carry_outputs(f, dp, elems, false));
    DT_TRY(carry_outputs(f, dp, elems, true));
    return timeline_follow(s->timeline, s->network);
}

/* Hold what the framework keeps of all micro-batches of a step in addition to dtbench's, which
 * keeps only those in flight: inputs, and one output and gradient. */
static dt_status hold_stage(struct framework *f, const struct data_parallel *dp, size_t samples)
{
    const struct dt_stage *stage = dp->setup.stage;
    const struct experiment *e = f->experiment;
    const double others = dp->setup.micro_batches - 1;
    double received = 0, input = 0, elems = 0;
    if (f->buffers.data)
        return DT_OK;
    for (int p = 0; p < stage->part_count; p++) {
        const struct dt_part *part = &stage->parts[p];
        if (!part->first) {
            received += dp->setup.micro_batches;
            input = (double)stage->model->family->boundary_elems(stage, p, false, samples);
        }
        elems += part->last ? others * (double)samples * dt_model_facts(&e->model).outputs / e->tensor.size / e->context.size
                            : 2 * others * (double)stage->model->family->boundary_elems(stage, p, true, samples);
    }
    elems += fmax(0, received - f->slots) * input;
    return elems > 0 ? dt_alloc(dp->setup.compute, DT_ACTIVATIONS, dp_bytes(&dp->setup, (size_t)elems), &f->buffers) : DT_OK;
}

static dt_status hold_fp8(struct framework *f, const struct data_parallel *dp)
{
    double bytes = 0, each = dt_fp8_recipe(f->experiment->model.fp8)->weight_bytes;
    const struct dt_stage *stage = dp->setup.stage;
    for (int g = 0; g < stage->group_count; g++)
        bytes += stage->groups[g].block >= 0 ? each * (double)stage->groups[g].param_elems : 0;
    return f->fp8.data ? DT_OK : dt_alloc(dp->setup.compute, DT_PARAMETERS, (size_t)bytes, &f->fp8);
}

/* One number for each of three tensors of a layer; thousands of them take no longer. */
static dt_status share_amax(struct framework *f, const struct dp_setup *s)
{
    size_t count = 3 * (size_t)dt_block_layer(s->stage->model->family, 1) * (size_t)s->stage->group_count;
    struct dt_buffer amaxes;
    DT_TRY(dt_alloc(s->compute, DT_COMMUNICATION, count * sizeof(float), &amaxes));
    DT_TRY(dt_stream_follow(f->amaxes, s->compute));
    for (int i = 0; i < AMAX_AXES; i++)
        DT_TRY(f->amax_groups[i] ? dt_all_reduce(f->amax_groups[i], amaxes.data, count, DT_FP32, DT_SUM, f->amaxes) : DT_OK);
    DT_TRY(timeline_follow(s->timeline, f->amaxes));
    dt_free(s->compute, &amaxes);
    return DT_OK;
}

static void release_separate(struct framework *f, const struct data_parallel *dp)
{
    for (int g = 0; f->separate && g < f->groups; g++)
        dt_free(dp->setup.compute, &f->separate[g]);
}

static dt_status run(void *context, const struct action *a, int step, size_t samples, struct data_parallel *dp)
{
    struct framework *f = context;
    struct dt_buffer all;
    switch ((enum extra_kind)a->segment) {
    case HOLD_OUTPUT: return hold(f, dp, samples, last_of_several(f, a) ? 2 : 1, &f->outputs[a->slot]);
    case RELEASE_OUTPUT: dt_free(dp->setup.compute, &f->outputs[a->slot]); return DT_OK;
    case HOLD_AGAIN: return hold(f, dp, samples, 1, &f->again[a->slot]);
    case RELEASE_AGAIN: dt_free(dp->setup.compute, &f->again[a->slot]); return DT_OK;
    case GATHER_OUTPUTS: /* the last chunk's output exists twice already, and once as logits */
        DT_TRY(hold(f, dp, samples, f->chunks - 2, &all));
        dt_free(dp->setup.compute, &all);
        return DT_OK;
    case SEPARATE_GRADIENT:
        return step > 1 ? DT_OK
                        : dt_alloc(dp->setup.compute, DT_GRADIENTS, dp_bytes(&dp->setup, dp->setup.stage->groups[a->group].param_elems),
                                   &f->separate[a->group]);
    case RELEASE_SEPARATE: release_separate(f, dp); return DT_OK;
    case FLATTEN: return flatten(f, dp, a->group);
    case EXCHANGE_OUTPUTS: return exchange_outputs(f, samples, dp);
    case COPY_GRADIENTS: return copy_gradients(dp, dp->setup.compute, a->group);
    case COPY_AGAIN: return copy_again(f, dp, a->group);
    case GATHER_SHARES: return gather_shares(dp);
    case HOLD_STAGE: return hold_stage(f, dp, samples);
    case HOLD_FP8: return hold_fp8(f, dp);
    case SHARE_AMAX: return share_amax(f, &dp->setup);
    case HOLD_UPDATE: return dt_alloc(dp->setup.compute, DT_GRADIENTS, (size_t)update_bytes(f, dp), &f->update);
    case RELEASE_UPDATE: dt_free(dp->setup.compute, &f->update); return DT_OK;
    case COPY_PARAMETERS: return copy_parameters(dp);
    }
    return DT_OK;
}

static void finish(void *context, const struct data_parallel *dp)
{
    struct framework *f = context;
    for (int i = 0; f->outputs && i < f->slots; i++)
        dt_free(dp->setup.compute, &f->outputs[i]);
    for (int i = 0; f->again && i < f->slots; i++)
        dt_free(dp->setup.compute, &f->again[i]);
    release_separate(f, dp);
    dt_free(dp->setup.compute, &f->exchanged);
    dt_free(dp->setup.compute, &f->buffers);
    dt_free(dp->setup.compute, &f->fp8);
    dt_free(dp->setup.compute, &f->update);
    for (int i = 0; i < AMAX_AXES; i++)
        dt_comm_destroy(f->amax_groups[i]);
    dt_stream_destroy(f->amaxes);
}

/* ---- setting up ---- */

/* Bytes of a parameter's gradient from backward to the update. If gradients of 16 bits are kept
 * after they were added to their fp32 sums, both count, unless the mode divides gradients. 0: those
 * of gradient_dtype.
 * Source  deepspeedai/DeepSpeed, deepspeed/runtime/pipe/engine.py, _exec_backward_pass: update_hp_grads(clear_lp_grads=False)
 *         after a micro-batch, clear_lp_grads() before the next one */
static double gradient_bytes(const struct experiment *e, const struct dt_profile *profile)
{
    size_t made = dt_dtype_bytes(e->model.dtype), added = dt_dtype_bytes(experiment_gradient_dtype(e));
    bool keeps = profile->memory.keeps_narrow_gradients && made < added && e->strategy.mode->holds.gradients != DP_SHARE;
    return fmax(profile->memory.gradient_bytes, keeps ? (double)(made + added) : 0);
}

dt_status framework_create(const struct experiment *e, const struct dt_profile *profile, struct framework **out)
{
    struct framework *f = calloc(1, sizeof *f);
    *out = NULL;
    DT_TRY(dt_allocated(f, "no host memory for a framework's plan"));
    f->experiment = e;
    f->profile = profile;
    f->chunks = e->paradigm == PARADIGM_PDP && e->pipeline.stages > 1 ? e->pipeline.chunks : 1;
    f->extra =
        (struct pipeline_extra){.change_passes = change_passes, .change_plan = change_plan, .run = run, .finish = finish, .context = f};
    f->options = (struct trainer_options){
        .partition = profile->schedule.fills_stages ? framework_fill_stages : NULL,
        .gradient_bytes = gradient_bytes(e, profile),
        .wide_reduction = profile->schedule.wide_gradients,
        .key_pieces = profile->schedule.key_pieces,
        .sums_in_turn = profile->schedule.sums_in_turn,
        .divides_messages = profile->schedule.divides_messages,
        .activation = {.copies_in_turn = profile->schedule.offloads_in_turn},
        .extra = &f->extra,
    };
    if (profile->schedule.whole_head)
        f->options.activation.head = e->paradigm == PARADIGM_FSDP ? ACTIVATION_HEAD_KEPT : ACTIVATION_HEAD_AGAIN;
    *out = f;
    return DT_OK;
}

const struct trainer_options *framework_options(const struct framework *f)
{
    return &f->options;
}

void framework_destroy(struct framework *f)
{
    if (!f)
        return;
    free(f->outputs);
    free(f->again);
    free(f->separate);
    free(f);
}
