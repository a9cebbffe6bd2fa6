/* `dtbench calibrate-rank SOCKET`: what `dtbench calibrate` starts, once per rank. */
#include "cli/commands/commands.h"

#include "cli/run/signals.h"
#include "cli/text/exit_code.h"
#include "lib/launch/rank.h"
#include "schedules/predict/calibration.h"

#include <stdlib.h>
#include <unistd.h>

struct rank {
    struct dt_launch_rank *link;
    int number;
};

static dt_status tell_progress(void *context, int done, int total)
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
    char *text;
    if (rank->number != 0)
        return DT_OK;
    DT_TRY(calibration_write(calibration, &text));
    dt_status status = dt_launch_rank_result(rank->link, text);
    free(text);
    return status;
}

static dt_status measure(struct rank *rank, const struct dt_world *place, struct calibration *calibration)
{
    struct calibration_request request;
    struct dt_device *device = NULL;
    struct dt_comm *world = NULL;
    const struct calibration_hooks hooks = {rank, tell_progress};
    const struct dt_comm_options limits = {.step_timeout_s = 60, .init_timeout_s = 60};
    DT_TRY(calibration_request_read(dt_launch_rank_input(rank->link), &request));
    const struct dt_device_options options = {.threads = request.threads, .local_rank = place->local_rank, .local_size = place->local_size};
    dt_status status = dt_device_create("cpu", &options, &device);
    if (status == DT_OK)
        status = dt_comm_create(device, place, &limits, &world);
    if (status == DT_OK)
        status = calibration_run(&request, device, world, &hooks, calibration);
    if (status == DT_OK)
        status = send_result(rank, calibration);
    if (status < 0) {
        dt_launch_rank_failed(rank->link, status, dt_error_message());
        return status; /* the process ends, and with it what peers might still be waiting for */
    }
    dt_comm_destroy(world);
    dt_device_destroy(device);
    return DT_OK;
}

int cmd_calibrate_rank(int argc, char **argv)
{
    struct dt_world place;
    struct rank rank = {0};
    if (argc != 2) {
        fprintf(stderr, "dtbench calibrate-rank: for dtbench itself; use 'dtbench calibrate'\n");
        return EXIT_CODE_USAGE;
    }
    signals_install();
    struct calibration *calibration = calloc(1, sizeof *calibration);
    if (!calibration || dt_world_from_environment(&place) < 0 || dt_launch_rank_connect(argv[1], place.rank, &rank.link) < 0)
        return report_failure("calibrate-rank", EXIT_CODE_OTHER);
    rank.number = place.rank;
    dt_status status = measure(&rank, &place, calibration);
    dt_launch_rank_finish(rank.link);
    fflush(NULL);
    if (status < 0)
        _exit(EXIT_CODE_FAILED);
    free(calibration);
    dt_comm_library_finish();
    return EXIT_CODE_OK;
}
