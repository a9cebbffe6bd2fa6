/* The table of a level that this build leaves out: dt_cpu_isa() says so, and nobody asks for it. */
#include "gpt/cpu/loops/tables.h"

const struct gpt_simd GPT_SIMD_TABLE = {0};
