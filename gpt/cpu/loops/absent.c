/* The table of a level that this build leaves out: gpt_simd_for() does not hand it out. */
#include "gpt/cpu/loops/tables.h"

const struct gpt_simd GPT_SIMD_TABLE = {0};
