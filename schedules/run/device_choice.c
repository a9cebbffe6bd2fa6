#include "schedules/run/device_choice.h"

#include "lib/comm/comm.h"
#include "lib/device/device.h"
#include "schedules/config/parse.h"

#include <stdio.h>

/* Check device and kernels of a kind, and its communicator if there are several ranks. */
static dt_status check_kind(const struct dt_device_kind *kind, const struct experiment *e)
{
    int world_size = e->world_size;
    char reason[512] = "";
    if (!dt_device_available(kind->name, reason, sizeof reason))
        return dt_fail(DT_ERR_UNAVAILABLE, "device \"%s\" is not available: %s", kind->name, reason);
    if (!dt_kernels_available(e->model.family, kind, reason, sizeof reason))
        return dt_fail(DT_ERR_UNAVAILABLE, "device \"%s\" has no kernels: %s", kind->name, reason);
    DT_TRY(experiment_check_dtype(e, kind, kind->name));
    const char *backend = dt_comm_backend_for(kind, world_size);
    if (dt_comm_available(backend, reason, sizeof reason))
        return DT_OK;
    return dt_fail(DT_ERR_UNAVAILABLE, "%d ranks on device \"%s\" need the communicator \"%s\": %s", world_size, kind->name, backend,
                   reason);
}

dt_status device_choose(const struct experiment *e, const struct dt_device_kind **out)
{
    const struct dt_device_kind *kind;
    *out = e->strategy.device;
    if (*out)
        return check_kind(*out, e);
    for (int i = 0; (kind = dt_device_kind_at(i)) && !kind->simulated; i++) { /* a simulated device must be requested explicitly */
        *out = kind;
        if (check_kind(kind, e) == DT_OK)
            return DT_OK;
    }
    return *out ? DT_ERR_UNAVAILABLE : dt_fail(DT_ERR_UNAVAILABLE, "no device is available; see 'dtbench list'");
}

bool device_choice_skips_gpu(const struct experiment *e, char *why, size_t why_bytes)
{
    const struct dt_device_kind *kind, *gpu = dt_device_kind_find("cuda");
    bool skipped = !e->strategy.device && dt_device_count(gpu->name) > 0 && device_choose(e, &kind) == DT_OK && kind != gpu;
    if (skipped && check_kind(gpu, e) < 0)
        snprintf(why, why_bytes, "%s", dt_error_message());
    return skipped;
}
