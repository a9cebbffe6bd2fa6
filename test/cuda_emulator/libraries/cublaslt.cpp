/* cuBLASLt of the emulated GPU: products as plain loops, queued like kernels. It refuses what the
 * real one would, and is stricter where the real one's limits depend on the GPU and the version: so
 * what dtbench does where an epilogue is missing is run as well.
 *
 * An algorithm is good for the alignments that it was asked for, and for no less. In 16 bits: an
 * added bias needs columns that are aligned to 4 bytes, the bias gradient a transposed second
 * operand and everything aligned to 16, GELU and its derivative everything aligned to 16. In fp32
 * there is only the added bias. The algorithm that is named first is the slowest, and sums in
 * another order than the last: who chooses by time gets other bits. */
#include "test/cuda_emulator/libraries/named.h"
#include "test/cuda_emulator/runtime/stream.h"

#include "gpt/cuda/cublaslt.h"

extern "C" {
#include "lib/base/dtype.h"
}

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

struct emulated_cublaslt {
    int device;
};

struct emulated_cublaslt_operation {
    cublasOperation_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    void *bias = nullptr, *gelu_input = nullptr;
    int64_t gelu_stride = 0;
    int32_t multiprocessors = 0; /* 0: all */
};

struct emulated_cublaslt_layout {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t stride;
};

struct emulated_cublaslt_preference {
    uint64_t workspace_bytes = 0;
    uint32_t reduction_schemes = 7;
    uint32_t alignment_bytes[4] = {256, 256, 256, 256}; /* a, b, c, d */
};

namespace {

/* The contents of an algorithm's 64 bytes. */
struct algorithm {
    uint32_t pieces; /* that k is divided into */
    uint32_t scheme; /* how their sums meet */
    uint32_t epilogue;
    uint32_t alignment_bytes[4]; /* a, b, d, the epilogue's array */
    uint32_t workspace_bytes;
};
static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t));

/* A queued product. */
struct product {
    emulated_cublaslt_operation operation;
    emulated_cublaslt_layout a, b, d;
    const void *a_data, *b_data, *c_data;
    void *d_data, *workspace;
    float alpha, beta;
    algorithm how;
    size_t m, n, k;
};

size_t bytes_of(cudaDataType_t type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

float load(cudaDataType_t type, const void *from, size_t index)
{
    if (type == CUDA_R_32F)
        return static_cast<const float *>(from)[index];
    unsigned short bits = static_cast<const unsigned short *>(from)[index];
    return type == CUDA_R_16F ? dt_fp16_to_fp32(bits) : dt_bf16_to_fp32(bits);
}

void store(cudaDataType_t type, void *to, size_t index, float value)
{
    if (type == CUDA_R_32F)
        static_cast<float *>(to)[index] = value;
    else
        static_cast<unsigned short *>(to)[index] = type == CUDA_R_16F ? dt_fp32_to_fp16(value) : dt_fp32_to_bf16(value);
}

float rounded(cudaDataType_t type, float value)
{
    char bits[4];
    store(type, bits, 0, value);
    return load(type, bits, 0);
}

/* The largest power of two, at most 16, that divides everything in `bits`. */
uint32_t alignment_of(uint64_t bits)
{
    bits |= 16;
    return (uint32_t)(bits & (~bits + 1));
}

/* ---- the loops ---- */

enum { TILE_ROWS = 8, TILE_COLUMNS = 4 };
typedef float four __attribute__((vector_size(16)));

/* sums [TILE_COLUMNS][TILE_ROWS] of a [k][TILE_ROWS] and b [k][TILE_COLUMNS], in fp32. */
void multiply_tile(const float *a, const float *b, size_t k, float *sums)
{
    four sum[TILE_COLUMNS][2] = {};
    for (size_t p = 0; p < k; p++, a += TILE_ROWS, b += TILE_COLUMNS) {
        four low, high;
        memcpy(&low, a, sizeof low);
        memcpy(&high, a + 4, sizeof high);
        for (int j = 0; j < TILE_COLUMNS; j++) {
            sum[j][0] += low * b[j];
            sum[j][1] += high * b[j];
        }
    }
    memcpy(sums, sum, sizeof sum);
}

/* An operand, [k, count] after its operation, as panels [k][width], the last one padded with zeros.
 * `along`: its columns lie along k. */
std::vector<float> panels(const emulated_cublaslt_layout &layout, const void *data, size_t k, size_t count, size_t width, bool along)
{
    std::vector<float> packed((count + width - 1) / width * width * k);
    for (size_t column = 0; column < layout.columns; column++)
        for (size_t row = 0; row < layout.rows; row++) {
            size_t p = along ? row : column, i = along ? column : row;
            packed[(i / width * k + p) * width + i % width] = load(layout.type, data, column * (size_t)layout.stride + row);
        }
    return packed;
}

bool makes_gelu(cublasLtEpilogue_t e)
{
    return e == CUBLASLT_EPILOGUE_GELU_AUX || e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

bool has_gelu(cublasLtEpilogue_t e)
{
    return makes_gelu(e) || e == CUBLASLT_EPILOGUE_DGELU || e == CUBLASLT_EPILOGUE_DGELU_BGRAD;
}

bool adds_bias(cublasLtEpilogue_t e)
{
    return e == CUBLASLT_EPILOGUE_BIAS || e == CUBLASLT_EPILOGUE_RELU_BIAS || e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

bool has_bias(cublasLtEpilogue_t e)
{
    return adds_bias(e) || e == CUBLASLT_EPILOGUE_BGRADB || e == CUBLASLT_EPILOGUE_DGELU_BGRAD;
}

/* tanh form; tanh of u = sqrt(2 / pi) (x + 0.044715 x^3) */
float gelu_tanh(float x)
{
    return std::tanh(0.7978845608f * (x + 0.044715f * x * x * x));
}

float gelu(float x)
{
    return 0.5f * x * (1 + gelu_tanh(x));
}

float gelu_derivative(float x)
{
    float t = gelu_tanh(x);
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608f * (1 + 3 * 0.044715f * x * x);
}

/* row_sums [m], or null: of what d becomes, before it is rounded. */
void finish_element(const product &w, size_t row, size_t column, float sum, float *row_sums)
{
    cudaDataType_t type = w.d.type;
    cublasLtEpilogue_t epilogue = w.operation.epilogue;
    size_t at = column * (size_t)w.d.stride + row, at_gelu = column * (size_t)w.operation.gelu_stride + row;
    float value = w.alpha * sum;
    if (w.beta != 0)
        value += w.beta * load(type, w.c_data, at);
    if (adds_bias(epilogue))
        value += load(type, w.operation.bias, row);
    if (epilogue == CUBLASLT_EPILOGUE_RELU || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS)
        value = value <= 0 ? 0 : value;
    if (makes_gelu(epilogue)) {
        store(type, w.operation.gelu_input, at_gelu, value);
        value = gelu(value);
    } else if (has_gelu(epilogue)) {
        value *= gelu_derivative(load(type, w.operation.gelu_input, at_gelu));
    }
    if (row_sums)
        row_sums[row] += value;
    store(type, w.d_data, at, value);
}

void multiply(const product &w)
{
    std::vector<float> a = panels(w.a, w.a_data, w.k, w.m, TILE_ROWS, w.operation.op_a == CUBLAS_OP_T);
    std::vector<float> b = panels(w.b, w.b_data, w.k, w.n, TILE_COLUMNS, w.operation.op_b == CUBLAS_OP_N);
    std::vector<float> row_sums(w.operation.epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD ? w.m : 0);
    for (size_t row = 0; row < w.m; row += TILE_ROWS)
        for (size_t column = 0; column < w.n; column += TILE_COLUMNS) {
            float sums[TILE_COLUMNS * TILE_ROWS] = {}, piece[TILE_COLUMNS * TILE_ROWS];
            for (size_t i = 0; i < w.how.pieces; i++) {
                size_t first = i * w.k / w.how.pieces, end = (i + 1) * w.k / w.how.pieces;
                multiply_tile(&a[row * w.k + first * TILE_ROWS], &b[column * w.k + first * TILE_COLUMNS], end - first, piece);
                for (int e = 0; e < TILE_COLUMNS * TILE_ROWS; e++)
                    sums[e] =
                        w.how.scheme & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE ? rounded(w.d.type, sums[e] + piece[e]) : sums[e] + piece[e];
            }
            for (size_t j = 0; j < TILE_COLUMNS && column + j < w.n; j++)
                for (size_t i = 0; i < TILE_ROWS && row + i < w.m; i++)
                    finish_element(w, row + i, column + j, sums[j * TILE_ROWS + i], row_sums.empty() ? nullptr : row_sums.data());
        }
    for (size_t row = 0; row < row_sums.size(); row++)
        store(w.d.type, w.operation.bias, row, row_sums[row]);
    for (size_t column = 0; w.operation.epilogue == CUBLASLT_EPILOGUE_BGRADB && column < w.n; column++) {
        float sum = 0;
        for (size_t p = 0; p < w.k; p++)
            sum += b[(column / TILE_COLUMNS * w.k + p) * TILE_COLUMNS + column % TILE_COLUMNS];
        store(w.d.type, w.operation.bias, column, sum);
    }
}

/* ---- what is asked of the operands ---- */

struct span {
    const char *name;
    const void *data;
    size_t bytes;
};

size_t bytes_of(const emulated_cublaslt_layout &layout)
{
    return ((layout.columns - 1) * (size_t)layout.stride + layout.rows) * bytes_of(layout.type);
}

bool overlap(const span &a, const span &b)
{
    const char *from_a = static_cast<const char *>(a.data), *from_b = static_cast<const char *>(b.data);
    return from_a < from_b + b.bytes && from_b < from_a + a.bytes;
}

/* The additional time of a divided k. */
long slow_us()
{
    static const char *const set = getenv("DTBENCH_EMULATED_SLOW_US");
    return set ? strtol(set, nullptr, 10) : 100;
}

void run(const product &w)
{
    std::vector<span> all = {{"d", w.d_data, bytes_of(w.d)}, {"a", w.a_data, bytes_of(w.a)}, {"b", w.b_data, bytes_of(w.b)}};
    if (has_bias(w.operation.epilogue))
        all.push_back({"the bias", w.operation.bias, (w.operation.epilogue == CUBLASLT_EPILOGUE_BGRADB ? w.n : w.m) * bytes_of(w.d.type)});
    if (w.beta != 0 && w.c_data != w.d_data)
        all.push_back({"c", w.c_data, bytes_of(w.d)});
    if (has_gelu(w.operation.epilogue))
        all.push_back({"GELU's input", w.operation.gelu_input, ((w.n - 1) * (size_t)w.operation.gelu_stride + w.m) * bytes_of(w.d.type)});
    if (w.how.workspace_bytes)
        all.push_back({"the workspace", w.workspace, w.how.workspace_bytes});
    for (const span &s : all) {
        if (!emulator_touchable(s.data, s.bytes))
            return emulator_fault(cudaErrorIllegalAddress, "%s: %zu bytes at %p are not the device's", s.name, s.bytes, s.data);
        if (s.data != w.d_data && overlap(s, all[0]))
            return emulator_fault(cudaErrorIllegalAddress, "%s overlaps d", s.name);
    }
    if (w.how.workspace_bytes) /* whatever else lies there is lost */
        memset(w.workspace, 0xFF, w.how.workspace_bytes);
    if (w.how.pieces > 1)
        std::this_thread::sleep_for(std::chrono::microseconds(slow_us()));
    multiply(w);
}

/* Fills w's sizes. The shapes must fit each other. */
cublasStatus_t fit(product &w, const emulated_cublaslt_layout &c)
{
    const emulated_cublaslt_operation &o = w.operation;
    w.m = w.d.rows;
    w.n = w.d.columns;
    w.k = o.op_a == CUBLAS_OP_N ? w.a.columns : w.a.rows;
    bool fits = (o.op_a == CUBLAS_OP_N ? w.a.rows : w.a.columns) == w.m && (o.op_b == CUBLAS_OP_N ? w.b.rows : w.b.columns) == w.k &&
                (o.op_b == CUBLAS_OP_N ? w.b.columns : w.b.rows) == w.n;
    bool same =
        c.rows == w.m && c.columns == w.n && c.stride == w.d.stride && c.type == w.d.type && w.a.type == w.d.type && w.b.type == w.d.type;
    for (const emulated_cublaslt_layout *l : {&w.a, &w.b, &w.d})
        fits = fits && l->rows > 0 && l->columns > 0 && l->stride >= (int64_t)l->rows;
    return fits && same ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

/* The alignment of an operand's every column. */
uint32_t column_alignment(const emulated_cublaslt_layout &layout, uint32_t base)
{
    return alignment_of(base | (uint64_t)layout.stride * bytes_of(layout.type));
}

cublasStatus_t supports(const product &w)
{
    const emulated_cublaslt_operation &o = w.operation;
    const uint32_t *base = w.how.alignment_bytes;
    bool narrow = w.d.type != CUDA_R_32F;
    switch (o.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT: return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
        if (has_bias(o.epilogue) && !o.bias)
            return CUBLAS_STATUS_INVALID_VALUE;
        return column_alignment(w.d, base[2]) >= 4 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
    case CUBLASLT_EPILOGUE_BGRADB:
        if (!o.bias)
            return CUBLAS_STATUS_INVALID_VALUE;
        return narrow && o.op_b == CUBLAS_OP_T && column_alignment(w.a, base[0]) == 16 && column_alignment(w.b, base[1]) == 16 &&
                       column_alignment(w.d, base[2]) == 16
                   ? CUBLAS_STATUS_SUCCESS
                   : CUBLAS_STATUS_NOT_SUPPORTED;
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
        if (!o.gelu_input || o.gelu_stride < (int64_t)w.m || o.gelu_stride % 8 != 0 || (has_bias(o.epilogue) && !o.bias))
            return CUBLAS_STATUS_INVALID_VALUE;
        return narrow && (uintptr_t)o.gelu_input % 16 == 0 && column_alignment(w.a, base[0]) == 16 &&
                       column_alignment(w.b, base[1]) == 16 && column_alignment(w.d, base[2]) == 16
                   ? CUBLAS_STATUS_SUCCESS
                   : CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

/* The bias that the epilogue names. */
uintptr_t extra_address(const emulated_cublaslt_operation &o)
{
    return has_bias(o.epilogue) ? (uintptr_t)o.bias : 0;
}

template <typename T> cublasStatus_t set(T &to, const void *value, size_t value_bytes)
{
    if (!value || value_bytes != sizeof to)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&to, value, sizeof to);
    return CUBLAS_STATUS_SUCCESS;
}

} // namespace

/* ---- the interface ---- */

size_t cublasLtGetVersion(void)
{
    return 120400;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    static const char *const names[] = {"success",       "not initialized",  "allocation failed", "invalid value",
                                        "arch mismatch", "execution failed", "internal error",    "not supported"};
    return names[status];
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    int device;
    if (cudaGetDevice(&device) != cudaSuccess)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = new emulated_cublaslt{device};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *operation, cublasComputeType_t compute, cudaDataType_t scale)
{
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *operation = new emulated_cublaslt_operation;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation)
{
    delete operation;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t o, cublasLtMatmulDescAttributes_t attribute, const void *value,
                                              size_t value_bytes)
{
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(o->op_a, value, value_bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(o->op_b, value, value_bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(o->epilogue, value, value_bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(o->bias, value, value_bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return set(o->gelu_input, value, value_bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return set(o->gelu_stride, value, value_bytes);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET: return set(o->multiprocessors, value, value_bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type, uint64_t rows, uint64_t columns,
                                          int64_t leading_dimension)
{
    *layout = new emulated_cublaslt_layout{type, rows, columns, leading_dimension};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    delete layout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = new emulated_cublaslt_preference;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    delete preference;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t value_bytes)
{
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return set(p->workspace_bytes, value, value_bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return set(p->reduction_schemes, value, value_bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return set(p->alignment_bytes[0], value, value_bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return set(p->alignment_bytes[1], value, value_bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return set(p->alignment_bytes[2], value, value_bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return set(p->alignment_bytes[3], value, value_bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

/* Up to two: one whose k is divided if that is allowed (small products only, so that trying does
 * not take long), and one in a single piece. With sums in the output's type there are many pieces,
 * so that the rounding shows. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most, cublasLtMatmulHeuristicResult_t results[],
                                              int *count)
{
    product w = {};
    *count = 0;
    if (!handle || most <= 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    const char *wanted = getenv("DTBENCH_EMULATED_PRODUCT_MULTIPROCESSORS"); /* a test's: of every product */
    if (wanted && atoi(wanted) != operation->multiprocessors)
        return CUBLAS_STATUS_INTERNAL_ERROR;
    w.operation = *operation;
    w.a = *a;
    w.b = *b;
    w.d = *d;
    cublasStatus_t status = fit(w, *c);
    w.how.epilogue = (uint32_t)operation->epilogue;
    const uint32_t *asked = preference->alignment_bytes;
    const uint32_t bytes[] = {asked[0], asked[1], asked[2] < asked[3] ? asked[2] : asked[3]};
    for (int i = 0; i < 3; i++)
        w.how.alignment_bytes[i] = alignment_of(bytes[i]);
    w.how.alignment_bytes[3] = alignment_of(extra_address(*operation));
    if (status == CUBLAS_STATUS_SUCCESS)
        status = supports(w);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    uint32_t schemes = preference->reduction_schemes & ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_INPLACE;
    most = getenv("DTBENCH_EMULATED_ONE_ALGORITHM") ? 1 : most;
    for (uint32_t pieces : {schemes & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE ? 64u : 2u, 1u}) {
        size_t workspace_bytes = pieces * w.m * w.n * sizeof(float);
        if (pieces > 1 && (schemes == 0 || workspace_bytes > preference->workspace_bytes || w.m * w.n * w.k > 100000))
            continue;
        if (*count == most)
            break;
        cublasLtMatmulHeuristicResult_t *result = &results[(*count)++];
        *result = {};
        w.how.pieces = pieces;
        w.how.scheme = pieces > 1 ? schemes : 0;
        w.how.workspace_bytes = pieces > 1 ? (uint32_t)workspace_bytes : 0;
        memcpy(&result->algo, &w.how, sizeof w.how);
        result->workspaceSize = w.how.workspace_bytes;
        result->state = CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* Could the heuristic name this algorithm? */
cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algorithm, cublasLtMatmulHeuristicResult_t *result)
{
    product w = {};
    if (!handle || !algorithm || !result)
        return CUBLAS_STATUS_INVALID_VALUE;
    w.operation = *operation;
    w.a = *a;
    w.b = *b;
    w.d = *d;
    memcpy(&w.how, algorithm, sizeof w.how);
    cublasStatus_t status = fit(w, *c);
    bool whole = (w.how.pieces == 1 || w.how.pieces == 2) && w.how.epilogue == (uint32_t)operation->epilogue;
    for (uint32_t bytes : w.how.alignment_bytes)
        whole = whole && bytes >= 1 && alignment_of(bytes) == bytes;
    if (status == CUBLAS_STATUS_SUCCESS)
        status = whole ? supports(w) : CUBLAS_STATUS_INVALID_VALUE;
    *result = {};
    result->workspaceSize = w.how.workspace_bytes;
    result->state = status;
    return status;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    product w = {};
    int device;
    if (!handle || !algorithm || cudaGetDevice(&device) != cudaSuccess || device != handle->device)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    w.operation = *operation;
    w.a = *a_layout;
    w.b = *b_layout;
    w.d = *d_layout;
    w.a_data = a;
    w.b_data = b;
    w.c_data = c;
    w.d_data = d;
    w.workspace = workspace;
    memcpy(&w.alpha, alpha, sizeof w.alpha);
    memcpy(&w.beta, beta, sizeof w.beta);
    memcpy(&w.how, algorithm, sizeof w.how);
    cublasStatus_t status = fit(w, *c_layout);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = supports(w);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    const uintptr_t addresses[] = {(uintptr_t)a, (uintptr_t)b, w.beta != 0 ? (uintptr_t)c | (uintptr_t)d : (uintptr_t)d,
                                   extra_address(*operation)};
    for (int i = 0; i < 4; i++)
        if (addresses[i] % w.how.alignment_bytes[i] != 0)
            return CUBLAS_STATUS_INVALID_VALUE;
    if (w.how.epilogue != (uint32_t)operation->epilogue || w.how.workspace_bytes > workspace_bytes)
        return CUBLAS_STATUS_INVALID_VALUE;
    return emulator_enqueue(stream, "cuBLASLt's product", [w] { run(w); }) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                                          : CUBLAS_STATUS_EXECUTION_FAILED;
}

dt_status gpt_cublaslt_load(struct gpt_cublaslt *out)
{
    DT_TRY(library_that_is_named("cuBLASLt", "DTBENCH_LIBCUBLASLT"));
    out->get_version = cublasLtGetVersion;
    out->get_status_string = cublasLtGetStatusString;
    out->create = cublasLtCreate;
    out->destroy = cublasLtDestroy;
    out->matmul = cublasLtMatmul;
    out->matmul_algo_get_heuristic = cublasLtMatmulAlgoGetHeuristic;
    out->matmul_algo_check = cublasLtMatmulAlgoCheck;
    out->matmul_desc_create = cublasLtMatmulDescCreate;
    out->matmul_desc_destroy = cublasLtMatmulDescDestroy;
    out->matmul_desc_set_attribute = cublasLtMatmulDescSetAttribute;
    out->matmul_preference_create = cublasLtMatmulPreferenceCreate;
    out->matmul_preference_destroy = cublasLtMatmulPreferenceDestroy;
    out->matmul_preference_set_attribute = cublasLtMatmulPreferenceSetAttribute;
    out->matrix_layout_create = cublasLtMatrixLayoutCreate;
    out->matrix_layout_destroy = cublasLtMatrixLayoutDestroy;
    return DT_OK;
}
