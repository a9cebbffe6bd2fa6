/* For builds without NCCL's header. */
#include "lib/comm/backend.h"

bool dt_comm_nccl_available(char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "not in this build: install libnccl-dev (2.18 or newer) and CUDA, and configure with -Dcuda=enabled");
    return false;
}

dt_status dt_comm_nccl_create(struct dt_device *device, const struct dt_world *world, const struct dt_comm_members *members,
                              const struct dt_comm_options *options, struct dt_comm **out)
{
    return dt_fail(DT_ERR_UNAVAILABLE,
                   "%d ranks on the cuda device need NCCL, which is not in this build: install libnccl-dev (2.18 or newer) and CUDA, and "
                   "configure with -Dcuda=enabled",
                   world->size);
}

dt_status dt_comm_nccl_check_world(const struct dt_world *world)
{
    return DT_OK;
}
