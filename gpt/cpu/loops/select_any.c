/* A processor that is not x86-64 has only the baseline. */
#include "gpt/cpu/loops/tables.h"

const struct gpt_simd *gpt_simd_for(enum dt_cpu_isa isa, enum dt_dtype dtype)
{
    static const struct gpt_simd *const tables[DT_DTYPE_COUNT] = {&gpt_simd_base_fp32, &gpt_simd_base_fp16, &gpt_simd_base_bf16};
    return isa == DT_ISA_BASE ? tables[dtype] : NULL;
}
