/* A processor that is not x86-64 has only the baseline. */
#include "lib/kernels/cpu/tables.h"

const struct dt_simd *dt_simd_for(enum dt_cpu_isa isa, enum dt_dtype dtype)
{
    static const struct dt_simd *const tables[DT_DTYPE_COUNT] = {&dt_simd_base_fp32, &dt_simd_base_fp16, &dt_simd_base_bf16};
    return isa == DT_ISA_BASE ? tables[dtype] : NULL;
}
