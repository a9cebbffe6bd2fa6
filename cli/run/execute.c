#include "cli/run/execute.h"

#include "schedules/config/parse.h"
#include "schedules/run/device_choice.h"

#include <string.h>

dt_status execution_open(const struct experiment *e, const struct dt_world *place, struct report *report, struct execution *out)
{
    const struct dt_device_kind *kind;
    struct dt_device_info info;
    struct dt_device_options device = {.memory_limit_bytes = e->memory_limit_bytes,
                                       .threads = e->threads,
                                       .local_rank = place->local_rank,
                                       .local_size = place->local_size,
                                       .share = e->share_gpus,
                                       .host_memory_limit_bytes = e->host_memory_limit_bytes};
    struct dt_comm_options comm = {.step_timeout_s = e->timeout.step_s,
                                   .init_timeout_s = e->timeout.init_s,
                                   .share_devices = e->share_gpus,
                                   .register_buffers = e->register_buffers};
    *out = (struct execution){0};
    DT_TRY(device_choose(e, &kind));
    if (kind->gpus)
        DT_TRY(experiment_set_environment(e));
    DT_TRY(dt_device_create(kind->name, &device, &out->device));
    DT_TRY(dt_comm_create(out->device, place, &comm, &out->world));
    dt_device_info(out->device, &info);
    report->peak_flops = info.peak_flops[e->model.dtype];
    return report_describe(report, e->model.family, out->device, out->world, place);
}

bool execution_ended_together(dt_status status, const struct report *report)
{
    return measure_ended_together(status, &report->result);
}

void execution_close(struct execution *execution)
{
    dt_comm_destroy(execution->world);
    dt_device_destroy(execution->device);
    *execution = (struct execution){0};
}
