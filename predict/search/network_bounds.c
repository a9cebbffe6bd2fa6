#include "predict/search/search.h"

#include "lib/sim/transport.h"
#include "predict/symmetry.h"
#include "schedules/data_parallel/mode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Best rates of communicators of one size and stride, from one rank on. */
struct group_rate {
    int first, ranks, stride;
    struct dt_sim_nccl_comm comm;
    double all_reduce_s_per_byte, gather_s_per_byte; /* per byte of the message, at best */
};

struct network_bounds {
    const struct simulated_machine *machine;
    const struct simulated_system *system; /* the base's system */
    struct dt_sim_network *network;
    struct dt_sim_links *links;
    struct once *rates;   /* of struct group_rate */
    struct once *senders; /* of int: equal ranks of a stage that send on one card at the same times (symmetry.h), at most */
};

dt_status network_bounds_create(const struct simulated_machine *machine, const struct simulated_system *system, struct network_bounds **out)
{
    struct network_bounds *b = calloc(1, sizeof *b);
    *out = b;
    DT_TRY(dt_allocated(b, "no host memory for bounds"));
    *b = (struct network_bounds){.machine = machine, .system = system};
    DT_TRY(once_create(sizeof(struct group_rate), &b->rates));
    DT_TRY(once_create(sizeof(int), &b->senders));
    DT_TRY(dt_sim_network_create(&b->network));
    return dt_sim_links_create(&machine->cluster, &system->placement, b->network, &b->links);
}

void network_bounds_destroy(struct network_bounds *b)
{
    if (!b)
        return;
    dt_sim_links_destroy(b->links);
    dt_sim_network_destroy(b->network);
    once_destroy(b->rates);
    once_destroy(b->senders);
    free(b);
}

/* ---- groups ---- */

/* The fewest seconds per byte, over messages of all sizes. */
static double best_s_per_byte(const struct dt_sim_nccl_comm *comm, enum dt_sim_collective kind)
{
    double best = INFINITY;
    for (double bytes = 64; bytes < 0x1p50; bytes *= 2) {
        struct dt_sim_nccl_plan plan = dt_sim_nccl_plan(comm, kind, bytes);
        best = fmin(best, plan.bus_bytes / plan.bus_bytes_per_s / bytes);
    }
    return best;
}

/* The key of a lookup: the rate of the group with this number of ranks at this distance; or the
 * senders of an experiment. */
struct question {
    const struct network_bounds *bounds;
    int first, ranks, stride;
    const struct experiment *experiment;
};

static dt_status measure_rate(void *context, void *value)
{
    const struct question *q = context;
    struct group_rate *rate = value;
    DT_FREED int *ranks = malloc((size_t)q->ranks * sizeof *ranks);
    DT_TRY(dt_allocated(ranks, "no host memory for %d ranks", q->ranks));
    *rate = (struct group_rate){.first = q->first, .ranks = q->ranks, .stride = q->stride};
    for (int i = 0; i < rate->ranks; i++)
        ranks[i] = rate->first + i * rate->stride;
    DT_TRY(dt_sim_links_nccl(q->bounds->links, ranks, rate->ranks, &rate->comm));
    rate->all_reduce_s_per_byte = best_s_per_byte(&rate->comm, DT_SIM_ALL_REDUCE);
    rate->gather_s_per_byte = fmin(best_s_per_byte(&rate->comm, DT_SIM_ALL_GATHER), best_s_per_byte(&rate->comm, DT_SIM_REDUCE_SCATTER));
    return DT_OK;
}

/* The rate of the group of rank `first`. */
static dt_status find_rate(struct network_bounds *b, const struct mesh_shape *mesh, enum mesh_axis axis, int first, struct group_rate *out)
{
    bool contexts = mesh->size[MESH_CONTEXT] > 1 && mesh_group(mesh, axis) & MESH_ON_CONTEXT; /* these ranks are next to each other */
    const int key[] = {first, mesh_group_size(mesh, axis), mesh_moved(mesh, contexts ? MESH_CONTEXT : axis, 0, 1)};
    struct question q = {.bounds = b, .first = key[0], .ranks = key[1], .stride = key[2]};
    return once_find(b->rates, key, sizeof key, measure_rate, &q, out);
}

/* The most that `flows` flows together get out of a card. A card gives more to more flows, and each
 * of its ranks may have other flows at the same time: a message in each of four channels, a
 * collective of its layers, one of its gradients, and one of the tables that two stages share. If a
 * node has one card, these take their part of it: rates are max-min fair, so no flow gets less than
 * its part of the fullest card on its path. */
static double card_bytes_per_s(const struct network_bounds *b, double flows)
{
    enum { FLOWS_OF_RANK = 7 };
    const struct dt_sim_cluster *c = &b->machine->cluster;
    int nodes = b->system->placement.world_size / b->system->placement.ranks_per_node;
    double most = FLOWS_OF_RANK * ceil((double)c->gpus_per_node / c->nic.count);
    double of_most = dt_sim_links_card_bytes_per_s(b->links, nodes, fmax(most, flows));
    if (c->nic.count > 1)
        return of_most;
    double together = dt_sim_links_card_bytes_per_s(b->links, nodes, flows);
    for (double others = 1; flows + others <= most; others++) {
        double more = dt_sim_links_card_bytes_per_s(b->links, nodes, flows + others) - others * of_most / most;
        if (more <= together)
            break; /* each further flow adds less */
        together = more;
    }
    return together;
}

/* Where nodes have unequal parts of a stage: the groups of the stage that meet on each of its nodes, those of the ranks of a tensor
 * group; 0: unknown. */
static double groups_of_stage(const struct network_bounds *b, const struct mesh_shape *mesh, const struct group_rate *rate)
{
    int tensor = mesh->size[MESH_TENSOR], whole = mesh_count(mesh, ~MESH_ON_PIPELINE);
    return b->system->placement.ranks_per_node % tensor == 0 && rate->ranks * tensor == whole ? tensor : 0;
}

/* The time that a node's cards need if each group sends `bytes` over them, on average. part: the
 * part of the groups on a node that sends; 0: nodes differ. */
static double card_s(const struct network_bounds *b, const struct mesh_shape *mesh, const struct group_rate *rate, double bytes,
                     double part)
{
    const struct dt_sim_cluster *c = &b->machine->cluster;
    int per_node = b->system->placement.ranks_per_node, nodes = rate->comm.nodes;
    if (nodes < 2 || c->nic.count == 0 || (part > 0 && rate->ranks % nodes))
        return 0;
    double sending = part > 0 ? part * per_node / (rate->ranks / nodes) : groups_of_stage(b, mesh, rate);
    if (sending == 0)
        return 0;
    double flows = fmin(sending, ceil((double)c->gpus_per_node / c->nic.count));
    return sending * bytes / c->nic.count / card_bytes_per_s(b, fmax(flows, 1));
}

/* Add the least time of a collective on `bytes` bytes in total to *sum, if it is a ring or a tree;
 * nothing is known of others. */
static dt_status add_least_s(struct network_bounds *b, const struct mesh_shape *mesh, const struct dp_collective *c, int first,
                             double bytes, double part, double *sum)
{
    struct group_rate rate;
    bool all = c->kind == DT_COMM_ALL_REDUCE, half = c->kind == DT_COMM_REDUCE_SCATTER || c->kind == DT_COMM_ALL_GATHER;
    if (c->of == DP_LESS || !(all || half) || mesh_group_size(mesh, c->axis) == 1)
        return DT_OK;
    DT_TRY(find_rate(b, mesh, c->axis, first, &rate));
    bytes *= dp_part_of(c->of, mesh);
    double n = rate.ranks, on_card = (all ? 2 : 1) * (n - 1) / n; /* for a ring; the tree of two nodes sends each byte once */
    if (all && rate.comm.nodes == 2)
        on_card = fmin(on_card, 1 / b->machine->cluster.nic.tree);
    double alone_s = bytes * (all ? rate.all_reduce_s_per_byte : rate.gather_s_per_byte);
    *sum += fmax(alone_s, card_s(b, mesh, &rate, on_card * bytes, part));
    return DT_OK;
}

double gathered_bytes(const struct dt_model *model, const struct mesh_shape *mesh, double parameter_bytes)
{
    double end = dt_end_elems(model, mesh->size[MESH_TENSOR]) * (double)dt_dtype_bytes(model->dtype);
    double block = parameter_bytes * mesh->size[MESH_PIPELINE] / dt_model_blocks(model);
    return fmax(parameter_bytes - block - 2 * end / mesh->size[MESH_PIPELINE], 0) / (model->fp8_gather ? 2 : 1);
}

/* The part of a node's ranks that belongs to one stage. 0: nodes differ. */
static double part_of_stage(const struct network_bounds *b, const struct mesh_shape *mesh)
{
    int per_node = b->system->placement.ranks_per_node, stages = mesh->size[MESH_PIPELINE];
    int stride = stages == 1 ? per_node : mesh_moved(mesh, MESH_PIPELINE, 0, 1);
    if (stride % per_node == 0)
        return 1;
    if (per_node % stride != 0 || (stride * stages % per_node != 0 && per_node % (stride * stages) != 0))
        return 0;
    return fmax((double)stride / per_node, 1.0 / stages);
}

bool network_bounds_stages_differ(const struct network_bounds *b, const struct mesh_shape *mesh)
{
    return part_of_stage(b, mesh) == 0;
}

dt_status network_bounds_traffic(struct network_bounds *b, const struct experiment *e, const struct mesh_shape *mesh, int micro_batches,
                                 double bytes, int stage, struct traffic *out)
{
    const struct dp_mode *mode = e->strategy.mode;
    int first = stage == ALL_STAGES ? 0 : mesh_moved(mesh, MESH_PIPELINE, 0, stage);
    double reduce = 0, publish = 0, part = stage == ALL_STAGES ? 1 : part_of_stage(b, mesh);
    double reduced = bytes * (double)dt_dtype_bytes(experiment_reduce_dtype(e)) / (double)dt_dtype_bytes(e->model.dtype);
    *out = (struct traffic){.gather = 0};
    if (b->machine->cluster.collectives.library != DT_SIM_NCCL)
        return DT_OK;
    DT_TRY(add_least_s(b, mesh, &mode->gathers, first, gathered_bytes(&e->model, mesh, bytes), part, &out->gather));
    for (size_t i = 0; i < sizeof mode->reduces / sizeof *mode->reduces; i++)
        DT_TRY(add_least_s(b, mesh, &mode->reduces[i], first, reduced, part, &reduce));
    DT_TRY(add_least_s(b, mesh, &mode->publishes, first, bytes / (e->model.fp8_gather ? 2 : 1), part, &publish));
    out->passes = e->fsdp.gather == GATHER_ONCE ? 1 : 2 * micro_batches;
    out->begin = mode->ranks == DP_RANKS_SHARE_BUCKETS && e->ddp.overlap_param_gather ? publish : 0;
    publish -= out->begin;
    out->end = reduce + publish;
    out->update = e->parameter_offload ? 0 : publish; /* the host updates while backward runs */
    return DT_OK;
}

static double collective_s(const struct group_rate *rate, enum dt_sim_collective kind, double bytes)
{
    struct dt_sim_nccl_plan plan = dt_sim_nccl_plan(&rate->comm, kind, bytes);
    return plan.latency_s + plan.bus_bytes / plan.bus_bytes_per_s;
}

/* Bytes of the activations of `samples` samples between two layers, over all ranks of a tensor
 * group. */
static double boundary_bytes(const struct experiment *e, const struct mesh_shape *mesh, int samples)
{
    double elems = dt_model_facts(&e->model).least_boundary_elems / mesh->size[MESH_CONTEXT];
    return samples * elems * (double)dt_dtype_bytes(e->model.dtype);
}

dt_status network_bounds_summing(struct network_bounds *b, const struct experiment *e, const struct mesh_shape *mesh, int samples,
                                 bool halves, struct summing *out)
{
    struct group_rate rate;
    double bytes = boundary_bytes(e, mesh, samples);
    bool again = activation_has_segments(e->activation) && e->activation_every == 1, sliced = e->tensor.sequence_parallel;
    *out = (struct summing){.forward = 0};
    if (mesh->size[MESH_TENSOR] == 1 || b->machine->cluster.collectives.library != DT_SIM_NCCL)
        return DT_OK;
    DT_TRY(find_rate(b, mesh, MESH_TENSOR, 0, &rate));
    double rows_s = sliced ? collective_s(&rate, DT_SIM_ALL_GATHER, e->model.fp8 ? bytes / 2 : bytes) : 0;
    double sum_s = collective_s(&rate, sliced ? DT_SIM_REDUCE_SCATTER : DT_SIM_ALL_REDUCE, bytes);
    *out = (struct summing){.forward = 2 * (rows_s + sum_s), .again = again ? rows_s + sum_s : 0, .backward = 2 * rows_s};
    if (halves)
        out->backward += 2 * (sum_s + rows_s);
    return DT_OK;
}

static int card_of(const struct dt_sim_cluster *c, int gpu)
{
    return gpu * c->nic.count / c->gpus_per_node;
}

/* The rank that stands for `rank` where only messages count. Shards of zero1 and zero2 differ in
 * what they update, but they update after all messages of a step, and then all of them wait for the
 * same gathering. */
static int messenger_of(const struct network_bounds *b, const struct symmetric_part *part, const struct experiment *e, int rank)
{
    const struct dt_sim_cluster *c = &b->machine->cluster;
    bool divides = e->strategy.mode->ranks == DP_RANKS_SHARE_BUCKETS && c->fabric.blocking_factor <= 1 && !c->host.shared_processors;
    return part->stand_in[divides ? mesh_moved(&part->mesh, MESH_SHARD, rank, 0) : rank];
}

static dt_status count_senders(void *context, void *value)
{
    const struct question *q = context;
    const struct experiment *e = q->experiment;
    const struct dt_sim_cluster *c = &q->bounds->machine->cluster;
    int per_node = q->bounds->system->placement.ranks_per_node, most = 1;
    struct symmetric_part part;
    dt_status status = symmetric_part_find(e, q->bounds->system, &part);
    for (int one = 0; status == DT_OK && one < per_node && one < e->world_size; one++) {
        int senders = 0;
        for (int gpu = 0; gpu < per_node && gpu < e->world_size; gpu++)
            senders +=
                messenger_of(q->bounds, &part, e, gpu) == messenger_of(q->bounds, &part, e, one) && card_of(c, gpu) == card_of(c, one);
        most = senders > most ? senders : most;
    }
    symmetric_part_finish(&part);
    *(int *)value = most;
    return status;
}

/* The number of senders depends on the mesh, the mode, and whether parameters are offloaded. */
static dt_status find_senders(struct network_bounds *b, const struct experiment *e, const struct mesh_shape *mesh, int *out)
{
    const struct dp_mode *mode = e->strategy.mode;
    unsigned char key[sizeof *mesh + sizeof mode + 1];
    struct question q = {.bounds = b, .experiment = e};
    memcpy(key, mesh, sizeof *mesh);
    memcpy(key + sizeof *mesh, &mode, sizeof mode);
    key[sizeof key - 1] = e->parameter_offload;
    return once_find(b->senders, key, sizeof key, count_senders, &q, out);
}

dt_status network_bounds_messages(struct network_bounds *b, const struct experiment *e, const struct mesh_shape *mesh, int samples,
                                  struct message_times *out)
{
    struct dt_sim_transport transport = dt_sim_links_transport(b->links);
    int per_node = b->system->placement.ranks_per_node, senders;
    DT_TRY(find_senders(b, e, mesh, &senders));
    double share = b->machine->cluster.nic.count > 0 ? card_bytes_per_s(b, senders) / senders : INFINITY; /* they share the card evenly */
    double bytes = boundary_bytes(e, mesh, samples);
    bytes /= e->tensor.sequence_parallel || b->machine->profile.schedule.divides_messages ? mesh->size[MESH_TENSOR] : 1;
    *out = (struct message_times){.near_s = INFINITY, .away_s = INFINITY, .ranks_per_node = per_node};
    for (int k = 0; k + 1 < mesh->size[MESH_PIPELINE]; k++) {
        int from = mesh_moved(mesh, MESH_PIPELINE, 0, k), to = mesh_moved(mesh, MESH_PIPELINE, 0, k + 1);
        struct dt_sim_movement movement;
        DT_TRY(transport.message(transport.context, from, to, bytes, &movement));
        bool away = from / per_node != to / per_node;
        bool on_card = away && movement.flow.bytes == bytes; /* measured rates are in other units */
        double rate = on_card ? fmin(movement.flow.rate_cap, share) : movement.flow.rate_cap;
        double *least = away ? &out->away_s : &out->near_s;
        *least = fmin(*least, movement.latency_s + (movement.flow.bytes > 0 ? movement.flow.bytes / rate : 0));
    }
    return DT_OK;
}
