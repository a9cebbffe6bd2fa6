/* A cluster of configs/clusters with an engine on it, for the tests of the simulation. */
#pragma once

#include "lib/sim/transport.h"
#include "test/check.h"

#include <stdlib.h>

struct sim_case {
    struct dt_sim_cluster cluster;
    struct dt_sim_placement placement;
    struct dt_sim_network *network;
    struct dt_sim_links *links;
    struct dt_sim_engine *engine;
};

/* Path of a file of the source; tests run anywhere. */
static inline const char *sim_source_path(const char *file, char *path, size_t path_bytes)
{
    const char *root = getenv("DTBENCH_SOURCE_ROOT");
    snprintf(path, path_bytes, "%s/%s", root ? root : ".", file);
    return path;
}

static inline void sim_case_load(struct sim_case *c, const char *name)
{
    char file[128], path[1024];
    memset(c, 0, sizeof *c);
    snprintf(file, sizeof file, "configs/clusters/%s.json", name);
    CHECK_OK(dt_sim_cluster_load(sim_source_path(file, path, sizeof path), &c->cluster));
}

/* ranks_per_node 0: nodes are full. */
static inline void sim_case_start(struct sim_case *c, int world_size, int ranks_per_node)
{
    c->placement = (struct dt_sim_placement){.world_size = world_size, .ranks_per_node = ranks_per_node};
    CHECK_OK(dt_sim_cluster_place(&c->cluster, "cluster.json", &c->placement));
    CHECK_OK(dt_sim_network_create(&c->network));
    CHECK_OK(dt_sim_links_create(&c->cluster, &c->placement, c->network, &c->links));
    struct dt_sim_transport transport = dt_sim_links_transport(c->links);
    CHECK_OK(dt_sim_engine_create(world_size, c->network, &transport, NULL, &c->engine));
}

static inline void sim_case_finish(struct sim_case *c)
{
    dt_sim_engine_destroy(c->engine);
    dt_sim_links_destroy(c->links);
    dt_sim_network_destroy(c->network);
}

/* The communicator of `count` ranks from `first`, `stride` apart. */
static inline int sim_case_group(struct sim_case *c, int first, int stride, int count)
{
    int group = 0, *ranks = malloc((size_t)count * sizeof *ranks);
    for (int i = 0; i < count; i++)
        ranks[i] = first + i * stride;
    CHECK_OK(dt_sim_engine_add_group(c->engine, "group", ranks, count, &group));
    free(ranks);
    return group;
}

/* One collective as a program of its own. */
static inline struct dt_sim_program *sim_one_collective(enum dt_sim_collective kind, double bytes)
{
    struct dt_sim_program *p = NULL;
    int stream, slot;
    CHECK_OK(dt_sim_program_create(true, &p));
    CHECK_OK(dt_sim_program_add_stream(p, "network", &stream));
    CHECK_OK(dt_sim_program_add_slot(p, &slot));
    CHECK_OK(dt_sim_program_collective(p, stream, slot, kind, bytes, 0, NULL));
    CHECK_OK(dt_sim_program_finish(p));
    return p;
}
