#include "schedules/step/step_traffic.h"

const char *step_traffic_group_name(int group)
{
    if (group < MESH_AXES)
        return mesh_axis_name((enum mesh_axis)group);
    static const char *const others[] = {"copies", "together", "world"};
    return others[group - MESH_AXES];
}

uint64_t step_traffic_of(const struct step_traffic *traffic, enum dt_comm_kind kind)
{
    uint64_t bytes = 0;
    for (int group = 0; group < TRAFFIC_GROUPS; group++)
        bytes += traffic->bytes[group][kind];
    return bytes;
}

uint64_t step_traffic_all(const struct step_traffic *traffic)
{
    uint64_t bytes = 0;
    for (int kind = 0; kind < DT_COMM_KINDS; kind++)
        bytes += step_traffic_of(traffic, (enum dt_comm_kind)kind);
    return bytes;
}

/* bytes: of whole buffers. */
static uint64_t on_links(enum dt_comm_kind kind, uint64_t bytes, int ranks)
{
    uint64_t passed_on = ranks > 1 ? bytes * (uint64_t)(ranks - 1) / (uint64_t)ranks : 0;
    switch (kind) {
    case DT_COMM_ALL_REDUCE: return 2 * passed_on;
    case DT_COMM_REDUCE_SCATTER:
    case DT_COMM_ALL_GATHER:
    case DT_COMM_ALL_TO_ALL: return passed_on;
    case DT_COMM_BROADCAST:
    case DT_COMM_REDUCE:
    case DT_COMM_SHIFT:
    case DT_COMM_SEND: return bytes;
    case DT_COMM_RECV:
    case DT_COMM_KINDS: break;
    }
    return 0;
}

/* Bytes of all collectives and messages that this rank sends. */
static uint64_t all_on_links(const struct step_traffic *traffic)
{
    uint64_t bytes = 0;
    for (int group = 0; group < TRAFFIC_GROUPS; group++)
        for (int kind = 0; kind < DT_COMM_KINDS; kind++)
            bytes += on_links((enum dt_comm_kind)kind, traffic->bytes[group][kind], traffic->ranks[group]);
    return bytes;
}

void step_traffic_measure(const struct step_traffic *traffic, struct dt_step_metrics *out)
{
    out->comm_bytes = (double)step_traffic_all(traffic);
    out->link_bytes = (double)all_on_links(traffic);
    out->all_reduce_bytes = (double)step_traffic_of(traffic, DT_COMM_ALL_REDUCE);
    out->reduce_scatter_bytes = (double)step_traffic_of(traffic, DT_COMM_REDUCE_SCATTER);
    out->all_gather_bytes = (double)step_traffic_of(traffic, DT_COMM_ALL_GATHER);
    out->broadcast_bytes = (double)step_traffic_of(traffic, DT_COMM_BROADCAST);
    out->reduce_bytes = (double)step_traffic_of(traffic, DT_COMM_REDUCE);
    out->all_to_all_bytes = (double)step_traffic_of(traffic, DT_COMM_ALL_TO_ALL);
    out->send_bytes = (double)(step_traffic_of(traffic, DT_COMM_SEND) + step_traffic_of(traffic, DT_COMM_SHIFT));
}
