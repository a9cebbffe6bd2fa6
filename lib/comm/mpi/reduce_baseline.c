/* The sums in plain C: for processors without AVX2, other architectures, and as the truth for the rest. */
#include "lib/comm/mpi/reduce.h"

#include <stdint.h>

static void sum_fp32(void *out, const void *a, const void *b, size_t count_elems, float scale)
{
    float *o = out;
    const float *x = a, *y = b;
    for (size_t i = 0; i < count_elems; i++)
        o[i] = (x[i] + y[i]) * scale;
}

static void sum_fp16(void *out, const void *a, const void *b, size_t count_elems, float scale)
{
    uint16_t *o = out;
    const uint16_t *x = a, *y = b;
    for (size_t i = 0; i < count_elems; i++)
        o[i] = dt_fp32_to_fp16((dt_fp16_to_fp32(x[i]) + dt_fp16_to_fp32(y[i])) * scale);
}

static void sum_bf16(void *out, const void *a, const void *b, size_t count_elems, float scale)
{
    uint16_t *o = out;
    const uint16_t *x = a, *y = b;
    for (size_t i = 0; i < count_elems; i++)
        o[i] = dt_fp32_to_bf16((dt_bf16_to_fp32(x[i]) + dt_bf16_to_fp32(y[i])) * scale);
}

const struct dt_reduce_isa dt_reduce_baseline = {"baseline", {[DT_FP32] = sum_fp32, [DT_FP16] = sum_fp16, [DT_BF16] = sum_bf16}};
