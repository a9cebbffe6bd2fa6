/* The keys of a cluster file: the only place with their names, types, ranges and defaults. The
 * schema is generated from it: run scripts/generate after a change. */
#include "lib/config/json.h"
#include "lib/sim/cluster.h"
#include "lib/sim/nccl.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const architectures[] = {
    [DT_SIM_VOLTA] = "volta", [DT_SIM_AMPERE] = "ampere", [DT_SIM_HOPPER] = "hopper", [DT_SIM_CPU] = "cpu", NULL};
static const char *const libraries[] = {[DT_SIM_NCCL] = "nccl", [DT_SIM_MPI] = "mpi", NULL};
static const char *const transports[] = {[DT_SIM_RDMA] = "rdma", [DT_SIM_SOCKETS] = "sockets", NULL};

#define AT(member) .offset = offsetof(struct dt_sim_cluster, member), .size = sizeof(((struct dt_sim_cluster *)0)->member)
#define SOURCE(section)                                                                                                                    \
    {.path = #section ".source",                                                                                                           \
     .kind = DT_FIELD_STRING,                                                                                                              \
     AT(section.source),                                                                                                                   \
     .min = 1,                                                                                                                             \
     .max = DT_SIM_SOURCE_BYTES / 2 - 1,                                                                                                   \
     .required = DT_REQUIRED_IN_SECTION,                                                                                                   \
     .description = "where the numbers of this section come from"}
#define RATE_AT(key, member, text) {.path = key, .kind = DT_FIELD_NUMBER, AT(member), .min = 0, .max = 1e6, .description = text}
#define RATE(key, text) RATE_AT(#key, key, text)

#define FLAG(key, text) {.path = #key, .kind = DT_FIELD_BOOL, AT(key), .max = 1, .initial = "false", .description = text}
#define COUNT(key, least, most, usual, text)                                                                                               \
    {.path = #key, .kind = DT_FIELD_INT, AT(key), .min = least, .max = most, .initial = usual, .description = text}
#define NAME(key, length, text)                                                                                                            \
    {.path = #key, .kind = DT_FIELD_STRING, AT(key), .min = 1, .max = length, .required = DT_REQUIRED, .description = text}
#define CHOICE(key, listed, usual, text)                                                                                                   \
    {.path = #key, .kind = DT_FIELD_ENUM, AT(key), .names = listed, .initial = usual, .description = text}
#define PART(key, limit, excluded, usual, text)                                                                                            \
    {.path = #key, .kind = DT_FIELD_NUMBER, AT(key), .max = limit, .below = excluded, .initial = usual, .description = text}
#define GB_PER_S(key, excluded, usual, text)                                                                                               \
    {.path = #key, .kind = DT_FIELD_NUMBER, AT(key), .max = 1e6, .above = excluded, .initial = usual, .description = text}
#define FACTOR(key, text)                                                                                                                  \
    {.path = #key, .kind = DT_FIELD_NUMBER, AT(key), .min = 0, .above = true, .max = 1, .initial = "1", .description = text}

static const struct dt_field fields[] = {
    NAME(name, 63, "for tables and records"),
    NAME(source, DT_SIM_SOURCE_BYTES / 2 - 1, "what this cluster is"),
    {.path = "profile",
     .kind = DT_FIELD_STRING,
     AT(profile),
     .max = 127,
     .initial = "\"\"",
     .description = "file of the software's costs when an experiment names none: beside this file, or found as an experiment's is"},
    COUNT(nodes, 1, 65536, "1", "machines"),
    COUNT(gpus_per_node, 1, 64, "1", "devices of one"),

    SOURCE(gpu),
    NAME(gpu.name, 63, "the device's own name"),
    CHOICE(gpu.architecture, architectures, "\"ampere\"", "which of NCCL's tables holds"),
    {.path = "gpu.memory_gib",
     .kind = DT_FIELD_NUMBER,
     AT(gpu.memory_gib),
     .min = 0,
     .max = 1e5,
     .above = true,
     .required = DT_REQUIRED,
     .description = "GiB of device memory"},
    RATE_AT("gpu.peak_tflops.fp32", gpu.peak_tflops[DT_FP32], "TFLOP/s of dense fp32 matrix products; 0: unknown"),
    RATE_AT("gpu.peak_tflops.fp16", gpu.peak_tflops[DT_FP16], "the same for fp16"),
    RATE_AT("gpu.peak_tflops.bf16", gpu.peak_tflops[DT_BF16], "the same for bf16"),
    RATE_AT("gpu.peak_tflops.fp8", gpu.fp8_tflops, "the same for FP8; 0: it has none, or unknown"),
    RATE_AT("gpu.peak_tflops.mxfp8", gpu.mxfp8_tflops, "the same for FP8 with a scale for 32 numbers (MXFP8); 0: it has none, or unknown"),
    RATE(gpu.memory_gb_per_s, "GB/s of device memory"),
    RATE(gpu.power_w, "watts that one takes at most (its thermal design power); 0: unknown"),

    SOURCE(nvlink),
    {.path = "nvlink.name",
     .kind = DT_FIELD_STRING,
     AT(nvlink.name),
     .min = 1,
     .max = 31,
     .initial = "\"NVLink\"",
     .description = "what these links between a node's GPUs are called"},
    RATE(nvlink.gb_per_s, "GB/s of one GPU, each direction; 0: none"),

    SOURCE(pcie),
    RATE(pcie.gb_per_s, "GB/s of one link, each direction, as copies reach it"),
    COUNT(pcie.gpus_per_link, 1, 64, "1", "GPUs that share a link to the processor"),
    RATE(pcie.latency_us, "microseconds until a copy moves"),

    SOURCE(host),
    RATE(host.memory_gib, "GiB of a node's memory; 0: unknown"),
    RATE(host.copy_gb_per_s, "GB/s of all copies of a node, or messages within it, together; 0: no limit of its own"),
    RATE(host.memory_gb_per_s, "GB/s of a node's memory, for updates on the host and copies together; 0: no limit"),
    FLAG(host.amd, "an AMD processor"),
    FLAG(host.shared_processors, "the nodes are emulated on one machine, whose processors they all share"),

    SOURCE(nic),
    COUNT(nic.count, 0, 64, "0", "network cards of a node"),
    CHOICE(nic.transport, transports, "\"rdma\"", "how bytes get to the card: what follows from its label"),
    RATE(nic.label_gbit_per_s, "Gbit/s that the card is sold with"),
    RATE(nic.flow_gbit_per_s,
         "Gbit/s that one communicator or message gets out of one card alone, measured; 0: what the transport makes of the label"),
    FACTOR(nic.more_nodes, "part of that when a byte passes four links instead of two: in a ring of four nodes; a tree of n has 2 log2 n "
                           "in a row. Of more links "
                           "the slowest counts"),
    PART(nic.tree_more_nodes, 1, false, "0",
         "the same in trees of sums in NVSwitches, and again for each doubling of the links; 0: as more_nodes"),
    RATE(nic.step_us, "microseconds that each step of a ring across nodes takes at least; 0: what the library's table has"),
    FACTOR(nic.fewer_gpus, "part of that when its nodes have half the ranks of a full one"),
    FACTOR(nic.tree, "part of a card's rate that trees make use of"),
    PART(nic.gain, 1, false, "1", "k communicators get k to the power of this as much as one, up to total_gbit_per_s"),
    RATE(nic.total_gbit_per_s, "Gbit/s that all together get out of one card, measured; 0: what the transport makes of the label"),
    RATE(nic.latency_us, "microseconds of a message beyond what the library's table has for its network"),
    FLAG(nic.beside_gpu, "on one PCIe switch with its GPU"),

    SOURCE(fabric),
    FLAG(fabric.sums, "nccl: switches between nodes sum (SHARP), and NCCL_COLLNET_ENABLE=1 has it use them, together with nvls"),
    FLAG(fabric.rails, "the same card of all nodes is on one switch (rail-optimised): traffic between them does not meet blocking_factor"),
    {.path = "fabric.blocking_factor",
     .kind = DT_FIELD_NUMBER,
     AT(fabric.blocking_factor),
     .min = 1,
     .max = 1000,
     .initial = "1",
     .description = "the cards' sum over what the switches carry at once"},

    /* Default of clusters that give no storage rates: the rates that "NVIDIA DGX SuperPOD with DGX
     * H100" (reference architecture RA-11333-001, 2023, table 6) calls good for the file system of
     * one unit of 32 nodes. */
    SOURCE(storage),
    GB_PER_S(storage.read_gb_per_s, true, "4", "GB/s that a node reads of the file system with data and checkpoints"),
    GB_PER_S(storage.write_gb_per_s, true, "2", "the same of writing"),
    GB_PER_S(storage.total_read_gb_per_s, false, "15", "GB/s that all nodes together read; 0: no limit"),
    GB_PER_S(storage.total_write_gb_per_s, false, "7", "the same of writing"),

    SOURCE(collectives),
    CHOICE(collectives.library, libraries, "\"nccl\"", "what moves messages"),
    NAME(collectives.version, 15, "its version; nccl: one whose tables are known"),
    COUNT(collectives.channels, 1, 64, "1", "nccl: rings side by side within a node"),
    RATE(collectives.channel_gb_per_s, "nccl: GB/s of one of them"),
    COUNT(collectives.net_channels, 1, 64, "1", "nccl: rings side by side across nodes"),
    RATE(collectives.net_gbit_per_s, "nccl: Gbit/s that it believes of a card when it chooses; 0: the label"),
    PART(collectives.ll_latency, 10, false, "1", "nccl: latency of protocol LL within a node, over that of NCCL's tables"),
    PART(collectives.ll128_latency, 10, false, "1", "nccl: the same of LL128"),
    PART(collectives.simple_latency, 10, false, "1", "nccl: the same of Simple"),
    FACTOR(collectives.delivered, "nccl: part of the channels' bandwidth within a node that arrives"),
    FLAG(collectives.nvls, "nccl from 2.17: the node's NVSwitches sum (third generation, with Hopper)"),
    PART(collectives.compute_share, 1, true, "0",
         "nccl: part of a GPU's multiprocessors that a collective within a node takes from the kernels beside it"),
    PART(collectives.net_compute_share, 1, true, "0", "the same of a collective across nodes"),
    PART(collectives.compute_slowdown, 10, false, "0",
         "nccl: how much longer a collective within a node takes while kernels run beside it: 0.1 is 10 % longer"),
    RATE(collectives.step_us, "mpi: microseconds of a message, and of each phase of a collective"),
    RATE(collectives.gb_per_s, "mpi: GB/s that a rank sends to others of its node"),
    RATE(collectives.sum_gb_per_s, "mpi: the same in a phase that sums; 0: the same"),
};

static const struct dt_table table = {.fields = fields, .count = sizeof fields / sizeof *fields};

enum { FIELDS = sizeof fields / sizeof *fields };

const struct dt_table *dt_sim_cluster_table(void)
{
    return &table;
}

static const struct dt_schema_section sections[] = {
    {"",
     "What device sim runs on. Bandwidths are of one direction; GB are 1e9 bytes, GiB 2^30. dtbench also checks what no schema can "
     "express, such as that several nodes have network cards.",
     NULL},
    {0},
};

const struct dt_schema *dt_sim_cluster_schema(void)
{
    static const char measured[] = "Collectives and messages as they were measured (dtbench calibrate), instead of the constants above "
                                   "and, between nodes, of the cards' rates.";
    static const struct dt_schema_part parts[] = {
        {.path = "collectives.measured", .description = measured, .list = dt_sim_measured_table},
        {0},
    };
    static const struct dt_schema schema = {.title = "dtbench cluster", .table = &table, .sections = sections, .parts = parts};
    return &schema;
}

/* ---- conditions on several keys ---- */

static dt_status want_positive(double value, const char *where, const char *path, const char *why)
{
    return value > 0 ? DT_OK : dt_fail(DT_ERR_INVALID, "%s: %s: must be above 0 %s", where, path, why);
}

static dt_status want_at_most(double value, const char *path, double limit, const char *limit_path, const char *where)
{
    return value <= limit ? DT_OK
                          : dt_fail(DT_ERR_INVALID, "%s: %s: %g is more than %s, which is %g", where, path, value, limit_path, limit);
}

static dt_status check_network(const struct dt_sim_cluster *c, const char *where)
{
    if (c->nodes == 1)
        return DT_OK;
    DT_TRY(want_positive(c->nic.count, where, "nic.count", "where there are several nodes"));
    DT_TRY(want_at_most(c->nic.count, "nic.count", c->gpus_per_node, "gpus_per_node", where));
    DT_TRY(want_positive(c->nic.label_gbit_per_s, where, "nic.label_gbit_per_s", "where there are several nodes"));
    DT_TRY(want_at_most(c->nic.flow_gbit_per_s, "nic.flow_gbit_per_s", c->nic.total_gbit_per_s, "nic.total_gbit_per_s", where));
    return want_at_most(c->nic.total_gbit_per_s, "nic.total_gbit_per_s", c->nic.label_gbit_per_s, "nic.label_gbit_per_s", where);
}

static dt_status check_node(const struct dt_sim_cluster *c, const char *where)
{
    if (c->gpus_per_node % c->pcie.gpus_per_link)
        return dt_fail(DT_ERR_INVALID, "%s: pcie.gpus_per_link: %d does not divide gpus_per_node, which is %d", where,
                       c->pcie.gpus_per_link, c->gpus_per_node);
    if (c->collectives.library == DT_SIM_MPI)
        return want_positive(c->collectives.gb_per_s, where, "collectives.gb_per_s", "with mpi");
    if (c->gpu.architecture == DT_SIM_CPU)
        return dt_fail(DT_ERR_INVALID, "%s: collectives.library: nccl does not run on cpus; use \"mpi\"", where);
    DT_TRY(want_positive(c->pcie.gb_per_s, where, "pcie.gb_per_s", "with nccl"));
    DT_TRY(want_positive(c->collectives.channel_gb_per_s, where, "collectives.channel_gb_per_s", "with nccl"));
    return dt_sim_nccl_find(c->collectives.version, where);
}

static dt_status parse_object(const struct cJSON *object, const char *where, struct dt_sim_cluster *out)
{
    bool given[FIELDS] = {false};
    memset(out, 0, sizeof *out);
    DT_TRY(dt_config_defaults(&table, out));
    DT_TRY(dt_config_read(&table, object, where, out, given));
    DT_TRY(dt_config_check_required(&table, given, where));
    DT_TRY(check_node(out, where));
    /* Rates that were not measured. If one of the two was, the other is at least (total), or at
     * most (flow), that. */
    struct dt_sim_nic_rates rates = dt_sim_nic_rates(out->nic.transport, out->nic.label_gbit_per_s);
    bool flow = out->nic.flow_gbit_per_s > 0, total = out->nic.total_gbit_per_s > 0;
    if (!total)
        out->nic.total_gbit_per_s = flow ? fmax(rates.total_gbit_per_s, out->nic.flow_gbit_per_s) : rates.total_gbit_per_s;
    if (!flow)
        out->nic.flow_gbit_per_s = fmin(rates.flow_gbit_per_s, out->nic.total_gbit_per_s);
    return check_network(out, where);
}

/* ---- reading ---- */

static dt_status read_cluster(struct cJSON *object, const struct cJSON *measured, const char *where, struct dt_sim_cluster *out)
{
    char label[512];
    DT_TRY(parse_object(object, where, out));
    snprintf(label, sizeof label, "%.400s: collectives.measured", where);
    return dt_sim_measured_read(measured, label, &out->collectives.measured);
}

dt_status dt_sim_cluster_parse(const char *text, size_t length, const char *where, struct dt_sim_cluster *out)
{
    DT_DESTROYED(dt_json_destroy) struct cJSON *object = NULL;
    DT_TRY(dt_json_parse(text, length, where, &object));
    struct cJSON *collectives = cJSON_GetObjectItemCaseSensitive(object, "collectives");
    DT_DESTROYED(dt_json_destroy)
    struct cJSON *measured = cJSON_DetachItemFromObjectCaseSensitive(collectives, "measured"); /* a list: not described by a row */
    return read_cluster(object, measured, where, out);
}

dt_status dt_sim_cluster_load(const char *path, struct dt_sim_cluster *out)
{
    DT_FREED char *text = NULL;
    size_t length;
    DT_TRY(dt_read_file(path, &text, &length));
    return dt_sim_cluster_parse(text, length, path, out);
}

struct dt_sim_nic_rates dt_sim_nic_rates(enum dt_sim_nic_transport transport, double label)
{
    static const double rdma_part = 0.92, tcp_part = 1448.0 / 1538, connection_gbit_per_s = 20, flow_part = 0.2;
    if (transport == DT_SIM_RDMA)
        return (struct dt_sim_nic_rates){rdma_part * label, rdma_part * label};
    double flow = fmax(connection_gbit_per_s, flow_part * label);
    return (struct dt_sim_nic_rates){fmin(tcp_part * label, flow), tcp_part * label};
}

dt_status dt_sim_cluster_set_network(struct dt_sim_cluster *c, double gbit_per_s, double latency_us)
{
    if (gbit_per_s <= 0 && latency_us < 0)
        return DT_OK;
    if (c->nic.count == 0 || c->nic.label_gbit_per_s <= 0)
        return dt_fail(DT_ERR_UNAVAILABLE, "network.%s: cluster %s has no network cards", gbit_per_s > 0 ? "gbit_per_s" : "latency_us",
                       c->name);
    for (int i = 0; i < c->collectives.measured.count; i++)
        if (c->collectives.measured.entries[i].nodes > 1)
            return dt_fail(DT_ERR_UNAVAILABLE,
                           "network.%s: cluster %s has collectives as they were measured on its own network: leave it out, or "
                           "take another cluster",
                           gbit_per_s > 0 ? "gbit_per_s" : "latency_us", c->name);
    if (latency_us >= 0)
        c->nic.latency_us = latency_us;
    if (gbit_per_s <= 0)
        return DT_OK;
    struct dt_sim_nic_rates before = dt_sim_nic_rates(c->nic.transport, c->nic.label_gbit_per_s);
    struct dt_sim_nic_rates now = dt_sim_nic_rates(c->nic.transport, gbit_per_s);
    double total = c->nic.total_gbit_per_s * (now.total_gbit_per_s / before.total_gbit_per_s);
    c->nic.total_gbit_per_s = fmin(total, gbit_per_s);
    c->nic.flow_gbit_per_s = fmin(c->nic.flow_gbit_per_s * (now.flow_gbit_per_s / before.flow_gbit_per_s), c->nic.total_gbit_per_s);
    c->nic.label_gbit_per_s = gbit_per_s;
    return DT_OK;
}

dt_status dt_sim_cluster_place(const struct dt_sim_cluster *c, const char *where, struct dt_sim_placement *placement)
{
    int world = placement->world_size, per_node = placement->ranks_per_node;
    if (per_node == 0)
        per_node = world < c->gpus_per_node ? world : c->gpus_per_node;
    if (per_node > c->gpus_per_node)
        return dt_fail(DT_ERR_INVALID, "ranks per node: %d, but gpus_per_node of %s is %d", per_node, where, c->gpus_per_node);
    if ((world + per_node - 1) / per_node > c->nodes)
        return dt_fail(DT_ERR_INVALID, "world_size: %d ranks, %d on a node, need %d nodes; nodes of %s is %d", world, per_node,
                       (world + per_node - 1) / per_node, where, c->nodes);
    placement->ranks_per_node = per_node;
    return DT_OK;
}
