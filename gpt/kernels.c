/* What is known of each kernel, and what backends with nothing of their own to say put into their tables. */
#include "gpt/kernels.h"

#include <stdio.h>

const struct gpt_kernel_info *gpt_kernel_info(enum gpt_kernel_kind kind)
{
#define INFO(entry, arguments, kind, phase, shape, ...) [GPT_KERNEL_##kind] = {#entry, GPT_PHASE_##phase, GPT_SHAPE_##shape},
    static const struct gpt_kernel_info infos[GPT_KERNEL_COUNT + 1] = {
        GPT_KERNELS(INFO, GPT_NO_KERNEL_ROW, GPT_NO_KERNEL_ROW)[GPT_KERNEL_COUNT] = {"copy", GPT_PHASE_UPDATE, GPT_SHAPE_FLAT},
    };
#undef INFO
    return &infos[kind];
}

bool gpt_kernels_need_nothing(char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "%s", "");
    return true;
}

const char *gpt_kernels_choose_nothing(const struct gpt_kernels *k)
{
    return "";
}

dt_status gpt_kernels_need_no_tuning(struct gpt_kernels *k, const struct dt_tuning *tuning)
{
    return DT_OK;
}

void gpt_kernels_tuned_nothing(const struct gpt_kernels *k, struct dt_tuned *out)
{
    *out = (struct dt_tuned){0};
}

size_t gpt_kernels_keep_nothing(const struct gpt_kernels *k, enum gpt_layer_kind layer, size_t samples, int ranks, bool sequence_parallel)
{
    return 0;
}

size_t gpt_kernels_hold_nothing(const struct gpt_kernels *k, size_t samples, int ranks)
{
    return 0;
}
