/* The releases of Slurm that this program knows. */
#ifndef LIB_SLURM_RELEASE_H
#define LIB_SLURM_RELEASE_H

#include <stdint.h>

/* A release of Slurm and the number of its API, which is the first byte of three in slurm_api_version() and the number after "libslurm.so.".
 * Each release of the form year.month makes it one more. */
struct dt_slurm_release {
    int year, month, api;
};

/* The release with this API, or with these year and month; NULL: not one that this program knows. From 26.05 on (45) a job is no longer a
 * number to the functions called here, so that none of the list's later ones may be added without a look at their header. */
const struct dt_slurm_release *dt_slurm_release_of_api(long api);
const struct dt_slurm_release *dt_slurm_release_of_date(int year, int month);

/* What needs Slurm's header: job.c, or job_none.c in a build without it. Print what slurm_load_job and slurm_load_partitions say of a
 * job. Their structures differ from version to version, so nothing is printed unless the library's release is that of the header this was
 * built with. */
void dt_slurm_job_answer(void *library, const struct dt_slurm_release *release, uint32_t job_id);

#endif
