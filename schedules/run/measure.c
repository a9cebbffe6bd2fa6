#include "schedules/run/measure.h"
#include "lib/base/clock.h"
#include "lib/base/grow.h"
#include "lib/base/text.h"
#include "lib/device/range.h"
#include "schedules/run/memory_fit.h"
#include "schedules/run/ranks.h"
#include "schedules/run/run_checkpoints.h"
#include "schedules/run/step_trace.h"
#include "schedules/run/trainer.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* ---- steps ---- */

/* What the ranks exchange after each step, as doubles for dt_comm_reduce_numbers. It decides
 * whether and how they go on. */
struct step_report {
    double own_s;
    double loss, has_loss; /* 0 on ranks without the last stage */
    double stop;
    double overflows;
    double data_s;
};

/* What each rank records of a timed step. Ranks exchange it after the last step, and only for the
 * middle steps. */
struct kept_step {
    struct step_times times;
    struct step_traffic traffic;
    struct step_messages sent, received; /* of a pipeline */
};
enum {
    REPORT_NUMBERS = sizeof(struct step_report) / sizeof(double),
    METRIC_NUMBERS = sizeof(struct dt_step_metrics) / sizeof(double),
    MIDDLE = 2
};

struct run {
    const struct experiment *experiment;
    struct dt_comm *world;
    const struct measure_hooks *hooks;
    struct trainer *trainer;
    struct measure_result *result;
    struct run_checkpoints checkpoints;
    struct kept_step *kept; /* [timed] */
    struct dt_device_condition before;
    struct rank_processors processors;
    double begun_s;
    bool on_processors; /* the numbers below are set: timed steps have begun */
    bool stop;
};

static dt_status keep_step(struct run *r, double own_s, struct kept_step *out)
{
    out->times.own_s = own_s;
    out->times.data_s = trainer_result(r->trainer).data_s;
    trainer_traffic(r->trainer, &out->traffic);
    DT_TRY(timeline_collect(trainer_timeline(r->trainer), &out->times.timeline));
    if (trainer_messages_limit(r->trainer) == 0)
        return DT_OK;
    DT_TRY(trainer_messages(r->trainer, true, &out->sent));
    return trainer_messages(r->trainer, false, &out->received);
}

/* Append a number to list [count]. */
static dt_status keep(double **list, int count, double value)
{
    DT_TRY(dt_allocated(DT_ONE_MORE(*list, count), "no host memory for the numbers of %d steps", count + 1));
    (*list)[count] = value;
    return DT_OK;
}

/* Keep the norm of the step whose loss is added next; *skipped: its updates were left out. */
static dt_status keep_norm(struct run *r, bool *skipped)
{
    struct measure_result *result = r->result;
    struct trainer_result made = trainer_result(r->trainer);
    *skipped = made.has_norm && made.norm.skips;
    if (!made.has_norm)
        return DT_OK;
    DT_TRY(keep(&result->gradient_norms, result->losses_done, (double)made.norm.norm));
    return keep(&result->loss_scales, result->losses_done, (double)made.norm.used_scale);
}

/* Run one step on this rank. last: everything that it has begun must be complete afterwards. */
static dt_status make_step(struct run *r, int index, bool last, struct kept_step *kept, struct step_report *report)
{
    double start = dt_clock_s();
    dt_range_push("step", index + 1);
    DT_TRY(trainer_step(r->trainer, r->checkpoints.first_step + index));
    DT_TRY(last ? trainer_synchronize(r->trainer) : trainer_synchronize_step(r->trainer));
    dt_range_pop();
    double own_s = dt_clock_s() - start;
    struct trainer_result made = trainer_result(r->trainer);
    bool stop = r->hooks->stop_requested && r->hooks->stop_requested(r->hooks->context);
    *report = (struct step_report){own_s, made.loss, made.has_loss, stop, (double)made.overflows, made.data_s};
    return kept ? keep_step(r, report->own_s, kept) : DT_OK;
}

/* Exchange the numbers of a step. If the ranks do not run steps together, the step's time is the
 * median over ranks: the longest time of each step would not add up to the elapsed time. */
static dt_status share_step(struct run *r, int index, struct step_report *report)
{
    struct measure_result *result = r->result;
    bool skipped, late = trainer_updates_late(r->trainer);
    struct {
        struct step_report sums, highest;
    } all;
    report->overflows += (double)trainer_late_overflows(r->trainer, index);
    DT_TRY(dt_comm_reduce_numbers(r->world, (const double *)report, REPORT_NUMBERS, trainer_network(r->trainer), (double *)&all));
    double slowest = late ? all.sums.own_s / dt_comm_size(r->world) : all.highest.own_s, loss = all.sums.loss / all.sums.has_loss;
    r->stop |= all.highest.stop > 0;
    result->metrics.reading_s += all.highest.data_s;

    DT_TRY(keep_norm(r, &skipped));
    dt_metrics_add_step(&result->metrics, &(struct dt_step_metrics){.overflow_elements = all.sums.overflows,
                                                                    .overflow_steps = all.sums.overflows > 0,
                                                                    .skipped_steps = skipped});
    DT_TRY(measure_result_add_step(result, r->experiment, slowest, loss));
    if (r->hooks->step_done)
        r->hooks->step_done(r->hooks->context, index, slowest, loss);
    result->together = !isfinite(loss) && r->experiment->loss == LOSS_CROSS_ENTROPY; /* the loss is the same on all ranks */
    if (result->together)
        return dt_fail(DT_ERR_DEVICE, "the loss of step %d is not a finite number: with %s, try a smaller learning rate%s", index + 1,
                       dt_dtype_name(r->experiment->model.dtype), r->experiment->model.dtype == DT_FP16 ? " or another loss_scaling" : "");
    return DT_OK;
}

/* Sample numbers have 32 bits: a warm-up by time ends before they overflow
 * (schedules/config/check.c limits the steps of a config). */
static bool has_samples(const struct measure_result *result, const struct experiment *e)
{
    double steps = (double)result->losses_done + e->steps.timed + 1;
    return steps * (double)experiment_global_batch(e) < 0x1p32 && steps < INT_MAX;
}

/* Whether the next step is a timed one. The result is the same on all ranks, since they know the
 * same of earlier steps. */
static bool is_warm(const struct measure_result *result, const struct experiment *e)
{
    return result->losses_done - result->steps_done >= e->steps.warmup &&
           (result->warmup_s >= e->steps.warmup_s || !has_samples(result, e));
}

/* Number of steps between two exchanges: one; with late updates as many as are remembered, but not
 * across the end of the warm-up. */
static int steps_at_once(const struct run *r, bool timed)
{
    const struct measure_result *result = r->result;
    int left = timed ? r->experiment->steps.timed - result->steps_done : r->experiment->steps.warmup - result->losses_done;
    if (!trainer_updates_late(r->trainer) || left < 1)
        return 1;
    return left < DP_LATE_STEPS ? left : DP_LATE_STEPS;
}

static dt_status run_some_steps(struct run *r)
{
    struct measure_result *result = r->result;
    bool timed = is_warm(result, r->experiment);
    int count = steps_at_once(r, timed), first = result->losses_done;
    struct step_report reports[DP_LATE_STEPS];
    struct kept_step *kept = timed ? &r->kept[result->steps_done] : NULL;
    /* Work between steps, such as rank 0's output, must not become waiting time of the other ranks
     * in the step. */
    DT_TRY(dt_comm_start_together(r->world, trainer_network(r->trainer)));
    for (int i = 0; i < count; i++)
        DT_TRY(make_step(r, first + i, i + 1 == count, kept ? kept + i : NULL, &reports[i]));
    for (int i = 0; i < count; i++)
        DT_TRY(share_step(r, first + i, &reports[i]));
    return DT_OK;
}

/* ---- after the last step ---- */

/* Senders report when they had made the messages that this rank waited for. Every rank's list has
 * the maximal length. all, padded: [stages], [1] of such lists; ranks [stages]. */
static dt_status exchange_messages(struct run *r, struct kept_step *step, struct timeline_message *all, struct timeline_message *padded,
                                   int *ranks)
{
    struct step_messages sent[2] = {0};
    int from[2], stages = trainer_stages(r->trainer), limit = trainer_messages_limit(r->trainer);
    for (int i = 0; i < limit; i++)
        padded[i] = i < step->sent.count ? step->sent.all[i] : (struct timeline_message){.key = UINT64_MAX};
    trainer_pipeline(r->trainer, ranks);
    DT_TRY(dt_host_gather_among(r->world, ranks, stages, padded, (size_t)limit * sizeof *padded, all));
    trainer_neighbours(r->trainer, dt_comm_rank(r->world), from);
    for (int stage = 0; stage < stages; stage++)
        for (int i = 0; i < 2; i++)
            if (ranks[stage] == from[i])
                sent[i] = (struct step_messages){&all[(size_t)stage * (size_t)limit], limit};
    step->times.bubble_ns = step_bubble_ns(&step->received, sent, 2);
    return DT_OK;
}

static dt_status find_bubbles(struct run *r, const int middle[MIDDLE])
{
    size_t stages = (size_t)trainer_stages(r->trainer), limit = (size_t)trainer_messages_limit(r->trainer);
    if (limit == 0)
        return DT_OK;
    DT_FREED struct timeline_message *lists = calloc((stages + 1) * limit, sizeof *lists);
    DT_FREED int *ranks = calloc(stages, sizeof *ranks);
    DT_TRY(dt_allocated(lists && ranks, "no host memory for the messages of %zu ranks", stages));
    for (int i = 0; i < MIDDLE; i++)
        DT_TRY(exchange_messages(r, &r->kept[middle[i]], lists, lists + stages * limit, ranks));
    return DT_OK;
}

/* Find where the time of the middle steps went, over all ranks. Collective. */
static dt_status measure_middle(struct run *r)
{
    struct measure_result *result = r->result;
    int middle[MIDDLE];
    struct dt_step_metrics mine[MIDDLE], over_ranks[MIDDLE];
    struct {
        struct dt_step_metrics sums[MIDDLE], highest[MIDDLE];
    } all;
    DT_TRY(dt_metrics_middle(result->step_s, result->steps_done, middle));
    DT_TRY(find_bubbles(r, middle));
    for (int i = 0; i < MIDDLE; i++) {
        const struct kept_step *kept = &r->kept[middle[i]];
        dt_step_metrics_init(&mine[i]);
        step_traffic_measure(&kept->traffic, &mine[i]);
        double step_s = trainer_updates_late(r->trainer) ? kept->times.own_s : result->step_s[middle[i]];
        step_times_divide(&kept->times, step_s, trainer_end(r->trainer), &mine[i]);
    }
    DT_TRY(dt_host_reduce(r->world, (const double *)mine, MIDDLE * METRIC_NUMBERS, (double *)&all));
    for (int i = 0; i < MIDDLE; i++)
        dt_metrics_from_sums(&all.sums[i], &all.highest[i], dt_comm_size(r->world), &over_ranks[i]);
    dt_metrics_set_middle(&result->metrics, over_ranks);
    return DT_OK;
}

/* Gather every rank's memory on every rank. Also if the run was stopped early. */
static dt_status gather_memory(struct run *r, struct dt_device *device)
{
    struct dt_rank_memory mine = {0};
    struct rusage usage;
    dt_memory_usage(device, &mine.memory);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        mine.rss_peak_bytes = (uint64_t)usage.ru_maxrss * 1024;
    return dt_host_all_gather(r->world, &mine, sizeof mine, r->result->ranks);
}

/* All ranks have the same kind of device: only GPUs report conditions; processors are shared with
 * other work. */
static dt_status begin_conditions(struct run *r, struct dt_device *device)
{
    struct dt_device_info info;
    dt_device_info(device, &info);
    dt_device_condition(device, &r->before);
    r->on_processors = !info.kind->gpus && !info.kind->simulated;
    return r->on_processors ? rank_processors_begin(&r->processors, r->world, info.threads) : DT_OK;
}

/* Call it immediately after the last step, while clocks are those under load. */
static dt_status gather_conditions(struct run *r, struct dt_device *device)
{
    struct dt_device_info info;
    struct measure_result *result = r->result;
    dt_device_info(device, &info);
    if (r->on_processors)
        DT_TRY(rank_processors_end(&r->processors, r->world, result->doubts, sizeof result->doubts));
    doubts_of_steps(result->step_s, result->steps_done, result->doubts, sizeof result->doubts);
    if (!*info.uuid)
        return DT_OK;
    DT_TRY(rank_network_gather(r->world, &result->network));
    return rank_conditions_gather(r->world, device, &r->before, &result->conditions, result->doubts, sizeof result->doubts);
}

static bool allocate_result(struct run *r)
{
    const struct experiment *e = r->experiment;
    size_t timed = (size_t)e->steps.timed, size = (size_t)dt_comm_size(r->world);
    struct measure_result *result = r->result;

    *result = (struct measure_result){
        .step_s = calloc(timed + 1, sizeof(double)),
        .rank_count = (int)size,
        .ranks = calloc(size, sizeof *result->ranks),
    };
    dt_condition_init(&r->before);
    dt_metrics_init(&result->metrics);
    dt_metrics_begin_sums(&result->metrics);
    r->kept = calloc(timed + 1, sizeof *r->kept);
    return result->step_s && result->ranks && r->kept;
}

/* Everything before the first step: check the memory, and make a trainer on every rank. */
static dt_status set_up(struct run *r, struct experiment *placed, struct dt_device *device)
{
    int size = dt_comm_size(r->world);
    DT_TRY(dt_allocated(allocate_result(r), "no host memory for the results of %d steps", placed->steps.timed));
    if (size != placed->world_size)
        return dt_fail(DT_ERR_WORLD, "world_size is %d, but there are %d ranks", placed->world_size, size);
    if (placed->ranks_per_node == 0)
        DT_TRY(ranks_per_node_find(r->world, &placed->ranks_per_node, &placed->several_nodes));
    experiment_settle(placed);
    dt_status fits = memory_fit_agree(placed, device, r->world);
    r->result->together = fits == DT_ERR_OOM;
    DT_TRY(fits);
    DT_TRY(trainer_create(placed, device, r->world, NULL, &r->trainer));
    DT_TRY(trainer_synchronize(r->trainer));
    return run_checkpoints_begin(&r->checkpoints, placed, r->trainer, r->world, &r->result->metrics);
}

/* Keep the training time so far, for a run that fails later. */
static void take_training_time(const struct run *r)
{
    struct dt_metrics *m = &r->result->metrics;
    m->training_s = dt_clock_s() - r->begun_s;
    m->steps_s = m->training_s - m->startup_s - (isnan(m->save_s) ? 0 : m->save_s);
}

static dt_status run_steps(struct run *r, struct dt_device *device, struct step_trace *trace)
{
    struct measure_result *result = r->result;
    int timed = r->experiment->steps.timed;
    bool begun = false;
    result->metrics.reading_s = 0;
    while (result->steps_done < timed && !r->stop) {
        if (!begun && is_warm(result, r->experiment)) {
            begun = true;
            DT_TRY(begin_conditions(r, device));
        }
        DT_TRY(run_some_steps(r));
        DT_TRY(run_checkpoints_save(&r->checkpoints, result->losses_done, r->stop || result->steps_done == timed, &result->metrics));
        take_training_time(r);
    }
    DT_TRY(gather_conditions(r, device));
    DT_TRY(gather_memory(r, device));
    DT_TRY(trainer_tuning(r->trainer, &r->result->tuning));
    if (r->stop && result->steps_done < timed)
        return dt_fail(DT_ERR_INTERRUPTED, "stopped after step %d, timed step %d of %d", result->losses_done, result->steps_done, timed);
    return trace ? step_trace_run(trace, r->trainer, r->checkpoints.first_step + result->losses_done) : DT_OK;
}

/* The trace's file is opened before the first step, so that a path that cannot be written is
 * reported at once. */
static dt_status run_traced_steps(struct run *r, struct dt_device *device)
{
    struct step_trace *trace = NULL;
    if (r->hooks->trace.path)
        DT_TRY(step_trace_open(&r->hooks->trace, r->world, &trace));
    dt_status status = run_steps(r, device, trace);
    dt_status closed = step_trace_close(trace);
    return status < 0 ? status : closed;
}

dt_status measure_run(const struct experiment *experiment, struct dt_device *device, struct dt_comm *world,
                      const struct measure_hooks *hooks, struct measure_result *result)
{
    static const struct measure_hooks no_hooks = {0};
    struct experiment placed = *experiment;
    struct run r = {.experiment = &placed, .world = world, .hooks = hooks ? hooks : &no_hooks, .result = result};
    r.begun_s = dt_clock_s();

    dt_status status = set_up(&r, &placed, device);
    result->metrics.startup_s = dt_clock_s() - r.begun_s;
    if (status == DT_OK && r.hooks->ready)
        r.hooks->ready(r.hooks->context, result->metrics.startup_s);
    DT_THEN(status, run_traced_steps(&r, device));
    if (measure_ended_together(status, result) && result->steps_done > 0) {
        dt_status measured = measure_middle(&r);
        status = status < 0 ? status : measured;
    }

    result->first_step = r.checkpoints.first_step;
    run_checkpoints_end(&r.checkpoints);
    if (r.trainer) {
        snprintf(result->graph, sizeof result->graph, "%s", trainer_graph(r.trainer));
        snprintf(result->products, sizeof result->products, "%s", trainer_products(r.trainer));
        const char *doubt = trainer_trials(r.trainer, result->hopper, sizeof result->hopper);
        if (*doubt)
            dt_append(result->doubts, sizeof result->doubts, "; ", "%s", doubt);
    }
    if (measure_ended_together(status, result))
        trainer_destroy(r.trainer);
    for (int i = 0; i < result->steps_done; i++) {
        free(r.kept[i].sent.all);
        free(r.kept[i].received.all);
    }
    free(r.kept);
    return status;
}

bool measure_ended_together(dt_status status, const struct measure_result *result)
{
    bool agreed = (status == DT_ERR_OOM || status == DT_ERR_DEVICE) && result->together;
    return status == DT_OK || status == DT_ERR_INTERRUPTED || status == DT_ERR_INVALID || agreed;
}

dt_status measure_result_add_step(struct measure_result *result, const struct experiment *e, double seconds, double loss)
{
    bool timed = is_warm(result, e);
    DT_TRY(keep(&result->losses, result->losses_done, loss));
    result->losses_done++;
    if (timed)
        result->step_s[result->steps_done++] = seconds;
    else
        result->warmup_s += seconds;
    return DT_OK;
}

void measure_result_finish(struct measure_result *result)
{
    free(result->step_s);
    free(result->losses);
    free(result->gradient_norms);
    free(result->loss_scales);
    free(result->ranks);
    free(result->compute_s);
    free(result->conditions);
    *result = (struct measure_result){0};
}
