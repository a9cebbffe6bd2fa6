#include "cli/plan/measured.h"

#include "cli/plan/strategy.h"
#include "cli/plan/why.h"
#include "cli/run/run_launched.h"
#include "cli/run/signals.h"
#include "cli/text/format.h"
#include "cli/text/table.h"
#include "schedules/config/parse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- which ---- */

static const double APART = 0.02;

/* In the plan's order: those that are apart first, then what was left out, until there are `count`. Returns how many there are. */
static int choose_places(const struct planner *p, int count, struct measured_run runs[MEASURED_MOST])
{
    bool chosen[MEASURED_MOST] = {false}; /* of the first ones; behind these nothing is taken only to have more */
    int found = 0;
    for (int place = 0; place < p->result.ranked && found < count; place++) {
        if (found > 0 && why_margin(p, place) < why_margin(p, runs[found - 1].place) + APART)
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

/* The candidate as it runs on this machine: what a simulation alone takes is no part of it. */
static dt_status make_real(const struct planner *p, const char *device, int place, struct experiment *out)
{
    DT_TRY(planner_experiment(p, place, out));
    snprintf(out->device, sizeof out->device, "%s", device);
    *out->cluster = *out->profile = '\0';
    return experiment_resolve(out, NULL, "dtbench plan");
}

static dt_status keep_record(const struct report *report, const struct experiment *e, struct dt_record_file *records)
{
    char *line;
    if (!records)
        return DT_OK;
    DT_TRY(report_record(report, e, &line));
    dt_status status = dt_record_append(records, line);
    free(line);
    return status;
}

static dt_status run_one(const struct experiment *e, double predicted_s, struct progress *progress, struct dt_record_file *records,
                         struct measured_run *out)
{
    struct report report;
    struct dt_metrics metrics;
    *out = (struct measured_run){.step_s = NAN, .tokens_per_s = NAN, .error_of_step = NAN, .spread = NAN};
    report_init(&report);
    run_launched(e, NULL, progress, NULL, &report);
    progress_clear(progress);
    out->status = report.status;
    snprintf(out->error, sizeof out->error, "%.255s", report.error);
    dt_status status = report_measure(&report, e, &metrics);
    if (status == DT_OK)
        status = keep_record(&report, e, records);
    report_finish(&report);
    DT_TRY(status);
    if (out->status < 0)
        return DT_OK;
    out->step_s = metrics.step_s.median;
    out->tokens_per_s = metrics.tokens_per_s;
    out->error_of_step = predicted_s / out->step_s - 1;
    return DT_OK;
}

/* What a second run of the same says as well; one that was interrupted says nothing. */
static void take_mean(struct measured_run *of, const struct measured_run *again, double predicted_s)
{
    if (of->status != DT_OK || again->status == DT_ERR_INTERRUPTED)
        return;
    if (again->status != DT_OK) {
        *of = *again;
        return;
    }
    double difference = fabs(of->step_s - again->step_s);
    of->step_s = (of->step_s + again->step_s) / 2;
    of->spread = difference / of->step_s;
    of->tokens_per_s = 2 / (1 / of->tokens_per_s + 1 / again->tokens_per_s);
    of->error_of_step = predicted_s / of->step_s - 1;
}

/* What run number `run` measures: the first one once for nothing, since whatever runs first on an idle machine is slow; then all of
 * them there and back, so that a machine that becomes slower favours none. */
static int index_of(int run, int count)
{
    return run == 0 ? 0 : run <= count ? run - 1 : 2 * count - run;
}

static dt_status run_all(const struct planner *p, const char *device, bool quiet, struct dt_record_file *records, struct experiment *e,
                         struct measured *out)
{
    struct progress progress;
    char strategy[STRATEGY_BYTES];
    progress_init(&progress, 2 * out->count + 1, quiet);
    for (int run = 0; run <= 2 * out->count && signals_count() == 0; run++) {
        int index = index_of(run, out->count), place = out->runs[index].place;
        double predicted_s = planner_outcome(p, place)->step_s;
        struct measured_run once;
        DT_TRY(make_real(p, device, place, e));
        strategy_describe(e, strategy);
        progress_begin(&progress, run + 1, strategy, e->steps.warmup + e->steps.timed,
                       (double)experiment_global_batch(e) * e->model.block_size);
        DT_TRY(run_one(e, predicted_s, &progress, run == 0 ? NULL : records, &once));
        once.place = place;
        if (run > out->count)
            take_mean(&out->runs[index], &once, predicted_s);
        else if (run > 0)
            out->runs[index] = once;
    }
    return DT_OK;
}

static int fastest(const struct measured *m)
{
    int won = -1;
    for (int i = 0; i < m->count; i++)
        if (m->runs[i].status == DT_OK && (won < 0 || m->runs[i].tokens_per_s > m->runs[won].tokens_per_s))
            won = i;
    return won;
}

dt_status measured_run(const struct planner *p, const char *device, int count, bool quiet, struct dt_record_file *records,
                       struct measured *out)
{
    struct experiment *e = malloc(sizeof *e);
    if (!e)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for an experiment");
    *out = (struct measured){.device = device, .won = -1};
    out->count = choose_places(p, count, out->runs);
    for (int i = 0; i < out->count; i++)
        out->runs[i] = (struct measured_run){DT_ERR_INTERRUPTED, "not run", NAN, NAN, NAN, NAN, out->runs[i].place};
    dt_status status = run_all(p, device, quiet, records, e, out);
    out->won = fastest(out);
    free(e);
    return status;
}

/* ---- telling ---- */

static void say_winner(const struct measured *m, FILE *to)
{
    const struct measured_run *won = m->won >= 0 ? &m->runs[m->won] : NULL, *first = &m->runs[0];
    if (!won) {
        fprintf(to, "none of them could be measured\n");
        return;
    }
    if (m->won == 0) {
        fprintf(to, "the first one won, as predicted\n");
        return;
    }
    if (first->status != DT_OK) {
        fprintf(to, "number %d won; the first one failed\n", won->place + 1);
        return;
    }
    double lead = won->tokens_per_s / first->tokens_per_s - 1, spread = fmax(won->spread, first->spread);
    fprintf(to, "number %d won: %.1f %% faster than the first", won->place + 1, 100 * lead);
    if (lead < spread)
        fprintf(to, ", which is no margin: two runs of the same differ by %.1f %%", 100 * spread);
    fprintf(to, "\n");
}

dt_status measured_print(const struct planner *p, const struct measured *m, FILE *to)
{
    char text[FORMAT_BYTES];
    struct experiment e;
    char strategy[STRATEGY_BYTES];
    struct table *t = table_create();
    if (!t)
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for a table");
    fprintf(to, "\nmeasured on device %s\n\n", m->device);
    table_column(t, TABLE_RIGHT, "");
    table_column(t, TABLE_LEFT, "strategy");
    table_column(t, TABLE_RIGHT, "predicted\nstep, s");
    table_column(t, TABLE_RIGHT, "measured\nstep, s");
    table_column(t, TABLE_RIGHT, "off by\n%");
    table_column(t, TABLE_RIGHT, "measured\ntokens/s");
    table_column(t, TABLE_LEFT, "");
    for (int i = 0; i < m->count; i++) {
        const struct measured_run *run = &m->runs[i];
        bool known = run->status == DT_OK;
        space_experiment(p->space, space_candidate(p->space, p->result.ranking[run->place]), &e);
        strategy_describe(&e, strategy);
        table_cell(t, "%d", run->place + 1);
        table_cell(t, "%s", strategy);
        table_cell(t, "%s", format_number(planner_outcome(p, run->place)->step_s, text));
        table_cell(t, "%s", known ? format_number(run->step_s, text) : "-");
        table_cell(t, known ? "%+.1f" : "-", 100 * run->error_of_step);
        table_cell(t, "%s", known ? format_number(run->tokens_per_s, text) : "-");
        table_cell(t, "%s", i == m->won ? "won" : known ? "" : run->error);
    }
    dt_status status = table_print(t, to);
    table_destroy(t);
    DT_TRY(status);
    fprintf(to, "\n");
    say_winner(m, to);
    return DT_OK;
}
