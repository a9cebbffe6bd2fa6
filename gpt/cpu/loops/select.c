/* The loops that this processor can run. */
#include "gpt/cpu/loops/loops.h"

const struct gpt_simd *gpt_simd_for(enum dt_cpu_isa isa, enum dt_dtype dtype)
{
    static const struct gpt_simd *const tables[DT_ISA_COUNT][DT_DTYPE_COUNT] = {
        [DT_ISA_BASE] = {&gpt_simd_base_fp32, &gpt_simd_base_fp16, &gpt_simd_base_bf16},
        [DT_ISA_AVX2] = {&gpt_simd_avx2_fp32, &gpt_simd_avx2_fp16, &gpt_simd_avx2_bf16},
        [DT_ISA_AVX512] = {&gpt_simd_avx512_fp32, &gpt_simd_avx512_fp16, &gpt_simd_avx512_bf16},
        [DT_ISA_AVX512BF16] = {&gpt_simd_avx512bf16_fp32, &gpt_simd_avx512bf16_fp16, &gpt_simd_avx512bf16_bf16},
    };
    const struct gpt_simd *table = tables[isa][dtype];
    return isa <= dt_cpu_isa() && table->gelu ? table : NULL;
}
