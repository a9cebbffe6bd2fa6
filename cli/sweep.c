#include "cli/sweep.h"

#include "cli/format.h"
#include "cli/run_inside.h"
#include "cli/run_launched.h"
#include "cli/signals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double tokens_per_step(const struct experiment *e)
{
    return (double)experiment_global_batch(e) * e->model.block_size;
}

static void begin(struct sweep *s, int index, const struct experiment *e, const char *suffix)
{
    char label[96];
    experiment_label(&s->experiments[index], &s->columns, label, sizeof label - strlen(suffix));
    strcat(label, suffix);
    progress_begin(&s->progress, index + 1, label, e->steps.warmup + e->steps.timed, tokens_per_step(e));
}

/* The experiment's losses on one device: found or run. Inside a launcher's ranks rank 0 runs it and the others wait. */
static void run_verification(struct sweep *s, int index, struct report *report)
{
    const struct experiment *e = &s->experiments[index];
    struct experiment reference;
    struct report its;
    const struct report *known;
    if (verify_reference_of(e, &reference) < 0) {
        report->verification = "failed";
        report_end(report, DT_ERR_VERIFY, dt_error_message());
        return;
    }
    if (!(known = verify_find(&s->references, &reference))) {
        report_init(&its);
        begin(s, index, &reference, ", verifying");
        if (s->inside) {
            struct dt_world alone = {.size = 1, .local_size = 1, .launcher = "none"};
            run_inside(&reference, &alone, &s->progress, &its);
        } else {
            run_launched(&reference, &s->progress, &its);
        }
        if (its.status == DT_ERR_INTERRUPTED) {
            report_end(report, DT_ERR_INTERRUPTED, "stopped before the reference of --verify had run");
            report_finish(&its);
            return;
        }
        if (verify_keep(&s->references, &reference, &its) < 0) {
            report_end(report, DT_ERR_HOST_MEMORY, dt_error_message());
            return;
        }
        known = verify_find(&s->references, &reference);
    }
    verify_compare(report, e, known);
}

static void write_record(struct sweep *s, const struct experiment *e, const struct report *report)
{
    char *line = NULL;
    if (!s->records)
        return;
    dt_status status = report_record(report, e, &line);
    if (status == DT_OK)
        status = dt_record_append(s->records, line);
    free(line);
    if (status == DT_OK)
        return;
    s->output_failed = true;
    snprintf(s->output_error, sizeof s->output_error, "%s", dt_error_message());
}

/* One line for a reader who has no progress line. */
static void tell(struct sweep *s, int index)
{
    const struct outcome *o = &s->outcomes[index];
    char rate[FORMAT_BYTES], step[FORMAT_BYTES];
    if (s->progress.live)
        return;
    if (o->status < 0)
        progress_note(&s->progress, "%d/%d %s: %s: %s", index + 1, s->count, s->progress.label, report_status_name(o->status), o->error);
    else
        progress_note(&s->progress, "%d/%d %s: ok, %s tokens/s, step %s s, loss %.4f to %.4f", index + 1, s->count, s->progress.label,
                      format_number(o->metrics.tokens_per_s, rate), format_number(o->metrics.step_s.median, step), o->metrics.first_loss,
                      o->metrics.last_loss);
}

static void run_one(struct sweep *s, int index)
{
    const struct experiment *e = &s->experiments[index];
    struct outcome *o = &s->outcomes[index];
    struct report report;
    report_init(&report);
    sweep_identity_report(&s->identity, index, &report);
    report.slurm = &s->slurm;
    begin(s, index, e, "");
    if (s->inside)
        s->lost = !run_inside(e, &s->world, &s->progress, &report);
    else
        run_launched(e, &s->progress, &report);

    bool verify = s->verify && report.status == DT_OK;
    if (verify && s->world.rank == 0)
        run_verification(s, index, &report);
    bool stop = report.status == DT_ERR_INTERRUPTED;
    if (verify && s->inside) {
        s->lost = run_inside_agree(e, &s->world, &stop) < 0;
        if (stop && report.status == DT_OK) /* what rank 0 stopped in, the others did not take part in */
            report_end(&report, DT_ERR_INTERRUPTED, "stopped with rank 0");
    }

    begin(s, index, e, "");
    o->run = true;
    o->status = report.status;
    memcpy(o->error, report.error, sizeof o->error);
    o->verified = report.verification != NULL;
    o->verification_error = report.verification_error;
    if (report_measure(&report, e, &o->metrics) < 0)
        o->metrics = (struct report_metrics){.step_s = {NAN, NAN, NAN}};
    write_record(s, e, &report);
    tell(s, index);
    report_finish(&report);
}

void sweep_run(struct sweep *s)
{
    for (int i = 0; i < s->count; i++) {
        const struct outcome *o = &s->outcomes[i];
        if (o->skipped)
            continue;
        run_one(s, i);
        /* Inside, only what all ranks agreed on may end the loop: one that stopped alone would be waited for. */
        bool stop = o->status == DT_ERR_INTERRUPTED || (!s->inside && signals_count() > 0);
        if (stop || s->lost || s->output_failed)
            break;
    }
    progress_clear(&s->progress);
}

enum exit_code sweep_exit_code(const struct sweep *s)
{
    bool failed = false, oom = false, wrong = false, interrupted = false;
    for (int i = 0; i < s->count; i++) {
        dt_status status = s->outcomes[i].run ? s->outcomes[i].status : DT_OK;
        wrong |= status == DT_ERR_VERIFY;
        oom |= status == DT_ERR_OOM;
        interrupted |= status == DT_ERR_INTERRUPTED || (signals_count() > 0 && !s->outcomes[i].run && !s->outcomes[i].skipped);
        failed |= status < 0 && status != DT_ERR_VERIFY && status != DT_ERR_OOM && status != DT_ERR_INTERRUPTED;
    }
    if (interrupted) /* a rank may hear of it from another */
        return (enum exit_code)(EXIT_CODE_SIGNAL + (signals_first() ? signals_first() : 15));
    return s->output_failed ? EXIT_CODE_OUTPUT : wrong ? EXIT_CODE_VERIFY : failed ? EXIT_CODE_FAILED : oom ? EXIT_CODE_OOM : EXIT_CODE_OK;
}
