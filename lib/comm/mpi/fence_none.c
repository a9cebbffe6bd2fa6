/* For builds without PMIx's header. */
#include "lib/comm/mpi/fence.h"

dt_status dt_mpi_fence(const struct dt_world *world, double timeout_s)
{
    return DT_OK;
}
