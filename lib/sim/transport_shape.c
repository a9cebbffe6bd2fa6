/* A communicator on the cluster: how its ranks are spread over nodes and NICs, and what a byte of its collectives puts on which link. */
#include "lib/sim/transport_parts.h"

#include <math.h>
#include <stdlib.h>

/* What a group has of one node. */
struct part {
    int ranks, nics;
};

static dt_status count_parts(const struct dt_sim_links *l, const int *ranks, int count, struct part **out)
{
    struct part *parts = calloc((size_t)l->nodes, sizeof *parts);
    bool *seen = calloc((size_t)(l->nodes * l->nics_per_node) + 1, sizeof *seen);
    if (!parts || !seen) {
        free(parts);
        free(seen);
        return dt_fail(DT_ERR_HOST_MEMORY, "simulation: no host memory for a communicator's shape");
    }
    for (int i = 0; i < count; i++) {
        const struct rank_links *r = &l->ranks[ranks[i]];
        parts[r->node].ranks++;
        if (r->nic != NO_LINK && !seen[r->nic]) {
            seen[r->nic] = true;
            parts[r->node].nics++;
        }
    }
    free(seen);
    *out = parts;
    return DT_OK;
}

/* Ranks of a node, above which NCCL sums in its NVSwitches.  Source  NVIDIA/nccl 2.20.3, src/transport/nvls.cc: ncclNvlsInit */
enum { NVLS_BEYOND = 2 };

/* What NCCL believes that a group's channels have, and what they get. A tree over two nodes sends each byte over a NIC once where a ring or
 * a larger tree does so twice: NCCL's search lets its channels be twice as fast (src/graph/search.cc, "increase speedIntra for trees"). */
static void fill_nccl(const struct dt_sim_links *l, struct shape *s)
{
    const struct dt_sim_cluster *c = &l->cluster;
    const struct dt_sim_nccl_tables *tables = dt_sim_nccl_tables(c->collectives.version);
    bool away = s->nodes > 1, alone_on_nodes = s->most_on_node == 1;
    double limit = c->gpu.architecture == DT_SIM_AMPERE && tables->ampere_bus > 0 ? tables->ampere_bus : INFINITY;
    double own = fmin(limit, c->collectives.channels * c->collectives.channel_gb_per_s);
    double label = c->collectives.net_gbit_per_s > 0 ? c->collectives.net_gbit_per_s : c->nic.label_gbit_per_s;
    s->nccl = (struct dt_sim_nccl_comm){
        .tables = tables,
        .architecture = c->gpu.architecture,
        .ranks = s->count,
        .nodes = s->nodes,
        .nvlink = c->nvlink.gb_per_s > 0,
        .amd = c->host.amd,
        .ll128 = c->nvlink.gb_per_s > 0 && (!away || c->nic.beside_gpu),
        .nvls = tables->nvls && c->collectives.nvls && s->most_on_node > NVLS_BEYOND,
        .sums = c->fabric.sums,
        .channels = away ? c->collectives.net_channels : c->collectives.channels,
        .own_bus = own,
        .net_latency_us = c->nic.latency_us,
        .net_step_us = c->nic.step_us,
    };
    for (int a = 0; a < DT_SIM_ALGORITHMS; a++) {
        double flow = links_flow_gbit_per_s(l, s->nodes, (enum dt_sim_algorithm)a);
        double twice = a == DT_SIM_TREE && s->nodes == 2 ? 2 : 1, inside = alone_on_nodes && away ? limit : own;
        if (a >= DT_SIM_NVLS) {
            double part = a == DT_SIM_NVLS_TREE && s->nodes > 2 ? 0.5 : 1; /* a node of a tree has two children */
            s->nccl.bus[a] = away ? fmin(own, part * s->fewest_nics * label / 8) : own;
            s->nccl.actual_bus[a] = away ? dt_sim_nccl_nvls_bus(own, part * s->fewest_nics * flow / 8) : own;
            continue;
        }
        s->nccl.bus[a] = away ? fmin(inside, twice * s->fewest_nics * label / 8) : own;
        s->nccl.actual_bus[a] = away ? fmin(inside, twice * s->fewest_nics * flow / 8) : own;
    }
}

dt_status links_shape(struct dt_sim_links *l, const int *ranks, int count, struct shape *out)
{
    struct part *parts;
    DT_TRY(count_parts(l, ranks, count, &parts));
    out->count = count;
    out->fewest_nics = l->nics_per_node;
    for (int n = 0; n < l->nodes; n++) {
        if (!parts[n].ranks)
            continue;
        out->nodes++;
        out->most_on_node = parts[n].ranks > out->most_on_node ? parts[n].ranks : out->most_on_node;
        out->fewest_nics = parts[n].nics < out->fewest_nics ? parts[n].nics : out->fewest_nics;
    }
    free(parts);
    if (l->cluster.collectives.library == DT_SIM_NCCL)
        fill_nccl(l, out);
    return DT_OK;
}

/* MPI: a byte that a rank sends goes to every other rank of the group alike. */
static void touch_mpi(struct dt_sim_links *l, const struct rank_links *r, const struct part *part, int count, bool away)
{
    double others = count - 1;
    links_touch(l, l->copies_to_host[r->node], (part->ranks - 1) / others);
    if (away) {
        links_touch(l, l->nic_out[r->nic], (count - part->ranks) / others);
        links_touch(l, l->nic_in[r->nic], (count - part->ranks) / others);
        links_touch(l, l->fabric, (count - part->ranks) / others);
    }
}

/* NCCL: the ring's channels leave a node by all its NICs in turn, and enter and leave it at different GPUs. */
static void touch_nccl(struct dt_sim_links *l, const struct rank_links *r, const struct part *part, enum dt_sim_algorithm algorithm,
                       int nodes)
{
    bool nvls = algorithm == DT_SIM_NVLS || algorithm == DT_SIM_NVLS_TREE, tree = algorithm == DT_SIM_TREE || algorithm == DT_SIM_NVLS_TREE;
    double hops = nodes == 1 && !tree ? 1 : (part->ranks - 1.0) / part->ranks; /* of a ring or chain, for each of the node's GPUs */
    double on_nic = (tree && nodes > 2 ? 2 : 1) / (tree ? l->cluster.nic.tree : 1), on_gpu = tree ? 2 * hops : hops;
    if (nvls) /* all of the message to the switches, and the sum's part, which they pass on to all */
        on_gpu = 1 + 1.0 / part->ranks;
    links_touch(l, r->out, on_gpu);
    links_touch(l, r->in, on_gpu);
    if (nodes > 1) { /* every rank adds its share of what its node puts on the NICs, so a NIC gets its GPUs' */
        links_touch(l, l->nic_out[r->nic], on_nic / part->ranks);
        links_touch(l, l->nic_in[r->nic], on_nic / part->ranks);
        if (!l->cluster.fabric.rails)
            links_touch(l, l->fabric, on_nic / part->ranks);
    }
}

dt_status links_pattern(struct dt_sim_links *l, const int *ranks, int count, enum dt_sim_algorithm algorithm, struct pattern *out)
{
    struct part *parts;
    int nodes = 0;
    DT_TRY(count_parts(l, ranks, count, &parts));
    for (int n = 0; n < l->nodes; n++)
        nodes += parts[n].ranks > 0;
    for (int i = 0; i < count; i++) {
        const struct rank_links *r = &l->ranks[ranks[i]];
        if (l->cluster.collectives.library == DT_SIM_MPI)
            touch_mpi(l, r, &parts[r->node], count, nodes > 1);
        else
            touch_nccl(l, r, &parts[r->node], algorithm, nodes);
    }
    free(parts);
    return links_take_pattern(l, ranks, count, out);
}
