/* Takes the place of lib/kernels/cuda/launch.cuh: kernels run on the emulated stream's thread (simt.h). */
#pragma once

#include <cuda_runtime.h>

extern "C" {
#include "lib/kernels/cuda/kernels.h"
}
#include "test/cuda_emulator/runtime/stream.h"
#include "test/cuda_emulator/simt/simt.h"

#include <functional>
#include <string>

namespace dt_cuda {

inline void wait_for_earlier()
{
    simt_has_waited = true;
}

/* What is the same for all kernels: their types add no more than `kernel`, which is called once per CUDA thread. */
inline dt_status launch_grid(const simt::grid &shape, struct dt_stream *stream, std::function<void()> kernel)
{
    if (!stream)
        return dt_cuda_check_shared_memory(shape.name, shape.shared_bytes);
    if (shape.shared_bytes > 48 * 1024)
        DT_TRY(dt_cuda_status(cudaFuncSetAttribute(shape.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shape.shared_bytes),
                              shape.name));
    if (!simt::refusal(shape).empty() || shape.shared_bytes > emulator_dynamic_shared_limit(shape.kernel))
        return dt_cuda_status(emulator_error(cudaErrorInvalidConfiguration), shape.name);
    return dt_cuda_status(emulator_enqueue(dt_cuda_stream(stream), shape.name,
                                           [shape, kernel] {
                                               simt_has_waited = false;
                                               std::string problem = simt::run(shape, kernel);
                                               if (problem.empty() && !simt_has_waited)
                                                   problem = std::string(shape.name) +
                                                             ": a kernel that is launched early begins with wait_for_earlier";
                                               if (!problem.empty())
                                                   emulator_fault(cudaErrorLaunchFailure, "%s", problem.c_str());
                                           }),
                          shape.name);
}

template <typename... Formal, typename... Actual>
inline dt_status launch(const char *name, void (*kernel)(Formal...), dim3 grid, dim3 block, size_t shared_bytes, struct dt_stream *stream,
                        Actual... arguments)
{
    return launch_grid({name, grid, block, shared_bytes, (const void *)kernel}, stream, [=] { kernel(static_cast<Formal>(arguments)...); });
}

template <typename T> inline T *dynamic_shared()
{
    return (T *)simt::dynamic_shared();
}

} // namespace dt_cuda
