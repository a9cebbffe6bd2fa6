/* The config's keys: the one place that knows their names, types, ranges, defaults and meaning. The schema, the completion and the reference
 * page are made from it: after a change run scripts/generate. */
#include "schedules/config/families.h"
#include "schedules/config/parse.h"
#include "schedules/config/split.h"
#include "schedules/plan/orders.h"

#include <string.h>

/* Choices are functions from an index to a name, NULL past the end: names stay where their enum is. */
static const char *pick(const char *const *names, int count, int index)
{
    return index >= 0 && index < count ? names[index] : NULL;
}

static const char *device_choice(int index)
{
    static const char *const names[] = {"auto", "cpu", "cuda", "sim"};
    return pick(names, 4, index);
}

static const char *paradigm_choice(int index)
{
    return paradigm_name((enum paradigm_kind)index);
}

static const char *preset_choice(int index)
{
    const struct dt_model_family *family;
    const struct dt_model_preset *preset = model_preset(index, &family);
    return preset ? preset->name : NULL;
}

static const char *dtype_choice(int index)
{
    return index < DT_DTYPE_COUNT ? dt_dtype_name((enum dt_dtype)index) : NULL;
}

static const char *attention_choice(int index)
{
    static const char *const names[] = {[DT_ATTENTION_FUSED] = "fused", [DT_ATTENTION_UNFUSED] = "unfused"};
    return pick(names, 2, index);
}

static const char *mlp_choice(int index)
{
    static const char *const names[] = {[DT_MLP_GELU] = "gelu", [DT_MLP_SWIGLU] = "swiglu"};
    return pick(names, 2, index);
}

static const char *norm_choice(int index)
{
    static const char *const names[] = {[DT_NORM_LAYER] = "layer", [DT_NORM_RMS] = "rms"};
    return pick(names, 2, index);
}

static const char *position_choice(int index)
{
    static const char *const names[] = {[DT_POSITION_LEARNED] = "learned", [DT_POSITION_ROPE] = "rope", [DT_POSITION_ALIBI] = "alibi"};
    return pick(names, 3, index);
}

static const char *rope_scaling_choice(int index)
{
    static const char *const names[] = {[DT_ROPE_UNSCALED] = "none", [DT_ROPE_LLAMA3] = "llama3"};
    return pick(names, 2, index);
}

static const char *bias_choice(int index)
{
    static const char *const names[] = {[DT_BIAS_ALL] = "all", [DT_BIAS_QKV] = "qkv", [DT_BIAS_NONE] = "none"};
    return pick(names, 3, index);
}

static const char *reduction_choice(int index)
{
    static const char *const names[] = {[REDUCTION_LAST] = "last", [REDUCTION_EACH] = "each"};
    return pick(names, 2, index);
}

static const char *mesh_order_choice(int index)
{
    return mesh_order_name((enum mesh_order)index);
}

static const char *pipeline_reach_choice(int index)
{
    return pipeline_reach_name((enum pipeline_reach)index);
}

static const char *gather_choice(int index)
{
    static const char *const names[] = {[GATHER_EACH] = "micro_batch", [GATHER_ONCE] = "step"};
    return pick(names, 2, index);
}

static const char *order_choice(int index)
{
    const struct pipeline_order *order = pipeline_order_at(index);
    return order ? order->name : NULL;
}

static const char *split_choice(int index)
{
    return split_rule_name((enum dt_split_rule)index);
}

static const char *unit_choice(int index)
{
    static const char *const names[] = {[DT_UNIT_BLOCK] = "block", [DT_UNIT_LINEAR] = "linear", "auto"};
    return pick(names, 3, index);
}

/* The number of each is what it keeps: enum dt_keep, added up. */
static const char *keep_choice(int index)
{
    static const char *const names[] = {"nothing", [DT_KEEP_NORMS] = "norms", [DT_KEEP_MLP] = "mlp", [DT_KEEP_NORMS | DT_KEEP_MLP] = "all"};
    return index < (int)(sizeof names / sizeof *names) ? names[index] : NULL;
}

/* Records of before say nothing of it, and did without. */
static bool of_cheap_activations(const void *source)
{
    return ((const struct experiment *)source)->keep_cheap != 0;
}

static const char *activation_choice(int index)
{
    return activation_name((enum activation_kind)index);
}

static const char *optimizer_choice(int index)
{
    static const char *const names[] = {[OPTIMIZER_SGD] = "sgd", [OPTIMIZER_ADAM] = "adam"};
    return pick(names, 2, index);
}

static const char *loss_choice(int index)
{
    static const char *const names[] = {[LOSS_CROSS_ENTROPY] = "cross_entropy", [LOSS_SUM] = "sum"};
    return pick(names, 2, index);
}

/* ---- which keys have a part in an experiment: those that its record has, and that its hash is made of ---- */

static bool in_no_result(const void *source)
{
    (void)source;
    return false;
}

static bool reads(const struct experiment *e, const char *path)
{
    return paradigm_has_key(e->strategy.paradigm, path);
}

static bool of_units(const void *source)
{
    return reads(source, "fsdp.unit");
}

static bool of_shard_groups(const void *source)
{
    return reads(source, "hsdp.shard_size");
}

static bool of_buckets(const void *source)
{
    return reads(source, "ddp.bucket_mib");
}

static bool of_servers(const void *source)
{
    return reads(source, "parameter_server.servers");
}

static bool of_a_pipeline(const void *source)
{
    const struct experiment *e = source;
    return e->strategy.has_pipeline;
}

/* The row of its pipeline's order; NULL where it has no pipeline. */
static const struct pipeline_order *order_of(const struct experiment *e)
{
    return e->strategy.has_pipeline ? pipeline_order_find(e->pipeline.order) : NULL;
}

static bool of_chosen_parts(const void *source)
{
    const struct pipeline_order *order = order_of(source);
    return order && !order->emit_all && order->parts == 0;
}

static bool of_free_orders(const void *source)
{
    const struct pipeline_order *order = order_of(source);
    return order && order->emit_all;
}

static bool of_tensor_groups(const void *source)
{
    const struct experiment *e = source;
    return e->tensor.size > 1;
}

/* Of one axis alone all sequences are the same. */
static bool of_several_axes(const void *source)
{
    const struct experiment *e = source;
    int tensor = e->tensor.size, stages = e->strategy.stages;
    return (tensor > 1) + (stages > 1) + (e->world_size > tensor * stages) > 1;
}

static bool of_near_ranks(const void *source)
{
    return of_a_pipeline(source) || of_tensor_groups(source) || of_shard_groups(source);
}

static bool of_own_sizes(const void *source)
{
    const struct experiment *e = source;
    return !*e->model.preset;
}

static bool of_rope(const void *source)
{
    const struct experiment *e = source;
    return e->model.position == DT_POSITION_ROPE;
}

static bool of_scaled_rope(const void *source)
{
    const struct experiment *e = source;
    return of_rope(e) && e->model.rope.scaling != DT_ROPE_UNSCALED;
}

static bool of_adam(const void *source)
{
    const struct experiment *e = source;
    return e->optimizer.name == OPTIMIZER_ADAM;
}

static bool of_gpus(const void *source)
{
    const struct experiment *e = source;
    return !e->strategy.device || e->strategy.device->gpus;
}

static bool of_timed_warmup(const void *source)
{
    const struct experiment *e = source;
    return e->steps.warmup_s > 0 && (!e->strategy.device || !e->strategy.device->simulated);
}

/* A profile that was measured on a CPU has threads, too. */
static bool of_processors(const void *source)
{
    const struct experiment *e = source;
    return !e->strategy.device || !e->strategy.device->gpus;
}

static bool of_predictions(const void *source)
{
    return experiment_is_simulated(source);
}

static const struct dt_refused_choice refused_paradigms[] = {{"zero3", "fsdp"}, {0}};
static const struct dt_refused_choice refused_orders[] = {
    {"interleaved_1f1b", "interleaved"},
    {"zero_bubble", "zb_h1"},
    {0},
};

static const char *const model_shape[] = {
    "model.layers",       "model.heads",    "model.hidden", "model.kv_heads", "model.mlp",  "model.ffn",     "model.norm",
    "model.norm_epsilon", "model.position", "model.rope",   "model.bias",     "model.tied", "model.qk_norm", NULL};

static const char *const bias_of_booleans[] = {"none", "all"};

#define AT(member) .offset = offsetof(struct experiment, member), .size = sizeof(((struct experiment *)0)->member)

/* Keys of one object stand together. */
static const struct dt_field fields[] = {
    {"name", DT_FIELD_STRING, AT(name), .group = "The experiment", .min = 1, .max = 63, .initial = "\"experiment\"",
     .matters = in_no_result, .description = "Name of the experiment in tables and records; no part of the config's hash."},
    {"device", DT_FIELD_STRING, AT(device), .choice = device_choice, .initial = "\"auto\"",
     .description = "What computes. auto: cuda where a GPU and everything that it needs is found (for several ranks NCCL, too), else "
                    "cpu. sim predicts the run on a described cluster, and auto never takes it."},
    {"world_size", DT_FIELD_INT, AT(world_size), .min = 1, .max = 65536, .initial = "1",
     .description =
         "Ranks (GPUs), those of pipelines and tensor-parallel groups included: a multiple of pipeline.stages times tensor.size, "
         "and with paradigm none equal to it."},
    {"paradigm", DT_FIELD_ENUM, AT(paradigm), .choice = paradigm_choice, .refused = refused_paradigms, .initial = "\"none\"",
     .description =
         "What the ranks, or the pipelines where there are some, do with samples, parameters and gradients; dtbench list describes "
         "each."},
    {"gpus_per_node", DT_FIELD_INT, AT(gpus_per_node), .group = "Placement", .min = 0, .max = 4096, .initial = "0",
     .description = "Ranks on each node; 0: any number, as the launcher places them."},
    {"share_gpus", DT_FIELD_BOOL, AT(share_gpus), .max = 1, .initial = "false", .matters = of_gpus,
     .description = "cuda: several ranks may use one GPU; they take turns and communicate over sockets. For correctness only: the "
                    "times are worthless."},
    {"straddle_nodes", DT_FIELD_BOOL, AT(straddle_nodes), .max = 1, .initial = "false", .matters = of_near_ranks,
     .description = "The stages of a pipeline, or the ranks of an hsdp shard group, may be on several nodes. A pipeline may be in any case "
                    "where mesh.order has data before pipeline."},
    {"mesh.order", DT_FIELD_ENUM, AT(mesh.order), .choice = mesh_order_choice, .list = true, .initial = "\"tensor-pipeline-data\"",
     .matters = of_several_axes,
     .description =
         "Axes of the mesh from neighbouring ranks to distant ones, also as a list; data are the ranks of ddp, zero1, zero2, fsdp "
         "and hsdp. tensor-pipeline-data places pipelines as the study does, tensor-data-pipeline as Megatron-LM."},
    {"batch_size", DT_FIELD_INT, AT(batch_size), .group = "The batch", .min = 1, .max = 65536, .initial = "8",
     .description = "Samples per rank and step."},
    {"micro_batches", DT_FIELD_INT, AT(micro_batches), .min = 1, .max = 65536, .initial = "1",
     .description =
         "Gradient accumulation: the number of parts into which a step's batch is divided, one after the other; at most batch_size."},
    {"gradient_reduction", DT_FIELD_ENUM, AT(gradient_reduction), .choice = reduction_choice, .initial = "\"last\"",
     .description = "When gradients are reduced over the ranks: after the last micro-batch of a step, or after each."},

    {"model.preset", DT_FIELD_STRING, AT(model.preset), .group = "The model", .choice = preset_choice, .replaces = model_shape,
     .description = "A model that was published (dtbench list prints them), instead of layers, heads and hidden."},
    {"model.layers", DT_FIELD_INT, AT(model.layers), .min = 1, .max = 4096, .matters = of_own_sizes, .description = "Transformer blocks."},
    {"model.heads", DT_FIELD_INT, AT(model.heads), .min = 1, .max = 4096, .matters = of_own_sizes,
     .description = "Attention heads; must divide hidden."},
    {"model.hidden", DT_FIELD_INT, AT(model.hidden), .min = 1, .max = 65536, .matters = of_own_sizes,
     .description = "Hidden size d: the width of the residual stream."},
    {"model.vocab_size", DT_FIELD_INT, AT(model.vocab_size), .min = 2, .max = 2147483647, .initial = "50000",
     .description = "Vocabulary size V; tokens are random integers below it."},
    {"model.block_size", DT_FIELD_INT, AT(model.block_size), .min = 1, .max = 1048576, .initial = "256",
     .description = "Sequence length T."},
    {"model.dtype", DT_FIELD_ENUM, AT(model.dtype), .choice = dtype_choice, .initial = "\"fp16\"",
     .description = "Data type of parameters, gradients, activations and messages. bf16 is the fast one on processors that compute "
                    "it natively."},
    {"model.dropout", DT_FIELD_FLOAT, AT(model.dropout), .min = 0, .max = 0.999, .initial = "0.1",
     .description = "Dropout probability, of the embedding, the attention weights and the residual branches."},
    {"model.attention", DT_FIELD_ENUM, AT(model.attention), .choice = attention_choice, .initial = "\"fused\"",
     .description = "fused does not store the T x T attention weights; unfused does, as the study's framework did."},

    {"model.mlp", DT_FIELD_ENUM, AT(model.mlp), .choice = mlp_choice, .initial = "\"gelu\"",
     .description = "The MLP of a block. gelu: down(gelu(up(x))); swiglu: down(silu(gate(x)) * up(x)), with three weights."},
    {"model.ffn", DT_FIELD_INT, AT(model.ffn), .min = 0, .max = 1048576, .initial = "0",
     .description = "Features of the MLP's hidden layer; 0: 4 * hidden."},
    {"model.norm", DT_FIELD_ENUM, AT(model.norm), .choice = norm_choice, .initial = "\"layer\"",
     .description = "Normalisation before attention, MLP and head. layer: layer norm; rms: by the root of the mean square, without bias."},
    {"model.norm_epsilon", DT_FIELD_NUMBER, AT(model.norm_epsilon), .min = 0, .above = true, .max = 1, .initial = "1e-5",
     .description = "Added to a norm's variance, or mean square."},
    {"model.position", DT_FIELD_ENUM, AT(model.position), .choice = position_choice, .initial = "\"learned\"",
     .description = "How positions get in. learned: a table of block_size rows, added to the tokens' embedding; rope: q and k are "
                    "rotated; alibi: scores get a bias that grows with the distance."},
    {"model.rope.base", DT_FIELD_NUMBER, AT(model.rope.base), .min = 1, .above = true, .max = 1e12, .initial = "10000", .matters = of_rope,
     .description = "rope: base of the frequencies, often called theta."},
    {"model.rope.scaling", DT_FIELD_ENUM, AT(model.rope.scaling), .choice = rope_scaling_choice, .initial = "\"none\"", .matters = of_rope,
     .description =
         "rope: how frequencies are changed for sequences longer than original_length. llama3: slow ones are divided by factor."},
    {"model.rope.factor", DT_FIELD_NUMBER, AT(model.rope.factor), .min = 1, .max = 1e6, .initial = "8", .matters = of_scaled_rope,
     .description = "llama3 scaling: what the slow frequencies are divided by."},
    {"model.rope.low_frequency_factor", DT_FIELD_NUMBER, AT(model.rope.low_frequency_factor), .min = 0, .above = true, .max = 1e6,
     .initial = "1", .matters = of_scaled_rope,
     .description = "llama3 scaling: frequencies of fewer turns in original_length than this are slow."},
    {"model.rope.high_frequency_factor", DT_FIELD_NUMBER, AT(model.rope.high_frequency_factor), .min = 0, .above = true, .max = 1e6,
     .initial = "4", .matters = of_scaled_rope,
     .description = "llama3 scaling: frequencies of more turns in original_length than this stay as they are."},
    {"model.rope.original_length", DT_FIELD_INT, AT(model.rope.original_length), .min = 1, .max = 1048576, .initial = "8192",
     .matters = of_scaled_rope, .description = "llama3 scaling: the sequence length before it was made longer."},
    {"model.kv_heads", DT_FIELD_INT, AT(model.kv_heads), .min = 0, .max = 4096, .initial = "0",
     .description = "Heads of keys and values (grouped-query attention); must divide heads. 0: heads."},
    {"model.bias", DT_FIELD_ENUM, AT(model.bias), .choice = bias_choice, .booleans = bias_of_booleans, .initial = "\"all\"",
     .description = "Biases. all: of every linear layer but the head, and of layer norms; qkv: of q, k and v alone; none. true is all, "
                    "false none."},
    {"model.tied", DT_FIELD_BOOL, AT(model.tied), .max = 1, .initial = "false",
     .description = "The head's weight is the embedding's token table."},
    {"model.qk_norm", DT_FIELD_BOOL, AT(model.qk_norm), .max = 1, .initial = "false",
     .description = "Each head of q and k goes through an rms norm of its own, before rope."},

    {"pipeline.stages", DT_FIELD_INT, AT(pipeline.stages), .group = "Paradigms", .min = 1, .max = 4096, .initial = "2",
     .matters = of_a_pipeline,
     .description = "Ranks of a pipeline; must divide world_size / tensor.size. It goes with every paradigm but data_parallel and "
                    "parameter_server; pipeline.paradigms says when."},
    {"pipeline.chunks", DT_FIELD_INT, AT(pipeline.chunks), .min = 1, .max = 65536, .initial = "2", .matters = of_a_pipeline,
     .description = "Micro-batches of each of the micro_batches parts of a step, in the pipeline at a time with gpipe; times "
                    "micro_batches at most stages * batch_size."},
    {"pipeline.order", DT_FIELD_STRING, AT(pipeline.order), .choice = order_choice, .file_ending = ORDER_FILE_ENDING,
     .refused = refused_orders, .initial = "\"gpipe\"", .matters = of_a_pipeline,
     .description =
         "Order of forward and backward passes in a pipeline, as dtbench list describes each, or a file with a line of passes for "
         "each rank."},
    {"pipeline.virtual_stages", DT_FIELD_INT, AT(pipeline.virtual_stages), .min = 1, .max = ORDER_MOST_PARTS, .initial = "2",
     .matters = of_chosen_parts, .description = "interleaved: parts of the model on each rank, which has consecutive layers in each."},
    {"pipeline.split", DT_FIELD_STRING, AT(pipeline.split), .choice = split_choice, .min = 0, .max = 4096,
     .most_numbers = SPLIT_MOST_POINTS, .initial = "\"balanced\"", .matters = of_a_pipeline,
     .description =
         "Which transformer blocks each stage has (with several parts of the model on each rank: each part). balanced: the slowest is as "
         "fast as it can be, by its floating-point operations; parameters: by their number, as the study does; or a list with the first "
         "block of each stage but the first: [4, 8] of 12 blocks makes three stages. The embedding is in the first, the head in the last."},
    {"pipeline.memory_limit", DT_FIELD_INT, AT(pipeline.memory_limit), .min = 0, .max = 65536, .initial = "0", .matters = of_free_orders,
     .description =
         "zb_auto, and files: micro-batches that a rank keeps at most; one that waits for its weight gradients alone counts half. "
         "0: pipeline.stages, as many as 1f1b; of a file any number."},
    {"pipeline.activation", DT_FIELD_STRING, AT(pipeline.activation), .choice = activation_choice, .words = ORDER_MOST_PARTS,
     .matters = of_a_pipeline,
     .description = "Where the order gives each rank several parts of the model: what is kept in each part, in place of activation, as in "
                    "[\"checkpoint\", \"keep\"]. Also as one word, checkpoint-keep."},
    {"pipeline.paradigms", DT_FIELD_ENUM, AT(pipeline.paradigms), .choice = pipeline_reach_choice, .initial = "\"pdp\"",
     .matters = in_no_result,
     .description = "Whether the pipeline is pdp's alone (pdp), or goes with the config's other paradigms, too (all). When not given all "
                    "where the config has pipeline.stages, and pdp where it, or its sweep, names paradigm pdp: there each paradigm reads "
                    "its own keys."},
    {"fsdp.unit", DT_FIELD_ENUM, AT(fsdp.unit), .choice = unit_choice, .initial = "\"auto\"", .matters = of_units,
     .description = "fsdp, hsdp: what is gathered and freed at a time: a transformer block, or each linear layer. auto: block below "
                    "80e9 parameters, else linear."},
    {"fsdp.gather", DT_FIELD_ENUM, AT(fsdp.gather), .choice = gather_choice, .initial = "\"micro_batch\"", .matters = of_units,
     .description = "fsdp, hsdp: how often a unit is gathered. micro_batch: for each forward and each backward pass, and freed after it; "
                    "step: once, and kept from its first forward to its last backward pass of the step."},
    {"hsdp.shard_size", DT_FIELD_INT, AT(hsdp.shard_size), .min = 0, .max = 65536, .initial = "0", .matters = of_shard_groups,
     .description = "hsdp: ranks that share one copy of the parameters, neighbours on the data axis; must divide world_size, or the number "
                    "of pipelines. 0: those of a node (all, on one machine)."},
    {"ddp.bucket_mib", DT_FIELD_NUMBER, AT(ddp.bucket_mib), .min = 0, .above = true, .max = 65536, .initial = "25", .matters = of_buckets,
     .description = "ddp, pdp, zero1, zero2, data_parallel: size of a gradient bucket, in MiB."},
    {"parameter_server.servers", DT_FIELD_INT, AT(parameter_server.servers), .min = 1, .max = 65536, .initial = "1", .matters = of_servers,
     .description = "parameter_server: ranks that own the parameters, and are workers too; at most world_size."},
    {"tensor.size", DT_FIELD_INT, AT(tensor.size), .min = 1, .max = 4096, .initial = "1",
     .description = "Ranks that share each layer (tensor parallelism), with every paradigm; must divide model.heads, and world_size. "
                    "They work on the same samples, batch_size for each of them together."},
    {"tensor.sequence_parallel", DT_FIELD_BOOL, AT(tensor.sequence_parallel), .max = 1, .initial = "true", .matters = of_tensor_groups,
     .description = "tensor.size above 1: between a layer's products each rank has its part of the rows of the residual stream instead "
                    "of all; tensor.size must divide model.block_size."},
    {"activation", DT_FIELD_ENUM, AT(activation), .group = "Memory", .choice = activation_choice, .initial = "\"keep\"",
     .description = "What is kept for backward. keep: all activations. checkpoint: the input of each segment of blocks; the rest is "
                    "recomputed. offload: the same, with these inputs in host memory. selective: all but what attention makes of q, k and "
                    "v, which is recomputed."},
    {"activation_blocks", DT_FIELD_INT, AT(activation_blocks), .min = 1, .max = 4096, .initial = "1",
     .description = "checkpoint, offload: transformer blocks of a segment."},
    {"keep_cheap", DT_FIELD_ENUM, AT(keep_cheap), .choice = keep_choice, .initial = "\"nothing\"", .matters = of_cheap_activations,
     .description = "What forward keeps although backward can make it again in one pass over memory. norms: the outputs of a block's two "
                    "norms, 2 d elements a token. mlp: what the MLP's second product reads, the output of GELU or SwiGLU, 4 d elements "
                    "(model.ffn). all: both. Backward then has fewer kernels, and no loss changes."},
    {"parameter_offload", DT_FIELD_BOOL, AT(parameter_offload), .max = 1, .initial = "false",
     .description = "Parameters, gradients and optimizer state are in host memory. Parameters are copied to the device one group "
                    "ahead of use, and the host updates them."},

    {"optimizer.name", DT_FIELD_ENUM, AT(optimizer.name), .group = "Loss and optimizer", .choice = optimizer_choice, .initial = "\"sgd\"",
     .description = "sgd without momentum, or adam; adam's moments and master weights are fp32."},
    {"optimizer.learning_rate", DT_FIELD_NUMBER, AT(optimizer.learning_rate), .min = 0, .max = 1000,
     .description = "Learning rate; when not given 0.01 for sgd and 0.001 for adam."},
    {"optimizer.beta1", DT_FIELD_NUMBER, AT(optimizer.beta1), .min = 0, .max = 1, .below = true, .initial = "0.9", .matters = of_adam,
     .description = "adam: decay rate of the first moment."},
    {"optimizer.beta2", DT_FIELD_NUMBER, AT(optimizer.beta2), .min = 0, .max = 1, .below = true, .initial = "0.999", .matters = of_adam,
     .description = "adam: decay rate of the second moment."},
    {"optimizer.epsilon", DT_FIELD_NUMBER, AT(optimizer.epsilon), .min = 0, .above = true, .max = 1, .initial = "1e-8", .matters = of_adam,
     .description = "adam: added to the root of the second moment."},
    {"loss", DT_FIELD_ENUM, AT(loss), .choice = loss_choice, .initial = "\"cross_entropy\"",
     .description =
         "cross_entropy of the next token, its mean over the step's tokens; or the plain sum of a sample's logits, its mean over the "
         "samples, as in the study."},
    {"loss_scaling", DT_FIELD_NUMBER, AT(loss_scaling), .min = 0, .above = true, .max = 4294967296,
     .description = "Static loss scaling: the loss's gradient is multiplied by it, and the optimizer divides by it. When not given "
                    "65536 for fp16 with cross_entropy, else 1."},
    {"graph", DT_FIELD_BOOL, AT(graph), .group = "The run", .max = 1, .initial = "true", .matters = of_gpus,
     .description =
         "cuda: the third step is captured as a CUDA graph, which later steps replay. With steps.warmup of 3 or more no "
         "timed step is the captured one. Not where the ranks are on several nodes, or in a pipeline: see graph_across_nodes and "
         "graph_in_pipelines."},
    {"graph_across_nodes", DT_FIELD_BOOL, AT(graph_across_nodes), .max = 1, .initial = "false", .matters = of_gpus,
     .description =
         "cuda: capture and replay steps on several nodes, too. NCCL's captured operations between nodes go through the host; what "
         "that costs is not measured yet."},
    {"graph_in_pipelines", DT_FIELD_BOOL, AT(graph_in_pipelines), .max = 1, .initial = "false", .matters = of_gpus,
     .description = "cuda: capture and replay the steps of pipelines, too. Receives that wait for each other are then in parallel branches "
                    "of a graph, and CUDA "
                    "does not promise that such branches run at the same time: until a GPU has shown it, a replay may hang. Try it with a "
                    "short timeout.step_s."},
    {"seed", DT_FIELD_U64, AT(seed), .min = 0, .max = 9007199254740991, .initial = "1",
     .description = "Seed of initial weights, tokens and dropout masks."},
    {"steps.warmup", DT_FIELD_INT, AT(steps.warmup), .min = 0, .max = 1000000, .initial = "4",
     .description = "Steps before the timed ones."},
    {"steps.warmup_s", DT_FIELD_NUMBER, AT(steps.warmup_s), .min = 0, .max = 3600, .initial = "0", .matters = of_timed_warmup,
     .description =
         "Seconds of warm-up: beyond steps.warmup there are more steps before the timed ones until the slowest rank has spent so long in "
         "them. Clocks of a GPU that was idle are low for a second or two."},
    {"steps.timed", DT_FIELD_INT, AT(steps.timed), .min = 1, .max = 1000000, .initial = "4", .description = "Timed steps."},
    {"timeout.init_s", DT_FIELD_NUMBER, AT(timeout.init_s), .min = 0, .max = 1e6, .initial = "120",
     .description =
         "Seconds until all ranks must be connected; 0: no limit. When not given 120, and in worlds of more ranks than that one for each "
         "rank: they all load their libraries from one file system."},
    {"timeout.step_s", DT_FIELD_NUMBER, AT(timeout.step_s), .min = 0, .max = 1e6, .initial = "600",
     .description = "Seconds that one step, or one wait for another rank, may take; 0: no limit."},
    {"nccl", DT_FIELD_SETTINGS, AT(nccl), .prefix = "NCCL_", .matters = of_gpus,
     .description = "cuda: NCCL's own settings by their names, such as NCCL_ALGO; they replace what is in the ranks' environment."},
    {"register_buffers", DT_FIELD_BOOL, AT(register_buffers), .max = 1, .initial = "false", .matters = of_gpus,
     .description =
         "cuda: buffers are NCCL's own memory and registered with it, so that it needs no copies of its own in between. What that "
         "gains is not measured yet. Needs NCCL 2.19."},
    {"tuning", DT_FIELD_STRING, AT(tuning), .max = 511, .initial = "\"\"", .matters = of_gpus,
     .description =
         "cuda: file of dtbench tune, which says what algorithms compute the matrix products; those that it does not know, and all "
         "where no file is named, are computed by the first that the library names. Two runs with the same file give the same bits."},
    {"memory_limit_gib", DT_FIELD_NUMBER, AT(memory_limit_gib), .group = "Limits", .min = 0, .max = 1048576, .initial = "0",
     .description = "Memory of each rank's device, in GiB, if it is to be less than the device has, or if the device has none of its "
                    "own; 0: no limit."},
    {"host_memory_limit_gib", DT_FIELD_NUMBER, AT(host_memory_limit_gib), .min = 0, .max = 1048576, .initial = "0",
     .description = "Host memory that each rank may use for what is offloaded, in GiB; 0: no limit but the machine's."},
    {"threads", DT_FIELD_INT, AT(threads), .min = 0, .max = 4096, .initial = "0", .matters = of_processors,
     .description = "cpu: threads of a rank; 0: the machine's processors divided by its ranks."},
    {"cluster", DT_FIELD_STRING, AT(cluster), .group = "Simulation", .min = 1, .max = 127, .matters = of_predictions,
     .description = "sim: file that describes the hardware, or the name of one that comes with dtbench (gcp_a2); clusters/dgx_a100.json "
                    "when not given."},
    {"profile", DT_FIELD_STRING, AT(profile), .min = 1, .max = 127, .matters = of_predictions,
     .description = "sim: file that describes the costs of the software, or the name of one that comes with dtbench; when not given the "
                    "one that the cluster file names, or else "
                    "profiles/pytorch_1.11_a100.json."},
    {"any_profile", DT_FIELD_BOOL, AT(any_profile), .max = 1, .initial = "false", .matters = of_predictions,
     .description = "sim: the profile may be one for another GPU than the cluster's; the predictions are then for neither."},
    {"network.gbit_per_s", DT_FIELD_NUMBER, AT(network.gbit_per_s), .min = 0, .max = 1e6, .initial = "0", .matters = of_predictions,
     .description =
         "sim: Gbit/s that each network card of a node is sold with, instead of the cluster file's. Rates of flows follow: what was "
         "measured on the file's cards keeps its relation to what the transport (sockets, RDMA) makes of a label. 0: the file's."},
    {"network.latency_us", DT_FIELD_NUMBER, AT(network.latency_us), .min = -1, .max = 1e6, .initial = "-1", .matters = of_predictions,
     .description = "sim: microseconds of a message between nodes beyond what the library's own table has for its network, instead of the "
                    "cluster file's. -1: the file's."},
};

static const struct dt_table table = {.fields = fields, .count = sizeof fields / sizeof fields[0]};

const struct dt_table *experiment_table(void)
{
    return &table;
}

static const struct dt_schema_section sections[] = {
    {"", "One experiment, or a sweep of them. dtbench also checks what no schema can express, such as that heads divides hidden.",
     "\"if\": {\"not\": {\"required\": [\"sweep\"]}},"
     "\"then\": {\"required\": [\"model\"],"
     "\"properties\": {\"model\": {\"anyOf\": [{\"required\": [\"preset\"]}, {\"required\": [\"layers\", \"heads\", \"hidden\"]}]}}}"},
    {"model", "The decoder: a preset, or layers, heads and hidden.",
     "\"if\": {\"required\": [\"preset\"]}, \"then\": {\"properties\": {\"layers\": false, \"heads\": false, \"hidden\": false}}"},
    {"model.rope", "Rotary position embedding.", NULL},
    {"mesh", "How the ranks are laid out.", NULL},
    {"pipeline", "The pipeline, where there is one.", NULL},
    {"fsdp", "Options of paradigms fsdp and hsdp.", NULL},
    {"hsdp", "Options of paradigm hsdp.", NULL},
    {"ddp", "Options of paradigms with gradient buckets.", NULL},
    {"parameter_server", "Options of paradigm parameter_server.", NULL},
    {"tensor", "Tensor parallelism.", NULL},
    {"network", "The simulated cluster's network, where it is to be another one.", NULL},
    {"optimizer", "The optimizer.", NULL},
    {"steps", "How many steps.", NULL},
    {"timeout", "How long to wait.", NULL},
    {0},
};

const struct dt_schema *experiment_schema(void)
{
    static const struct dt_schema schema = {.title = "dtbench config", .table = &table, .sections = sections, .sweeps = true};
    return &schema;
}
