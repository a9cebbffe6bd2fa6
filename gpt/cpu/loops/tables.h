/* The tables into which loops.c is compiled. All except the baseline exist only on x86-64. */
#pragma once

#include "gpt/cpu/loops/loops.h"

extern const struct gpt_simd gpt_simd_base_fp32, gpt_simd_base_fp16, gpt_simd_base_bf16;
extern const struct gpt_simd gpt_simd_avx2_fp32, gpt_simd_avx2_fp16, gpt_simd_avx2_bf16;
extern const struct gpt_simd gpt_simd_avx512_fp32, gpt_simd_avx512_fp16, gpt_simd_avx512_bf16;
extern const struct gpt_simd gpt_simd_avx512bf16_fp32, gpt_simd_avx512bf16_fp16, gpt_simd_avx512bf16_bf16;
