/* `dtbench calibrate-rank SOCKET`: what `dtbench calibrate` starts, once per rank. */
#include "cli/commands/commands.h"

#include "cli/run/run.h"
#include "cli/text/text.h"
#include "lib/launch/launch.h"
#include "predict/calibration.h"

#include <stdlib.h>
#include <unistd.h>

struct rank {
    struct dt_launch_rank *link;
    int number;
};

static dt_status send_progress(void *context, int done, int total)
{
    const struct rank *rank = context;
    char text[48] = "";
    if (dt_launch_rank_stop_requested(rank->link) || signals_count() > 0)
        return dt_fail(DT_ERR_INTERRUPTED, "stopped after %d of %d measurements", done, total);
    if (rank->number == 0)
        snprintf(text, sizeof text, "%d %d", done, total);
    return dt_launch_rank_progress(rank->link, text);
}

static dt_status send_result(const struct rank *rank, const struct calibration *calibration)
{
    DT_FREED char *text = NULL;
    if (rank->number != 0)
        return DT_OK;
    DT_TRY(calibration_write(calibration, &text));
    return dt_launch_rank_result(rank->link, text);
}

/* What this rank measures with. */
struct means {
    struct dt_device *device;
    struct dt_comm *world;
};

static dt_status measure(struct rank *rank, const struct dt_world *place, struct means *means, struct calibration *calibration)
{
    struct calibration_request request;
    const struct calibration_hooks hooks = {rank, send_progress};
    const struct dt_comm_options limits = {.step_timeout_s = 60, .init_timeout_s = 60};
    DT_TRY(calibration_request_read(dt_launch_rank_input(rank->link), &request));
    const struct dt_device_options options = {.threads = request.threads, .local_rank = place->local_rank, .local_size = place->local_size};
    DT_TRY(dt_device_create(request.device, &options, &means->device));
    DT_TRY(dt_comm_create(means->device, place, &limits, &means->world));
    DT_TRY(calibration_run(&request, place, means->device, means->world, &hooks, calibration));
    return send_result(rank, calibration);
}

static int run(int argc, char **argv)
{
    struct dt_world place;
    struct rank rank = {0};
    if (argc != 2) {
        fprintf(stderr, "dtbench calibrate-rank: only dtbench itself starts this; use 'dtbench calibrate'\n");
        return EXIT_CODE_USAGE;
    }
    signals_install();
    DT_FREED struct calibration *calibration = calloc(1, sizeof *calibration);
    if (!calibration || dt_world_from_environment(&place) < 0 || dt_launch_rank_connect(argv[1], place.rank, &rank.link) < 0)
        return report_failure("calibrate-rank", EXIT_CODE_OTHER);
    rank.number = place.rank;
    struct means means = {0};
    dt_status status = measure(&rank, &place, &means, calibration);
    if (status < 0) {
        dt_launch_rank_failed(rank.link, status, dt_error_message());
        dt_launch_rank_finish(rank.link);
        fflush(NULL);
        _exit(EXIT_CODE_FAILED); /* a lost process ends the waits of the other ranks */
    }
    dt_comm_destroy(means.world);
    dt_device_destroy(means.device);
    dt_launch_rank_finish(rank.link);
    fflush(NULL);
    dt_comm_library_finish();
    return EXIT_CODE_OK;
}

const struct command command_calibrate_rank = {
    .name = "calibrate-rank",
    .summary = "one rank of a calibration; started by dtbench itself",
    .run = run,
    .hidden = true,
};
