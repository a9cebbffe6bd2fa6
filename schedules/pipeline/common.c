#include "schedules/pipeline/common.h"

/* ---- tied tables ---- */

dt_status copies_connect(const struct mesh *mesh, const struct plan *plan, struct dt_comm **out)
{
    int rank = dt_comm_rank(mesh->world), here = mesh->at[MESH_PIPELINE];
    int first = plan_rank_of(plan, 0), last = plan_rank_of(plan, plan->parts * plan->stages - 1);
    int ranks[2] = {mesh_moved(&mesh->shape, MESH_PIPELINE, rank, first), mesh_moved(&mesh->shape, MESH_PIPELINE, rank, last)};
    bool is_end = here == first || here == last;
    return first == last ? DT_OK : dt_comm_subset(mesh->world, ranks, is_end ? 2 : 0, "tied tables", out);
}

static void *gradients_of(const struct dp_setup *setup, const struct dt_group *group)
{
    return (char *)group->grads + dp_grads_bytes(setup, group->copy_first_elem);
}

/* Both copies are on this rank: the embedding's group takes the sum and copies it to the head's. */
static dt_status sum_here(const struct dp_setup *setup)
{
    const struct dt_stage *stage = setup->stage;
    const struct dt_group *embedding = &stage->groups[0], *head = &stage->groups[stage->group_count - 1];
    void *to = gradients_of(setup, embedding), *from = gradients_of(setup, head);
    DT_TRY(dp_add_gradients(setup, setup->compute, false, to, from, head->copy_elems));
    return dt_copy(setup->compute, from, to, dp_grads_bytes(setup, head->copy_elems));
}

dt_status copies_sum(struct dt_comm *ends, const struct dp_setup *setup, const struct dt_group *group)
{
    if (!ends)
        return group->index == 0 ? sum_here(setup) : DT_OK;
    DT_TRY(dt_stream_follow(setup->network, setup->compute));
    DT_TRY(dt_all_reduce(ends, gradients_of(setup, group), group->copy_elems, setup->gradient_dtype, DT_SUM, setup->network));
    return timeline_follow(setup->timeline, setup->network);
}

/* ---- state that is not trained ---- */

static bool is_shared(const struct dt_comm *comm)
{
    return comm && dt_comm_size(comm) > 1;
}

static dt_status exchange(const struct dp_setup *setup, struct dt_comm *comm)
{
    const struct dt_stage *stage = setup->stage;
    if (!is_shared(comm))
        return DT_OK;
    return dt_model_facts(stage->model).state == DT_STATE_AVERAGED
               ? dt_all_reduce(comm, stage->state.data, stage->state_elems, DT_FP32, DT_AVG, setup->network)
               : dt_broadcast(comm, stage->state.data, stage->state_elems, DT_FP32, 0, setup->network);
}

/* Exchange over one axis after the other: the mean of means is the mean of all, and the first rank
 * of the first ones is the first of all. */
dt_status state_share(const struct dp_setup *setup)
{
    if (setup->stage->state_elems == 0 || (!is_shared(setup->replicas) && !is_shared(setup->shards)))
        return DT_OK;
    DT_TRY(dt_stream_follow(setup->network, setup->compute));
    DT_TRY(exchange(setup, setup->replicas));
    DT_TRY(exchange(setup, setup->shards));
    return timeline_follow(setup->timeline, setup->network);
}
