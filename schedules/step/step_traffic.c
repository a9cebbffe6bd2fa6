#include "schedules/step/step_traffic.h"

uint64_t step_traffic_of(const struct step_traffic *traffic, enum dt_comm_kind kind)
{
    uint64_t bytes = 0;
    for (int axis = 0; axis < MESH_AXES; axis++)
        bytes += traffic->bytes[axis][kind];
    return bytes;
}

uint64_t step_traffic_all(const struct step_traffic *traffic)
{
    uint64_t bytes = 0;
    for (int kind = 0; kind < DT_COMM_KINDS; kind++)
        bytes += step_traffic_of(traffic, (enum dt_comm_kind)kind);
    return bytes;
}

void step_traffic_measure(const struct step_traffic *traffic, struct dt_step_metrics *out)
{
    out->comm_bytes = (double)step_traffic_all(traffic);
    out->all_reduce_bytes = (double)step_traffic_of(traffic, DT_COMM_ALL_REDUCE);
    out->reduce_scatter_bytes = (double)step_traffic_of(traffic, DT_COMM_REDUCE_SCATTER);
    out->all_gather_bytes = (double)step_traffic_of(traffic, DT_COMM_ALL_GATHER);
    out->broadcast_bytes = (double)step_traffic_of(traffic, DT_COMM_BROADCAST);
    out->reduce_bytes = (double)step_traffic_of(traffic, DT_COMM_REDUCE);
    out->send_bytes = (double)step_traffic_of(traffic, DT_COMM_SEND);
}
