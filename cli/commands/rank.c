/* `dtbench rank [TRACE] SOCKET`: what the supervisor starts, once per rank. The experiment comes over the socket, and everything goes back
 * there; TRACE is a file for the trace of one more step. */
#include "cli/commands/commands.h"

#include "cli/run/execute.h"
#include "cli/run/signals.h"
#include "cli/text/exit_code.h"
#include "lib/launch/rank.h"
#include "schedules/config/parse.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rank {
    struct dt_launch_rank *link;
    int number, steps;
    dt_status heard; /* whether the supervisor still takes messages */
};

static void tell_ready(void *context, double startup_s)
{
    struct rank *rank = context;
    rank->heard = dt_launch_rank_progress(rank->link, "ready");
}

/* Every rank says that it is alive; what there is to tell is the same on all of them and told by rank 0. */
static void tell_step(void *context, int step, double seconds, double loss)
{
    struct rank *rank = context;
    char text[96] = "";
    if (rank->number == 0)
        snprintf(text, sizeof text, "%d %.17g %.17g", rank->steps, seconds, loss);
    rank->steps++;
    rank->heard = dt_launch_rank_progress(rank->link, text);
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

static dt_status send_result(struct rank *rank, const struct report *report)
{
    char *text;
    if (rank->number != 0)
        return DT_OK;
    DT_TRY(report_write(report, &text));
    dt_status status = dt_launch_rank_result(rank->link, text);
    free(text);
    return status;
}

/* Run the experiment and tell how it ended, before anything is torn down that might wait for a rank that is gone. False: the ranks did not all
 * come to this end together, and cannot take leave of each other. */
static bool work(struct rank *rank, const struct dt_world *place, const char *trace)
{
    struct experiment *experiments;
    struct execution execution = {0};
    struct report report;
    struct measure_hooks hooks = {rank, tell_ready, tell_step, stop_requested, trace};
    const char *input = dt_launch_rank_input(rank->link);
    int count;
    dt_status status = experiments_parse(input, strlen(input), "experiment", NULL, 0, &experiments, &count);
    if (status < 0) {
        dt_launch_rank_failed(rank->link, status, dt_error_message());
        return true;
    }
    report_init(&report);
    status = execution_open(experiments, place, &report, &execution);
    if (status == DT_OK) {
        dt_launch_rank_on_dump(rank->link, dump_world, execution.world);
        status = measure_run(experiments, execution.device, execution.world, &hooks, &report.result);
        dt_launch_rank_on_dump(rank->link, NULL, NULL);
    }
    report_end(&report, status, dt_error_message());
    dt_status sent = send_result(rank, &report);
    if (status == DT_OK && sent < 0) {
        status = sent;
        report_end(&report, status, dt_error_message());
    }
    if (status < 0)
        dt_launch_rank_failed(rank->link, status, report.error);
    bool together = execution_ended_together(status, &report);
    if (together)
        execution_close(&execution);
    report_finish(&report);
    free(experiments);
    return together;
}

int cmd_rank(int argc, char **argv)
{
    struct dt_world place;
    struct rank rank = {0};
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "dtbench rank: for dtbench itself; use 'dtbench run'\n");
        return EXIT_CODE_USAGE;
    }
    signals_install();
    if (dt_world_from_environment(&place) < 0 || dt_launch_rank_connect(argv[argc - 1], place.rank, &rank.link) < 0)
        return report_failure("rank", EXIT_CODE_OTHER);
    rank.number = place.rank;
    bool together = work(&rank, &place, argc == 3 ? argv[1] : NULL);
    dt_launch_rank_finish(rank.link);
    fflush(NULL);
    if (!together)
        _exit(EXIT_CODE_FAILED); /* MPI would wait for ranks that may be gone */
    dt_comm_library_finish();
    return EXIT_CODE_OK; /* the message told the rest; mpirun would take another code for a crash */
}
