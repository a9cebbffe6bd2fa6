#include "cli/plan/planner.h"

#include "cli/run/run.h"
#include "cli/text/text.h"
#include "lib/base/statistics.h"
#include "schedules/config/parse.h"

#include <math.h>
#include <stdlib.h>

/* Each candidate is run three times: fewer runs allow no verdict (lib/base/statistics.h). */
enum { ROUNDS_OF_ALL = 3 };

/* ---- choosing candidates ---- */

static const double APART = 0.02;

/* Choose up to `count` candidates in the plan's order: first those whose predictions differ enough,
 * then the others. Returns how many. */
static int choose_places(const struct planner *p, int count, struct measured_run runs[MEASURED_MOST])
{
    bool chosen[MEASURED_MOST] = {false}; /* only the plan's first candidates may fill up the number */
    int found = 0;
    for (int place = 0; place < p->result.ranked && found < count; place++) {
        if (found > 0 && why_margin(p, 0, place) < why_margin(p, 0, runs[found - 1].place) + APART)
            continue;
        runs[found++].place = place;
        if (place < MEASURED_MOST)
            chosen[place] = true;
    }
    for (int place = 0; place < p->result.ranked && place < MEASURED_MOST && found < count; place++)
        if (!chosen[place])
            runs[found++].place = place;
    return found;
}

/* ---- running ---- */

/* Make the candidate's experiment on this machine, without keys that only simulations have. */
static dt_status make_real(const struct planner *p, const char *device, int place, struct experiment *out)
{
    DT_TRY(planner_experiment(p, place, out));
    out->device = device;
    out->cluster = out->profile = "";
    out->slow.by = 0;
    return experiment_resolve(out, "dtbench plan");
}

static dt_status keep_record(const struct report *report, const struct experiment *e, struct dt_record_file *records)
{
    DT_FREED char *line = NULL;
    if (!records)
        return DT_OK;
    DT_TRY(report_record(report, e, &line));
    return dt_record_append(records, line);
}

/* Run a candidate once more. Interrupted runs, and runs that do not count, are dropped. */
static dt_status run_once(const struct experiment *e, struct progress *progress, struct dt_record_file *records, bool counts,
                          struct measured_run *out)
{
    DT_ENDED(report_finish) struct report report = {0};
    struct dt_metrics metrics;
    report_init(&report);
    run_launched(e, (struct dt_trace_wish){0}, progress, NULL, &report);
    progress_clear(progress);
    dt_status status = report_measure(&report, e, &metrics);
    if (status == DT_OK && counts)
        status = keep_record(&report, e, records);
    if (counts && report.status != DT_ERR_INTERRUPTED) {
        out->status = report.status;
        snprintf(out->error, sizeof out->error, "%.255s", report.error);
    }
    if (counts && report.status == DT_OK)
        out->steps_s[out->done++] = metrics.step_s.median;
    return status;
}

/* ---- judging ---- */

static dt_status find_fastest(const struct planner *p, struct measured *m)
{
    m->won = -1;
    for (int i = 0; i < m->count; i++) {
        struct measured_run *run = &m->runs[i];
        const struct search_outcome *predicted = planner_outcome(p, run->place);
        if (run->status != DT_OK) {
            run->step_s = run->units_per_s = run->error_of_step = NAN;
            continue;
        }
        DT_TRY(dt_statistics_quantile(run->steps_s, run->done, 0.5, &run->step_s));
        run->error_of_step = predicted->step_s / run->step_s - 1;
        run->units_per_s = predicted->units_per_s * predicted->step_s / run->step_s;
        if (m->won < 0 || run->units_per_s > m->runs[m->won].units_per_s)
            m->won = i;
    }
    return DT_OK;
}

/* Batches may differ, so the ratio of step times is scaled to one of throughputs. */
static dt_status compare_with(const struct measured_run *fastest, struct measured_run *run)
{
    double tokens = run->units_per_s * run->step_s / (fastest->units_per_s * fastest->step_s);
    DT_TRY(dt_ratio_compare(fastest->steps_s, fastest->done, run->steps_s, run->done, &run->of_fastest));
    run->of_fastest.ratio *= tokens;
    run->of_fastest.low *= tokens;
    run->of_fastest.high *= tokens;
    run->wins = run == fastest || !(run->of_fastest.high < 1);
    return DT_OK;
}

/* Judge by all runs so far. */
static dt_status judge(const struct planner *p, struct measured *m)
{
    DT_TRY(find_fastest(p, m));
    for (int i = 0; i < m->count; i++) {
        m->runs[i].wins = false;
        if (m->runs[i].status == DT_OK)
            DT_TRY(compare_with(&m->runs[m->won], &m->runs[i]));
    }
    return DT_OK;
}

static int count_winners(const struct measured *m)
{
    int winners = 0;
    for (int i = 0; i < m->count; i++)
        winners += m->runs[i].wins;
    return winners;
}

/* ---- rounds ---- */

struct campaign {
    const struct planner *planner;
    const char *device;
    struct dt_record_file *records;
    struct progress progress;
    struct experiment experiment;
    int runs; /* runs so far */
};

static dt_status run_candidate(struct campaign *c, bool counts, struct measured_run *run)
{
    struct experiment *e = &c->experiment;
    char strategy[STRATEGY_BYTES];
    DT_TRY(make_real(c->planner, c->device, run->place, e));
    strategy_describe(e, strategy);
    progress_begin(&c->progress, ++c->runs, strategy, e->steps.warmup + e->steps.timed,
                   (double)experiment_global_batch(e) * dt_model_units(&e->model), e->model.family->unit);
    return run_once(e, &c->progress, c->records, counts, run);
}

/* Run each candidate that may still win: in order in even rounds, in reverse order in odd ones. */
static dt_status run_round(struct campaign *c, int round, struct measured *m)
{
    for (int k = 0; k < m->count && signals_count() == 0; k++) {
        struct measured_run *run = &m->runs[round % 2 == 0 ? k : m->count - 1 - k];
        bool fails = run->status != DT_OK && run->status != DT_ERR_INTERRUPTED;
        if (!fails && (round < ROUNDS_OF_ALL || run->wins))
            DT_TRY(run_candidate(c, true, run));
    }
    return DT_OK;
}

/* Run all rounds. The first run on an idle machine is slow, so the first candidate is run once
 * without counting. */
static dt_status run_all(struct campaign *c, int rounds, struct measured *m)
{
    DT_TRY(run_candidate(c, false, &m->runs[0]));
    for (int round = 0; round < rounds && signals_count() == 0; round++) {
        DT_TRY(run_round(c, round, m));
        DT_TRY(judge(c->planner, m));
        if (round + 1 >= ROUNDS_OF_ALL && count_winners(m) < 2)
            return DT_OK;
    }
    return DT_OK;
}

dt_status measured_run(const struct planner *p, const char *device, int count, int rounds, bool quiet, struct dt_record_file *records,
                       struct measured *out)
{
    DT_FREED struct campaign *c = calloc(1, sizeof *c);
    DT_TRY(dt_allocated(c, "no host memory for an experiment"));
    *c = (struct campaign){.planner = p, .device = device, .records = records};
    *out = (struct measured){.device = device, .won = -1};
    out->count = choose_places(p, count, out->runs);
    for (int i = 0; i < out->count; i++)
        out->runs[i] = (struct measured_run){.status = DT_ERR_INTERRUPTED,
                                             .error = "not run",
                                             .place = out->runs[i].place,
                                             .step_s = NAN,
                                             .units_per_s = NAN,
                                             .error_of_step = NAN,
                                             .of_fastest = {NAN, NAN, NAN, 1}};
    progress_init(&c->progress, rounds * out->count + 1, quiet);
    return run_all(c, rounds, out);
}

/* ---- printing ---- */

/* "won", "3.1 % slower (2.0 to 4.2)", or why it failed. */
static void verdict_cell(struct table *t, const struct measured *m, int i)
{
    const struct measured_run *run = &m->runs[i];
    const struct dt_ratio *r = &run->of_fastest;
    if (run->status != DT_OK)
        table_cell(t, "%s", run->error);
    else if (i == m->won)
        table_cell(t, "%s", count_winners(m) == 1 ? "won" : "the fastest");
    else if (isnan(r->low))
        table_cell(t, "%.1f %% slower", 100 * (1 - r->ratio));
    else
        table_cell(t, "%.1f %% slower (%.1f to %.1f)", 100 * (1 - r->ratio), 100 * (1 - r->high), 100 * (1 - r->low));
}

static void say_winner(const struct measured *m, FILE *to)
{
    const char *before = "";
    if (m->won < 0) {
        fprintf(to, "no candidate could be measured\n");
        return;
    }
    struct line line;
    line_begin(&line, to);
    line_add(&line, "number %d ", m->runs[m->won].place + 1);
    if (count_winners(m) == 1) {
        line_add(&line, "won%s", m->won == 0 ? ", as predicted" : "");
        line_end(&line);
        return;
    }
    line_add(&line, "was the fastest, but cannot be distinguished from");
    for (int i = 0; i < m->count; i++)
        if (i != m->won && m->runs[i].wins) {
            line_add(&line, "%s number %d", before, m->runs[i].place + 1);
            before = ",";
        }
    line_add(&line, " by these runs");
    line_end(&line);
}

dt_status measured_print(const struct planner *p, const struct measured *m, FILE *to)
{
    char strategy[STRATEGY_BYTES];
    struct table *t = table_create();
    fprintf(to, "\nmeasured on device %s\n\n", m->device);
    table_column(t, TABLE_RIGHT, "");
    table_column(t, TABLE_LEFT, "strategy");
    table_columns(t, TABLE_RIGHT | TABLE_STAYS, "predicted\nstep, s", "measured\nstep, s", "off by\n%");
    table_column(t, TABLE_RIGHT | TABLE_STAYS, "measured\n%ss/s", p->base.model.family->unit);
    table_column(t, TABLE_RIGHT, "runs");
    table_column(t, TABLE_LEFT, "");
    for (int i = 0; i < m->count; i++) {
        const struct measured_run *run = &m->runs[i];
        bool known = run->status == DT_OK;
        struct experiment e = planner_candidate(p, run->place);
        strategy_describe(&e, strategy);
        table_cell(t, "%d", run->place + 1);
        table_cell(t, "%s", strategy);
        table_number(t, planner_outcome(p, run->place)->step_s);
        table_number(t, known ? run->step_s : NAN);
        table_cell(t, known ? "%+.1f" : "-", 100 * run->error_of_step);
        table_number(t, known ? run->units_per_s : NAN);
        table_cell(t, known ? "%d" : "-", run->done);
        verdict_cell(t, m, i);
    }
    DT_TRY(table_end(t, to));
    fprintf(to, "\n");
    say_winner(m, to);
    return DT_OK;
}
