/* cuBLASLt, loaded when it is first needed, so that the program also starts on machines without
 * it. */
#pragma once

#include <cublasLt.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "lib/base/status.h"

/* The functions in use, with their own names and the types that the header declares. Const after
 * loading. */
struct gpt_cublaslt {
    __typeof__(cublasLtGetVersion) *get_version;
    __typeof__(cublasLtGetStatusString) *get_status_string;
    __typeof__(cublasLtCreate) *create;
    __typeof__(cublasLtDestroy) *destroy;
    __typeof__(cublasLtMatmul) *matmul;
    __typeof__(cublasLtMatmulAlgoGetHeuristic) *matmul_algo_get_heuristic;
    __typeof__(cublasLtMatmulAlgoCheck) *matmul_algo_check;
    __typeof__(cublasLtMatmulDescCreate) *matmul_desc_create;
    __typeof__(cublasLtMatmulDescDestroy) *matmul_desc_destroy;
    __typeof__(cublasLtMatmulDescSetAttribute) *matmul_desc_set_attribute;
    __typeof__(cublasLtMatmulPreferenceCreate) *matmul_preference_create;
    __typeof__(cublasLtMatmulPreferenceDestroy) *matmul_preference_destroy;
    __typeof__(cublasLtMatmulPreferenceSetAttribute) *matmul_preference_set_attribute;
    __typeof__(cublasLtMatrixLayoutCreate) *matrix_layout_create;
    __typeof__(cublasLtMatrixLayoutDestroy) *matrix_layout_destroy;
};

/* Fill *out. The library stays loaded, so a second call is cheap. Errors: DT_ERR_UNAVAILABLE,
 * naming the library and how to get it. */
dt_status gpt_cublaslt_load(struct gpt_cublaslt *out);

/* "cuBLASLt 13.1.0" */
enum { GPT_CUBLASLT_NAME_BYTES = 48 };
static inline void gpt_cublaslt_name(const struct gpt_cublaslt *lt, char out[GPT_CUBLASLT_NAME_BYTES])
{
    size_t version = lt->get_version(); /* major * 10000 + minor * 100 + patch */
    snprintf(out, GPT_CUBLASLT_NAME_BYTES, "cuBLASLt %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
}

#ifdef __cplusplus
}
#endif
