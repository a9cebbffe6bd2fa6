/* What the sim device can do beyond lib/device/device.h: record the operations of a rank's host
 * code, and receive their simulated times.
 *
 * Without a description (options.sim NULL) the device only counts memory, which is enough for
 * `dtbench check`. With one, everything queued between dt_sim_record_start and dt_sim_record_finish
 * becomes a program (lib/sim/program.h). A program begins with all streams empty and all earlier
 * events passed. */
#pragma once

#include "lib/device/device.h"
#include "lib/sim/program.h"

struct dt_costs; /* lib/cost/cost.h */

/* The simulated device as its kernels and its host see it. */
struct dt_sim_device {
    const struct dt_costs *costs; /* of kernels; passed on to those who ask; NULL: kernels take no time */
    double memory_bytes_per_s;    /* of copies and fills within the device */
    double copy_load;             /* part of the node's processors that copies and fills use; 0: the device has its own */
    double kernel_s;              /* shortest time of a copy or fill */
    double copy_host_s;           /* host time to queue a copy or fill */
    double collective_host_s;     /* host time to queue a collective */
    /* name of the communicators whose all-gathers and reduce-scatters need extra host work of a
     * framework; NULL: none */
    const char *gathered_group;
    double gather_host_s; /* extra host time to queue one of these */
    /* extra host time for each byte of such an all-gather, before which the host waits for the
     * device; 0: neither */
    double gather_host_s_per_byte;
    double message_host_s;      /* host time to queue a send or receive */
    const char *slow_group;     /* name of communicators whose collectives cost the host more; must stay valid; NULL: none */
    double slow_group_rank_s;   /* that extra host time, for each of their ranks */
    double queue_kernels;       /* kernels that a stream's queue can hold: the host waits while it is full; 0: no limit */
    double slowdown;            /* factor for the kernels' times; 0 means 1 */
    uint64_t granularity_bytes; /* allocations are rounded up to multiples of it; 0: DT_ALLOCATION_BYTES, as everywhere */
};

/* A communicator of the recorded rank: its members as world ranks, this rank included. Slots are
 * numbered over the life of the device; destroyed ones keep their numbers. */
struct dt_sim_slot {
    char name[32];
    int *ranks; /* [size] */
    int size;
};

/* The description that the device was created with; NULL on every other device. */
const struct dt_sim_device *dt_sim_device_of(const struct dt_device *device);
/* The costs in it; NULL: all work is free. */
const struct dt_costs *dt_sim_costs_of(const struct dt_device *device);
/* Does this device count the memory that GPU kernels allocate themselves
 * (dt_device_options.stands_for)? */
bool dt_sim_stands_for_gpu(const struct dt_device *device);

/* Begin a program. coalesce: as in dt_sim_program_create. Errors: DT_ERR_INVALID if one is open, or
 * the device has no description. */
dt_status dt_sim_record_start(struct dt_device *device, bool coalesce);
/* End the program. Owner of *out: the caller. Errors: DT_ERR_HOST_MEMORY. If recording an operation
 * failed, the call of that operation has already failed. */
dt_status dt_sim_record_finish(struct dt_device *device, struct dt_sim_program **out);

/* The host is busy for `seconds`. No-op unless recording. */
dt_status dt_sim_host(struct dt_device *device, double seconds);
/* `stream` computes for `seconds` in `kernels` kernels, after the host was busy for host_s with
 * them. label: as in lib/sim/program.h. No-op unless recording. */
dt_status dt_sim_work(struct dt_stream *stream, double kernels, double host_s, double seconds, const char *label);

/* The same on processors that ranks share (dt_sim_program_shared_work). */
dt_status dt_sim_shared_work(struct dt_stream *stream, double seconds, double load, const char *label);

/* The host's processors read and write `bytes` of host memory: updates of parameters in host
 * memory. No-op unless recording. */
dt_status dt_sim_host_memory(struct dt_stream *stream, double bytes, const char *label);

/* When an event of a program happened, in seconds, and how long its stream had been idle until
 * then. */
struct dt_sim_moment {
    double at_s;
    struct dt_sim_idle idle;
};

/* Set the events of the last recorded program; dt_event_elapsed_ns and dt_event_idle use them from
 * now on. [event_count] of that program, owned by the caller, valid until the next program or
 * replay. */
void dt_sim_replayed(struct dt_device *device, const struct dt_sim_moment *events);

/* When an event happened, in seconds from the begin of the program; NAN if it did not happen. */
double dt_sim_event_s(const struct dt_event *event);

int dt_sim_slot_count(const struct dt_device *device);
const struct dt_sim_slot *dt_sim_slot(const struct dt_device *device, int index);
/* A hash of every allocation and free since the device was created, in order: ranks with the same
 * hash have used memory in the same way. */
uint64_t dt_sim_allocation_hash(const struct dt_device *device);

/* For the communicators of the sim device: add a slot (number -1 if the device has no description,
 * and nothing is recorded), and one operation. Owner of ranks: the caller. */
dt_status dt_sim_add_slot(struct dt_device *device, const char *name, const int *ranks, int size, int *out_slot);
/* The program that is being recorded; NULL: none. The second also returns the stream's number in
 * it. */
struct dt_sim_program *dt_sim_recording_of(const struct dt_device *device);
struct dt_sim_program *dt_sim_recording(const struct dt_stream *stream, int *out_stream);
