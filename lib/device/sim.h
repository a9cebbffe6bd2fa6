/* What the sim device can do beyond lib/device/device.h: record what a rank's host code asks of it, and take back when that happened.
 *
 * Without a description (options.sim NULL) the device counts memory alone, which is all that `dtbench check` needs. With one, everything
 * that is queued between dt_sim_record_start and dt_sim_record_finish becomes a program (lib/sim/program.h). A program begins with all
 * streams empty and all earlier events passed. */
#ifndef LIB_DEVICE_SIM_H
#define LIB_DEVICE_SIM_H

#include "lib/device/device.h"
#include "lib/sim/program.h"

struct dt_costs; /* lib/cost/cost.h */

/* The simulated device as its kernels and its host see it. */
struct dt_sim_device {
    const struct dt_costs *costs;  /* of kernels, handed through; NULL: they take no time */
    double memory_bytes_per_s;     /* of copies and fills within the device */
    double copy_load;              /* the part of the node's processors that those take; 0: the device has its own */
    double kernel_s;               /* the shortest time that one of them takes */
    double copy_host_s;            /* what queueing a copy or a fill costs the host */
    double collective_host_s;      /* the same of a collective */
    const char *gathered_group;    /* communicators around whose all-gathers and reduce-scatters a framework does more; NULL: none */
    double gather_host_s;          /* what queueing one of these costs */
    double gather_host_s_per_byte; /* of such an all-gather, before which the host waits for the device; 0: neither */
    double message_host_s;         /* and of a send or receive */
    const char *slow_group;        /* collectives of communicators of this name cost the host more: lives on; NULL: none do */
    double slow_group_rank_s;      /* so much for each of their ranks */
    double queue_kernels;          /* that a stream's queue holds: the host waits when it is full; 0: any number */
    double slowdown;               /* by which the kernels' times are multiplied; 0: by 1 */
    uint64_t granularity_bytes;    /* allocations count as multiples of it; 0: as everywhere, DT_ALLOCATION_BYTES */
};

/* A communicator of the recorded rank: its members in the world's numbers, this rank among them. Slots count over the life of the device,
 * those that are destroyed included. */
struct dt_sim_slot {
    char name[32];
    int *ranks; /* [size] */
    int size;
};

/* The description that the device was made with; NULL on every other device. */
const struct dt_sim_device *dt_sim_device_of(const struct dt_device *device);
/* Whether what kernels of GPUs allocate themselves is counted on this device (dt_device_options.stands_for). */
bool dt_sim_stands_for_gpu(const struct dt_device *device);

/* Begin a program. coalesce: as in dt_sim_program_create. Errors: DT_ERR_INVALID when one is open, or the device has no description. */
dt_status dt_sim_record_start(struct dt_device *device, bool coalesce);
/* End it. Owner of *out: the caller. Errors: DT_ERR_HOST_MEMORY. Anything that recording itself could not keep fails the call that asked.
 */
dt_status dt_sim_record_finish(struct dt_device *device, struct dt_sim_program **out);

/* The host is busy for so long. No-op unless recording. */
dt_status dt_sim_host(struct dt_device *device, double seconds);
/* `stream` computes for `seconds` in `kernels` kernels, after the host was busy for host_s with them. label: as in lib/sim/program.h. No-op
 * unless recording. */
dt_status dt_sim_work(struct dt_stream *stream, double kernels, double host_s, double seconds, const char *label);

/* The same on processors that ranks share (dt_sim_program_shared_work). */
dt_status dt_sim_shared_work(struct dt_stream *stream, double seconds, double load, const char *label);

/* The host's processors move `bytes` of their own memory: the updates of parameters that live there. No-op unless recording. */
dt_status dt_sim_host_memory(struct dt_stream *stream, double bytes, const char *label);

/* When an event of a program happened, in seconds, and for how long its stream had been idle by then. */
struct dt_sim_moment {
    double at_s;
    struct dt_sim_idle idle;
};

/* The events of the last recorded program; dt_event_elapsed_ns and dt_event_idle follow them from now on. [event_count] of that program,
 * the caller's, valid until the next program or replay. */
void dt_sim_replayed(struct dt_device *device, const struct dt_sim_moment *events);

/* When an event happened, in seconds from the begin of the program; NAN where it did not. */
double dt_sim_event_s(const struct dt_event *event);

int dt_sim_slot_count(const struct dt_device *device);
const struct dt_sim_slot *dt_sim_slot(const struct dt_device *device, int index);
/* A number made of every allocation and free since the device was made, in order: ranks with the same one have the same memory. */
uint64_t dt_sim_allocation_hash(const struct dt_device *device);

/* For the communicators of the sim device: another slot (number -1 where there is no description, and nothing is recorded), and one
 * operation. Owner of ranks: the caller. */
dt_status dt_sim_add_slot(struct dt_device *device, const char *name, const int *ranks, int size, int *out_slot);
/* The program that is being recorded; NULL when nothing is. The second gives this stream's number in it, too. */
struct dt_sim_program *dt_sim_recording_of(const struct dt_device *device);
struct dt_sim_program *dt_sim_recording(const struct dt_stream *stream, int *out_stream);

#endif
