/* The step's own numbers. */
#include "gpt/kernels_cuda.cuh"

namespace {

using namespace gpt_cuda;

/* One thread: a launch's own time is the floor. */
__global__ void begin_step_kernel(struct gpt_cuda_step *step, uint32_t first_sample, int32_t number)
{
    *step = {first_sample, number, 0};
}

} // namespace

extern "C" dt_status gpt_cuda_begin_step(struct gpt_kernels *k, struct dt_stream *stream, uint32_t first_sample, int number)
{
    k->host_step = {first_sample, number, 0};
    return launch("begin step", begin_step_kernel, dim3(1), dim3(1), 0, stream, k->step, first_sample, number);
}
