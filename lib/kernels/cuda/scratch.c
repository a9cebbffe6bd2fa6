/* Memory that kernels use during one call: scratch in device memory, and shared memory of
 * blocks. */
#include "lib/kernels/cuda/kernels.h"

#include <cuda_runtime.h>

dt_status dt_cuda_scratch_reserve(struct dt_device *device, struct dt_cuda_scratch *scratch, size_t bytes)
{
    enum { UNIT = 1 << 20 };
    if (bytes <= scratch->bytes)
        return DT_OK;
    if (dt_cuda_capturing(device))
        return dt_fail(DT_ERR_INVALID, "cuda kernels: %zu bytes of scratch are first asked for while a graph is captured", bytes);
    dt_cuda_scratch_free(device, scratch);
    bytes = (bytes + UNIT - 1) / UNIT * UNIT;
    DT_TRY(dt_cuda_own_alloc(device, bytes, &scratch->data));
    scratch->bytes = bytes;
    return DT_OK;
}

void dt_cuda_scratch_free(struct dt_device *device, struct dt_cuda_scratch *scratch)
{
    dt_cuda_own_free(device, scratch->data);
    *scratch = (struct dt_cuda_scratch){0};
}

dt_status dt_cuda_check_shared_memory(const char *name, size_t bytes)
{
    int device, limit, major, minor;
    DT_TRY(dt_cuda_status(cudaGetDevice(&device), name));
    DT_TRY(dt_cuda_status(cudaDeviceGetAttribute(&limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), name));
    if (bytes <= (size_t)limit)
        return DT_OK;
    DT_TRY(dt_cuda_status(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), name));
    DT_TRY(dt_cuda_status(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), name));
    return dt_fail(DT_ERR_UNAVAILABLE,
                   "%s needs %zu KiB of shared memory, and this GPU, of compute capability %d.%d, gives a block %d KiB: take a GPU with "
                   "more (A100: 163 KiB, "
                   "H100: 227 KiB)",
                   name, (bytes + 1023) / 1024, major, minor, limit / 1024);
}
