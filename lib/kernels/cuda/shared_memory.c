#include "lib/kernels/cuda/kernels.h"

#include <cuda_runtime.h>

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
