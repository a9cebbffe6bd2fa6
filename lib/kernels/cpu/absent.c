/* The table of a level that this build leaves out: dt_simd_for() does not hand it out. */
#include "lib/kernels/cpu/tables.h"

const struct dt_simd DT_SIMD_TABLE = {0};
