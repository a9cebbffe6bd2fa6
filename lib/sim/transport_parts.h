/* What the files of the transport share; no other file includes it. */
#pragma once

#include "lib/sim/transport.h"

enum { NO_LINK = -1, LOAD_STEPS = 64 }; /* LOAD_STEPS: the load of a node's processors is rounded to this number of steps */

/* Links of a rank. */
struct rank_links {
    int out, in;            /* to and from the GPUs of its node */
    int to_device, to_host; /* PCIe */
    int node, nic;          /* nic: counted over the whole cluster; NO_LINK: none */
};

struct pattern {
    struct dt_sim_use *uses; /* [count] */
    uint32_t count;
    double heaviest; /* the largest weight on a NIC, or on any link if no NIC is used */
};

/* The load of measured collectives between nodes on links: one entry for each kind and size that a
 * communicator has used. */
struct measured {
    int kind;
    double bytes;
    struct dt_sim_flow flow;
    struct dt_sim_use *uses;
    struct measured *next;
};

/* A group's shape, and its patterns, made when first needed. */
struct shape {
    int count, nodes, fewest_nics; /* fewest_nics: distinct NICs of the node that has the fewest */
    int most_on_node;
    struct dt_sim_nccl_comm nccl;
    struct pattern patterns[DT_SIM_ALGORITHMS]; /* mpi: only the first */
    struct pattern all_to_all, shift;           /* of NCCL's messages */
    struct measured *measured;
};

/* The path of messages from one rank to another. */
struct path {
    int to;
    struct pattern pattern;
    struct measured *measured;
    struct path *next;
};

struct dt_sim_links {
    struct dt_sim_cluster cluster;
    struct dt_sim_placement placement;
    int nodes, nics_per_node;
    uint32_t link_count;
    bool *is_nic;                           /* [link_count] */
    int *stand_in;                          /* [world_size] the simulated rank that represents each rank; NULL: all are simulated */
    int *everybody;                         /* [world_size] 0, 1, ...; NULL likewise */
    bool *kept;                             /* [link_count] links of simulated ranks; NULL likewise */
    struct rank_links *ranks;               /* [world_size] */
    int *nic_out, *nic_in;                  /* [nodes * nics_per_node] */
    int *copies_to_device, *copies_to_host; /* [nodes] NO_LINK: no limit */
    int *host_memory;                       /* [nodes] likewise */
    int fabric;                             /* NO_LINK: none */
    /* [nodes, DT_SIM_MAX_LOAD * LOAD_STEPS + 1] the use that each load makes of its node's
     * processors, which are a link of 1e9 nanoseconds a second; NULL if ranks have their own
     * devices */
    struct dt_sim_use *processors;
    struct shape **shapes; /* [shape_count] by group; NULL until needed */
    int shape_count;
    struct path **paths;                         /* [world_size] by sender */
    struct pattern (*copies)[DT_SIM_DIRECTIONS]; /* [world_size] */

    /* used while a pattern is made */
    double *weight;    /* [link_count], zeros between patterns */
    uint32_t *others;  /* [link_count], zeros likewise: number of further operations like this one on the link */
    uint32_t *touched; /* [link_count] */
    uint32_t touched_count;
};

/* transport_links.c: add weight on a link to the current pattern; NO_LINK has no effect. */
void links_touch(struct dt_sim_links *links, int link, double weight);
/* Return the current pattern, of an operation of these ranks. Errors: DT_ERR_HOST_MEMORY. */
dt_status links_take_pattern(struct dt_sim_links *links, const int *ranks, int count, struct pattern *out);

/* Return a group's shape, with its patterns. */
dt_status links_shape(struct dt_sim_links *links, const int *ranks, int count, struct shape *out);
dt_status links_pattern(struct dt_sim_links *links, const int *ranks, int count, enum dt_sim_algorithm algorithm, struct pattern *out);
/* The pattern of messages that NCCL's ranks exchange together: an equal part to each other rank
 * (kind all_to_all), or everything to the next rank. */
dt_status links_exchange_pattern(struct dt_sim_links *links, const int *ranks, int count, enum dt_sim_collective kind, struct pattern *out);
