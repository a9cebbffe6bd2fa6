/* Built without Slurm's header (libslurm-dev, -Dslurm=enabled), or with an unknown version of it:
 * only variables and libslurm's plain numbers are available. */
#include "lib/slurm/release.h"

void dt_slurm_job_answer(void *library, const struct dt_slurm_release *release, uint32_t job_id)
{
}
