/* Whether an experiment fits into memory. All ranks decide it together before anything large is
 * allocated: a rank that runs out of memory during a step would leave the others waiting in a
 * collective. */
#pragma once

#include "lib/comm/comm.h"
#include "schedules/config/experiment.h"
#include "schedules/step/step_traffic.h"

/* The bytes that rank `rank` of the experiment will hold, and unless traffic is NULL what it
 * communicates in a step. Both are found by running its schedule on the sim device, without a
 * memory limit. Errors: as dry_rank_init and trainer_step, but never DT_ERR_OOM. */
dt_status memory_fit_predict(const struct experiment *experiment, int rank, struct dt_memory_usage *out, struct step_traffic *traffic);

/* The memory that one rank will hold at its peak, and where it is. */
struct memory_fit_rank {
    char host[64], gpu[48];             /* gpu: its uuid; "": device memory is the host's */
    uint64_t device_bytes, host_bytes;  /* predicted; host_bytes: offloaded data */
    uint64_t gpu_bytes, gpu_free_bytes; /* the GPU's memory, and the part that buffers can use; 0: unknown */
    uint64_t machine_bytes;             /* the host's memory; 0: unknown */
    int status;                         /* DT_OK, or why the prediction failed */
};

/* Compare the needs of ranks [size] with the config's limits, each GPU's memory and each machine's.
 * The result is the same on every rank, since all use the same numbers. Errors: DT_ERR_OOM, naming
 * the rank, GPU or machine; DT_ERR_HOST_MEMORY, or a rank's status. */
dt_status memory_fit_check(const struct experiment *experiment, const struct memory_fit_rank *ranks, int size);

/* Predict this rank's memory, exchange the predictions, and check them. Collective over `world`;
 * sim always fits. Errors: as memory_fit_check, DT_ERR_COMM, DT_ERR_TIMEOUT.
 */
dt_status memory_fit_agree(const struct experiment *experiment, const struct dt_device *device, struct dt_comm *world);
