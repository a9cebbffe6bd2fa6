#include "schedules/run/rank_network.h"

#include <stdlib.h>

dt_status rank_network_gather(struct dt_comm *world, struct dt_comm_network *out)
{
    int size = dt_comm_size(world);
    struct dt_comm_network mine, *all = calloc((size_t)size, sizeof *all);
    if (!all)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the networks of %d ranks", size);
    *out = (struct dt_comm_network){.direct_channels = 0};
    dt_comm_network(world, &mine);
    dt_status status = dt_host_all_gather(world, &mine, sizeof mine, all);
    for (int i = 0; i < size && status == DT_OK; i++)
        dt_comm_network_merge(out, &all[i]);
    free(all);
    return status;
}
