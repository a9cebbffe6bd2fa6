#include "predict/search/search.h"

#include "schedules/plan/plan.h"

#include <stdarg.h>
#include <stdio.h>

static void propose(struct proposal *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void propose(struct proposal *p, const char *format, ...)
{
    va_list arguments;
    if (p->count == SPACE_VALUES)
        return;
    va_start(arguments, format);
    vsnprintf(p->texts[p->count++], SPACE_VALUE_BYTES, format, arguments);
    va_end(arguments);
}

/* Propose 1, 2, 4, ... up to the limit, and the limit itself. */
static void propose_powers(struct proposal *p, int limit)
{
    for (int n = 1; n < limit; n *= 2)
        propose(p, "%d", n);
    propose(p, "%d", limit);
}

/* Propose sizes of groups of ranks: divisors of the world that divide a node's ranks, or that these
 * divide. */
static void propose_group_sizes(struct proposal *p, int most)
{
    int tensor = p->experiment->tensor.size, world = p->experiment->world_size / tensor;
    int node = p->scope->ranks_per_node % tensor == 0 ? p->scope->ranks_per_node / tensor : 1;
    for (int n = 2; n <= most; n++)
        if (world % n == 0 && (node % n == 0 || n % node == 0))
            propose(p, "%d", n);
}

static bool on_fewer_nodes(const struct space_scope *s, const struct experiment *e)
{
    return s->request->any_nodes;
}

static void propose_worlds(struct proposal *p)
{
    int world = p->scope->base->world_size, node = p->scope->ranks_per_node;
    for (int n = node; n < world; n *= 2)
        propose(p, "%d", n);
    propose(p, "%d", world);
}

/* Paradigms of the past are proposed only on request. */
static void propose_paradigms(struct proposal *p)
{
    const struct paradigm *row;
    if (p->experiment->world_size == 1) {
        propose(p, "%s", paradigm_name(PARADIGM_NONE));
        return;
    }
    for (int i = 0; (row = paradigm_of((enum paradigm_kind)i)); i++)
        if (row->axes && !row->of_the_past)
            propose(p, "%s", row->name);
}

static bool has_shard_groups(const struct space_scope *s, const struct experiment *e)
{
    return e->strategy.paradigm->reads & READS_SHARD_GROUPS;
}

/* Without sizes 1 (which is ddp) and all (which is fsdp). */
static void propose_shard_sizes(struct proposal *p)
{
    propose_group_sizes(p, p->experiment->world_size / p->experiment->tensor.size / 2);
}

static bool is_pipelined(const struct space_scope *s, const struct experiment *e)
{
    return e->strategy.stages > 1;
}

/* ddp with stages is pdp. zero2 differs from zero1 only in gradients, which a pipeline keeps to its
 * end. fsdp and hsdp would gather parameters for each of the many micro-batches. zero1 needs an
 * optimizer with state. The others are candidates only on request. */
static bool may_be_pipelined(const struct space_scope *s, const struct experiment *e)
{
    bool divides = e->paradigm == PARADIGM_ZERO1 && experiment_state_bytes(e) > 0;
    return e->world_size > 1 && (e->paradigm == PARADIGM_PDP || divides);
}

static bool has_several_ranks(const struct space_scope *s, const struct experiment *e)
{
    return e->world_size > 1;
}

/* Within a node, since each layer's activations are sent between these ranks. */
static void propose_tensor_sizes(struct proposal *p)
{
    const struct dt_model *model = &p->experiment->model;
    propose(p, "1");
    for (int n = 2; n <= p->scope->ranks_per_node; n *= 2)
        if (p->scope->ranks_per_node % n == 0 && model->family->check_tensor_group &&
            model->family->check_tensor_group(model, n, p->experiment->tensor.sequence_parallel) == DT_OK)
            propose(p, "%d", n);
}

static void propose_stages(struct proposal *p)
{
    if (p->experiment->paradigm != PARADIGM_PDP)
        propose(p, "1");
    propose_group_sizes(p, dt_model_blocks(&p->experiment->model));
}

/* An order that cannot be emitted rank by rank is itself found by a search. */
static void propose_orders(struct proposal *p)
{
    const struct pipeline_order *order;
    for (int i = 0; (order = pipeline_order_at(i)); i++)
        if (order->emit)
            propose(p, "%s", order->name);
}

/* If a tensor group fills its node, both orders differ only in the sequence of nodes, which are
 * alike. */
static bool has_stages_on_nodes(const struct space_scope *s, const struct experiment *e)
{
    return is_pipelined(s, e) && e->world_size > s->ranks_per_node && e->strategy.stages * e->tensor.size < e->world_size &&
           e->tensor.size % s->ranks_per_node != 0;
}

static int replica_ranks(const struct proposal *p)
{
    return p->experiment->strategy.stages * p->experiment->tensor.size;
}

static void propose_batches(struct proposal *p)
{
    const struct space_request *request = p->scope->request;
    int replicas = p->experiment->world_size / p->experiment->context.size / replica_ranks(p);
    if (request->global_batch == 0)
        propose_powers(p, request->max_batch);
    else if (replicas > 0 && request->global_batch % replicas == 0)
        propose(p, "%.17g", (double)request->global_batch / replicas / replica_ranks(p));
}

/* A pipeline's chunks are micro-batches already, and each micro-batch would copy the stage of an
 * offloaded model again. */
static bool has_no_pipeline(const struct space_scope *s, const struct experiment *e)
{
    return !is_pipelined(s, e);
}

/* Only divisors, so that micro-batches are equal. */
static void propose_micro_batches(struct proposal *p)
{
    double samples = p->experiment->batch_size;
    if (samples != floor(samples)) /* of a rank; the ranks of a tensor group together have whole ones */
        samples = round(samples * replica_ranks(p));
    for (int n = 1; n <= samples; n *= 2)
        if (fmod(samples, n) == 0)
            propose(p, "%d", n);
}

/* From one chunk per stage, the fewest that fill the pipeline, to eight: the bubble is then about a
 * tenth. */
static void propose_chunks(struct proposal *p)
{
    int stages = p->experiment->strategy.stages, most = 8 * stages;
    int samples = (int)lround(p->experiment->batch_size * replica_ranks(p));
    for (int n = stages; n <= most && n <= samples; n *= 2)
        if (samples % n == 0)
            propose(p, "%d", n);
}

/* A framework that gathers inner layers ignores the key. */
static bool has_units(const struct space_scope *s, const struct experiment *e)
{
    return (e->strategy.paradigm->reads & READS_UNITS) && !s->machine->profile.schedule.gathers_layers;
}

static bool has_buckets(const struct space_scope *s, const struct experiment *e)
{
    return (e->strategy.paradigm->reads & READS_BUCKETS) && e->world_size > 1 &&
           !is_pipelined(s, e); /* a pipeline reduces after it is drained */
}

/* The next forward pass hides the gathers of updated parameters. In a pipeline its bubble hides most of them. A framework that
 * gathers all at once ignores the key. */
static bool gathers_updates(const struct space_scope *s, const struct experiment *e)
{
    return (e->strategy.paradigm->reads & READS_SHARES) && e->world_size > 1 && !is_pipelined(s, e) &&
           !s->machine->profile.schedule.copies_shares;
}

static bool gathers_often(const struct space_scope *s, const struct experiment *e)
{
    return (e->strategy.paradigm->reads & READS_UNITS) && e->micro_batches * (is_pipelined(s, e) ? e->pipeline.chunks : 1) > 1;
}

/* ---- the table ---- */

static const struct space_axis rows[] = {
    {.key = "world_size", .concerns = on_fewer_nodes, .propose = propose_worlds},
    {.key = "paradigm", .propose = propose_paradigms},
    {.key = "tensor.size", .concerns = has_several_ranks, .propose = propose_tensor_sizes},
    {.key = "hsdp.shard_size", .concerns = has_shard_groups, .propose = propose_shard_sizes},
    {.key = "pipeline.stages", .concerns = may_be_pipelined, .propose = propose_stages},
    /* pipeline stages next to each other, or data-parallel ranks */
    {.key = "mesh.order", .concerns = has_stages_on_nodes, .values = "tensor-pipeline-data,tensor-data-pipeline"},
    {.key = "pipeline.order", .concerns = is_pipelined, .propose = propose_orders},
    {.key = "context.size"}, /* the user decides which sequences are too long for one rank */
    {.key = "batch_size", .propose = propose_batches},
    {.key = "micro_batches", .concerns = has_no_pipeline, .propose = propose_micro_batches},
    {.key = "pipeline.chunks", .concerns = is_pipelined, .propose = propose_chunks},
    /* without core_attention: selective takes as long, and keeps less */
    {.key = "activation", .values = "keep,checkpoint,offload,selective,selective_op"},
    {.key = "parameter_offload", .concerns = has_no_pipeline, .values = "false,true"},
    {.key = "fsdp.unit", .concerns = has_units, .values = "block,linear"},
    {.key = "fsdp.gather", .concerns = gathers_often, .values = "micro_batch,step"},
    {.key = "ddp.overlap_param_gather", .concerns = gathers_updates, .values = "true,false"},
    {.key = "ddp.bucket_mib", .concerns = has_buckets, .values = "25,100"}, /* the usual size, and one that starts fewer collectives */
};

const struct space_axis *space_axis(int index)
{
    return index >= 0 && (size_t)index < sizeof rows / sizeof *rows ? &rows[index] : NULL;
}
