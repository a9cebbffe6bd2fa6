#include "schedules/data_parallel/norm.h"
#include "schedules/data_parallel/offload.h"

#include <stdlib.h>

/* A range of a group's elements that this rank counts: it leaves out elements that another rank
 * counts. */
struct counted {
    size_t first_elem, end_elem;
};

struct gradient_norm {
    struct dt_comm *world;
    const struct dt_stage *stage;
    struct dt_norm_rule rule;
    struct counted **counted;      /* [group_count] ranges in order, each list ends with an empty one; NULL: the whole group */
    struct norm_run waiting;       /* a range that is not queued yet; its g is unused */
    struct dt_buffer squares;      /* one fp32: this rank's sum, then that of all ranks */
    struct dt_buffer host_squares; /* with offload, the same in host memory */
};

bool norm_is_needed(const struct experiment *experiment)
{
    return experiment->optimizer.clip_norm > 0 || experiment_scales_dynamically(experiment);
}

struct dt_norm_state norm_before_steps(const struct experiment *e)
{
    float scale = experiment_scales_dynamically(e) ? (float)e->dynamic_loss_scale.initial : 1;
    return (struct dt_norm_state){.factor = 1, .loss_scale = scale, .used_scale = scale};
}

/* ---- what is counted ---- */

/* Adjacent tensors are merged to one range. */
static dt_status find_counted(const struct dt_stage *stage, const struct dt_group *group, struct counted **out)
{
    struct dt_model_tensor tensor;
    int count = 0;
    while (stage->model->family->tensor(stage, group, count, &tensor))
        count++;
    struct counted *runs = *out = calloc((size_t)count + 1, sizeof *runs), *last = runs;
    DT_TRY(dt_allocated(runs, "no host memory for the runs of a group's gradients"));
    for (int i = 0; stage->model->family->tensor(stage, group, i, &tensor); i++) {
        if (tensor.copy)
            continue;
        if (last->end_elem != tensor.offset_elems && last->end_elem > 0)
            last++;
        if (last->end_elem == 0)
            last->first_elem = tensor.offset_elems;
        last->end_elem = tensor.offset_elems + tensor.count_elems;
    }
    return DT_OK;
}

static dt_status find_all_counted(struct gradient_norm *n, const struct experiment *e)
{
    n->counted = calloc((size_t)n->stage->group_count, sizeof *n->counted);
    DT_TRY(dt_allocated(n->counted, "no host memory for %d groups", n->stage->group_count));
    for (int g = 0; g < n->stage->group_count; g++)
        if (e->tensor.size > 1 || n->stage->groups[g].copy_elems > 0)
            DT_TRY(find_counted(n->stage, &n->stage->groups[g], &n->counted[g]));
    return DT_OK;
}

/* ---- setting up ---- */

static struct dt_norm_rule rule_of(const struct experiment *e)
{
    struct dt_norm_rule rule = {.clip = (float)e->optimizer.clip_norm};
    if (experiment_scales_dynamically(e)) {
        rule.growth = (float)e->dynamic_loss_scale.growth;
        rule.backoff = (float)e->dynamic_loss_scale.backoff;
        rule.window = (uint32_t)e->dynamic_loss_scale.window;
    }
    return rule;
}

dt_status norm_create(const struct experiment *experiment, const struct dt_stage *stage, struct dt_comm *world, struct dt_stream *compute,
                      struct gradient_norm **out)
{
    struct gradient_norm *n = *out = calloc(1, sizeof *n);
    DT_TRY(dt_allocated(n, "no host memory for the gradients' norm"));
    *n = (struct gradient_norm){.world = world, .stage = stage, .rule = rule_of(experiment)};
    DT_TRY(find_all_counted(n, experiment));
    struct dt_norm_state before = norm_before_steps(experiment);
    DT_TRY(dt_kernels_set_norm(stage->kernels, compute, &before));
    DT_TRY(dt_alloc(compute, DT_COMMUNICATION, sizeof(float), &n->squares));
    return experiment->parameter_offload ? dt_alloc_host(compute, DT_COMMUNICATION, sizeof(float), &n->host_squares) : DT_OK;
}

void norm_destroy(struct gradient_norm *n, struct dt_stream *compute)
{
    if (!n)
        return;
    for (int g = 0; n->counted && g < n->stage->group_count; g++)
        free(n->counted[g]);
    free(n->counted);
    dt_free(compute, &n->host_squares);
    dt_free(compute, &n->squares);
    free(n);
}

/* ---- in a step ---- */

/* Queue the waiting range: if all replicas have the same gradients, each adds a part of them. */
static dt_status flush(struct gradient_norm *n, const struct dp_setup *s)
{
    const struct norm_run run = n->waiting;
    size_t first = 0, count = run.count_elems;
    n->waiting = (struct norm_run){0};
    if (run.replicas) {
        size_t size = (size_t)dt_comm_size(run.replicas), share = (count + size - 1) / size;
        first = share * (size_t)dt_comm_rank(run.replicas);
        count = first < count ? count - first : 0;
        count = count < share ? count : share;
    }
    if (count == 0)
        return DT_OK;
    return dt_kernels_add_squares(n->stage->kernels, s->offload ? s->offload->update : s->compute, s->offload, s->gradient_dtype,
                                  (const char *)run.grads + dp_grads_bytes(s, first), count);
}

static dt_status add(struct gradient_norm *n, const struct dp_setup *s, const struct norm_run *run)
{
    struct norm_run *waiting = &n->waiting;
    if (waiting->count_elems > 0 && (const char *)waiting->grads + dp_grads_bytes(s, waiting->count_elems) == run->grads) {
        waiting->count_elems += run->count_elems;
        return DT_OK;
    }
    DT_TRY(flush(n, s));
    *waiting = *run;
    return DT_OK;
}

dt_status norm_add(struct gradient_norm *n, const struct dp_setup *s, const struct norm_run *run)
{
    const struct counted whole[] = {{0, n->stage->groups[run->g].param_elems}, {0, 0}};
    size_t end = run->first_elem + run->count_elems;
    for (const struct counted *c = n->counted[run->g] ? n->counted[run->g] : whole; c->end_elem > 0; c++) {
        size_t from = c->first_elem > run->first_elem ? c->first_elem : run->first_elem, to = c->end_elem < end ? c->end_elem : end;
        struct norm_run part = *run;
        if (from >= to)
            continue;
        part.grads = (const char *)run->grads + dp_grads_bytes(s, from - run->first_elem);
        part.count_elems = to - from;
        DT_TRY(add(n, s, &part));
    }
    return DT_OK;
}

/* Bring this rank's sum to the buffer that the network reads. */
static dt_status sum(struct gradient_norm *n, const struct dp_setup *s)
{
    struct dt_kernels *k = n->stage->kernels;
    const struct offload *o = s->offload;
    if (!o)
        return dt_kernels_sum_squares(k, s->compute, false, n->squares.data);
    DT_TRY(dt_kernels_sum_squares(k, o->update, true, n->host_squares.data));
    DT_TRY(dt_stream_follow(s->compute, o->update)); /* this wait for other ranks' work does not count as communication */
    return dt_copy_from_host(s->compute, n->squares.data, n->host_squares.data, sizeof(float));
}

/* The host's updates wait for the norm as the device's do. */
static dt_status settle_on_host(struct gradient_norm *n, const struct dp_setup *s)
{
    DT_TRY(dt_copy_to_host(s->compute, n->host_squares.data, n->squares.data, sizeof(float)));
    DT_TRY(dt_stream_follow(s->offload->update, s->compute));
    return dt_kernels_settle_norm(n->stage->kernels, s->offload->update, true, &n->rule, n->host_squares.data);
}

dt_status norm_settle(struct gradient_norm *n, const struct dp_setup *s, int summed_ranks)
{
    n->rule.gradient_scale = (float)(1 / experiment_static_scale(s->experiment) / summed_ranks);
    DT_TRY(flush(n, s));
    DT_TRY(sum(n, s));
    DT_TRY(dt_stream_follow(s->network, s->compute));
    DT_TRY(dt_all_reduce(n->world, n->squares.data, 1, DT_FP32, DT_SUM, s->network));
    DT_TRY(timeline_follow(s->timeline, s->network));
    DT_TRY(dt_kernels_settle_norm(n->stage->kernels, s->compute, false, &n->rule, n->squares.data));
    return s->offload ? settle_on_host(n, s) : DT_OK;
}
