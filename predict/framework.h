/* What other frameworks do differently from dtbench's schedules: changes to a rank's plan, and
 * further memory. dtbench's own plans contain none of this. A simulation whose profile asks for it
 * (lib/cost/profile.h, `schedule`) applies it to the trainers that it records.
 *
 * PyTorch 1.11:
 *
 *   keeps_last_chunk           All chunks of a pipeline but the last keep only their stage's input;
 *                              their forward is recomputed before their backward. Source: Kim et
 *                              al., "torchgpipe: On-the-fly Pipeline Parallelism for Training Giant
 *                              Models", 2020, section 3.2: checkpoint except_last.
 *   holds_last_chunk           The last chunk's output exists twice, and temporarily all chunks'
 *                              outputs are in one buffer.
 *   separate_first_gradients   DDP learns the order of the gradients in its first step: until the
 *                              step's end they exist outside the buckets.
 *   gathers_outputs            DataParallel gathers the replicas' outputs on the root, where the
 *                              loss is computed, and scatters their gradients. The time of the
 *                              root's loss of the other ranks' outputs is neglected. Source:
 *                              PyTorch 1.11, torch/nn/parallel/data_parallel.py and
 *                              scatter_gather.py.
 *   flattening_copies          FSDP copies a unit's gradients into one buffer before they are
 *                              reduced.
 *   gathers_in_turn            FSDP gathers a unit immediately before its use, never ahead, and
 *                              frees it after each use.
 *   gathers_layers             FSDP's units are the inner layers (simulated_system_apply).
 *   whole_head                 Under checkpoint and offload the head is computed again (FSDP:
 *                              kept), and its logits are whole.
 *   offloads_in_turn           Activations are copied to host memory in turn with kernels, not
 *                              concurrently.
 *
 * PyTorch 2's context_parallel of December 2024, under torch.compile:
 *
 *   key_pieces                 With context.comm_type all_gather, keys and values are repeated for
 *                              each query head before they are gathered. Attention runs on one
 *                              rank's keys after another's, and joins the results. In backward the
 *                              sums of their gradients are sent in fp32 to the next rank after each
 *                              piece. Compiled code waits for each collective where it calls it, so
 *                              that no collective overlaps with attention. Source: PyTorch,
 *                              torch/distributed/tensor/experimental/_attention.py
 *                              (_templated_ring_attention and its backward),
 *                              _functional_collectives.py (_maybe_wrap_tensor); pytorch/torchtitan,
 *                              torchtitan/models/llama/model.py (repeat_kv).
 *
 * Others:
 *
 *   sums_in_turn               Tensor parallelism by plain autograd, which does not overlap the sum
 *                              with weight gradients: a product's backward ends before the gradient
 *                              of its input is summed over ranks. With 2, each of SwiGLU's two
 *                              products has its own sum. Source: Aleph-Alpha/scaling,
 *                              src/scaling/core/nn/linear/column_parallel_linear.py and mlp.py.
 *   divides_messages           Without sequence parallelism all ranks that share a layer have the same
 *                              activations between stages. Each sends its part of them, or of their
 *                              gradients, to the next stage, whose ranks gather the parts before
 *                              they go on. Source: Narayanan et al., "Efficient Large-Scale Language
 *                              Model Training on GPU Clusters Using Megatron-LM", SC21, section 4.1;
 *                              deepspeedai/DeepSpeed, deepspeed/runtime/pipe/engine.py
 *                              (is_pipe_partitioned, is_grad_partitioned) and runtime/utils.py
 *                              (PartitionedTensor.full).
 *   recomputes_outputs         Checkpointing runs the whole forward again. This includes a block's
 *                              last product and, with tensor parallelism, its sum, though backward
 *                              reads neither. PyTorch without reentrant autograd stops earlier since
 *                              version 2.1. Source: PyTorch, torch/utils/checkpoint.py
 *                              (CheckpointFunction.backward, set_checkpoint_early_stop); Megatron-LM,
 *                              megatron/core/tensor_parallel/random.py; Aleph-Alpha/scaling,
 *                              src/scaling/core/nn/parallel_module/activation_checkpointing.py.
 *   recomputes_keys            activation selective_op: q, k and v are three products, the first of a
 *                              block, so that every second product is also k's. What is kept of q
 *                              and v is their products' output, so that rope is computed again.
 *                              Memory is counted as dtbench's: k is kept, too. Source:
 *                              pytorch/torchtitan, torchtitan/parallelisms/parallelize_llama.py
 *                              (_save_list, _custom_policy) and torchtitan/models/llama/model.py.
 *
 *   stage_buffers              A stage of a pipeline has a buffer for the input and for the output's
 *                              gradient of each micro-batch of a step, and holds the outputs of all
 *                              of them until the next step; the last stage's are the logits. Source:
 *                              PyTorch of December 2024, torch/distributed/pipelining/stage.py
 *                              (args_recv_info, grad_recv_info, output_chunks); pytorch/pytorch
 *                              153383, since which only the last stage holds its outputs.
 *
 * Products in FP8 (lib/cost/fp8.h), whatever the profile:
 *
 *   casts that are kept        FP8 copies of the weights, also transposed, which all micro-batches
 *                              of a step use; with fp8.gather ZeRO's parameters are these copies.
 *   amaxes                     Delayed scaling takes the maximum over all ranks with the same
 *                              layers, or parts of them, after each forward and each backward; fsdp
 *                              that gathers FP8 takes the maximum over all shards, once a step.
 *                              Source: TransformerEngine, pytorch/fp8.py
 *                              (reduce_and_update_fp8_tensors) and module/base.py
 *                              (get_weight_workspace); pytorch/ao, torchao/float8/fsdp_utils.py
 *                              (precompute_float8_dynamic_scale_for_fsdp); Megatron-LM,
 *                              core/fp8_utils.py (quantize_param_shard).
 *
 * nanotron of January 2025:
 *
 *   fills_stages               framework_fill_stages.
 *   wide_gradients             Gradients in 16 bits are reduced in 32.
 *   copies_shares              ZeRO-1 copies every rank's share of a bucket's gradients into a
 *                              separate buffer, and PyTorch copies these into one, before they are
 *                              reduced. Parameters are gathered once, after the optimizer, into a
 *                              buffer for each rank, and every rank's share of every tensor (here:
 *                              of every layer) is copied to its place. The host takes longer to
 *                              queue these many small copies than the device to run them. With
 *                              tensor parallelism all streams share one queue
 *                              (CUDA_DEVICE_MAX_CONNECTIONS=1), so kernels wait for operations that
 *                              wait for a reduction. Source: huggingface/nanotron,
 *                              src/nanotron/distributed.py (reduce_scatter_coalesced,
 *                              all_gather_coalesced), optim/gradient_accumulator.py, optim/zero.py,
 *                              parallel/utils.py; PyTorch 2.x, ProcessGroupNCCL.cpp: reduce_scatter
 *                              and allgather of lists of tensors. */
#pragma once

#include "lib/cost/cost.h"
#include "schedules/run/trainer.h"

struct framework;

/* The experiment and the profile outlive it. Errors: DT_ERR_HOST_MEMORY. */
dt_status framework_create(const struct experiment *experiment, const struct dt_profile *profile, struct framework **out);
void framework_destroy(struct framework *framework); /* call it after the trainer is destroyed; takes NULL */
const struct trainer_options *framework_options(const struct framework *framework);

/* nanotron's stages: walk the pieces (embedding, each block, final norm, head), add up
 * floating-point operations, close a stage when the total passes the next multiple of total /
 * stages. first_layer [stages + 1], as experiment_partition gives it. DT_ERR_UNAVAILABLE: two or
 * more of the last stages would be empty. One empty stage is allowed: nanotron casts the logits
 * there, which is not a piece here. Instead, the last stage before the head's that has several
 * pieces is divided, if there is one.
 * Source  huggingface/nanotron, src/nanotron/models/base.py, build_model. Its weights leave out
 * attention's quadratic operations; with these the rule gives the stages in the rows of
 * results/validation/ultrascale_playbook.csv. */
dt_status framework_fill_stages(const struct experiment *experiment, int stages, int *first_layer);
