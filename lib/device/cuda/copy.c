/* Copies and fills. A copy between the device and memory of the caller's own goes through pinned memory piece by piece: CUDA itself would
 * block the host until such a copy is done, and with it whatever the stream is waiting for. */
#include "lib/device/cuda/parts.h"

#include <cuda_runtime.h>
#include <string.h>

enum { STAGING_BYTES = 4 << 20 };

struct move {
    void *to;
    const void *from;
    size_t bytes;
};

static dt_status run_move(void *arguments)
{
    const struct move *a = arguments;
    memcpy(a->to, a->from, a->bytes);
    return DT_OK;
}

static dt_status move_on_host(struct dt_stream *stream, void *to, const void *from, size_t bytes)
{
    struct move a = {to, from, bytes};
    return dt_cuda_submit_host(stream, "copy", run_move, &a, sizeof a);
}

static dt_status move_by_device(struct dt_stream *stream, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    return dt_cuda_status(cudaMemcpyAsync(to, from, bytes, kind, dt_cuda_stream(stream)), "copy");
}

static dt_status move_pieces(struct dt_stream *stream, char *to, const char *from, size_t bytes, bool to_host, void *staging)
{
    for (size_t at = 0; at < bytes; at += STAGING_BYTES) {
        size_t piece = bytes - at < STAGING_BYTES ? bytes - at : STAGING_BYTES;
        if (to_host) {
            DT_TRY(move_by_device(stream, staging, from + at, piece, cudaMemcpyDeviceToHost));
            DT_TRY(move_on_host(stream, to + at, staging, piece));
        } else {
            DT_TRY(move_on_host(stream, staging, from + at, piece));
            DT_TRY(move_by_device(stream, to + at, staging, piece, cudaMemcpyHostToDevice));
        }
    }
    return DT_OK;
}

static dt_status move_staged(struct dt_stream *stream, char *to, const char *from, size_t bytes, bool to_host)
{
    struct cuda_device *device = (struct cuda_device *)stream->device;
    struct cuda_block *staging;
    DT_TRY(dt_cuda_take(&device->host_pool, (struct cuda_stream *)stream, bytes < STAGING_BYTES ? bytes : STAGING_BYTES, &staging));
    dt_status status = move_pieces(stream, to, from, bytes, to_host, staging->data);
    dt_cuda_give(&device->host_pool, (struct cuda_stream *)stream, staging);
    return status;
}

static bool is_pinned(const struct dt_stream *stream, const void *address)
{
    return dt_cuda_pool_contains(&((const struct cuda_device *)stream->device)->host_pool, address);
}

dt_status dt_cuda_copy(struct dt_stream *stream, void *to, const void *from, size_t bytes)
{
    return move_by_device(stream, to, from, bytes, cudaMemcpyDeviceToDevice);
}

dt_status dt_cuda_copy_from_host(struct dt_stream *stream, void *to, const void *from, size_t bytes)
{
    return is_pinned(stream, from) ? move_by_device(stream, to, from, bytes, cudaMemcpyHostToDevice)
                                   : move_staged(stream, to, from, bytes, false);
}

dt_status dt_cuda_copy_to_host(struct dt_stream *stream, void *to, const void *from, size_t bytes)
{
    return is_pinned(stream, to) ? move_by_device(stream, to, from, bytes, cudaMemcpyDeviceToHost)
                                 : move_staged(stream, to, from, bytes, true);
}

dt_status dt_cuda_zero(struct dt_stream *stream, void *to, size_t bytes)
{
    return dt_cuda_status(cudaMemsetAsync(to, 0, bytes, dt_cuda_stream(stream)), "zero");
}
