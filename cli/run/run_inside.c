#include "cli/run/run_inside.h"

#include "cli/run/execute.h"
#include "cli/run/signals.h"
#include "lib/rendezvous/rendezvous.h"
#include "schedules/run/device_choice.h"

#include <stdlib.h>
#include <string.h>

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

static dt_status train(const struct experiment *experiment, const struct dt_world *place, const struct measure_hooks *hooks,
                       struct execution *execution, struct report *report)
{
    DT_TRY(execution_open(experiment, place, report, execution));
    return measure_run(experiment, execution->device, execution->world, hooks, &report->result);
}

/* Is this rank the first to know? What fails because of the others they know themselves. */
static bool began_here(dt_status status)
{
    return status != DT_ERR_COMM && status != DT_ERR_TIMEOUT;
}

bool run_inside(const struct experiment *experiment, const struct dt_world *place, const char *trace, struct progress *progress,
                struct draft *draft, struct report *report)
{
    struct run run = {progress, draft};
    struct execution execution = {0};
    const struct measure_hooks hooks = {&run, NULL, show_step, stop_requested, trace};
    progress_phase(progress, "starting");
    dt_status status = train(experiment, place, &hooks, &execution, report);
    report_end(report, status, dt_error_message());
    if (status == DT_ERR_TIMEOUT && execution.world) /* no supervisor asks for it */
        dt_comm_dump(execution.world, stderr);
    /* The others may be gone: closing the communicator would wait for ever. This process ends soon, and the launcher ends the others. */
    if (!execution_ended_together(status, report)) {
        if (execution.world && began_here(status))
            dt_comm_give_up(execution.world, status, report->error);
        return false;
    }
    execution_close(&execution);
    return true;
}

/* Ranks that need no MPI exchange this without opening their GPUs: they do that where there is work for them, and once it is known that
 * each has its own. */
static dt_status gather_over_tcp(const struct dt_world *place, double timeout_s, const void *mine, size_t bytes, void *all)
{
    char address[DT_ADDRESS_BYTES];
    struct dt_rendezvous *rendezvous;
    struct dt_secret secret;
    struct dt_rendezvous_place where = {.address = address,
                                        .local = place->local_size == place->size,
                                        .rank = place->rank,
                                        .size = place->size,
                                        .secret = &secret,
                                        .timeout_s = timeout_s};
    DT_TRY(dt_world_meeting_point(place, address, &where.port));
    DT_TRY(dt_secret_of_job(place, &secret));
    int *ranks = calloc((size_t)place->size, sizeof *ranks);
    if (!ranks)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d ranks", place->size);
    for (int i = 0; i < place->size; i++)
        ranks[i] = i;
    struct dt_rendezvous_group world = {.ranks = ranks, .size = place->size, .rank = place->rank};
    dt_status status = dt_rendezvous_create(&where, &rendezvous);
    if (status == DT_OK) {
        status = dt_rendezvous_all_gather(rendezvous, &world, "the ranks' rendezvous", mine, bytes, all, timeout_s);
        dt_rendezvous_destroy(rendezvous, status == DT_OK);
    }
    free(ranks);
    return status;
}

static dt_status gather_over_mpi(const struct experiment *experiment, const struct dt_world *place, const void *mine, size_t bytes,
                                 void *all, struct report *report)
{
    struct execution execution;
    DT_TRY(execution_open(experiment, place, report, &execution));
    DT_TRY(dt_host_all_gather(execution.world, mine, bytes, all)); /* the ranks have lost each other: nothing can be closed */
    execution_close(&execution);
    return DT_OK;
}

dt_status run_inside_gather(const struct experiment *experiment, const struct dt_world *place, double patience_s, const void *mine,
                            size_t bytes, void *all)
{
    struct experiment quick = *experiment;
    struct report report;
    const char *kind;
    quick.timeout.init_s = quick.timeout.step_s = patience_s;
    DT_TRY(device_choose(experiment, &kind));
    if (strcmp(dt_comm_backend_for(kind, place->size), "nccl") == 0)
        return gather_over_tcp(place, patience_s, mine, bytes, all);
    report_init(&report);
    dt_status status = gather_over_mpi(&quick, place, mine, bytes, all, &report);
    report_finish(&report);
    return status;
}

dt_status run_inside_agree(const struct experiment *experiment, const struct dt_world *place, double patience_s, int *number)
{
    int *all = calloc((size_t)place->size, sizeof *all);
    if (!all)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for %d ranks", place->size);
    dt_status status = run_inside_gather(experiment, place, patience_s, number, sizeof *number, all);
    for (int i = 0; status == DT_OK && i < place->size; i++)
        *number = all[i] > *number ? all[i] : *number;
    free(all);
    return status;
}
