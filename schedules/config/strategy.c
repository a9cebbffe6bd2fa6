#include "schedules/config/strategy.h"

#include "schedules/config/split.h"
#include "schedules/plan/plan.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    enum mesh_axis axes[MESH_AXES];
} orders[MESH_ORDERS] = {
    [MESH_TENSOR_PIPELINE_DATA] = {"tensor-pipeline-data", {MESH_TENSOR, MESH_PIPELINE, MESH_CONTEXT, MESH_SHARD, MESH_REPLICA}},
    [MESH_TENSOR_DATA_PIPELINE] = {"tensor-data-pipeline", {MESH_TENSOR, MESH_CONTEXT, MESH_SHARD, MESH_REPLICA, MESH_PIPELINE}},
    [MESH_PIPELINE_TENSOR_DATA] = {"pipeline-tensor-data", {MESH_PIPELINE, MESH_TENSOR, MESH_CONTEXT, MESH_SHARD, MESH_REPLICA}},
    [MESH_PIPELINE_DATA_TENSOR] = {"pipeline-data-tensor", {MESH_PIPELINE, MESH_CONTEXT, MESH_SHARD, MESH_REPLICA, MESH_TENSOR}},
    [MESH_DATA_TENSOR_PIPELINE] = {"data-tensor-pipeline", {MESH_CONTEXT, MESH_SHARD, MESH_REPLICA, MESH_TENSOR, MESH_PIPELINE}},
    [MESH_DATA_PIPELINE_TENSOR] = {"data-pipeline-tensor", {MESH_CONTEXT, MESH_SHARD, MESH_REPLICA, MESH_PIPELINE, MESH_TENSOR}},
};

const char *mesh_order_name(int order)
{
    return (unsigned)order < MESH_ORDERS ? orders[order].name : NULL;
}

const char *context_kind_name(int kind)
{
    static const char *const names[] = {[DT_CONTEXT_RING] = "p2p", [DT_CONTEXT_ALL_GATHER] = "all_gather", [DT_CONTEXT_HEADS] = "a2a"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

const char *pipeline_reach_name(int reach)
{
    static const char *const names[] = {[PIPELINE_OF_PDP] = "pdp", [PIPELINE_OF_ALL] = "all"};
    return (unsigned)reach < sizeof names / sizeof *names ? names[reach] : NULL;
}

static const struct {
    const char *name;
    bool segments;
    int again;
} activations[] = {
    [ACTIVATION_KEEP] = {.name = "keep"},
    [ACTIVATION_CHECKPOINT] = {"checkpoint", .segments = true},
    [ACTIVATION_OFFLOAD] = {"offload", .segments = true},
    [ACTIVATION_SELECTIVE] = {"selective", .again = DT_AGAIN_WEIGHTS | DT_AGAIN_HEADS},
    [ACTIVATION_CORE_ATTENTION] = {"core_attention", .again = DT_AGAIN_WEIGHTS},
    [ACTIVATION_SELECTIVE_OP] = {"selective_op", .again = DT_AGAIN_PRODUCTS},
};

const char *activation_name(int kind)
{
    return (unsigned)kind < sizeof activations / sizeof *activations ? activations[kind].name : NULL;
}

bool activation_has_segments(enum activation_kind kind)
{
    return activations[kind].segments;
}

int activation_again(enum activation_kind kind)
{
    return activations[kind].again;
}

/* ---- from keys to a strategy ---- */

/* Ranks of the shard axis with hsdp: hsdp.shard_size divided by the ranks of the context axis,
 * which share shards, too. Without that key: the ranks of the data axes on one node, or all of them
 * if nodes are not equal. `inner`: ranks of the axes that are nearer. */
static int shard_size(const struct experiment *e, int data, int inner)
{
    if (e->hsdp.shard_size > 0)
        return e->hsdp.shard_size > e->context.size ? e->hsdp.shard_size / e->context.size : 1;
    int on_node = e->ranks_per_node > 0 && e->ranks_per_node % inner == 0 ? e->ranks_per_node / inner : data;
    return data % on_node == 0 ? on_node : data;
}

static struct mesh_shape mesh_of(const struct experiment *e, unsigned axes, int stages)
{
    struct mesh_shape shape = {.size = {1, 1, 1, 1, 1}, .with_context = axes & MESH_ON_SHARD ? MESH_SHARD : MESH_REPLICA};
    int64_t copy = (int64_t)e->tensor.size * e->context.size * stages;
    int data = e->world_size > copy ? (int)(e->world_size / copy) : 1, inner = 1;
    for (int i = 0; i < MESH_AXES; i++)
        shape.order[i] = orders[e->mesh.order].axes[i];
    shape.size[MESH_TENSOR] = e->tensor.size;
    shape.size[MESH_CONTEXT] = e->context.size;
    shape.size[MESH_PIPELINE] = stages;
    for (int i = 0; shape.order[i] != MESH_SHARD; i++)
        inner *= shape.size[shape.order[i]];
    if (axes & MESH_ON_SHARD)
        shape.size[MESH_SHARD] = axes & MESH_ON_REPLICA ? shard_size(e, data, inner) : data;
    if (axes & MESH_ON_REPLICA)
        shape.size[MESH_REPLICA] = data / shape.size[MESH_SHARD];
    return shape;
}

/* The policy that the first `length` characters of `text` name; one past the last if there is
 * none. */
static enum activation_kind policy_of(const char *text, size_t length)
{
    enum activation_kind kind = ACTIVATION_KEEP;
    while (activation_name(kind) && (strlen(activation_name(kind)) != length || strncmp(activation_name(kind), text, length) != 0))
        kind++;
    return kind;
}

/* pipeline.activation lists policies as "keep-checkpoint". */
static void settle_activations(const struct experiment *e, struct strategy *s)
{
    const char *word = s->stages > 1 ? e->pipeline.activation : "";
    memset(s->activations, e->activation, sizeof s->activations);
    for (s->policies = 0; *word; s->policies++) {
        size_t length = strcspn(word, "-");
        if (s->policies < ORDER_MOST_PARTS)
            s->activations[s->policies] = (uint8_t)policy_of(word, length);
        word += length + (word[length] == '-');
    }
    s->again = s->policies ? 0 : activation_again(e->activation);
    for (int i = 0; i < s->policies && i < ORDER_MOST_PARTS; i++)
        s->again |= activation_name(s->activations[i]) ? activation_again(s->activations[i]) : 0;
}

void experiment_settle(struct experiment *e)
{
    struct strategy *s = &e->strategy;
    const struct paradigm *p = paradigm_of(e->paradigm);
    bool own = p->axes & MESH_ON_PIPELINE;
    *s = (struct strategy){.device = dt_device_kind_find(e->device), .paradigm = p, .mode = p->mode, .stages = 1};
    if (own || e->pipeline.paradigms == PIPELINE_OF_ALL)
        s->stages = e->pipeline.stages;
    s->has_pipeline = own || s->stages > 1;
    s->order = pipeline_order_find(s->stages > 1 ? e->pipeline.order : "gpipe");
    s->has_order_file = s->order && pipeline_order_is_file(s->order);
    if (!s->has_order_file)
        s->parts = s->stages > 1 && s->order && !s->order->parts ? e->pipeline.virtual_stages : s->order ? s->order->parts : 1;
    if (s->has_pipeline && e->pipeline.split) { /* NULL: an experiment that was not read from a config */
        s->split_points = split_points(e->pipeline.split, s->split_at);
        s->split = strcmp(e->pipeline.split, split_rule_name(DT_SPLIT_PARAMETERS)) == 0 ? DT_SPLIT_PARAMETERS : DT_SPLIT_BALANCED;
    }
    s->window = s->stages > 1 ? e->pipeline.chunks : 1;
    int64_t micro_batches = (int64_t)e->micro_batches * s->window;
    s->micro_batches = micro_batches < INT_MAX ? (int)micro_batches : INT_MAX;
    s->mesh = mesh_of(e, p->axes, s->stages);
    settle_activations(e, s);
    if (s->mode == &dp_parameter_server)
        s->servers = e->parameter_server.servers;
}

void experiment_place(struct experiment *e, int ranks)
{
    e->ranks_per_node = ranks;
    experiment_settle(e);
}

/* ---- what follows from a strategy ---- */

int64_t experiment_replica_samples(const struct experiment *e)
{
    return llround(e->batch_size * mesh_count(&e->strategy.mesh, MESH_ON_MODEL));
}

int64_t experiment_loss_samples(const struct experiment *e)
{
    struct dt_model fixed = e->model;
    int64_t samples = experiment_replica_samples(e) / e->strategy.micro_batches;
    return fixed.family->fix_micro_batch && fixed.family->fix_micro_batch(&fixed, &samples) ? samples : 0;
}

int experiment_rank_of_kind(const struct experiment *e, int index)
{
    const struct mesh_shape *mesh = &e->strategy.mesh;
    if (e->strategy.servers > 0)
        return index < e->strategy.servers ? mesh_moved(mesh, MESH_REPLICA, 0, strategy_server_replica(&e->strategy, index)) : -1;
    return index < mesh->size[MESH_PIPELINE] ? mesh_moved(mesh, MESH_PIPELINE, 0, index) : -1;
}

const char *experiment_node_key(const struct experiment *e, enum mesh_axis axis)
{
    const struct mesh_shape *mesh = &e->strategy.mesh;
    int place[MESH_AXES] = {0};
    for (int i = 0; i < MESH_AXES; i++)
        place[mesh->order[i]] = i;
    bool both = (e->strategy.paradigm->axes & MESH_ON_DATA) == MESH_ON_DATA;
    switch (axis) {
    case MESH_TENSOR: return mesh->size[axis] > 1 ? "tensor.size" : NULL;
    case MESH_PIPELINE: return mesh->size[axis] > 1 && place[axis] < place[MESH_REPLICA] ? "pipeline.stages" : NULL;
    case MESH_SHARD: return both ? "hsdp.shard_size" : NULL;
    case MESH_CONTEXT: /* long sequences may need more ranks than a node has */
    case MESH_REPLICA:
    case MESH_AXES: break;
    }
    return NULL;
}

/* ---- checks of sizes ---- */

enum { DIVISORS_TEXT = 160 };

/* Write "1, 2, 3 and 6 do"; if there are many, as many as the text has room for. */
static const char *list_divisors(int number, char text[DIVISORS_TEXT])
{
    size_t used = (size_t)snprintf(text, DIVISORS_TEXT, "1");
    for (int i = 2; i <= number && used + 32 < DIVISORS_TEXT; i++)
        if (number % i == 0)
            used += (size_t)snprintf(text + used, DIVISORS_TEXT - used, "%s%d", i == number ? " and " : ", ", i);
    snprintf(text + used, DIVISORS_TEXT - used, number == 1 ? " alone does" : " do");
    return text;
}

static dt_status check_one_copy(const struct experiment *e, const char *where)
{
    int stages = e->strategy.stages, ranks = stages * e->tensor.size;
    if (e->context.size > 1)
        return dt_fail(DT_ERR_INVALID,
                       "%s: context.size: %d ranks make gradients of other positions, and paradigm \"%s\" sums up none; use \"ddp\"", where,
                       e->context.size, e->strategy.paradigm->name);
    if (ranks == 1)
        return dt_fail(DT_ERR_INVALID, "%s: world_size: %d ranks, but paradigm \"%s\" is one device; use 1, or another paradigm", where,
                       e->world_size, e->strategy.paradigm->name);
    return dt_fail(
        DT_ERR_INVALID,
        "%s: world_size: %d ranks, but paradigm \"%s\" is one copy of the model, on pipeline.stages %d times tensor.size %d ranks; "
        "use %d, or another paradigm",
        where, e->world_size, e->strategy.paradigm->name, stages, e->tensor.size, ranks);
}

static dt_status check_shards(const struct experiment *e, const char *where)
{
    int data = e->world_size / (e->strategy.stages * e->tensor.size), context = e->context.size;
    char divisors[DIVISORS_TEXT];
    bool both = (e->strategy.paradigm->axes & MESH_ON_DATA) == MESH_ON_DATA;
    if (!both || e->hsdp.shard_size == 0)
        return DT_OK;
    if (e->hsdp.shard_size % context != 0)
        return dt_fail(DT_ERR_INVALID, "%s: hsdp.shard_size: %d is no multiple of context.size %d, whose ranks have the same parameters",
                       where, e->hsdp.shard_size, context);
    if (data % e->hsdp.shard_size == 0)
        return DT_OK;
    if (data == e->world_size)
        return dt_fail(DT_ERR_INVALID, "%s: hsdp.shard_size: %d does not divide world_size %d; %s", where, e->hsdp.shard_size, data,
                       list_divisors(data, divisors));
    return dt_fail(DT_ERR_INVALID, "%s: hsdp.shard_size: %d does not divide the %d ranks that hold the same stage; %s", where,
                   e->hsdp.shard_size, data, list_divisors(data, divisors));
}

dt_status experiment_check_mesh(const struct experiment *e, const char *where)
{
    const struct paradigm *p = e->strategy.paradigm;
    int stages = e->strategy.stages, tensor = e->tensor.size, context = e->context.size, world = e->world_size;
    char divisors[DIVISORS_TEXT];
    if (stages > 1 && p->no_pipeline)
        return dt_fail(DT_ERR_INVALID, "%s: pipeline.stages: paradigm \"%s\" goes with no pipeline: %s; use 1, or paradigm \"ddp\"", where,
                       p->name, p->no_pipeline);
    if (!p->axes && (world != stages * tensor || context > 1))
        return check_one_copy(e, where);
    if (world % tensor != 0)
        return dt_fail(DT_ERR_INVALID, "%s: tensor.size: %d does not divide world_size %d; %s", where, tensor, world,
                       list_divisors(world, divisors));
    if (context > 1 && world % (stages * tensor * context) != 0)
        return dt_fail(DT_ERR_INVALID, "%s: context.size: %d times pipeline.stages %d times tensor.size %d does not divide world_size %d",
                       where, context, stages, tensor, world);
    if (world % (stages * tensor) == 0)
        return check_shards(e, where);
    if (tensor == 1)
        return dt_fail(DT_ERR_INVALID, "%s: pipeline.stages: %d does not divide world_size %d; %s", where, stages, world,
                       list_divisors(world, divisors));
    return dt_fail(DT_ERR_INVALID, "%s: pipeline.stages: %d times tensor.size %d does not divide world_size %d; stages of %s", where,
                   stages, tensor, world, list_divisors(world / tensor, divisors));
}

dt_status experiment_check_activation(const struct experiment *e, int parts, const char *where)
{
    int policies = e->strategy.policies;
    if (policies == 0 || policies == parts)
        return DT_OK;
    return dt_fail(DT_ERR_INVALID,
                   "%s: pipeline.activation: %d %s, but pipeline.order %s gives each rank %d %s of the model; one for each%s", where,
                   policies, policies > 1 ? "policies" : "policy", e->pipeline.order, parts, parts > 1 ? "parts" : "part",
                   parts == 1 ? ", or \"activation\" for all" : "");
}
