#include "lib/sim/alone.h"

#include "lib/sim/transport.h"

#include <stdlib.h>

struct alone {
    struct dt_sim_placement placement;
    struct dt_sim_network *network;
    struct dt_sim_links *links;
    struct dt_sim_engine *engine;
    struct dt_sim_program *program;
    int *ranks; /* [world_size] */
};

static dt_status record(struct alone *a, enum dt_sim_collective kind, double bytes)
{
    int stream, slot;
    DT_TRY(dt_sim_program_create(true, &a->program));
    DT_TRY(dt_sim_program_add_stream(a->program, "network", &stream));
    DT_TRY(dt_sim_program_add_slot(a->program, &slot));
    DT_TRY(dt_sim_program_collective(a->program, stream, slot, kind, bytes, 0, NULL));
    return dt_sim_program_finish(a->program);
}

static dt_status prepare(struct alone *a, const struct dt_sim_cluster *cluster)
{
    int world = a->placement.world_size, group;
    a->ranks = malloc((size_t)world * sizeof *a->ranks);
    DT_TRY(dt_allocated(a->ranks, "no host memory for %d ranks", world));
    DT_TRY(dt_sim_network_create(&a->network));
    DT_TRY(dt_sim_links_create(cluster, &a->placement, a->network, &a->links));
    struct dt_sim_transport transport = dt_sim_links_transport(a->links);
    DT_TRY(dt_sim_engine_create(world, a->network, &transport, NULL, &a->engine));
    for (int r = 0; r < world; r++)
        a->ranks[r] = r;
    DT_TRY(dt_sim_engine_add_group(a->engine, "world", a->ranks, world, &group));
    for (int r = 0; r < world; r++)
        DT_TRY(dt_sim_engine_set_program(a->engine, r, a->program, &group));
    return DT_OK;
}

static dt_status run(struct alone *a, const struct dt_sim_cluster *cluster, enum dt_sim_collective kind, double bytes, double *out_s)
{
    DT_TRY(record(a, kind, bytes));
    DT_TRY(prepare(a, cluster));
    DT_TRY(dt_sim_engine_run(a->engine));
    *out_s = dt_sim_engine_end_s(a->engine, -1);
    return DT_OK;
}

dt_status dt_sim_time_alone(const struct dt_sim_cluster *cluster, const char *where, const struct dt_sim_placement *placement,
                            enum dt_sim_collective kind, double bytes, double *out_s)
{
    struct alone a = {.placement = *placement};
    DT_TRY(dt_sim_cluster_place(cluster, where, &a.placement));
    dt_status status = run(&a, cluster, kind, bytes, out_s);
    dt_sim_engine_destroy(a.engine);
    dt_sim_links_destroy(a.links);
    dt_sim_network_destroy(a.network);
    dt_sim_program_destroy(a.program);
    free(a.ranks);
    return status;
}
