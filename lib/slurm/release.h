/* The releases of Slurm known to this program. */
#pragma once

#include <stdint.h>

/* A release of Slurm and the number of its API, which is the first byte of three in
 * slurm_api_version() and the number after "libslurm.so.". Each release (year.month) increments
 * it. */
struct dt_slurm_release {
    int year, month, api;
};

/* The release with this API, or with these year and month; NULL: an unknown release. From 26.05 on
 * (45) a job is no longer a number to the functions called here, so check the header before a later
 * release is added to the list. */
const struct dt_slurm_release *dt_slurm_release_of_api(long api);
const struct dt_slurm_release *dt_slurm_release_of_date(int year, int month);

/* Functions that need Slurm's header: job.c, or job_none.c in a build without it. Print what
 * slurm_load_job and slurm_load_partitions return for a job. Their structures differ between
 * versions, so nothing is printed unless the library's release is that of the header of this
 * build. */
void dt_slurm_job_answer(void *library, const struct dt_slurm_release *release, uint32_t job_id);
