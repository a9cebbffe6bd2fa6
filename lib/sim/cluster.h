/* A cluster as a file describes it: what sim runs on.
 *
 * configs/clusters/NAME.json; lib/sim/cluster_config.c has the table of its keys. Every
 * section has a "source" that says where its numbers come from. Units: GB are 1e9 bytes, GiB 2^30 bytes, Gbit/s 1e9 bits a second, all
 * bandwidths are of one direction. */
#ifndef LIB_SIM_CLUSTER_H
#define LIB_SIM_CLUSTER_H

#include "lib/base/dtype.h"
#include "lib/base/status.h"
#include "lib/config/config.h"
#include "lib/config/schema.h"
#include "lib/sim/cluster_measured.h"

enum dt_sim_architecture { DT_SIM_VOLTA, DT_SIM_AMPERE, DT_SIM_HOPPER, DT_SIM_CPU };
enum dt_sim_library { DT_SIM_NCCL, DT_SIM_MPI };
enum dt_sim_nic_transport { DT_SIM_RDMA, DT_SIM_SOCKETS };

enum { DT_SIM_SOURCE_BYTES = 1536 };

struct dt_sim_cluster {
    char name[64], source[DT_SIM_SOURCE_BYTES];
    char profile[128];        /* file of the software that runs on it by default; "": none */
    int nodes, gpus_per_node; /* a CPU rank counts as a GPU */
    struct {
        char name[64], source[DT_SIM_SOURCE_BYTES];
        enum dt_sim_architecture architecture;
        double memory_gib;
        double peak_tflops[DT_DTYPE_COUNT]; /* of dense matrix products; 0: unknown */
        double fp8_tflops;                  /* the same of FP8 operands; 0: it has none, or unknown */
        double mxfp8_tflops;                /* of those with a scale for 32 numbers */
        double memory_gb_per_s;
        double power_w; /* that it takes at most; 0: unknown */
    } gpu;
    struct {
        char name[32], source[DT_SIM_SOURCE_BYTES];
        double gb_per_s; /* of one GPU; 0: none, and a node's GPUs use PCIe */
    } nvlink;
    struct {
        char source[DT_SIM_SOURCE_BYTES];
        double gb_per_s;   /* of one link, as copies reach it; 0: none (CPU ranks) */
        int gpus_per_link; /* that share a link to the processor */
        double latency_us; /* of a copy */
    } pcie;
    struct {
        char source[DT_SIM_SOURCE_BYTES];
        double memory_gib;      /* of a node; 0: unknown */
        double copy_gb_per_s;   /* all copies of a node together (mpi: all messages within it); 0: no limit but the links' */
        double memory_gb_per_s; /* what its processors and copies read and write of its memory together; 0: no limit */
        bool amd;               /* "cpu": NCCL knows AMD's from others */
        bool shared_processors; /* the nodes are emulated: the processors of one machine are all of theirs (scripts/emulated_network) */
    } host;
    struct {
        char source[DT_SIM_SOURCE_BYTES];
        int count; /* of a node; a GPU uses the one nearest to it */
        enum dt_sim_nic_transport transport;
        double label_gbit_per_s; /* what is written on it */
        /* Measured; where the file has none, what the transport makes of the label. */
        double flow_gbit_per_s; /* what one communicator, or message, gets out of one alone; of communicators over two full nodes */
        double more_nodes;      /* the remaining part if a byte passes four links instead of two, as in a ring of four nodes; 1: all */
        double tree_more_nodes; /* the same in trees of sums in NVSwitches, and again for each doubling; 0: as more_nodes */
        double step_us;    /* a ring's step across nodes takes at least so long, whatever its bytes; 0: as the library's table has it */
        double fewer_gpus; /* when nodes have half the ranks: fewer processes drive the sockets; 1: all */
        double tree;       /* of a card's rate that trees make use of; 1: all */
        double gain;       /* k communicators get k^gain as much, until they have total_gbit_per_s; 0: one's */
        double total_gbit_per_s; /* what all together get out of one */
        double latency_us;       /* of a message, beyond what the library's own table has for its network (NCCL: InfiniBand's) */
        bool beside_gpu;         /* on a PCIe switch with its GPU: NCCL then uses LL128 across nodes */
    } nic;
    struct {
        char source[DT_SIM_SOURCE_BYTES];
        bool sums;              /* the switches sum (InfiniBand's SHARP), and NCCL is configured to use it */
        bool rails;             /* the same card of all nodes is on one switch, which NCCL's channels stay on: they meet no blocking */
        double blocking_factor; /* the NICs' sum over what the switches carry between nodes at once; 1: all of it */
    } fabric;
    struct {
        char source[DT_SIM_SOURCE_BYTES];
        double read_gb_per_s, write_gb_per_s;             /* of a node */
        double total_read_gb_per_s, total_write_gb_per_s; /* of all nodes together; 0: no limit */
    } storage;
    struct {
        char source[DT_SIM_SOURCE_BYTES];
        enum dt_sim_library library;
        char version[16];                                 /* nccl: one that dt_sim_nccl_find knows */
        int channels;                                     /* nccl: rings side by side within a node */
        double channel_gb_per_s;                          /* nccl: speed of one */
        int net_channels;                                 /* nccl: rings side by side across nodes */
        double net_gbit_per_s;                            /* nccl: what it believes of a NIC when it chooses; 0: the label */
        double ll_latency, ll128_latency, simple_latency; /* nccl: of a protocol within a node, over what its tables say */
        double delivered;                                 /* nccl: of the channels' bandwidth within a node, that arrives */
        bool nvls;                                        /* nccl: NVSwitches of the third generation (Hopper), which sum */
        double compute_share;                 /* nccl: of a GPU's multiprocessors, that a collective within a node takes from kernels */
        double net_compute_share;             /* nccl: the same across nodes */
        double compute_slowdown;              /* nccl: the part by which a collective within a node takes longer while kernels run */
        double step_us;                       /* mpi: of a message, and of each of a collective's phases */
        double gb_per_s;                      /* mpi: what a rank of a node sends to others of it */
        double sum_gb_per_s;                  /* mpi: the same in phases that sum; 0: the same */
        struct dt_sim_measured_list measured; /* where it has the kind, instead of the constants above and of nic's rates */
    } collectives;
};

/* Read and check a file. Errors name it with the JSON path: DT_ERR_IO, DT_ERR_INVALID, DT_ERR_HOST_MEMORY. */
dt_status dt_sim_cluster_load(const char *path, struct dt_sim_cluster *out);
/* The same from text; `where` names it in errors. */
dt_status dt_sim_cluster_parse(const char *text, size_t length, const char *where, struct dt_sim_cluster *out);

/* The file's keys, as lib/config/config.h describes them, and the schema that is made of them. */
const struct dt_table *dt_sim_cluster_table(void);
const struct dt_schema *dt_sim_cluster_schema(void);

/* The rate that one flow, and all flows together, get from a card with this label, if it was not
 * measured.
 *
 * rdma     92 % of the label: the rest after headers and completions; an assumption, as in DGX
 *          clusters' files before.
 * sockets  together 1448 / 1538 of the label: TCP's payload in an Ethernet frame of 1500 bytes, with 52 bytes of TCP/IP headers (time stamps
 *          included, RFC 7323) and 38 of Ethernet around it (IEEE 802.3: preamble, header, check sequence, gap). One flow is a TCP connection
 *          that one thread drives, no more than 20 Gbit/s: the study's runs on a card of 100 Gbit/s are best predicted with 19.0
 *          (configs/clusters/gcp_a2.json); NCCL's documentation of NCCL_SOCKET_NTHREADS and NCCL_NSOCKS_PERTHREAD names several as the
 *          remedy on networks of 100 Gbit/s. Above 100 Gbit/s a flow keeps the fifth of the label that it has there: an assumption, that
 *          faster cards come with more connections a flow. */
struct dt_sim_nic_rates {
    double flow_gbit_per_s, total_gbit_per_s;
};
struct dt_sim_nic_rates dt_sim_nic_rates(enum dt_sim_nic_transport transport, double label_gbit_per_s);

/* Other cards: with that label, and a message's latency. Measured rates keep their relation to what the transport makes of the label.
 * gbit_per_s 0, latency_us below 0: as the file has them. DT_ERR_UNAVAILABLE where the cluster has no cards, with the key ("network..."). */
dt_status dt_sim_cluster_set_network(struct dt_sim_cluster *cluster, double gbit_per_s, double latency_us);

/* Where ranks are: rank r is GPU r % ranks_per_node of node r / ranks_per_node. */
struct dt_sim_placement {
    int world_size;
    int ranks_per_node; /* 0: as many as a node has GPUs, or all where they are fewer */
};

/* Fill in ranks_per_node. DT_ERR_INVALID when the cluster is too small; `where` is its file. The text begins with "world_size: ". */
dt_status dt_sim_cluster_place(const struct dt_sim_cluster *cluster, const char *where, struct dt_sim_placement *placement);

#endif
