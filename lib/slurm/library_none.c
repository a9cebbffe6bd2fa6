/* Built with -Dslurm=disabled: only the variables of a job are known. */
#include "lib/slurm/library.h"

dt_status dt_slurm_library_answer(void)
{
    return dt_fail(DT_ERR_UNAVAILABLE, "this build does not load libslurm: build with -Dslurm=auto");
}
