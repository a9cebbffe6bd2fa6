/* A simulated step as execution traces in MLCommons' Chakra format, for those who simulate networks: what each rank does and what must be over
 * before it, without the times that it took here.
 * Source  Sridharan et al., "Chakra: Advancing Performance Benchmarking and Co-design using Standardized Execution Traces", 2023 */
#ifndef PREDICT_CHAKRA_H
#define PREDICT_CHAKRA_H

#include "predict/simulated_system.h"

struct chakra_totals {
    int ranks; /* that have a file */
    uint64_t compute, copies, messages, collectives;
    double sent_bytes, collective_bytes; /* of all of them; of collectives what a rank's whole buffer holds, as dtbench check counts them */
};

/* Record a step and write folder/dtbench.RANK.et for each rank, or, all false, for those that stand for the others (symmetry.h); and
 * folder/comm_groups.json with the world ranks of each communicator by its number. The folder is made. Kernels are nodes of compute with their
 * time, copies load and store nodes; an operation follows the one before it on its stream, what its stream was told to wait for, and what the
 * host waited for before. Of an all_gather comm_size is what each rank gives, of the others what it has. Errors: DT_ERR_UNAVAILABLE without
 * protobuf-c, DT_ERR_IO, DT_ERR_OOM, DT_ERR_HOST_MEMORY, and those of the trainer. */
dt_status chakra_write(const struct experiment *experiment, const struct simulated_system *system, const char *folder, bool all,
                       struct chakra_totals *out);

#endif
