#include "schedules/pipeline/state.h"

dt_status state_init(struct state *state, struct dt_device *device)
{
    DT_TRY(dt_event_create(device, &state->ready));
    return dt_event_create(device, &state->done);
}

void state_finish(struct state *state)
{
    dt_event_destroy(state->done);
    dt_event_destroy(state->ready);
    *state = (struct state){0};
}

static bool is_shared(const struct mesh *mesh, enum mesh_axis axis)
{
    return mesh->comm[axis] && dt_comm_size(mesh->comm[axis]) > 1;
}

/* Exchange over one axis after the other: the mean of means is the mean of all, and the first rank
 * of the first ones is the first of all. */
static dt_status exchange(const struct dt_stage *stage, const struct mesh *mesh, struct dt_stream *network)
{
    static const enum mesh_axis axes[] = {MESH_REPLICA, MESH_SHARD};
    enum dt_state_rule rule = dt_model_facts(stage->model).state;
    for (int i = 0; i < 2; i++) {
        struct dt_comm *comm = mesh->comm[axes[i]];
        if (!is_shared(mesh, axes[i]))
            continue;
        if (rule == DT_STATE_AVERAGED)
            DT_TRY(dt_all_reduce(comm, stage->state.data, stage->state_elems, DT_FP32, DT_AVG, network));
        else
            DT_TRY(dt_broadcast(comm, stage->state.data, stage->state_elems, DT_FP32, 0, network));
    }
    return DT_OK;
}

dt_status state_make_common(struct state *state, const struct dt_stage *stage, const struct mesh *mesh, const struct state_streams *streams)
{
    if (stage->state_elems == 0 || (!is_shared(mesh, MESH_REPLICA) && !is_shared(mesh, MESH_SHARD)))
        return DT_OK;
    DT_TRY(dt_event_record(state->ready, streams->compute));
    DT_TRY(dt_stream_wait(streams->network, state->ready));
    DT_TRY(exchange(stage, mesh, streams->network));
    DT_TRY(dt_event_record(state->done, streams->network));
    return timeline_wait(streams->timeline, state->done);
}
