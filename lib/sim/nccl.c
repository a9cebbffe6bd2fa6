#include "lib/sim/nccl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The constants of NCCL's tuning model, by version.
 * Source  NVIDIA/nccl, src/graph/tuning.cc: 2.10.3 at commit 7e515921, 2.20.3 at commit b6475625,
 *         2.27.3 at commit 72d24320 (versions from makefiles/version.mk there). PyTorch 1.11 ships
 *         2.10.3. */
const double dt_sim_nccl_tree_correction[DT_SIM_PROTOCOLS][23] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9},
};

/* Constants that 2.20.3 and 2.27.3 share. */
#define SINCE_2_20                                                                                                                         \
    .nvls = true, .ring_ll128_channel = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}},                                                  \
    .tree_ll128_channel = {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29.0}},                                                                \
    .tree_channel = {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}}, .ll_multi_node = 1, .plateau = {1.9, 1.4, 1.4},          \
    .plateau_by_channel = true, .net_overhead_us = {1.0, 2.0}

static const struct dt_sim_nccl_tables versions[] = {
    {
        .version = "2.10.3",
        .base_us = {{4.4, 4.4, 0}, {3.6, 10.0, 8.4}},
        .step_us = {{{0.52, 1.25, 28}, {0.47, 1.9, 3.4}}, {{1.0, 1.9, 28}, {1.0, 2.5, 5.7}}, {{5.0, 8.5, 28}, {2.7, 4.0, 9.6}}},
        .ll_bus = {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {87.7, 22.5, 19.0}},
        .ring_ll128_channel = {{20, 20, 20}, {20, 20, 20}, {20, 20, 20}},
        .tree_ll128_channel = {{20, 20, 20}, {20, 20, 20}, {20, 20, 20}},
        .tree_channel = {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {24.0, 23.6, 17.8}},
        .ll_share = {1.0 / 3, 1.0 / 4},
        .ll128_alone = 0.7,
        .ampere_bus = 235,
        .ll_multi_node = 1.8,
        .plateau = {1.9, 1.9, 1.9},
    },
    {
        .version = "2.20.3",
        SINCE_2_20,
        .base_us = {{6.8, 14.0, 0}, {6.6, 14.0, 8.4}},
        .step_us = {{{0.6, 1.25, 28}, {0.6, 1.9, 3.4}, {0, 0, 25}, {0, 0, 25}},
                    {{1.0, 1.9, 28}, {1.0, 2.5, 5.7}},
                    {{5.0, 8.5, 28}, {2.7, 4.0, 14.0}, {0, 0, 18}, {0, 0, 14}}},
        .ll_bus = {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {87.7, 22.5, 19.0}},
        .ll_share = {1.0 / 3, 1.0 / 4},
        .ll128_alone = 0.7,
        .inter_steps_of_node = 2,
    },
    {
        .version = "2.27.3",
        SINCE_2_20,
        .base_us = {{6.8, 14.0, 8.4}, {6.6, 14.0, 8.4}},
        .step_us = {{{0.6, 1.25, 4.0}, {0.6, 1.9, 3.4}, {0, 0, 25}, {0, 0, 25}},
                    {{1.0, 1.9, 4.0}, {1.0, 2.5, 5.7}},
                    {{5.0, 8.5, 14}, {2.7, 4.0, 14.0}, {0, 0, 18}, {0, 0, 14}}},
        .ll_bus = {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}},
        .ll_share = {0.5, 0.5},
        .ll128_alone = 0.92,
        .alone_as_tree = true,
    },
};

enum { VERSIONS = sizeof versions / sizeof *versions };

const struct dt_sim_nccl_tables *dt_sim_nccl_tables(const char *version)
{
    for (int i = 0; i < VERSIONS; i++)
        if (strcmp(versions[i].version, version) == 0)
            return &versions[i];
    return NULL;
}

dt_status dt_sim_nccl_find(const char *version, const char *where)
{
    char known[128] = "";
    if (dt_sim_nccl_tables(version))
        return DT_OK;
    for (int i = 0; i < VERSIONS; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", versions[i].version);
    return dt_fail(DT_ERR_INVALID, "%s: collectives.version: the tables of NCCL %s are not known; known are %s", where, version, known);
}

/* ---- the model ---- */

static int scale_of(const struct dt_sim_nccl_comm *c)
{
    return c->nodes <= 2 ? c->nodes - 1 : 2;
}

/* Steps of a ring, and how many of them cross nodes. */
static void ring_steps(const struct dt_sim_nccl_comm *c, enum dt_sim_collective kind, int *steps, int *inter)
{
    *steps = c->ranks;
    *inter = c->nodes;
    switch (kind) {
    case DT_SIM_ALL_REDUCE:
        *steps = 2 * (c->ranks - 1);
        *inter = c->nodes > 1 ? 2 * (c->nodes - 1) + c->tables->inter_steps_of_node : 0;
        break;
    case DT_SIM_REDUCE_SCATTER:
    case DT_SIM_ALL_GATHER:
        *steps = c->ranks - 1;
        *inter = c->nodes - 1;
        break;
    case DT_SIM_BROADCAST:
    case DT_SIM_REDUCE:
    case DT_SIM_ALL_TO_ALL:
    case DT_SIM_SHIFT:
    case DT_SIM_OPERATIONS:
    case DT_SIM_COLLECTIVES: break;
    }
    *inter = *inter < *steps ? *inter : *steps;
}

/* GB/s that the protocol achieves on all channels of the ring, from their bus bandwidth `bus`. */
static double ring_bus(const struct dt_sim_nccl_comm *c, enum dt_sim_collective kind, enum dt_sim_protocol protocol, double bus)
{
    int scale = scale_of(c), arch = (int)c->architecture;
    bool sums = kind == DT_SIM_ALL_REDUCE || kind == DT_SIM_REDUCE;
    if (protocol == DT_SIM_LL)
        return fmin(c->tables->ll_bus[c->nodes == 1 ? arch : c->amd][scale], bus * c->tables->ll_share[c->nodes > 1 || sums]);
    if (protocol == DT_SIM_LL128) /* a rank that is alone on its node sends and receives through one GPU */
        return fmin(bus * (c->ranks < 2 * c->nodes ? c->tables->ll128_alone : 0.92),
                    c->channels * c->tables->ring_ll128_channel[arch][scale]);
    return bus;
}

static double tree_bus(const struct dt_sim_nccl_comm *c, enum dt_sim_protocol protocol, double bus)
{
    int scale = scale_of(c), arch = (int)c->architecture;
    bus = fmin(bus * 0.92, c->channels * c->tables->tree_channel[arch][scale]);
    if (protocol == DT_SIM_LL)
        return fmin(bus / 3.8, c->tables->ll_bus[c->nodes == 1 ? arch : c->amd][scale]);
    if (protocol == DT_SIM_LL128)
        return fmin(bus * (c->nodes == 1 ? 7.0 / 9 : 120.0 / 128), c->channels * c->tables->tree_ll128_channel[arch][scale]);
    return bus;
}

static const double nvls_part = 5.0 / 6; /* part of the bus that carries the message */

double dt_sim_nccl_nvls_bus(double own, double network)
{
    return fmin(own, network / nvls_part);
}

/* Rate of the message in GB/s, if the algorithm's channels have `bus`. A tree's rate is half of the
 * bus: up and down. */
static double algorithm_bandwidth(const struct dt_sim_nccl_comm *c, enum dt_sim_collective kind, double bytes,
                                  enum dt_sim_algorithm algorithm, enum dt_sim_protocol protocol, double bus)
{
    int steps, inter;
    if (algorithm == DT_SIM_RING) {
        ring_steps(c, kind, &steps, &inter);
        return ring_bus(c, kind, protocol, bus) * c->ranks / steps;
    }
    if (algorithm != DT_SIM_TREE)
        return nvls_part * bus;
    int size = bytes >= 128 ? ilogb(bytes / 64) : 0;
    return tree_bus(c, protocol, bus) / 2 * (size < 23 ? dt_sim_nccl_tree_correction[protocol][size] : 1);
}

/* NCCL's rule for the plateau of a communicator with its default channels. */
static bool on_plateau(const struct dt_sim_nccl_comm *c, enum dt_sim_collective kind, double bytes, enum dt_sim_protocol protocol)
{
    double from = c->tables->plateau_by_channel ? 64.0 * c->channels * c->ranks : 4096.0 * c->ranks;
    return protocol == DT_SIM_SIMPLE && c->nodes > 1 && kind == DT_SIM_ALL_REDUCE && bytes >= from;
}

static double latency_us(const struct dt_sim_nccl_comm *c, enum dt_sim_collective kind, double bytes, enum dt_sim_algorithm algorithm,
                         enum dt_sim_protocol protocol, double extra_us)
{
    const struct dt_sim_nccl_tables *t = c->tables;
    double own = t->step_us[c->nvlink ? DT_SIM_BY_NVLINK : DT_SIM_BY_PCI][algorithm][protocol];
    bool as_tree = t->alone_as_tree && c->ranks == c->nodes;
    double inter = t->step_us[DT_SIM_BY_NET][as_tree && algorithm == DT_SIM_RING ? DT_SIM_TREE : algorithm][protocol],
           total = t->base_us[algorithm][protocol];
    int steps, inter_steps;
    if (algorithm == DT_SIM_NVLS)
        return own + (c->nodes > 1 ? inter + extra_us : 0);
    if (algorithm == DT_SIM_NVLS_TREE)
        return own + 2 * ilogb(c->nodes) * (inter + extra_us);
    if (c->nodes > 1 && protocol == DT_SIM_LL)
        own *= t->ll_multi_node;
    if (algorithm == DT_SIM_TREE)
        return total + 2 * ((c->ranks / c->nodes - 1) * own + (c->nodes > 1 ? ilogb(c->nodes) : 0) * (inter + extra_us));
    if (kind == DT_SIM_BROADCAST || kind == DT_SIM_REDUCE)
        return total + (c->nodes > 1 ? inter + extra_us : own); /* a pipeline: the time to fill it is not counted */
    ring_steps(c, kind, &steps, &inter_steps);
    if (c->nodes > 1)
        own = fmax(own, t->net_overhead_us[c->amd] * (protocol == DT_SIM_SIMPLE ? 3 : 1));
    total += (steps - inter_steps) * own + inter_steps * inter;
    return (on_plateau(c, kind, bytes, protocol) ? total * t->plateau[c->architecture] : total) + inter_steps * extra_us;
}

/* The latency on this network; the bytes take `transfer_s` more. Each rank sends as many messages
 * in sequence as a ring has steps, including the rank that sends to another node. While a chunk
 * goes from a node's card over its ranks to the next card, the first card sends the chunks of all
 * these ranks: ranks wait only for the time by which this path takes longer. Ranks that are alone
 * on their nodes have nothing else to send. If links within the node are no faster than the cards,
 * or the protocol limits both, the path takes as long. */
static double actual_latency_us(const struct dt_sim_nccl_comm *c, enum dt_sim_collective kind, double bytes,
                                enum dt_sim_algorithm algorithm, enum dt_sim_protocol protocol, double transfer_s)
{
    double us = latency_us(c, kind, bytes, algorithm, protocol, c->net_latency_us), base_us = c->tables->base_us[algorithm][protocol];
    int steps, inter_steps;
    if (c->nodes == 1 && (algorithm == DT_SIM_RING || algorithm == DT_SIM_TREE)) /* NVLS was not measured alone */
        return us * c->latency_factor[protocol];
    if (algorithm != DT_SIM_RING || c->nodes == 1 || kind == DT_SIM_BROADCAST || kind == DT_SIM_REDUCE)
        return us;
    ring_steps(c, kind, &steps, &inter_steps);
    double own = ring_bus(c, kind, protocol, c->own_bus), slower = fmin(ring_bus(c, kind, protocol, c->actual_bus[algorithm]) / own, 1);
    double others_us = 1e6 * transfer_s * (1 - (double)c->nodes / c->ranks) * (1 - slower);
    return base_us + fmax(fmax(us - base_us - others_us, 0), steps * c->net_step_us);
}

static bool is_possible(const struct dt_sim_nccl_comm *c, enum dt_sim_collective kind, enum dt_sim_algorithm algorithm,
                        enum dt_sim_protocol protocol)
{
    if (algorithm != DT_SIM_RING && kind != DT_SIM_ALL_REDUCE)
        return false;
    if (algorithm == DT_SIM_NVLS || algorithm == DT_SIM_NVLS_TREE)
        return c->nvls && protocol == DT_SIM_SIMPLE && (algorithm == DT_SIM_NVLS ? c->nodes == 1 || c->sums : c->nodes > 1);
    return protocol != DT_SIM_LL128 || c->ll128;
}

/* Seconds that NCCL predicts, with the bus that it assumes; INFINITY if the protocol is not allowed
 * or the algorithm does not have this collective. */
static double predict(const struct dt_sim_nccl_comm *c, enum dt_sim_collective kind, double bytes, enum dt_sim_algorithm algorithm,
                      enum dt_sim_protocol protocol)
{
    if (!is_possible(c, kind, algorithm, protocol))
        return INFINITY;
    return 1e-6 * latency_us(c, kind, bytes, algorithm, protocol, 0) +
           bytes / (1e9 * algorithm_bandwidth(c, kind, bytes, algorithm, protocol, c->bus[algorithm]));
}

/* The part of a ring's bandwidth that is left for other ranks' parts: each rank also copies its
 * own, which is no step. Two ranks have one step and half of the bytes to copy, eight have seven
 * and an eighth.
 * Source  NCCL 2.27 and 2.29 on 2, 4 and 8 A100, H100 and B200 in one node, 16 MiB and more
 *         (ai-dynamo/aiconfigurator, its measured database): a copy takes 0.46 of a step on all
 *         three. */
static double left_by_own_part(const struct dt_sim_nccl_comm *c, enum dt_sim_collective kind, enum dt_sim_algorithm algorithm, int steps)
{
    const double own_part = 0.46;
    bool has_part = kind != DT_SIM_BROADCAST && kind != DT_SIM_REDUCE;
    return has_part && algorithm == DT_SIM_RING && c->nodes == 1 ? steps / (steps + own_part) : 1;
}

struct dt_sim_nccl_plan dt_sim_nccl_plan(const struct dt_sim_nccl_comm *c, enum dt_sim_collective kind, double bytes)
{
    static const double wire[DT_SIM_PROTOCOLS] = {2, 128.0 / 120, 1}; /* LL: 4 bytes of flag to 4 of data; LL128: 8 to 120 */
    struct dt_sim_nccl_plan plan = {.algorithm = DT_SIM_RING, .protocol = DT_SIM_SIMPLE};
    double best = INFINITY;
    int steps, inter;
    for (int a = 0; a < DT_SIM_ALGORITHMS; a++)
        for (int p = 0; p < DT_SIM_PROTOCOLS; p++) {
            double predicted = predict(c, kind, bytes, (enum dt_sim_algorithm)a, (enum dt_sim_protocol)p);
            if (predicted < best) {
                best = predicted;
                plan.algorithm = (enum dt_sim_algorithm)a;
                plan.protocol = (enum dt_sim_protocol)p;
            }
        }
    ring_steps(c, kind, &steps, &inter);
    double ratio = plan.algorithm == DT_SIM_RING ? (double)steps / c->ranks : 1;
    plan.wire = wire[plan.protocol];
    plan.bus_bytes = bytes * ratio;
    plan.bus_bytes_per_s = 1e9 * ratio * left_by_own_part(c, kind, plan.algorithm, steps) *
                           algorithm_bandwidth(c, kind, bytes, plan.algorithm, plan.protocol, c->actual_bus[plan.algorithm]);
    plan.latency_s = 1e-6 * actual_latency_us(c, kind, bytes, plan.algorithm, plan.protocol, plan.bus_bytes / plan.bus_bytes_per_s);
    return plan;
}
