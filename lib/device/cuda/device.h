/* What cuda backends may use of a cuda device, beyond lib/device/device.h: its handles, memory
 * outside the ledger, and callbacks while a stream is waited for. For lib/device/cuda,
 * lib/comm/nccl and gpt/cuda. CUDA's own types are not used here. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

#include "lib/device/device.h"

struct CUstream_st;

/* The cudaStream_t of a stream. */
struct CUstream_st *dt_cuda_stream(const struct dt_stream *stream);

/* A cudaError_t as a status, with "<what>: <the error's own text>"; 0 is DT_OK. A lack of memory is
 * DT_ERR_OOM, every other error DT_ERR_DEVICE. */
dt_status dt_cuda_status(int error, const char *what);

/* Is a capture open (between dt_graph_begin and dt_graph_end)? Then no call that blocks or
 * allocates is allowed. */
bool dt_cuda_capturing(const struct dt_device *device);

/* The device's number among the GPUs that this process sees: for cudaSetDevice on other threads
 * than the one that created it. */
int dt_cuda_ordinal(const struct dt_device *device);

/* Destroy all executable graphs now, even while one runs; CUDA then frees it at its end. NCCL's
 * abort waits until they are gone. A dt_graph without its executable can only be destroyed, not
 * launched. */
void dt_cuda_graphs_drop(struct dt_device *device);

int dt_cuda_multiprocessors(const struct dt_device *device);
/* Multiprocessors that a matrix product may use: all except
 * dt_device_options.spared_multiprocessors. */
int dt_cuda_product_multiprocessors(const struct dt_device *device);
/* Are kernels on this stream launched while the kernel queued before them still runs (programmatic
 * dependent launch)? Needs dt_device_options.early_launch and compute capability 9.0 or above. */
bool dt_cuda_launches_early(const struct dt_stream *stream);
/* dt_device_options.warpgroup_kernels; `never` on GPUs of other compute capabilities than 9.0. */
enum dt_warpgroup_kernels dt_cuda_warpgroup_kernels(const struct dt_device *device);

/* Declare that messages between two ranks use this stream, as dt_cpu_stream_exchanges does
 * (lib/device/cpu/device.h): other streams get memory that was freed on it only once they are
 * ordered after that free, and are never made to wait for it. Call before the first such message;
 * may be called again. */
void dt_cuda_stream_exchanges(struct dt_stream *stream);

/* Queue `task` to run on a thread of the driver, in the stream's order, with a copy of `arguments`;
 * in a graph it runs at every launch, with the same copy. It must not call CUDA. The next
 * dt_stream_synchronize on this device returns its failure, with `label`. Errors:
 * DT_ERR_HOST_MEMORY, DT_ERR_DEVICE. */
typedef dt_status (*dt_cuda_host_task)(void *arguments);
dt_status dt_cuda_submit_host(struct dt_stream *stream, const char *label, dt_cuda_host_task task, const void *arguments,
                              size_t arguments_bytes);

/* Device memory for a library or a kernel, not counted in the ledger (lib/device/memory.h), zeroed,
 * 256-byte aligned. Blocks; not while capturing. Freed at the latest with the device. Errors:
 * DT_ERR_OOM. */
dt_status dt_cuda_own_alloc(struct dt_device *device, size_t bytes, void **out);
void dt_cuda_own_free(struct dt_device *device, void *memory); /* waits for the device; takes NULL */

/* The source of memory for buffers on the device, instead of cudaMalloc and cudaFree: NCCL's own
 * memory, which it can register (lib/comm/nccl/register.c). dt_cuda_own_alloc still uses CUDA's.
 * The host thread calls it: `get` also while a graph is captured, `give_back` after all streams
 * have finished with the memory. */
struct dt_cuda_source {
    dt_status (*get)(void *context, size_t bytes, void **out); /* 256-byte aligned. DT_ERR_OOM: no memory is left */
    void (*give_back)(void *context, void *data);
    void (*end)(void *context); /* all memory was given back, and no more will be requested */
    void *context;
};
/* Use this source from now on, until the device's end or another source. Blocks. Errors:
 * DT_ERR_INVALID if buffers or a graph exist already. */
dt_status dt_cuda_set_source(struct dt_device *device, const struct dt_cuda_source *source);

/* A callback while dt_stream_synchronize waits: called once at its beginning, even if there is
 * nothing to wait for, then repeatedly until the stream is done. A failure ends the wait, which
 * returns it. waited_ns: how long this wait has lasted. Owner: the caller, who removes it before
 * freeing it. */
struct dt_cuda_watch {
    dt_status (*poll)(void *context, int64_t waited_ns);
    void *context;
    struct dt_cuda_watch *next; /* list link, for the device */
};
void dt_cuda_watch(struct dt_device *device, struct dt_cuda_watch *watch);
void dt_cuda_unwatch(struct dt_device *device, struct dt_cuda_watch *watch);

#ifdef __cplusplus
}
#endif
