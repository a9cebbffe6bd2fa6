/* Vectors of the dtype that the including file is compiled for (DT_SIMD_DTYPE), from and to element i of `count`. */
#ifndef LIB_KERNELS_CPU_SIMD_DTYPE_H
#define LIB_KERNELS_CPU_SIMD_DTYPE_H

#include "lib/kernels/cpu/simd_math.h"

V_INLINE vfloat load(const void *from, size_t i, size_t count)
{
    return v_load(DT_SIMD_DTYPE, from, i, count - i);
}

V_INLINE void store(void *to, size_t i, size_t count, vfloat value)
{
    v_store(DT_SIMD_DTYPE, to, i, count - i, value);
}

#endif
