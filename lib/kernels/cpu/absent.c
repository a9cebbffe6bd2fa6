/* The table of an instruction set that is not in this build: dt_simd_for() does not return it. */
#include "lib/kernels/cpu/loops.h"

const struct dt_simd DT_SIMD_TABLE = {0};
