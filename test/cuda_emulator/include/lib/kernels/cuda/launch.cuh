/* Takes the place of lib/kernels/cuda/launch.cuh: kernels run on the emulated stream's thread (simt.h). */
#ifndef LIB_KERNELS_CUDA_LAUNCH_CUH
#define LIB_KERNELS_CUDA_LAUNCH_CUH

#include <cuda_runtime.h>

extern "C" {
#include "lib/kernels/cuda/kernels.h"
}
#include "test/cuda_emulator/runtime/stream.h"
#include "test/cuda_emulator/simt/simt.h"

#include <tuple>

namespace dt_cuda {

inline void wait_for_earlier()
{
    simt_has_waited = true;
}

template <typename... Formal, typename... Actual>
inline dt_status launch(const char *name, void (*kernel)(Formal...), dim3 grid, dim3 block, size_t shared_bytes, struct dt_stream *stream,
                        Actual... arguments)
{
    if (!stream)
        return dt_cuda_check_shared_memory(name, shared_bytes);
    if (shared_bytes > 48 * 1024)
        DT_TRY(dt_cuda_status(cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes),
                              name));
    simt::grid shape = {name, grid, block, shared_bytes, (const void *)kernel};
    if (!simt::refusal(shape).empty() || shared_bytes > emulator_dynamic_shared_limit((const void *)kernel))
        return dt_cuda_status(emulator_error(cudaErrorInvalidConfiguration), name);
    std::tuple<Formal...> values(static_cast<Formal>(arguments)...);
    return dt_cuda_status(emulator_enqueue(dt_cuda_stream(stream), name,
                                           [=] {
                                               simt_has_waited = false;
                                               std::string problem = simt::run(shape, [&] { std::apply(kernel, values); });
                                               if (problem.empty() && !simt_has_waited)
                                                   problem =
                                                       std::string(name) + ": a kernel that is launched early begins with wait_for_earlier";
                                               if (!problem.empty())
                                                   emulator_fault(cudaErrorLaunchFailure, "%s", problem.c_str());
                                           }),
                          name);
}

template <typename T> inline T *dynamic_shared()
{
    return (T *)simt::dynamic_shared();
}

} // namespace dt_cuda

#endif
