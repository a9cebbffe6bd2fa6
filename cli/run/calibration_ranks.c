#include "cli/run/calibration_ranks.h"

#include "cli/run/run.h"
#include "cli/text/text.h"
#include "lib/base/machine.h"
#include "lib/device/device.h"
#include "lib/launch/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_progress(void *context, int rank, const char *text)
{
    struct calibration_watch *run = context;
    int done, total;
    if (rank != 0 || sscanf(text, "%d %d", &done, &total) != 2)
        return;
    if (run->live)
        status_line("measuring %d rank%s: %d/%d, %d %% of all", run->ranks, run->ranks > 1 ? "s" : "", done, total,
                    100 * (run->before + done) / run->total);
}

static int stop_requests(void *context)
{
    return signals_count();
}

dt_status calibration_measure_world(const struct calibration_request *request, struct calibration_watch *run,
                                    struct calibration *calibration)
{
    const struct dt_device_kind *kind = dt_device_kind_find(request->device);
    static const char *const argv[] = {"/proc/self/exe", "calibrate-rank", NULL};
    DT_FREED char *input = NULL, *result = NULL;
    struct dt_launch launch = {
        .argv = argv,
        .world_size = run->ranks,
        .mpirun = strcmp(dt_comm_backend_for(kind, run->ranks), "mpi") == 0,
        .passive = !kind->gpus && dt_crowded(run->threads, run->ranks, dt_machine_processors()),
        .init_timeout_s = 120,
        .step_timeout_s = 120,
        .grace_s = 3,
        .progress = on_progress,
        .stop_requests = stop_requests,
        .context = run,
    };
    DT_TRY(calibration_request_write(request, &input));
    launch.input = input;
    DT_TRY(dt_launch_run(&launch, &result));
    return result ? calibration_read(result, calibration) : dt_fail(DT_ERR_COMM, "rank 0 sent no result");
}

/* ---- as one of the ranks that a launcher has started ---- */

static dt_status count_inside(void *context, int done, int total)
{
    struct calibration_watch *run = context;
    if (signals_count() > 0)
        return dt_fail(DT_ERR_INTERRUPTED, "stopped after %d of %d measurements", done, total);
    if (run->live)
        status_line("measuring %d ranks: %d/%d", run->ranks, done, total);
    return DT_OK;
}

dt_status calibration_measure_inside(const struct calibration_request *request, const struct dt_world *world, bool quiet,
                                     struct calibration *calibration)
{
    struct calibration_watch run = {.ranks = world->size, .live = !quiet && world->rank == 0 && terminal_is_live(stderr)};
    const struct dt_device_options place = {.threads = request->threads, .local_rank = world->local_rank, .local_size = world->local_size};
    const struct dt_comm_options limits = {.step_timeout_s = 120, .init_timeout_s = 120};
    const struct calibration_hooks hooks = {&run, count_inside};
    struct dt_device *device;
    struct dt_comm *comm;
    DT_TRY(dt_device_create(request->device, &place, &device));
    DT_TRY(dt_comm_create(device, world, &limits, &comm));
    DT_TRY(calibration_run(request, world, device, comm, &hooks, calibration));
    dt_comm_destroy(comm);
    dt_device_destroy(device);
    if (run.live)
        status_clear();
    return DT_OK;
}

int calibration_command(const char *command, const char *ranks, enum exit_code wrong, calibration_work *work, void *options)
{
    struct dt_world world;
    if (dt_world_from_environment(&world) < 0)
        return report_failure(command, EXIT_CODE_FAILED);
    if (world.size > 1 && ranks) {
        dt_fail(DT_ERR_INVALID, "--ranks: %s has started %d ranks, and these are measured", world.launcher, world.size);
        return report_failure(command, EXIT_CODE_USAGE);
    }
    signals_install();
    DT_FREED struct calibration *calibration = calloc(1, sizeof *calibration);
    dt_status status = dt_allocated(calibration, "no host memory for a calibration");
    DT_THEN(status, work(options, &world, calibration));
    if (status < 0)
        return report_failure(command, status == DT_ERR_INVALID ? wrong : signals_exit_code(status));
    dt_comm_library_finish();
    return EXIT_CODE_OK;
}
