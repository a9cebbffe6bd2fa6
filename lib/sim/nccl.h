/* NCCL's own model of its collectives: how long each algorithm and protocol takes, and which it therefore picks.
 *
 * Algorithm bandwidths and latencies as src/graph/tuning.cc works them out for a communicator: a bus bandwidth from the topology (channels
 * times the speed of one), limits by protocol and architecture, base latency plus a latency for each step. The model is used twice: with
 * what NCCL believes of the network it picks; with what the network gives it says how long that takes. Source  NVIDIA/nccl,
 * src/graph/tuning.cc and src/graph/search.cc, at the commits named in nccl.c.
 *
 * ring, tree  as lib/sim/transport.h has them.
 * nvls        an all-reduce of whose parts each GPU reads one, summed by the third generation of NVSwitches on the way, and writes the sum to
 *             all GPUs at once. Across nodes only where switches of the network sum too (SHARP; NCCL_COLLNET_ENABLE=1, with its plugin).
 * nvls tree   the same within each node, and between nodes a tree in place of those switches.
 * Not modelled: CollNet without NVLS, all_gather and reduce_scatter by NVLS, PAT. */
#ifndef LIB_SIM_NCCL_H
#define LIB_SIM_NCCL_H

#include "lib/sim/cluster.h"
#include "lib/sim/program.h"

enum dt_sim_algorithm { DT_SIM_TREE, DT_SIM_RING, DT_SIM_NVLS, DT_SIM_NVLS_TREE, DT_SIM_ALGORITHMS };
enum dt_sim_protocol { DT_SIM_LL, DT_SIM_LL128, DT_SIM_SIMPLE, DT_SIM_PROTOCOLS };
enum dt_sim_hardware { DT_SIM_BY_NVLINK, DT_SIM_BY_PCI, DT_SIM_BY_NET, DT_SIM_HARDWARES };

/* The factor of a tree's bandwidth, by log2(bytes / 64): the same in all versions. */
extern const double dt_sim_nccl_tree_correction[DT_SIM_PROTOCOLS][23];

/* What a version has in its tables. Microseconds and GB/s. Scale: 0 one node, 1 two, 2 more. */
struct dt_sim_nccl_tables {
    const char *version;
    bool nvls; /* it is known to the version */
    double base_us[DT_SIM_ALGORITHMS][DT_SIM_PROTOCOLS];
    double step_us[DT_SIM_HARDWARES][DT_SIM_ALGORITHMS][DT_SIM_PROTOCOLS];
    double ll_bus[3][3];             /* [architecture on one node, else amd][scale] of all channels */
    double ring_ll128_channel[3][3]; /* [architecture][scale], as below */
    double tree_ll128_channel[3][3];
    double tree_channel[3][3];
    double ll_share[2];        /* of the bus, that a ring has with LL; [1] where it sums, or across nodes */
    double ll128_alone;        /* likewise with LL128, of ranks that are alone on their nodes; 0.92 of others */
    bool alone_as_tree;        /* a ring's steps between such ranks take what a tree's do */
    double ampere_bus;         /* limit of the bus bandwidth there; 0: none */
    double ll_multi_node;      /* factor of a node's own LL steps where there are several nodes */
    double plateau[3];         /* [architecture] factor of the latency of rings with Simple across nodes, from... */
    bool plateau_by_channel;   /* ...64 bytes for each rank and channel; else from 4096 bytes for each rank */
    int inter_steps_of_node;   /* of an all-reduce: 2 (nodes - 1) + this */
    double net_overhead_us[2]; /* [amd] of each step of a ring across nodes: no step is shorter; thrice that with Simple */
};

/* A communicator on a cluster. */
struct dt_sim_nccl_comm {
    const struct dt_sim_nccl_tables *tables;
    enum dt_sim_architecture architecture;
    int ranks, nodes;
    bool nvlink, amd;
    bool ll128; /* allowed on this path */
    bool nvls;  /* possible within its nodes */
    bool sums;  /* the network's switches sum */
    int channels;
    double bus[DT_SIM_ALGORITHMS];           /* GB/s that NCCL believes each algorithm's channels have together */
    double actual_bus[DT_SIM_ALGORITHMS];    /* GB/s that they get */
    double latency_factor[DT_SIM_PROTOCOLS]; /* of what happens within one node, over the tables' */
    double own_bus;                          /* GB/s that channels within a node have together */
    double net_latency_us;                   /* of a step across nodes, beyond the table */
    double net_step_us;                      /* each of a ring's steps takes at least so long, where there are several nodes */
};

struct dt_sim_nccl_plan {
    enum dt_sim_algorithm algorithm;
    enum dt_sim_protocol protocol;
    double latency_s;
    double bus_bytes;       /* that pass each channel's links together: for rings 2 (n - 1) / n of an all-reduce's; else the message */
    double bus_bytes_per_s; /* no faster than this */
    double wire;            /* bytes on a link for each of them: flags that LL and LL128 send along */
};

/* DT_ERR_INVALID, with all versions that are known, for another ("collectives.version: ..."). */
dt_status dt_sim_nccl_find(const char *version, const char *where);
const struct dt_sim_nccl_tables *dt_sim_nccl_tables(const char *version); /* NULL: not known */

/* The bus of NVLS, from a node's own and from the bytes of the message a second that the network carries. NCCL takes five sixths of either;
 * what the network gives it gives whole. */
double dt_sim_nccl_nvls_bus(double own, double network);

/* Seconds that NCCL predicts, with its own belief of the bus; INFINITY where the protocol is not allowed or the algorithm does not do this.
 */
double dt_sim_nccl_predict(const struct dt_sim_nccl_comm *comm, enum dt_sim_collective kind, double bytes, enum dt_sim_algorithm algorithm,
                           enum dt_sim_protocol protocol);

/* What it picks, and how that runs. bytes as in lib/sim/program.h; ranks at least 2. */
struct dt_sim_nccl_plan dt_sim_nccl_plan(const struct dt_sim_nccl_comm *comm, enum dt_sim_collective kind, double bytes);

#endif
