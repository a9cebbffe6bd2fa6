/* The tuning that an experiment names (lib/model/tuning.h): read by every rank before its first
 * step. */
#pragma once

#include "lib/comm/comm.h"
#include "schedules/config/experiment.h"

/* What a record says of the tuning. */
struct tuning_facts {
    char file[256]; /* its name without folders; "": none was used */
    uint64_t hash;  /* FNV-1a of its bytes */
    int products;   /* different products, on the rank that has most of them */
    int decided;    /* products that the file decides, on the rank that has the most */
    int undecided;  /* products that the library's first algorithm computes, on the rank that has the most */
};

struct tuning {
    const struct dt_model_family *family;
    struct dt_tuning *known; /* NULL: none */
    struct tuning_facts facts;
};

/* Have the kernels compute products as the experiment's tuning says; does nothing if it names none,
 * or the device is not cuda. Collective: the ranks check that all have read the same file. Call
 * tuning_finish after the kernels are destroyed, also after a failure. Errors: DT_ERR_INVALID on
 * all ranks if one cannot use its file; DT_ERR_COMM, DT_ERR_HOST_MEMORY. */
dt_status tuning_init(struct tuning *tuning, const struct experiment *experiment, struct dt_device *device, struct dt_comm *world,
                      struct dt_kernels *kernels);
void tuning_finish(struct tuning *tuning); /* takes a zeroed one */

/* Count what the tuning has decided so far, on all ranks. Collective; does nothing without a
 * tuning. Errors: DT_ERR_COMM. */
dt_status tuning_count(struct tuning *tuning, struct dt_comm *world, const struct dt_kernels *kernels);
