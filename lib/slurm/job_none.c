/* Built without Slurm's header (libslurm-dev, -Dslurm=enabled), or with one that is not understood: variables and what libslurm gives in
 * plain numbers are all there is. */
#include "lib/slurm/release.h"

void dt_slurm_job_answer(void *library, const struct dt_slurm_release *release, uint32_t job_id)
{
}
