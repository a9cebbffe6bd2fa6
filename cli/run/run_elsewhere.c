#include "cli/run/run.h"

#include "lib/base/machine.h"
#include "lib/config/json.h"
#include "lib/launch/launch.h"
#include "predict/simulation.h"
#include "schedules/config/data.h"
#include "schedules/config/order.h"
#include "schedules/config/parse.h"
#include "schedules/config/tuning.h"
#include "schedules/run/device_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run {
    const struct experiment *experiment;
    struct progress *progress;
    struct draft *draft;
    struct report *report;
    int ready;
};

/* Rank 0's steps are stored as they arrive: if the run dies, they are its only results. */
static void on_progress(void *context, int rank, const char *text)
{
    struct run *run = context;
    double seconds, loss;
    int step;
    if (strcmp(text, "ready") == 0) {
        if (++run->ready == run->experiment->world_size)
            progress_phase(run->progress, "first step");
    } else if (rank == 0 && sscanf(text, "%d %lf %lf", &step, &seconds, &loss) == 3) {
        report_add_step(run->report, run->experiment, step, seconds, loss); /* after a failure here the record has fewer steps */
        progress_step(run->progress, seconds, loss);
        draft_step(run->draft);
    }
}

static int stop_requests(void *context)
{
    return signals_count();
}

/* Remove the prefix "rank 1: " if rank 1 reports a result that all ranks agreed on: "rank 0 needs
 * ...". */
static const char *without_echo(const char *text)
{
    int rank, length = 0;
    if (sscanf(text, "rank %d: %n", &rank, &length) == 1 && length > 0 &&
        (strncmp(text + length, "rank ", 5) == 0 || strncmp(text + length, "this machine", 12) == 0 ||
         strncmp(text + length, "stopped ", 8) == 0))
        return text + length;
    return text;
}

/* Ranks do not know the path of the config. */
static dt_status write_for_ranks(const struct experiment *experiment, char **out)
{
    DT_FREED struct experiment *found = malloc(sizeof *found);
    DT_TRY(dt_allocated(found, "no host memory for the experiment"));
    *found = *experiment;
    DT_TRY(experiment_find_order(found));
    DT_TRY(experiment_find_tuning(found));
    DT_TRY(experiment_find_data(found));
    return experiment_to_json(found, DT_JSON_COMPACT, out);
}

void run_launched(const struct experiment *experiment, struct dt_trace_wish trace, struct progress *progress, struct draft *draft,
                  struct report *report)
{
    const char *const argv[] = {"/proc/self/exe", "rank", trace.path, trace.ranks, NULL}; /* without a trace the list ends earlier */
    struct run run = {experiment, progress, draft, report, 0};
    DT_FREED char *input = NULL, *result = NULL;
    char error[1024], phase[64];
    const struct dt_device_kind *kind;
    dt_status status = device_choose(experiment, &kind);
    DT_THEN(status, write_for_ranks(experiment, &input));
    if (status < 0) {
        report_end(report, status, dt_error_message());
        return;
    }
    struct dt_launch launch = {
        .argv = argv,
        .world_size = experiment->world_size,
        .mpirun = strcmp(dt_comm_backend_for(kind, experiment->world_size), "mpi") == 0,
        .passive = !kind->gpus && dt_crowded(experiment->threads, experiment->world_size, dt_machine_processors()),
        .input = input,
        .init_timeout_s = experiment->timeout.init_s,
        .step_timeout_s = experiment->timeout.step_s,
        .grace_s = 3,
        .progress = on_progress,
        .stop_requests = stop_requests,
        .context = &run,
    };
    snprintf(phase, sizeof phase, "starting %d rank%s", experiment->world_size, experiment->world_size > 1 ? "s" : "");
    progress_phase(progress, phase);
    status = dt_launch_run(&launch, &result);
    snprintf(error, sizeof error, "%s", without_echo(dt_error_message()));
    if (result && report_take(report, result) < 0 && status == DT_OK) {
        status = DT_ERR_COMM;
        snprintf(error, sizeof error, "%s", dt_error_message());
    }
    /* A signal to a whole job also ends mpirun and the ranks: a failure then is an interruption. */
    if (status == DT_ERR_COMM && signals_count() > 0)
        status = DT_ERR_INTERRUPTED;
    report_end(report, status, error);
    snprintf(report->launcher, sizeof report->launcher,
             "none"); /* the user's launcher; the one that dtbench uses itself does not describe the job */
}

/* ---- on device sim ---- */

static void show_step(void *context, int step, double seconds, double loss)
{
    progress_step(context, seconds, loss);
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
    struct measure_hooks hooks = {progress, NULL, show_step, signals_came, trace};
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
