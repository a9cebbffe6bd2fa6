/* CUDA's errors as ours. */
#include "lib/device/cuda/device.h"

#include <cuda_runtime.h>

dt_status dt_cuda_status(int error, const char *what)
{
    if (error == cudaSuccess)
        return DT_OK;
    cudaGetLastError(); /* CUDA keeps an error for whoever asks next, who would take it for its own */
    return dt_fail(error == cudaErrorMemoryAllocation ? DT_ERR_OOM : DT_ERR_DEVICE, "%s: %s", what, cudaGetErrorString((cudaError_t)error));
}
