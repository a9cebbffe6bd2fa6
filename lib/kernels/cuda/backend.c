/* The cuda device. Updates of parameters in host memory run on the host's processor, in the
 * stream's order. */
#include "lib/kernels/cuda/kernels.h"

#include "lib/base/machine.h"

/* The step's numbers in device memory, as before the first step. */
static dt_status begin_first_step(struct dt_kernels *k)
{
    struct dt_stream *stream;
    DT_TRY(dt_stream_create(k->device, "kernels", &stream));
    dt_status status = dt_cuda_begin_first_step(k, stream);
    DT_THEN(status, dt_stream_synchronize(stream));
    dt_stream_destroy(stream);
    return status;
}

static dt_status cuda_init(struct dt_kernels *k)
{
    struct dt_device_info info;
    void *step;
    dt_device_info(k->device, &info);
    k->multiprocessors = dt_cuda_multiprocessors(k->device);
    k->host.submit = dt_cuda_submit_host;
    DT_TRY(dt_host_init(k, info.threads > 0 ? info.threads : dt_machine_processors()));
    DT_TRY(dt_cuda_own_alloc(k->device, sizeof *k->cuda_step, &step));
    k->cuda_step = step;
    return begin_first_step(k);
}

static void cuda_finish(struct dt_kernels *k)
{
    dt_cuda_own_free(k->device, k->cuda_step);
}

/* The overflows of the device, plus the host's if it has made updates. */
dt_status dt_cuda_overflows(struct dt_kernels *k, struct dt_stream *stream, uint64_t *to)
{
    DT_TRY(dt_copy_to_host(stream, to, &k->cuda_step->overflows, sizeof *to));
    return k->host.updates ? dt_host_calls.overflows(k, stream, to) : DT_OK;
}

dt_status dt_cuda_norm(struct dt_kernels *k, struct dt_stream *stream, struct dt_norm_state *to)
{
    return dt_copy_to_host(stream, to, &k->cuda_step->norm, sizeof *to);
}

dt_status dt_cuda_set_norm(struct dt_kernels *k, struct dt_stream *stream, const struct dt_norm_state *from)
{
    k->host.norm = *from;
    return dt_copy_from_host(stream, &k->cuda_step->norm, &k->host.norm, sizeof *from);
}

#define ROW(entry, ...) .entry = dt_cuda_##entry,
static const struct dt_kernel_calls cuda_calls = {DT_KERNEL_CALLS(ROW)};
const struct dt_kernel_backend dt_kernels_cuda = {.init = cuda_init, .finish = cuda_finish, .calls = &cuda_calls, .host = &dt_host_calls};
