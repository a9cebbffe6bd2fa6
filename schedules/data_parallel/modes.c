#include "schedules/data_parallel/modes.h"

__attribute__((weak)) const struct dp_mode *dp_mode_more(int index)
{
    return NULL;
}

const struct dp_mode *dp_mode_of(const struct experiment *e)
{
    static const struct dp_mode *const modes[DP_COUNT] = {
        [DP_NONE] = &dp_none,
        [DP_DDP] = &dp_ddp,
        [DP_ZERO1] = &dp_zero1,
        [DP_ZERO2] = &dp_zero2,
        [DP_FSDP] = &dp_fsdp,
        [DP_DATA_PARALLEL] = &dp_data_parallel,
        [DP_PARAMETER_SERVER] = &dp_parameter_server,
    };
    enum dp_kind kind = paradigm_of(e->paradigm)->mode;
    return kind < DP_COUNT ? modes[kind] : dp_mode_more((int)kind - DP_COUNT);
}
