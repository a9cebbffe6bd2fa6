/* What a framework of the past does besides dtbench's schedules: changes to a rank's plan, and bytes that it holds.
 *
 * dtbench's own plans never contain any of it. A simulation whose profile asks for it (lib/cost/profile.h, `schedule`) gives it to the
 * trainers that it records. PyTorch 1.11, whose behaviour this is:
 *
 *   keeps_last_chunk           Of a pipeline's chunks all but the last keep no more than their stage's input; their forward is computed again
 *                              before their backward. Source: Kim et al., "torchgpipe: On-the-fly Pipeline Parallelism for Training Giant
 *                              Models", 2020, section 3.2: checkpoint except_last.
 *   holds_last_chunk           The last chunk's output is held twice, and for a moment all chunks' outputs are put together.
 *   separate_first_gradients   DDP learns the order of the gradients in its first step: until its end they exist beside the buckets.
 *   gathers_outputs            DataParallel gathers the replicas' outputs on the root, where the loss is computed, and scatters their
 *                              gradients. The root's loss of the others' outputs costs nothing. Source: PyTorch 1.11,
 *                              torch/nn/parallel/data_parallel.py and scatter_gather.py.
 *   flattening_copies          FSDP brings a unit's gradients into one piece before they are reduced.
 *   gathers_in_turn            FSDP gathers a unit when its turn comes, never ahead, and frees it after each use.
 *   gathers_layers             FSDP's units are the inner layers (simulated_system_apply).
 *   whole_head                 Under checkpoint and offload the head is computed again (FSDP: kept), and its logits are whole.
 *   offloads_in_turn           Activations are copied to host memory among the kernels, not beside them.
 *
 * PyTorch 2's context_parallel of December 2024, under torch.compile:
 *
 *   key_pieces                 With context.comm_type all_gather, keys and values are repeated for each query head, and gathered so. Attention goes
 *                              over one rank's of them after another and joins what it makes. In backward the sums of their gradients go round
 *                              in fp32, after each piece to the next rank. What is traced waits for each collective where it calls it, so that
 *                              none of them runs while attention does.
 *                              Source: PyTorch, torch/distributed/tensor/experimental/_attention.py (_templated_ring_attention and its backward),
 *                              _functional_collectives.py (_maybe_wrap_tensor); pytorch/torchtitan, torchtitan/models/llama/model.py (repeat_kv).
 *
 * Others:
 *
 *   sums_in_turn               Tensor parallelism as autograd has it where nobody has put the sum beside the weight gradients: a product's backward
 *                              ends, and what copied its input to all ranks sums the gradient; of SwiGLU's two products (2) each has such a copy.
 *                              Source: Aleph-Alpha/scaling, src/scaling/core/nn/linear/column_parallel_linear.py and mlp.py.
 *
 * Products in FP8 (lib/cost/fp8.h), whatever the profile:
 *
 *   casts that are kept        FP8 copies of the weights, also transposed, which all micro-batches of a step use.
 *   amaxes                     Delayed scaling takes the largest of all ranks that have the same layers or parts of them, after each forward and
 *                              each backward; fsdp that gathers FP8 those of all shards, once a step.
 *                              Source: TransformerEngine, pytorch/fp8.py (reduce_and_update_fp8_tensors) and module/base.py (get_weight_workspace);
 *                              pytorch/ao, torchao/float8/fsdp_utils.py (precompute_float8_dynamic_scale_for_fsdp).
 *
 * nanotron of January 2025:
 *
 *   fills_stages               framework_fill_stages.
 *   wide_gradients             Gradients in 16 bits are reduced in 32.
 *   copies_shares              ZeRO-1 puts every rank's share of a bucket's gradients into a piece of its own, and PyTorch these into
 *                              one, before it reduces them. Parameters are gathered once, after the optimizer, into a piece for each rank,
 *                              and every rank's share of every tensor (here: of every layer) is copied to its place: so many small copies
 *                              that the host takes longer than the device. Where ranks share layers all streams share one queue
 *                              (CUDA_DEVICE_MAX_CONNECTIONS=1), and kernels come after what waits for a reduction.
 *                              Source: huggingface/nanotron, src/nanotron/distributed.py (reduce_scatter_coalesced, all_gather_coalesced),
 *                              optim/gradient_accumulator.py, optim/zero.py, parallel/utils.py; PyTorch 2.x, ProcessGroupNCCL.cpp:
 *                              reduce_scatter and allgather of lists of tensors. */
#ifndef PREDICT_FRAMEWORK_H
#define PREDICT_FRAMEWORK_H

#include "lib/cost/cost.h"
#include "schedules/run/trainer.h"

struct framework;

/* The experiment and the profile outlive it. Errors: DT_ERR_HOST_MEMORY. */
dt_status framework_create(const struct experiment *experiment, const struct dt_profile *profile, struct framework **out);
void framework_destroy(struct framework *framework); /* after the trainer; takes NULL */
const struct trainer_options *framework_options(const struct framework *framework);

/* nanotron's stages: walk the pieces (embedding, each block, final norm, head), add up floating-point operations, close a stage when the
 * total passes the next multiple of total / stages. first_layer [stages + 1], as experiment_partition gives it.
 * DT_ERR_UNAVAILABLE: that leaves two of the last stages or more empty. One it may: there nanotron casts the logits, a piece that is none
 * here; the last stage of several pieces before the head's is divided instead, if there is one.
 * Source  huggingface/nanotron, src/nanotron/models/base.py, build_model. Its weights there leave out attention's squares; with them the
 * rule gives the stages that the rows of results/validation/ultrascale_playbook.csv show. */
dt_status framework_fill_stages(const struct experiment *experiment, int stages, int *first_layer);

#endif
