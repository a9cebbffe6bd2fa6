/* The tables into which loops.c is compiled, one for each instruction set and dtype. All except the
 * baseline exist only on x86-64. */
#pragma once

#include "vision/cpu/loops/loops.h"

extern const struct vision_loops vision_loops_base_fp32, vision_loops_base_bf16, vision_loops_avx2_fp32, vision_loops_avx2_bf16,
    vision_loops_avx512_fp32, vision_loops_avx512_bf16, vision_loops_avx512bf16_fp32, vision_loops_avx512bf16_bf16;
