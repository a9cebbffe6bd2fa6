/* Code that the kernels with wgmma.cuh's instructions share: descriptors of tiles in shared memory,
 * and tensor maps of the arrays from which tiles are copied. */
#ifndef GPT_CUDA_HOPPER_CUH
#define GPT_CUDA_HOPPER_CUH

#include "gpt/cuda/kernels.cuh"
#include "gpt/cuda/wgmma.cuh"

namespace gpt_cuda {

/* A descriptor (wgmma.cuh) of a matrix in rows of SPAN bytes. */
template <int SPAN> __device__ inline uint64_t matrix_at(const void *at, int leading_bytes)
{
    constexpr uint64_t SWIZZLE = SPAN == 128 ? 1 : SPAN == 64 ? 2 : 3, STRIDE = 8 * SPAN;
    return SWIZZLE << 62 | STRIDE >> 4 << 32 | (uint64_t)(leading_bytes >> 4) << 16 | (shared_address(at) & 0x3FFFF) >> 4;
}

/* The driver's cuTensorMapEncodeTiled. The runtime finds it, because dtbench calls the driver for
 * nothing else. */
using encode_function = decltype(&cuTensorMapEncodeTiled);
inline encode_function encoder()
{
    static encode_function found;
    void *function = nullptr;
    cudaDriverEntryPointQueryResult result;
    if (found)
        return found;
#if CUDART_VERSION >= 12050
    cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &result);
#else
    cudaError_t error = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &result);
#endif
    if (error == cudaSuccess && result == cudaDriverEntryPointSuccess)
        found = (encode_function)function;
    return found;
}

/* The tensor map of an array of four dimensions, innermost first, to copy boxes of it to tiles
 * whose rows have SPAN bytes. sizes [4]; bytes [3]: strides of all dimensions but the first,
 * multiples of 16, as `from` is; box [4]: box[0] elements are SPAN bytes. Errors:
 * DT_ERR_UNAVAILABLE; DT_ERR_DEVICE, with the `name` of the kernel. */
template <typename E, int SPAN>
dt_status tensor_map(const char *name, const void *from, const cuuint64_t *sizes, const cuuint64_t *bytes, const cuuint32_t *box,
                     CUtensorMap *map)
{
    static const cuuint32_t steps[] = {1, 1, 1, 1};
    encode_function encode = encoder();
    if (!encode)
        return dt_fail(DT_ERR_UNAVAILABLE, "%s: this driver has no cuTensorMapEncodeTiled, which warpgroup_kernels need", name);
    CUresult result = encode(map, std::is_same<E, __half>::value ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4,
                             const_cast<void *>(from), sizes, bytes, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                             SPAN == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                             : SPAN == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                          : CU_TENSOR_MAP_SWIZZLE_32B,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? DT_OK : dt_fail(DT_ERR_DEVICE, "%s: cuTensorMapEncodeTiled: error %d", name, (int)result);
}

} // namespace gpt_cuda

#endif
