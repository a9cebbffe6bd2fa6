/* cuDNN, loaded when it is first needed, so that the program starts, and can be built, without it.
 * Its package has some 500 MB, so the functions in use are declared here. Names without a prefix of
 * dtbench, numbers and structures are those of cuDNN 9 (NVIDIA, "cuDNN Library Reference",
 * cudnn_graph, cudnn_ops and cudnn_cnn); a test compares them with its headers if these are
 * installed.
 *
 * The functions are those of version 7 and later, with a descriptor for each tensor. The newer
 * graph interface describes a convolution in some thirty calls with untyped attributes, and does
 * not directly say which of its engines are deterministic; its fused operations are not needed
 * here. cuDNN 9 has both interfaces, on every GPU for which dtbench compiles. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "lib/base/status.h"

struct CUstream_st;
struct cudnnContext;
struct cudnnTensorStruct;
struct cudnnFilterStruct;
struct cudnnConvolutionStruct;

/* Enumerations are passed as int, which has the same size. */
enum {
    CUDNN_9 = 9, /* the major version; in another one numbers may have other meanings */
    CUDNN_SUCCESS = 0,
    CUDNN_FLOAT = 0,
    CUDNN_HALF = 2,
    CUDNN_BFLOAT16 = 9,
    CUDNN_NHWC = 1,
    CUDNN_CORRELATION = 1, /* the window is not rotated: networks call this a convolution */
    CUDNN_REPEATABLE = 1,  /* "deterministic" */
    CUDNN_TENSOR_CORES = 1,
    CUDNN_FMA = 3, /* fp32 in fp32, not in TF32 with its 10 bits */
};

/* An algorithm that cuDNN's heuristic names, fastest first, with its properties. The structure is
 * the same for all three passes. */
struct cudnn_named {
    int algorithm, status;
    float time;
    size_t memory; /* bytes of workspace */
    int determinism, math;
    int reserved[3];
};
enum { CUDNN_MOST_NAMED = 10 }; /* more than the number of algorithms of a pass */

#define TENSOR struct cudnnTensorStruct *
#define FILTER struct cudnnFilterStruct *
#define CONVOLUTION struct cudnnConvolutionStruct *
#define HANDLE struct cudnnContext *

/* Member, function of the library, result, arguments. */
#define VISION_CUDNN(ROW)                                                                                                                  \
    ROW(get_version, cudnnGetVersion, size_t, (void))                                                                                      \
    ROW(error_string, cudnnGetErrorString, const char *, (int status))                                                                     \
    ROW(create, cudnnCreate, int, (HANDLE * out))                                                                                          \
    ROW(destroy, cudnnDestroy, int, (HANDLE handle))                                                                                       \
    ROW(set_stream, cudnnSetStream, int, (HANDLE handle, struct CUstream_st * stream))                                                     \
    ROW(create_tensor, cudnnCreateTensorDescriptor, int, (TENSOR * out))                                                                   \
    ROW(set_tensor, cudnnSetTensor4dDescriptor, int, (TENSOR tensor, int format, int type, int n, int c, int h, int w))                    \
    ROW(destroy_tensor, cudnnDestroyTensorDescriptor, int, (TENSOR tensor))                                                                \
    ROW(create_filter, cudnnCreateFilterDescriptor, int, (FILTER * out))                                                                   \
    ROW(set_filter, cudnnSetFilter4dDescriptor, int, (FILTER filter, int type, int format, int k, int c, int h, int w))                    \
    ROW(destroy_filter, cudnnDestroyFilterDescriptor, int, (FILTER filter))                                                                \
    ROW(create_convolution, cudnnCreateConvolutionDescriptor, int, (CONVOLUTION * out))                                                    \
    ROW(set_convolution, cudnnSetConvolution2dDescriptor, int,                                                                             \
        (CONVOLUTION convolution, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h, int dilation_w, int mode, int type))   \
    ROW(set_math, cudnnSetConvolutionMathType, int, (CONVOLUTION convolution, int math))                                                   \
    ROW(destroy_convolution, cudnnDestroyConvolutionDescriptor, int, (CONVOLUTION convolution))                                            \
    ROW(name_forward, cudnnGetConvolutionForwardAlgorithm_v7, int,                                                                         \
        (HANDLE handle, TENSOR x, FILTER w, CONVOLUTION convolution, TENSOR y, int most, int *count, struct cudnn_named *out))             \
    ROW(name_input_gradient, cudnnGetConvolutionBackwardDataAlgorithm_v7, int,                                                             \
        (HANDLE handle, FILTER w, TENSOR dy, CONVOLUTION convolution, TENSOR dx, int most, int *count, struct cudnn_named *out))           \
    ROW(name_weight_gradient, cudnnGetConvolutionBackwardFilterAlgorithm_v7, int,                                                          \
        (HANDLE handle, TENSOR x, TENSOR dy, CONVOLUTION convolution, FILTER dw, int most, int *count, struct cudnn_named *out))           \
    ROW(forward, cudnnConvolutionForward, int,                                                                                             \
        (HANDLE handle, const void *alpha, TENSOR x_of, const void *x, FILTER w_of, const void *w, CONVOLUTION convolution, int algorithm, \
         void *workspace, size_t workspace_bytes, const void *beta, TENSOR y_of, void *y))                                                 \
    ROW(input_gradient, cudnnConvolutionBackwardData, int,                                                                                 \
        (HANDLE handle, const void *alpha, FILTER w_of, const void *w, TENSOR dy_of, const void *dy, CONVOLUTION convolution,              \
         int algorithm, void *workspace, size_t workspace_bytes, const void *beta, TENSOR dx_of, void *dx))                                \
    ROW(weight_gradient, cudnnConvolutionBackwardFilter, int,                                                                              \
        (HANDLE handle, const void *alpha, TENSOR x_of, const void *x, TENSOR dy_of, const void *dy, CONVOLUTION convolution,              \
         int algorithm, void *workspace, size_t workspace_bytes, const void *beta, FILTER dw_of, void *dw))

/* The functions in use. Const after loading. */
struct vision_cudnn {
#define VISION_CUDNN_MEMBER(member, symbol, result, arguments) result(*member) arguments;
    VISION_CUDNN(VISION_CUDNN_MEMBER)
#undef VISION_CUDNN_MEMBER
};

/* Fill *out. The library stays loaded, so a second call is cheap. Errors: DT_ERR_UNAVAILABLE,
 * naming the library and how to get it. */
dt_status vision_cudnn_load(struct vision_cudnn *out);

/* "cuDNN 9.19.0" */
enum { VISION_CUDNN_NAME_BYTES = 48 };
static inline void vision_cudnn_name(const struct vision_cudnn *dnn, char out[VISION_CUDNN_NAME_BYTES])
{
    size_t version = dnn->get_version(); /* major * 10000 + minor * 100 + patch */
    snprintf(out, VISION_CUDNN_NAME_BYTES, "cuDNN %zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
}

#ifdef __cplusplus
}
#endif
