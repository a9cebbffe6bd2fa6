/* Starting a kernel, and its dynamic shared memory. These are the two things that the emulated GPU
 * (test/cuda_emulator) does differently, in a file with the same name. */
#pragma once

#include <cuda_runtime.h>

#include "lib/kernels/cuda/kernels.h"

namespace dt_cuda {

/* Queue `kernel`, which must begin with wait_for_earlier, on `stream`: grid and block as in <<<>>>.
 * Asks CUDA for more than 48 KiB of dynamic shared memory if needed. stream NULL: nothing is
 * queued; checks whether blocks of this GPU can have so much shared memory. Errors: DT_ERR_DEVICE,
 * with `name`. */
template <typename... Formal, typename... Actual>
inline dt_status launch(const char *name, void (*kernel)(Formal...), dim3 grid, dim3 block, size_t shared_bytes, struct dt_stream *stream,
                        Actual... arguments)
{
    if (!stream)
        return dt_cuda_check_shared_memory(name, shared_bytes);
    if (shared_bytes > 48 * 1024)
        DT_TRY(dt_cuda_status(cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes),
                              name));
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t how = {grid, block, shared_bytes, dt_cuda_stream(stream), &early, dt_cuda_launches_early(stream) ? 1u : 0u};
    return dt_cuda_status(cudaLaunchKernelEx(&how, kernel, static_cast<Formal>(arguments)...), name);
}

/* Every kernel begins with this, before it reads or writes memory. If it was launched early
 * (dt_cuda_launches_early), all earlier kernels of its stream have ended afterwards, and their
 * results are visible. The next kernel may be launched from here on: its blocks use free
 * multiprocessors, and wait at this point. Without early launches nothing happens. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
__device__ inline void wait_for_earlier()
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
#else
__device__ inline void wait_for_earlier()
{
}
#endif

/* The block's dynamic shared memory. */
template <typename T> __device__ inline T *dynamic_shared()
{
    extern __shared__ __align__(128) unsigned char dt_cuda_dynamic_shared[];
    return reinterpret_cast<T *>(dt_cuda_dynamic_shared);
}

} // namespace dt_cuda
