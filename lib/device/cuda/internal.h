/* Inside the cuda device: its objects, and the functions that its files share. CUDA's own types are
 * not used here. */
#pragma once

#include "lib/device/backend.h"
#include "lib/device/cuda/device.h"
#include "lib/device/cuda/order.h"
#include "lib/device/cuda/pool.h"

#include <pthread.h>
#include <stdatomic.h>

struct CUevent_st;
struct CUgraphExec_st;

/* A stream can be waited for at its latest marks; for an earlier place the wait is for the oldest
 * of these. */
enum { CUDA_MARKS = 64 };

struct cuda_stream {
    struct dt_stream base;
    int index; /* in cuda_device.streams, and in the order */
    struct CUstream_st *handle;
    struct CUevent_st *marks[CUDA_MARKS]; /* mark of place n: index n % CUDA_MARKS; created when first needed */
    struct CUevent_st *join;              /* for dt_cuda_join and dt_cuda_fork */
};

struct cuda_event {
    struct dt_event base;
    struct CUevent_st *handle;
    /* if the event is timed: a plain event for waits within a capture, where `handle` holds the
     * graph's times; else NULL */
    struct CUevent_st *order;
    bool recorded;
    uint64_t capture;         /* number of the capture in which it was last recorded; 0: in none */
    struct cuda_places after; /* places that its last record was ordered after */
};

/* A task for the driver's thread (dt_cuda_submit_host). */
struct cuda_task {
    struct cuda_device *device;
    struct cuda_task *next; /* in the device's or the graph's list */
    const char *label;
    dt_cuda_host_task run;
    _Atomic bool done;
    size_t capacity; /* of arguments */
    _Alignas(16) unsigned char arguments[];
};

struct cuda_tasks {
    struct cuda_task *first, *last;
};

struct cuda_graph {
    struct dt_graph base;
    struct CUgraphExec_st *exec; /* NULL: dropped */
    struct CUevent_st *done;     /* after the last launch */
    struct cuda_tasks tasks;
    struct cuda_graph *next;
};

/* Memory of dt_cuda_own_alloc. */
struct cuda_own {
    void *data;
    size_t bytes;
    struct cuda_own *next;
};

struct cuda_device {
    struct dt_device base;
    int ordinal; /* among the GPUs that this process sees */
    int multiprocessors, product_multiprocessors;
    bool early_launch;
    enum dt_warpgroup_kernels warpgroup_kernels; /* never, if the GPU has another compute capability than 9.0 */
    struct dt_device_info info;                  /* as dt_cuda_look found it */
    bool poison;
    struct dt_nvml *nvml; /* NULL: the GPU's condition is not known */
    struct cuda_stream *streams[CUDA_STREAMS];
    struct cuda_order order;
    struct cuda_pool pool, host_pool;
    struct dt_cuda_source source; /* get NULL: the pool's memory is cudaMalloc's */
    struct cuda_own *own;
    struct dt_cuda_watch *watches;

    uint64_t capture, captures; /* number of the open capture, 0: none; and count of captures so far */
    struct cuda_graph *graphs;  /* existing graphs: their addresses must stay valid */
    struct cuda_tasks tasks;    /* queued outside captures, in order; finished ones are reused */
    struct cuda_tasks captured_tasks;

    pthread_mutex_t mutex; /* guards the failure of a task: the driver's threads write it */
    dt_status failure;     /* the first one since dt_stream_synchronize last returned one */
    char failure_text[1024];
};

/* choice.c: the backend's entries. dt_cuda_choose: the GPU of this rank, by its ordinal. Errors:
 * DT_ERR_UNAVAILABLE, DT_ERR_INVALID for a rank without a GPU. */
bool dt_cuda_available(char *reason, size_t reason_bytes);
bool dt_cuda_look(int index, struct dt_device_info *out);
dt_status dt_cuda_choose(const struct dt_device_options *options, int *out);

/* Bind this thread, and threads that it starts later, to the processors of the GPU's NUMA node:
 * those in the PCI device's local_cpulist in `folder` that this process may use. Pinned memory then
 * comes from that node, too. Call before the GPU is opened, because the driver's threads inherit
 * the binding. False: the list is unknown, no processor of it is allowed, or nothing changes. */
bool dt_cuda_bind_near(const char *folder, const char *address);

/* nvml.c: the condition of the GPU at this PCI address ("0000:3B:00.0"). open returns NULL if NVML
 * is missing or does not know the GPU. read: *out is initialised; values that this NVML cannot give
 * stay unknown. close takes NULL; the library stays loaded. */
struct dt_nvml *dt_nvml_open(const char *address);
void dt_nvml_read(const struct dt_nvml *nvml, struct dt_device_condition *out);
void dt_nvml_close(struct dt_nvml *nvml);

/* Peak rate of a GPU by its name, in operations a second; 0: unknown. */
double dt_cuda_peak_flops(const char *name, enum dt_dtype dtype);

/* stream.c: the backend's entries for streams and events. */
dt_status dt_cuda_stream_create(struct dt_device *device, const char *name, struct dt_stream **out);
void dt_cuda_stream_destroy(struct dt_stream *stream);
dt_status dt_cuda_stream_wait(struct dt_stream *stream, const struct dt_event *event);
dt_status dt_cuda_event_create(struct dt_device *device, bool timed, struct dt_event **out);
void dt_cuda_event_destroy(struct dt_event *event);
dt_status dt_cuda_event_record(struct dt_event *event, struct dt_stream *stream);
dt_status dt_cuda_event_elapsed_ns(const struct dt_event *start, const struct dt_event *end, int64_t *out_ns);

/* Add a mark on `stream`: *out is its place. Errors: DT_ERR_DEVICE; the place counts
 * nevertheless. */
dt_status dt_cuda_mark(struct cuda_stream *stream, uint64_t *out);
/* Order `stream` after these places; 0: no wait. */
dt_status dt_cuda_wait_for_places(struct cuda_stream *stream, const struct cuda_places *places);
/* join: order `stream` after all work queued on any stream. fork: order all streams after `stream`.
 * The caller updates the places. */
dt_status dt_cuda_join(struct cuda_stream *stream);
dt_status dt_cuda_fork(struct cuda_stream *stream);

/* Block until a stream, or an event, has been passed, and call the watches meanwhile. `what` is for
 * the error text. limit_s: longest wait, then DT_ERR_TIMEOUT; 0: no limit. Not while capturing.
 * Errors: DT_ERR_DEVICE, DT_ERR_OOM, a watch's failure. */
dt_status dt_cuda_wait_for_stream(struct cuda_stream *stream, double limit_s);
dt_status dt_cuda_wait_for_event(struct cuda_device *device, struct CUevent_st *event, const char *what);
dt_status dt_cuda_wait_for_all(struct cuda_device *device, double limit_s); /* of its streams */

/* memory.c: the backend's entries for memory and copies. */
void dt_cuda_memory_init(struct cuda_device *device);
void dt_cuda_memory_finish(struct cuda_device *device); /* also frees memory of dt_cuda_own_alloc; all streams have finished */
/* at the end of a step: join free blocks, and settle the pools if all streams are idle */
void dt_cuda_memory_settle(struct cuda_device *device);
dt_status dt_cuda_alloc(struct dt_stream *stream, size_t bytes, struct dt_buffer *out);
void dt_cuda_free(struct dt_stream *stream, const struct dt_buffer *buffer);

dt_status dt_cuda_copy(struct dt_stream *stream, void *to, const void *from, size_t bytes);
dt_status dt_cuda_copy_from_host(struct dt_stream *stream, void *to, const void *from, size_t bytes);
dt_status dt_cuda_copy_to_host(struct dt_stream *stream, void *to, const void *from, size_t bytes);
dt_status dt_cuda_zero(struct dt_stream *stream, void *to, size_t bytes);

/* Return the failure that a task left, and clear it. */
dt_status dt_cuda_task_failure(struct cuda_device *device);
void dt_cuda_tasks_free(struct cuda_tasks *tasks);

/* graph.c */
dt_status dt_cuda_graph_begin(struct dt_stream *origin);
dt_status dt_cuda_graph_end(struct dt_stream *origin, struct dt_graph **out);
dt_status dt_cuda_graph_launch(struct dt_graph *graph, struct dt_stream *stream);
void dt_cuda_graph_destroy(struct dt_graph *graph);
