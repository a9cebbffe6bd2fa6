/* The work of lib/slurm/facts.h's helper process. */
#pragma once

#include "lib/base/status.h"

/* Load libslurm and print "key value" lines about the job in SLURM_JOB_ID to standard output.
 * DTBENCH_LIBSLURM names the library if the loader would not find it, or would find another
 * cluster's. May not return: slurm_init() exits. Errors: DT_ERR_UNAVAILABLE. */
dt_status dt_slurm_library_answer(void);
