/* A cluster's links in a network, and patterns: the load of one byte of an operation on each
 * link. */
#include "lib/sim/transport_parts.h"

#include "lib/base/grow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static dt_status allocated(bool memory)
{
    return memory ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "simulation: no host memory for the cluster's links");
}

static dt_status add_link(struct dt_sim_links *l, struct dt_sim_network *network, double gb_per_s, int *out)
{
    uint32_t link = 0;
    DT_TRY(dt_sim_network_add_link(network, 1e9 * gb_per_s, &link));
    DT_TRY(allocated(DT_ROOM(l->links, link, l->link_room)));
    l->links[link] = (struct link_state){0};
    *out = (int)link;
    l->link_count = link + 1;
    return DT_OK;
}

/* The part that is left of a flow whose bytes pass n links in sequence, relative to two links, if
 * it is `four` for four links. The slowest link sets the pace. The largest deviation of n equal
 * random values from their mean grows with the square root of log n (the Gaussian's largest of n;
 * Gumbel, Statistics of Extremes, 1958). */
static double left_by_slowest(double links, double four)
{
    double root = sqrt(log(2)), behind = (sqrt(log(links)) - root) / (sqrt(log(4)) - root);
    return 1 / (1 + (1 / four - 1) * behind);
}

/* Rate of one flow alone between `nodes` nodes. A byte passes n links in sequence in a ring, 2 log2
 * n in trees. */
static double flow_gbit_per_s(const struct dt_sim_links *l, int nodes, enum dt_sim_algorithm algorithm)
{
    const struct dt_sim_cluster *c = &l->cluster;
    bool nvls_tree = algorithm == DT_SIM_NVLS_TREE, tree = nvls_tree || algorithm == DT_SIM_TREE;
    double in_a_row = nodes <= 2 ? 2
                      : tree     ? 2 * log2(nodes)
                                 : nodes,
           halvings = log2((double)c->gpus_per_node / l->placement.ranks_per_node);
    bool loses_more = nvls_tree && c->nic.tree_more_nodes > 0;
    double left = loses_more ? pow(c->nic.tree_more_nodes, log2(in_a_row / 2)) : left_by_slowest(in_a_row, c->nic.more_nodes);
    return c->nic.flow_gbit_per_s * left * pow(c->nic.fewer_gpus, halvings);
}

double dt_sim_links_card_bytes_per_s(const struct dt_sim_links *l, int nodes, double flows)
{
    const struct dt_sim_cluster *c = &l->cluster;
    double total = c->nic.total_gbit_per_s;
    return 1e9 / 8 * (c->nic.gain < 1 ? fmin(total, flow_gbit_per_s(l, nodes, DT_SIM_RING) * pow(flows, c->nic.gain)) : total);
}

/* One direction of a card: its total rate grows with the number of flows. */
static dt_status add_nic_link(struct dt_sim_links *l, struct dt_sim_network *network, int *out)
{
    const struct dt_sim_cluster *c = &l->cluster;
    DT_TRY(add_link(l, network, c->nic.total_gbit_per_s / 8, out));
    l->links[*out].is_nic = true;
    return c->nic.gain < 1
               ? dt_sim_network_set_gain(network, (uint32_t)*out, 1e9 / 8 * flow_gbit_per_s(l, l->nodes, DT_SIM_RING), c->nic.gain)
               : DT_OK;
}

static dt_status add_gpu(struct dt_sim_links *l, struct dt_sim_network *network, int gpu, struct rank_links *r)
{
    const struct dt_sim_cluster *c = &l->cluster;
    if (c->pcie.gb_per_s > 0 && gpu % c->pcie.gpus_per_link == 0) {
        DT_TRY(add_link(l, network, c->pcie.gb_per_s, &r->link[LINK_TO_DEVICE]));
        DT_TRY(add_link(l, network, c->pcie.gb_per_s, &r->link[LINK_TO_HOST]));
    }
    r->link[LINK_IN] = r->link[LINK_TO_DEVICE];
    r->link[LINK_OUT] = r->link[LINK_TO_HOST];
    if (c->nvlink.gb_per_s > 0) {
        DT_TRY(add_link(l, network, c->nvlink.gb_per_s, &r->link[LINK_OUT]));
        DT_TRY(add_link(l, network, c->nvlink.gb_per_s, &r->link[LINK_IN]));
    }
    return DT_OK;
}

/* The links of a node, and then of its GPUs: each begins with the links of the one before it. nics
 * [nics_per_node, 2]: room for the links of its cards. */
static dt_status add_node(struct dt_sim_links *l, struct dt_sim_network *network, int node, int ranks, int (*nics)[2])
{
    const struct dt_sim_cluster *c = &l->cluster;
    struct rank_links r = {.node = node, .nic = NO_LINK};
    for (int i = 0; i < LINKS_OF_RANK; i++)
        r.link[i] = NO_LINK;
    if (c->host.memory_gb_per_s > 0)
        DT_TRY(add_link(l, network, c->host.memory_gb_per_s, &r.link[LINK_HOST_MEMORY]));
    if (c->host.copy_gb_per_s > 0) {
        DT_TRY(add_link(l, network, c->host.copy_gb_per_s, &r.link[LINK_COPIES_TO_DEVICE]));
        DT_TRY(add_link(l, network, c->host.copy_gb_per_s, &r.link[LINK_COPIES_TO_HOST]));
    }
    for (int i = 0; i < 2 * l->nics_per_node; i++)
        DT_TRY(add_nic_link(l, network, &nics[i / 2][i % 2]));
    for (int gpu = 0; gpu < ranks; gpu++) {
        int nic = gpu * l->nics_per_node / c->gpus_per_node;
        if (l->nics_per_node) {
            r.nic = node * l->nics_per_node + nic;
            r.link[LINK_NIC_OUT] = nics[nic][0];
            r.link[LINK_NIC_IN] = nics[nic][1];
        }
        DT_TRY(add_gpu(l, network, gpu, &r));
        l->ranks[node * l->placement.ranks_per_node + gpu] = r;
    }
    return DT_OK;
}

/* CPU ranks share their node's processors, and emulated nodes share those of one machine. */
static dt_status add_processors(struct dt_sim_links *l, struct dt_sim_network *network)
{
    enum { LOADS = DT_SIM_MAX_LOAD * LOAD_STEPS + 1 };
    if (l->cluster.gpu.architecture != DT_SIM_CPU)
        return DT_OK;
    l->processors = calloc((size_t)l->nodes * LOADS, sizeof *l->processors);
    DT_TRY(allocated(l->processors));
    for (int node = 0, link = NO_LINK; node < l->nodes; node++) {
        if (node == 0 || !l->cluster.host.shared_processors)
            DT_TRY(add_link(l, network, 1, &link));
        for (int load = 1; load < LOADS; load++)
            l->processors[node * LOADS + load] = (struct dt_sim_use){.link = (uint32_t)link, .weight = (double)load / LOAD_STEPS};
    }
    return DT_OK;
}

static dt_status add_links(struct dt_sim_links *l, struct dt_sim_network *network)
{
    const struct dt_sim_cluster *c = &l->cluster;
    double all = l->nodes * c->nic.count * c->nic.label_gbit_per_s;
    int per_node = l->placement.ranks_per_node;
    l->fabric = NO_LINK;
    if (c->fabric.blocking_factor > 1 && l->nodes > 1)
        DT_TRY(add_link(l, network, all / c->fabric.blocking_factor / 8, &l->fabric));
    DT_FREED int(*nics)[2] = malloc(((size_t)l->nics_per_node + 1) * sizeof *nics);
    DT_TRY(allocated(nics));
    for (int node = 0; node < l->nodes; node++) {
        int left = l->placement.world_size - node * per_node;
        DT_TRY(add_node(l, network, node, left < per_node ? left : per_node, nics));
    }
    return DT_OK;
}

dt_status dt_sim_links_create(const struct dt_sim_cluster *cluster, const struct dt_sim_placement *placement,
                              struct dt_sim_network *network, struct dt_sim_links **out)
{
    DT_DESTROYED(dt_sim_links_destroy) struct dt_sim_links *l = calloc(1, sizeof *l);
    *out = NULL;
    DT_TRY(allocated(l));
    l->cluster = *cluster;
    l->placement = *placement;
    l->nodes = (placement->world_size + placement->ranks_per_node - 1) / placement->ranks_per_node;
    l->nics_per_node = l->nodes > 1 ? cluster->nic.count : 0;
    size_t world = (size_t)placement->world_size;
    l->ranks = calloc(world, sizeof *l->ranks);
    l->paths = calloc(world, sizeof *l->paths);
    l->copies = calloc(world, sizeof *l->copies);
    DT_TRY(allocated(l->ranks && l->paths && l->copies));
    DT_TRY(add_links(l, network));
    DT_TRY(add_processors(l, network));
    l->touched = calloc(l->link_count, sizeof *l->touched);
    DT_TRY(allocated(l->touched));
    *out = DT_PASSED_ON(l);
    return DT_OK;
}

/* Takes NULL. */
static void forget_measured(struct measured *cache)
{
    for (struct measured *m = cache, *next; m; m = next) {
        next = m->next;
        free(m->uses);
        free(m);
    }
}

void dt_sim_links_destroy(struct dt_sim_links *l)
{
    if (!l)
        return;
    for (int s = 0; s < l->shape_count; s++)
        for (int a = 0; l->shapes[s] && a < DT_SIM_ALGORITHMS; a++)
            free(l->shapes[s]->patterns[a].uses);
    for (int s = 0; s < l->shape_count; s++) {
        if (l->shapes[s]) {
            free(l->shapes[s]->all_to_all.uses);
            free(l->shapes[s]->shift.uses);
            forget_measured(l->shapes[s]->measured);
        }
        free(l->shapes[s]);
    }
    for (int r = 0; r < l->placement.world_size; r++) {
        for (struct path *p = l->paths ? l->paths[r] : NULL, *next; p; p = next) {
            next = p->next;
            forget_measured(p->measured);
            free(p->pattern.uses);
            free(p);
        }
        for (int d = 0; l->copies && d < DT_SIM_DIRECTIONS; d++)
            free(l->copies[r][d].uses);
    }
    free(l->shapes);
    free(l->paths);
    free(l->copies);
    free(l->ranks);
    free(l->processors);
    free(l->links);
    free(l->touched);
    free(l->stand_in);
    free(l);
}

dt_status dt_sim_links_slow(struct dt_sim_links *l, struct dt_sim_network *network, int rank, bool card, double left)
{
    const int *link = l->ranks[rank].link;
    if (card && link[LINK_NIC_OUT] == NO_LINK)
        return dt_fail(DT_ERR_UNAVAILABLE, "all ranks are on one node, and use no network card");
    int out = link[card ? LINK_NIC_OUT : LINK_OUT], in = link[card ? LINK_NIC_IN : LINK_IN];
    if (out == NO_LINK || (!card && l->cluster.collectives.library == DT_SIM_MPI))
        return dt_fail(DT_ERR_UNAVAILABLE, "the ranks of this cluster's nodes have no links of their own");
    dt_sim_network_slow(network, (uint32_t)out, left);
    dt_sim_network_slow(network, (uint32_t)in, left);
    return DT_OK;
}

/* ---- ranks that stand in for others ---- */

dt_status dt_sim_links_stand_in(struct dt_sim_links *l, const int *ranks, int count, const int *stand_in)
{
    int world_size = l->placement.world_size;
    l->stand_in = malloc((size_t)world_size * sizeof *l->stand_in);
    DT_TRY(allocated(l->stand_in));
    for (int r = 0; r < world_size; r++)
        l->stand_in[r] = ranks[stand_in[r]];
    for (int i = 0; i < count; i++)
        for (int k = 0; k < LINKS_OF_RANK; k++)
            if (l->ranks[ranks[i]].link[k] != NO_LINK)
                l->links[l->ranks[ranks[i]].link[k]].kept = true;
    return DT_OK;
}

/* Does the other rank have the same stand-in as `rank`, and the same link of this kind? */
static bool is_alike(const struct dt_sim_links *l, int rank, int kind, int other)
{
    return l->stand_in[other] == l->stand_in[rank] && l->ranks[other].link[kind] == l->ranks[rank].link[kind];
}

/* The ranks that a simulated rank represents on one of its links take part in operations like this
 * one of `ranks`. Count those operations, without this one, on a link of a simulated rank. */
static uint32_t others_on(const struct dt_sim_links *l, int rank, int kind, const int *ranks, int count)
{
    int first = l->ranks[rank].node * l->placement.ranks_per_node, left = l->placement.world_size - first;
    int on_node = 0, here = 0;
    for (int i = 0; i < left && i < l->placement.ranks_per_node; i++)
        on_node += is_alike(l, rank, kind, first + i);
    for (int i = 0; i < count; i++)
        here += is_alike(l, rank, kind, ranks[i]);
    return (uint32_t)(on_node / here) - 1;
}

static void count_others(struct dt_sim_links *l, const int *ranks, int count)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < LINKS_OF_RANK && l->stand_in[ranks[i]] == ranks[i]; k++) {
            int link = l->ranks[ranks[i]].link[k];
            if (link != NO_LINK && l->links[link].weight > 0)
                l->links[link].others = others_on(l, ranks[i], k, ranks, count);
        }
}

/* ---- patterns ---- */

void links_touch(struct dt_sim_links *l, int link, double weight)
{
    if (link == NO_LINK || weight <= 0)
        return;
    if (l->links[link].weight == 0)
        l->touched[l->touched_count++] = (uint32_t)link;
    l->links[link].weight += weight;
}

dt_status links_take_pattern(struct dt_sim_links *l, const int *ranks, int count, struct pattern *out)
{
    double on_nic = 0;
    if (l->stand_in)
        count_others(l, ranks, count);
    *out = (struct pattern){.uses = malloc((l->touched_count + 1) * sizeof *out->uses)};
    for (uint32_t i = 0; i < l->touched_count; i++) {
        struct link_state *link = &l->links[l->touched[i]];
        if (out->uses && (!l->stand_in || link->kept))
            out->uses[out->count++] = (struct dt_sim_use){.link = l->touched[i], .weight = link->weight, .others = link->others};
        if (link->is_nic)
            on_nic = fmax(on_nic, link->weight);
        out->heaviest = fmax(out->heaviest, link->weight);
        link->weight = 0;
        link->others = 0;
    }
    out->heaviest = on_nic > 0 ? on_nic : out->heaviest;
    l->touched_count = 0;
    return allocated(out->uses);
}

/* ---- a communicator's ranks on nodes and cards, and the load of its collectives on links ---- */

/* A group's ranks on one node. */
struct part {
    int ranks, nics;
};

static dt_status count_parts(const struct dt_sim_links *l, const int *ranks, int count, struct part **out)
{
    DT_FREED struct part *parts = calloc((size_t)l->nodes, sizeof *parts);
    DT_FREED bool *seen = calloc((size_t)(l->nodes * l->nics_per_node) + 1, sizeof *seen);
    DT_TRY(dt_allocated(parts && seen, "simulation: no host memory for a communicator's shape"));
    for (int i = 0; i < count; i++) {
        const struct rank_links *r = &l->ranks[ranks[i]];
        parts[r->node].ranks++;
        if (r->nic != NO_LINK && !seen[r->nic]) {
            seen[r->nic] = true;
            parts[r->node].nics++;
        }
    }
    *out = DT_PASSED_ON(parts);
    return DT_OK;
}

/* If a node has more ranks than this, NCCL sums in its NVSwitches.  Source  NVIDIA/nccl 2.20.3,
 * src/transport/nvls.cc: ncclNvlsInit */
enum { NVLS_BEYOND = 2 };

/* The rates of a group's channels: those that NCCL assumes, and those that they achieve. A tree
 * over two nodes sends each byte over a NIC once; a ring or a larger tree does so twice: NCCL's
 * search lets its channels be twice as fast (src/graph/search.cc, "increase speedIntra for
 * trees"). */
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
        .latency_factor = {c->collectives.ll_latency, c->collectives.ll128_latency, c->collectives.simple_latency},
        .own_bus = own,
        .net_latency_us = c->nic.latency_us,
        .net_step_us = c->nic.step_us,
    };
    for (int a = 0; a < DT_SIM_ALGORITHMS; a++) {
        double flow = flow_gbit_per_s(l, s->nodes, (enum dt_sim_algorithm)a);
        double twice = a == DT_SIM_TREE && s->nodes == 2 ? 2 : 1, inside = alone_on_nodes && away ? limit : own;
        if (a >= DT_SIM_NVLS) {
            double part = a == DT_SIM_NVLS_TREE && s->nodes > 2 ? 0.5 : 1; /* a node of a tree has two children */
            s->nccl.bus[a] = away ? fmin(own, part * s->fewest_nics * label / 8) : own;
            s->nccl.actual_bus[a] = away ? dt_sim_nccl_nvls_bus(own, part * s->fewest_nics * flow / 8) : c->collectives.delivered * own;
            continue;
        }
        s->nccl.bus[a] = away ? fmin(inside, twice * s->fewest_nics * label / 8) : own;
        s->nccl.actual_bus[a] = away ? fmin(inside, twice * s->fewest_nics * flow / 8) : c->collectives.delivered * own;
    }
}

dt_status links_shape(struct dt_sim_links *l, const int *ranks, int count, struct shape *out)
{
    DT_FREED struct part *parts = NULL;
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
    if (l->cluster.collectives.library == DT_SIM_NCCL)
        fill_nccl(l, out);
    return DT_OK;
}

/* MPI: of each byte that a rank sends, equal parts go to every other rank of the group. */
static void touch_mpi(struct dt_sim_links *l, const struct rank_links *r, const struct part *part, int count, bool away)
{
    double others = count - 1;
    links_touch(l, r->link[LINK_COPIES_TO_HOST], (part->ranks - 1) / others);
    if (away) {
        links_touch(l, r->link[LINK_NIC_OUT], (count - part->ranks) / others);
        links_touch(l, r->link[LINK_NIC_IN], (count - part->ranks) / others);
        links_touch(l, l->fabric, (count - part->ranks) / others);
    }
}

/* NCCL: the ring's channels leave a node through all its NICs in turn, and enter and leave it at
 * different GPUs. */
static void touch_nccl(struct dt_sim_links *l, const struct rank_links *r, const struct part *part, enum dt_sim_algorithm algorithm,
                       int nodes)
{
    bool nvls = algorithm == DT_SIM_NVLS || algorithm == DT_SIM_NVLS_TREE, tree = algorithm == DT_SIM_TREE || algorithm == DT_SIM_NVLS_TREE;
    double hops = nodes == 1 && !tree ? 1 : (part->ranks - 1.0) / part->ranks; /* part of a ring or chain, for each of the node's GPUs */
    double on_nic = (tree && nodes > 2 ? 2 : 1) / (tree ? l->cluster.nic.tree : 1), on_gpu = tree ? 2 * hops : hops;
    if (nvls) /* the whole message to the switches, and its part of the sum, which they send to all */
        on_gpu = 1 + 1.0 / part->ranks;
    links_touch(l, r->link[LINK_OUT], on_gpu);
    links_touch(l, r->link[LINK_IN], on_gpu);
    if (nodes > 1) { /* every rank adds its share of the node's load on the NICs, so a NIC gets the sum over its GPUs */
        links_touch(l, r->link[LINK_NIC_OUT], on_nic / part->ranks);
        links_touch(l, r->link[LINK_NIC_IN], on_nic / part->ranks);
        if (!l->cluster.fabric.rails)
            links_touch(l, l->fabric, on_nic / part->ranks);
    }
}

dt_status links_pattern(struct dt_sim_links *l, const int *ranks, int count, enum dt_sim_algorithm algorithm, struct pattern *out)
{
    DT_FREED struct part *parts = NULL;
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
    return links_take_pattern(l, ranks, count, out);
}

/* In an all-to-all each rank sends an equal part to every other one. In a shift around a ring over
 * several nodes, one rank of each node sends to the next node, and one receives from the previous
 * one. The model lets all ranks do so in turn, so that they are equal: the flow's own limit applies
 * to each. */
dt_status links_exchange_pattern(struct dt_sim_links *l, const int *ranks, int count, enum dt_sim_collective kind, struct pattern *out)
{
    DT_FREED struct part *parts = NULL;
    DT_TRY(count_parts(l, ranks, count, &parts));
    for (int i = 0; i < count; i++) {
        const struct rank_links *r = &l->ranks[ranks[i]];
        int on_node = parts[r->node].ranks;
        double far = on_node == count ? 0 : kind == DT_SIM_SHIFT ? 1.0 / on_node : (double)(count - on_node) / count;
        double near = kind == DT_SIM_SHIFT ? 1 - far : (on_node - 1.0) / count;
        links_touch(l, r->link[LINK_OUT], near);
        links_touch(l, r->link[LINK_IN], near);
        if (far > 0) {
            links_touch(l, r->link[LINK_NIC_OUT], far);
            links_touch(l, r->link[LINK_NIC_IN], far);
            links_touch(l, l->cluster.fabric.rails ? NO_LINK : l->fabric, far);
        }
    }
    return links_take_pattern(l, ranks, count, out);
}
