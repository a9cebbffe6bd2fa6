#include "cli/run/run_simulated.h"

#include "cli/run/signals.h"
#include "schedules/predict/simulation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool is_simulated(const struct experiment *e)
{
    return strcmp(e->device, "sim") == 0;
}

/* Systems are large and point into themselves: they live on the heap. */
static dt_status load(const struct experiment *e, struct simulated_system **out)
{
    *out = malloc(sizeof **out);
    return *out ? simulated_system_load(e, *out) : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a cluster");
}

dt_status check_simulated(const struct experiment *e)
{
    struct simulated_system *system;
    dt_status status = load(e, &system);
    free(system);
    return status;
}

dt_status simulated_hashes(const struct experiment *e, char cluster_hash[17], char profile_hash[17])
{
    struct simulated_system *system;
    dt_status status = load(e, &system);
    if (status == DT_OK) {
        snprintf(cluster_hash, 17, "%016" PRIx64, system->cluster_file.hash);
        snprintf(profile_hash, 17, "%016" PRIx64, system->profile_file.hash);
    }
    free(system);
    return status;
}

static void show_step(void *context, int step, double seconds, double loss)
{
    progress_step(context, seconds, loss);
}

static bool stop_requested(void *context)
{
    return signals_count() > 0;
}

static void describe(const struct experiment *e, const struct simulated_system *system, struct report *report)
{
    snprintf(report->device, sizeof report->device, "sim");
    snprintf(report->device_name, sizeof report->device_name, "%s", system->cluster.gpu.name);
    snprintf(report->launcher, sizeof report->launcher, "none");
    snprintf(report->cluster.name, sizeof report->cluster.name, "%s", system->cluster_file.name);
    snprintf(report->profile.name, sizeof report->profile.name, "%s", system->profile_file.name);
    report->cluster.hash = system->cluster_file.hash;
    report->profile.hash = system->profile_file.hash;
    report->peak_flops = system->costs.hardware.peak_flops;
}

void run_simulated(const struct experiment *e, const char *trace, struct progress *progress, struct report *report)
{
    struct measure_hooks hooks = {progress, NULL, show_step, stop_requested, trace};
    struct simulated_system *system;
    progress_phase(progress, "simulating");
    dt_status status = load(e, &system);
    if (status == DT_OK) {
        describe(e, system, report);
        status = simulation_run(e, system, &hooks, &report->result);
    }
    report_end(report, status, dt_error_message());
    free(system);
}
