#include "cli/run/run_simulated.h"

#include "cli/run/signals.h"
#include "schedules/predict/simulation.h"

#include <stdio.h>

static void show_step(void *context, int step, double seconds, double loss)
{
    progress_step(context, seconds, loss);
}

static bool stop_requested(void *context)
{
    return signals_count() > 0;
}

void run_simulated_describe(const struct experiment *e, const struct simulated_file *cluster_file,
                            const struct simulated_file *profile_file, const struct dt_sim_cluster *cluster, struct report *report)
{
    snprintf(report->device, sizeof report->device, "sim");
    snprintf(report->device_name, sizeof report->device_name, "%s", cluster->gpu.name);
    snprintf(report->launcher, sizeof report->launcher, "none");
    snprintf(report->cluster.name, sizeof report->cluster.name, "%s", cluster_file->name);
    snprintf(report->profile.name, sizeof report->profile.name, "%s", profile_file->name);
    report->cluster.hash = cluster_file->hash;
    report->profile.hash = profile_file->hash;
    report->peak_flops = cluster->gpu.peak_tflops[e->model.dtype] * 1e12;
}

void run_simulated(const struct experiment *e, struct dt_trace_wish trace, struct progress *progress, struct report *report)
{
    struct measure_hooks hooks = {progress, NULL, show_step, stop_requested, trace};
    struct simulated_system *system;
    progress_phase(progress, "simulating");
    dt_status status = simulated_system_create(e, &system);
    if (status == DT_OK) {
        run_simulated_describe(e, &system->cluster_file, &system->profile_file, &system->cluster, report);
        status =
            (trace.path ? simulation_run : simulation_run_symmetric)(e, system, &hooks, &report->result); /* a trace shows every rank */
    }
    report_end(report, status, dt_error_message());
    simulated_system_destroy(system);
}
