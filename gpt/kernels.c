/* What is known of each kernel. */
#include "gpt/kernels.h"

const struct gpt_kernel_info *gpt_kernel_info(enum gpt_kernel_kind kind)
{
#define INFO(entry, arguments, kind, phase, shape, ...) [GPT_KERNEL_##kind] = {#entry, GPT_PHASE_##phase, GPT_SHAPE_##shape},
    static const struct gpt_kernel_info infos[GPT_KERNEL_COUNT] = {GPT_KERNELS(INFO, GPT_NO_KERNEL_ROW, GPT_NO_KERNEL_ROW)
                                                                       GPT_SHARED_KERNELS(INFO)};
    static const struct gpt_kernel_info copy = {"copy", GPT_PHASE_UPDATE, GPT_SHAPE_FLAT};
#undef INFO
    return kind == GPT_KERNEL_COUNT ? &copy : &infos[kind];
}
