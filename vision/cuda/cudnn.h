/* cuDNN, loaded when it is first needed: the program starts, and is built, where there is none. Its own package has some 500 MB, so that what is
 * used of it is declared here: names without a prefix of ours, numbers and structures are those of cuDNN 9 (NVIDIA, "cuDNN Library Reference",
 * cudnn_graph, cudnn_ops and cudnn_cnn), against whose headers a test compiles this one where they are.
 *
 * The calls are those of version 7 and later, with a descriptor for each tensor. The graph interface that is to replace them describes a
 * convolution in some thirty calls of untyped attributes, and offers engines without saying which of them is deterministic in one word; nothing that
 * is fused there is needed here. cuDNN 9 has both, on every GPU that dtbench compiles for. */
#ifndef VISION_CUDA_CUDNN_H
#define VISION_CUDA_CUDNN_H

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

/* Enumerations are passed as int, which they are as long as. */
enum {
    CUDNN_9 = 9, /* the major version: of another one numbers may mean something else */
    CUDNN_SUCCESS = 0,
    CUDNN_FLOAT = 0,
    CUDNN_HALF = 2,
    CUDNN_BFLOAT16 = 9,
    CUDNN_NHWC = 1,
    CUDNN_CORRELATION = 1, /* a window is not turned round: what networks call a convolution */
    CUDNN_REPEATABLE = 1,  /* "deterministic" */
    CUDNN_TENSOR_CORES = 1,
    CUDNN_FMA = 3, /* fp32 in fp32, not in TF32 with its 10 bits */
};

/* An algorithm that cuDNN's heuristic names, the fastest first, with what it thinks of it: of all three passes the same structure. */
struct cudnn_named {
    int algorithm, status;
    float time;
    size_t memory; /* bytes of workspace */
    int determinism, math;
    int reserved[3];
};
enum { CUDNN_MOST_NAMED = 10 }; /* more than there are algorithms of a pass */

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

/* The functions that are used. Const once it is loaded. */
struct vision_cudnn {
#define VISION_CUDNN_MEMBER(member, symbol, result, arguments) result(*member) arguments;
    VISION_CUDNN(VISION_CUDNN_MEMBER)
#undef VISION_CUDNN_MEMBER
};

/* Fills *out. The library stays loaded, so a second call is cheap. Errors: DT_ERR_UNAVAILABLE, naming the library and what brings it. */
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
#endif
