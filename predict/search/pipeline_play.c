#include "predict/search/search.h"

#include "schedules/config/order.h"
#include "schedules/config/split.h"
#include "schedules/plan/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Set blocks [virtual_stages] to the number of blocks of each virtual stage. Errors: as
 * experiment_partition. */
static dt_status find_blocks(const struct experiment *e, int virtual_stages, int *blocks)
{
    int *first = malloc(((size_t)virtual_stages + 1) * sizeof *first), block = 0;
    DT_TRY(dt_allocated(first, "no host memory for %d stages", virtual_stages));
    dt_status status = experiment_partition(e, virtual_stages, first);
    for (int v = 0; status == DT_OK && v < virtual_stages; v++) {
        while (block < dt_model_blocks(&e->model) && dt_block_layer(e->model.family, block) < first[v])
            block++;
        blocks[v] = 0;
        while (block < dt_model_blocks(&e->model) && dt_block_layer(e->model.family, block + 1) <= first[v + 1]) {
            blocks[v]++;
            block++;
        }
    }
    free(first);
    return status;
}

struct pipeline_play {
    struct plan *plans;            /* [stages] */
    struct rank_time *ranks;       /* [stages] */
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

/* How long a rank's gradients are still being sent after its last pass. That pass completes the
 * gradients of one of the rank's parts, which are sent from the beginning of the pass at the
 * earliest. */
static double gradients_left_s(const struct pipeline_play *p, int rank, double end_s)
{
    double least = INFINITY;
    for (int part = 0; part < p->plans[rank].parts; part++) {
        int v = plan_virtual_stage(&p->plans[rank], &(struct action){.part = part});
        const struct plan_part_times *t = &p->parts[v];
        least = fmin(least, p->blocks[v] * end_s - t->backward_input - t->backward_weight - t->early - t->again);
    }
    return fmax(least, 0);
}

/* The time of a rank after its last pass. It updates a group as soon as the group's gradients are
 * reduced, while others are being reduced. */
static double after_passes_s(const struct pipeline_play *p, const struct pass_times *t, int rank)
{
    return fmax(gradients_left_s(p, rank, t->end_s), t->update_s * blocks_of_rank(p, rank));
}

static double longest_s(const struct pipeline_play *p, const struct pass_times *t)
{
    double longest = p->ranks[0].end - p->ranks[0].begin + after_passes_s(p, t, 0);
    for (int k = 0; k < p->stages; k++)
        longest = fmax(longest, p->ranks[k].busy + after_passes_s(p, t, k));
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
    double samples =
        (double)e->batch_size * mesh_count(&mesh, MESH_ON_MODEL) / mesh.size[MESH_CONTEXT] / e->micro_batches / e->pipeline.chunks;
    return samples * dt_model_units(&e->model) < many_rows ? 0.2 : 0.5;
}

static dt_status play_shortest(struct pipeline_play *p, const struct pass_times *t, double least, double *out)
{
    struct plan_uneven_times uneven = {.parts = p->parts, .window = p->window, .nodes = p->nodes, .send_away = t->messages.away_s};
    struct plan_times times = {.uneven = &uneven, .send = t->messages.near_s};
    double most = plan_has_halves(&p->plans[0]) ? 0.95 : 0.55;
    *out = INFINITY;
    for (double inputs = least; inputs < most; inputs += 0.1) {
        divide_passes(p, t, inputs);
        DT_TRY(plan_time(p->plans, p->stages, &times, p->ranks));
        *out = fmin(*out, longest_s(p, t));
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
                              .ranks = calloc((size_t)stages, sizeof *p.ranks),
                              .nodes = calloc((size_t)stages, sizeof *p.nodes),
                              .blocks = calloc((size_t)virtual_stages, sizeof *p.blocks),
                              .parts = calloc((size_t)virtual_stages, sizeof *p.parts),
                              .stages = stages,
                              .virtual_stages = virtual_stages,
                              .window = e->pipeline.chunks};
    dt_status status = p.plans && p.ranks && p.nodes && p.blocks && p.parts
                           ? find_blocks(e, virtual_stages, p.blocks)
                           : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the plans of %d stages", stages);
    DT_THEN(status, plans_make(order.row, &order.shape, p.plans));
    for (int k = 0; status == DT_OK && k < stages; k++)
        p.nodes[k] = mesh_moved(&e->strategy.mesh, MESH_PIPELINE, 0, k) / times->messages.ranks_per_node;
    DT_THEN(status, play_shortest(&p, times, plan_has_halves(&p.plans[0]) ? least_of_inputs(e) : 0.5, out));
    for (int i = 0; p.plans && i < stages; i++)
        plan_finish(&p.plans[i]);
    free(p.parts);
    free(p.blocks);
    free(p.nodes);
    free(p.ranks);
    free(p.plans);
    return status;
}
