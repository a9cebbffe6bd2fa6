/* The vector units' own rate: fused multiply-adds of fp32 that stay in registers. Only for
 * processors that have the instruction set. */
#pragma once

/* So many rounds over all sums; returns their floating-point operations. */
double vector_ceiling_avx2(int rounds);
double vector_ceiling_avx512(int rounds);
