#include "predict/search/search.h"

#include "predict/simulation.h"
#include "schedules/data_parallel/mode.h"

#include <math.h>
#include <stdlib.h>

struct recordings {
    const struct experiment *base;
    const struct simulated_machine *machine;
    struct once *alone, *ends; /* of struct alone, struct ends */
};

dt_status recordings_create(const struct experiment *base, const struct simulated_machine *machine, struct recordings **out)
{
    DT_DESTROYED(recordings_destroy) struct recordings *r = calloc(1, sizeof *r);
    *out = NULL;
    DT_TRY(dt_allocated(r, "no host memory for recordings"));
    *r = (struct recordings){.base = base, .machine = machine};
    DT_TRY(once_create(sizeof(struct alone), &r->alone));
    DT_TRY(once_create(sizeof(struct ends), &r->ends));
    *out = DT_PASSED_ON(r);
    return DT_OK;
}

void recordings_destroy(struct recordings *r)
{
    if (!r)
        return;
    once_destroy(r->alone);
    once_destroy(r->ends);
    free(r);
}

static int ranks_per_node(const struct recordings *r)
{
    int per_node = r->base->gpus_per_node > 0 ? r->base->gpus_per_node : r->machine->cluster.gpus_per_node;
    return per_node < r->base->world_size ? per_node : r->base->world_size;
}

/* Describe the base's model with `layers` layers, as `what` says. */
static void describe(const struct recordings *r, const struct alone *what, int layers, int micro_batches, struct experiment *e)
{
    *e = *r->base;
    e->world_size = what->tensor;
    e->gpus_per_node = what->tensor > 1 ? ranks_per_node(r) : 0;
    e->straddle_nodes = true;
    e->paradigm = what->paradigm;
    dt_set_blocks(&e->model, layers);
    e->hsdp.shard_size = 1;
    e->fsdp.unit = what->unit;
    e->fsdp.gather = what->gather;
    e->batch_size = (double)what->samples * micro_batches / what->tensor;
    e->micro_batches = micro_batches;
    e->activation = what->activation;
    e->activation_blocks = what->activation_blocks;
    e->activation_every = 1;
    e->parameter_offload = false;
    e->tensor.size = what->tensor;
    e->context.size = 1;
    e->tensor.sequence_parallel = what->sequence_parallel;
    e->pipeline.stages = 1;
    e->pipeline.paradigms = PIPELINE_OF_PDP; /* this experiment is no pdp */
    e->slow.by = 0;                          /* a slowed rank is never faster than this */
    experiment_settle(e);
}

static dt_status record(const struct recordings *r, const struct alone *what, const struct experiment *e, int rank,
                        struct simulated_work *out)
{
    DT_DESTROYED(simulated_system_destroy) struct simulated_system *system = NULL;
    DT_TRY(simulated_system_create_on(r->machine, e, &system));
    system->costs.interpreter_sharers = what->sharers;
    return simulated_work_record(e, system, rank, out);
}

static dt_status record_alone(const struct recordings *r, const struct alone *what, int layers, int micro_batches,
                              struct simulated_work *out)
{
    struct experiment e;
    describe(r, what, layers, micro_batches, &e);
    return record(r, what, &e, 0, out);
}

/* Bytes of the parameters without copies in FP8, which some modes do not keep, and whose gradients
 * nobody makes. */
static double parameter_bytes(const struct recordings *r, const struct alone *what, int layers, const struct simulated_work *work)
{
    struct dt_model model = r->base->model;
    double bytes = (double)work->memory.device.peak_bytes[DT_PARAMETERS];
    dt_set_blocks(&model, layers);
    return model.fp8 ? fmin(bytes, (double)(dt_model_parameter_count(&model) * dt_dtype_bytes(model.dtype)) / what->tensor) : bytes;
}

/* Measure a model of `layers` layers. */
static dt_status measure_layers(const struct recordings *r, int layers, struct alone *what)
{
    struct simulated_work one, two;
    DT_TRY(record_alone(r, what, layers, 1, &one));
    DT_TRY(record_alone(r, what, layers, 2, &two));
    what->compute_s = fmin(two.compute_s - one.compute_s, one.compute_s); /* the first layer's time includes the update */
    what->block_forward_s = fmin(two.forward_s - one.forward_s, one.forward_s);
    what->host_s = fmin(two.host_s - one.host_s, one.host_s);
    what->parameter_bytes = parameter_bytes(r, what, layers, &one);
    what->optimizer_bytes = (double)one.memory.device.peak_bytes[DT_OPTIMIZER];
    what->activation_bytes = (double)one.memory.device.peak_bytes[DT_ACTIVATIONS];
    return DT_OK;
}

enum { ROUNDED_BYTES = 512 }; /* allocations are rounded up to at most this multiple */

/* Blocks are alike, so the difference that one segment of them makes holds for all. */
static dt_status measure_alone(const struct recordings *r, struct alone *what)
{
    int layers = dt_model_blocks(&r->base->model), segment = what->activation_blocks;
    struct alone more = *what;
    if (layers <= 2 * segment) {
        DT_TRY(measure_layers(r, layers, what));
        what->block_forward_s = 0;
        return DT_OK;
    }
    DT_TRY(measure_layers(r, segment, what));
    DT_TRY(measure_layers(r, 2 * segment, &more));
    double others = (double)(layers / segment - 1);
    what->block_s = (more.compute_s - what->compute_s) / segment;
    what->block_bytes = fmax(0, more.parameter_bytes - what->parameter_bytes - ROUNDED_BYTES) / segment;
    what->block_forward_s = (more.block_forward_s - what->block_forward_s) / segment;
    what->compute_s += others * (more.compute_s - what->compute_s);
    what->host_s += others * (more.host_s - what->host_s);
    /* parameters, moments and master weights may be one buffer each, which is rounded up once and
     * not per block */
    what->parameter_bytes += others * fmax(0, more.parameter_bytes - what->parameter_bytes - ROUNDED_BYTES);
    what->optimizer_bytes += others * fmax(0, more.optimizer_bytes - what->optimizer_bytes - 3 * ROUNDED_BYTES);
    if (what->activation == ACTIVATION_OFFLOAD) /* inputs of only a few segments are on the device at a time */
        what->activation_bytes = more.activation_bytes;
    else
        what->activation_bytes += others * (more.activation_bytes - what->activation_bytes);
    return DT_OK;
}

/* Record two layers on a pipeline of two stages: the first stage or the last. Its ranks share the
 * samples, so the number of micro-batches is even. */
static dt_status record_end(const struct recordings *r, const struct alone *what, int stage, int micro_batches, struct simulated_work *out)
{
    struct experiment e;
    describe(r, what, 2, micro_batches, &e);
    e.world_size *= 2;
    e.batch_size /= 2;
    e.paradigm = PARADIGM_PDP;
    e.pipeline.stages = 2;
    e.pipeline.chunks = 1;
    e.pipeline.order = "gpipe";
    e.pipeline.split = "1";
    experiment_settle(&e);
    return record(r, what, &e, mesh_moved(&e.strategy.mesh, MESH_PIPELINE, 0, stage), out);
}

/* Subtract the one block that the stage has. */
static dt_status measure_end(const struct recordings *r, const struct alone *alone, int stage, double *all_s, double *forward_s)
{
    struct simulated_work two, four;
    DT_TRY(record_end(r, alone, stage, 2, &two));
    DT_TRY(record_end(r, alone, stage, 4, &four));
    *all_s = fmax(0, fmin(four.compute_s - two.compute_s, two.compute_s) / 2 - alone->block_s);
    *forward_s = fmax(0, fmin(four.forward_s - two.forward_s, two.forward_s) / 2 - alone->block_forward_s);
    return DT_OK;
}

/* ---- lookups ---- */

/* The key of a recording. */
struct question {
    const struct recordings *recordings;
    struct alone of; /* without the measured members */
};

static dt_status make_alone(void *context, void *value)
{
    const struct question *q = context;
    struct alone *alone = value;
    *alone = q->of;
    return measure_alone(q->recordings, alone);
}

static dt_status make_ends(void *context, void *value)
{
    const struct question *q = context;
    struct ends *ends = value;
    DT_TRY(measure_end(q->recordings, &q->of, 0, &ends->first_s, &ends->first_forward_s));
    return measure_end(q->recordings, &q->of, 1, &ends->last_s, &ends->last_forward_s);
}

static dt_status find(struct once *once, struct question *q, dt_status (*make)(void *context, void *value), void *out)
{
    const struct alone *a = &q->of;
    const int key[] = {(int)a->paradigm,     a->tensor,      a->sequence_parallel,
                       (int)a->unit,         (int)a->gather, (int)a->activation,
                       a->activation_blocks, a->samples,     a->sharers};
    return once_find(once, key, sizeof key, make, q, out);
}

dt_status recordings_alone(struct recordings *r, const struct experiment *e, enum activation_kind activation, int samples,
                           struct alone *out)
{
    bool sharded = e->strategy.mode->holds.parameters == DP_SHARE;
    int tensor = e->tensor.size;
    struct question wanted = {r,
                              {.paradigm = sharded      ? e->paradigm
                                           : tensor > 1 ? PARADIGM_DDP
                                                        : PARADIGM_NONE,
                               .tensor = tensor,
                               .sequence_parallel = tensor > 1 && e->tensor.sequence_parallel,
                               .unit = sharded ? e->fsdp.unit : r->base->fsdp.unit,
                               .gather = sharded ? e->fsdp.gather : r->base->fsdp.gather,
                               .activation = activation,
                               .activation_blocks = e->activation_blocks,
                               .samples = samples,
                               .sharers = r->machine->profile.host.stages_share ? e->strategy.stages : 1}};
    DT_TRY(find(r->alone, &wanted, make_alone, out));
    /* What each of `ranks` that share samples has at least: products with fewer rows take longer
     * per row. */
    out->compute_s /= e->context.size;
    out->block_s /= e->context.size;
    out->block_forward_s /= e->context.size;
    out->activation_bytes /= e->context.size;
    return DT_OK;
}

dt_status recordings_ends(struct recordings *r, const struct experiment *e, const struct alone *alone, struct ends *out)
{
    struct question wanted = {r, *alone};
    wanted.of.sharers = 1; /* sharers concern hosts, and this is about kernels */
    *out = (struct ends){0};
    if (alone->block_s <= 0 || e->context.size > 1)
        return DT_OK;
    return find(r->ends, &wanted, make_ends, out);
}
