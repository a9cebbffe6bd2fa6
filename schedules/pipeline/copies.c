#include "schedules/pipeline/copies.h"

dt_status copies_init(struct copies *copies, const struct mesh *mesh, struct dt_device *device, const struct plan *plan)
{
    int rank = dt_comm_rank(mesh->world), here = mesh->at[MESH_PIPELINE];
    int first = plan_rank_of(plan, 0), last = plan_rank_of(plan, plan->parts * plan->stages - 1);
    int ranks[2] = {mesh_moved(&mesh->shape, MESH_PIPELINE, rank, first), mesh_moved(&mesh->shape, MESH_PIPELINE, rank, last)};
    bool is_end = here == first || here == last;
    if (first == last)
        return DT_OK;
    DT_TRY(dt_comm_subset(mesh->world, ranks, is_end ? 2 : 0, "tied tables", &copies->ends));
    DT_TRY(dt_event_create(device, &copies->ready));
    return dt_event_create(device, &copies->done);
}

void copies_finish(struct copies *copies)
{
    dt_event_destroy(copies->done);
    dt_event_destroy(copies->ready);
    dt_comm_destroy(copies->ends);
    *copies = (struct copies){0};
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

dt_status copies_sum(struct copies *copies, const struct dp_setup *setup, const struct dt_group *group)
{
    if (!copies->ends)
        return group->index == 0 ? sum_here(setup) : DT_OK;
    DT_TRY(dt_event_record(copies->ready, setup->compute));
    DT_TRY(dt_stream_wait(setup->network, copies->ready));
    DT_TRY(dt_all_reduce(copies->ends, gradients_of(setup, group), group->copy_elems, setup->gradient_dtype, DT_SUM, setup->network));
    DT_TRY(dt_event_record(copies->done, setup->network));
    return timeline_wait(setup->timeline, copies->done);
}
