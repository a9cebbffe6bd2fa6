/* The machine of device sim: a cluster and a profile, read from the files that an experiment
 * names. */
#pragma once

#include "lib/cost/cost.h"
#include "lib/device/sim.h"
#include "lib/sim/cluster.h"
#include "schedules/config/experiment.h"

struct measure_result;

struct simulated_file {
    char path[512]; /* where it was found */
    char name[128]; /* the name in the file */
    uint64_t hash;  /* FNV-1a of its bytes */
};

/* The contents of the two files. Starts zeroed. */
struct simulated_machine {
    struct {
        const char *cluster, *profile, *rates, *directory;
    } found_by; /* the experiment's keys; NULL: nothing is loaded */
    struct simulated_file cluster_file, profile_file;
    struct dt_sim_cluster cluster;
    struct dt_profile profile;
};

struct simulated_system {
    struct simulated_file cluster_file, profile_file;
    struct dt_sim_cluster cluster;
    struct dt_sim_placement placement;
    struct dt_costs costs;       /* for the experiment's dtype */
    struct dt_sim_device device; /* describes each rank's device; points to costs, so a system is never copied */
    uint64_t memory_bytes;       /* of a GPU, for tensors: less what the profile reserves, and at most the experiment's limit */
    double reserved_bytes;       /* of a GPU: context, libraries and the experiment's communicators */
};

/* Read and check cluster and profile, and place the experiment's ranks. Files are looked for in the
 * config's folder, in the current directory, and among dtbench's own (lib/config/data_file.h).
 * Owner of *out: the caller; NULL after a failure. Errors: DT_ERR_IO, DT_ERR_INVALID with file and
 * JSON path; DT_ERR_UNAVAILABLE if the experiment does not fit the cluster. */
dt_status simulated_system_create(const struct experiment *experiment, struct simulated_system **out);
void simulated_system_destroy(struct simulated_system *system); /* takes NULL */
DT_DESTROYS(simulated_system_destroy, struct simulated_system)

/* The same for consecutive experiments: a file is read again only if it is another one than last
 * time. */
dt_status simulated_system_create_next(struct simulated_machine *last, const struct experiment *experiment, struct simulated_system **out);
/* The same in two steps, for many experiments on one machine, or if the machine is changed in
 * between. Errors: as simulated_system_create. */
dt_status simulated_machine_load(const struct experiment *experiment, struct simulated_machine *out);
dt_status simulated_system_create_on(const struct simulated_machine *machine, const struct experiment *experiment,
                                     struct simulated_system **out);

/* Set what the profile's framework decides regardless of the experiment's keys, and the placement
 * of its ranks. */
void simulated_system_apply(const struct simulated_system *system, struct experiment *experiment);

/* Check that the profile's framework can train a pipeline of these stages. Errors:
 * DT_ERR_UNAVAILABLE with the reason. */
dt_status simulated_system_check_stages(const struct simulated_system *system, const struct experiment *experiment);

/* Whether the profile's framework ignores fsdp.unit, because it decides itself what is gathered at
 * a time; `text` gets a remark. */
bool simulated_system_ignores_unit(const struct simulated_system *system, const struct experiment *experiment, char *text,
                                   size_t text_bytes);

/* The peak on the fullest device. */
double simulated_peak_bytes(const struct measure_result *result);

/* The peak that the framework reports, as the profile says: that of all ranks, or the first rank's;
 * and of tensors, or of what its allocator has reserved. */
double simulated_system_reported_bytes(const struct simulated_system *system, const struct measure_result *result);

/* The most memory of a GPU that is in use, as nvidia-smi shows it, of the rank that uses most: the
 * peaks of all categories, though they are at different times, what the allocator cannot use, and
 * what context, libraries and communicators hold; at most the GPU's memory. PyTorch's allocator
 * gives a large tensor a segment of its own, keeps it, and joins no two segments, so that freed
 * activations make no room for the update's long buffers; only a GPU that is full gives them back.
 * Source  PyTorch, c10/cuda/CUDACachingAllocator.cpp: get_allocation_size (kMinLargeAlloc, 10 MiB),
 *         try_merge_blocks, release_cached_blocks. */
double simulated_system_used_bytes(const struct simulated_system *system, const struct measure_result *result);

/* The least seconds to update one parameter: the memory traffic of the kernel. 0 if kernels were
 * measured. */
double simulated_system_update_s(const struct simulated_system *system, const struct experiment *experiment);

/* Whether this peak fits the GPU, after what the profile's allocator loses. */
bool simulated_system_fits(const struct simulated_system *system, uint64_t peak_bytes);
