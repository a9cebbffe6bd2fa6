#include "test/schedules/run/expected_traffic.h"

#include "schedules/data_parallel/buckets.h"
#include "schedules/run/dry_rank.h"
#include "test/gpt/exchange_bytes.h"

#include <stdlib.h>

/* Groups that are reduced together. */
struct run {
    int first_group;
    uint64_t elems;
    int server; /* parameter_server: the replica that has it */
};

struct traffic {
    const struct experiment *experiment;
    const struct plan *plan;
    const struct dt_stage *stage;
    struct mesh_shape shape;
    const struct dp_mode *mode;
    uint64_t element; /* bytes */
    int replica;      /* this rank's place on that axis */
    size_t samples;   /* of a step: of all ranks that work at the same ones */
    struct run *runs; /* [run_count] from the last groups to the first */
    int run_count;
    struct step_traffic *out;
};

static void add(struct traffic *t, enum mesh_axis axis, enum dt_comm_kind kind, uint64_t bytes)
{
    if (mesh_group_size(&t->shape, axis) > 1)
        t->out->bytes[axis][kind] += bytes;
}

/* Bytes with the padding that makes the elements divisible by the shards. */
static uint64_t padded_bytes(const struct traffic *t, uint64_t elems)
{
    uint64_t shards = (uint64_t)mesh_group_size(&t->shape, MESH_SHARD);
    return (elems + shards - 1) / shards * shards * t->element;
}

/* ---- runs of groups ---- */

static bool begins_part(const struct dt_stage *stage, int group)
{
    for (int i = 0; i < stage->part_count; i++)
        if (stage->parts[i].first_group == group)
            return true;
    return false;
}

/* Parameter servers have groups by themselves, fsdp's are never put together, and the others'
 * buckets end where they are full. */
static void find_runs(struct traffic *t)
{
    bool alone = t->mode == &dp_fsdp || t->mode == &dp_parameter_server;
    double full = alone ? 0 : t->experiment->ddp.bucket_mib * 1024 * 1024;
    for (int g = t->stage->group_count - 1; g >= 0; g--) {
        struct run *run = &t->runs[t->run_count];
        run->elems += t->stage->groups[g].param_elems;
        run->first_group = g;
        t->run_count += (double)(run->elems * t->element) >= full || begins_part(t->stage, g);
    }
}

static struct run *run_of(const struct traffic *t, int group)
{
    int i = 0;
    while (t->runs[i].first_group > group)
        i++;
    return &t->runs[i];
}

/* The largest first, each to the server that has the least. */
static dt_status find_servers(struct traffic *t)
{
    int servers = t->experiment->parameter_server.servers;
    uint64_t *load = calloc((size_t)servers, sizeof *load);
    if (!load)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d parameter servers", servers);
    for (int i = 0; i < t->run_count; i++)
        t->runs[i].server = -1;
    for (int given = 0; given < t->run_count; given++) {
        struct run *largest = NULL;
        int least = 0;
        for (int i = 0; i < t->run_count; i++)
            if (t->runs[i].server < 0 && (!largest || t->runs[i].elems > largest->elems))
                largest = &t->runs[i];
        for (int k = 1; k < servers; k++)
            least = load[k] < load[least] ? k : least;
        load[least] += largest->elems;
        largest->server = strategy_server_replica(&t->experiment->strategy, least);
    }
    free(load);
    return DT_OK;
}

/* ---- what data parallelism does ---- */

static void add_reduction(struct traffic *t, const struct run *run)
{
    uint64_t bytes = run->elems * t->element, padded = padded_bytes(t, run->elems);
    if (t->mode == &dp_ddp)
        add(t, MESH_REPLICA, DT_COMM_ALL_REDUCE, bytes);
    if (t->mode == &dp_data_parallel)
        add(t, MESH_REPLICA, DT_COMM_REDUCE, bytes);
    if (t->mode == &dp_parameter_server)
        add(t, MESH_REPLICA, DT_COMM_SEND, run->server == t->replica ? 0 : bytes);
    if (t->mode == &dp_fsdp)
        add(t, MESH_REPLICA, DT_COMM_ALL_REDUCE, padded / (uint64_t)mesh_group_size(&t->shape, MESH_SHARD));
    if (t->mode == &dp_fsdp || t->mode == &dp_zero1 || t->mode == &dp_zero2)
        add(t, MESH_SHARD, DT_COMM_REDUCE_SCATTER, padded);
}

/* Updated parameters, once a step. */
static void add_publication(struct traffic *t, const struct run *run)
{
    uint64_t others = (uint64_t)t->shape.size[MESH_REPLICA] - 1, bytes = run->elems * t->element;
    if (t->mode == &dp_data_parallel)
        add(t, MESH_REPLICA, DT_COMM_BROADCAST, bytes);
    if (t->mode == &dp_parameter_server)
        add(t, MESH_REPLICA, DT_COMM_SEND, run->server == t->replica ? others * bytes : 0);
    if (t->mode == &dp_zero1 || t->mode == &dp_zero2)
        add(t, MESH_SHARD, DT_COMM_ALL_GATHER, padded_bytes(t, run->elems));
}

/* ---- what a plan's actions do ---- */

/* The first micro-batches are a sample larger where the samples do not come out even. */
static size_t samples_of(const struct traffic *t, const struct action *a)
{
    size_t all = t->samples, count = (size_t)t->plan->micro_batches;
    return all / count + (a->micro_batch < all % count);
}

static void add_pass(struct traffic *t, const struct action *a)
{
    static const struct gpt_pass passes[ACTION_OPS] = {
        [ACTION_FORWARD] = {.forward = true},
        [ACTION_RECOMPUTE] = {.forward = true},
        [ACTION_BACKWARD] = {.backward = DT_BACKWARD_WHOLE},
        [ACTION_BACKWARD_INPUT] = {.backward = DT_BACKWARD_INPUT},
        [ACTION_BACKWARD_WEIGHT] = {.backward = DT_BACKWARD_WEIGHTS},
        [ACTION_FORWARD_BACKWARD] = {.late = true},
    };
    struct dt_exchanged exchanged;
    struct gpt_pass pass = passes[a->op];
    pass.ends_here = a->flags & ACTION_ENDS_HERE;
    gpt_exchanged_bytes(t->stage, a->group, pass, samples_of(t, a), &exchanged);
    add(t, MESH_TENSOR, DT_COMM_ALL_REDUCE, exchanged.all_reduce);
    add(t, MESH_TENSOR, DT_COMM_REDUCE_SCATTER, exchanged.reduce_scatter);
    add(t, MESH_TENSOR, DT_COMM_ALL_GATHER, exchanged.all_gather);
    gpt_context_bytes(t->stage, a->group, pass, samples_of(t, a), &exchanged);
    add(t, MESH_CONTEXT, DT_COMM_REDUCE_SCATTER, exchanged.reduce_scatter);
    add(t, MESH_CONTEXT, DT_COMM_ALL_GATHER, exchanged.all_gather);
    add(t, MESH_CONTEXT, DT_COMM_ALL_TO_ALL, exchanged.all_to_all);
    add(t, MESH_CONTEXT, DT_COMM_SHIFT, exchanged.shift);
}

/* Where both copies are on this rank nothing travels. */
static void add_copies(struct traffic *t, const struct action *a)
{
    if (!(t->stage->first && t->stage->last))
        add(t, MESH_PIPELINE, DT_COMM_ALL_REDUCE, t->stage->groups[a->group].copy_elems * t->element);
}

static void add_action(struct traffic *t, const struct action *a)
{
    switch (a->op) {
    case ACTION_GATHER:
        if (t->mode == &dp_fsdp)
            add(t, MESH_SHARD, DT_COMM_ALL_GATHER, padded_bytes(t, t->stage->groups[a->group].param_elems));
        break;
    case ACTION_SUM_COPIES: add_copies(t, a); break;
    case ACTION_REDUCE: add_reduction(t, run_of(t, a->group)); break;
    case ACTION_SEND_OUTPUT:
    case ACTION_SEND_GRADIENT:
        add(t, MESH_PIPELINE, DT_COMM_SEND,
            t->experiment->model.family->boundary_elems(t->stage, a->part, a->op == ACTION_SEND_OUTPUT, samples_of(t, a)) * t->element);
        break;
    default:
        if (action_computes(a))
            add_pass(t, a);
    }
}

static dt_status add_all(struct traffic *t)
{
    find_runs(t);
    if (t->mode == &dp_parameter_server)
        DT_TRY(find_servers(t));
    for (int i = 0; i < t->run_count; i++)
        add_publication(t, &t->runs[i]);
    for (int i = 0; i < t->plan->count; i++)
        add_action(t, &t->plan->actions[i]);
    return DT_OK;
}

static dt_status find_traffic(const struct experiment *e, int rank, const struct trainer *trainer, struct step_traffic *out)
{
    struct mesh_shape mesh = e->strategy.mesh;
    struct traffic t = {.experiment = e,
                        .plan = trainer_plan(trainer),
                        .stage = trainer_stage(trainer),
                        .shape = mesh,
                        .mode = e->strategy.paradigm->mode,
                        .element = dt_dtype_bytes(e->model.dtype),
                        .replica = mesh_coordinate(&mesh, MESH_REPLICA, rank),
                        .samples = (size_t)experiment_replica_samples(e),
                        .out = out};
    t.runs = calloc((size_t)t.stage->group_count + 1, sizeof *t.runs);
    if (!t.runs)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d groups", t.stage->group_count);
    dt_status status = add_all(&t);
    free(t.runs);
    return status;
}

dt_status expected_traffic(const struct experiment *experiment, int rank, struct step_traffic *out)
{
    struct dry_rank dry;
    const struct mesh_shape *mesh = &experiment->strategy.mesh;
    *out = (struct step_traffic){0};
    out->ranks[TRAFFIC_COPIES] = out->ranks[TRAFFIC_TOGETHER] = 1;
    for (int axis = 0; axis < MESH_AXES; axis++)
        out->ranks[axis] = axis == MESH_PIPELINE ? 2 : mesh_group_size(mesh, (enum mesh_axis)axis);
    if (experiment->optimizer.clip_norm > 0) {
        out->ranks[TRAFFIC_WORLD] = experiment->world_size;
        out->bytes[TRAFFIC_WORLD][DT_COMM_ALL_REDUCE] = experiment->world_size > 1 ? sizeof(float) : 0;
    }
    dt_status status = dry_rank_init(&dry, experiment, rank, 0);
    if (status == DT_OK)
        status = find_traffic(experiment, rank, dry.trainer, out);
    dry_rank_finish(&dry);
    return status;
}
