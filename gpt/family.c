#include "gpt/family.h"
#include "gpt/family_parts.h"
#include "gpt/hugging_face_tensors.h"
#include "gpt/kernel_set.h"
#include "gpt/layer.h"
#include "gpt/model.h"
#include "gpt/stage.h"
#include "lib/base/cpu_isa.h"

#include <stdio.h>

/* Whether this machine computes `dtype` natively, for a note to the user. False for fp16 on cpu
 * (products convert it), and for bf16 if the processor has neither AVX-512 BF16 nor AMX; `advice`
 * then names the alternative. */
static bool cpu_dtype_native(enum dt_dtype dtype, char *advice, size_t advice_bytes)
{
    bool bf16 = dt_cpu_isa() == DT_ISA_AVX512BF16; /* every processor with AMX for bf16 has this, too */
    snprintf(advice, advice_bytes, "%s", "");
    if (dtype == DT_FP32 || (dtype == DT_BF16 && bf16))
        return true;
    if (dtype == DT_BF16)
        snprintf(advice, advice_bytes, "this processor has no bf16 arithmetic (AVX-512 BF16 or AMX); fp32 is faster here");
    else
        snprintf(advice, advice_bytes, "fp16 is converted to fp32 inside every matrix product; %s here",
                 bf16 ? "bf16 has the same size and is faster" : "fp32 is faster");
    return false;
}

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
    .before = gpt_before_blocks,
    .after = gpt_after_blocks,
    .block_layers = GPT_BLOCK_LAYERS,
    .blocks_alike = true,
    .fp8 = true,
    .again = DT_AGAIN_WEIGHTS | DT_AGAIN_HEADS | DT_AGAIN_PRODUCTS,
    .check_model = gpt_check_model,
    .sample_bytes = gpt_sample_bytes,
    .stored_bytes = gpt_stored_bytes,
    .sample_count = gpt_sample_count,
    .read_sample = gpt_read_sample,
    .facts = gpt_facts,
    .describe = gpt_describe,
    .blocks_at = offsetof(struct gpt_model, layers),
    .divide_evenly = gpt_divide_evenly,
    .largest_tensor = gpt_largest_tensor,
    .end_elems = gpt_end_elems,
    .causal_step_flops = gpt_causal_step_flops,
    .layers_size = gpt_layers_size,
    .check_tensor_group = gpt_cut_check,
    .check_context_group = gpt_context_check,
    .tensor_copies = gpt_cut_copies,
    .tensor_ranks_alike = gpt_cut_alike,
    .layers_divide = gpt_layers_divide,
    .kernels_available = gpt_kernels_available,
    .cpu_dtype_native = cpu_dtype_native,
    .kernels = &gpt_own_kernels,
    .products = gpt_kernel_set_products,
    .tuner = &gpt_tuner,
    .pricing = &gpt_pricing,
    .prober = &gpt_prober,
    .trace_kernels = gpt_kernel_set_trace,
    .stage_bytes = sizeof(struct gpt_stage),
    .stage_begin = gpt_stage_begin,
    .stage_end = gpt_stage_end,
    .describe_group = gpt_describe_group,
    .boundary_elems = gpt_boundary_elems,
    .tensor = gpt_tensor,
    .foreign_tensor = gpt_foreign_tensor,
    .stash_bytes = sizeof(struct dt_layer_stash),
    .stash_buffers = offsetof(struct dt_layer_stash, rectified) / sizeof(struct dt_buffer),
    .begin_samples = gpt_begin_samples,
    .forward = gpt_forward,
    .backward = gpt_backward,
    .recompute = gpt_recompute,
    .forward_backward = gpt_forward_backward,
};
