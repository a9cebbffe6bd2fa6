/* cuBLASLt, loaded when it is first needed, so that the program also starts on machines without
 * it. */
#pragma once

#include <cublasLt.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "lib/base/status.h"

/* The functions in use: member, function of the library. */
#define GPT_CUBLASLT(ROW)                                                                                                                  \
    ROW(get_version, cublasLtGetVersion)                                                                                                   \
    ROW(get_status_string, cublasLtGetStatusString)                                                                                        \
    ROW(create, cublasLtCreate)                                                                                                            \
    ROW(destroy, cublasLtDestroy)                                                                                                          \
    ROW(matmul, cublasLtMatmul)                                                                                                            \
    ROW(matmul_algo_get_heuristic, cublasLtMatmulAlgoGetHeuristic)                                                                         \
    ROW(matmul_algo_check, cublasLtMatmulAlgoCheck)                                                                                        \
    ROW(matmul_desc_create, cublasLtMatmulDescCreate)                                                                                      \
    ROW(matmul_desc_destroy, cublasLtMatmulDescDestroy)                                                                                    \
    ROW(matmul_desc_set_attribute, cublasLtMatmulDescSetAttribute)                                                                         \
    ROW(matmul_preference_create, cublasLtMatmulPreferenceCreate)                                                                          \
    ROW(matmul_preference_destroy, cublasLtMatmulPreferenceDestroy)                                                                        \
    ROW(matmul_preference_set_attribute, cublasLtMatmulPreferenceSetAttribute)                                                             \
    ROW(matrix_layout_create, cublasLtMatrixLayoutCreate)                                                                                  \
    ROW(matrix_layout_destroy, cublasLtMatrixLayoutDestroy)

/* With the types that the library's header declares. Const after loading. */
struct gpt_cublaslt {
#define GPT_CUBLASLT_MEMBER(member, function) __typeof__(function) *member;
    GPT_CUBLASLT(GPT_CUBLASLT_MEMBER)
#undef GPT_CUBLASLT_MEMBER
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
