#include "schedules/run/device_choice.h"

#include "lib/comm/comm.h"
#include "lib/device/device.h"
#include "schedules/config/families.h"

#include <string.h>

/* Device, kernels and communicator of a kind, by the number of ranks. */
static dt_status check_kind(const char *kind, int world_size)
{
    char reason[512] = "";
    if (!dt_device_available(kind, reason, sizeof reason))
        return dt_fail(DT_ERR_UNAVAILABLE, "device \"%s\" is not available: %s", kind, reason);
    if (!model_kernels_available(kind, reason, sizeof reason))
        return dt_fail(DT_ERR_UNAVAILABLE, "device \"%s\" has no kernels: %s", kind, reason);
    const char *backend = dt_comm_backend_for(kind, world_size);
    if (dt_comm_available(backend, reason, sizeof reason))
        return DT_OK;
    return dt_fail(DT_ERR_UNAVAILABLE, "%d ranks on device \"%s\" need the communicator \"%s\": %s", world_size, kind, backend, reason);
}

dt_status device_choose(const struct experiment *experiment, const char **out)
{
    const char *kind, *last = NULL;
    if (strcmp(experiment->device, "auto") != 0) {
        for (int i = 0; (kind = dt_device_kind_name(i)); i++)
            if (strcmp(kind, experiment->device) == 0)
                *out = kind;
        return check_kind(experiment->device, experiment->world_size);
    }
    for (int i = 0; (kind = dt_device_kind_name(i)) && strcmp(kind, "sim") != 0; i++) { /* a prediction is to be asked for */
        *out = last = kind;
        if (check_kind(kind, experiment->world_size) == DT_OK)
            return DT_OK;
    }
    return last ? DT_ERR_UNAVAILABLE : dt_fail(DT_ERR_UNAVAILABLE, "no device is available; see 'dtbench list'");
}

bool device_choice_skips_gpu(const struct experiment *experiment, char *why, size_t why_bytes)
{
    const char *kind;
    bool skipped = strcmp(experiment->device, "auto") == 0 && dt_device_count("cuda") > 0 && device_choose(experiment, &kind) == DT_OK &&
                   strcmp(kind, "cuda") != 0;
    if (skipped && check_kind("cuda", experiment->world_size) < 0)
        snprintf(why, why_bytes, "%s", dt_error_message());
    return skipped;
}
