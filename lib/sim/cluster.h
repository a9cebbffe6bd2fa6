/* A cluster as its file describes it; sim runs on it.
 *
 * The file is configs/clusters/NAME.json; lib/sim/cluster_config.c has the table of its keys. Every
 * section has a "source" that says where its numbers come from. Units: GB are 1e9 bytes, GiB 2^30
 * bytes, Gbit/s 1e9 bits a second; all bandwidths are of one direction. */
#pragma once

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
    char profile[128];        /* name of the software profile that is used by default; "": none */
    int nodes, gpus_per_node; /* a CPU rank counts as a GPU */
    struct {
        char name[64], source[DT_SIM_SOURCE_BYTES];
        enum dt_sim_architecture architecture;
        double memory_gib;
        double peak_tflops[DT_DTYPE_COUNT]; /* of dense matrix products; 0: unknown */
        double fp8_tflops;                  /* peak for FP8 operands; 0: no FP8, or unknown */
        double mxfp8_tflops;                /* peak for FP8 operands with one scale for 32 numbers (MXFP8) */
        double memory_gb_per_s;
        double power_w; /* maximum power of a GPU; 0: unknown */
    } gpu;
    struct {
        char name[32], source[DT_SIM_SOURCE_BYTES];
        double gb_per_s; /* of one GPU; 0: there is no NVLink, and a node's GPUs use PCIe */
    } nvlink;
    struct {
        char source[DT_SIM_SOURCE_BYTES];
        double gb_per_s;   /* achievable rate of one link; 0: none (CPU ranks) */
        int gpus_per_link; /* GPUs that share one link to the processor */
        double latency_us; /* of a copy */
    } pcie;
    struct {
        char source[DT_SIM_SOURCE_BYTES];
        double memory_gib;      /* of a node; 0: unknown */
        double copy_gb_per_s;   /* limit of all copies of a node together (mpi: of all messages within it); 0: only the links limit them */
        double memory_gb_per_s; /* limit of what a node's processors and copies read and write of its memory together; 0: no limit */
        bool amd;               /* from "cpu": NCCL has separate constants for AMD processors */
        bool shared_processors; /* the nodes are emulated on one machine, whose processors all of them share (scripts/emulated_network) */
    } host;
    struct {
        char source[DT_SIM_SOURCE_BYTES];
        int count; /* cards of a node; a GPU uses the nearest one */
        enum dt_sim_nic_transport transport;
        double label_gbit_per_s; /* nominal rate */
        /* Measured rates; if the file has none, they are derived from the nominal rate and the
         * transport. */
        /* rate that one communicator, or message, gets from one card alone; for communicators over
         * two full nodes */
        double flow_gbit_per_s;
        /* part of that which remains if a byte passes four links instead of two, as in a ring of
         * four nodes; 1: all */
        double more_nodes;
        double tree_more_nodes;  /* the same for trees with sums in NVSwitches, and again for each doubling; 0: as more_nodes */
        double step_us;          /* shortest time of a ring's step across nodes, whatever its bytes; 0: from the library's table */
        double fewer_gpus;       /* factor if only half of a node's ranks are used: fewer processes drive the sockets; 1: no loss */
        double tree;             /* part of a card's rate that trees use; 1: all */
        double gain;             /* k communicators together get k^gain times the rate of one, up to total_gbit_per_s; 0: the rate of one */
        double total_gbit_per_s; /* rate that all communicators together get from one card */
        double latency_us;       /* latency of a message, in addition to the library's table for its network (NCCL: InfiniBand) */
        bool beside_gpu;         /* the card is on a PCIe switch with its GPU: NCCL then uses LL128 across nodes */
    } nic;
    struct {
        char source[DT_SIM_SOURCE_BYTES];
        bool sums; /* the switches sum (InfiniBand's SHARP), and NCCL is configured to use it */
        /* card i of every node is on the same switch, and NCCL's channels stay on it: blocking does
         * not affect them */
        bool rails;
        double blocking_factor; /* sum of the NICs' rates divided by what the switches carry between nodes at once; 1: no blocking */
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
        int channels;                                     /* nccl: concurrent rings within a node */
        double channel_gb_per_s;                          /* nccl: rate of one channel */
        int net_channels;                                 /* nccl: concurrent rings across nodes */
        double net_gbit_per_s;                            /* nccl: rate of a NIC that it assumes when it chooses; 0: the nominal rate */
        double ll_latency, ll128_latency, simple_latency; /* nccl: factors for a protocol's latency within a node, over its tables */
        double delivered;                                 /* nccl: part of the channels' bandwidth within a node that is achieved */
        bool nvls;                                        /* nccl: the node has NVSwitches of the third generation (Hopper), which sum */
        double compute_share;     /* nccl: part of a GPU's multiprocessors that a collective within a node takes from kernels */
        double net_compute_share; /* nccl: the same for collectives across nodes */
        double compute_slowdown;  /* nccl: the part by which a collective within a node takes longer while kernels run */
        double step_us;           /* mpi: time of a message, and of each phase of a collective */
        double gb_per_s;          /* mpi: rate of a rank's messages to ranks of its node */
        double sum_gb_per_s;      /* mpi: the same in phases that sum; 0: as gb_per_s */
        /* measured collectives; for kinds in this list they replace the constants above and nic's
         * rates */
        struct dt_sim_measured_list measured;
    } collectives;
};

/* Read and check a file. Errors name the file and the JSON path: DT_ERR_IO, DT_ERR_INVALID,
 * DT_ERR_HOST_MEMORY. */
dt_status dt_sim_cluster_load(const char *path, struct dt_sim_cluster *out);
/* The same from text; `where` names it in errors. */
dt_status dt_sim_cluster_parse(const char *text, size_t length, const char *where, struct dt_sim_cluster *out);

/* The file's keys, as lib/config/config.h describes them, and the schema made from them. */
const struct dt_table *dt_sim_cluster_table(void);
const struct dt_schema *dt_sim_cluster_schema(void);

/* The rate that one flow, and all flows together, get from a card with this label, if it was not
 * measured.
 *
 * rdma     92 % of the label: the rest after headers and completions; an assumption, which older
 *          files of DGX clusters also had.
 * sockets  together 1448 / 1538 of the label: TCP's payload in an Ethernet frame of 1500 bytes,
 *          with 52 bytes of TCP/IP headers (including time stamps, RFC 7323) and 38 bytes of
 *          Ethernet (IEEE 802.3: preamble, header, check sequence, gap). One flow is a TCP
 *          connection driven by one thread, at most 20 Gbit/s: the study's runs on a card of 100
 *          Gbit/s are best predicted with 19.0 (configs/clusters/gcp_a2.json); NCCL's documentation
 *          of NCCL_SOCKET_NTHREADS and NCCL_NSOCKS_PERTHREAD recommends several connections on
 *          networks of 100 Gbit/s. Above 100 Gbit/s one flow gets a fifth of the label, as at 100
 *          Gbit/s: this assumes that faster cards are used with more connections for each flow. */
struct dt_sim_nic_rates {
    double flow_gbit_per_s, total_gbit_per_s;
};
struct dt_sim_nic_rates dt_sim_nic_rates(enum dt_sim_nic_transport transport, double label_gbit_per_s);

/* Replace the cards' label and a message's latency. Measured rates keep their ratio to the rates
 * derived from the label. gbit_per_s 0, latency_us below 0: as in the file. DT_ERR_UNAVAILABLE if
 * the cluster has no cards, with the key ("network..."). */
dt_status dt_sim_cluster_set_network(struct dt_sim_cluster *cluster, double gbit_per_s, double latency_us);

/* Placement of ranks: rank r is GPU r % ranks_per_node of node r / ranks_per_node. */
struct dt_sim_placement {
    int world_size;
    int ranks_per_node; /* 0: the number of GPUs of a node, or all ranks if there are fewer */
};

/* Fill in ranks_per_node. DT_ERR_INVALID if the cluster is too small; `where` is its file. The text
 * begins with "world_size: ". */
dt_status dt_sim_cluster_place(const struct dt_sim_cluster *cluster, const char *where, struct dt_sim_placement *placement);
