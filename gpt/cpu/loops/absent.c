/* The table of an instruction set that is not in this build: gpt_simd_for() does not return it. */
#include "gpt/cpu/loops/loops.h"

const struct gpt_simd GPT_SIMD_TABLE = {0};
