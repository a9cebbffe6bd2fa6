/* The tables that loops.c is compiled into, one for each instruction set and dtype; all but the baseline's exist on x86-64 alone. */
#ifndef VISION_CPU_LOOPS_TABLES_H
#define VISION_CPU_LOOPS_TABLES_H

#include "vision/cpu/loops/loops.h"

extern const struct vision_loops vision_loops_base_fp32, vision_loops_base_bf16, vision_loops_avx2_fp32, vision_loops_avx2_bf16,
    vision_loops_avx512_fp32, vision_loops_avx512_bf16, vision_loops_avx512bf16_fp32, vision_loops_avx512bf16_bf16;

#endif
