/* The loops that this processor can run. */
#include "lib/kernels/cpu/loops.h"

const struct dt_simd *dt_simd_for(enum dt_cpu_isa isa, enum dt_dtype dtype)
{
    static const struct dt_simd *const tables[DT_ISA_COUNT][DT_DTYPE_COUNT] = {
        [DT_ISA_BASE] = {&dt_simd_base_fp32, &dt_simd_base_fp16, &dt_simd_base_bf16},
        [DT_ISA_AVX2] = {&dt_simd_avx2_fp32, &dt_simd_avx2_fp16, &dt_simd_avx2_bf16},
        [DT_ISA_AVX512] = {&dt_simd_avx512_fp32, &dt_simd_avx512_fp16, &dt_simd_avx512_bf16},
        [DT_ISA_AVX512BF16] = {&dt_simd_avx512bf16_fp32, &dt_simd_avx512bf16_fp16, &dt_simd_avx512bf16_bf16},
    };
    const struct dt_simd *table = tables[isa][dtype];
    return isa <= dt_cpu_isa() && table->widen ? table : NULL;
}
