/* Devices: memory, streams and events. What a schedule sees of the machine.
 *
 * Backends: cpu and cuda (a folder each), sim (lib/device/sim.c: counts memory, computes nothing). Each is a const table of functions with
 * every entry present. One host thread drives a device; streams run concurrently, in queue order.
 *
 * A stream is an ordered queue. Everything below that names a stream returns as soon as the work is queued ("queues"); only
 * dt_stream_synchronize blocks. Work that fails later leaves its status in its stream, later work of that stream is skipped, and
 * dt_stream_synchronize returns the failure. */
#ifndef LIB_DEVICE_DEVICE_H
#define LIB_DEVICE_DEVICE_H

#include "lib/base/dtype.h"
#include "lib/base/status.h"
#include "lib/device/condition.h"
#include "lib/device/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dt_device;
struct dt_device_kind;
struct dt_sim_device;
struct dt_stream;
struct dt_event;
struct dt_graph;

/* A piece of a device's memory, or of the host memory it keeps (below). `data` may be used on any stream that is ordered after the
 * allocating call's stream position. On sim `data` is an address that must not be accessed;
 * arithmetic on it is fine. A zeroed buffer is "none": dt_free takes it. */
struct dt_buffer {
    void *data;
    size_t bytes;
    enum dt_category category;
    bool on_host;
    void *block; /* the backend's own */
};

struct dt_device_options {
    uint64_t memory_limit_bytes; /* 0: the device's own size (cpu: all of memory_bytes), or none where it has none (sim) */
    int threads;                 /* cpu: threads of one kernel; 0: processors of this process / local_size, at least 1 */
    int local_rank, local_size;  /* place among the ranks of this machine; 0 and 1 when alone (local_size 0 counts as 1) */
    bool early_launch;           /* cuda: kernels may be launched before the kernels queued before them have ended */
    bool warpgroup_kernels;      /* cuda: of compute capability 9.0: kernels of its own where there are some */
    int spared_multiprocessors;  /* cuda: multiprocessors that matrix products leave to concurrent kernels */
    bool share; /* cuda: more ranks than GPUs take turns at them: local_rank % GPUs. Else a rank without a GPU of its own is refused */
    uint64_t host_memory_limit_bytes;        /* of dt_alloc_host; 0: the machine's (cpu), or none (sim) */
    const struct dt_sim_device *sim;         /* sim: what to record (lib/device/sim.h), copied; NULL: count memory alone */
    const struct dt_device_kind *stands_for; /* sim: family whose kernels' own memory is counted, too; NULL: none */
};

enum dt_device_index { DT_DEVICE_CUDA, DT_DEVICE_CPU, DT_DEVICE_SIM, DT_DEVICE_KINDS }; /* the order in which a default is looked for */

/* What is true of a kind of device, whichever backend this build has for it. */
struct dt_device_kind {
    const char *name; /* "cuda", "cpu", "sim" */
    enum dt_device_index index;
    bool simulated; /* nothing is computed: runs are predictions */
    bool gpus;      /* each rank takes one of the machine's devices, which dt_device_look shows; else all ranks share the processors */
    const char *communicator; /* the backend of lib/comm that several ranks use */
    bool nccl;                /* that is NCCL, with its settings */
};

struct dt_device_info {
    const struct dt_device_kind *kind;
    char name[128];        /* the processor's or GPU's own name */
    uint64_t memory_bytes; /* physical memory; 0 on sim */
    int threads;           /* cpu: threads of one kernel */
    char versions[256];    /* "oneDNN 2.6.3, OpenMP 4.5": libraries that matter for a number */
    char driver[32];       /* the GPU driver's version; "" where there is none */
    char uuid[48];         /* the GPU's own number, "GPU-5c2f..."; "": none */
    /* Device memory that buffers could have now: what is free, and what they hold. The rest has gone to contexts, libraries and other
     * processes. 0: unknown, and always from dt_device_look. */
    uint64_t available_bytes;
    double peak_flops[DT_DTYPE_COUNT]; /* a second, dense, by the maker's sheet; 0: unknown, as of every cpu */
};

/* One row of `dtbench list`: can the kind run experiments here? Fills `reason` with what is missing and what brings it when not. sim
 * always can. */
bool dt_device_available(const char *kind, char *reason, size_t reason_bytes);

const struct dt_device_kind *dt_device_kind_at(int index); /* NULL after the last */
/* By its name; NULL where there is none. */
const struct dt_device_kind *dt_device_kind_find(const char *name);
bool dt_device_is_simulated(const char *name); /* of a record, say: the name of a kind that computes nothing */

/* Of a machine's devices of which each rank takes one, its GPUs, the one that local rank `index` would take: true, with kind, name, memory,
 * driver and uuid in *out, found without opening it or taking any of its memory. False past the last of those that this process may use,
 * and always for cpu and sim, of which one does for all ranks. */
bool dt_device_look(const char *kind, int index, struct dt_device_info *out);
int dt_device_count(const char *kind); /* how many those are */

/* options NULL: all zero. Owner: the caller, who destroys.
 * Errors: DT_ERR_UNAVAILABLE with the reason, DT_ERR_INVALID for an unknown kind, DT_ERR_DEVICE. */
dt_status dt_device_create(const char *kind, const struct dt_device_options *options, struct dt_device **out);
void dt_device_destroy(struct dt_device *device); /* waits for its streams; takes NULL. Streams and events are destroyed before it. */

const struct dt_device_kind *dt_device_kind_of(const struct dt_device *device);
void dt_device_info(const struct dt_device *device, struct dt_device_info *out);
void dt_device_condition(const struct dt_device *device, struct dt_device_condition *out); /* now; takes some 0.1 ms */
void dt_memory_usage(const struct dt_device *device, struct dt_memory_usage *out);
void dt_memory_reset_peak(struct dt_device *device);

/* Bytes that are really held now for buffers, those in host memory too, free lists included: at least the sum of both
 * current_total_bytes. 0 on sim. */
uint64_t dt_device_reserved_bytes(const struct dt_device *device);

/* `name` is for traces and error texts ("compute", "network"); copied. */
dt_status dt_stream_create(struct dt_device *device, const char *name, struct dt_stream **out);
void dt_stream_destroy(struct dt_stream *stream);          /* waits for what is queued; takes NULL */
dt_status dt_stream_synchronize(struct dt_stream *stream); /* blocks until the queue is empty; returns and clears the stream's failure */
struct dt_device *dt_stream_device(const struct dt_stream *stream);

/* The pass that work is a part of: of one micro-batch, through one of the rank's parts of the model. */
struct dt_pass {
    int micro_batch, part; /* -1: of none */
};
static inline struct dt_pass dt_no_pass(void)
{
    struct dt_pass none = {-1, -1};
    return none;
}

/* What is queued from here on, on any stream, belongs to `pass`: traces show it, and nothing else depends on it. A device begins with
 * dt_no_pass(). Errors: DT_ERR_HOST_MEMORY, on sim. */
dt_status dt_pass_enter(struct dt_device *device, struct dt_pass pass);
struct dt_pass dt_pass_now(const struct dt_device *device);

/* Events. record: queues a mark on `stream`, replacing an earlier one. wait: queues, `stream` goes on once the mark recorded last (at the
 * time of this call) is passed; an event never recorded is passed already. elapsed: device time between two marks, both passed and both of
 * timed events (DT_ERR_INVALID otherwise); on sim 0. idle: how much of that time, between two marks of one stream, it had no kernel to run,
 * and why; errors as elapsed. Plain events only order, which costs a GPU less. */
struct dt_stream_idle {
    int64_t host_ns; /* nothing was queued: it waited for the host. cuda: not known, 0 */
    int64_t copy_ns; /* copies to or from the host went on in the stream itself, in its kernels' place. sim alone; elsewhere 0 */
};
dt_status dt_event_create(struct dt_device *device, struct dt_event **out);
dt_status dt_event_create_timed(struct dt_device *device, struct dt_event **out);
void dt_event_destroy(struct dt_event *event); /* takes NULL; waits while the last mark is still ahead; earlier ones must be passed */
dt_status dt_event_record(struct dt_event *event, struct dt_stream *stream);
dt_status dt_stream_wait(struct dt_stream *stream, const struct dt_event *event);
dt_status dt_event_elapsed_ns(const struct dt_event *start, const struct dt_event *end, int64_t *out_ns);
dt_status dt_event_idle(const struct dt_event *start, const struct dt_event *end, struct dt_stream_idle *out);

/* Memory, in stream order. The bytes are undefined at first (cpu poisons them with 0xFF, NaN in every dtype, when the environment variable
 * DTBENCH_POISON is set). The buffer is usable on `stream` from here on. A backend may hand out memory freed on another stream: it then
 * orders `stream` after that free by itself. Data is aligned to DT_ALLOCATION_BYTES.
 * 0 bytes give a zeroed buffer. Errors: DT_ERR_OOM past the limit or when the device has no more; *out is then zeroed. */
dt_status dt_alloc(struct dt_stream *stream, enum dt_category category, size_t bytes, struct dt_buffer *out);
/* The buffer is free once `stream` gets here; work on other streams that still uses it must have been waited for by `stream`. Zeroes
 * *buffer. Takes a zeroed buffer. Never fails. */
void dt_free(struct dt_stream *stream, struct dt_buffer *buffer);

/* Host memory as the device's second memory, for what is moved there to make room: counted by a ledger of its own, in stream order like
 * dt_alloc, and freed by dt_free. It is memory that copies reach at full speed while kernels run (cuda: pinned). On cpu, where there is
 * only one memory, these are other buffers, so that the traffic is real. What may touch them: the two copies from and to the host, and
 * kernels that say that they run on the host.
 * Errors: DT_ERR_OOM past host_memory_limit_bytes or when the machine has no more; *out is then zeroed. */
dt_status dt_alloc_host(struct dt_stream *stream, enum dt_category category, size_t bytes, struct dt_buffer *out);

/* Copies and fills: queue on `stream`. The host's end of a copy is in a buffer of dt_alloc_host, or in memory of the caller's own, which
 * must live until the stream has passed. Copies on a stream of their own run concurrently with kernels. */
dt_status dt_copy(struct dt_stream *stream, void *to, const void *from, size_t bytes); /* device to device */
dt_status dt_copy_from_host(struct dt_stream *stream, void *to, const void *from, size_t bytes);
dt_status dt_copy_to_host(struct dt_stream *stream, void *to, const void *from, size_t bytes); /* sim: zeroes a caller's own `to` */
/* Copy all but bytes [first, end), which stay unchanged in `to`. The bytes before and after are
 * queued as one operation, so that the gap's place does not matter. sim: does not write to `to`. */
dt_status dt_copy_to_host_around(struct dt_stream *stream, void *to, const void *from, size_t bytes, size_t first, size_t end);
dt_status dt_zero(struct dt_stream *stream, void *to, size_t bytes); /* device memory */

/* Graphs: what is queued on all of a device's streams, kept, and launched again as a whole without the host's work in between.
 *
 * Between begin and end nothing runs: all that is queued on any stream of the device is captured, with the order between the streams.
 * `origin` is where the graph begins and ends: every other stream is ordered after the begin, and the end after every stream. What was
 * queued before comes before the graph, so a wait for an event recorded before the capture is passed already. No stream is made or
 * synchronized meanwhile; where one is destroyed, what was captured is thrown away.
 *
 * end queues what was captured once, as if it had been queued without a capture, and gives the graph for the times after that. It refuses
 * (DT_ERR_INVALID, *out NULL, the work is queued nevertheless: go on without a graph) where repeating it would not be sound: what is
 * allocated then must be what was allocated at the begin, by address, size and category, since the graph's temporaries lie in what was
 * free. On any other failure nothing was queued. With out NULL what was captured is thrown away: the way out when queueing failed half-way.
 * Whatever end returns, the capture is over.
 *
 * launch queues the graph: it runs after everything that is queued on any of the device's streams, and what is queued later on any of them
 * runs after it; so events recorded in the capture count as recorded where the graph ends. Timed events have the times of the last launch.
 * Errors: DT_ERR_INVALID when other memory is allocated than at the capture's begin. Peaks of memory count as if the work were queued anew.
 *
 * A graph keeps its kernels' arguments as they were; what changes from launch to launch is read from memory. Timed events, communicators
 * and the callers' own memory outlive its last launch. Owner of *out: the caller, who destroys it before the device. */
bool dt_device_captures(const struct dt_device *device); /* cpu, sim: no; begin is then DT_ERR_INVALID */
dt_status dt_graph_begin(struct dt_stream *origin);
dt_status dt_graph_end(struct dt_stream *origin, struct dt_graph **out);
dt_status dt_graph_launch(struct dt_graph *graph, struct dt_stream *stream);
void dt_graph_destroy(struct dt_graph *graph); /* waits for its last launch; takes NULL */

/* What may be called between dt_graph_begin and dt_graph_end, by kernels and communicators of the device too:
 *
 *   goes into the graph   kernels; collectives, sends and receives; dt_copy, dt_copy_from_host, dt_copy_to_host, dt_zero;
 *                         dt_event_record, dt_stream_wait
 *   done at once          dt_alloc, dt_alloc_host, dt_free: addresses are the same in every launch, and one allocation of the capture may
 *                         reuse what another has freed; events made and destroyed; dt_memory_usage, dt_memory_reset_peak,
 *                         dt_device_reserved_bytes, dt_device_info, dt_device_condition, dt_comm_bytes
 *   DT_ERR_INVALID        dt_stream_create, dt_stream_synchronize, dt_event_elapsed_ns, dt_event_idle, dt_graph_begin, dt_graph_launch;
 *                         a kernel that wants more scratch memory than it ever had, so the first step runs without a capture
 *   ends the capture      dt_stream_destroy, dt_device_destroy: what was captured is thrown away
 *   not to be called,     communicators made, split or destroyed; dt_host_all_gather, dt_host_reduce and what else blocks until ranks have
 *   and not checked       answered; dt_graph_destroy, which waits for the graph's last launch
 *
 * A communicator that gives up in a capture aborts its operations when the capture is over (lib/comm/nccl/abort.c). */

#endif
