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

static void *gradients_of(const struct dt_stage *stage, const struct dt_group *group)
{
    return (char *)group->grads + group->copy_first_elem * dt_dtype_bytes(stage->model->dtype);
}

/* Both are here: the embedding's, in the first group, takes the sum and gives it to the head's. */
static dt_status sum_here(struct dt_stage *stage, struct dt_stream *compute)
{
    const struct dt_group *embedding = &stage->groups[0], *head = &stage->groups[stage->group_count - 1];
    void *to = gradients_of(stage, embedding), *from = gradients_of(stage, head);
    DT_TRY(dt_kernels_add(stage->kernels, compute, false, to, from, head->copy_elems));
    return dt_copy(compute, from, to, head->copy_elems * dt_dtype_bytes(stage->model->dtype));
}

dt_status copies_sum(struct copies *copies, struct dt_stage *stage, const struct dt_group *group, const struct copies_streams *streams)
{
    if (!copies->ends)
        return group->index == 0 ? sum_here(stage, streams->compute) : DT_OK;
    DT_TRY(dt_event_record(copies->ready, streams->compute));
    DT_TRY(dt_stream_wait(streams->network, copies->ready));
    DT_TRY(dt_all_reduce(copies->ends, gradients_of(stage, group), group->copy_elems, stage->model->dtype, DT_SUM, streams->network));
    DT_TRY(dt_event_record(copies->done, streams->network));
    return timeline_wait(streams->timeline, copies->done);
}
