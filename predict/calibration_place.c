#include "predict/calibration_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What each rank sends to the others. */
struct told {
    char boot[40]; /* a random number that is the same for one running kernel, in every container and network namespace; "": unknown */
    int local_rank, local_size;
};

static void read_boot_id(char *out, int out_bytes)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    out[0] = 0;
    if (!file)
        return;
    if (!fgets(out, out_bytes, file))
        out[0] = 0;
    fclose(file);
}

static dt_status check_places(const struct told *all, int ranks)
{
    int per_node = all[0].local_size;
    for (int r = 0; r < ranks; r++)
        if (all[r].local_size != per_node || all[r].local_rank != r % per_node || ranks % per_node)
            return dt_fail(DT_ERR_WORLD,
                           "rank %d is number %d of %d on its node, and rank 0's node has %d: start equally many on each node, with "
                           "consecutive numbers (mpirun --map-by slot)",
                           r, all[r].local_rank, all[r].local_size, per_node);
    return DT_OK;
}

dt_status calibration_place_find(const struct dt_world *world, struct dt_comm *comm, struct calibration_place *out)
{
    int ranks = dt_comm_size(comm);
    struct told mine = {.local_rank = world->local_rank, .local_size = world->local_size}, *all;
    read_boot_id(mine.boot, sizeof mine.boot);
    DT_TRY(dt_host_collect(comm, &mine, sizeof mine, &all));
    dt_status status = check_places(all, ranks);
    int per_node = all[0].local_size > 0 ? all[0].local_size : 1;
    *out = (struct calibration_place){.nodes = ranks / per_node, .ranks_per_node = per_node};
    out->shared_processors = out->nodes > 1 && mine.boot[0] && status == DT_OK;
    for (int r = 1; r < ranks && out->shared_processors; r++)
        out->shared_processors = strcmp(all[r].boot, all[0].boot) == 0;
    free(all);
    return status;
}

/* 2, 4, ... and at last `most`; 0 past it. */
static int doubled(int index, int most)
{
    int before = 1;
    for (int i = 0; i < index && before < most; i++)
        before *= 2;
    if (before >= most)
        return 0;
    return 2 * before < most ? 2 * before : most;
}

static int doublings(int most)
{
    int count = 0;
    while (doubled(count, most))
        count++;
    return count;
}

static int fill(int *ranks, int count, int stride)
{
    for (int i = 0; i < count; i++)
        ranks[i] = i * stride;
    return count;
}

int calibration_group(const struct calibration_place *p, int index, int *ranks, int *out_nodes)
{
    int across = doublings(p->nodes), within = doublings(p->ranks_per_node);
    *out_nodes = 1;
    if (p->nodes == 1)
        return index == 0 ? fill(ranks, p->ranks_per_node, 1) : 0;
    if (index < across) {
        *out_nodes = doubled(index, p->nodes);
        return fill(ranks, *out_nodes, p->ranks_per_node);
    }
    index -= across;
    if (index < within)
        return fill(ranks, doubled(index, p->ranks_per_node), 1);
    index -= within;
    if (within == 0 || index >= across)
        return 0;
    *out_nodes = doubled(index, p->nodes);
    return fill(ranks, *out_nodes * p->ranks_per_node, 1);
}

int calibration_group_count(const struct calibration_place *p)
{
    int across = doublings(p->nodes), within = doublings(p->ranks_per_node);
    return p->nodes == 1 ? 1 : across + within + (within ? across : 0);
}
