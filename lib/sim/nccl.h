/* NCCL's own model of its collectives: how long each algorithm and protocol takes, and which one
 * NCCL therefore selects.
 *
 * Algorithm bandwidths and latencies are computed as in src/graph/tuning.cc for a communicator: a
 * bus bandwidth from the topology (channels times the rate of one), limits by protocol and
 * architecture, and a base latency plus a latency for each step. The model is used twice: with the
 * network that NCCL assumes, it selects; with the actual network, it gives the time of that
 * selection.
 * Source  NVIDIA/nccl, src/graph/tuning.cc and src/graph/search.cc, at the commits named in nccl.c.
 *
 * ring, tree  as in lib/sim/transport.h.
 * nvls        an all-reduce in which each GPU reads one part, summed on the way by the third
 *             generation of NVSwitches, and writes the sum to all GPUs at once. Across nodes only
 *             if switches of the network sum too (SHARP; NCCL_COLLNET_ENABLE=1, with its plugin).
 * nvls tree   the same within each node, and between nodes a tree instead of those switches.
 *
 * Not modelled: CollNet without NVLS, all_gather and reduce_scatter by NVLS, PAT. */
#pragma once

#include "lib/sim/cluster.h"
#include "lib/sim/program.h"

enum dt_sim_algorithm { DT_SIM_TREE, DT_SIM_RING, DT_SIM_NVLS, DT_SIM_NVLS_TREE, DT_SIM_ALGORITHMS };
enum dt_sim_protocol { DT_SIM_LL, DT_SIM_LL128, DT_SIM_SIMPLE, DT_SIM_PROTOCOLS };
enum dt_sim_hardware { DT_SIM_BY_NVLINK, DT_SIM_BY_PCI, DT_SIM_BY_NET, DT_SIM_HARDWARES };

/* The factor of a tree's bandwidth, by log2(bytes / 64): the same in all versions. */
extern const double dt_sim_nccl_tree_correction[DT_SIM_PROTOCOLS][23];

/* A version's tables. Microseconds and GB/s. Scale: 0 one node, 1 two, 2 more. */
struct dt_sim_nccl_tables {
    const char *version;
    bool nvls; /* the version has NVLS */
    double base_us[DT_SIM_ALGORITHMS][DT_SIM_PROTOCOLS];
    double step_us[DT_SIM_HARDWARES][DT_SIM_ALGORITHMS][DT_SIM_PROTOCOLS];
    double ll_bus[3][3];             /* [architecture on one node, else amd][scale] limit of all channels together */
    double ring_ll128_channel[3][3]; /* [architecture][scale], indexed likewise */
    double tree_ll128_channel[3][3];
    double tree_channel[3][3];
    double ll_share[2];        /* part of the bus that a ring gets with LL; [1] if it sums, or across nodes */
    double ll128_alone;        /* the same with LL128 for ranks alone on their nodes; 0.92 for others */
    bool alone_as_tree;        /* a ring's steps between such ranks take as long as a tree's */
    double ampere_bus;         /* limit of the bus bandwidth on Ampere; 0: none */
    double ll_multi_node;      /* factor of the LL steps within a node if there are several nodes */
    double plateau[3];         /* [architecture] factor of the latency of rings with Simple across nodes, from... */
    bool plateau_by_channel;   /* ...64 bytes for each rank and channel; else from 4096 bytes for each rank */
    int inter_steps_of_node;   /* of an all-reduce: steps across nodes are 2 (nodes - 1) + this */
    double net_overhead_us[2]; /* [amd] of each step of a ring across nodes: no step is shorter; three times that with Simple */
};

/* A communicator on a cluster. */
struct dt_sim_nccl_comm {
    const struct dt_sim_nccl_tables *tables;
    enum dt_sim_architecture architecture;
    int ranks, nodes;
    bool nvlink, amd;
    bool ll128; /* allowed between these ranks */
    bool nvls;  /* possible within the communicator's nodes */
    bool sums;  /* the network's switches sum */
    int channels;
    double bus[DT_SIM_ALGORITHMS];           /* GB/s of each algorithm's channels together, as NCCL assumes */
    double actual_bus[DT_SIM_ALGORITHMS];    /* GB/s that they achieve */
    double latency_factor[DT_SIM_PROTOCOLS]; /* factor for latencies within a node, over the tables */
    double own_bus;                          /* GB/s of the channels within a node together */
    double net_latency_us;                   /* of a step across nodes, in addition to the table */
    double net_step_us;                      /* shortest time of a ring's step, if there are several nodes */
};

struct dt_sim_nccl_plan {
    enum dt_sim_algorithm algorithm;
    enum dt_sim_protocol protocol;
    double latency_s;
    double bus_bytes;       /* bytes over each channel's links together: for rings 2 (n - 1) / n of an all-reduce's; else the message */
    double bus_bytes_per_s; /* maximum rate */
    double wire;            /* bytes on a link for each byte of data: LL and LL128 send flags, too */
};

/* DT_ERR_INVALID for an unknown version, with the known ones ("collectives.version: ..."). */
dt_status dt_sim_nccl_find(const char *version, const char *where);
const struct dt_sim_nccl_tables *dt_sim_nccl_tables(const char *version); /* NULL: unknown version */

/* The bus of NVLS, from a node's own bus and from the message rate of the network. NCCL assumes
 * five sixths of either; the actual rates are used in full. */
double dt_sim_nccl_nvls_bus(double own, double network);

/* NCCL's selection, and how long it takes. bytes as in lib/sim/program.h; ranks at least 2. */
struct dt_sim_nccl_plan dt_sim_nccl_plan(const struct dt_sim_nccl_comm *comm, enum dt_sim_collective kind, double bytes);
