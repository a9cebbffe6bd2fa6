/* The config's keys: the one place that knows their names, types, ranges, defaults and meaning. The
 * schema, the completion and the reference page are made from it: after a change run
 * scripts/generate. */
#include "schedules/config/families.h"
#include "schedules/config/parse.h"
#include "schedules/config/split.h"
#include "schedules/plan/plan.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char *preset_choice(int index)
{
    const struct dt_model_family *family;
    const struct dt_model_preset *preset = model_preset(index, &family);
    return preset ? preset->name : NULL;
}

static const char *order_choice(int index)
{
    const struct pipeline_order *order = pipeline_order_at(index);
    return order ? order->name : NULL;
}

/* ---- which keys matter in an experiment `e`: its record has them, and its hash includes them
 * ---- */

#define WHERE(name, condition)                                                                                                             \
    static bool name(const void *source)                                                                                                   \
    {                                                                                                                                      \
        const struct experiment *e = source;                                                                                               \
        return condition;                                                                                                                  \
    }

/* The row of the pipeline's order; NULL without a pipeline. */
static const struct pipeline_order *order_of(const struct experiment *e)
{
    return e->strategy.has_pipeline ? pipeline_order_find(e->pipeline.order) : NULL;
}

static bool on_gpus(const struct experiment *e)
{
    return !e->strategy.device || e->strategy.device->gpus;
}

/* The number of axes with more than one rank. With one such axis all axis orders are the same. */
static int axes_in_use(const struct experiment *e)
{
    int tensor = e->tensor.size, stages = e->strategy.stages;
    return (tensor > 1) + (stages > 1) + (e->world_size > tensor * stages);
}

WHERE(in_no_result, !e)
WHERE(of_late_updates, experiment_staleness(e) > 0)
WHERE(of_late_gathers, e->strategy.paradigm->reads &READS_SHARES && e->ddp.overlap_param_gather)
WHERE(of_a_pipeline, e->strategy.has_pipeline)
WHERE(of_chosen_parts, order_of(e) && !order_of(e)->emit_all && order_of(e)->parts == 0)
WHERE(of_free_orders, order_of(e) && order_of(e)->emit_all)
WHERE(of_tensor_groups, e->tensor.size > 1)
WHERE(of_overlapped_products, e->tensor.size > 1 && e->tensor.overlap)
WHERE(of_context_groups, e->context.size > 1)
WHERE(of_several_axes, axes_in_use(e) > 1)
WHERE(of_near_ranks, e->strategy.has_pipeline || e->tensor.size > 1 || e->strategy.paradigm->reads & READS_SHARD_GROUPS)
WHERE(of_cheap_activations, e->keep_cheap != 0) /* records of earlier versions lack this key, and mean 0 */
WHERE(of_adam, experiment_is_adam(e))
WHERE(of_momentum, !experiment_is_adam(e) && e->optimizer.momentum > 0)
WHERE(of_weight_decay, e->optimizer.name == OPTIMIZER_ADAMW || e->optimizer.weight_decay > 0)
WHERE(of_exclusions, e->optimizer.decayed != DECAYED_ALL && e->optimizer.weight_decay > 0)
WHERE(of_wide_gradients, e->gradient_dtype != REDUCE_AS_MODEL)
WHERE(of_converted_sums, e->reduce_dtype != REDUCE_AS_MODEL)
WHERE(of_fp8, e->model.fp8 != DT_FP8_NONE)
WHERE(of_gathers_in_fp8, e->model.fp8_gather)
WHERE(of_rare_segments, e->activation_every > 1 && (activation_has_segments(e->activation) || e->strategy.policies > 0))
WHERE(of_clipping, e->optimizer.clip_norm > 0)
WHERE(of_master_weights, e->optimizer.master_weights != experiment_is_adam(e)) /* only if it differs from earlier versions' rule */
WHERE(of_dynamic_scaling, experiment_scales_dynamically(e))
WHERE(of_schedules, e->optimizer.schedule != SCHEDULE_CONSTANT || e->optimizer.warmup_steps > 0)
WHERE(of_ends, e->optimizer.schedule != SCHEDULE_CONSTANT)
WHERE(of_scaled_rates, e->optimizer.scale_with_batch != SCALE_NONE)
WHERE(of_data, experiment_reads_data(e))
WHERE(of_checkpoints, *e->checkpoint.path != 0)
WHERE(of_epochs, e->steps.epochs > 0)
WHERE(of_gpus, on_gpus(e))
WHERE(of_timed_warmup, e->steps.warmup_s > 0 && (!e->strategy.device || !e->strategy.device->simulated))
WHERE(of_separate_kernels, on_gpus(e) && !e->fused_kernels)
WHERE(of_early_launch, on_gpus(e) && e->early_launch)
WHERE(of_warpgroups, on_gpus(e) && e->warpgroup_kernels != DT_WARPGROUPS_AUTO)
WHERE(of_spared, on_gpus(e) && e->spared_multiprocessors > 0)
WHERE(of_processors, !e->strategy.device || !e->strategy.device->gpus) /* a profile measured on a CPU has threads, too */
WHERE(of_predictions, experiment_is_simulated(e))
WHERE(of_rates, experiment_is_simulated(e) && e->rates && *e->rates)
WHERE(of_slow_parts, e->slow.by > 0)

static const struct dt_refused_choice refused_paradigms[] = {{"zero3", "fsdp"}, {0}};
static const struct dt_refused_choice refused_orders[] = {
    {"interleaved_1f1b", "interleaved"},
    {"zero_bubble", "zb_h1"},
    {0},
};

static const char *const never_or_always[] = {"never", "always"};

static const char *const global_batch[] = {"global_batch", NULL}, *const batch_size[] = {"batch_size", NULL};

#define AT(member) .offset = offsetof(struct experiment, member), .size = sizeof(((struct experiment *)0)->member)

/* Keys of one object are consecutive rows. */
static const struct dt_field fields[] = {
    {"name", DT_FIELD_TEXT, AT(name), .group = "The experiment", .min = 1, .max = 63, .initial = "\"experiment\"", .matters = in_no_result,
     .costs_nothing = true, .description = "Name of the experiment in tables and records; no part of the config's hash."},
    {"device", DT_FIELD_TEXT, AT(device), .names = DT_NAMES("auto", "cpu", "cuda", "sim"), .initial = "\"auto\"",
     .description = "What computes. auto: cuda where a GPU and everything that it needs is found (for several ranks NCCL, too), else "
                    "cpu. sim predicts the run on a described cluster, and auto never takes it."},
    {"world_size", DT_FIELD_INT, AT(world_size), .min = 1, .max = 65536, .initial = "1",
     .description = "Ranks (GPUs), those of pipelines, tensor and context groups included: a multiple of pipeline.stages times tensor.size "
                    "times context.size, "
                    "and equal to it with paradigm none."},
    {"paradigm", DT_FIELD_ENUM, AT(paradigm), .choice = paradigm_name, .refused = refused_paradigms, .initial = "\"none\"",
     .description =
         "What the ranks, or the pipelines where there are some, do with samples, parameters and gradients; dtbench list describes "
         "each."},
    {"gpus_per_node", DT_FIELD_INT, AT(gpus_per_node), .group = "Placement", .min = 0, .max = 4096, .initial = "0",
     .description = "Ranks on each node; 0: any number, as the launcher places them."},
    {"share_gpus", DT_FIELD_BOOL, AT(share_gpus), .max = 1, .initial = "false", .matters = of_gpus,
     .description = "cuda: several ranks may use one GPU; they take turns and communicate over sockets. For correctness only: the "
                    "times are worthless."},
    {"straddle_nodes", DT_FIELD_BOOL, AT(straddle_nodes), .max = 1, .initial = "false", .readers = READS_PIPELINE, .matters = of_near_ranks,
     .description = "The stages of a pipeline, or the ranks of an hsdp shard group, may be on several nodes. A pipeline may be in any case "
                    "where mesh.order has data before pipeline."},
    {"mesh.order", DT_FIELD_ENUM, AT(mesh.order), .choice = mesh_order_name, .list = true, .initial = "\"tensor-pipeline-data\"",
     .matters = of_several_axes,
     .description =
         "Axes of the mesh from neighbouring ranks to distant ones, also as a list; data are the ranks of ddp, zero1, zero2, fsdp "
         "and hsdp. tensor-pipeline-data places pipelines as the study does, tensor-data-pipeline as Megatron-LM."},
    {"batch_size", DT_FIELD_NUMBER, AT(batch_size), .group = "The batch", .above = true, .max = 65536, .initial = "8",
     .replaces = global_batch,
     .description = "Samples per rank and step; with context.size, of the ranks that share them together. The ranks that share a copy of "
                    "the model have whole samples: with tensor.size 8, 0.125 is one for all of them."},
    {"global_batch", DT_FIELD_INT, AT(global_batch), .min = 1, .max = 2147483647, .replaces = batch_size, .matters = in_no_result,
     .description = "Samples per step of all ranks together, instead of batch_size, which becomes this divided by world_size (over "
                    "context.size): the same work on any number of ranks (strong scaling). A multiple of the copies of the model."},
    {"micro_batches", DT_FIELD_INT, AT(micro_batches), .min = 1, .max = 65536, .initial = "1",
     .description =
         "Gradient accumulation: the number of parts into which a step's batch is divided, one after the other; at most the samples "
         "of a copy of the model."},
    {"gradient_dtype", DT_FIELD_ENUM, AT(gradient_dtype), .names = DT_NAMES([REDUCE_AS_MODEL] = "model", [REDUCE_IN_FP32] = "fp32"),
     .initial = "\"model\"", .matters = of_wide_gradients,
     .description = "In which type gradients are kept and added up, from backward to the update, and reduced. model: model.dtype. fp32: "
                    "what backward makes in 16 bits is added to "
                    "fp32 gradients after each group's pass, also over micro-batches and ranks."},
    {"reduce_dtype", DT_FIELD_ENUM, AT(reduce_dtype),
     .names = DT_NAMES([REDUCE_AS_MODEL] = "model", [REDUCE_IN_FP32] = "fp32", [REDUCE_IN_FP16] = "fp16", [REDUCE_IN_BF16] = "bf16"),
     .initial = "\"model\"", .matters = of_converted_sums,
     .description =
         "In which gradients are summed over ranks: model, as they are; fp32, to which 16-bit ones are converted and from which their "
         "average is rounded once: twice the bytes; or fp16 or bf16, to which fp32 ones are rounded: half of the bytes, and losses that "
         "differ. A bucket's gradients exist in that type, too, while they travel."},
    {"gradient_reduction", DT_FIELD_ENUM, AT(gradient_reduction), .names = DT_NAMES([REDUCTION_LAST] = "last", [REDUCTION_EACH] = "each"),
     .initial = "\"last\"",
     .description = "When gradients are reduced over the ranks: after the last micro-batch of a step, or after each."},

    {"model.preset", DT_FIELD_STRING, AT(model.preset), .group = "The model", .choice = preset_choice,
     .description = "A model that was published (dtbench list prints them), instead of layers, heads and hidden."},
    {"model.from", DT_FIELD_TEXT, AT(model_from), .min = 1, .max = 127, .matters = in_no_result,
     .description = "A Hugging Face model's config.json, which says the sizes and the rest of the model, instead of a preset; what the "
                    "config gives takes precedence. Looked for in the config's folder, then as clusters are."},
    {"model.dtype", DT_FIELD_ENUM, AT(model.dtype), .choice = dt_dtype_name, .initial = "\"fp16\"",
     .description = "Data type of parameters, gradients, activations and messages. bf16 is the fast one on processors that compute "
                    "it natively."},
    {"fp8.recipe", DT_FIELD_ENUM, AT(model.fp8), .choice = dt_fp8_name, .initial = "\"none\"", .matters = of_fp8,
     .description =
         "sim: products of the blocks' linear layers in FP8, with a scale for each tensor (delayed: of amaxes of earlier steps, and "
         "current: of its own, as Transformer Engine; tensorwise: of its own, as torchao), for each row (rowwise), for each 128 numbers "
         "(blockwise, as "
         "DeepSeek-V3) or "
         "each 32 (mxfp8, which needs tensor cores that read such scales). Attention and the head stay in "
         "model.dtype, which has 16 bits."},
    {"fp8.gather", DT_FIELD_BOOL, AT(model.fp8_gather), .max = 1, .initial = "false", .readers = READS_UNITS | READS_BUCKETS,
     .matters = of_gathers_in_fp8,
     .description =
         "fsdp, hsdp with fp8.recipe delayed, current or tensorwise; zero1, zero2 with delayed or current: shards of the blocks' weights "
         "are cast before they are gathered: half of the bytes, and one all-reduce of all amaxes a step. zero1 and zero2 then keep these "
         "weights in FP8 alone, two bytes less of each."},
    {"pipeline.stages", DT_FIELD_INT, AT(pipeline.stages), .group = "Paradigms", .min = 1, .max = 4096, .initial = "2",
     .readers = READS_PIPELINE, .matters = of_a_pipeline,
     .description = "Ranks of a pipeline; must divide world_size / tensor.size. It goes with every paradigm but data_parallel and "
                    "parameter_server; pipeline.paradigms says when."},
    {"pipeline.chunks", DT_FIELD_INT, AT(pipeline.chunks), .min = 1, .max = 65536, .initial = "2", .readers = READS_PIPELINE,
     .matters = of_a_pipeline,
     .description = "Micro-batches of each of the micro_batches parts of a step, in the pipeline at a time with gpipe; times "
                    "micro_batches at most stages * batch_size."},
    {"pipeline.order", DT_FIELD_TEXT, AT(pipeline.order), .choice = order_choice, .file_ending = ORDER_FILE_ENDING,
     .refused = refused_orders, .initial = "\"gpipe\"", .readers = READS_PIPELINE, .matters = of_a_pipeline,
     .description =
         "Order of forward and backward passes in a pipeline, as dtbench list describes each, or a file with a line of passes for "
         "each rank."},
    {"pipeline.virtual_stages", DT_FIELD_INT, AT(pipeline.virtual_stages), .min = 1, .max = ORDER_MOST_PARTS, .initial = "2",
     .readers = READS_PIPELINE, .matters = of_chosen_parts,
     .description = "interleaved: parts of the model on each rank, which has consecutive layers in each. When not given 2, or as many as "
                    "pipeline.split lists."},
    {"pipeline.split", DT_FIELD_TEXT, AT(pipeline.split), .choice = split_rule_name, .min = 0, .max = 4096,
     .most_numbers = SPLIT_MOST_POINTS, .initial = "\"balanced\"", .readers = READS_PIPELINE, .matters = of_a_pipeline,
     .description =
         "Which transformer blocks each stage has (with several parts of the model on each rank: each part). balanced: the slowest is as "
         "fast as it can be, by its floating-point operations; parameters: by their number, as the study does; or a list with the first "
         "block of each stage but the first: [4, 8] of 12 blocks makes three stages. The embedding is in the first, the head in the last."},
    {"pipeline.memory_limit", DT_FIELD_INT, AT(pipeline.memory_limit), .min = 0, .max = 65536, .initial = "0", .readers = READS_PIPELINE,
     .matters = of_free_orders,
     .description =
         "zb_auto, and files: micro-batches that a rank keeps at most; one that waits for its weight gradients alone counts half. "
         "0: pipeline.stages, as many as 1f1b; of a file any number."},
    {"pipeline.activation", DT_FIELD_TEXT, AT(pipeline.activation), .choice = activation_name, .words = ORDER_MOST_PARTS,
     .readers = READS_PIPELINE, .matters = of_a_pipeline,
     .description = "Where the order gives each rank several parts of the model: what is kept in each part, in place of activation, as in "
                    "[\"checkpoint\", \"keep\"]. Also as one word, checkpoint-keep."},
    {"pipeline.paradigms", DT_FIELD_ENUM, AT(pipeline.paradigms), .choice = pipeline_reach_name, .initial = "\"pdp\"",
     .readers = READS_PIPELINE, .matters = in_no_result,
     .description = "Whether the pipeline is pdp's alone (pdp), or goes with the config's other paradigms, too (all). When not given all "
                    "where the config has pipeline.stages, and pdp where it, or its sweep, names paradigm pdp: there each paradigm reads "
                    "its own keys."},
    {"fsdp.unit", DT_FIELD_ENUM, AT(fsdp.unit), .names = DT_NAMES([DT_UNIT_BLOCK] = "block", [DT_UNIT_LINEAR] = "linear", "auto"),
     .initial = "\"auto\"", .readers = READS_UNITS,
     .description = "fsdp, hsdp: what is gathered and freed at a time: a transformer block, or each linear layer. auto: block below "
                    "80e9 parameters, else linear."},
    {"fsdp.gather", DT_FIELD_ENUM, AT(fsdp.gather), .names = DT_NAMES([GATHER_EACH] = "micro_batch", [GATHER_ONCE] = "step"),
     .initial = "\"micro_batch\"", .readers = READS_UNITS,
     .description = "fsdp, hsdp: how often a unit is gathered. micro_batch: for each forward and each backward pass, and freed after it; "
                    "step: once, and kept from its first forward to its last backward pass of the step."},
    {"fsdp.prefetch", DT_FIELD_INT, AT(fsdp.prefetch), .min = 0, .max = 16, .initial = "1", .readers = READS_UNITS,
     .description = "fsdp, hsdp: units that are gathered ahead while one is computed. 0: a unit is gathered when all before it is "
                    "computed, to see what the overlap gains. On sim a profile may gather in turn, whatever this says."},
    {"hsdp.shard_size", DT_FIELD_INT, AT(hsdp.shard_size), .min = 0, .max = 65536, .initial = "0", .readers = READS_SHARD_GROUPS,
     .description = "hsdp: ranks that share one copy of the parameters, neighbours on the data axis; must divide world_size, or the number "
                    "of pipelines. 0: those of a node (all, on one machine)."},
    {"ddp.bucket_mib", DT_FIELD_NUMBER, AT(ddp.bucket_mib), .min = 0, .above = true, .max = 65536, .initial = "25",
     .readers = READS_BUCKETS, .description = "ddp, pdp, zero1, zero2, data_parallel: size of a gradient bucket, in MiB."},
    {"ddp.overlap", DT_FIELD_BOOL, AT(ddp.overlap), .max = 1, .initial = "true", .readers = READS_OVERLAP,
     .description =
         "The same paradigms and parameter_server: gradients are reduced while backward goes on. false: it waits for each bucket, to see "
         "what the overlap gains."},
    {"ddp.overlap_param_gather", DT_FIELD_BOOL, AT(ddp.overlap_param_gather), .max = 1, .initial = "false", .readers = READS_SHARES,
     .matters = of_late_gathers,
     .description =
         "zero1, zero2: updated parameters are gathered when the next step begins, bucket by bucket, while its forward pass runs "
         "(Megatron-LM's flag of that name). false: at the end of the step, which waits for them. Losses are the same. On sim a "
         "profile may gather at the end, whatever this says."},
    {"parameter_server.servers", DT_FIELD_INT, AT(parameter_server.servers), .min = 1, .max = 65536, .initial = "1",
     .readers = READS_SERVERS, .description = "parameter_server: ranks that own the parameters, and are workers too; at most world_size."},
    {"parameter_server.receives", DT_FIELD_INT, AT(parameter_server.receives), .min = 1, .max = 65536, .initial = "1",
     .readers = READS_SERVERS,
     .description = "parameter_server: workers whose gradients a server receives at a time, each into memory of its own."},
    {"parameter_server.staleness", DT_FIELD_INT, AT(parameter_server.staleness), .min = 0, .max = 16, .initial = "0",
     .readers = READS_SERVERS, .matters = of_late_updates,
     .description =
         "parameter_server: a step is computed with parameters that are this number of steps old, so that no worker waits for others "
         "that are behind by less. 0: all updates are there before a step begins. Losses are those of another training."},
    {"tensor.size", DT_FIELD_INT, AT(tensor.size), .min = 1, .max = 4096, .initial = "1",
     .description = "Ranks that share each layer (tensor parallelism), with every paradigm; must divide model.heads, and world_size. "
                    "They work on the same samples, batch_size for each of them together."},
    {"tensor.sequence_parallel", DT_FIELD_BOOL, AT(tensor.sequence_parallel), .max = 1, .initial = "true", .matters = of_tensor_groups,
     .description = "tensor.size above 1: between a layer's products each rank has its part of the rows of the residual stream instead "
                    "of all; tensor.size must divide model.block_size."},
    {"tensor.overlap", DT_FIELD_BOOL, AT(tensor.overlap), .max = 1, .initial = "false", .matters = of_overlapped_products,
     .description = "sim, tensor.size above 1 with sequence_parallel: a block's product runs while the rows that it reads are gathered, or "
                    "its results are summed, piece by piece (Megatron Core's tp_comm_overlap, PyTorch's asynchronous tensor parallelism): "
                    "both take as long as the longer one."},
    {"context.size", DT_FIELD_INT, AT(context.size), .min = 1, .max = 4096, .initial = "1", .matters = of_context_groups,
     .description = "Ranks that share the positions of each sample (context parallelism), with every paradigm that sums gradients over "
                    "equal ranks; they have batch_size samples together, and their gradients are summed with those of the data axis. "
                    "world_size is a multiple of it times pipeline.stages times tensor.size, model.block_size of twice it."},
    {"context.comm_type", DT_FIELD_ENUM, AT(context.comm_type), .choice = context_kind_name, .initial = "\"p2p\"",
     .matters = of_context_groups,
     .description = "context.size above 1: how these ranks come by each other's keys and values. p2p: they go "
                    "round a ring "
                    "beside attention (ring attention); all_gather: they are gathered before it; a2a: ranks exchange positions for heads "
                    "before attention, and "
                    "back after it (DeepSpeed Ulysses): context.size times tensor.size must divide model.heads and model.kv_heads."},
    {"activation", DT_FIELD_ENUM, AT(activation), .group = "Memory", .choice = activation_name, .initial = "\"keep\"",
     .description = "What is kept for backward. keep: all activations. checkpoint: the input of each segment of blocks; the rest is "
                    "recomputed. offload: the same, with these inputs in host memory. selective: all but what attention makes of q, k and "
                    "v, which is recomputed. core_attention: the same, but the heads' outputs are kept. selective_op: what attention and "
                    "every second product of a block make; the rest is recomputed, and fsdp.unit is block."},
    {"activation_blocks", DT_FIELD_INT, AT(activation_blocks), .min = 1, .max = 4096, .initial = "1",
     .description = "checkpoint, offload: transformer blocks of a segment."},
    {"activation_every", DT_FIELD_INT, AT(activation_every), .min = 1, .max = 4096, .initial = "1", .matters = of_rare_segments,
     .description =
         "checkpoint, offload: of every N segments of a rank's part of the model the last one keeps only its input, and all is kept of the "
         "others: with 2 every second block is recomputed (torchtitan's selective recomputation with a number). The head is as with 1."},
    {"keep_cheap", DT_FIELD_ENUM, AT(keep_cheap), /* the number of each name is what it keeps */
     .names = DT_NAMES("nothing", [DT_KEEP_NORMS] = "norms", [DT_KEEP_MLP] = "mlp", [DT_KEEP_NORMS | DT_KEEP_MLP] = "all"),
     .initial = "\"nothing\"", .matters = of_cheap_activations,
     .description = "What forward keeps although backward can make it again in one pass over memory. norms: the outputs of a block's two "
                    "norms, 2 d elements a token; of a convolutional network all norms' outputs. mlp: what the MLP's second product reads, "
                    "the output of GELU or SwiGLU, 4 d elements "
                    "(model.ffn). all: both. Backward then has fewer kernels, and no loss changes."},
    {"parameter_offload", DT_FIELD_BOOL, AT(parameter_offload), .max = 1, .initial = "false",
     .description = "Parameters, gradients and optimizer state are in host memory. Parameters are copied to the device one group "
                    "ahead of use, and the host updates them."},

    {"optimizer.name", DT_FIELD_ENUM, AT(optimizer.name), .group = "Loss and optimizer",
     .names = DT_NAMES([OPTIMIZER_SGD] = "sgd", [OPTIMIZER_ADAM] = "adam", [OPTIMIZER_ADAMW] = "adamw"), .initial = "\"sgd\"",
     .description = "sgd; adam; or adamw, whose weight decay is no part of the gradient. Moments and adam's master weights are fp32."},
    {"optimizer.learning_rate", DT_FIELD_NUMBER, AT(optimizer.learning_rate), .min = 0, .max = 1000, .costs_nothing = true,
     .description = "Learning rate; when not given 0.01 for sgd and 0.001 for adam and adamw."},
    {"optimizer.momentum", DT_FIELD_NUMBER, AT(optimizer.momentum), .min = 0, .max = 1, .below = true, .initial = "0",
     .matters = of_momentum,
     .description = "sgd: this part of the last step's sum of gradients is added to a step's; 4 bytes a parameter. 0: none."},
    {"optimizer.weight_decay", DT_FIELD_NUMBER, AT(optimizer.weight_decay), .min = 0, .max = 1000, .matters = of_weight_decay,
     .costs_nothing = true,
     .description =
         "sgd, adam: this part of each parameter is added to its gradient; adamw: times the learning rate, it is taken from the parameter. "
         "When not given 0.01 for adamw, else 0."},
    {"optimizer.decayed", DT_FIELD_ENUM, AT(optimizer.decayed), .matters = of_exclusions,
     .names = DT_NAMES([DECAYED_ALL] = "all", [DECAYED_ALL_BUT_NORMS] = "all_but_norms", [DECAYED_MATRICES] = "matrices"),
     .initial = "\"all\"",
     .description =
         "What weight_decay is for. all_but_norms: neither gains nor biases of norms, as torchvision's norm_weight_decay 0; matrices: "
         "weights and embeddings alone, as with its bias_weight_decay 0 beside it. Tensors with and without are updated by "
         "kernels of their own, so that there are more of them."},
    {"optimizer.clip_norm", DT_FIELD_NUMBER, AT(optimizer.clip_norm), .min = 0, .max = 1e30, .initial = "0", .matters = of_clipping,
     .description =
         "The norm over all gradients of a step, and all ranks, beyond which they are scaled down to it; no update is made before it "
         "is known. 0: gradients are taken as they are."},
    {"optimizer.master_weights", DT_FIELD_BOOL, AT(optimizer.master_weights), .max = 1, .matters = of_master_weights,
     .description = "Keep fp32 copies of the parameters, 4 bytes each, which the optimizer updates and the model's parameters are rounded "
                    "from. When not given true for adam and adamw, false for sgd."},
    {"optimizer.schedule", DT_FIELD_ENUM, AT(optimizer.schedule),
     .names = DT_NAMES([SCHEDULE_CONSTANT] = "constant", [SCHEDULE_LINEAR] = "linear", [SCHEDULE_COSINE] = "cosine"),
     .initial = "\"constant\"", .matters = of_schedules, .costs_nothing = true,
     .description =
         "How the learning rate goes down after its warm-up: constant, it does not; linear, in equal parts; cosine, as half a period."},
    {"optimizer.warmup_steps", DT_FIELD_INT, AT(optimizer.warmup_steps), .min = 0, .max = 1000000, .initial = "0", .matters = of_schedules,
     .costs_nothing = true,
     .description =
         "Steps in which the learning rate rises to its value, in equal parts; not those of steps.warmup, which are of the measurement."},
    {"optimizer.schedule_steps", DT_FIELD_INT, AT(optimizer.schedule_steps), .min = 0, .max = 2000000, .initial = "0", .matters = of_ends,
     .costs_nothing = true, .description = "Steps after which the schedule ends, its warm-up included; 0: all of the run's."},
    {"optimizer.final_rate", DT_FIELD_NUMBER, AT(optimizer.final_rate), .min = 0, .max = 1, .initial = "0", .matters = of_ends,
     .costs_nothing = true, .description = "Where the schedule ends: this part of the learning rate."},
    {"optimizer.scale_with_batch", DT_FIELD_ENUM, AT(optimizer.scale_with_batch),
     .names = DT_NAMES([SCALE_NONE] = "none", [SCALE_LINEAR] = "linear", [SCALE_ROOT] = "root"), .initial = "\"none\"",
     .matters = of_scaled_rates, .costs_nothing = true,
     .description =
         "Whether learning_rate is the one for a step of base_batch samples, and is multiplied by the ratio of this run's batch to that "
         "(linear), or by its root (root)."},
    {"optimizer.base_batch", DT_FIELD_INT, AT(optimizer.base_batch), .min = 1, .max = 1073741824, .initial = "256",
     .matters = of_scaled_rates, .costs_nothing = true,
     .description = "scale_with_batch: samples of a step over all ranks for which learning_rate is meant."},
    {"optimizer.beta1", DT_FIELD_NUMBER, AT(optimizer.beta1), .min = 0, .max = 1, .below = true, .initial = "0.9", .matters = of_adam,
     .costs_nothing = true, .description = "adam: decay rate of the first moment."},
    {"optimizer.beta2", DT_FIELD_NUMBER, AT(optimizer.beta2), .min = 0, .max = 1, .below = true, .initial = "0.999", .matters = of_adam,
     .costs_nothing = true, .description = "adam: decay rate of the second moment."},
    {"optimizer.epsilon", DT_FIELD_NUMBER, AT(optimizer.epsilon), .min = 0, .above = true, .max = 1, .initial = "1e-8", .matters = of_adam,
     .costs_nothing = true, .description = "adam: added to the root of the second moment."},
    {"data.source", DT_FIELD_TEXT, AT(data.source), .group = "Data", .min = 1, .max = 511, .initial = "\"random\"", .matters = of_data,
     .description =
         "Where samples come from. random: tokens or images are drawn as they are needed. Otherwise a file of token ids or of images, "
         "which is looked for as a cluster file is: of ids sample i are the block_size from i * block_size on, and the one after them."},
    {"data.ids", DT_FIELD_ENUM, AT(data.ids), .names = DT_NAMES([IDS_UINT16] = "uint16", [IDS_UINT32] = "uint32"), .initial = "\"uint16\"",
     .matters = of_data, .description = "Type of the ids in a file of tokens, the lowest byte first."},
    {"data.shuffle", DT_FIELD_BOOL, AT(data.shuffle), .max = 1, .initial = "true", .matters = of_data,
     .description = "Each epoch has the file's samples in an order of its own, which seed says; false: as they are in the file."},
    {"data.last", DT_FIELD_ENUM, AT(data.last), .names = DT_NAMES([DT_LAST_DROPPED] = "drop", [DT_LAST_PADDED] = "pad"),
     .initial = "\"drop\"", .matters = of_data,
     .description = "An epoch's last step, where it is not full. drop: its samples are left out of this epoch; pad: the first ones of the "
                    "epoch's order come again."},
    {"checkpoint.path", DT_FIELD_TEXT, AT(checkpoint.path), .group = "Checkpoints", .max = 511, .initial = "\"\"",
     .description =
         "Folder to which the run saves its state, of one run at a time; every rank must reach it. Not given: nothing is saved."},
    {"checkpoint.save_every", DT_FIELD_INT, AT(checkpoint.save_every), .min = 0, .max = 1000000, .initial = "0", .matters = of_checkpoints,
     .description =
         "Steps after which a checkpoint is saved, again and again; 0: after the last step alone. A run that is stopped by a signal "
         "saves one in any case."},
    {"checkpoint.asynchronous", DT_FIELD_BOOL, AT(checkpoint.asynchronous), .max = 1, .initial = "false", .matters = of_checkpoints,
     .description =
         "What each rank saves is copied to host memory during the forward passes of the next step, and written by a thread after it. "
         "The save after the last step is waited for."},
    {"checkpoint.from", DT_FIELD_TEXT, AT(checkpoint.from), .max = 511, .initial = "\"\"",
     .description =
         "Folder of the checkpoint with which the run goes on, after the step in which it was saved; auto: that of checkpoint.path, if "
         "there is one yet. It may be of another world_size, paradigm or division; or a Hugging Face folder, whose parameters the run "
         "begins "
         "with. Not given: the run begins anew."},
    {"loss", DT_FIELD_ENUM, AT(loss), .names = DT_NAMES([LOSS_CROSS_ENTROPY] = "cross_entropy", [LOSS_SUM] = "sum"),
     .initial = "\"cross_entropy\"",
     .description =
         "cross_entropy of the next token, its mean over the step's tokens; or the plain sum of a sample's logits, its mean over the "
         "samples, as in the study."},
    {"loss_scaling", DT_FIELD_NUMBER, AT(loss_scaling), .min = 0, .above = true, .max = 4294967296, .word = "dynamic",
     .word_number = LOSS_SCALING_DYNAMIC,
     .description = "The loss's gradient is multiplied by it, and the optimizer divides by it. When not given 65536 for fp16 with "
                    "cross_entropy, else 1. dynamic: by a number that grows while all gradients are finite; a step in which some are not "
                    "makes no update, on no rank, and the number shrinks."},
    {"dynamic_loss_scale.initial", DT_FIELD_NUMBER, AT(dynamic_loss_scale.initial), .min = 0, .above = true, .max = 4294967296,
     .initial = "65536", .matters = of_dynamic_scaling, .description = "loss_scaling dynamic: what it begins with."},
    {"dynamic_loss_scale.growth", DT_FIELD_NUMBER, AT(dynamic_loss_scale.growth), .min = 1, .max = 65536, .initial = "2",
     .matters = of_dynamic_scaling, .description = "loss_scaling dynamic: by what it is multiplied when it grows."},
    {"dynamic_loss_scale.backoff", DT_FIELD_NUMBER, AT(dynamic_loss_scale.backoff), .min = 0, .above = true, .max = 1, .below = true,
     .initial = "0.5", .matters = of_dynamic_scaling,
     .description = "loss_scaling dynamic: by what it is multiplied after a step whose gradients were not all finite."},
    {"dynamic_loss_scale.window", DT_FIELD_INT, AT(dynamic_loss_scale.window), .min = 1, .max = 1000000, .initial = "2000",
     .matters = of_dynamic_scaling,
     .description = "loss_scaling dynamic: it grows after this number of steps whose gradients were finite."},
    {"fused_kernels", DT_FIELD_BOOL, AT(fused_kernels), .group = "The run", .max = 1, .initial = "true", .matters = of_separate_kernels,
     .description =
         "cuda: one kernel does the work of several where there is one: the residual stream's sum and the norm after it, a norm's "
         "gradient and that of the branch before it, GELU's gradient and that of the bias before it, GELU's tanh form and the "
         "product before it, attention's gradient and rope's. false: one after the other, to measure what that gains."},
    {"early_launch", DT_FIELD_BOOL, AT(early_launch), .max = 1, .initial = "false", .matters = of_early_launch,
     .description = "cuda: a kernel is launched while the kernel before it runs, and waits for its end (programmatic dependent launch), "
                    "in graphs too. "
                    "Needs compute capability 9.0 and a build with -Dgpu_target=hopper. What that gains is not measured yet."},
    {"warpgroup_kernels", DT_FIELD_ENUM, AT(warpgroup_kernels),
     .names = DT_NAMES([DT_WARPGROUPS_AUTO] = "auto", [DT_WARPGROUPS_NEVER] = "never", [DT_WARPGROUPS_ALWAYS] = "always"),
     .booleans = never_or_always, .initial = "\"auto\"", .matters = of_warpgroups,
     .description =
         "cuda: Hopper's products of warpgroups and its tensor copies (wgmma, TMA) where a kernel has them: attention's forward and "
         "backward, fused, with heads of 8 to 128 columns in eights, and the gradient through exact GELU with its product; in fp16 and "
         "bf16. auto: on GPUs of compute capability 9.0, each kernel if in a trial before the first step it gives on every rank what the "
         "kernels of all GPUs give. never (false). always (true): without the trial; other GPUs are refused. No GPU has run them yet."},
    {"spared_multiprocessors", DT_FIELD_INT, AT(spared_multiprocessors), .min = 0, .max = 1000, .initial = "0", .matters = of_spared,
     .description = "cuda: multiprocessors that matrix products leave to concurrent kernels (SM_COUNT_TARGET of cuBLASLt), such as NCCL's "
                    "collectives, which NCCL_MAX_CTAS in nccl limits. What that gains is not measured yet."},
    {"graph", DT_FIELD_BOOL, AT(graph), .max = 1, .initial = "true", .matters = of_gpus,
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
    {"seed", DT_FIELD_U64, AT(seed), .min = 0, .max = 9007199254740991, .initial = "1", .costs_nothing = true,
     .description = "Seed of initial weights, tokens and dropout masks."},
    {"steps.warmup", DT_FIELD_INT, AT(steps.warmup), .min = 0, .max = 1000000, .initial = "4",
     .description = "Steps before the timed ones."},
    {"steps.warmup_s", DT_FIELD_NUMBER, AT(steps.warmup_s), .min = 0, .max = 3600, .initial = "0", .matters = of_timed_warmup,
     .description =
         "Seconds of warm-up: beyond steps.warmup there are more steps before the timed ones until the slowest rank has spent this time in "
         "them. Clocks of a GPU that was idle are low for a second or two."},
    {"steps.timed", DT_FIELD_INT, AT(steps.timed), .min = 1, .max = 1000000, .initial = "4", .description = "Timed steps."},
    {"steps.epochs", DT_FIELD_INT, AT(steps.epochs), .min = 0, .max = 1000000, .initial = "0", .matters = of_epochs,
     .description = "Epochs of data.source, warm-up included, instead of steps.timed; 0: as many steps as that says."},
    {"timeout.init_s", DT_FIELD_NUMBER, AT(timeout.init_s), .min = 0, .max = 1e6, .initial = "120", .costs_nothing = true,
     .description =
         "Seconds until all ranks must be connected; 0: no limit. When not given 120, and in worlds of more ranks than that one for each "
         "rank: they all load their libraries from one file system."},
    {"timeout.step_s", DT_FIELD_NUMBER, AT(timeout.step_s), .min = 0, .max = 1e6, .initial = "600", .costs_nothing = true,
     .description = "Seconds that one step, or one wait for another rank, may take; 0: no limit."},
    {"nccl", DT_FIELD_SETTINGS, AT(nccl), .prefix = "NCCL_", .matters = of_gpus,
     .description = "cuda: NCCL's own settings by their names, such as NCCL_ALGO; they replace what is in the ranks' environment."},
    {"register_buffers", DT_FIELD_BOOL, AT(register_buffers), .max = 1, .initial = "false", .matters = of_gpus,
     .description =
         "cuda: buffers are NCCL's own memory and registered with it, so that it needs no copies of its own in between. What that "
         "gains is not measured yet. Needs NCCL 2.19."},
    {"tuning", DT_FIELD_TEXT, AT(tuning), .max = 511, .initial = "\"\"", .matters = of_gpus,
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
    {"cluster", DT_FIELD_TEXT, AT(cluster), .group = "Simulation", .min = 1, .max = 127, .matters = of_predictions,
     .description = "sim: file that describes the hardware, or the name of one that comes with dtbench (gcp_a2); clusters/dgx_a100.json "
                    "when not given."},
    {"profile", DT_FIELD_TEXT, AT(profile), .min = 1, .max = 127, .matters = of_predictions,
     .description = "sim: file that describes the costs of the software, or the name of one that comes with dtbench; when not given the "
                    "one that the cluster file names, or else "
                    "profiles/pytorch_1.11_a100.json."},
    {"rates", DT_FIELD_TEXT, AT(rates), .max = 511, .initial = "\"\"", .matters = of_rates,
     .description = "sim: file of measured collectives, matrix products or attention, which are predicted by it where it tells: what "
                    "nccl-tests prints, or "
                    "comma-separated values (docs/simulator.md); several with ':' between them."},
    {"any_profile", DT_FIELD_BOOL, AT(any_profile), .max = 1, .initial = "false", .matters = of_predictions,
     .description = "sim: the profile may be one for another GPU than the cluster's; the predictions are then for neither."},
    {"more_nodes", DT_FIELD_BOOL, AT(more_nodes), .max = 1, .initial = "false", .matters = of_predictions,
     .description =
         "sim: a cluster of several nodes may have more of them than its file says, in the same network, as many as world_size needs."},
    {"network.gbit_per_s", DT_FIELD_NUMBER, AT(network.gbit_per_s), .min = 0, .max = 1e6, .initial = "0", .matters = of_predictions,
     .description =
         "sim: Gbit/s that each network card of a node is sold with, instead of the cluster file's. Rates of flows follow: what was "
         "measured on the file's cards keeps its relation to what the transport (sockets, RDMA) makes of a label. 0: the file's."},
    {"network.latency_us", DT_FIELD_NUMBER, AT(network.latency_us), .min = -1, .max = 1e6, .initial = "-1", .matters = of_predictions,
     .description = "sim: microseconds of a message between nodes beyond what the library's own table has for its network, instead of the "
                    "cluster file's. -1: the file's."},
    {"slow.by", DT_FIELD_NUMBER, AT(slow.by), .min = 0, .max = 1, .below = true, .initial = "0", .matters = of_slow_parts,
     .description = "sim: one GPU, link or card is slower than its like: the part of its rate that it lacks; 0.1: it does 90 % of what the "
                    "others do in a second. 0: all are equal."},
    {"slow.rank", DT_FIELD_INT, AT(slow.rank), .min = 0, .max = 65535, .initial = "0", .matters = of_slow_parts,
     .description = "sim: the rank whose hardware that is."},
    {"slow.part", DT_FIELD_ENUM, AT(slow.part),
     .names = DT_NAMES([SLOW_GPU] = "gpu", [SLOW_NODE] = "node", [SLOW_LINK] = "link", [SLOW_CARD] = "card"), .initial = "\"gpu\"",
     .matters = of_slow_parts,
     .description =
         "sim: what is slow: the rank's GPU, all GPUs of its node, its link to the node's other GPUs (NVLink, or PCI Express where "
         "there is none), or the network card that it uses."},
};

/* ---- with the keys of the families ---- */

enum { FIELDS_MAX = 256, SECTIONS_MAX = 32, REPLACED_MAX = 128, RULES_BYTES = 1024 };

/* The rows above with those of each family among them, made once. */
static struct {
    pthread_once_t once;
    struct dt_field fields[FIELDS_MAX];
    const struct dt_model_family *families[FIELDS_MAX]; /* the family that has the field; NULL: all families */
    const char *replaced[REPLACED_MAX];                 /* keys that model.preset and model.from replace */
    struct dt_schema_section sections[SECTIONS_MAX];
    char rules[RULES_BYTES], model_rules[RULES_BYTES]; /* as JSON Schema */
    struct dt_table table;
} all = {.once = PTHREAD_ONCE_INIT};

static void add(const struct dt_field *field, const struct dt_model_family *family, size_t offset)
{
    int at = all.table.count++;
    all.fields[at] = *field;
    all.fields[at].offset += offset;
    all.families[at] = family;
}

/* Add keys [first, end) of each family. */
static void add_keys(bool before_dtype)
{
    struct dt_model place;
    for (int f = 0; model_family(f); f++) {
        const struct dt_model_family *family = model_family(f);
        model_set_family(&place, family);
        assert(place.own_at + family->own_bytes <= DT_MODEL_OWN_BYTES && family->key_count <= DT_MODEL_KEYS_MAX);
        for (int i = before_dtype ? 0 : family->first_keys; i < (before_dtype ? family->first_keys : family->key_count); i++)
            add(&family->keys[i], family, offsetof(struct experiment, model.own) + (size_t)place.own_at);
    }
}

static void join_fields(void)
{
    int replaced = 0;
    all.replaced[replaced++] = "model.preset";
    all.replaced[replaced++] = "model.from";
    for (int f = 0; model_family(f); f++)
        for (const char *const *path = model_family(f)->shape; *path; path++)
            all.replaced[replaced++] = *path;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        bool dtype = strcmp(fields[i].path, "model.dtype") == 0;
        if (dtype)
            add_keys(true);
        add(&fields[i], NULL, 0);
        if (dtype)
            add_keys(false);
        if (strcmp(fields[i].path, "model.preset") == 0 || strcmp(fields[i].path, "model.from") == 0)
            all.fields[all.table.count - 1].replaces = all.replaced;
    }
    all.table.fields = all.fields;
    assert(all.table.count <= FIELDS_MAX && replaced < REPLACED_MAX);
}

const struct dt_model_family *experiment_field_family(const struct dt_field *field)
{
    return all.families[field - all.fields];
}

static const struct dt_schema_section sections[] = {
    {"", "One experiment, or a sweep of them. dtbench also checks what no schema can express, such as that heads divides hidden.", NULL},
    {"model", "The model: a preset, or sizes (of a decoder layers, heads and hidden).", NULL},
    {"mesh", "How the ranks are laid out.", NULL},
    {"pipeline", "The pipeline, where there is one.", NULL},
    {"fsdp", "Options of paradigms fsdp and hsdp.", NULL},
    {"hsdp", "Options of paradigm hsdp.", NULL},
    {"ddp", "Options of paradigms with gradient buckets.", NULL},
    {"parameter_server", "Options of paradigm parameter_server.", NULL},
    {"tensor", "Tensor parallelism.", NULL},
    {"context", "Context parallelism.", NULL},
    {"network", "The simulated cluster's network, where it differs from the cluster file's.", NULL},
    {"slow", "A simulated GPU, link or card that is slower than its like.", NULL},
    {"optimizer", "The optimizer.", NULL},
    {"data", "Where samples come from.", NULL},
    {"checkpoint", "What is saved of a run, and where it goes on.", NULL},
    {"steps", "How many steps.", NULL},
    {"timeout", "How long to wait.", NULL},
    {0},
};

/* Rules of the schema: a model has a preset or the sizes of one family, but not both. */
static void write_rules(void)
{
    size_t model = sizeof all.model_rules, whole = sizeof all.rules, used = 0, taken = 0;
    used += (size_t)snprintf(all.rules, whole,
                             "{\"if\": {\"not\": {\"required\": [\"sweep\"]}},\"then\": {\"required\": [\"model\"],"
                             "\"properties\": {\"model\": {\"anyOf\": [{\"required\": [\"preset\"]}, {\"required\": [\"from\"]}");
    taken += (size_t)snprintf(all.model_rules, model, "{\"if\": {\"required\": [\"preset\"]}, \"then\": {\"properties\": {\"from\": false");
    for (int f = 0; model_family(f); f++) {
        used += (size_t)snprintf(all.rules + used, whole - used, ", {\"required\": [");
        const char *last = "";
        for (int i = 0; i < model_family(f)->sizes; i++) { /* sizes in one object are one property, whose own rules check the members */
            const char *key = model_family(f)->keys[i].path + strlen("model.");
            int length = (int)strcspn(key, ".");
            if (strncmp(key, last, (size_t)length + 1) == 0)
                continue;
            used += (size_t)snprintf(all.rules + used, whole - used, "%s\"%.*s\"", *last ? ", " : "", length, key);
            taken += (size_t)snprintf(all.model_rules + taken, model - taken, ", \"%.*s\": false", length, key);
            last = key;
        }
        used += (size_t)snprintf(all.rules + used, whole - used, "]}");
    }
    snprintf(all.rules + used, whole - used, "]}}}}");
    snprintf(all.model_rules + taken, model - taken, "}}}");
}

static void join_sections(void)
{
    int count = 0;
    write_rules();
    for (const struct dt_schema_section *s = sections; s->path; s++) {
        struct dt_schema_section *to = &all.sections[count++];
        *to = *s;
        if (strcmp(s->path, "") == 0)
            to->rules = all.rules;
        if (strcmp(s->path, "model") != 0)
            continue;
        to->rules = all.model_rules;
        for (int f = 0; model_family(f); f++)
            for (const struct dt_schema_section *own = model_family(f)->sections; own && own->path; own++)
                all.sections[count++] = *own;
    }
}

static void join(void)
{
    join_fields();
    join_sections();
}

const struct dt_table *experiment_table(void)
{
    pthread_once(&all.once, join);
    return &all.table;
}

const struct dt_schema *experiment_schema(void)
{
    static const struct dt_schema schema = {.title = "dtbench config", .table = &all.table, .sections = all.sections, .sweeps = true};
    (void)experiment_table();
    return &schema;
}
