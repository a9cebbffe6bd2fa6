/* cuDNN of the emulated GPU: convolutions as plain loops, queued like kernels. It refuses what the
 * real one would, as far as that is known, and is stricter: addresses must be multiples of 16. The
 * algorithm that is named first is not deterministic (some elements of its results are off by more
 * than tests allow), the second one wants more workspace than check counts on, and the third is
 * right. */
#include "test/cuda_emulator/libraries/named.h"
#include "test/cuda_emulator/runtime/stream.h"

#include "vision/cuda/cudnn.h"

extern "C" {
#include "lib/base/dtype.h"
}

#include <cstdint>
#include <cstring>
#include <vector>

/* Names of cuDNN's, which the header declares. */
struct cudnnContext {
    int device;
    cudaStream_t stream;
};

struct cudnnTensorStruct {
    int type = -1, n = 0, c = 0, h = 0, w = 0;
};

struct cudnnFilterStruct {
    int type = -1, k = 0, c = 0, h = 0, w = 0;
};

struct cudnnConvolutionStruct {
    int pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, math = 0;
    bool set = false;
};

namespace {

constexpr int BAD = 2000, NOT_SUPPORTED = 3000, FAILED = 5000, ALIGNMENT = 16;
enum { HASTY, LARGE, PLAIN, ALGORITHMS }; /* algorithms, in the order in which they are named */
enum pass { FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT };

/* A queued pass. */
struct work {
    pass which;
    cudnnTensorStruct x, y;
    cudnnFilterStruct filter;
    cudnnConvolutionStruct how;
    void *x_data = nullptr, *y_data = nullptr, *w_data = nullptr, *workspace = nullptr;
    size_t workspace_bytes = 0;
    int algorithm = 0;
    float alpha = 1, beta = 0;
};

size_t bytes_of(int type)
{
    return type == CUDNN_FLOAT ? 4 : 2;
}

float load(int type, const void *from, size_t index)
{
    if (type == CUDNN_FLOAT)
        return static_cast<const float *>(from)[index];
    unsigned short bits = static_cast<const unsigned short *>(from)[index];
    return type == CUDNN_HALF ? dt_fp16_to_fp32(bits) : dt_bf16_to_fp32(bits);
}

void store(int type, void *to, size_t index, float value)
{
    if (type == CUDNN_FLOAT)
        static_cast<float *>(to)[index] = value;
    else
        static_cast<unsigned short *>(to)[index] = type == CUDNN_HALF ? dt_fp32_to_fp16(value) : dt_fp32_to_bf16(value);
}

size_t elems(const cudnnTensorStruct &t)
{
    return (size_t)t.n * t.c * t.h * t.w;
}

size_t elems(const cudnnFilterStruct &f)
{
    return (size_t)f.k * f.c * f.h * f.w;
}

/* The workspace of an algorithm, which it overwrites to show other users. */
size_t workspace_of(const work &w)
{
    size_t bytes = w.which == WEIGHT_GRADIENT ? elems(w.filter) * sizeof(float) : 64;
    return w.algorithm == LARGE ? bytes + ((size_t)1 << 40) : bytes;
}

std::vector<float> floats(int type, const void *from, size_t count)
{
    std::vector<float> all(count);
    for (size_t i = 0; i < count; i++)
        all[i] = load(type, from, i);
    return all;
}

/* Calls each(x, w, y) with the numbers of the first of the elements of x and of w that belong
 * together, c of each, and of the one of y. */
template <typename F> void for_products(const work &w, F each)
{
    const cudnnTensorStruct &x = w.x, &y = w.y;
    const cudnnFilterStruct &f = w.filter;
    for (int n = 0; n < y.n; n++)
        for (int p = 0; p < y.h; p++)
            for (int q = 0; q < y.w; q++)
                for (int r = 0; r < f.h; r++)
                    for (int s = 0; s < f.w; s++) {
                        int row = p * w.how.stride_h - w.how.pad_h + r * w.how.dilation_h;
                        int column = q * w.how.stride_w - w.how.pad_w + s * w.how.dilation_w;
                        if (row < 0 || column < 0 || row >= x.h || column >= x.w)
                            continue;
                        size_t from = (((size_t)n * x.h + row) * x.w + column) * x.c, to = (((size_t)n * y.h + p) * y.w + q) * y.c;
                        for (int k = 0; k < f.k; k++)
                            each(from, (((size_t)k * f.h + r) * f.w + s) * f.c, to + k);
                    }
}

/* The results of the pass, as sums. */
std::vector<float> sums_of(const work &w)
{
    int c = w.filter.c;
    std::vector<float> x, y, filter;
    if (w.which != INPUT_GRADIENT)
        x = floats(w.x.type, w.x_data, elems(w.x));
    if (w.which != FORWARD)
        y = floats(w.x.type, w.y_data, elems(w.y));
    if (w.which != WEIGHT_GRADIENT)
        filter = floats(w.x.type, w.w_data, elems(w.filter));
    std::vector<float> sums(w.which == FORWARD ? elems(w.y) : w.which == INPUT_GRADIENT ? elems(w.x) : elems(w.filter));
    for_products(w, [&](size_t at_x, size_t at_w, size_t at_y) {
        float sum = 0;
        if (w.which == FORWARD) {
            for (int i = 0; i < c; i++)
                sum += x[at_x + i] * filter[at_w + i];
            sums[at_y] += sum;
        } else if (w.which == INPUT_GRADIENT) {
            for (int i = 0; i < c; i++)
                sums[at_x + i] += y[at_y] * filter[at_w + i];
        } else {
            for (int i = 0; i < c; i++)
                sums[at_w + i] += y[at_y] * x[at_x + i];
        }
    });
    return sums;
}

void run(const work &w)
{
    struct {
        const char *name;
        void *data;
        size_t bytes;
    } all[] = {{"x", w.x_data, elems(w.x) * bytes_of(w.x.type)},
               {"y", w.y_data, elems(w.y) * bytes_of(w.x.type)},
               {"the filter", w.w_data, elems(w.filter) * bytes_of(w.x.type)},
               {"the workspace", w.workspace, workspace_of(w)}};
    for (const auto &one : all) {
        if (!emulator_touchable(one.data, one.bytes))
            return emulator_fault(cudaErrorIllegalAddress, "%s: %zu bytes at %p are not the device's", one.name, one.bytes, one.data);
        for (const auto &other : all)
            if (&one != &other && (char *)one.data < (char *)other.data + other.bytes && (char *)other.data < (char *)one.data + one.bytes)
                return emulator_fault(cudaErrorIllegalAddress, "%s overlaps %s", one.name, other.name);
    }
    std::vector<float> sums = sums_of(w);
    void *to = w.which == FORWARD ? w.y_data : w.which == INPUT_GRADIENT ? w.x_data : w.w_data;
    memset(w.workspace, 0xFF, workspace_of(w));
    for (size_t i = 0; i < sums.size(); i++) {
        float value = w.alpha * sums[i] * (w.algorithm == HASTY && i % 7 == 0 ? 1.1f : 1.0f);
        store(w.x.type, to, i, w.beta != 0 ? value + w.beta * load(w.x.type, to, i) : value);
    }
}

int places(int size, int kernel, int padding, int stride, int dilation)
{
    return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
}

/* Whether the shapes fit each other. */
int fit(const work &w)
{
    const cudnnTensorStruct &x = w.x, &y = w.y;
    const cudnnFilterStruct &f = w.filter;
    const cudnnConvolutionStruct &c = w.how;
    bool same = x.type == y.type && x.type == f.type && c.set;
    bool fits = x.n == y.n && x.c == f.c && y.c == f.k && y.h == places(x.h, f.h, c.pad_h, c.stride_h, c.dilation_h) &&
                y.w == places(x.w, f.w, c.pad_w, c.stride_w, c.dilation_w);
    if (!same || !fits || x.n <= 0 || y.h <= 0 || y.w <= 0)
        return BAD;
    return x.type == CUDNN_FLOAT ? c.math == CUDNN_FMA ? CUDNN_SUCCESS : NOT_SUPPORTED : CUDNN_SUCCESS;
}

int name(work &w, int most, int *count, struct cudnn_named *out)
{
    int status = fit(w);
    *count = 0;
    for (w.algorithm = 0; status == CUDNN_SUCCESS && w.algorithm < ALGORITHMS && *count < most; w.algorithm++) {
        struct cudnn_named *named = &out[(*count)++];
        *named = {};
        named->algorithm = w.algorithm;
        named->memory = workspace_of(w);
        named->determinism = w.algorithm == HASTY ? 0 : CUDNN_REPEATABLE;
        named->math = w.how.math;
    }
    return status;
}

int queue(cudnnContext *handle, work &w)
{
    int device, status = fit(w);
    if (!handle || cudaGetDevice(&device) != cudaSuccess || device != handle->device)
        return BAD;
    if (status == CUDNN_SUCCESS && w.workspace_bytes < workspace_of(w))
        status = BAD;
    for (void *data : {w.x_data, w.y_data, w.w_data, w.workspace})
        if ((uintptr_t)data % ALIGNMENT != 0)
            status = BAD;
    if (status != CUDNN_SUCCESS)
        return status;
    return emulator_enqueue(handle->stream, "cuDNN's convolution", [w] { run(w); }) == cudaSuccess ? CUDNN_SUCCESS : FAILED;
}

float number(const void *from)
{
    float value;
    memcpy(&value, from, sizeof value);
    return value;
}

} // namespace

/* ---- the interface ---- */

extern "C" {

static size_t cudnnGetVersion(void)
{
    return 91900;
}

static const char *cudnnGetErrorString(int status)
{
    return status == CUDNN_SUCCESS ? "success" : status == BAD ? "bad parameter" : status == NOT_SUPPORTED ? "not supported" : "failed";
}

static int cudnnCreate(cudnnContext **out)
{
    int device;
    if (cudaGetDevice(&device) != cudaSuccess)
        return FAILED;
    *out = new cudnnContext{device, nullptr};
    return CUDNN_SUCCESS;
}

static int cudnnDestroy(cudnnContext *handle)
{
    delete handle;
    return CUDNN_SUCCESS;
}

static int cudnnSetStream(cudnnContext *handle, struct CUstream_st *stream)
{
    handle->stream = stream;
    return CUDNN_SUCCESS;
}

static int cudnnCreateTensorDescriptor(cudnnTensorStruct **out)
{
    *out = new cudnnTensorStruct;
    return CUDNN_SUCCESS;
}

static int cudnnSetTensor4dDescriptor(cudnnTensorStruct *tensor, int format, int type, int n, int c, int h, int w)
{
    tensor->type = type;
    tensor->n = n;
    tensor->c = c;
    tensor->h = h;
    tensor->w = w;
    return format == CUDNN_NHWC && (type == CUDNN_FLOAT || type == CUDNN_HALF || type == CUDNN_BFLOAT16) ? CUDNN_SUCCESS : BAD;
}

static int cudnnDestroyTensorDescriptor(cudnnTensorStruct *tensor)
{
    delete tensor;
    return CUDNN_SUCCESS;
}

static int cudnnCreateFilterDescriptor(cudnnFilterStruct **out)
{
    *out = new cudnnFilterStruct;
    return CUDNN_SUCCESS;
}

static int cudnnSetFilter4dDescriptor(cudnnFilterStruct *filter, int type, int format, int k, int c, int h, int w)
{
    filter->type = type;
    filter->k = k;
    filter->c = c;
    filter->h = h;
    filter->w = w;
    return format == CUDNN_NHWC ? CUDNN_SUCCESS : BAD;
}

static int cudnnDestroyFilterDescriptor(cudnnFilterStruct *filter)
{
    delete filter;
    return CUDNN_SUCCESS;
}

static int cudnnCreateConvolutionDescriptor(cudnnConvolutionStruct **out)
{
    *out = new cudnnConvolutionStruct;
    return CUDNN_SUCCESS;
}

static int cudnnSetConvolution2dDescriptor(cudnnConvolutionStruct *convolution, int pad_h, int pad_w, int stride_h, int stride_w,
                                           int dilation_h, int dilation_w, int mode, int type)
{
    int math = convolution->math;
    *convolution = {pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, math, true};
    return mode == CUDNN_CORRELATION && type == CUDNN_FLOAT ? CUDNN_SUCCESS : BAD;
}

static int cudnnSetConvolutionMathType(cudnnConvolutionStruct *convolution, int math)
{
    convolution->math = math;
    return CUDNN_SUCCESS;
}

static int cudnnDestroyConvolutionDescriptor(cudnnConvolutionStruct *convolution)
{
    delete convolution;
    return CUDNN_SUCCESS;
}

static int cudnnGetConvolutionForwardAlgorithm_v7(cudnnContext *, cudnnTensorStruct *x, cudnnFilterStruct *w,
                                                  cudnnConvolutionStruct *convolution, cudnnTensorStruct *y, int most, int *count,
                                                  struct cudnn_named *out)
{
    work asked = {FORWARD, *x, *y, *w, *convolution};
    return name(asked, most, count, out);
}

static int cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnContext *, cudnnFilterStruct *w, cudnnTensorStruct *dy,
                                                       cudnnConvolutionStruct *convolution, cudnnTensorStruct *dx, int most, int *count,
                                                       struct cudnn_named *out)
{
    work asked = {INPUT_GRADIENT, *dx, *dy, *w, *convolution};
    return name(asked, most, count, out);
}

static int cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnContext *, cudnnTensorStruct *x, cudnnTensorStruct *dy,
                                                         cudnnConvolutionStruct *convolution, cudnnFilterStruct *dw, int most, int *count,
                                                         struct cudnn_named *out)
{
    work asked = {WEIGHT_GRADIENT, *x, *dy, *dw, *convolution};
    return name(asked, most, count, out);
}

static int cudnnConvolutionForward(cudnnContext *handle, const void *alpha, cudnnTensorStruct *x_of, const void *x, cudnnFilterStruct *w_of,
                                   const void *w, cudnnConvolutionStruct *convolution, int algorithm, void *workspace,
                                   size_t workspace_bytes, const void *beta, cudnnTensorStruct *y_of, void *y)
{
    work all = {FORWARD,   *x_of,           *y_of,     *w_of,         *convolution, const_cast<void *>(x), y, const_cast<void *>(w),
                workspace, workspace_bytes, algorithm, number(alpha), number(beta)};
    return queue(handle, all);
}

static int cudnnConvolutionBackwardData(cudnnContext *handle, const void *alpha, cudnnFilterStruct *w_of, const void *w,
                                        cudnnTensorStruct *dy_of, const void *dy, cudnnConvolutionStruct *convolution, int algorithm,
                                        void *workspace, size_t workspace_bytes, const void *beta, cudnnTensorStruct *dx_of, void *dx)
{
    work all = {INPUT_GRADIENT,        *dx_of,    *dy_of,          *w_of,     *convolution,  dx,          const_cast<void *>(dy),
                const_cast<void *>(w), workspace, workspace_bytes, algorithm, number(alpha), number(beta)};
    return queue(handle, all);
}

static int cudnnConvolutionBackwardFilter(cudnnContext *handle, const void *alpha, cudnnTensorStruct *x_of, const void *x,
                                          cudnnTensorStruct *dy_of, const void *dy, cudnnConvolutionStruct *convolution, int algorithm,
                                          void *workspace, size_t workspace_bytes, const void *beta, cudnnFilterStruct *dw_of, void *dw)
{
    work all = {WEIGHT_GRADIENT, *x_of,           *dy_of,    *dw_of,        *convolution, const_cast<void *>(x), const_cast<void *>(dy), dw,
                workspace,       workspace_bytes, algorithm, number(alpha), number(beta)};
    return queue(handle, all);
}

dt_status vision_cudnn_load(struct vision_cudnn *out)
{
    DT_TRY(library_that_is_named("cuDNN", "DTBENCH_LIBCUDNN"));
#define ROW(member, symbol, ...) out->member = symbol;
    VISION_CUDNN(ROW)
#undef ROW
    return DT_OK;
}
}
