/* Maps of tensors, for copies of boxes (simt/background.h). Sizes, strides and addresses that
 * CUDA's manual excludes are refused.
 *
 * Source  CUDA Driver API, "Tensor Map Object Management". */
#include "cuda.h"
#include "cuda_runtime.h"
#include "test/cuda_emulator/simt/background.h"

#include <cstring>

static bool fits(cuuint32_t rank, const void *from, const cuuint64_t *sizes, const cuuint64_t *strides, const cuuint32_t *box,
                 const cuuint32_t *steps, cuuint64_t element_bytes, cuuint64_t span)
{
    if (rank != 4 || (uintptr_t)from % 16 != 0 || box[0] * element_bytes % 16 != 0 || (span > 0 && box[0] * element_bytes != span))
        return false;
    for (cuuint32_t i = 0; i < rank; i++)
        if (sizes[i] < 1 || sizes[i] > (cuuint64_t)1 << 32 || box[i] < 1 || box[i] > 256 || steps[i] != 1)
            return false;
    for (cuuint32_t i = 0; i + 1 < rank; i++)
        if (strides[i] % 16 != 0 || strides[i] >= (cuuint64_t)1 << 40 || strides[i] < (i == 0 ? sizes[0] * element_bytes : strides[i - 1]))
            return false;
    return true;
}

extern "C" CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *from, const cuuint64_t *sizes,
                                           const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps,
                                           CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                           CUtensorMapFloatOOBfill fill)
{
    static const uint32_t spans[] = {0, 32, 64, 128};
    (void)type, (void)interleave, (void)promotion, (void)fill;
    simt::tensor_map out = {simt::TENSOR_MAP_MAGIC, 2, spans[swizzle], rank, (const unsigned char *)from, {2}, {}, {}};
    static_assert(sizeof out <= sizeof *map, "a map holds it");
    if (!fits(rank, from, sizes, strides, box, steps, out.element_bytes, out.span))
        return CUDA_ERROR_INVALID_VALUE;
    for (cuuint32_t i = 0; i < rank; i++) {
        out.size[i] = (uint32_t)sizes[i];
        out.box[i] = box[i];
        if (i > 0)
            out.stride[i] = strides[i - 1];
    }
    memset(map, 0, sizeof *map);
    memcpy(map, &out, sizeof out);
    return CUDA_SUCCESS;
}

extern "C" cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                               cudaDriverEntryPointQueryResult *result)
{
    bool known = flags == cudaEnableDefault && strcmp(symbol, "cuTensorMapEncodeTiled") == 0;
    *function = known ? (void *)cuTensorMapEncodeTiled : nullptr;
    if (result)
        *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}
