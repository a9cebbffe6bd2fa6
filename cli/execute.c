#include "cli/execute.h"

#include <string.h>

dt_status execute_device_kind(const struct experiment *experiment, const char **out)
{
    char reason[256] = "";
    const char *kind;
    bool automatic = strcmp(experiment->device, "auto") == 0;
    for (int i = 0; (kind = dt_device_kind_name(i)); i++) {
        if (automatic ? strcmp(kind, "sim") == 0 : strcmp(kind, experiment->device) != 0) /* a prediction is to be asked for */
            continue;
        if (dt_device_available(kind, reason, sizeof reason)) {
            *out = kind;
            return DT_OK;
        }
        if (!automatic)
            return dt_fail(DT_ERR_UNAVAILABLE, "device \"%s\" is not available: %s", kind, reason);
    }
    return dt_fail(DT_ERR_UNAVAILABLE, "no device is available; see 'dtbench list'");
}

dt_status execute_check(const struct experiment *e)
{
    char reason[256];
    const char *kind;
    DT_TRY(execute_device_kind(e, &kind));
    const char *backend = dt_comm_backend_for(kind, e->world_size);
    if (dt_comm_available(backend, reason, sizeof reason))
        return DT_OK;
    return dt_fail(DT_ERR_UNAVAILABLE, "%d ranks on device \"%s\" need the communicator \"%s\": %s", e->world_size, kind, backend, reason);
}

dt_status execution_open(const struct experiment *e, const struct dt_world *place, struct report *report, struct execution *out)
{
    const char *kind;
    struct dt_device_options device = {.memory_limit_bytes = e->memory_limit_bytes,
                                       .threads = e->threads,
                                       .local_rank = place->local_rank,
                                       .local_size = place->local_size,
                                       .share = e->share_gpus,
                                       .host_memory_limit_bytes = e->host_memory_limit_bytes};
    struct dt_comm_options comm = {
        .step_timeout_s = e->timeout.step_s, .init_timeout_s = e->timeout.init_s, .share_devices = e->share_gpus};
    *out = (struct execution){0};
    DT_TRY(execute_device_kind(e, &kind));
    DT_TRY(dt_device_create(kind, &device, &out->device));
    DT_TRY(dt_comm_create(out->device, place, &comm, &out->world));
    return report_describe(report, out->device, out->world, place);
}

bool execution_ended_together(dt_status status, const struct report *report)
{
    return status == DT_OK || status == DT_ERR_INTERRUPTED || status == DT_ERR_INVALID ||
           (status == DT_ERR_OOM && report->result.together);
}

void execution_close(struct execution *execution)
{
    dt_comm_destroy(execution->world);
    dt_device_destroy(execution->device);
    *execution = (struct execution){0};
}
