#include "schedules/config/experiment.h"

#include <string.h>

const char *paradigm_name(enum paradigm_kind kind)
{
    static const char *const names[] = {
        [PARADIGM_NONE] = "none",
        [PARADIGM_DDP] = "ddp",
        [PARADIGM_PDP] = "pdp",
        [PARADIGM_FSDP] = "fsdp",
        [PARADIGM_ZERO1] = "zero1",
        [PARADIGM_ZERO2] = "zero2",
        [PARADIGM_HSDP] = "hsdp",
        [PARADIGM_DATA_PARALLEL] = "data_parallel",
        [PARADIGM_PARAMETER_SERVER] = "parameter_server",
    };
    return (size_t)kind < sizeof names / sizeof names[0] ? names[kind] : NULL;
}

int experiment_shard_size(const struct experiment *e)
{
    if (e->hsdp.shard_size > 0)
        return e->hsdp.shard_size;
    return e->ranks_per_node > 0 && e->world_size % e->ranks_per_node == 0 ? e->ranks_per_node : e->world_size;
}

bool experiment_is_simulated(const struct experiment *e)
{
    return strcmp(e->device, "sim") == 0;
}
