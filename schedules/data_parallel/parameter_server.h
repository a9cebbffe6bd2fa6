/* Where the servers of paradigm parameter_server are. */
#ifndef SCHEDULES_DATA_PARALLEL_PARAMETER_SERVER_H
#define SCHEDULES_DATA_PARALLEL_PARAMETER_SERVER_H

/* The rank of server `index` of `servers`: spread evenly over the ranks, the first one on rank 0, so that few servers lie on different
 * nodes. */
static inline int parameter_server_rank(int index, int servers, int world_size)
{
    return (int)((long long)index * world_size / servers);
}

#endif
