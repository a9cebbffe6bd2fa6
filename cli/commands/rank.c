/* `dtbench rank [TRACE [RANKS]] SOCKET`: what the supervisor starts, once per rank. It reads the
 * experiment from the socket, and sends progress, result and failures over it. TRACE is a file for
 * the trace of one additional step, and RANKS which ranks are in it. */
#include "cli/commands/commands.h"

#include "cli/run/run.h"
#include "cli/text/text.h"
#include "lib/launch/launch.h"
#include "schedules/config/parse.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rank {
    struct dt_launch_rank *link;
    int number, steps;
};

static void send_ready(void *context, double startup_s)
{
    struct rank *rank = context;
    (void)dt_launch_rank_progress(rank->link, "ready");
}

/* Show the supervisor that this rank is alive. Values are equal on all ranks, so only rank 0 sends
 * them. */
static void send_step(void *context, int step, double seconds, double loss)
{
    struct rank *rank = context;
    char text[96] = "";
    if (rank->number == 0)
        snprintf(text, sizeof text, "%d %.17g %.17g", rank->steps, seconds, loss);
    rank->steps++;
    (void)dt_launch_rank_progress(rank->link, text);
}

static bool stop_requested(void *context)
{
    const struct rank *rank = context;
    return dt_launch_rank_stop_requested(rank->link) || signals_count() > 0;
}

static void dump_world(void *context)
{
    dt_comm_dump(context, stderr);
    fflush(stderr);
}

static dt_status send_record(struct rank *rank, const struct report *report, const struct experiment *experiment)
{
    DT_FREED char *line = NULL;
    if (rank->number != 0)
        return DT_OK;
    DT_TRY(report_record(report, experiment, &line));
    return dt_launch_rank_result(rank->link, line);
}

static dt_status train(struct rank *rank, const struct experiment *experiment, const struct dt_world *place, struct dt_trace_wish trace,
                       struct execution *execution, struct report *report)
{
    const struct measure_hooks hooks = {rank, send_ready, send_step, stop_requested, trace};
    DT_TRY(execution_open(experiment, place, report, execution));
    dt_launch_rank_on_dump(rank->link, dump_world, execution->world);
    dt_status status = measure_run(experiment, execution->device, execution->world, &hooks, &report->result);
    dt_launch_rank_on_dump(rank->link, NULL, NULL);
    return status;
}

/* Run the experiment and report how it ended, before anything is destroyed that might wait for a
 * rank that is gone. Returns false where some rank has not reached the end: communicators then
 * cannot be closed together. */
static bool work(struct rank *rank, const struct dt_world *place, struct dt_trace_wish trace)
{
    DT_FREED struct experiment *experiments = NULL;
    struct execution execution = {0};
    DT_ENDED(report_finish) struct report report = {0};
    const char *input = dt_launch_rank_input(rank->link);
    int count;
    dt_status status = experiments_parse(input, strlen(input), "experiment", NULL, 0, &experiments, &count);
    if (status < 0) {
        dt_launch_rank_failed(rank->link, status, dt_error_message());
        return true;
    }
    report_init(&report);
    status = train(rank, experiments, place, trace, &execution, &report);
    report_end(&report, status, dt_error_message());
    dt_status sent = send_record(rank, &report, experiments);
    if (status == DT_OK && sent < 0) {
        status = sent;
        report_end(&report, status, dt_error_message());
    }
    if (status < 0)
        dt_launch_rank_failed(rank->link, status, report.error);
    bool together = measure_ended_together(status, &report.result);
    if (together)
        execution_close(&execution);
    return together;
}

static int run(int argc, char **argv)
{
    struct dt_world place;
    struct rank rank = {0};
    if (argc < 2 || argc > 4) {
        fprintf(stderr, "dtbench rank: only dtbench itself starts this; use 'dtbench run'\n");
        return EXIT_CODE_USAGE;
    }
    signals_install();
    if (dt_world_from_environment(&place) < 0 || dt_launch_rank_connect(argv[argc - 1], place.rank, &rank.link) < 0)
        return report_failure("rank", EXIT_CODE_OTHER);
    rank.number = place.rank;
    struct dt_trace_wish trace = {argc > 2 ? argv[1] : NULL, argc > 3 ? argv[2] : NULL};
    bool together = work(&rank, &place, trace);
    dt_launch_rank_finish(rank.link);
    fflush(NULL);
    if (!together)
        _exit(EXIT_CODE_FAILED); /* MPI would wait for ranks that may be gone */
    dt_comm_library_finish();
    return EXIT_CODE_OK; /* the message says how the run ended; mpirun would take another code for a crash */
}

const struct command command_rank = {
    .name = "rank",
    .summary = "one rank of an experiment; started by dtbench itself",
    .run = run,
    .hidden = true,
};
