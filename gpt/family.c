#include "gpt/family.h"
#include "gpt/data.h"
#include "gpt/hugging_face_config.h"
#include "gpt/hugging_face_tensors.h"
#include "gpt/kernel_set.h"
#include "gpt/kernels.h"
#include "gpt/keys.h"
#include "gpt/layout.h"
#include "gpt/model.h"
#include "gpt/partition.h"
#include "gpt/stage.h"

#include <stdio.h>
#include <string.h>

const struct dt_model_family gpt_family = {
    .name = "gpt",
    .presets = gpt_presets,
    .keys = gpt_keys,
    .key_count = GPT_KEYS,
    .sizes = GPT_SIZES,
    .first_keys = GPT_FIRST_KEYS,
    .titles = gpt_key_titles,
    .shape = gpt_shape,
    .own_bytes = sizeof(struct gpt_model),
    .hugging_face = gpt_hugging_face,
    .sections = gpt_sections,
    .unit = "token",
    .loss_spread = 1,
    .fp8 = true,
    .again = DT_AGAIN_WEIGHTS | DT_AGAIN_HEADS | DT_AGAIN_PRODUCTS,
    .check_model = gpt_check_model,
    .sample_bytes = gpt_sample_bytes,
    .stored_bytes = gpt_stored_bytes,
    .sample_count = gpt_sample_count,
    .read_sample = gpt_read_sample,
    .facts = gpt_facts,
    .describe = gpt_describe,
    .set_blocks = gpt_set_blocks,
    .divide_evenly = gpt_divide_evenly,
    .largest_tensor = gpt_largest_tensor,
    .end_elems = gpt_end_elems,
    .parameter_count = gpt_parameter_count,
    .tensor_count = gpt_tensor_count,
    .step_flops = gpt_step_flops,
    .causal_step_flops = gpt_causal_step_flops,
    .flops_formula = gpt_flops_formula,
    .partition = gpt_partition,
    .block_layer = gpt_block_layer,
    .layers_size = gpt_layers_size,
    .check_tensor_group = gpt_cut_check,
    .check_context_group = gpt_context_check,
    .tensor_copies = gpt_cut_copies,
    .tensor_ranks_alike = gpt_cut_alike,
    .kernels_available = gpt_kernels_available,
    .cpu_dtype_native = gpt_cpu_dtype_native,
    .kernels_create = gpt_kernel_set_create,
    .kernels_destroy = gpt_kernel_set_destroy,
    .products = gpt_kernel_set_products,
    .tuner = &gpt_tuner,
    .pricing = &gpt_pricing,
    .prober = &gpt_prober,
    .trace_kernels = gpt_kernel_set_trace,
    .stage_create = gpt_stage_create,
    .stage_destroy = gpt_stage_destroy,
    .boundary_elems = gpt_boundary_elems,
    .init_params = gpt_init_params,
    .tensor = gpt_tensor,
    .foreign_tensor = gpt_foreign_tensor,
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

/* Which backend's kernels belong to a kind of device. */

const struct gpt_kernel_table *gpt_kernels_for(const char *device_kind)
{
    if (strcmp(device_kind, "cpu") == 0)
        return &gpt_kernels_cpu;
    if (strcmp(device_kind, "sim") == 0)
        return &gpt_kernels_cost;
    if (strcmp(device_kind, "cuda") == 0)
        return &gpt_kernels_cuda;
    dt_fail(DT_ERR_UNAVAILABLE, "device \"%s\": there are no kernels for it; use \"cuda\", \"cpu\" or \"sim\"", device_kind);
    return NULL;
}

bool gpt_kernels_available(const char *device_kind, char *text, size_t text_bytes)
{
    const struct gpt_kernel_table *table = gpt_kernels_for(device_kind);
    if (table && table->available)
        return table->available(text, text_bytes);
    snprintf(text, text_bytes, "%s", table ? "" : dt_error_message());
    return table;
}
