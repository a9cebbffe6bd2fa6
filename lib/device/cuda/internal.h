/* Inside the cuda device: its objects, and what its files ask of each other. cuda's own types stay out of here. */
#ifndef LIB_DEVICE_CUDA_INTERNAL_H
#define LIB_DEVICE_CUDA_INTERNAL_H

#include "lib/device/backend.h"
#include "lib/device/cuda/device.h"
#include "lib/device/cuda/order.h"
#include "lib/device/cuda/pool.h"

#include <pthread.h>
#include <stdatomic.h>

struct CUevent_st;
struct CUgraphExec_st;

/* A stream's latest marks can be waited for; a place before them is waited for at the oldest of them. */
enum { CUDA_MARKS = 64 };

struct cuda_stream {
    struct dt_stream base;
    int index; /* in cuda_device.streams, and in the order */
    struct CUstream_st *handle;
    struct CUevent_st *marks[CUDA_MARKS]; /* of place n: n % CUDA_MARKS; made when first needed */
    struct CUevent_st *join;              /* for dt_cuda_join and dt_cuda_fork */
};

struct cuda_event {
    struct dt_event base;
    struct CUevent_st *handle;
    struct CUevent_st *order; /* timed: what waits within a capture see, where `handle` has the graph's times; else NULL */
    bool recorded;
    uint64_t capture;         /* in which it was recorded last; 0: in none */
    struct cuda_places after; /* which its last record came after */
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
    bool early_launch, warpgroup_kernels;
    struct dt_device_info info; /* what dt_cuda_look found */
    bool poison;
    struct dt_nvml *nvml; /* NULL: the GPU's condition is not known */
    struct cuda_stream *streams[CUDA_STREAMS];
    struct cuda_order order;
    struct cuda_pool pool, host_pool;
    struct dt_cuda_source source; /* get NULL: the pool's memory is cudaMalloc's */
    struct cuda_own *own;
    struct dt_cuda_watch *watches;

    uint64_t capture, captures; /* the one that is open, 0: none; and how many there were */
    struct cuda_graph *graphs;  /* that exist: their addresses must stay */
    struct cuda_tasks tasks;    /* queued outside captures, in order; done ones are used again */
    struct cuda_tasks captured_tasks;

    pthread_mutex_t mutex; /* guards the failure of a task: the driver's threads write it */
    dt_status failure;     /* the first since dt_stream_synchronize returned one */
    char failure_text[1024];
};

/* choice.c. The backend's entries; look without an index past the last. choose: the GPU of this rank, by its ordinal.
 * Errors: DT_ERR_UNAVAILABLE, DT_ERR_INVALID for a rank without a GPU. */
bool dt_cuda_available(char *reason, size_t reason_bytes);
bool dt_cuda_look(int index, struct dt_device_info *out);
dt_status dt_cuda_choose(const struct dt_device_options *options, int *out);

/* Bind this thread, and those that it starts from here on, to the processors of the GPU's NUMA node, as the PCI device's
 * local_cpulist in `folder` says, as far as it may use them: pinned memory then comes from that node, too. Before the GPU is opened, as the
 * driver's threads inherit it. False: nothing is known, nothing is left to bind to, or nothing to do. */
bool dt_cuda_bind_near(const char *folder, const char *address);

/* nvml.c: the condition of the GPU at this PCI address ("0000:3B:00.0"). NULL where NVML is not there or does not know it. read: *out is
 * initialised; what this NVML does not know stays unknown. close takes NULL; the library stays loaded. */
struct dt_nvml *dt_nvml_open(const char *address);
void dt_nvml_read(const struct dt_nvml *nvml, struct dt_device_condition *out);
void dt_nvml_close(struct dt_nvml *nvml);

/* Of a GPU by its name, operations a second; 0: unknown. */
double dt_cuda_peak_flops(const char *name, enum dt_dtype dtype);

/* stream.c. The backend's entries for streams and events. */
dt_status dt_cuda_stream_create(struct dt_device *device, const char *name, struct dt_stream **out);
void dt_cuda_stream_destroy(struct dt_stream *stream);
dt_status dt_cuda_stream_wait(struct dt_stream *stream, const struct dt_event *event);
dt_status dt_cuda_event_create(struct dt_device *device, bool timed, struct dt_event **out);
void dt_cuda_event_destroy(struct dt_event *event);
dt_status dt_cuda_event_record(struct dt_event *event, struct dt_stream *stream);
dt_status dt_cuda_event_elapsed_ns(const struct dt_event *start, const struct dt_event *end, int64_t *out_ns);

/* Another mark on `stream`: *out is the place. Errors: DT_ERR_DEVICE; the place counts nevertheless. */
dt_status dt_cuda_mark(struct cuda_stream *stream, uint64_t *out);
/* `stream` comes after these places; 0: no wait. */
dt_status dt_cuda_wait_for_places(struct cuda_stream *stream, const struct cuda_places *places);
/* `stream` comes after all that is queued on any stream; and the other way round. Places are the caller's business. */
dt_status dt_cuda_join(struct cuda_stream *stream);
dt_status dt_cuda_fork(struct cuda_stream *stream);

/* Block until a stream, or an event, is passed, and ask the watches meanwhile. `what` is for the error. limit_s 0: without end; past it
 * DT_ERR_TIMEOUT. Not while capturing. Errors: DT_ERR_DEVICE, DT_ERR_OOM, what a watch says. */
dt_status dt_cuda_wait_for_stream(struct cuda_stream *stream, double limit_s);
dt_status dt_cuda_wait_for_event(struct cuda_device *device, struct CUevent_st *event, const char *what);
dt_status dt_cuda_wait_for_all(struct cuda_device *device, double limit_s); /* of its streams */

/* memory.c. The backend's entries for memory and copies. */
void dt_cuda_memory_init(struct cuda_device *device);
void dt_cuda_memory_finish(struct cuda_device *device); /* own memory too; streams are past their work */
void dt_cuda_memory_settle(struct cuda_device *device); /* a step is over: what is free joins, and settles where all streams are idle */
dt_status dt_cuda_alloc(struct dt_stream *stream, size_t bytes, struct dt_buffer *out);
void dt_cuda_free(struct dt_stream *stream, const struct dt_buffer *buffer);

dt_status dt_cuda_copy(struct dt_stream *stream, void *to, const void *from, size_t bytes);
dt_status dt_cuda_copy_from_host(struct dt_stream *stream, void *to, const void *from, size_t bytes);
dt_status dt_cuda_copy_to_host(struct dt_stream *stream, void *to, const void *from, size_t bytes);
dt_status dt_cuda_zero(struct dt_stream *stream, void *to, size_t bytes);

/* The failure that a task has left, which is then forgotten. */
dt_status dt_cuda_task_failure(struct cuda_device *device);
void dt_cuda_tasks_free(struct cuda_tasks *tasks);

/* graph.c */
dt_status dt_cuda_graph_begin(struct dt_stream *origin);
dt_status dt_cuda_graph_end(struct dt_stream *origin, struct dt_graph **out);
dt_status dt_cuda_graph_launch(struct dt_graph *graph, struct dt_stream *stream);
void dt_cuda_graph_destroy(struct dt_graph *graph);

#endif
