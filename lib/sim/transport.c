/* The load of collectives, messages, copies and shared work on the links: the movements that the
 * engine asks for. */
#include "lib/sim/transport_parts.h"

#include "lib/base/grow.h"

#include <math.h>
#include <stdlib.h>

static dt_status allocated(bool memory)
{
    return memory ? DT_OK : dt_fail(DT_ERR_HOST_MEMORY, "simulation: no host memory for the cluster's links");
}

static struct dt_sim_flow flow_of(const struct pattern *pattern, double bytes, double bytes_per_s)
{
    return (struct dt_sim_flow){.bytes = bytes,
                                .rate_cap = bytes_per_s,
                                .share = pattern->heaviest > 0 ? 1 / pattern->heaviest : 1,
                                .uses = pattern->uses,
                                .use_count = pattern->count};
}

/* ---- processors' work, and measured collectives and messages: flows of nanoseconds. Each takes
 * its time alone, and longer if the demand on processors or cards exceeds their capacity. ---- */

enum { LOADS = DT_SIM_MAX_LOAD * LOAD_STEPS + 1 };

static int step_of(double load)
{
    return (int)fmin(fmax(1, round(load * LOAD_STEPS)), LOADS - 1);
}

/* `seconds` of `threads` threads' work that takes `load` of the node's processors at its own pace.
 * If the loads exceed the capacity, threads get equal parts of it, as the operating system
 * schedules them. */
static struct dt_sim_flow flow_of_work(const struct dt_sim_links *l, int node, double seconds, double load, int threads)
{
    int step = step_of(load);
    return (struct dt_sim_flow){.bytes = 1e9 * seconds,
                                .rate_cap = 1e9,
                                .share = threads * (double)LOAD_STEPS / step,
                                .uses = l->processors ? &l->processors[node * LOADS + step] : NULL,
                                .use_count = l->processors ? 1 : 0};
}

/* A measured operation of `count` ranks on `nodes` nodes: processor time and, between nodes, the
 * load of `sent` bytes of `pattern` on the cards. *cache keeps the flow's uses. *out_found: a
 * similar operation was measured; otherwise nothing is done. */
struct measured_operation {
    int kind, nodes;
    double bytes, sent;
    const int *ranks;              /* [count] */
    int count, of_count;           /* of_count: the number of ranks under which measurements are listed (cluster_measured.h) */
    const struct pattern *pattern; /* NULL on one node */
};

/* Does an earlier rank of the operation use these processors too? */
static bool seen_before(const struct dt_sim_links *l, const struct measured_operation *o, int rank)
{
    for (int i = 0; i < rank; i++)
        if (l->cluster.host.shared_processors || l->ranks[o->ranks[i]].node == l->ranks[o->ranks[rank]].node)
            return true;
    return false;
}

/* Cards carry the operation's bytes during its time. Alone it cannot exceed their capacity, because
 * the measured operation did not. */
static void use_cards(const struct dt_sim_links *l, const struct measured_operation *o, double seconds, struct measured *m)
{
    double most = l->cluster.nic.total_gbit_per_s / 8; /* bytes a nanosecond */
    for (uint32_t i = 0; i < o->pattern->count; i++) {
        const struct dt_sim_use *use = &o->pattern->uses[i];
        if (l->links[use->link].is_nic)
            m->uses[m->flow.use_count++] = (struct dt_sim_use){
                .link = use->link, .weight = fmin(most, use->weight * o->sent / (1e9 * seconds)), .others = use->others};
    }
}

static void use_processors(const struct dt_sim_links *l, const struct measured_operation *o, double load, struct measured *m)
{
    for (int i = 0; i < o->count; i++)
        if (!seen_before(l, o, i))
            m->uses[m->flow.use_count++] = l->processors[l->ranks[o->ranks[i]].node * LOADS + step_of(load)];
}

static dt_status make_measured(const struct dt_sim_links *l, const struct measured_operation *o, double seconds, double load,
                               struct measured **out)
{
    DT_FREED struct measured *m = calloc(1, sizeof *m);
    DT_FREED struct dt_sim_use *uses = calloc(o->pattern->count + (size_t)o->count, sizeof *uses);
    DT_TRY(allocated(m && uses));
    *m = (struct measured){.kind = o->kind, .bytes = o->bytes, .uses = uses, .next = *out};
    m->flow = flow_of_work(l, 0, seconds, load, o->count);
    m->flow.uses = DT_PASSED_ON(uses);
    m->flow.use_count = 0;
    use_cards(l, o, seconds, m);
    if (l->processors)
        use_processors(l, o, load, m);
    *out = DT_PASSED_ON(m);
    return DT_OK;
}

static dt_status carry_measured(struct dt_sim_links *l, const struct measured_operation *o, struct measured **cache,
                                struct dt_sim_movement *out, bool *out_found)
{
    double seconds, load;
    *out_found = dt_sim_measured_find(&l->cluster.collectives.measured, o->kind, o->of_count, o->nodes, o->bytes, &seconds, &load);
    if (!*out_found)
        return DT_OK;
    if (o->nodes == 1) {
        *out = (struct dt_sim_movement){.flow = flow_of_work(l, l->ranks[o->ranks[0]].node, seconds, load, o->count)};
        return DT_OK;
    }
    struct measured *m = *cache;
    while (m && (m->kind != o->kind || m->bytes != o->bytes))
        m = m->next;
    if (!m) {
        DT_TRY(make_measured(l, o, seconds, load, cache));
        m = *cache;
    }
    *out = (struct dt_sim_movement){.flow = m->flow};
    return DT_OK;
}

static dt_status carry_work(void *context, int rank, double seconds, double load, struct dt_sim_movement *out)
{
    const struct dt_sim_links *l = context;
    *out = (struct dt_sim_movement){.flow = flow_of_work(l, l->ranks[rank].node, seconds, load, 1)};
    return DT_OK;
}

/* ---- collectives ---- */

static dt_status shape_of(struct dt_sim_links *l, const struct dt_sim_group *group, struct shape **out)
{
    if (group->id >= l->shape_count) {
        DT_TRY(allocated(DT_ONE_MORE(l->shapes, group->id)));
        while (l->shape_count <= group->id)
            l->shapes[l->shape_count++] = NULL;
    }
    if (!l->shapes[group->id]) {
        l->shapes[group->id] = calloc(1, sizeof **l->shapes);
        DT_TRY(allocated(l->shapes[group->id]));
        DT_TRY(links_shape(l, group->ranks, group->count, l->shapes[group->id]));
    }
    *out = l->shapes[group->id];
    return DT_OK;
}

/* dtbench's collectives on MPI: every rank sends the parts to their owners (a phase that sums, or a
 * scatter), which then send them to all. */
static const double mpi_sums[] = {[DT_SIM_ALL_REDUCE] = 1, [DT_SIM_REDUCE_SCATTER] = 1, [DT_SIM_REDUCE] = 1, [DT_SIM_SHIFT] = 0};
static const double mpi_copies[] = {[DT_SIM_ALL_REDUCE] = 1, [DT_SIM_ALL_GATHER] = 1, [DT_SIM_BROADCAST] = 2,
                                    [DT_SIM_REDUCE] = 1,     [DT_SIM_ALL_TO_ALL] = 1, [DT_SIM_SHIFT] = 1}; /* a shift sends slightly more */

static void plan_mpi(const struct dt_sim_links *l, const struct shape *s, enum dt_sim_collective kind, double bytes,
                     struct dt_sim_movement *out)
{
    const struct dt_sim_cluster *c = &l->cluster;
    double slow = c->collectives.sum_gb_per_s > 0 ? c->collectives.gb_per_s / c->collectives.sum_gb_per_s : 1;
    double sums = mpi_sums[kind], copies = mpi_copies[kind];
    double once = bytes * (s->count - 1) / s->count, rate = 1e9 * c->collectives.gb_per_s;
    if (s->nodes > 1) /* all ranks of a node send through its NICs, most of their parts to other nodes */
        rate = fmin(rate, 1e9 / 8 * c->nic.flow_gbit_per_s * s->fewest_nics * (s->count - 1) /
                              ((double)s->most_on_node * (s->count - s->most_on_node)));
    out->latency_s = 1e-6 * (sums + copies) * (c->collectives.step_us + (s->nodes > 1 ? c->nic.latency_us : 0));
    out->flow = flow_of(&s->patterns[0], once * (sums * slow + copies), rate);
}

/* What NCCL's channels and kernels take from each other; a network is slower than the rate that
 * kernels leave. */
static void share_gpus(const struct dt_sim_links *l, const struct shape *s, struct dt_sim_movement *out)
{
    out->compute_slowdown = s->nodes > 1 ? 0 : l->cluster.collectives.compute_slowdown;
    out->compute_share = s->nodes > 1 ? l->cluster.collectives.net_compute_share : l->cluster.collectives.compute_share;
}

/* NCCL's exchange of messages between all ranks: by protocol Simple, each message as if alone, at
 * the rate of the rank's channels or its card. */
static dt_status carry_exchange(struct dt_sim_links *l, const struct dt_sim_group *group, struct shape *s, enum dt_sim_collective kind,
                                double bytes, struct dt_sim_movement *out)
{
    const struct dt_sim_cluster *c = &l->cluster;
    const struct dt_sim_nccl_tables *t = s->nccl.tables;
    struct pattern *pattern = kind == DT_SIM_SHIFT ? &s->shift : &s->all_to_all;
    double n = s->count, channels = 1e9 * c->collectives.channels * c->collectives.channel_gb_per_s,
           card = 1e9 * c->nic.flow_gbit_per_s / 8;
    double far = s->nodes == 1 ? 0 : kind == DT_SIM_SHIFT ? 1 : (n - s->most_on_node) / n;
    double near = s->most_on_node == 1 ? 0 : kind == DT_SIM_SHIFT ? 1 : (s->most_on_node - 1) / n;
    enum dt_sim_hardware inside = s->nccl.nvlink ? DT_SIM_BY_NVLINK : DT_SIM_BY_PCI, by = s->nodes > 1 ? DT_SIM_BY_NET : inside;
    if (!pattern->uses)
        DT_TRY(links_exchange_pattern(l, group->ranks, group->count, kind, pattern));
    out->latency_s = 1e-6 * (t->base_us[DT_SIM_RING][DT_SIM_SIMPLE] + t->step_us[by][DT_SIM_RING][DT_SIM_SIMPLE] +
                             (s->nodes > 1 ? c->nic.latency_us : 0));
    out->flow = flow_of(pattern, bytes, fmin(near > 0 ? channels / near : INFINITY, far > 0 ? card / far : INFINITY));
    share_gpus(l, s, out);
    return DT_OK;
}

static dt_status carry_collective(void *context, const struct dt_sim_group *group, enum dt_sim_collective kind, double bytes, int root,
                                  struct dt_sim_movement *out)
{
    struct dt_sim_links *l = context;
    struct shape *s = NULL;
    bool mpi = l->cluster.collectives.library == DT_SIM_MPI, exchange = kind == DT_SIM_ALL_TO_ALL || kind == DT_SIM_SHIFT;
    struct dt_sim_nccl_plan plan = {0};
    *out = (struct dt_sim_movement){0};
    if (group->count == 1)
        return DT_OK;
    DT_TRY(shape_of(l, group, &s));
    if (!mpi && exchange)
        return carry_exchange(l, group, s, kind, bytes, out);
    if (!mpi)
        plan = dt_sim_nccl_plan(&s->nccl, kind, bytes);
    struct pattern *pattern = &s->patterns[plan.algorithm];
    if (!pattern->uses)
        DT_TRY(links_pattern(l, group->ranks, group->count, plan.algorithm, pattern));
    const struct measured_operation operation = {.kind = (int)kind,
                                                 .nodes = s->nodes,
                                                 .bytes = bytes,
                                                 .sent = bytes * (s->count - 1) / s->count * (mpi_sums[kind] + mpi_copies[kind]),
                                                 .ranks = group->ranks,
                                                 .count = group->count,
                                                 .of_count = group->count,
                                                 .pattern = pattern};
    bool measured;
    DT_TRY(carry_measured(l, &operation, &s->measured, out, &measured));
    if (measured) {
        if (!mpi)
            share_gpus(l, s, out);
        return DT_OK;
    }
    out->latency_s = plan.latency_s;
    out->flow = flow_of(pattern, plan.bus_bytes * plan.wire, plan.bus_bytes_per_s * plan.wire);
    if (mpi)
        plan_mpi(l, s, kind, bytes, out);
    else
        share_gpus(l, s, out);
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
    DT_FREED struct path *p = calloc(1, sizeof *p);
    DT_TRY(allocated(p));
    if (a->node != b->node) {
        links_touch(l, a->link[LINK_NIC_OUT], 1);
        links_touch(l, b->link[LINK_NIC_IN], 1);
        if (!l->cluster.fabric.rails || a->nic % l->nics_per_node != b->nic % l->nics_per_node)
            links_touch(l, l->fabric, 1);
    } else if (mpi) {
        links_touch(l, a->link[LINK_COPIES_TO_HOST], 1);
    } else {
        links_touch(l, a->link[LINK_OUT], 1);
        links_touch(l, b->link[LINK_IN], 1);
    }
    p->to = to;
    p->next = l->paths[from];
    DT_TRY(links_take_pattern(l, (const int[]){from, to}, 2, &p->pattern));
    *out = l->paths[from] = DT_PASSED_ON(p);
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
    DT_TRY(path_of(l, from, to, &path));
    const struct measured_operation operation = {.kind = DT_SIM_MESSAGE,
                                                 .nodes = away ? 2 : 1,
                                                 .bytes = bytes,
                                                 .sent = bytes,
                                                 .ranks = (const int[]){from, to},
                                                 .count = 2,
                                                 .of_count = away ? l->placement.world_size : l->placement.ranks_per_node,
                                                 .pattern = &path->pattern};
    bool measured;
    DT_TRY(carry_measured(l, &operation, &path->measured, out, &measured));
    if (measured)
        return DT_OK;
    if (!mpi) { /* a message takes a step of a ring: messages use protocol Simple */
        enum dt_sim_hardware inside = c->nvlink.gb_per_s > 0 ? DT_SIM_BY_NVLINK : DT_SIM_BY_PCI, by = away ? DT_SIM_BY_NET : inside;
        us = t->base_us[DT_SIM_RING][DT_SIM_SIMPLE] + t->step_us[by][DT_SIM_RING][DT_SIM_SIMPLE];
    }
    if (away)
        gb_per_s = c->nic.flow_gbit_per_s / 8;
    out->latency_s = 1e-6 * (us + (away ? c->nic.latency_us : 0));
    out->flow = flow_of(&path->pattern, bytes, 1e9 * gb_per_s);
    return DT_OK;
}

/* Data that processors move within their own node's memory takes that memory's rate alone. */
static dt_status carry_copy(void *context, int rank, enum dt_sim_direction direction, double bytes, struct dt_sim_movement *out)
{
    static const enum rank_link links[DT_SIM_DIRECTIONS][2] = {
        [DT_SIM_TO_DEVICE] = {LINK_TO_DEVICE, LINK_COPIES_TO_DEVICE}, [DT_SIM_TO_HOST] = {LINK_TO_HOST, LINK_COPIES_TO_HOST}};
    struct dt_sim_links *l = context;
    const struct dt_sim_cluster *c = &l->cluster;
    const struct rank_links *r = &l->ranks[rank];
    struct pattern *pattern = &l->copies[rank][direction];
    bool within = direction == DT_SIM_WITHIN_HOST;
    *out = (struct dt_sim_movement){.latency_s = within ? 0 : 1e-6 * c->pcie.latency_us};
    /* device and host memory are the same, and the time of a copy is that of its kernel */
    if (within ? r->link[LINK_HOST_MEMORY] == NO_LINK : c->pcie.gb_per_s <= 0 && c->host.copy_gb_per_s <= 0)
        return DT_OK;
    if (!pattern->uses) {
        for (int i = 0; i < 2 && !within; i++)
            links_touch(l, r->link[links[direction][i]], 1);
        links_touch(l, r->link[LINK_HOST_MEMORY], 1);
        DT_TRY(links_take_pattern(l, &rank, 1, pattern));
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
