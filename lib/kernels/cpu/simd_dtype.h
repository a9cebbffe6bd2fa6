/* Load and store vectors of the dtype for which the including file is compiled (DT_SIMD_DTYPE), at
 * element i of `count`. They are macros, because the header itself has no dtype. */
#pragma once

#include "lib/kernels/cpu/simd_math.h"

#define load(from, i, count) v_load(DT_SIMD_DTYPE, from, i, (count) - (i))
#define store(to, i, count, value) v_store(DT_SIMD_DTYPE, to, i, (count) - (i), value)
