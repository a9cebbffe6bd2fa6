/* What needs Slurm's header: job.c, or job_none.c in a build without it. */
#ifndef LIB_SLURM_JOB_H
#define LIB_SLURM_JOB_H

#include "lib/slurm/release.h"

/* Print what slurm_load_job and slurm_load_partitions say of a job. Their structures differ from version to version, so nothing is printed
 * unless the library's release is that of the header this was built with. */
void dt_slurm_job_answer(void *library, const struct dt_slurm_release *release, uint32_t job_id);

#endif
