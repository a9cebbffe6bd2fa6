#include "cli/run/run.h"

#include "cli/text/text.h"
#include "lib/base/clock.h"
#include "lib/base/divisor.h"
#include "lib/base/statistics.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

const struct experiment *sweep_experiment(const struct sweep *s, int index)
{
    return &s->experiments->all[index % s->distinct];
}

static double units_per_step(const struct experiment *e)
{
    return (double)experiment_global_batch(e) * dt_model_units(&e->model);
}

static void begin(struct sweep *s, int index, const struct experiment *e, const char *suffix)
{
    char label[LABEL_BYTES]; /* the index of the experiment that `e` may be the reference of */
    experiment_label(sweep_experiment(s, index), &s->columns, label, sizeof label - strlen(suffix));
    strcat(label, suffix);
    progress_begin(&s->progress, index + 1, label, e->steps.warmup + e->steps.timed, units_per_step(e), e->model.family->unit);
}

/* Run the reference on one device and keep its report, unless it is kept already. Among a
 * launcher's ranks, rank 0 runs it and the others wait. */
static dt_status run_reference(struct sweep *s, int index, const struct experiment *reference)
{
    struct report report;
    if (verify_find(&s->references, reference))
        return DT_OK;
    report_init(&report);
    begin(s, index, reference, ", verifying");
    if (s->inside) {
        struct dt_world alone = {.size = 1, .local_size = 1, .launcher = "none"};
        run_inside(reference, &alone, &(struct run_inside_hooks){.progress = &s->progress}, &report);
    } else {
        run_launched(reference, (struct dt_trace_wish){0}, &s->progress, NULL, &report);
    }
    if (report.status == DT_ERR_INTERRUPTED) {
        report_finish(&report);
        return dt_fail(DT_ERR_INTERRUPTED, "stopped before the reference of --verify had run");
    }
    return verify_keep(&s->references, reference, &report);
}

/* If the losses differ, find out if rounding may explain that: *out is then the report of the
 * reference with slightly different weights. */
static dt_status run_shaken(struct sweep *s, int index, const struct experiment *e, const struct experiment *reference,
                            const struct report *report, const struct report **out)
{
    struct experiment shaken;
    if (!verify_needs_shaken(report, e, verify_find(&s->references, reference)))
        return DT_OK;
    DT_TRY(verify_shaken(reference, &shaken));
    DT_TRY(run_reference(s, index, &shaken));
    *out = verify_find(&s->references, &shaken);
    return DT_OK;
}

/* Compare the experiment's losses with those of one device, which runs the reference unless an
 * earlier experiment has the same one. */
static void run_verification(struct sweep *s, int index, const struct experiment *e, struct report *report)
{
    const struct report *shaken = NULL;
    struct experiment reference, same_steps = *e;
    if (e->steps.warmup_s > 0) {
        same_steps.steps.warmup = report->result.losses_done - e->steps.timed;
        same_steps.steps.warmup_s = 0;
    }
    if (verify_reference_of(&same_steps, &reference) < 0) {
        report->verification = "failed";
        report_end(report, DT_ERR_VERIFY, dt_error_message());
        return;
    }
    dt_status status = run_reference(s, index, &reference);
    DT_THEN(status, run_shaken(s, index, e, &reference, report, &shaken));
    if (status < 0) {
        report_end(report, status, dt_error_message());
        return;
    }
    verify_compare(report, e, verify_find(&s->references, &reference), shaken);
    if (report->status == DT_OK && report->verified_losses >= 0)
        progress_note(&s->progress,
                      "only the first %d of %d losses were compared: from then on rounding alone, as it grows here, may be above the bound",
                      report->verified_losses, report->result.losses_done);
}

double sweep_scaling_reference(const struct sweep *s, int index)
{
    int number = index % s->distinct, fewest = s->fewest_ranks ? s->fewest_ranks[number] : -1;
    const struct outcome *o = fewest >= 0 ? &s->outcomes[index - number + fewest] : NULL; /* of the same round */
    while (o && o->settled)                                                               /* its last round that ran */
        o -= s->distinct;
    if (!o || !o->run || o->status != DT_OK)
        return NAN;
    return o->metrics.units_per_s / sweep_experiment(s, fewest)->world_size;
}

static void write_record(struct sweep *s, int index, const struct experiment *e, const struct report *report)
{
    DT_FREED char *line = NULL;
    if (!s->records)
        return;
    if (report_record(report, e, &line) < 0 || dt_record_append(s->records, line) < 0) {
        s->output_failed = true;
        snprintf(s->output_error, sizeof s->output_error, "%s", dt_error_message());
    }
    if (line && results_add(s->results, line, &s->outcomes[index].row) < 0)
        s->outcomes[index].row = -1; /* the table at the end then lacks this row; the record is written all the same */
}

/* Print one line, unless a terminal's table of a single experiment follows at once. */
static void note_result(struct sweep *s, int index, const struct experiment *e)
{
    const struct outcome *o = &s->outcomes[index];
    char rate[FORMAT_BYTES], step[FORMAT_BYTES];
    if (s->progress.live && s->count == 1)
        return;
    if (o->status < 0)
        progress_note(&s->progress, "%d/%d %s: %s: %s", index + 1, s->count, s->progress.label, report_status_name(o->status), o->error);
    else if (experiment_is_simulated(e))
        progress_note(&s->progress, "%d/%d %s: ok, predicted %s %ss/s, step %s s", index + 1, s->count, s->progress.label,
                      format_number(o->metrics.units_per_s, rate), e->model.family->unit, format_number(o->metrics.step_s.median, step));
    else
        progress_note(&s->progress, "%d/%d %s: ok, %s %ss/s, step %s s, loss %.4f to %.4f", index + 1, s->count, s->progress.label,
                      format_number(o->metrics.units_per_s, rate), e->model.family->unit, format_number(o->metrics.step_s.median, step),
                      o->first_loss, o->last_loss);
}

/* Warn, because a decreasing loss would hide that updates were skipped and the scaling is wrong. */
static void note_overflows(struct sweep *s, int index, const struct experiment *e)
{
    const struct dt_step_metrics *m = &s->outcomes[index].metrics.step;
    char count[FORMAT_BYTES];
    if (m->overflow_steps > 0)
        progress_note(&s->progress,
                      "%d/%d %s: in %g of its steps some gradients were not finite, and %s parameters were left out of the updates; "
                      "loss_scaling is %g%s",
                      index + 1, s->count, s->progress.label, m->overflow_steps, format_count((uint64_t)m->overflow_elements, count),
                      e->loss_scaling, e->loss_scaling > 1 ? ", try a smaller one" : "");
}

/* The trace's FILE; for several experiments with the experiment's number before its extension. */
static struct dt_trace_wish trace_wish(const struct sweep *s, int index, char text[4096])
{
    const char *path = s->trace.path;
    if (!path || s->count == 1)
        return s->trace;
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    size_t stem = dot && (!slash || dot > slash) ? (size_t)(dot - path) : strlen(path);
    snprintf(text, 4096, "%.*s-%d%s", (int)stem, path, index + 1, path + stem);
    return (struct dt_trace_wish){text, s->trace.ranks};
}

/* Keep the values of a report that the table at the end needs. */
static void keep_outcome(struct sweep *s, int index, const struct experiment *e, const struct report *report)
{
    struct outcome *o = &s->outcomes[index];
    const struct measure_result *result = &report->result;
    o->run = true;
    o->status = report->status;
    memcpy(o->error, report->error, sizeof o->error);
    o->first_loss = result->losses_done > 0 ? result->losses[0] : NAN;
    o->last_loss = result->losses_done > 0 ? result->losses[result->losses_done - 1] : NAN;
    if (report_measure(report, e, &o->metrics) < 0)
        dt_metrics_init(&o->metrics);
}

/* The longest time that an experiment may take by its timeouts; 0: no limit. */
static double longest_run_s(const struct experiment *e)
{
    double steps = (double)e->steps.warmup + e->steps.timed;
    return e->timeout.init_s > 0 && e->timeout.step_s > 0 ? e->timeout.init_s + steps * e->timeout.step_s + e->steps.warmup_s : 0;
}

/* The running experiment. */
struct current {
    struct sweep *s;
    int index;
    const struct experiment *experiment;
    struct report report;
    struct draft draft;
};

static void begin_one(struct current *c)
{
    struct sweep *s = c->s;
    report_init(&c->report);
    sweep_identity_report(&s->identity, c->index % s->distinct, &c->report);
    c->report.slurm = &s->slurm;
    begin(s, c->index, c->experiment, "");
}

/* Write the report as a record. */
static void end_one(struct current *c)
{
    struct sweep *s = c->s;
    const struct experiment *e = c->experiment;
    begin(s, c->index, e, "");
    keep_outcome(s, c->index, e, &c->report);
    c->report.fewest_units_per_s = sweep_scaling_reference(s, c->index);
    write_record(s, c->index, e, &c->report);
    draft_end(&c->draft);
    note_result(s, c->index, e);
    note_overflows(s, c->index, e);
    /* Warn if steps that should have been replayed as a graph were not: they are slower than
     * necessary. */
    if (*c->report.result.graph && e->graph && strcmp(c->report.result.graph, "replayed") != 0)
        progress_note(&s->progress, "%d/%d %s: steps were not replayed as a graph: %s", c->index + 1, s->count, s->progress.label,
                      c->report.result.graph);
}

/* Runs in another thread than the one that hangs. */
static void end_with_hanging_rank(void *context)
{
    struct current *c = context;
    c->s->lost = true;
    end_one(c);
    c->s->end_lost(c->s);
}

static void run_on_ranks(struct current *c, struct dt_trace_wish trace)
{
    struct sweep *s = c->s;
    const struct run_inside_hooks hooks = {.trace = trace,
                                           .progress = &s->progress,
                                           .draft = &c->draft,
                                           .hangs = end_with_hanging_rank,
                                           .context = c,
                                           .execution = &s->execution,
                                           .another = s->progress.left > 1};
    s->lost = !run_inside(c->experiment, &s->world, &hooks, &c->report);
}

static void run_one(struct sweep *s, int index)
{
    const struct experiment *e = sweep_experiment(s, index);
    struct current current = {.s = s, .index = index, .experiment = e};
    struct report *report = &current.report;
    char path[4096];
    const struct dt_trace_wish trace = trace_wish(s, index, path);
    begin_one(&current);
    draft_begin(&current.draft, s->records ? s->output : NULL, e, report);
    if (!experiment_is_simulated(e) && s->inside)
        run_on_ranks(&current, trace);
    else if (!experiment_is_simulated(e))
        run_launched(e, trace, &s->progress, &current.draft, report);
    else if (s->world.rank == 0) /* among a launcher's ranks, rank 0 predicts for all, and the others do nothing */
        run_simulated(e, trace, &s->progress, report);

    bool verify = s->verify && report->status == DT_OK;
    if (verify && s->inside)
        execution_close(&s->execution); /* rank 0 runs the reference alone, on the same GPU */
    if (verify && s->world.rank == 0)
        run_verification(s, index, e, report);
    int stop = report->status == DT_ERR_INTERRUPTED;
    if (verify && s->inside) {
        s->lost = run_inside_agree(e, &s->world, longest_run_s(e), &stop) < 0;
        if (stop && report->status == DT_OK) /* the reference, which only rank 0 runs, was stopped */
            report_end(report, DT_ERR_INTERRUPTED, "stopped with rank 0");
    }
    end_one(&current);
    report_finish(report);
}

/* As run_inside_agree, using the world that the previous experiment has left open, if any. */
static dt_status agree(struct sweep *s, const struct experiment *next, int *number)
{
    double mine = *number, all[2];
    if (!s->execution.world)
        return run_inside_agree(next, &s->world, next->timeout.init_s, number);
    DT_TRY(dt_host_reduce(s->execution.world, &mine, 1, all));
    *number = (int)all[1];
    return DT_OK;
}

/* Is there time for the experiment? Rank 0 decides for all. */
static bool is_in_time(struct sweep *s, int index)
{
    char why[128], label[LABEL_BYTES];
    int late = 0;
    if (!s->limited)
        return true;
    const struct experiment *e = sweep_experiment(s, index);
    if (s->world.rank == 0 && !sweep_time_allows(&s->time, e, why, sizeof why)) {
        late = 1;
        experiment_label(e, &s->columns, label, sizeof label);
        progress_note(&s->progress, "%d/%d %s: left for later: %s", index + 1, s->count, label, why);
    }
    if (s->inside && s->world.size > 1)
        s->lost = agree(s, e, &late) < 0;
    s->outcomes[index].late = late;
    return !late;
}

double sweep_spread(const struct sweep *s, int number, int rounds)
{
    double steps_s[SWEEP_ROUNDS_MOST];
    struct dt_ratio ratio;
    int count = 0;
    for (int round = 0; round < rounds; round++) {
        const struct outcome *o = &s->outcomes[round * s->distinct + number];
        if (o->run && o->status == DT_OK)
            steps_s[count++] = o->metrics.step_s.median;
    }
    if (count < SWEEP_ROUNDS_LEAST || dt_ratio_compare(steps_s, count, steps_s, count, &ratio) < 0)
        return NAN;
    return 100 * fmax(ratio.high - 1, 1 - ratio.low);
}

/* Are the experiment's earlier rounds enough? Rank 0 decides for all, because it has the
 * metrics. */
static bool is_settled(struct sweep *s, int index)
{
    if (s->until <= 0)
        return false;
    int settled = s->world.rank == 0 && sweep_spread(s, index % s->distinct, index / s->distinct) <= s->until;
    if (s->inside && s->world.size > 1)
        s->lost = agree(s, sweep_experiment(s, index), &settled) < 0;
    s->outcomes[index].settled = settled;
    return settled;
}

/* A failure here does not end the run: only the forecasts become worse. */
static void learn(struct sweep *s, int index, double wall_s)
{
    const struct outcome *o = &s->outcomes[index];
    if (s->limited && s->world.rank == 0 && o->status == DT_OK)
        (void)forecaster_add(&s->time.forecaster, sweep_experiment(s, index), o->metrics.step_s.median, NAN, wall_s);
}

/* Possibly only some ranks got a signal, but all must give the same reason for their end. */
static void find_stop_signal(struct sweep *s, int index)
{
    const struct experiment *e = sweep_experiment(s, index);
    s->stop_signal = signals_first();
    if (s->inside && s->world.size > 1 && !s->lost)
        s->lost = agree(s, e, &s->stop_signal) < 0;
    if (s->stop_signal == 0)
        s->stop_signal = SIGTERM;
}

/* If losses depend on the size of micro-batches, each experiment has its own reference: with one
 * size that all can use, their losses would be those of one training run. */
static void note_what_all_can_hold(struct sweep *s)
{
    const char *key = NULL;
    int64_t common = 0;
    for (int i = 0; i < s->count; i++) {
        const struct experiment *e = sweep_experiment(s, i);
        int64_t samples = experiment_loss_samples(e);
        common = dt_common_divisor(samples, common);
        key = samples > 0 ? e->model.family->micro_batch_key : key;
    }
    if (key)
        progress_note(&s->progress,
                      "%s is 0: each experiment is verified in micro-batches of its own size; with %s %" PRId64
                      ", which all of them can hold, their losses are comparable",
                      key, key, common);
}

void sweep_run(struct sweep *s)
{
    int left = 0;
    if (s->verify && s->world.rank == 0)
        note_what_all_can_hold(s);
    for (int i = 0; i < s->count; i++)
        left += outcome_is_left(&s->outcomes[i]);
    for (int i = 0; i < s->count && !s->lost && !s->output_failed; i++) {
        const struct outcome *o = &s->outcomes[i];
        if (o->skipped || o->elsewhere)
            continue;
        left--;
        if (is_settled(s, i) || s->lost || !is_in_time(s, i) || s->lost)
            continue;
        double begun_s = dt_clock_s();
        progress_begin_one(&s->progress, left + 1);
        run_one(s, i);
        progress_end_one(&s->progress);
        learn(s, i, dt_clock_s() - begun_s);
        /* Inside, only facts on which all ranks agreed may end the loop: the others would wait for
         * a rank that stopped alone. */
        if (o->status == DT_ERR_INTERRUPTED || (!s->inside && signals_count() > 0)) {
            find_stop_signal(s, i);
            break;
        }
    }
    if (!s->lost && !s->output_failed) /* the other ranks continue, and notice when the process ends */
        execution_close(&s->execution);
    progress_clear(&s->progress);
}

void sweep_fail(struct sweep *s, dt_status status, const char *error)
{
    int first = 0;
    while (first < s->count && (s->outcomes[first].skipped || s->outcomes[first].elsewhere))
        first++;
    if (first == s->count)
        return;
    struct current current = {.s = s, .index = first, .experiment = sweep_experiment(s, first)};
    begin_one(&current);
    report_end(&current.report, status, error);
    snprintf(current.report.launcher, sizeof current.report.launcher, "%s", s->world.launcher);
    end_one(&current);
    report_finish(&current.report);
}

bool outcome_is_left(const struct outcome *o)
{
    return !o->run && !o->skipped && !o->elsewhere && !o->settled;
}

enum exit_code sweep_exit_code(const struct sweep *s)
{
    bool failed = s->lost, oom = false, wrong = false, interrupted = false, later = false;
    for (int i = 0; i < s->count; i++) {
        const struct outcome *o = &s->outcomes[i];
        dt_status status = o->run ? o->status : DT_OK;
        wrong |= status == DT_ERR_VERIFY;
        oom |= status == DT_ERR_OOM;
        interrupted |= status == DT_ERR_INTERRUPTED || (s->stop_signal && outcome_is_left(o));
        later |= o->late;
        failed |= status < 0 && status != DT_ERR_VERIFY && status != DT_ERR_OOM && status != DT_ERR_INTERRUPTED;
    }
    if (interrupted && s->stop_signal != SIGUSR1)
        return (enum exit_code)(EXIT_CODE_SIGNAL + s->stop_signal);
    if (s->output_failed)
        return EXIT_CODE_OUTPUT;
    if (interrupted || later)
        return EXIT_CODE_LATER;
    if (wrong)
        return EXIT_CODE_VERIFY;
    if (failed)
        return EXIT_CODE_FAILED;
    return oom ? EXIT_CODE_OOM : EXIT_CODE_OK;
}
