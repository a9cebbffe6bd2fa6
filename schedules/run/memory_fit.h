/* Does an experiment fit into the memory of where it runs? Decided before anything large is allocated, on all ranks alike: a rank that ran
 * out in the middle of a step would leave the others waiting in a collective. */
#ifndef SCHEDULES_RUN_MEMORY_FIT_H
#define SCHEDULES_RUN_MEMORY_FIT_H

#include "lib/comm/comm.h"
#include "schedules/config/experiment.h"
#include "schedules/step/step_traffic.h"

/* The bytes that rank `rank` of the experiment will hold, and unless traffic is NULL what it communicates in a step, found by running its
 * schedule on the sim device. Errors: DT_ERR_OOM is not one of them (there is no limit here). */
dt_status memory_fit_predict(const struct experiment *experiment, int rank, struct dt_memory_usage *out, struct step_traffic *traffic);

/* What one rank will hold at its peak, and where. */
struct memory_fit_rank {
    char host[64], gpu[48];             /* gpu: its uuid; "": device memory is the host's */
    uint64_t device_bytes, host_bytes;  /* predicted; host_bytes: what is offloaded */
    uint64_t gpu_bytes, gpu_free_bytes; /* the GPU's memory, and what of it buffers can have; 0: unknown */
    uint64_t machine_bytes;             /* the host's memory; 0: unknown */
    int status;                         /* DT_OK, or why nothing could be predicted */
};

/* What the ranks [size] need against the config's limits, each GPU's memory and each machine's. The same verdict on every rank, since all
 * look at the same numbers. Errors: DT_ERR_OOM, naming the rank, GPU or machine; DT_ERR_HOST_MEMORY or what else a rank's status says. */
dt_status memory_fit_check(const struct experiment *experiment, const struct memory_fit_rank *ranks, int size);

/* Predict this rank's, exchange and check. Collective over `world`; sim always fits. Errors: as memory_fit_check, DT_ERR_COMM, DT_ERR_TIMEOUT.
 */
dt_status memory_fit_agree(const struct experiment *experiment, const struct dt_device *device, struct dt_comm *world);

#endif
