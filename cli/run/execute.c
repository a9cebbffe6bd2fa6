#include "cli/run/execute.h"

#include "gpt/kernels.h"
#include "schedules/config/parse.h"

#include <string.h>

/* Device, kernels and communicator of a kind, for so many ranks. */
static dt_status check_kind(const char *kind, int world_size)
{
    char reason[512] = "";
    if (!dt_device_available(kind, reason, sizeof reason))
        return dt_fail(DT_ERR_UNAVAILABLE, "device \"%s\" is not available: %s", kind, reason);
    if (!gpt_kernels_available(kind, reason, sizeof reason))
        return dt_fail(DT_ERR_UNAVAILABLE, "device \"%s\" has no kernels: %s", kind, reason);
    const char *backend = dt_comm_backend_for(kind, world_size);
    if (dt_comm_available(backend, reason, sizeof reason))
        return DT_OK;
    return dt_fail(DT_ERR_UNAVAILABLE, "%d ranks on device \"%s\" need the communicator \"%s\": %s", world_size, kind, backend, reason);
}

dt_status execute_device_kind(const struct experiment *experiment, const char **out)
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

bool execute_passes_over_gpu(const struct experiment *experiment, char *why, size_t why_bytes)
{
    const char *kind;
    bool passed = strcmp(experiment->device, "auto") == 0 && dt_device_count("cuda") > 0 &&
                  execute_device_kind(experiment, &kind) == DT_OK && strcmp(kind, "cuda") != 0;
    if (passed && check_kind("cuda", experiment->world_size) < 0)
        snprintf(why, why_bytes, "%s", dt_error_message());
    return passed;
}

dt_status execution_open(const struct experiment *e, const struct dt_world *place, struct report *report, struct execution *out)
{
    const char *kind;
    struct dt_device_info info;
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
    if (strcmp(kind, "cuda") == 0)
        DT_TRY(experiment_set_environment(e));
    DT_TRY(dt_device_create(kind, &device, &out->device));
    DT_TRY(dt_comm_create(out->device, place, &comm, &out->world));
    dt_device_info(out->device, &info);
    report->peak_flops = info.peak_flops[e->model.dtype];
    return report_describe(report, out->device, out->world, place);
}

bool execution_ended_together(dt_status status, const struct report *report)
{
    return status == DT_OK || status == DT_ERR_INTERRUPTED || status == DT_ERR_INVALID || (status == DT_ERR_OOM && report->result.together);
}

void execution_close(struct execution *execution)
{
    dt_comm_destroy(execution->world);
    dt_device_destroy(execution->device);
    *execution = (struct execution){0};
}
