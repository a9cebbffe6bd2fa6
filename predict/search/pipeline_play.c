#include "predict/search/search.h"

#include "schedules/config/order.h"
#include "schedules/config/split.h"
#include "schedules/plan/plan.h"

#include <math.h>
#include <stdlib.h>

/* Set blocks [virtual_stages] to the number of blocks of each virtual stage. Errors: as
 * experiment_partition. */
static dt_status find_blocks(const struct experiment *e, int virtual_stages, int *blocks)
{
    int block = 0;
    DT_FREED int *first = malloc(((size_t)virtual_stages + 1) * sizeof *first);
    DT_TRY(dt_allocated(first, "no host memory for %d stages", virtual_stages));
    DT_TRY(experiment_partition(e, virtual_stages, first));
    for (int v = 0; v < virtual_stages; v++) {
        while (block < dt_model_blocks(&e->model) && dt_block_layer(e->model.family, block) < first[v])
            block++;
        blocks[v] = 0;
        while (block < dt_model_blocks(&e->model) && dt_block_layer(e->model.family, block + 1) <= first[v + 1]) {
            blocks[v]++;
            block++;
        }
    }
    return DT_OK;
}

struct pipeline_play {
    struct plan *plans;            /* [stages] */
    double **ends;                 /* [stages][actions of the rank] when each ends */
    int *nodes;                    /* [stages] of rank 0's pipeline */
    int *blocks;                   /* [virtual stages] */
    struct plan_part_times *parts; /* [virtual stages] */
    int stages, virtual_stages, window;
};

/* inputs: the part of a backward pass that makes gradients of inputs. */
static void divide_passes(struct pipeline_play *p, const struct pass_times *t, double inputs)
{
    for (int v = 0; v < p->virtual_stages; v++) {
        double blocks = p->blocks[v], forward = blocks * t->block_forward_s, all = blocks * t->block_s;
        forward += (v == 0 ? t->first_forward_s : 0) + (v == p->virtual_stages - 1 ? t->last_forward_s : 0);
        all += (v == 0 ? t->first_s : 0) + (v == p->virtual_stages - 1 ? t->last_s : 0);
        double early = fmin(t->early_s, forward), backward = fmax(all - forward - early, 0);
        p->parts[v] = (struct plan_part_times){forward, inputs * backward, (1 - inputs) * backward, early, blocks * t->again_s};
    }
}

/* Number of blocks in all parts of a rank. */
static int blocks_of_rank(const struct pipeline_play *p, int rank)
{
    int blocks = 0;
    for (int part = 0; part < p->plans[rank].parts; part++)
        blocks += p->blocks[plan_virtual_stage(&p->plans[rank], &(struct action){.part = part})];
    return blocks;
}

/* When the part's last pass begins. That pass completes the part's gradients, which are sent from
 * then on at the earliest. */
static double last_pass_s(const struct pipeline_play *p, int rank, int part)
{
    const struct plan *plan = &p->plans[rank];
    const struct plan_part_times *t = &p->parts[plan_virtual_stage(plan, &(struct action){.part = part})];
    int i = plan->count - 1;
    while (!action_computes(&plan->actions[i]) || plan->actions[i].part != part)
        i--;
    return p->ends[rank][i] - t->backward_input - t->backward_weight - t->early - t->again;
}

/* The time of a rank after its last pass, which ends at `end`. Gradients are sent one after another:
 * those of a part, and of all parts that complete theirs later, are sent after the beginning of its
 * last pass. A group is updated as soon as its gradients are reduced, while others are being
 * reduced. */
static double after_passes_s(const struct pipeline_play *p, const struct pass_times *t, int rank, double end)
{
    const struct plan *plan = &p->plans[rank];
    double after = t->update_s * blocks_of_rank(p, rank), reduced_s = rank == t->slow_stage ? t->slow_s : t->end_s;
    for (int first = 0; first < plan->parts; first++) {
        double from = last_pass_s(p, rank, first), sent = 0;
        for (int part = 0; part < plan->parts; part++)
            if (last_pass_s(p, rank, part) >= from)
                sent += reduced_s * p->blocks[plan_virtual_stage(plan, &(struct action){.part = part})];
        after = fmax(after, from + sent - end);
    }
    return after;
}

/* How long the step is. convex: no longer; see play_shortest. */
struct played {
    double whole, convex;
};

static struct played longest_s(const struct pipeline_play *p, const struct pass_times *t, const struct plan_times *times)
{
    struct played longest = {0};
    for (int k = 0; k < p->stages; k++) {
        struct rank_time rank = plan_rank_time(&p->plans[k], times, p->ends[k]);
        double passes = k == 0 ? rank.end - rank.begin : rank.busy, whole = passes + after_passes_s(p, t, k, rank.end);
        longest.whole = fmax(longest.whole, whole);
        longest.convex = fmax(longest.convex, p->plans[k].parts == 1 ? whole : passes + t->update_s * blocks_of_rank(p, k));
    }
    return longest;
}

/* The least part of a backward pass that gradients of inputs take. They take at least as long as
 * those of weights, since the latter have no attention. With few rows memory limits products, and
 * then gradients of weights take longer: they are read and written, while gradients of inputs only
 * read the weights. */
static double least_of_inputs(const struct experiment *e)
{
    const double many_rows = 1024; /* above the operations per byte of any GPU */
    struct mesh_shape mesh = e->strategy.mesh;
    double samples = e->batch_size * mesh_count(&mesh, MESH_ON_MODEL) / mesh.size[MESH_CONTEXT] / e->micro_batches / e->pipeline.chunks;
    return samples * dt_model_units(&e->model) < many_rows ? 0.2 : 0.5;
}

/* The shortest of the steps in which gradients of inputs take different parts of a backward pass.
 * Passes wait for the same others in all of them. So a step without sending its gradients is as
 * long as the longest of fixed chains of passes, and each chain's time is linear in that part. With
 * one part of the model on each rank, gradients are sent from the beginning of the rank's last
 * pass, which adds a linear time; with more, the parts may complete theirs in another order. The
 * maximum of linear functions is convex: from the point where it grows it grows at least as fast,
 * and once it has to exceed the shortest step the others need not be played. */
static dt_status play_shortest(struct pipeline_play *p, const struct pass_times *t, double least, double *out)
{
    struct plan_uneven_times uneven = {.parts = p->parts, .window = p->window, .nodes = p->nodes, .send_away = t->messages.away_s};
    struct plan_times times = {.uneven = &uneven, .send = t->messages.near_s};
    double most = plan_has_halves(&p->plans[0]) ? 0.95 : 0.55, before = INFINITY, next = 0;
    *out = INFINITY;
    for (double inputs = least; inputs < most && next < *out; inputs += 0.1) {
        divide_passes(p, t, inputs);
        DT_TRY(plan_play(p->plans, p->stages, &times, p->ends));
        struct played played = longest_s(p, t, &times);
        *out = fmin(*out, played.whole);
        next = played.convex > before ? 2 * played.convex - before : 0;
        before = played.convex;
    }
    return DT_OK;
}

dt_status pipeline_played_s(const struct experiment *e, const struct pass_times *times, double *out)
{
    struct experiment_order order;
    struct order_layout layout;
    *out = 0;
    if (e->strategy.stages == 1 || e->strategy.has_order_file || !(times->block_s > times->block_forward_s) ||
        !(times->block_forward_s > 0))
        return DT_OK;
    DT_TRY(experiment_order_init(&order, e));
    DT_TRY(pipeline_order_layout(order.row, &order.shape, &layout));
    int stages = order.shape.stages, virtual_stages = stages * layout.parts;
    struct pipeline_play p = {.plans = calloc((size_t)stages, sizeof *p.plans),
                              .ends = calloc((size_t)stages, sizeof *p.ends),
                              .nodes = calloc((size_t)stages, sizeof *p.nodes),
                              .blocks = calloc((size_t)virtual_stages, sizeof *p.blocks),
                              .parts = calloc((size_t)virtual_stages, sizeof *p.parts),
                              .stages = stages,
                              .virtual_stages = virtual_stages,
                              .window = e->pipeline.chunks};
    dt_status status = p.plans && p.ends && p.nodes && p.blocks && p.parts
                           ? find_blocks(e, virtual_stages, p.blocks)
                           : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the plans of %d stages", stages);
    DT_THEN(status, plans_of_stages(order.row, &order.shape, NULL, stages, p.plans)); /* playing checks them */
    for (int k = 0; status == DT_OK && k < stages; k++) {
        p.ends[k] = malloc((size_t)p.plans[k].count * sizeof **p.ends);
        status = dt_allocated(p.ends[k], "no host memory for the plans of %d stages", stages);
        p.nodes[k] = mesh_moved(&e->strategy.mesh, MESH_PIPELINE, 0, k) / times->messages.ranks_per_node;
    }
    DT_THEN(status, play_shortest(&p, times, plan_has_halves(&p.plans[0]) ? least_of_inputs(e) : 0.5, out));
    plans_destroy(p.plans, stages);
    for (int i = 0; p.ends && i < stages; i++)
        free(p.ends[i]);
    free(p.parts);
    free(p.blocks);
    free(p.nodes);
    free(p.ends);
    return status;
}
