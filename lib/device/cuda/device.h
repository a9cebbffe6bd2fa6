/* What the cuda backends know of a cuda device below lib/device/device.h: its handles, its own memory, and who else wants to be asked while
 * a stream is waited for. For lib/device/cuda, lib/comm/nccl and gpt/cuda; cuda's own types stay out of here. */
#ifndef LIB_DEVICE_CUDA_DEVICE_H
#define LIB_DEVICE_CUDA_DEVICE_H

#ifdef __cplusplus
extern "C" {
#endif

#include "lib/device/device.h"

struct CUstream_st;

/* The cudaStream_t of a stream. */
struct CUstream_st *dt_cuda_stream(const struct dt_stream *stream);

/* A cudaError_t as a status, with "<what>: <the error's own text>"; 0 is DT_OK. No memory left is DT_ERR_OOM, all else DT_ERR_DEVICE. */
dt_status dt_cuda_status(int error, const char *what);

/* Whether dt_graph_begin has begun and dt_graph_end is still to come: no call that blocks or allocates is allowed then. */
bool dt_cuda_capturing(const struct dt_device *device);

/* Its number among the GPUs that this process sees: for cudaSetDevice on another thread than the one that made it. */
int dt_cuda_ordinal(const struct dt_device *device);

/* Destroy all executable graphs now, even while one runs, which CUDA then frees at its end: NCCL's abort waits until they are gone. A
 * dt_graph whose executable is gone cannot be launched any more, only destroyed. */
void dt_cuda_graphs_drop(struct dt_device *device);

int dt_cuda_multiprocessors(const struct dt_device *device);
/* How many of them a matrix product is to take: all, but for dt_device_options.spared_multiprocessors. */
int dt_cuda_product_multiprocessors(const struct dt_device *device);
/* Whether kernels on this stream are launched while the one in front of them runs (programmatic dependent launch): with
 * dt_device_options.early_launch, from compute capability 9.0 on. */
bool dt_cuda_launches_early(const struct dt_stream *stream);
bool dt_cuda_warpgroup_kernels(const struct dt_device *device); /* dt_device_options.warpgroup_kernels, of compute capability 9.0 */

/* Messages between two ranks go over this stream, as after dt_cpu_stream_exchanges (lib/device/cpu/device.h): other streams get memory that
 * was freed on it only once they are ordered after that, and are never made to wait for it. Called before the first such message; may be
 * called again. */
void dt_cuda_stream_exchanges(struct dt_stream *stream);

/* Queue `task` to run on a thread of the driver's, in the stream's order, on a copy of `arguments`; in a graph it runs at every launch, on
 * the same copy. It calls nothing of CUDA. A failure is what the next dt_stream_synchronize on this device returns, with `label`. Errors:
 * DT_ERR_HOST_MEMORY, DT_ERR_DEVICE. */
typedef dt_status (*dt_cuda_host_task)(void *arguments);
dt_status dt_cuda_submit_host(struct dt_stream *stream, const char *label, dt_cuda_host_task task, const void *arguments,
                              size_t arguments_bytes);

/* Device memory that a library or a kernel keeps for itself: not in the ledger (lib/device/memory.h), zeroed, 256-byte aligned. Blocks; not
 * while capturing. Freed at the latest with the device. Errors: DT_ERR_OOM. */
dt_status dt_cuda_own_alloc(struct dt_device *device, size_t bytes, void **out);
void dt_cuda_own_free(struct dt_device *device, void *memory); /* waits for the device; takes NULL */

/* Where buffers on the device come from, instead of cudaMalloc and cudaFree: NCCL's own memory, which it can register
 * (lib/comm/nccl/register.c). Memory of dt_cuda_own_alloc stays CUDA's. Called by the host thread, `get` also while a graph is captured,
 * `give_back` when all streams are past what used the memory. */
struct dt_cuda_source {
    dt_status (*get)(void *context, size_t bytes, void **out); /* 256-byte aligned. DT_ERR_OOM: there is no more */
    void (*give_back)(void *context, void *data);
    void (*end)(void *context); /* nothing is left of it, and nothing more will be asked */
    void *context;
};
/* From here on, until the device's end or another source. Blocks. Errors: DT_ERR_INVALID where there are buffers already, or a graph. */
dt_status dt_cuda_set_source(struct dt_device *device, const struct dt_cuda_source *source);

/* Asked while dt_stream_synchronize waits: once at its beginning, whether or not there is anything to wait for, then again and again until
 * the stream has passed; a failure ends the wait and is what it returns. waited_ns: how long this wait has lasted. Owner: the caller, who
 * takes it off before freeing it. */
struct dt_cuda_watch {
    dt_status (*poll)(void *context, int64_t waited_ns);
    void *context;
    struct dt_cuda_watch *next; /* the device's own */
};
void dt_cuda_watch(struct dt_device *device, struct dt_cuda_watch *watch);
void dt_cuda_unwatch(struct dt_device *device, struct dt_cuda_watch *watch);

#ifdef __cplusplus
}
#endif
#endif
