#include "schedules/search/bounds.h"

#include "lib/sim/transport.h"
#include "schedules/plan/orders.h"
#include "schedules/predict/symmetry.h"
#include "schedules/search/recordings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Communicators of one size and stride. */
struct group_rate {
    int ranks, stride;
    struct dt_sim_nccl_comm comm;
    double all_reduce_s_per_byte, gather_s_per_byte; /* of the message, at best */
};

/* How many equal ranks of a stage send on one network card, always at the same times (schedules/predict/symmetry.h). */
struct sharing {
    struct mesh_shape mesh;
    int senders;
};

/* Blocks of each of so many virtual stages. */
struct division {
    int virtual_stages; /* -1: for one experiment only */
    int *blocks;
};

struct bounds {
    const struct experiment *base;
    const struct simulated_machine *machine;
    struct simulated_system *system; /* of the base */
    struct dt_sim_network *network;
    struct dt_sim_links *links;
    struct recordings *recordings;
    struct group_rate *rates; /* [rate_count] */
    int rate_count, rate_room;
    struct sharing *sharings; /* [sharing_count] */
    int sharing_count, sharing_room;
    struct division *divisions; /* [division_count] */
    int division_count, division_room;
};

dt_status bounds_create(const struct experiment *base, const struct simulated_machine *machine, struct bounds **out)
{
    struct bounds *b = calloc(1, sizeof *b);
    *out = NULL;
    if (!b)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for bounds");
    *b = (struct bounds){.base = base, .machine = machine};
    dt_status status = simulated_system_create_on(machine, base, &b->system);
    if (status < 0)
        goto fail;
    status = recordings_create(base, machine, b->system, &b->recordings);
    if (status < 0)
        goto fail;
    status = dt_sim_network_create(&b->network);
    if (status < 0)
        goto fail;
    status = dt_sim_links_create(&machine->cluster, &b->system->placement, b->network, &b->links);
    if (status < 0)
        goto fail;
    *out = b;
    return DT_OK;

fail:
    bounds_destroy(b);
    return status;
}

void bounds_destroy(struct bounds *b)
{
    if (!b)
        return;
    dt_sim_links_destroy(b->links);
    dt_sim_network_destroy(b->network);
    simulated_system_destroy(b->system);
    for (int i = 0; i < b->division_count; i++)
        free(b->divisions[i].blocks);
    free(b->divisions);
    free(b->sharings);
    recordings_destroy(b->recordings);
    free(b->rates);
    free(b);
}

double bounds_capacity_bytes(const struct bounds *b)
{
    return (double)b->system->memory_bytes / (1 + b->machine->profile.memory.fragmentation);
}

/* ---- the network ---- */

/* Seconds for each byte of messages of any size, at best. */
static double best_s_per_byte(const struct dt_sim_nccl_comm *comm, enum dt_sim_collective kind)
{
    double best = INFINITY;
    for (double bytes = 64; bytes < 0x1p50; bytes *= 2) {
        struct dt_sim_nccl_plan plan = dt_sim_nccl_plan(comm, kind, bytes);
        best = fmin(best, plan.bus_bytes / plan.bus_bytes_per_s / bytes);
    }
    return best;
}

/* The first group of so many ranks at such a distance. */
static dt_status measure_rate(const struct bounds *b, struct group_rate *rate)
{
    int *ranks = malloc((size_t)rate->ranks * sizeof *ranks);
    if (!ranks)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d ranks", rate->ranks);
    for (int i = 0; i < rate->ranks; i++)
        ranks[i] = i * rate->stride;
    dt_status status = dt_sim_links_nccl(b->links, ranks, rate->ranks, &rate->comm);
    free(ranks);
    DT_TRY(status);
    rate->all_reduce_s_per_byte = best_s_per_byte(&rate->comm, DT_SIM_ALL_REDUCE);
    rate->gather_s_per_byte = fmin(best_s_per_byte(&rate->comm, DT_SIM_ALL_GATHER), best_s_per_byte(&rate->comm, DT_SIM_REDUCE_SCATTER));
    return DT_OK;
}

static dt_status find_rate(struct bounds *b, const struct mesh_shape *mesh, enum mesh_axis axis, struct group_rate *out)
{
    *out = (struct group_rate){.ranks = mesh->size[axis], .stride = mesh_moved(mesh, axis, 0, 1)};
    for (int i = 0; i < b->rate_count; i++)
        if (b->rates[i].ranks == out->ranks && b->rates[i].stride == out->stride) {
            *out = b->rates[i];
            return DT_OK;
        }
    DT_TRY(recordings_make_room((void **)&b->rates, b->rate_count, &b->rate_room, sizeof *b->rates));
    DT_TRY(measure_rate(b, out));
    b->rates[b->rate_count++] = *out;
    return DT_OK;
}

/* Groups of this kind put `bytes` each on the cards of every node: what these carry of it together. Flows of others make none of them faster. */
static double card_s(const struct bounds *b, const struct mesh_shape *mesh, const struct group_rate *rate, double bytes)
{
    const struct dt_sim_cluster *c = &b->machine->cluster;
    int per_node = b->system->placement.ranks_per_node, nodes = rate->comm.nodes;
    if (nodes < 2 || rate->ranks % nodes || c->nic.count == 0)
        return 0;
    double groups = (double)per_node / (rate->ranks / nodes), flows = fmin(groups, ceil((double)c->gpus_per_node / c->nic.count));
    int all_nodes = mesh_count(mesh, ~0u) / per_node;
    return groups * bytes / c->nic.count / dt_sim_links_card_bytes_per_s(b->links, all_nodes, fmax(flows, 1));
}

static dt_status reduce_s(struct bounds *b, const struct mesh_shape *mesh, enum mesh_axis axis, double bytes, double *out)
{
    struct group_rate rate;
    *out = 0;
    if (mesh->size[axis] == 1)
        return DT_OK;
    DT_TRY(find_rate(b, mesh, axis, &rate));
    double n = rate.ranks, on_card = 2 * (n - 1) / n; /* of a ring; two nodes' tree sends each byte once */
    if (rate.comm.nodes == 2)
        on_card = fmin(on_card, 1 / b->machine->cluster.nic.tree);
    *out = fmax(bytes * rate.all_reduce_s_per_byte, card_s(b, mesh, &rate, on_card * bytes));
    return DT_OK;
}

/* Gathering or reduce-scattering `bytes` in all. */
static dt_status gather_s(struct bounds *b, const struct mesh_shape *mesh, enum mesh_axis axis, double bytes, double *out)
{
    struct group_rate rate;
    *out = 0;
    if (mesh->size[axis] == 1)
        return DT_OK;
    DT_TRY(find_rate(b, mesh, axis, &rate));
    double n = rate.ranks;
    *out = fmax(bytes * rate.gather_s_per_byte, card_s(b, mesh, &rate, (n - 1) / n * bytes));
    return DT_OK;
}

/* Bytes that a stage of P parameter bytes gathers, or fetches from the host, in one pass over its groups. One that was used last may still be
 * there, and backward reads no table of embeddings; no group is larger than that table, or than a layer's share of all. */
static double gathered_bytes(const struct dt_model *model, const struct mesh_shape *mesh, double parameter_bytes)
{
    double element = (double)dt_dtype_bytes(model->dtype), d = model->hidden;
    double table = ((double)model->vocab_size / mesh->size[MESH_TENSOR] + model->block_size + 3) * d * element;
    double block = parameter_bytes * mesh->size[MESH_PIPELINE] / model->layers;
    return fmax(parameter_bytes - block - 2 * table / mesh->size[MESH_PIPELINE], 0);
}

/* What the mode sends, in seconds. */
struct traffic {
    double gather; /* parameters, for one pass over a stage's groups */
    double passes; /* how often in a step */
    double end;    /* gradients and what follows on them, once a step: not before the last micro-batch's backward */
    double update; /* of that, what updated parameters take: not before all backward passes are over */
};

/* bytes: of the parameters of this rank's stage. */
static dt_status network_s(struct bounds *b, const struct experiment *e, const struct mesh_shape *mesh, int micro_batches, double bytes,
                           struct traffic *out)
{
    double scatter = 0, reduce = 0, publish = 0, once = gathered_bytes(&e->model, mesh, bytes);
    *out = (struct traffic){.gather = 0};
    if (b->machine->cluster.collectives.library != DT_SIM_NCCL)
        return DT_OK;
    switch (paradigm_of(e->paradigm)->mode) {
    case DP_DDP: DT_TRY(reduce_s(b, mesh, MESH_REPLICA, bytes, &reduce)); break;
    case DP_ZERO1:
    case DP_ZERO2:
        DT_TRY(gather_s(b, mesh, MESH_SHARD, bytes, &scatter));
        publish = scatter;
        break;
    case DP_FSDP:
        DT_TRY(gather_s(b, mesh, MESH_SHARD, once, &out->gather));
        DT_TRY(gather_s(b, mesh, MESH_SHARD, bytes, &scatter));
        DT_TRY(reduce_s(b, mesh, MESH_REPLICA, bytes / mesh->size[MESH_SHARD], &reduce));
        break;
    default: break;
    }
    out->passes = e->fsdp.gather == GATHER_ONCE ? 1 : 2 * micro_batches;
    out->end = scatter + reduce + publish;
    out->update = e->parameter_offload ? 0 : publish; /* the host updates what it has while backward runs */
    return DT_OK;
}

/* Ranks that share a layer put its output together, in forward after attention and MLP: kernels wait for it, and for attention's once more
 * where forward is repeated. What backward sends is beside kernels. */
struct summing {
    double forward, again; /* seconds of one micro-batch through one block */
};

static dt_status tensor_s(struct bounds *b, const struct experiment *e, const struct mesh_shape *mesh, int samples, struct summing *out)
{
    struct group_rate rate;
    double bytes = (double)samples * e->model.block_size * e->model.hidden * (double)dt_dtype_bytes(e->model.dtype), seconds = 0;
    bool again = e->activation == ACTIVATION_CHECKPOINT || e->activation == ACTIVATION_OFFLOAD;
    *out = (struct summing){.forward = 0};
    if (mesh->size[MESH_TENSOR] == 1 || b->machine->cluster.collectives.library != DT_SIM_NCCL)
        return DT_OK;
    DT_TRY(find_rate(b, mesh, MESH_TENSOR, &rate));
    static const enum dt_sim_collective whole[] = {DT_SIM_ALL_REDUCE}, sliced[] = {DT_SIM_REDUCE_SCATTER, DT_SIM_ALL_GATHER};
    const enum dt_sim_collective *kinds = e->tensor.sequence_parallel ? sliced : whole;
    for (int i = 0; i < (e->tensor.sequence_parallel ? 2 : 1); i++) {
        struct dt_sim_nccl_plan plan = dt_sim_nccl_plan(&rate.comm, kinds[i], bytes);
        seconds += plan.latency_s + plan.bus_bytes / plan.bus_bytes_per_s;
    }
    *out = (struct summing){.forward = 2 * seconds, .again = again ? seconds : 0};
    return DT_OK;
}

static dt_status count_senders(const struct bounds *b, const struct experiment *e, int *out)
{
    const struct dt_sim_cluster *c = &b->machine->cluster;
    int per_node = b->system->placement.ranks_per_node;
    struct symmetric_part part;
    dt_status status = symmetric_part_find(e, b->system, &part);
    *out = 0;
    for (int gpu = 0; status == DT_OK && gpu < per_node && gpu < e->world_size; gpu++)
        *out += part.stand_in[gpu] == part.stand_in[0] && gpu * c->nic.count / c->gpus_per_node == 0;
    symmetric_part_finish(&part);
    return status;
}

static dt_status find_senders(struct bounds *b, const struct experiment *e, const struct mesh_shape *mesh, int *out)
{
    bool known = paradigm_of(e->paradigm)->mode == DP_DDP;
    for (int i = 0; i < b->sharing_count && known; i++)
        if (memcmp(&b->sharings[i].mesh, mesh, sizeof *mesh) == 0) {
            *out = b->sharings[i].senders;
            return DT_OK;
        }
    DT_TRY(count_senders(b, e, out));
    if (!known)
        return DT_OK;
    DT_TRY(recordings_make_room((void **)&b->sharings, b->sharing_count, &b->sharing_room, sizeof *b->sharings));
    b->sharings[b->sharing_count++] = (struct sharing){*mesh, *out};
    return DT_OK;
}

/* What one of `senders` equal flows gets of a card at most. Flows beside them may be there, which get more out of the card together: of each
 * of its ranks a message in each of four channels, and a collective of its layers, one of its gradients and one of tables that
 * two stages have. */
static double card_share_bytes_per_s(const struct bounds *b, int senders)
{
    enum { FLOWS_OF_RANK = 7 };
    const struct dt_sim_cluster *c = &b->machine->cluster;
    int per_node = b->system->placement.ranks_per_node, nodes = b->system->placement.world_size / per_node;
    double ranks = c->nic.count > 0 ? ceil((double)c->gpus_per_node / c->nic.count) : 1;
    return c->nic.count > 0 ? dt_sim_links_card_bytes_per_s(b->links, nodes, FLOWS_OF_RANK * ranks) / senders : INFINITY;
}

/* Activations of a micro-batch from one stage to the next, with those of equal ranks beside them, where that is shortest. */
static dt_status message_s(struct bounds *b, const struct experiment *e, const struct mesh_shape *mesh, int samples, double *out)
{
    struct dt_sim_transport transport = dt_sim_links_transport(b->links);
    int per_node = b->system->placement.ranks_per_node, senders;
    DT_TRY(find_senders(b, e, mesh, &senders));
    double bytes = (double)samples * e->model.block_size * e->model.hidden * (double)dt_dtype_bytes(e->model.dtype);
    bytes /= e->tensor.sequence_parallel ? mesh->size[MESH_TENSOR] : 1;
    *out = INFINITY;
    for (int k = 0; k + 1 < mesh->size[MESH_PIPELINE]; k++) {
        int from = mesh_moved(mesh, MESH_PIPELINE, 0, k), to = mesh_moved(mesh, MESH_PIPELINE, 0, k + 1);
        struct dt_sim_movement movement;
        DT_TRY(transport.message(transport.context, from, to, bytes, &movement));
        bool on_card = from / per_node != to / per_node && movement.flow.bytes == bytes; /* what was measured is in other units */
        double rate = on_card ? fmin(movement.flow.rate_cap, card_share_bytes_per_s(b, senders)) : movement.flow.rate_cap;
        *out = fmin(*out, movement.latency_s + (movement.flow.bytes > 0 ? movement.flow.bytes / rate : 0));
    }
    return DT_OK;
}

/* ---- host links ---- */

/* Every rank moves `bytes` in one direction. */
static double host_link_s(const struct bounds *b, double bytes)
{
    const struct dt_sim_cluster *c = &b->machine->cluster;
    int per_node = b->system->placement.ranks_per_node;
    double seconds = 0;
    if (c->pcie.gb_per_s > 0)
        seconds = bytes * (per_node < c->pcie.gpus_per_link ? per_node : c->pcie.gpus_per_link) / (1e9 * c->pcie.gb_per_s);
    if (c->host.copy_gb_per_s > 0)
        seconds = fmax(seconds, bytes * per_node / (1e9 * c->host.copy_gb_per_s));
    return seconds;
}

/* A stage's part of `bytes`, which its ranks share or not. Parameters come once for each micro-batch, but for a group that is still there;
 * inputs of segments go out and come back. */
static double offloaded_s(const struct bounds *b, const struct experiment *e, const struct mesh_shape *mesh, int micro_batches, int samples,
                          double parameter_bytes)
{
    double element = (double)dt_dtype_bytes(e->model.dtype), seconds = 0;
    bool sharded = paradigm_of(e->paradigm)->mode == DP_FSDP;
    if (e->parameter_offload) { /* forward and backward */
        double moved = gathered_bytes(&e->model, mesh, parameter_bytes) / (sharded ? mesh->size[MESH_SHARD] : 1);
        seconds = host_link_s(b, (sharded && e->fsdp.gather == GATHER_ONCE ? 1 : 2 * micro_batches) * moved);
    }
    if (e->activation == ACTIVATION_OFFLOAD) {
        double segments = floor((double)e->model.layers / e->activation_blocks / mesh->size[MESH_PIPELINE]) - 2;
        double input = (double)samples * e->model.block_size * e->model.hidden * element / mesh->size[MESH_TENSOR];
        seconds = fmax(seconds, host_link_s(b, fmax(segments, 0) * input * micro_batches));
    }
    return seconds;
}

/* ---- compute ---- */

/* m micro-batches of `work` seconds each through p stages, however these divide it. Stage k is busy for m w_k, and waits for the w_i of all
 * stages before it; the largest of these sums is least where all are equal, which is so for w_k = w_0 (1 - 1/m)^k. */
static double pipeline_s(double work, double m, double p)
{
    return work / (1 - pow(1 - 1 / m, p));
}

static double compute_s(const struct experiment *e, const struct mesh_shape *mesh, int micro_batches, double work)
{
    int stages = mesh->size[MESH_PIPELINE], chunks = e->pipeline.chunks;
    if (stages == 1)
        return micro_batches * work;
    if (strcmp(e->pipeline.order, "gpipe") == 0)
        return micro_batches / chunks * pipeline_s(work, chunks, stages);
    if (strcmp(e->pipeline.order, "1f1b") == 0)
        return pipeline_s(work, micro_batches, stages);
    return micro_batches * work / stages; /* other orders fill and drain with less than whole passes */
}

/* Lent until bounds_destroy; known from an earlier call where the split is the base's. */
static dt_status find_blocks(struct bounds *b, const struct experiment *e, int virtual_stages, const int **out)
{
    bool known = strcmp(e->pipeline.split, b->base->pipeline.split) == 0;
    for (int i = 0; i < b->division_count && known; i++)
        if (b->divisions[i].virtual_stages == virtual_stages) {
            *out = b->divisions[i].blocks;
            return DT_OK;
        }
    DT_TRY(recordings_make_room((void **)&b->divisions, b->division_count, &b->division_room, sizeof *b->divisions));
    struct division *d = &b->divisions[b->division_count];
    *d = (struct division){.virtual_stages = known ? virtual_stages : -1, .blocks = malloc((size_t)virtual_stages * sizeof *d->blocks)};
    if (!d->blocks)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d stages", virtual_stages);
    b->division_count++;
    *out = d->blocks;
    return pipeline_blocks(e, virtual_stages, d->blocks);
}

/* most: blocks of the rank that has most. */
static dt_status fill_s(struct bounds *b, const struct experiment *e, const struct mesh_shape *mesh, const struct block_times *times,
                        double *out, int *most)
{
    int stages = mesh->size[MESH_PIPELINE];
    const int *blocks = NULL;
    struct order_layout layout;
    struct order_shape shape = {.stages = stages, .virtual_stages = e->pipeline.virtual_stages};
    *out = *most = 0;
    if (stages == 1 || times->all_s <= 0 || pipeline_order_is_file(e->pipeline.order))
        return DT_OK;
    DT_TRY(pipeline_order_layout(e->pipeline.order, &shape, &layout));
    DT_TRY(find_blocks(b, e, stages * layout.parts, &blocks));
    *out = pipeline_fill_s(blocks, stages, &layout, times, most);
    return DT_OK;
}

/* ---- memory ---- */

/* Parts of a rank's share of the model: 1 is all of it. */
struct share {
    double parameters, gradients, optimizer;
};

static struct share share_of(const struct experiment *e, const struct mesh_shape *mesh)
{
    double shards = mesh->size[MESH_SHARD];
    bool alone = mesh_count(mesh, MESH_ON_DATA) == 1;
    if (e->parameter_offload)
        return (struct share){0, 0, 0};
    if (alone)
        return (struct share){1, 0, 1};
    switch (paradigm_of(e->paradigm)->mode) {
    case DP_DDP: return (struct share){1, 1, 1};
    case DP_ZERO1: return (struct share){1, 0, 1 / shards};
    case DP_ZERO2: return (struct share){1, 1 / shards, 1 / shards};
    case DP_FSDP: return (struct share){1 / shards, 1 / shards, 1 / shards};
    case DP_DATA_PARALLEL:
    case DP_PARAMETER_SERVER: return (struct share){1, 0, 0};
    default: return (struct share){1, 0, 1};
    }
}

/* The fullest stage's activations, of micro-batches that have `alone` bytes on one device each. Where all activations are kept, stage k has
 * those of min(m, p - k) micro-batches under 1f1b, and of a whole window under gpipe. */
static double activation_bytes(const struct bounds *b, const struct experiment *e, const struct mesh_shape *mesh, int micro_batches,
                               int samples, double alone)
{
    int stages = mesh->size[MESH_PIPELINE];
    double element = (double)dt_dtype_bytes(e->model.dtype), rows = (double)samples * e->model.block_size, parts = stages;
    double vocab = (double)e->model.vocab_size / mesh->size[MESH_TENSOR] + 1;
    double of_blocks = fmax(0, alone - 4 * element * rows * vocab); /* without what the head has for a moment */
    if (stages == 1 || e->activation != ACTIVATION_KEEP || b->machine->profile.schedule.keeps_last_chunk)
        return alone / stages;
    if (strcmp(e->pipeline.order, "gpipe") == 0)
        return fmax(alone / stages, of_blocks * e->pipeline.chunks / stages);
    if (strcmp(e->pipeline.order, "1f1b") != 0)
        return alone / stages;
    parts = 0;
    for (int k = 0; k < stages; k++)
        parts += 1.0 / (micro_batches < stages - k ? micro_batches : stages - k);
    return fmax(alone / stages, of_blocks / parts);
}

/* ---- one after the other ---- */

/* Where a framework gathers a group only when its turn comes, this cannot be beside kernels: in a step's last backward, the reduction of a
 * group waits for its gradients, the next group's gathering comes behind it on the same stream, and that group's kernels wait for it. */
static double in_turn_s(const struct bounds *b, const struct experiment *e, const struct mesh_shape *mesh, const struct traffic *traffic)
{
    bool in_turn = b->machine->profile.schedule.gathers_in_turn && e->fsdp.gather != GATHER_ONCE && mesh->size[MESH_PIPELINE] == 1;
    return in_turn && traffic->gather > 0 ? traffic->gather + traffic->end : 0;
}

/* Without a pipeline: what is sent for gradients begins behind all other micro-batches and the last one's forward, and what is gathered for
 * the last backward comes behind the first of it, since both are on one stream. Updates wait for all kernels, and what they make is sent
 * behind them. */
static double after_all_s(const struct experiment *e, const struct mesh_shape *mesh, int micro_batches, double work, double forward,
                          const struct traffic *traffic)
{
    double last_gather = e->fsdp.gather == GATHER_ONCE ? 0 : traffic->gather;
    double behind_forward_s = (micro_batches - 1) * work + forward + last_gather + traffic->end;
    return mesh->size[MESH_PIPELINE] == 1 ? fmax(behind_forward_s, micro_batches * work + traffic->update) : 0;
}

/* Passes of a pipeline's micro-batches. again_s: of a block's forward that the framework computes once more. */
static dt_status find_passes(struct bounds *b, const struct experiment *e, const struct mesh_shape *mesh, int samples,
                             const struct alone *alone, const struct summing *sums, double again_s, struct pass_times *out)
{
    bool segments = e->activation == ACTIVATION_CHECKPOINT || e->activation == ACTIVATION_OFFLOAD;
    struct ends ends;
    *out = (struct pass_times){.block_s = alone->block_s + sums->forward + sums->again,
                               .block_forward_s = alone->block_forward_s + sums->forward,
                               .again_s = again_s};
    if (mesh->size[MESH_PIPELINE] == 1)
        return DT_OK;
    out->early_s = segments ? e->activation_blocks * out->block_forward_s : 0;
    DT_TRY(recordings_ends(b->recordings, e, alone, &ends));
    out->first_s = ends.first_s;
    out->first_forward_s = ends.first_forward_s;
    out->last_s = ends.last_s;
    out->last_forward_s = ends.last_forward_s;
    return message_s(b, e, mesh, samples, &out->message_s);
}

/* Modes issue a few events more or less for a group than one device does. */
#define ALIKE 0.99

dt_status bounds_find(struct bounds *b, const struct experiment *e, struct bound *out)
{
    struct mesh_shape mesh = experiment_mesh(e);
    int stages = mesh.size[MESH_PIPELINE], micro_batches = e->micro_batches * (stages > 1 ? e->pipeline.chunks : 1);
    int samples = e->batch_size * mesh_count(&mesh, ~MESH_ON_DATA) / micro_batches;
    struct alone alone;
    DT_TRY(recordings_alone(b->recordings, e, e->activation, samples > 0 ? samples : 1, &alone));
    double bytes = alone.parameter_bytes / stages; /* the fullest stage has at least the mean */
    double optimizer = alone.optimizer_bytes / stages;
    struct share share = share_of(e, &mesh);
    out->bytes = (share.parameters + share.gradients) * bytes + share.optimizer * optimizer +
                 activation_bytes(b, e, &mesh, micro_batches, samples, alone.activation_bytes);
    double work = alone.compute_s, again_s = 0, fill, shared_again_s = 0;
    int most;
    struct summing sums;
    DT_TRY(tensor_s(b, e, &mesh, samples, &sums));
    double shared_s = e->model.layers * (sums.forward + sums.again);
    out->micro_batch_s = (work + shared_s) / stages;
    if (stages > 1 && e->paradigm == PARADIGM_PDP && b->machine->profile.schedule.keeps_last_chunk &&
        alone.block_forward_s > 0) { /* the forward of all other chunks again */
        double others = (e->pipeline.chunks - 1.0) / e->pipeline.chunks;
        again_s = alone.block_forward_s + sums.forward;
        work += e->model.layers * alone.block_forward_s * others;
        shared_again_s = e->model.layers * sums.forward * others;
    } else if (stages > 1 && e->paradigm == PARADIGM_PDP && b->machine->profile.schedule.keeps_last_chunk) {
        struct alone kept, again;
        DT_TRY(recordings_alone(b->recordings, e, ACTIVATION_KEEP, samples > 0 ? samples : 1, &kept));
        DT_TRY(recordings_alone(b->recordings, e, ACTIVATION_CHECKPOINT, samples > 0 ? samples : 1, &again));
        work += (again.compute_s - kept.compute_s) * (e->pipeline.chunks - 1.0) / e->pipeline.chunks;
        again_s = again.block_s - kept.block_s;
    }
    struct traffic traffic, of_block;
    DT_TRY(network_s(b, e, &mesh, micro_batches, bytes, &traffic));
    DT_TRY(network_s(b, e, &mesh, micro_batches, alone.block_bytes, &of_block));
    DT_TRY(find_passes(b, e, &mesh, samples > 0 ? samples : 1, &alone, &sums, again_s > 0 ? again_s : 0, &out->passes));
    double block_s = out->passes.block_s, forward_s = out->passes.block_forward_s;
    struct block_times times = {.all_s = micro_batches * (block_s + again_s * (e->pipeline.chunks - 1.0) / e->pipeline.chunks),
                                .last_s = block_s,
                                .forward_s = forward_s,
                                .end_s = of_block.end,
                                .drains = pipeline_drains(e)};
    DT_TRY(fill_s(b, e, &mesh, &times, &fill, &most));
    out->micro_batch_s = fmax(out->micro_batch_s, most * (block_s + again_s));
    out->compute_s = compute_s(e, &mesh, micro_batches, work + shared_s + shared_again_s);
    out->host_s = ALIKE * micro_batches * alone.host_s / stages + b->machine->profile.host.step_s;
    out->network_s = traffic.passes * traffic.gather + traffic.end;
    out->host_link_s = offloaded_s(b, e, &mesh, micro_batches, samples, bytes);
    double in_line_s = fmax(out->compute_s + in_turn_s(b, e, &mesh, &traffic),
                            after_all_s(e, &mesh, micro_batches, work + shared_s, e->model.layers * forward_s, &traffic));
    out->step_s = fmax(fmax(in_line_s, fill), fmax(fmax(out->host_s, out->network_s), out->host_link_s));
    return DT_OK;
}
