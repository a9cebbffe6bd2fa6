/* The declarations of vision/cuda/cudnn.h against cuDNN's own headers, where there are any, and
 * loading the library. */
#include "test/check.h"
#include "vision/cuda/cudnn.h"
#include "vision/kernels.h"

#include <stdlib.h>

#if __has_include(<cudnn.h>)
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <cudnn.h>

_Static_assert(CUDNN_MAJOR != CUDNN_9 || ((int)CUDNN_STATUS_SUCCESS == CUDNN_SUCCESS && (int)CUDNN_DATA_FLOAT == CUDNN_FLOAT &&
                                          (int)CUDNN_DATA_HALF == CUDNN_HALF && (int)CUDNN_DATA_BFLOAT16 == CUDNN_BFLOAT16 &&
                                          (int)CUDNN_TENSOR_NHWC == CUDNN_NHWC && (int)CUDNN_CROSS_CORRELATION == CUDNN_CORRELATION &&
                                          (int)CUDNN_DETERMINISTIC == CUDNN_REPEATABLE && (int)CUDNN_TENSOR_OP_MATH == CUDNN_TENSOR_CORES &&
                                          (int)CUDNN_FMA_MATH == CUDNN_FMA),
               "numbers");
_Static_assert(sizeof(cudnnStatus_t) == sizeof(int) && sizeof(cudnnMathType_t) == sizeof(int) && sizeof(cudnnDataType_t) == sizeof(int),
               "enumerations");

/* Of all three passes. */
#define SAME(theirs)                                                                                                                       \
    _Static_assert(sizeof(theirs) == sizeof(struct cudnn_named) && offsetof(theirs, algo) == offsetof(struct cudnn_named, algorithm) &&    \
                       offsetof(theirs, status) == offsetof(struct cudnn_named, status) &&                                                 \
                       offsetof(theirs, memory) == offsetof(struct cudnn_named, memory) &&                                                 \
                       offsetof(theirs, determinism) == offsetof(struct cudnn_named, determinism) &&                                       \
                       offsetof(theirs, mathType) == offsetof(struct cudnn_named, math),                                                   \
                   "what the heuristic says")
SAME(cudnnConvolutionFwdAlgoPerf_t);
SAME(cudnnConvolutionBwdDataAlgoPerf_t);
SAME(cudnnConvolutionBwdFilterAlgoPerf_t);
_Static_assert((int)CUDNN_MOST_NAMED >= (int)CUDNN_CONVOLUTION_FWD_ALGO_COUNT &&
                   (int)CUDNN_MOST_NAMED >= (int)CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT &&
                   (int)CUDNN_MOST_NAMED >= (int)CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT,
               "room for all of them");

/* As many arguments, in the same order: compiled, and never called. */
#define UNUSED __attribute__((unused)) static inline int
UNUSED call_descriptors(TENSOR t, FILTER f, CONVOLUTION c, HANDLE h, struct CUstream_st *stream, const struct vision_cudnn *ours)
{
    return (int)cudnnSetTensor4dDescriptor(t, 0, 0, 1, 1, 1, 1) + (int)cudnnSetFilter4dDescriptor(f, 0, 0, 1, 1, 1, 1) +
           (int)cudnnSetConvolution2dDescriptor(c, 0, 0, 1, 1, 1, 1, 0, 0) + (int)cudnnSetConvolutionMathType(c, 0) +
           (int)cudnnSetStream(h, stream) + ours->set_tensor(t, 0, 0, 1, 1, 1, 1) + ours->set_filter(f, 0, 0, 1, 1, 1, 1) +
           ours->set_convolution(c, 0, 0, 1, 1, 1, 1, 0, 0) + ours->set_math(c, 0) + ours->set_stream(h, stream);
}

UNUSED call_names(HANDLE h, TENSOR x, TENSOR y, FILTER f, CONVOLUTION c, const struct vision_cudnn *ours)
{
    int n;
    return (int)cudnnGetConvolutionForwardAlgorithm_v7(h, x, f, c, y, 1, &n, NULL) + ours->name_forward(h, x, f, c, y, 1, &n, NULL) +
           (int)cudnnGetConvolutionBackwardDataAlgorithm_v7(h, f, y, c, x, 1, &n, NULL) +
           ours->name_input_gradient(h, f, y, c, x, 1, &n, NULL) +
           (int)cudnnGetConvolutionBackwardFilterAlgorithm_v7(h, x, y, c, f, 1, &n, NULL) +
           ours->name_weight_gradient(h, x, y, c, f, 1, &n, NULL);
}

UNUSED call_passes(HANDLE h, TENSOR x, TENSOR y, FILTER f, CONVOLUTION c, void *p, const struct vision_cudnn *ours)
{
    return (int)cudnnConvolutionForward(h, p, x, p, f, p, c, 0, p, 0, p, y, p) + ours->forward(h, p, x, p, f, p, c, 0, p, 0, p, y, p) +
           (int)cudnnConvolutionBackwardData(h, p, f, p, y, p, c, 0, p, 0, p, x, p) +
           ours->input_gradient(h, p, f, p, y, p, c, 0, p, 0, p, x, p) +
           (int)cudnnConvolutionBackwardFilter(h, p, x, p, y, p, c, 0, p, 0, p, f, p) +
           ours->weight_gradient(h, p, x, p, y, p, c, 0, p, 0, p, f, p);
}
#endif

static void test_library(void)
{
    char text[512];
    if (!vision_kernels_available(dt_device_kind_find("cuda"), text, sizeof text))
        SKIP("%.200s", text);
    CHECK(strncmp(text, "cuDNN 9.", 8) == 0, "%s", text);
}

/* Without a GPU, too. */
static void test_missing_library(void)
{
    char text[512];
    setenv("DTBENCH_LIBCUDNN", "/nowhere/libcudnn.so.9", 1);
    bool found = vision_kernels_available(dt_device_kind_find("cuda"), text, sizeof text);
    unsetenv("DTBENCH_LIBCUDNN");
    CHECK(!found && (strstr(text, "no CUDA") || (strstr(text, "/nowhere/libcudnn.so.9") && strstr(text, "DTBENCH_LIBCUDNN"))), "%s", text);
    CHECK(!strchr(text, '\n'), "one line: %s", text);
}

static const struct test_case cases[] = {
    {"the library that there is", test_library},
    {"a library that is not there", test_missing_library},
};

TEST_MAIN(cases)
