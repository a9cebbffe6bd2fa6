/* The loops that this processor can run. */
#include "vision/cpu/loops/loops.h"

const struct vision_loops *vision_loops_for(enum dt_cpu_isa isa, enum dt_dtype dtype)
{
    static const struct vision_loops *const tables[DT_ISA_COUNT][2] = {
        [DT_ISA_BASE] = {&vision_loops_base_fp32, &vision_loops_base_bf16},
        [DT_ISA_AVX2] = {&vision_loops_avx2_fp32, &vision_loops_avx2_bf16},
        [DT_ISA_AVX512] = {&vision_loops_avx512_fp32, &vision_loops_avx512_bf16},
        [DT_ISA_AVX512BF16] = {&vision_loops_avx512bf16_fp32, &vision_loops_avx512bf16_bf16},
    };
    const struct vision_loops *table = isa <= dt_cpu_isa() && dtype != DT_FP16 ? tables[isa][dtype == DT_BF16] : NULL;
    return table && table->moments ? table : NULL;
}
