/* A simulated step as execution traces in MLCommons' Chakra format, for network simulators: each
 * rank's operations and their dependencies, without the times that they took here.
 * Source  Sridharan et al., "Chakra: Advancing Performance Benchmarking and Co-design using
 *         Standardized Execution Traces", 2023 */
#pragma once

#include "predict/simulated_system.h"

struct chakra_totals {
    int ranks; /* ranks that have a file */
    uint64_t compute, copies, messages, collectives;
    double sent_bytes, collective_bytes; /* over all of these; a collective counts with a rank's whole buffer, as in dtbench check */
};

/* Record a step and write folder/dtbench.RANK.et for each rank, or, with all false, for those that
 * represent the others (symmetry.h); and folder/comm_groups.json with the world ranks of each
 * communicator by its number. The folder is made. Kernels are compute nodes with their time, copies
 * are load and store nodes. An operation depends on the one before it on its stream, on the events
 * that its stream waits for, and on what the host has waited for. comm_size of an all_gather is
 * what each rank contributes, of other collectives its whole buffer. Errors: DT_ERR_UNAVAILABLE
 * without protobuf-c, DT_ERR_IO, DT_ERR_OOM, DT_ERR_HOST_MEMORY, and those of the trainer. */
dt_status chakra_write(const struct experiment *experiment, const struct simulated_system *system, const char *folder, bool all,
                       struct chakra_totals *out);
