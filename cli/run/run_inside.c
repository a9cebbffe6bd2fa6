#include "cli/run/run.h"

#include "lib/base/clock.h"
#include "lib/base/machine.h"
#include "lib/rendezvous/rendezvous.h"
#include "schedules/config/parse.h"
#include "schedules/run/device_choice.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A signal handler has no context argument, so its results are global. */
static volatile sig_atomic_t signal_count, first_signal;

static bool hangs_up_unseen; /* SIGHUP is ignored */

void signals_begin(void)
{
    struct sigaction at_start;
    hangs_up_unseen = sigaction(SIGHUP, NULL, &at_start) == 0 && at_start.sa_handler == SIG_IGN;
}

/* A terminal that closes sends SIGHUP several times, by the system and by the shell; that is one request to stop. */
static void on_signal(int number)
{
    if (signal_count == 0)
        first_signal = number;
    if (signal_count == 0 || number != SIGHUP)
        signal_count++;
}

void signals_install(void)
{
    const struct sigaction counted = {.sa_handler = on_signal}; /* without SA_RESTART, so that waiting calls return */
    const struct sigaction ignored = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &counted, NULL);
    sigaction(SIGTERM, &counted, NULL);
    sigaction(SIGUSR1, &counted, NULL);
    sigaction(SIGHUP, hangs_up_unseen ? &ignored : &counted, NULL);
    sigaction(SIGPIPE, &ignored, NULL); /* if a reader is gone (`| head`), the write fails and is reported */
}

int signals_count(void)
{
    return signal_count;
}

bool signals_came(void *context)
{
    return signal_count > 0;
}

int signals_first(void)
{
    return first_signal;
}

enum exit_code signals_exit_code(dt_status status)
{
    switch (status) {
    case DT_ERR_INTERRUPTED: return EXIT_CODE_SIGNAL + signals_first();
    case DT_ERR_HOST_MEMORY: return EXIT_CODE_OTHER;
    case DT_ERR_OOM: return EXIT_CODE_OOM;
    case DT_ERR_UNAVAILABLE:
    case DT_ERR_INVALID: return EXIT_CODE_CONFIG;
    case DT_ERR_IO: return EXIT_CODE_OUTPUT;
    case DT_OK:
    case DT_ERR_COMM:
    case DT_ERR_TIMEOUT:
    case DT_ERR_DEVICE:
    case DT_ERR_VERIFY:
    case DT_ERR_WORLD: break;
    }
    return EXIT_CODE_FAILED;
}

/* ---- a rank's device and communicator ---- */

/* Everything that determines a device, a world and their libraries. */
static bool wants_the_same(const struct experiment *a, const struct experiment *b)
{
    return a->strategy.device == b->strategy.device && a->memory_limit_bytes == b->memory_limit_bytes && a->threads == b->threads &&
           a->share_gpus == b->share_gpus && a->host_memory_limit_bytes == b->host_memory_limit_bytes &&
           a->timeout.step_s == b->timeout.step_s && a->timeout.init_s == b->timeout.init_s && a->register_buffers == b->register_buffers &&
           a->early_launch == b->early_launch && a->warpgroup_kernels == b->warpgroup_kernels &&
           a->spared_multiprocessors == b->spared_multiprocessors && strcmp(a->nccl, b->nccl) == 0;
}

static dt_status create_execution(const struct experiment *e, const struct dt_world *place, struct execution *out)
{
    const struct dt_device_kind *kind;
    struct dt_device_options device = {.memory_limit_bytes = e->memory_limit_bytes,
                                       .threads = e->threads,
                                       .local_rank = place->local_rank,
                                       .local_size = place->local_size,
                                       .share = e->share_gpus,
                                       .host_memory_limit_bytes = e->host_memory_limit_bytes,
                                       .early_launch = e->early_launch,
                                       .warpgroup_kernels = e->warpgroup_kernels,
                                       .spared_multiprocessors = e->spared_multiprocessors};
    struct dt_comm_options comm = {.step_timeout_s = e->timeout.step_s,
                                   .init_timeout_s = e->timeout.init_s,
                                   .share_devices = e->share_gpus,
                                   .register_buffers = e->register_buffers};
    DT_TRY(device_choose(e, &kind));
    if (kind->gpus)
        DT_TRY(experiment_set_environment(e));
    out->made_for = *e;
    DT_TRY(dt_device_create(kind->name, &device, &out->device));
    return dt_comm_create(out->device, place, &comm, &out->world);
}

dt_status execution_open(const struct experiment *e, const struct dt_world *place, struct report *report, struct execution *out)
{
    struct dt_device_info info;
    if (out->world && !wants_the_same(e, &out->made_for))
        execution_close(out);
    if (!out->world)
        DT_TRY(create_execution(e, place, out));
    dt_memory_reset_peak(out->device);
    dt_device_info(out->device, &info);
    report->peak_flops = info.peak_flops[e->model.dtype];
    return report_describe(report, e->model.family, out->device, out->world, place);
}

void execution_close(struct execution *execution)
{
    dt_comm_destroy(execution->world);
    dt_device_destroy(execution->device);
    *execution = (struct execution){0};
}

/* ---- a limit on what a thread does in libraries ---- */

/* The mutex stays locked during `overdue`. */
static void *keep_watch(void *context)
{
    struct watch *watch = context;
    pthread_mutex_lock(&watch->mutex);
    while (!watch->ended) {
        struct timespec deadline = dt_clock_timespec(watch->deadline_ns);
        if (dt_deadline_passed(watch->deadline_ns))
            watch->overdue(watch->context);
        else if (watch->deadline_ns)
            pthread_cond_timedwait(&watch->changed, &watch->mutex, &deadline);
        else
            pthread_cond_wait(&watch->changed, &watch->mutex);
    }
    pthread_mutex_unlock(&watch->mutex);
    return NULL;
}

void watch_begin(struct watch *watch, void (*overdue)(void *context), void *context)
{
    pthread_condattr_t monotonic;
    *watch = (struct watch){.overdue = overdue, .context = context};
    pthread_mutex_init(&watch->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    watch->running = dt_thread_start(&watch->thread, keep_watch, watch) == 0;
}

void watch_limit(struct watch *watch, double seconds)
{
    if (!watch)
        return;
    pthread_mutex_lock(&watch->mutex);
    watch->deadline_ns = dt_deadline_ns(seconds);
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
}

void watch_end(struct watch *watch)
{
    pthread_mutex_lock(&watch->mutex);
    watch->ended = true;
    pthread_cond_signal(&watch->changed);
    pthread_mutex_unlock(&watch->mutex);
    if (watch->running)
        pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->changed);
    pthread_mutex_destroy(&watch->mutex);
}

/* ---- a launcher's ranks ---- */

/* Extra time of a rank beyond the communicator's own limits, because these report more details. It
 * is shorter than RANK_0_WRITES_S by the time that a busy machine needs to write a record. */
static const double grace_s = 2;

struct run {
    const struct experiment *experiment;
    const struct run_inside_hooks *hooks;
    struct execution *execution;
    struct report *report;
    struct watch *watch; /* NULL: no watch */
    int rank;
    bool started; /* steps have begun */
};

static double with_grace(double limit_s)
{
    return limit_s > 0 ? limit_s + grace_s : 0;
}

static void begin_steps(void *context, double startup_s)
{
    struct run *run = context;
    run->started = true;
    watch_limit(run->watch, with_grace(run->experiment->timeout.step_s));
}

static void show_step(void *context, int step, double seconds, double loss)
{
    const struct run *run = context;
    watch_limit(run->watch, with_grace(run->experiment->timeout.step_s));
    progress_step(run->hooks->progress, seconds, loss);
    draft_step(run->hooks->draft);
}

/* A kernel that hangs in its trial cannot be stopped. */
static const char *untried_advice(const struct run *run)
{
    const struct dt_device *device = run->execution->device;
    bool tries = device && dt_device_kind_of(device)->gpus && run->experiment->warpgroup_kernels == DT_WARPGROUPS_AUTO;
    return tries && !run->started ? "; with \"warpgroup_kernels\": false no kernel is tried before the first step" : "";
}

/* Runs in the watch's thread: the limit has passed, or a message to the other ranks cannot be
 * sent. */
static void end_hanging(void *context)
{
    struct run *run = context;
    const struct experiment *e = run->experiment;
    int done = run->report->result.losses_done, warmup = done - run->report->result.steps_done;
    int steps = (warmup > e->steps.warmup ? warmup : e->steps.warmup) + e->steps.timed;
    char error[320];
    alarm(3 * RANK_0_WRITES_S); /* the hanging thread may hold a lock that printing needs */
    if (run->report->status == DT_OK) {
        snprintf(error, sizeof error,
                 "rank %d: step %d of %d did not end within timeout.%s %g s: it hangs in a library; other ranks may be gone%s", run->rank,
                 done + 1, steps, run->started ? "step_s" : "init_s", run->started ? e->timeout.step_s : e->timeout.init_s,
                 untried_advice(run));
        report_end(run->report, DT_ERR_TIMEOUT, error);
        if (run->execution->world)
            dt_comm_dump(run->execution->world, stderr);
    }
    run->hooks->hangs(run->hooks->context);
}

static dt_status train(struct run *run, const struct dt_world *place)
{
    const struct measure_hooks hooks = {run, begin_steps, show_step, signals_came, run->hooks->trace};
    DT_TRY(execution_open(run->experiment, place, run->report, run->execution));
    return measure_run(run->experiment, run->execution->device, run->execution->world, &hooks, &run->report->result);
}

/* Rank 0 tells the others only about failures that began on it: if it lost others, it might hang in
 * the attempt and could not write its record. */
static bool is_told(dt_status status, const struct dt_world *place)
{
    return place->rank != 0 || (status != DT_ERR_COMM && status != DT_ERR_TIMEOUT);
}

/* False: the others may be gone, and closing the communicator could wait for ever. This process
 * ends soon, and the launcher ends the others. */
static bool run_watched(struct run *run, const struct dt_world *place)
{
    watch_limit(run->watch, with_grace(run->experiment->timeout.init_s));
    dt_status status = train(run, place);
    watch_limit(run->watch, grace_s);
    report_end(run->report, status, dt_error_message());
    if (measure_ended_together(status, &run->report->result)) {
        if (status < 0 || !run->hooks->another)
            execution_close(run->execution);
        return true;
    }
    if (status == DT_ERR_TIMEOUT && run->execution->world) /* no supervisor requests a dump */
        dt_comm_dump(run->execution->world, stderr);
    if (run->execution->world && is_told(status, place))
        dt_comm_give_up(run->execution->world, status, run->report->error);
    return false;
}

bool run_inside(const struct experiment *experiment, const struct dt_world *place, const struct run_inside_hooks *hooks,
                struct report *report)
{
    struct watch watch;
    struct execution own = {0};
    struct run run = {.experiment = experiment,
                      .hooks = hooks,
                      .execution = hooks->execution ? hooks->execution : &own,
                      .report = report,
                      .watch = hooks->hangs ? &watch : NULL,
                      .rank = place->rank};
    progress_phase(hooks->progress, "starting");
    if (run.watch)
        watch_begin(run.watch, end_hanging, &run);
    bool together = run_watched(&run, place);
    if (run.watch)
        watch_end(run.watch);
    return together;
}

/* Ranks that need no MPI exchange this without opening their GPUs: they open them when there is
 * work, and after it is known that each has its own. */
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
    DT_FREED int *ranks = calloc((size_t)place->size, sizeof *ranks);
    DT_TRY(dt_allocated(ranks, "no host memory for %d ranks", place->size));
    for (int i = 0; i < place->size; i++)
        ranks[i] = i;
    struct dt_rendezvous_group world = {.ranks = ranks, .size = place->size, .rank = place->rank};
    DT_TRY(dt_rendezvous_create(&where, &rendezvous));
    dt_status status = dt_rendezvous_all_gather(rendezvous, &world, "the ranks' rendezvous", mine, bytes, all, timeout_s);
    dt_rendezvous_destroy(rendezvous, status == DT_OK);
    return status;
}

static dt_status gather_over_mpi(const struct experiment *experiment, const struct dt_world *place, const void *mine, size_t bytes,
                                 void *all, struct report *report)
{
    struct execution execution = {0};
    DT_TRY(execution_open(experiment, place, report, &execution));
    DT_TRY(dt_host_all_gather(execution.world, mine, bytes, all)); /* the ranks have lost each other: nothing can be closed */
    execution_close(&execution);
    return DT_OK;
}

dt_status run_inside_gather(const struct experiment *experiment, const struct dt_world *place, double patience_s, const void *mine,
                            size_t bytes, void *all)
{
    struct experiment quick = *experiment;
    DT_ENDED(report_finish) struct report report = {0};
    const struct dt_device_kind *kind;
    quick.timeout.init_s = quick.timeout.step_s = patience_s;
    DT_TRY(device_choose(experiment, &kind));
    if (strcmp(dt_comm_backend_for(kind, place->size), "nccl") == 0)
        return gather_over_tcp(place, patience_s, mine, bytes, all);
    report_init(&report);
    return gather_over_mpi(&quick, place, mine, bytes, all, &report);
}

dt_status run_inside_agree(const struct experiment *experiment, const struct dt_world *place, double patience_s, int *number)
{
    DT_FREED int *all = calloc((size_t)place->size, sizeof *all);
    DT_TRY(dt_allocated(all, "no host memory for %d ranks", place->size));
    DT_TRY(run_inside_gather(experiment, place, patience_s, number, sizeof *number, all));
    for (int i = 0; i < place->size; i++)
        *number = all[i] > *number ? all[i] : *number;
    return DT_OK;
}
