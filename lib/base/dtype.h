/* Element types of parameters, activations and messages. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

#include <stddef.h>

enum dt_dtype { DT_FP32, DT_FP16, DT_BF16, DT_DTYPE_COUNT };

size_t dt_dtype_bytes(enum dt_dtype dtype);
const char *dt_dtype_name(int dtype); /* "fp32", "fp16", "bf16"; NULL past the last */

/* Conversions of single numbers, rounded to nearest even; NaN stays NaN. For tests and small host
 * work (kernels have vector code). */
float dt_fp16_to_fp32(unsigned short bits);
unsigned short dt_fp32_to_fp16(float value);
float dt_bf16_to_fp32(unsigned short bits);
unsigned short dt_fp32_to_bf16(float value);

#ifdef __cplusplus
}
#endif
