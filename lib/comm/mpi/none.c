/* For builds without MPI. */
#include "lib/comm/backend.h"

bool dt_comm_mpi_available(char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "not in this build: install libopenmpi-dev and configure with -Dmpi=enabled");
    return false;
}

dt_status dt_comm_mpi_create(struct dt_device *device, const struct dt_world *world, const struct dt_comm_options *options,
                             struct dt_comm **out)
{
    return dt_fail(
        DT_ERR_UNAVAILABLE,
        "%d ranks on the cpu device need MPI, which is not in this build: install libopenmpi-dev and configure with -Dmpi=enabled",
        world->size);
}

dt_status dt_comm_mpi_check_world(const struct dt_world *world)
{
    return DT_OK;
}

void dt_comm_library_finish(void)
{
}
