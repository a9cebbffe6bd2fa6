/* The recorded ranks of a simulation: their programs and communicators; and the trace. Only for the
 * files simulation*.c. */
#pragma once

#include "lib/device/trace.h"
#include "lib/sim/engine.h"
#include "predict/symmetry.h"
#include "schedules/run/trainer.h"

enum { RECORDED_STEPS = 2 };

/* A role: one or more ranks with equal programs and equal allocations. The first such rank's
 * trainer is kept, for the phases.
 */
struct simulated_role {
    struct dt_device *device;
    struct dt_comm *world;
    struct framework *framework;
    struct trainer *trainer;
    struct dt_sim_program *steps[RECORDED_STEPS];
    struct dt_memory_usage memory;
    uint64_t allocation_hash; /* after the first step */
    bool alike;               /* both steps do the same */
};

/* A communicator, as all its ranks see it. */
struct simulated_group {
    char name[32];
    int *ranks; /* [count] numbers in the world */
    int count;
    int occurrence; /* how many communicators of the same ranks were made before */
    uint64_t hash;  /* hash of ranks and occurrence */
};

struct simulated_rank {
    int role;
    int *groups; /* [slots of the role's programs] */
};

struct simulated_ranks {
    const struct symmetric_part *part; /* the ranks that are recorded and replayed */
    struct simulated_rank *ranks;      /* [count] the part's ranks */
    int count;
    struct simulated_role *roles; /* [role_count] */
    int role_count;
    struct simulated_group *groups; /* [group_count] */
    int group_count, group_room;
    int *buckets; /* [bucket_count] hash table of groups: their numbers; -1: empty */
    int bucket_count;
};

/* Record the part's ranks. The part outlives *out. All ranks are recorded, or, if ranks represent
 * others, one of each pipeline stage. device: the description of each rank's device, system->device
 * or one with other costs. each: keep every kernel separately, for traces (otherwise consecutive
 * kernels are merged). stop: asked between ranks; true ends with DT_ERR_INTERRUPTED. */
dt_status simulated_ranks_record(const struct experiment *experiment, const struct simulated_system *system,
                                 const struct dt_sim_device *device, const struct symmetric_part *part, bool each,
                                 bool (*stop)(void *context), void *context, struct simulated_ranks *out);
void simulated_ranks_finish(struct simulated_ranks *ranks);

/* Make one rank's device, which has at most most_bytes (0: no limit), its world and its trainer.
 * Call simulated_role_finish also after a failure. */
dt_status simulated_role_create(const struct experiment *experiment, const struct simulated_system *system,
                                const struct dt_sim_device *device, int rank, uint64_t most_bytes, struct simulated_role *out);
void simulated_role_finish(struct simulated_role *role);

/* ---- a simulated step as a trace: a process for each requested rank with its host and every
 * stream, and an arrow from each send to its receive ---- */

struct simulation_trace;

/* Begin the trace's file, and fill in the collector for an engine. Owner: the caller. Errors:
 * DT_ERR_IO, DT_ERR_HOST_MEMORY. */
dt_status simulation_trace_open(const struct dt_trace_wish *wish, const struct simulated_system *system, int world_size,
                                struct simulation_trace **out, struct dt_sim_collector *collector);
dt_status simulation_trace_close(struct simulation_trace *trace); /* takes NULL. Errors: DT_ERR_IO */
