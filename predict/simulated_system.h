/* The machine of device sim: a cluster and a profile, read from the files that an experiment names. */
#ifndef PREDICT_SIMULATED_SYSTEM_H
#define PREDICT_SIMULATED_SYSTEM_H

#include "lib/cost/cost.h"
#include "lib/device/sim.h"
#include "lib/sim/cluster.h"
#include "schedules/config/experiment.h"

struct measure_result;

struct simulated_file {
    char path[512]; /* where it was found */
    char name[128]; /* what it calls itself */
    uint64_t hash;  /* FNV-1a of its bytes */
};

/* What the two files say. Starts zeroed. */
struct simulated_machine {
    struct {
        const char *cluster, *profile, *rates, *directory;
    } found_by; /* the experiment's; NULL: nothing is known */
    struct simulated_file cluster_file, profile_file;
    struct dt_sim_cluster cluster;
    struct dt_profile profile;
};

struct simulated_system {
    struct simulated_file cluster_file, profile_file;
    struct dt_sim_cluster cluster;
    struct dt_sim_placement placement;
    struct dt_costs costs;       /* for the experiment's dtype */
    struct dt_sim_device device; /* what each rank's device is described by; points to costs: a system is never copied */
    uint64_t memory_bytes;       /* of a GPU, for tensors: less what the profile reserves, and no more than the experiment's limit */
};

/* Read and check cluster and profile, and place the experiment's ranks. Files are looked for beside the config that names them, in the
 * current directory, and among dtbench's own (lib/config/data_file.h). Owner of *out: the caller; NULL after a failure.
 * Errors: DT_ERR_IO, DT_ERR_INVALID with file and JSON path; DT_ERR_UNAVAILABLE where the experiment does not fit the cluster. */
dt_status simulated_system_create(const struct experiment *experiment, struct simulated_system **out);
void simulated_system_destroy(struct simulated_system *system); /* takes NULL */

/* The same for one experiment after another: the files are read again where they are others than the last time. */
dt_status simulated_system_create_next(struct simulated_machine *last, const struct experiment *experiment, struct simulated_system **out);
/* The same in two steps, for many experiments on one machine, or on one that is changed in between. Errors: as simulated_system_create. */
dt_status simulated_machine_load(const struct experiment *experiment, struct simulated_machine *out);
dt_status simulated_system_create_on(const struct simulated_machine *machine, const struct experiment *experiment,
                                     struct simulated_system **out);

/* Set what the profile's framework decides whatever the experiment's keys say, and where its ranks are placed. */
void simulated_system_apply(const struct simulated_system *system, struct experiment *experiment);

/* Whether the profile's framework would train a pipeline of these stages at all. Errors: DT_ERR_UNAVAILABLE, why not. */
dt_status simulated_system_check_stages(const struct simulated_system *system, const struct experiment *experiment);

/* Whether fsdp.unit makes no difference here, because the profile's framework decides what is gathered at a time; `text` gets the words. */
bool simulated_system_ignores_unit(const struct simulated_system *system, const struct experiment *experiment, char *text,
                                   size_t text_bytes);

/* The peak that the framework reports: the most of all ranks, or the first one's, as the profile says; and what its allocator has reserved,
 * where the profile says so. */
double simulated_system_reported_bytes(const struct simulated_system *system, const struct measure_result *result);

/* Seconds that a kernel takes at least to update one parameter: what it moves of the GPU's memory. 0 where kernels were measured. */
double simulated_system_update_s(const struct simulated_system *system, const struct experiment *experiment);

/* Whether bytes fit a GPU as the profile's allocator divides it. */
bool simulated_system_fits(const struct simulated_system *system, uint64_t peak_bytes);

#endif
