#include "lib/sim/transport_parts.h"

#include <math.h>
#include <stdlib.h>

static dt_status no_memory(void)
{
    return dt_fail(DT_ERR_HOST_MEMORY, "simulation: no host memory for the cluster's links");
}

/* ---- links ---- */

static dt_status add_link(struct dt_sim_links *l, struct dt_sim_network *network, double gb_per_s, int *out)
{
    uint32_t link = 0;
    DT_TRY(dt_sim_network_add_link(network, 1e9 * gb_per_s, &link));
    *out = (int)link;
    l->link_count = link + 1;
    return DT_OK;
}

/* A card's one direction: what all flows get out of it grows with their number. */
static dt_status add_nic_link(struct dt_sim_links *l, struct dt_sim_network *network, int *out)
{
    const struct dt_sim_cluster *c = &l->cluster;
    DT_TRY(add_link(l, network, c->nic.total_gbit_per_s / 8, out));
    return c->nic.gain < 1 ? dt_sim_network_set_gain(network, (uint32_t)*out, 1e9 / 8 * links_flow_gbit_per_s(l, l->nodes), c->nic.gain)
                           : DT_OK;
}

static dt_status add_node(struct dt_sim_links *l, struct dt_sim_network *network, int node, int ranks)
{
    const struct dt_sim_cluster *c = &l->cluster;
    int up = NO_LINK, down = NO_LINK;
    l->copies_to_device[node] = l->copies_to_host[node] = NO_LINK;
    if (c->host.copy_gb_per_s > 0) {
        DT_TRY(add_link(l, network, c->host.copy_gb_per_s, &l->copies_to_device[node]));
        DT_TRY(add_link(l, network, c->host.copy_gb_per_s, &l->copies_to_host[node]));
    }
    for (int i = node * l->nics_per_node; i < (node + 1) * l->nics_per_node; i++) {
        DT_TRY(add_nic_link(l, network, &l->nic_out[i]));
        DT_TRY(add_nic_link(l, network, &l->nic_in[i]));
    }
    for (int gpu = 0; gpu < ranks; gpu++) {
        struct rank_links *r = &l->ranks[node * l->placement.ranks_per_node + gpu];
        *r = (struct rank_links){.out = NO_LINK, .in = NO_LINK, .to_device = NO_LINK, .to_host = NO_LINK, .node = node, .nic = NO_LINK};
        if (l->nics_per_node)
            r->nic = node * l->nics_per_node + gpu * l->nics_per_node / c->gpus_per_node;
        if (c->pcie.gb_per_s > 0 && gpu % c->pcie.gpus_per_link == 0) {
            DT_TRY(add_link(l, network, c->pcie.gb_per_s, &down));
            DT_TRY(add_link(l, network, c->pcie.gb_per_s, &up));
        }
        r->to_device = r->in = down;
        r->to_host = r->out = up;
        if (c->nvlink.gb_per_s > 0) {
            DT_TRY(add_link(l, network, c->nvlink.gb_per_s, &r->out));
            DT_TRY(add_link(l, network, c->nvlink.gb_per_s, &r->in));
        }
    }
    return DT_OK;
}

/* Ranks on cpus share their node's processors. */
static dt_status add_processors(struct dt_sim_links *l, struct dt_sim_network *network)
{
    enum { LOADS = DT_SIM_MAX_LOAD * LOAD_STEPS + 1 };
    if (l->cluster.gpu.architecture != DT_SIM_CPU)
        return DT_OK;
    if (!(l->processors = calloc((size_t)l->nodes * LOADS, sizeof *l->processors)))
        return no_memory();
    for (int node = 0; node < l->nodes; node++) {
        int link = NO_LINK;
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
    for (int node = 0; node < l->nodes; node++) {
        int left = l->placement.world_size - node * per_node;
        DT_TRY(add_node(l, network, node, left < per_node ? left : per_node));
    }
    return DT_OK;
}

dt_status dt_sim_links_create(const struct dt_sim_cluster *cluster, const struct dt_sim_placement *placement,
                              struct dt_sim_network *network, struct dt_sim_links **out)
{
    struct dt_sim_links *l = calloc(1, sizeof *l);
    dt_status status;
    *out = NULL;
    if (!l)
        return no_memory();
    l->cluster = *cluster;
    l->placement = *placement;
    l->nodes = (placement->world_size + placement->ranks_per_node - 1) / placement->ranks_per_node;
    l->nics_per_node = l->nodes > 1 ? cluster->nic.count : 0;
    size_t world = (size_t)placement->world_size, nodes = (size_t)l->nodes, nics = nodes * (size_t)l->nics_per_node + 1;
    l->ranks = calloc(world, sizeof *l->ranks);
    l->paths = calloc(world, sizeof *l->paths);
    l->copies = calloc(world, sizeof *l->copies);
    l->nic_out = calloc(nics, sizeof *l->nic_out);
    l->nic_in = calloc(nics, sizeof *l->nic_in);
    l->copies_to_device = calloc(nodes, sizeof *l->copies_to_device);
    l->copies_to_host = calloc(nodes, sizeof *l->copies_to_host);
    if (!l->ranks || !l->paths || !l->copies || !l->nic_out || !l->nic_in || !l->copies_to_device || !l->copies_to_host) {
        status = no_memory();
        goto fail;
    }
    if ((status = add_links(l, network)) < 0)
        goto fail;
    if ((status = add_processors(l, network)) < 0)
        goto fail;
    l->weight = calloc(l->link_count, sizeof *l->weight);
    l->touched = calloc(l->link_count, sizeof *l->touched);
    l->is_nic = calloc(l->link_count, sizeof *l->is_nic);
    if (!l->weight || !l->touched || !l->is_nic) {
        status = no_memory();
        goto fail;
    }
    for (int i = 0; i < l->nodes * l->nics_per_node; i++)
        l->is_nic[l->nic_out[i]] = l->is_nic[l->nic_in[i]] = true;
    *out = l;
    return DT_OK;
fail:
    dt_sim_links_destroy(l);
    return status;
}

void dt_sim_links_destroy(struct dt_sim_links *l)
{
    if (!l)
        return;
    for (int s = 0; s < l->shape_count; s++)
        for (int a = 0; l->shapes[s] && a < DT_SIM_ALGORITHMS; a++)
            free(l->shapes[s]->patterns[a].uses);
    for (int s = 0; s < l->shape_count; s++)
        free(l->shapes[s]);
    for (int r = 0; r < l->placement.world_size; r++) {
        for (struct path *p = l->paths ? l->paths[r] : NULL, *next; p; p = next) {
            next = p->next;
            free(p->pattern.uses);
            free(p);
        }
        for (int d = 0; l->copies && d < 2; d++)
            free(l->copies[r][d].uses);
    }
    free(l->shapes);
    free(l->paths);
    free(l->copies);
    free(l->ranks);
    free(l->nic_out);
    free(l->nic_in);
    free(l->copies_to_device);
    free(l->copies_to_host);
    free(l->processors);
    free(l->weight);
    free(l->touched);
    free(l->is_nic);
    free(l);
}

/* ---- patterns ---- */

void links_touch(struct dt_sim_links *l, int link, double weight)
{
    if (link == NO_LINK || weight <= 0)
        return;
    if (l->weight[link] == 0)
        l->touched[l->touched_count++] = (uint32_t)link;
    l->weight[link] += weight;
}

dt_status links_take_pattern(struct dt_sim_links *l, struct pattern *out)
{
    double on_nic = 0;
    *out = (struct pattern){.uses = malloc((l->touched_count + 1) * sizeof *out->uses), .count = l->touched_count};
    for (uint32_t i = 0; i < l->touched_count; i++) {
        uint32_t link = l->touched[i];
        if (out->uses)
            out->uses[i] = (struct dt_sim_use){.link = link, .weight = l->weight[link]};
        if (l->is_nic[link])
            on_nic = fmax(on_nic, l->weight[link]);
        out->heaviest = fmax(out->heaviest, l->weight[link]);
        l->weight[link] = 0;
    }
    out->heaviest = on_nic > 0 ? on_nic : out->heaviest;
    l->touched_count = 0;
    return out->uses ? DT_OK : no_memory();
}

static struct dt_sim_flow flow_of(const struct pattern *pattern, double bytes, double bytes_per_s)
{
    return (struct dt_sim_flow){.bytes = bytes,
                                .rate_cap = bytes_per_s,
                                .share = pattern->heaviest > 0 ? 1 / pattern->heaviest : 1,
                                .uses = pattern->uses,
                                .use_count = pattern->count};
}

/* ---- work on shared processors ---- */

/* `seconds` of `threads` threads' work that takes `load` of the node's processors at its own pace. Where that is more than is left, threads
 * get equal parts of it, as the operating system deals them out. */
static struct dt_sim_flow flow_of_work(const struct dt_sim_links *l, int node, double seconds, double load, int threads)
{
    enum { LOADS = DT_SIM_MAX_LOAD * LOAD_STEPS + 1 };
    int step = (int)fmin(fmax(1, round(load * LOAD_STEPS)), LOADS - 1);
    return (struct dt_sim_flow){.bytes = 1e9 * seconds,
                                .rate_cap = 1e9,
                                .share = threads * (double)LOAD_STEPS / step,
                                .uses = l->processors ? &l->processors[node * LOADS + step] : NULL,
                                .use_count = l->processors ? 1 : 0};
}

static dt_status carry_work(void *context, int rank, double seconds, double load, struct dt_sim_movement *out)
{
    const struct dt_sim_links *l = context;
    *out = (struct dt_sim_movement){.flow = flow_of_work(l, l->ranks[rank].node, seconds, load, 1)};
    return DT_OK;
}

/* A collective or message within a node that was measured; false where none like it was. */
static bool carry_measured(const struct dt_sim_links *l, int kind, int node, int ranks, int threads, double bytes,
                           struct dt_sim_movement *out)
{
    double seconds, load;
    if (!dt_sim_measured_find(&l->cluster.collectives.measured, kind, ranks, bytes, &seconds, &load))
        return false;
    *out = (struct dt_sim_movement){.flow = flow_of_work(l, node, seconds, load, threads)};
    return true;
}

/* ---- collectives ---- */

static dt_status shape_of(struct dt_sim_links *l, const struct dt_sim_group *group, struct shape **out)
{
    if (group->id >= l->shape_count) {
        struct shape **grown = realloc(l->shapes, (size_t)(group->id + 1) * sizeof *grown);
        if (!grown)
            return no_memory();
        l->shapes = grown;
        while (l->shape_count <= group->id)
            l->shapes[l->shape_count++] = NULL;
    }
    if (!l->shapes[group->id]) {
        if (!(l->shapes[group->id] = calloc(1, sizeof **l->shapes)))
            return no_memory();
        DT_TRY(links_shape(l, group->ranks, group->count, l->shapes[group->id]));
    }
    *out = l->shapes[group->id];
    return DT_OK;
}

/* dtbench's collectives on MPI: every rank sends its parts to their owners (a phase that sums, or a scatter), then from them to all. */
static void plan_mpi(const struct dt_sim_links *l, const struct shape *s, enum dt_sim_collective kind, double bytes,
                     struct dt_sim_movement *out)
{
    const struct dt_sim_cluster *c = &l->cluster;
    double slow = c->collectives.sum_gb_per_s > 0 ? c->collectives.gb_per_s / c->collectives.sum_gb_per_s : 1;
    double sums = kind == DT_SIM_ALL_GATHER || kind == DT_SIM_BROADCAST ? 0 : 1;
    double copies = kind == DT_SIM_ALL_GATHER || kind == DT_SIM_ALL_REDUCE || kind == DT_SIM_REDUCE ? 1 : kind == DT_SIM_BROADCAST ? 2 : 0;
    double once = bytes * (s->count - 1) / s->count, rate = 1e9 * c->collectives.gb_per_s;
    if (s->nodes > 1) /* all ranks of a node through its NICs, most of their parts going to other nodes */
        rate = fmin(rate, 1e9 / 8 * c->nic.flow_gbit_per_s * s->fewest_nics * (s->count - 1) /
                              ((double)s->most_on_node * (s->count - s->most_on_node)));
    out->latency_s = 1e-6 * (sums + copies) * (c->collectives.step_us + (s->nodes > 1 ? c->nic.latency_us : 0));
    out->flow = flow_of(&s->patterns[0], once * (sums * slow + copies), rate);
}

static dt_status carry_collective(void *context, const struct dt_sim_group *group, enum dt_sim_collective kind, double bytes, int root,
                                  struct dt_sim_movement *out)
{
    struct dt_sim_links *l = context;
    struct shape *s = NULL;
    bool mpi = l->cluster.collectives.library == DT_SIM_MPI;
    struct dt_sim_nccl_plan plan = {0};
    *out = (struct dt_sim_movement){0};
    if (group->count == 1)
        return DT_OK;
    DT_TRY(shape_of(l, group, &s));
    if (s->nodes == 1 && carry_measured(l, kind, l->ranks[group->ranks[0]].node, group->count, group->count, bytes, out))
        return DT_OK;
    if (!mpi)
        plan = dt_sim_nccl_plan(&s->nccl, kind, bytes);
    struct pattern *pattern = &s->patterns[plan.algorithm];
    if (!pattern->uses)
        DT_TRY(links_pattern(l, group->ranks, group->count, plan.algorithm, pattern));
    out->latency_s = plan.latency_s;
    out->flow = flow_of(pattern, plan.bus_bytes * plan.wire, plan.bus_bytes_per_s * plan.wire);
    if (mpi)
        plan_mpi(l, s, kind, bytes, out);
    return DT_OK;
}

/* ---- messages and copies ---- */

static dt_status path_of(struct dt_sim_links *l, int from, int to, struct path **out)
{
    for (*out = l->paths[from]; *out; *out = (*out)->next)
        if ((*out)->to == to)
            return DT_OK;
    const struct rank_links *a = &l->ranks[from], *b = &l->ranks[to];
    bool mpi = l->cluster.collectives.library == DT_SIM_MPI;
    struct path *p = calloc(1, sizeof *p);
    if (!p)
        return no_memory();
    if (a->node != b->node) {
        links_touch(l, l->nic_out[a->nic], 1);
        links_touch(l, l->nic_in[b->nic], 1);
        links_touch(l, l->fabric, 1);
    } else if (mpi) {
        links_touch(l, l->copies_to_host[a->node], 1);
    } else {
        links_touch(l, a->out, 1);
        links_touch(l, b->in, 1);
    }
    p->to = to;
    p->next = l->paths[from];
    dt_status status = links_take_pattern(l, &p->pattern);
    if (status < 0) {
        free(p);
        return status;
    }
    *out = l->paths[from] = p;
    return DT_OK;
}

static dt_status carry_message(void *context, int from, int to, double bytes, struct dt_sim_movement *out)
{
    struct dt_sim_links *l = context;
    const struct dt_sim_cluster *c = &l->cluster;
    const struct dt_sim_nccl_tables *t = dt_sim_nccl_tables(c->collectives.version);
    bool away = l->ranks[from].node != l->ranks[to].node, mpi = c->collectives.library == DT_SIM_MPI;
    double gb_per_s = mpi ? c->collectives.gb_per_s : c->collectives.channels * c->collectives.channel_gb_per_s;
    double us = mpi ? c->collectives.step_us : 0;
    struct path *path;
    *out = (struct dt_sim_movement){0};
    if (!away && carry_measured(l, DT_SIM_MESSAGE, l->ranks[from].node, l->placement.ranks_per_node, 2, bytes, out))
        return DT_OK;
    DT_TRY(path_of(l, from, to, &path));
    if (!mpi) { /* a step of a ring: messages go by Simple */
        enum dt_sim_hardware by = away ? DT_SIM_BY_NET : c->nvlink.gb_per_s > 0 ? DT_SIM_BY_NVLINK : DT_SIM_BY_PCI;
        us = t->base_us[DT_SIM_RING][DT_SIM_SIMPLE] + t->step_us[by][DT_SIM_RING][DT_SIM_SIMPLE];
    }
    if (away)
        gb_per_s = c->nic.flow_gbit_per_s / 8;
    out->latency_s = 1e-6 * (us + (away ? c->nic.latency_us : 0));
    out->flow = flow_of(&path->pattern, bytes, 1e9 * gb_per_s);
    return DT_OK;
}

static dt_status carry_copy(void *context, int rank, enum dt_sim_direction direction, double bytes, struct dt_sim_movement *out)
{
    struct dt_sim_links *l = context;
    const struct dt_sim_cluster *c = &l->cluster;
    const struct rank_links *r = &l->ranks[rank];
    struct pattern *pattern = &l->copies[rank][direction];
    *out = (struct dt_sim_movement){.latency_s = 1e-6 * c->pcie.latency_us};
    if (c->pcie.gb_per_s <= 0 && c->host.copy_gb_per_s <= 0) /* device and host memory are the same, and a copy's time is its kernel's */
        return DT_OK;
    if (!pattern->uses) {
        links_touch(l, direction == DT_SIM_TO_DEVICE ? r->to_device : r->to_host, 1);
        links_touch(l, direction == DT_SIM_TO_DEVICE ? l->copies_to_device[r->node] : l->copies_to_host[r->node], 1);
        DT_TRY(links_take_pattern(l, pattern));
    }
    out->flow = flow_of(pattern, bytes, INFINITY);
    return DT_OK;
}

struct dt_sim_transport dt_sim_links_transport(struct dt_sim_links *links)
{
    return (struct dt_sim_transport){
        .context = links, .collective = carry_collective, .message = carry_message, .copy = carry_copy, .work = carry_work};
}

dt_status dt_sim_links_nccl(struct dt_sim_links *links, const int *ranks, int count, struct dt_sim_nccl_comm *out)
{
    struct shape shape = {0};
    DT_TRY(links_shape(links, ranks, count, &shape));
    *out = shape.nccl;
    return DT_OK;
}
