#include "gpt/family.h"
#include "gpt/kernel_set.h"
#include "gpt/layout.h"
#include "gpt/model.h"
#include "gpt/partition.h"
#include "gpt/stage.h"

const struct dt_model_family gpt_family = {
    .name = "gpt",
    .presets = gpt_presets,
    .check_model = gpt_check_model,
    .parameter_count = gpt_parameter_count,
    .step_flops = gpt_step_flops,
    .causal_step_flops = gpt_causal_step_flops,
    .flops_formula = gpt_flops_formula,
    .partition = gpt_partition,
    .block_layer = gpt_block_layer,
    .block_columns = gpt_block_columns,
    .layers_size = gpt_layers_size,
    .check_tensor_group = gpt_cut_check,
    .tensor_copies = gpt_cut_copies,
    .tensor_ranks_alike = gpt_cut_alike,
    .kernels_available = gpt_kernels_available,
    .cpu_dtype_native = gpt_cpu_dtype_native,
    .kernels_create = gpt_kernel_set_create,
    .kernels_destroy = gpt_kernel_set_destroy,
    .products = gpt_kernel_set_products,
    .tuner = &gpt_tuner,
    .begin_step = gpt_kernel_set_begin_step,
    .step_overflows = gpt_kernel_set_overflows,
    .trace_kernels = gpt_kernel_set_trace,
    .update = gpt_kernel_set_update,
    .add = gpt_kernel_set_add,
    .stage_create = gpt_stage_create,
    .stage_destroy = gpt_stage_destroy,
    .stream_elems = gpt_stream_elems,
    .init_params = gpt_init_params,
    .stash_create = gpt_stash_create,
    .stash_destroy = gpt_stash_destroy,
    .stash_begin = gpt_stash_begin,
    .stash_end = gpt_stash_end,
    .stash_forget = gpt_stash_forget,
    .forward = gpt_forward,
    .backward = gpt_backward,
    .recompute = gpt_recompute,
    .forward_backward = gpt_forward_backward,
};
