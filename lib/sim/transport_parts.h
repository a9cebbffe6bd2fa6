/* What the files of the transport share; no other file includes it. */
#pragma once

#include "lib/sim/transport.h"

enum { NO_LINK = -1, LOAD_STEPS = 64 }; /* LOAD_STEPS: the load of a node's processors is rounded to this number of steps */

/* The links that a rank may use. */
enum rank_link {
    LINK_OUT, /* to and from the GPUs of its node */
    LINK_IN,
    LINK_TO_DEVICE, /* PCIe */
    LINK_TO_HOST,
    LINK_NIC_OUT, /* the directions of its card */
    LINK_NIC_IN,
    LINK_COPIES_TO_DEVICE, /* the limits of all copies of its node */
    LINK_COPIES_TO_HOST,
    LINK_HOST_MEMORY, /* of its node */
    LINKS_OF_RANK
};

struct rank_links {
    int link[LINKS_OF_RANK]; /* NO_LINK: it has none of that kind, or no limit */
    int node, nic;           /* nic: counted over the whole cluster; NO_LINK: none */
};

struct link_state {
    bool is_nic;
    bool kept; /* if ranks stand in for others: a simulated rank has it */
    /* used while a pattern is made, zero between patterns */
    double weight;
    uint32_t others; /* number of further operations like this one on the link */
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
    struct link_state *links; /* [link_count] */
    uint32_t link_count, link_room;
    int *stand_in;            /* [world_size] the simulated rank that represents each rank; NULL: all are simulated */
    struct rank_links *ranks; /* [world_size] */
    int fabric;               /* NO_LINK: none */
    /* [nodes, DT_SIM_MAX_LOAD * LOAD_STEPS + 1] the use that each load makes of its node's
     * processors, which are a link of 1e9 nanoseconds a second; NULL if ranks have their own
     * devices */
    struct dt_sim_use *processors;
    struct shape **shapes; /* [shape_count] by group; NULL until needed */
    int shape_count;
    struct path **paths;                         /* [world_size] by sender */
    struct pattern (*copies)[DT_SIM_DIRECTIONS]; /* [world_size] */

    uint32_t *touched; /* [link_count] the links of the pattern that is being made */
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
