/* A cluster as a file describes it: what sim runs on.
 *
 * configs/clusters/NAME.json; configs/schema/cluster.schema.json describes it for editors. Every section has a "source" that says where its
 * numbers come from. Units: GB are 1e9 bytes, GiB 2^30 bytes, Gbit/s 1e9 bits a second, all bandwidths one direction unless said. */
#ifndef DT_LIB_SIM_CLUSTER_H
#define DT_LIB_SIM_CLUSTER_H

#include "lib/dtype.h"
#include "lib/status.h"

struct dt_sim_cluster {
    char name[64], source[512];
    int nodes, gpus_per_node;
    struct {
        char name[64], source[512];
        double memory_gib;
        double peak_tflops[DT_DTYPE_COUNT]; /* of matrix products, dense */
        double memory_gb_per_s;
    } gpu;
    struct {
        char source[512];
        double gb_per_s; /* of one GPU, each direction; 0: there is none, and a node's GPUs talk over PCIe */
    } nvlink;
    struct {
        char source[512];
        double gb_per_s;   /* of one link, each direction, as copies reach it */
        int gpus_per_link; /* that share a link to the processor */
        double latency_us; /* of a copy */
    } pcie;
    struct {
        char source[512];
        double memory_gib;    /* of a node */
        double copy_gb_per_s; /* all copies of a node together, each direction; 0: the links' sum */
    } host;
    struct {
        char source[512];
        int count; /* of a node; GPUs use the one nearest to them */
        double label_gbit_per_s;
        double flow_gbit_per_s;  /* what one communicator (or message) gets out of one alone */
        double total_gbit_per_s; /* what all together get out of one */
        double peers_factor;     /* what is left of both when a NIC sends to one node and receives from another, as rings over three or
                                    more nodes do; 1: all */
        double latency_us;       /* of a message, beyond what the library's own table has for its network (NCCL: InfiniBand's) */
    } nic;
    struct {
        char source[512];
        double blocking_factor; /* NICs' sum over what the switches carry between nodes; 1: all at once */
    } fabric;
    struct {
        char source[512];
        char library[16];      /* "nccl", "mpi" */
        char version[16];      /* which tables: a name from dt_sim_nccl_version_name; free text for mpi */
        int channels;          /* nccl: rings or trees side by side within a node */
        int net_channels;      /* nccl: and across nodes */
        double net_gbit_per_s; /* nccl: what it believes of a NIC when it chooses; 0: the label */
        double step_us;        /* mpi: a step of a ring */
        double gb_per_s;       /* mpi: what a pair of ranks of a node move, each direction; of all pairs together: host.copy_gb_per_s */
    } collectives;
};

/* Read and check a file. Errors name it with the JSON path: DT_ERR_IO, DT_ERR_INVALID, DT_ERR_HOST_MEMORY. */
dt_status dt_sim_cluster_load(const char *path, struct dt_sim_cluster *out);

/* Where ranks are: rank r is GPU r % ranks_per_node of node r / ranks_per_node. */
struct dt_sim_placement {
    int world_size;
    int ranks_per_node; /* 0: as many as a node has GPUs, or all where they are fewer */
};

/* Fill in ranks_per_node. DT_ERR_INVALID when the cluster (named by `where`, the path of its file) is too small: says which. */
dt_status dt_sim_cluster_place(const struct dt_sim_cluster *cluster, const char *where, struct dt_sim_placement *placement);

#endif
