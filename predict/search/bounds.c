#include "predict/search/search.h"

#include "schedules/data_parallel/mode.h"
#include "schedules/plan/plan.h"

#include <math.h>
#include <stdlib.h>

struct bounds {
    const struct simulated_machine *machine;
    struct simulated_system *system; /* the base's system */
    struct network_bounds *network;
    struct recordings *recordings;
};

dt_status bounds_create(const struct experiment *base, const struct simulated_machine *machine, struct recordings *recordings,
                        struct bounds **out)
{
    DT_DESTROYED(bounds_destroy) struct bounds *b = calloc(1, sizeof *b);
    *out = NULL;
    DT_TRY(dt_allocated(b, "no host memory for bounds"));
    *b = (struct bounds){.machine = machine, .recordings = recordings};
    DT_TRY(simulated_system_create_on(machine, base, &b->system));
    DT_TRY(network_bounds_create(machine, b->system, &b->network));
    *out = DT_PASSED_ON(b);
    return DT_OK;
}

void bounds_destroy(struct bounds *b)
{
    if (!b)
        return;
    network_bounds_destroy(b->network);
    simulated_system_destroy(b->system);
    free(b);
}

double bounds_capacity_bytes(const struct simulated_machine *machine, const struct simulated_system *system)
{
    return (double)system->memory_bytes / (1 + machine->profile.memory.fragmentation);
}

/* ---- host links ---- */

/* The time if every rank moves `bytes` in one direction. */
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

/* The time of a stage's copies to and from the host. Each micro-batch copies the parameters again,
 * except for a group that is still on the device; the inputs of segments go to the host and come
 * back. */
static double offloaded_s(const struct bounds *b, const struct experiment *e, const struct mesh_shape *mesh, int micro_batches, int samples,
                          double parameter_bytes)
{
    double element = (double)dt_dtype_bytes(e->model.dtype), seconds = 0;
    bool sharded = e->strategy.mode->holds.parameters == DP_SHARE;
    if (e->parameter_offload) { /* once for forward and once for backward */
        double moved = gathered_bytes(&e->model, mesh, parameter_bytes) / (sharded ? mesh_group_size(mesh, MESH_SHARD) : 1);
        seconds = host_link_s(b, (sharded && e->fsdp.gather == GATHER_ONCE ? 1 : 2 * micro_batches) * moved);
    }
    if (e->activation == ACTIVATION_OFFLOAD) {
        double segments = floor((double)dt_model_blocks(&e->model) / experiment_alike_blocks(e) / mesh->size[MESH_PIPELINE]) - 2;
        double input =
            samples * dt_model_facts(&e->model).least_boundary_elems * element / mesh_count(mesh, MESH_ON_TENSOR | MESH_ON_CONTEXT);
        seconds = fmax(seconds, host_link_s(b, fmax(segments, 0) * input * micro_batches));
    }
    return seconds;
}

/* ---- memory ---- */

/* Bytes that a rank holds of the fullest stage's parameters, gradients and optimizer state. */
static double state_bytes(const struct experiment *e, const struct mesh_shape *mesh, double parameter_bytes, double optimizer_bytes)
{
    const struct dp_mode *mode = mesh_count(mesh, ~MESH_ON_MODEL) == 1 ? &dp_none : e->strategy.mode;
    if (e->parameter_offload)
        return 0;
    return (dp_part_of(mode->holds.parameters, mesh) + dp_part_of(mode->holds.gradients, mesh)) * parameter_bytes +
           dp_part_of(mode->holds.optimizer, mesh) * optimizer_bytes;
}

/* ---- times that cannot overlap ---- */

/* Without a pipeline: gradients are sent after all other micro-batches and the last one's forward.
 * Gathers for the last backward come after the first of these sends, since both are on one stream.
 * Updates wait for all kernels, and updated parameters are sent after them. */
static double after_all_s(const struct experiment *e, int micro_batches, double work, double forward, const struct traffic *traffic)
{
    double last_gather = e->fsdp.gather == GATHER_ONCE ? 0 : traffic->gather;
    return fmax((micro_batches - 1) * work + forward + last_gather + traffic->end, micro_batches * work + traffic->update);
}

/* ---- a pipeline's passes ---- */

/* Seconds to update `bytes` bytes of parameters. */
static double update_s(const struct bounds *b, const struct experiment *e, const struct mesh_shape *mesh, double bytes)
{
    double elems = bytes / (double)dt_dtype_bytes(e->model.dtype), alone_s = elems * simulated_system_update_s(b->system, e);
    return e->parameter_offload ? 0 /* the host updates */ : dp_part_of(e->strategy.mode->holds.optimizer, mesh) * alone_s;
}

/* The part of the recorded time of a pipeline's ends that every rank of a tensor group takes at
 * least. The first rank was recorded, which has most rows of the tables; other ranks' parts begin
 * at multiples of a few rows. */
static double least_of_ends(const struct experiment *e)
{
    const double rows = 16;
    int tensor = e->tensor.size;
    struct dt_model_facts facts = dt_model_facts(&e->model);
    bool alike = tensor == 1 || e->model.family->tensor_ranks_alike(&e->model, tensor, 0, tensor - 1);
    return alike ? 1 : fmax(1 - rows * tensor * facts.units / facts.outputs, 0);
}

/* The times of a pipeline's passes. again_s: time of a block's forward pass, if the framework
 * recomputes it. */
static dt_status find_passes(struct bounds *b, const struct experiment *e, const struct mesh_shape *mesh, int samples,
                             const struct alone *alone, const struct summing *sums, double again_s, struct pass_times *out)
{
    bool segments = activation_has_segments(e->activation);
    struct ends ends;
    *out = (struct pass_times){.block_s = alone->block_s + sums->forward + sums->again + sums->backward,
                               .block_forward_s = alone->block_forward_s + sums->forward,
                               .again_s = again_s,
                               .update_s = update_s(b, e, mesh, alone->block_bytes)};
    if (mesh->size[MESH_PIPELINE] == 1)
        return DT_OK;
    out->early_s = segments && e->activation_every == 1 ? e->activation_blocks * out->block_forward_s : 0;
    DT_TRY(recordings_ends(b->recordings, e, alone, &ends));
    double least = least_of_ends(e);
    out->first_s = least * ends.first_s;
    out->first_forward_s = least * ends.first_forward_s;
    out->last_s = least * ends.last_s;
    out->last_forward_s = least * ends.last_forward_s;
    return network_bounds_messages(b->network, e, mesh, samples, &out->messages);
}

/* The time to reduce a block's gradients, on the fastest stage and on the slowest one. */
static dt_status find_reductions(struct bounds *b, const struct experiment *e, const struct mesh_shape *mesh, double block_bytes,
                                 struct pass_times *out)
{
    int stages = network_bounds_stages_differ(b->network, mesh) ? mesh->size[MESH_PIPELINE] : 1;
    out->end_s = INFINITY;
    for (int stage = 0; stage < stages; stage++) {
        struct traffic traffic;
        DT_TRY(network_bounds_traffic(b->network, e, mesh, 1, block_bytes, stage, &traffic));
        out->end_s = fmin(out->end_s, traffic.end);
        out->slow_stage = traffic.end > out->slow_s ? stage : out->slow_stage;
        out->slow_s = fmax(out->slow_s, traffic.end);
    }
    return DT_OK;
}

/* A mode issues slightly more or fewer events for a group than one device does: at most 2 % fewer in
 * 8,000 random candidates. */
#define ALIKE 0.97

dt_status bounds_find(struct bounds *b, const struct experiment *e, struct bound *out)
{
    struct mesh_shape mesh = e->strategy.mesh;
    int stages = mesh.size[MESH_PIPELINE], micro_batches = e->strategy.micro_batches;
    int samples = (int)(experiment_replica_samples(e) / micro_batches), recorded = samples > 0 ? samples : 1;
    struct alone alone;
    DT_TRY(recordings_alone(b->recordings, e, e->activation, recorded, &alone));
    if (activation_has_segments(e->activation) && e->activation_every > 1) { /* between keeping all and recomputing all */
        double activation_bytes = alone.activation_bytes;
        DT_TRY(recordings_alone(b->recordings, e, ACTIVATION_KEEP, recorded, &alone));
        alone.activation_bytes = activation_bytes;
    }
    double bytes = alone.parameter_bytes / stages; /* the fullest stage has at least the mean */
    out->bytes = state_bytes(e, &mesh, bytes, alone.optimizer_bytes / stages) + alone.activation_bytes / stages;
    struct summing sums;
    DT_TRY(network_bounds_summing(b->network, e, &mesh, samples, e->strategy.order->halves, &sums));
    double blocks = dt_model_blocks(&e->model), again_s = 0;
    double work = alone.compute_s + blocks * (sums.forward + sums.again + sums.backward);
    if (stages > 1 && e->paradigm == PARADIGM_PDP && b->machine->profile.schedule.keeps_last_chunk && alone.block_forward_s > 0) {
        again_s = alone.block_forward_s + sums.forward; /* forward of all chunks but the last is recomputed */
        work += blocks * again_s * (e->pipeline.chunks - 1.0) / e->pipeline.chunks;
    }
    struct traffic traffic;
    DT_TRY(network_bounds_traffic(b->network, e, &mesh, micro_batches, bytes, ALL_STAGES, &traffic));
    DT_TRY(find_passes(b, e, &mesh, recorded, &alone, &sums, again_s, &out->passes));
    DT_TRY(find_reductions(b, e, &mesh, alone.block_bytes, &out->passes));
    out->compute_s = micro_batches * work / stages;
    out->host_s = ALIKE * micro_batches * alone.host_s / stages + b->machine->profile.host.step_s;
    out->network_s = traffic.begin + traffic.passes * traffic.gather + traffic.end;
    out->host_link_s = offloaded_s(b, e, &mesh, micro_batches, samples, bytes);
    out->step_s = fmax(out->compute_s, fmax(out->network_s, out->host_link_s));
    if (!e->parameter_offload || !e->model.fp8) /* with FP8 a group on the host issues fewer casts than one device does */
        out->step_s = fmax(out->step_s, out->host_s);
    if (stages == 1)
        out->step_s = fmax(out->step_s, after_all_s(e, micro_batches, work, blocks * out->passes.block_forward_s, &traffic));
    return DT_OK;
}
