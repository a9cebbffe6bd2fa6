#include "cli/run_inside.h"

#include "cli/execute.h"
#include "cli/signals.h"

#include <stdlib.h>

struct run {
    struct progress *progress;
    struct draft *draft;
};

static void show_step(void *context, int step, double seconds, double loss)
{
    const struct run *run = context;
    progress_step(run->progress, seconds, loss);
    draft_step(run->draft);
}

static bool stop_requested(void *context)
{
    return signals_count() > 0;
}

bool run_inside(const struct experiment *experiment, const struct dt_world *place, const char *trace, struct progress *progress,
                struct draft *draft, struct report *report)
{
    struct run run = {progress, draft};
    struct execution execution;
    struct trainer_hooks hooks = {&run, NULL, show_step, stop_requested, trace};
    progress_phase(progress, "starting");
    dt_status status = execution_open(experiment, place, report, &execution);
    if (status == DT_OK)
        status = trainer_run(experiment, execution.device, execution.world, &hooks, &report->result);
    report_end(report, status, dt_error_message());
    /* The others may be gone: to take leave of them would be to wait for ever. The process ends soon, and the launcher ends the rest. */
    if (!execution_ended_together(status, report))
        return false;
    execution_close(&execution);
    return true;
}

dt_status run_inside_gather(const struct experiment *experiment, const struct dt_world *place, bool patient, const void *mine, size_t bytes,
                            void *all)
{
    struct experiment quick = *experiment;
    struct execution execution;
    struct report report;
    if (patient)
        quick.timeout.init_s = quick.timeout.step_s = 0;
    report_init(&report);
    dt_status status = execution_open(&quick, place, &report, &execution);
    if (status == DT_OK)
        status = dt_host_all_gather(execution.world, mine, bytes, all);
    if (status == DT_OK)
        execution_close(&execution);
    report_finish(&report);
    return status;
}

dt_status run_inside_agree(const struct experiment *experiment, const struct dt_world *place, int *number)
{
    int *all = calloc((size_t)place->size, sizeof *all);
    if (!all)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d ranks", place->size);
    dt_status status = run_inside_gather(experiment, place, true, number, sizeof *number, all);
    for (int i = 0; status == DT_OK && i < place->size; i++)
        *number = all[i] > *number ? all[i] : *number;
    free(all);
    return status;
}
