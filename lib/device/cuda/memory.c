/* Memory of the cuda device: two pools over what cudaMalloc (or another source) and cudaHostAlloc
 * give, and memory that libraries and kernels allocate themselves. */
#include "lib/device/cuda/internal.h"

#include <cuda_runtime.h>
#include <stdlib.h>
#include <string.h>

static dt_status cuda_malloc(size_t bytes, void **out)
{
    return dt_cuda_status(cudaMalloc(out, bytes), "cudaMalloc");
}

static dt_status grow_device(void *context, size_t bytes, void **out)
{
    const struct dt_cuda_source *source = context;
    return source->get ? source->get(source->context, bytes, out) : cuda_malloc(bytes, out);
}

static void shrink_device(void *context, void *data)
{
    const struct dt_cuda_source *source = context;
    if (source->get)
        source->give_back(source->context, data);
    else
        cudaFree(data);
}

static dt_status grow_host(void *context, size_t bytes, void **out)
{
    return dt_cuda_status(cudaHostAlloc(out, bytes, cudaHostAllocDefault), "cudaHostAlloc");
}

static void shrink_host(void *context, void *data)
{
    cudaFreeHost(data);
}

void dt_cuda_memory_init(struct cuda_device *device)
{
    device->pool = (struct cuda_pool){.name = "device", .grow = grow_device, .shrink = shrink_device, .context = &device->source};
    device->pool.separate = getenv("DTBENCH_SEPARATE_BUFFERS") != NULL;
    device->host_pool = (struct cuda_pool){.name = "host", .grow = grow_host, .shrink = shrink_host};
}

void dt_cuda_memory_finish(struct cuda_device *device)
{
    while (device->own)
        dt_cuda_own_free(&device->base, device->own->data);
    dt_cuda_pool_finish(&device->pool);
    dt_cuda_pool_finish(&device->host_pool);
    if (device->source.get)
        device->source.end(device->source.context);
}

/* ---- giving back ---- */

/* Addresses in graphs must stay valid as long as a graph may be launched. */
static bool pinned(const struct cuda_device *device)
{
    return device->capture != 0 || device->graphs;
}

/* cudaFree waits for the whole device: so it is not called while work is queued, or ranks could
 * wait for each other. */
static bool all_idle(const struct cuda_device *device)
{
    for (int i = 0; i < CUDA_STREAMS; i++) {
        if (device->streams[i] && cudaStreamQuery(device->streams[i]->handle) != cudaSuccess) {
            cudaGetLastError();
            return false;
        }
    }
    return true;
}

void dt_cuda_memory_settle(struct cuda_device *device)
{
    dt_cuda_pool_join(&device->pool, &device->order);
    dt_cuda_pool_join(&device->host_pool, &device->order);
    bool unsettled = dt_cuda_pool_unsettled(&device->pool), host_unsettled = dt_cuda_pool_unsettled(&device->host_pool);
    if ((!unsettled && !host_unsettled) || pinned(device) || !all_idle(device))
        return;
    if (unsettled)
        dt_cuda_pool_settle(&device->pool);
    if (host_unsettled)
        dt_cuda_pool_settle(&device->host_pool);
}

dt_status dt_cuda_set_source(struct dt_device *base, const struct dt_cuda_source *source)
{
    struct cuda_device *device = (struct cuda_device *)base;
    if (pinned(device))
        return dt_fail(DT_ERR_INVALID, "device memory: its source cannot change while there is a graph");
    DT_TRY(dt_cuda_wait_for_all(device, 0));
    dt_cuda_pool_release(&device->pool);
    if (device->pool.segments)
        return dt_fail(DT_ERR_INVALID, "device memory: its source cannot change while there are buffers");
    if (device->source.get)
        device->source.end(device->source.context);
    device->source = *source;
    return DT_OK;
}

/* The driver has no more memory: wait until queued work is done, and return free segments. Queued
 * work may need peers that wait for this rank's host, so this wait has a limit. DT_ERR_OOM if there
 * is nothing to return. */
static dt_status make_room(struct cuda_device *device)
{
    enum { LONGEST_S = 20 };
    if (pinned(device))
        return DT_ERR_OOM;
    dt_status status = dt_cuda_wait_for_all(device, LONGEST_S);
    if (status < 0)
        return status == DT_ERR_TIMEOUT ? DT_ERR_OOM : status;
    return dt_cuda_pool_release(&device->pool) + dt_cuda_pool_release(&device->host_pool) > 0 ? DT_OK : DT_ERR_OOM;
}

/* The error text says what uses the memory: buffers, the pool's free blocks, kernels and libraries
 * that allocated from this device; CUDA itself and other processes have the rest. */
static dt_status out_of_memory(const struct cuda_device *device, bool on_host, size_t bytes)
{
    size_t free_bytes = 0, total_bytes = 0;
    char asked[DT_MEMORY_TEXT], used[DT_MEMORY_TEXT], kept[DT_MEMORY_TEXT], own[DT_MEMORY_TEXT], left[DT_MEMORY_TEXT],
        total[DT_MEMORY_TEXT];
    const struct cuda_pool *pool = on_host ? &device->host_pool : &device->pool;
    uint64_t live_bytes = pool->live_bytes[CUDA_POOL_LARGE] + pool->live_bytes[CUDA_POOL_SMALL], own_bytes = 0;
    dt_memory_text(bytes, asked);
    dt_memory_text(live_bytes, used);
    dt_memory_text(pool->reserved_bytes - live_bytes, kept);
    if (on_host)
        return dt_fail(DT_ERR_OOM, "out of host memory: CUDA refuses %s more that is pinned; buffers hold %s, and pieces of %s are left",
                       asked, used, kept);
    for (const struct cuda_own *one = device->own; one; one = one->next)
        own_bytes += one->bytes;
    cudaMemGetInfo(&free_bytes, &total_bytes);
    return dt_fail(
        DT_ERR_OOM,
        "out of device memory: CUDA refuses %s more; of the GPU's %s, buffers hold %s, pieces of %s are left between them, kernels "
        "and libraries hold %s, and %s are free",
        asked, dt_memory_text(total_bytes, total), used, kept, dt_memory_text(own_bytes, own), dt_memory_text(free_bytes, left));
}

/* ---- buffers ---- */

/* Take a block of one of the two pools, usable on `stream` from now on. */
static dt_status take(struct cuda_pool *pool, struct cuda_stream *stream, size_t bytes, struct cuda_block **out)
{
    struct cuda_device *device = (struct cuda_device *)stream->base.device;
    struct cuda_places waits;
    dt_status status = dt_cuda_pool_take(pool, &device->order, stream->index, bytes, out, &waits);
    if (status == DT_ERR_OOM) {
        status = make_room(device);
        DT_THEN(status, dt_cuda_pool_take(pool, &device->order, stream->index, bytes, out, &waits));
    }
    if (status == DT_ERR_OOM)
        return out_of_memory(device, pool == &device->host_pool, bytes);
    DT_TRY(status);
    status = dt_cuda_wait_for_places(stream, &waits);
    if (status < 0)
        dt_cuda_pool_give(pool, &device->order, *out, &waits);
    return status;
}

/* If a mark cannot be made, the device has failed; the next call returns its failure. */
static void give(struct cuda_pool *pool, struct cuda_stream *stream, struct cuda_block *block)
{
    struct cuda_places after = {{0}};
    dt_cuda_mark(stream, &after.at[stream->index]);
    dt_cuda_pool_give(pool, &((struct cuda_device *)stream->base.device)->order, block, &after);
}

struct move {
    void *to;
    const void *from; /* NULL: fill the bytes with poison */
    size_t bytes;
};

static dt_status run_move(void *arguments)
{
    const struct move *a = arguments;
    if (a->from)
        memcpy(a->to, a->from, a->bytes);
    else
        memset(a->to, 0xFF, a->bytes);
    return DT_OK;
}

static dt_status move_on_host(struct dt_stream *stream, void *to, const void *from, size_t bytes)
{
    struct move a = {to, from, bytes};
    return dt_cuda_submit_host(stream, from ? "copy" : "poison", run_move, &a, sizeof a);
}

static struct cuda_pool *pool_of(struct dt_device *base, bool on_host)
{
    struct cuda_device *device = (struct cuda_device *)base;
    return on_host ? &device->host_pool : &device->pool;
}

dt_status dt_cuda_alloc(struct dt_stream *stream, size_t bytes, struct dt_buffer *out)
{
    struct cuda_block *block;
    DT_TRY(take(pool_of(stream->device, out->on_host), (struct cuda_stream *)stream, bytes, &block));
    out->data = block->data;
    out->block = block;
    if (!((struct cuda_device *)stream->device)->poison)
        return DT_OK;
    return out->on_host ? move_on_host(stream, out->data, NULL, bytes)
                        : dt_cuda_status(cudaMemsetAsync(out->data, 0xFF, bytes, dt_cuda_stream(stream)), "poison");
}

void dt_cuda_free(struct dt_stream *stream, const struct dt_buffer *buffer)
{
    give(pool_of(stream->device, buffer->on_host), (struct cuda_stream *)stream, buffer->block);
}

/* ---- memory of libraries and kernels ---- */

static dt_status zero_now(void *data, size_t bytes)
{
    DT_TRY(dt_cuda_status(cudaMemset(data, 0, bytes), "zero"));
    return dt_cuda_status(cudaStreamSynchronize(NULL), "zero"); /* the default stream, where nothing else is ever queued */
}

static dt_status grow_or_make_room(struct cuda_device *device, size_t bytes, void **out)
{
    dt_status status = cuda_malloc(bytes, out);
    if (status == DT_ERR_OOM) {
        status = make_room(device);
        DT_THEN(status, cuda_malloc(bytes, out));
    }
    return status == DT_ERR_OOM ? out_of_memory(device, false, bytes) : status;
}

dt_status dt_cuda_own_alloc(struct dt_device *base, size_t bytes, void **out)
{
    struct cuda_device *device = (struct cuda_device *)base;
    *out = NULL;
    if (device->capture)
        return dt_fail(DT_ERR_INVALID, "kernels cannot allocate memory of their own while a graph is captured");
    if (bytes == 0)
        return DT_OK;
    struct cuda_own *own = calloc(1, sizeof *own);
    DT_TRY(dt_allocated(own, "memory of the kernels' own: no host memory"));
    dt_status status = grow_or_make_room(device, bytes, &own->data);
    DT_THEN(status, zero_now(own->data, bytes));
    if (status < 0) {
        cudaFree(own->data);
        free(own);
        return status;
    }
    own->bytes = bytes;
    own->next = device->own;
    device->own = own;
    *out = own->data;
    return DT_OK;
}

void dt_cuda_own_free(struct dt_device *base, void *memory)
{
    struct cuda_device *device = (struct cuda_device *)base;
    struct cuda_own **place = &device->own;
    while (*place && (*place)->data != memory)
        place = &(*place)->next;
    struct cuda_own *own = *place;
    if (!memory || !own)
        return;
    /* cudaFree would wait too, but would not notice a lost rank; a failure has been returned, or
     * will be */
    dt_cuda_wait_for_all(device, 0);
    *place = own->next;
    cudaFree(own->data);
    free(own);
}

/* ---- copies and fills ----
 *
 * A copy between the device and the caller's own memory goes through pinned memory piece by piece.
 * Otherwise CUDA would block the host until the copy is done, and all work that the stream waits
 * for. */

enum { STAGING_BYTES = 4 << 20 };

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
    DT_TRY(take(&device->host_pool, (struct cuda_stream *)stream, bytes < STAGING_BYTES ? bytes : STAGING_BYTES, &staging));
    dt_status status = move_pieces(stream, to, from, bytes, to_host, staging->data);
    give(&device->host_pool, (struct cuda_stream *)stream, staging);
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
