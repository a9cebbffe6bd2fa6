/* Devices: memory, streams and events, as schedules see them.
 *
 * Backends: cpu and cuda (a folder each), sim (lib/device/sim.c: counts memory, computes nothing).
 * Each is a const table of functions with every entry present. One host thread drives a device;
 * streams run concurrently, in queue order.
 *
 * A stream is an ordered queue. Every function below with a stream returns as soon as the work is
 * queued ("queues"); only dt_stream_synchronize blocks. Work that fails later leaves its status in
 * its stream, later work of that stream is skipped, and dt_stream_synchronize returns the
 * failure. */
#pragma once

#include "lib/base/dtype.h"
#include "lib/base/status.h"
#include "lib/device/condition.h"
#include "lib/device/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct dt_device;
struct dt_device_kind;
struct dt_sim_device;
struct dt_stream;
struct dt_event;
struct dt_graph;

/* A piece of a device's memory, or of host memory that it manages (dt_alloc_host). `data` may be
 * used on any stream that is ordered after the allocating call's stream position. On sim `data` is
 * an address that must not be accessed; arithmetic on it is fine. A zeroed buffer is "none":
 * dt_free takes it. */
struct dt_buffer {
    void *data;
    size_t bytes;
    enum dt_category category;
    bool on_host;
    void *block; /* for the backend */
};

/* `to`, which must be "none", takes what `from` is; `from` is then "none". */
static inline void dt_buffer_move(struct dt_buffer *to, struct dt_buffer *from)
{
    *to = *from;
    memset(from, 0, sizeof *from);
}

/* Whether kernels that are made for the warpgroups of compute capability 9.0 are used where they
 * exist. auto: on such a GPU, if they give there what the other kernels give (struct dt_trials in
 * lib/kernels/kernels.h). always: without this trial; other GPUs are refused. */
enum dt_warpgroup_kernels { DT_WARPGROUPS_AUTO, DT_WARPGROUPS_NEVER, DT_WARPGROUPS_ALWAYS };

struct dt_device_options {
    uint64_t memory_limit_bytes;                 /* 0: the device's own size (cpu: all of memory_bytes), or no limit (sim) */
    int threads;                                 /* cpu: threads of one kernel; 0: processors of this process / local_size, at least 1 */
    int local_rank, local_size;                  /* place among the ranks of this machine; 0 and 1 when alone (local_size 0 counts as 1) */
    bool early_launch;                           /* cuda: kernels may be launched before the kernels queued before them have ended */
    enum dt_warpgroup_kernels warpgroup_kernels; /* cuda */
    int spared_multiprocessors;                  /* cuda: multiprocessors that matrix products leave to concurrent kernels */
    bool share;                       /* cuda: ranks may share GPUs: local_rank % GPUs. false: a rank without its own GPU is refused */
    uint64_t host_memory_limit_bytes; /* limit of dt_alloc_host; 0: the machine's memory (cpu), or no limit (sim) */
    const struct dt_sim_device *sim;  /* sim: what to record (lib/device/sim.h), copied; NULL: count memory alone */
    const struct dt_device_kind *stands_for; /* sim: family whose kernels' own memory is counted, too; NULL: none */
};

enum dt_device_index { DT_DEVICE_CUDA, DT_DEVICE_CPU, DT_DEVICE_SIM, DT_DEVICE_KINDS }; /* in the order in which a default is searched */

/* Facts about a kind of device that do not depend on the backend in this build. */
struct dt_device_kind {
    const char *name; /* "cuda", "cpu", "sim" */
    enum dt_device_index index;
    bool simulated; /* true: it computes nothing, and runs are predictions */
    bool gpus;      /* each rank takes one of the machine's devices, which dt_device_look lists; false: all ranks share the processors */
    const char *communicator; /* name of the lib/comm backend that several ranks use */
    bool nccl;                /* communicator is NCCL, with its settings */
};

struct dt_device_info {
    const struct dt_device_kind *kind;
    char name[128];        /* name of the processor or GPU */
    uint64_t memory_bytes; /* physical memory; 0 on sim */
    int threads;           /* cpu: threads of one kernel */
    char versions[256];    /* "oneDNN 2.6.3, OpenMP 4.5": libraries that influence measurements */
    char driver[32];       /* the GPU driver's version; "" if there is none */
    char uuid[48];         /* the GPU's unique identifier, "GPU-5c2f..."; "": none */
    /* Device memory that buffers could have now: free memory plus what buffers hold. Contexts,
     * libraries and other processes have the rest. 0: unknown, as always from dt_device_look. */
    uint64_t available_bytes;
    double peak_flops[DT_DTYPE_COUNT]; /* dense operations a second, from the maker's data sheet; 0: unknown, as for every cpu */
};

/* One row of `dtbench list`: can the kind run experiments here? If not, `reason` says what is
 * missing and how to get it. sim is always available. */
bool dt_device_available(const char *kind, char *reason, size_t reason_bytes);

const struct dt_device_kind *dt_device_kind_at(int index); /* NULL after the last */
/* Find a kind by its name; NULL: there is none. */
const struct dt_device_kind *dt_device_kind_find(const char *name);
bool dt_device_is_simulated(const char *name); /* is it the name of a kind that computes nothing? For kinds named in records */

/* Describe the device that local rank `index` would take, for kinds of which each rank takes one
 * (GPUs). Sets kind, name, memory, driver and uuid in *out, without opening the device or using its
 * memory. False if `index` is past the last device that this process may use, and always for cpu
 * and sim, where all ranks share one. */
bool dt_device_look(const char *kind, int index, struct dt_device_info *out);
int dt_device_count(const char *kind); /* number of devices that dt_device_look describes */

/* Create a device. options NULL: all zero. Owner: the caller, who destroys it. Errors:
 * DT_ERR_UNAVAILABLE with the reason, DT_ERR_INVALID for an unknown kind, DT_ERR_DEVICE. */
dt_status dt_device_create(const char *kind, const struct dt_device_options *options, struct dt_device **out);
void dt_device_destroy(struct dt_device *device); /* waits for its streams; takes NULL. Streams and events are destroyed before it. */

const struct dt_device_kind *dt_device_kind_of(const struct dt_device *device);
void dt_device_info(const struct dt_device *device, struct dt_device_info *out);
void dt_device_condition(const struct dt_device *device, struct dt_device_condition *out); /* the condition now; takes about 0.1 ms */
void dt_memory_usage(const struct dt_device *device, struct dt_memory_usage *out);
void dt_memory_reset_peak(struct dt_device *device);

/* Bytes really held for buffers now, in device and host memory, free lists included: at least the
 * sum of both current_total_bytes. 0 on sim. */
uint64_t dt_device_reserved_bytes(const struct dt_device *device);

/* `name` is for traces and error texts ("compute", "network"); copied. */
dt_status dt_stream_create(struct dt_device *device, const char *name, struct dt_stream **out);
void dt_stream_destroy(struct dt_stream *stream);          /* waits for queued work; takes NULL */
dt_status dt_stream_synchronize(struct dt_stream *stream); /* blocks until the queue is empty; returns and clears the stream's failure */
struct dt_device *dt_stream_device(const struct dt_stream *stream);

/* The pass that work belongs to: one micro-batch through one of the rank's parts of the model. */
struct dt_pass {
    int micro_batch, part; /* -1: no pass */
};
static inline struct dt_pass dt_no_pass(void)
{
    struct dt_pass none = {-1, -1};
    return none;
}

/* Work queued from now on, on any stream, belongs to `pass`. Only traces use it. A device begins
 * with dt_no_pass(). Errors: DT_ERR_HOST_MEMORY, on sim. */
dt_status dt_pass_enter(struct dt_device *device, struct dt_pass pass);
struct dt_pass dt_pass_now(const struct dt_device *device);

/* Events.
 * record   queue a mark on `stream`; it replaces the event's earlier mark.
 * wait     queue a wait: `stream` goes on once the event's last mark (at the time of this call) has
 *          been passed. An event that was never recorded counts as passed.
 * mark     record the stream's own plain event, for waits that are queued before its next mark.
 * follow   mark `source`, and wait for that: `stream` goes on once all work queued so far on
 *          `source` is done.
 * elapsed  device time between two marks. Both must have been passed, and both events must be timed
 *          (else DT_ERR_INVALID). 0 on sim.
 * idle     how long, between two marks of one stream, the stream had no kernel to run, and why;
 *          errors as for elapsed.
 * Plain (not timed) events only order work, which costs a GPU less. */
struct dt_stream_idle {
    int64_t host_ns; /* the queue was empty: the stream waited for the host. cuda: not known, 0 */
    int64_t copy_ns; /* copies to or from the host ran in the stream itself and delayed its kernels. sim only; 0 elsewhere */
};
dt_status dt_event_create(struct dt_device *device, struct dt_event **out);
dt_status dt_event_create_timed(struct dt_device *device, struct dt_event **out);
/* takes NULL; waits until the last mark has been passed; earlier ones must have been passed */
void dt_event_destroy(struct dt_event *event);
dt_status dt_event_record(struct dt_event *event, struct dt_stream *stream);
dt_status dt_stream_wait(struct dt_stream *stream, const struct dt_event *event);
dt_status dt_stream_mark(struct dt_stream *stream, const struct dt_event **out);
dt_status dt_stream_follow(struct dt_stream *stream, struct dt_stream *source);
dt_status dt_event_elapsed_ns(const struct dt_event *start, const struct dt_event *end, int64_t *out_ns);
dt_status dt_event_idle(const struct dt_event *start, const struct dt_event *end, struct dt_stream_idle *out);

/* Allocate device memory, in stream order. The bytes are undefined at first (if the environment
 * variable DTBENCH_POISON is set, cpu fills them with 0xFF, NaN in every dtype). The buffer is
 * usable on `stream` from now on. A backend may return memory that was freed on another stream:
 * then it orders `stream` after that free. Data is aligned to DT_ALLOCATION_BYTES. 0 bytes give a
 * zeroed buffer. Errors: DT_ERR_OOM past the limit or if the device has no more memory; *out is
 * then zeroed. */
dt_status dt_alloc(struct dt_stream *stream, enum dt_category category, size_t bytes, struct dt_buffer *out);
/* Free the buffer once `stream` has done the work queued so far. `stream` must already wait for
 * other streams' work that still uses the buffer. Zeroes *buffer. Takes a zeroed buffer. Never
 * fails. */
void dt_free(struct dt_stream *stream, struct dt_buffer *buffer);

/* Allocate host memory for data that is offloaded from the device. It has its own ledger, is
 * allocated in stream order like dt_alloc, and is freed by dt_free. Copies reach it at full speed
 * while kernels run (cuda: it is pinned). On cpu, where there is only one memory, these buffers are
 * separate too, so that data is really moved. Only the two copies from and to the host may use
 * them, and kernels that are documented to run on the host. Errors: DT_ERR_OOM past
 * host_memory_limit_bytes or if the machine has no more memory; *out is then zeroed. */
dt_status dt_alloc_host(struct dt_stream *stream, enum dt_category category, size_t bytes, struct dt_buffer *out);

/* Queue copies and fills on `stream`. The host side of a copy is a buffer of dt_alloc_host, or the
 * caller's own memory, which must stay valid until the stream has done the copy. Copies on a
 * separate stream run concurrently with kernels. */
dt_status dt_copy(struct dt_stream *stream, void *to, const void *from, size_t bytes); /* device to device */
dt_status dt_copy_from_host(struct dt_stream *stream, void *to, const void *from, size_t bytes);
/* sim: zeroes `to` if it is the caller's own memory */
dt_status dt_copy_to_host(struct dt_stream *stream, void *to, const void *from, size_t bytes);
/* Copy all but bytes [first, end), which stay unchanged in `to`. The bytes before and after are
 * queued as one operation, so that the gap's place does not matter. sim: does not write to `to`. */
dt_status dt_copy_to_host_around(struct dt_stream *stream, void *to, const void *from, size_t bytes, size_t first, size_t end);
dt_status dt_zero(struct dt_stream *stream, void *to, size_t bytes); /* device memory */

/* Graphs: all work queued on a device's streams is recorded once, and can be launched again as a
 * whole, without the host's work for each piece.
 *
 * Between begin and end nothing runs: all work queued on any stream of the device is captured, with
 * the order between the streams. The graph begins and ends on `origin`: every other stream is
 * ordered after the begin, and the end is ordered after every stream. Work that was queued earlier
 * runs before the graph, so an event recorded before the capture counts as passed. During a capture
 * no stream may be created or synchronized; destroying one discards the capture.
 *
 * end queues the captured work once, as if there had been no capture, and returns the graph for
 * later launches. It refuses (DT_ERR_INVALID, *out NULL) if repeating the work would be wrong: the
 * live allocations must be the same as at the begin, by address, size and category, because the
 * graph's temporaries use memory that was free then. The work is queued nevertheless: continue
 * without a graph. After any other failure nothing was queued. With out NULL the captured work is
 * discarded, for callers that failed while queueing. In every case the capture is over when end
 * returns.
 *
 * launch queues the graph: it runs after all work queued so far on any of the device's streams, and
 * before all work queued later. Events recorded in the capture count as recorded at the graph's
 * end. Timed events have the times of the last launch. Errors: DT_ERR_INVALID if the live
 * allocations differ from those at the begin of the capture. Peaks of memory count as if the work
 * were queued again.
 *
 * A graph keeps its kernels' arguments; values that change between launches are read from memory.
 * Timed events, communicators and the callers' own memory must outlive the last launch. Owner of
 * *out: the caller, who destroys it before the device. */
bool dt_device_captures(const struct dt_device *device); /* cpu, sim: no; begin is then DT_ERR_INVALID */
dt_status dt_graph_begin(struct dt_stream *origin);
dt_status dt_graph_end(struct dt_stream *origin, struct dt_graph **out);
dt_status dt_graph_launch(struct dt_graph *graph, struct dt_stream *stream);
void dt_graph_destroy(struct dt_graph *graph); /* waits for its last launch; takes NULL */

/* Calls between dt_graph_begin and dt_graph_end, also by kernels and communicators of the device:
 *
 *   part of the graph   kernels; collectives, sends and receives; dt_copy, dt_copy_from_host,
 *                       dt_copy_to_host, dt_zero; dt_event_record, dt_stream_wait
 *   done immediately    dt_alloc, dt_alloc_host, dt_free: addresses are the same in every launch,
 *                       and one allocation of the capture may reuse memory that another has freed;
 *                       creating and destroying events; dt_memory_usage, dt_memory_reset_peak,
 *                       dt_device_reserved_bytes, dt_device_info, dt_device_condition,
 *                       dt_comm_bytes
 *   DT_ERR_INVALID      dt_stream_create, dt_stream_synchronize, dt_event_elapsed_ns,
 *                       dt_event_idle, dt_graph_begin, dt_graph_launch; a kernel that needs more
 *                       scratch memory than ever before, so the first step runs without a capture
 *   end of the capture  dt_stream_destroy, dt_device_destroy: the captured work is discarded
 *   not allowed, and    creating, splitting or destroying communicators; dt_host_all_gather,
 *   not checked         dt_host_reduce and other calls that block until ranks have answered;
 *                       dt_graph_destroy, which waits for the graph's last launch
 *
 * A communicator that gives up during a capture aborts its operations after the capture
 * (lib/comm/nccl/abort.c). */
