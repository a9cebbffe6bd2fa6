/* The results of validate as a table. */
#include "cli/predict/validate.h"
#include "cli/text/text.h"
#include "lib/config/json.h"

#include <math.h>
#include <string.h>

static void percent_cell(struct table *t, double part, bool sign)
{
    if (isnan(part))
        table_cell(t, "-");
    else
        table_cell(t, sign ? "%+.1f" : "%.1f", 100 * part);
}

static void error_cells(struct table *t, const struct validate_error *error)
{
    percent_cell(t, error->median, false);
    percent_cell(t, error->p90, false);
    percent_cell(t, error->bias, true);
}

static void print_winners(const struct validate_winners *w, FILE *to)
{
    if (w->cells == 0)
        return;
    struct line line;
    fputc('\n', to);
    line_begin(&line, to);
    line_add(&line, "fastest paradigm named right: %d of %d cells", w->right, w->cells);
    if (w->clear_cells)
        line_add(&line, "; %d of %d (%.1f %%) where the two best differ by more than %.0f %%", w->clear_right, w->clear_cells,
                 100.0 * w->clear_right / w->clear_cells, 100 * VALIDATE_CLEAR);
    line_end(&line);
}

static void print_open(int rows, const char *open, FILE *to)
{
    if (rows)
        line_print(to, "fits or not: %d that ran %s predicted not to, and %s", rows, rows == 1 ? "is" : "are", open);
}

/* Not printed if the table has no run that ran out of memory. */
static void print_fits(const struct validate_fits *f, FILE *to)
{
    int right = f->rows[0][0] + f->rows[1][1], wrong = f->rows[0][1] + f->rows[1][0];
    if (f->rows[1][0] + f->rows[1][1])
        line_print(to,
                   "fits or not: predicted right for %d of %d (%.1f %%); of %d that ran %d predicted not to, of %d that did not %d "
                   "predicted to",
                   right, right + wrong, 100.0 * right / (right + wrong), f->rows[0][0] + f->rows[0][1], f->rows[0][1],
                   f->rows[1][0] + f->rows[1][1], f->rows[1][0]);
    print_open(f->sharing_open, "nothing says how ranks share the model: a column zero/fsdp would, or --set paradigm=zero1", to);
    print_open(f->recompute_open, "nothing says what is recomputed: a column recompute would, or --set activation=checkpoint", to);
    print_open(f->fp8_open, "parameters of 16 bits are counted beside those in FP8: --set fp8.gather=true leaves them out", to);
    print_open(f->reduction_open, "whole gradients are accumulated: --set gradient_reduction=each keeps shards of them", to);
    if (f->undecided)
        line_print(to, "fits or not: %d undecided, since it depends on tensor.sequence_parallel, which neither the table nor --set tells",
                   f->undecided);
}

static void print_unmeasured(const struct validate_rows *rows, FILE *to)
{
    bool measured = false;
    for (int i = 0; i < rows->count; i++) {
        const struct validate_row *row = &rows->rows[i];
        measured |= !isnan(row->measured_s) || !isnan(row->measured_bytes) || row->measured_fit == VALIDATE_FIT_NOT;
    }
    if (!measured)
        line_print(to, "nothing to compare with: no row has a step time (columns step_s, step_ms, tokens_per_s_per_gpu, "
                       "total_tokens_per_s, samples_per_s) or a peak of memory (peak_mb, peak_gb, peak_mem_gib)");
}

static void print_contradictions(const struct validate_rows *rows, const struct validate_summary *summary, FILE *to)
{
    const char *place = rows->records ? "record" : "line";
    for (int i = 0; i < summary->contradiction_count; i++) {
        const struct validate_row *first = &rows->rows[summary->contradictions[i].first],
                                  *second = &rows->rows[summary->contradictions[i].second];
        line_print(to,
                   "%s %d and %s %d are alike, and took %.4g and %.4g s: one of them was disturbed, or the table does not say what differs",
                   place, first->line, place, second->line, first->measured_s, second->measured_s);
    }
}

/* The reason of a row with this outcome; of VALIDATE_PREDICTED the note of a row that was not
 * skipped. */
static const char *text_of(const struct validate_row *row, enum validate_outcome outcome)
{
    if (outcome == VALIDATE_PREDICTED)
        return row->outcome == VALIDATE_SKIPPED ? "" : row->note;
    return row->outcome == outcome ? row->reason : "";
}

/* Print the texts of rows ("": nothing), one line for all rows with the same text. */
static void print_texts(const struct validate_rows *rows, enum validate_outcome outcome, const char *title, FILE *to)
{
    for (int i = 0; i < rows->count; i++) {
        const char *text = text_of(&rows->rows[i], outcome);
        int same = 0, before = 0;
        for (int j = 0; j < rows->count; j++) {
            bool equal = strcmp(text, text_of(&rows->rows[j], outcome)) == 0;
            same += equal;
            before += equal && j < i;
        }
        if (*text && before == 0)
            line_print(to, "%s: %d row%s from %s %d on: %s", title, same, same > 1 ? "s" : "", rows->records ? "record" : "line",
                       rows->rows[i].line, text);
    }
}

/* "12.3", "10.1", "-17.9": measured and predicted in `unit`, and the error in percent. */
static void pair_cells(struct table *t, double measured, double predicted, const struct unit *unit)
{
    table_number(t, measured / unit->size);
    table_number(t, predicted / unit->size);
    percent_cell(t, (predicted - measured) / measured, true);
}

static void add_pair_columns(struct table *t, const char *what, const struct unit *unit)
{
    table_column(t, TABLE_RIGHT | TABLE_STAYS, "%s %s:\nmeasured", what, unit->name);
    table_columns(t, TABLE_RIGHT | TABLE_STAYS, "\npredicted", "\nerror %");
}

/* Print measured and predicted values, a line for each predicted record. */
static dt_status print_pairs(const struct validate_rows *rows, FILE *to)
{
    char label[LABEL_BYTES];
    double longest = 0, most_bytes = 0;
    struct experiment_columns columns;
    struct experiment_differences all = {0};
    for (int i = 0; i < rows->count; i++) {
        const struct validate_row *row = &rows->rows[i];
        if (row->outcome == VALIDATE_SKIPPED)
            continue;
        experiment_differences_add(&all, &row->experiment);
        longest = fmax(longest, fmax(row->measured_s, row->predicted_s));
        most_bytes = fmax(most_bytes, fmax(row->measured_bytes, row->predicted_bytes));
    }
    if (!all.first)
        return DT_OK;
    struct unit seconds = unit_for_seconds(longest), bytes = unit_for_bytes(most_bytes);
    struct table *t = table_create();
    experiment_columns_choose(&all, &columns);
    table_heading(t, "predicted for cluster %s, profile %s", all.first->cluster, all.first->profile);
    table_column(t, TABLE_LEFT, "record");
    table_column(t, TABLE_LEFT | TABLE_STAYS, "experiment");
    add_pair_columns(t, "step", &seconds);
    add_pair_columns(t, "peak", &bytes);
    for (int i = 0; i < rows->count; i++) {
        const struct validate_row *row = &rows->rows[i];
        if (row->outcome == VALIDATE_SKIPPED)
            continue;
        experiment_label(&row->experiment, &columns, label, sizeof label);
        table_cell(t, "%d", row->line);
        table_text(t, label);
        pair_cells(t, row->measured_s, row->predicted_s, &seconds);
        pair_cells(t, row->measured_bytes, row->predicted_bytes, &bytes);
    }
    dt_status status = table_end(t, to);
    fputc('\n', to);
    return status;
}

dt_status validate_print(const struct validate_rows *rows, const struct validate_summary *summary, FILE *to)
{
    static const char *const titles[] = {
        "rows",    "out of\nmemory", "skipped", "step time:\nmedian %", "\np90 %", "\nbias %", "peak memory:\nmedian %",
        "\np90 %", "\nbias %"};
    if (rows->records)
        DT_TRY(print_pairs(rows, to));
    struct table *t = table_create();
    table_column(t, TABLE_LEFT, "");
    table_column(t, TABLE_LEFT | TABLE_KEY, "");
    for (size_t c = 0; c < sizeof titles / sizeof titles[0]; c++)
        table_column(t, TABLE_RIGHT | (c == 1 || c == 2 ? 0 : TABLE_STAYS), "%s", titles[c]);
    for (int g = 0; g < summary->group_count; g++) {
        const struct validate_group *group = &summary->groups[g];
        bool first = g == 0 || strcmp(group->key, group[-1].key) != 0;
        table_text(t, first ? group->key : "");
        table_text(t, group->value);
        table_cell(t, "%d", group->rows);
        table_cell(t, "%d", group->out_of_memory);
        table_cell(t, "%d", group->skipped);
        error_cells(t, &group->time);
        error_cells(t, &group->memory);
    }
    dt_status status = table_end(t, to);
    fputc('\n', to);
    line_print(to, "errors are |predicted - measured| / measured; bias is the median with its sign; rows out of memory have no step time");
    print_unmeasured(rows, to);
    print_winners(&summary->winners, to);
    if (summary->choices.cells)
        line_print(to, "fastest configuration: the predicted one within %.0f %% of the measured one in %d of %d cells (%.1f %%)",
                   100 * VALIDATE_NEAR, summary->choices.right, summary->choices.cells,
                   100.0 * summary->choices.right / summary->choices.cells);
    print_fits(&summary->fits, to);
    if (summary->intervals.rows > 0)
        line_print(to, "within the profile's error of eight of ten: %d of %d step times (%.0f %%)", summary->intervals.within,
                   summary->intervals.rows, 100.0 * summary->intervals.within / summary->intervals.rows);
    print_texts(rows, VALIDATE_REFUSED, "not run by the framework", to);
    print_texts(rows, VALIDATE_SKIPPED, "skipped", to);
    print_texts(rows, VALIDATE_PREDICTED, "read", to);
    print_contradictions(rows, summary, to);
    if (*rows->unused)
        line_print(to, "columns not used: %s", rows->unused);
    return status;
}

/* ---- as JSON ---- */

static struct cJSON *error_as_json(const struct validate_error *error)
{
    return dt_json_object("rows: %d, median: %g, p90: %g, bias: %g", error->rows, error->median, error->p90, error->bias);
}

/* What scripts/fit compares configs by. */
static void add_shape(struct cJSON **row, const struct experiment *e)
{
    struct dt_layers_size size;
    e->model.family->layers_size(&e->model, (struct dt_layers){.end = dt_layer_count(&e->model)}, &size);
    double samples = (double)experiment_replica_samples(e);
    dt_json_add(row, "parameters: %g, units: %g, tensor: %d, stages: %d, replicas: %d, micro_batches: %d, samples: %g, activation: %s",
                (double)(size.parameters - size.copies), (double)dt_model_units(&e->model), e->tensor.size, e->strategy.stages,
                e->world_size / (e->tensor.size * e->strategy.stages), e->strategy.micro_batches, samples / e->strategy.micro_batches,
                activation_name(e->activation));
}

static struct cJSON *row_as_json(const struct validate_row *row, bool is_record)
{
    static const char *const outcomes[] = {
        [VALIDATE_PREDICTED] = "ok", [VALIDATE_OUT_OF_MEMORY] = "oom", [VALIDATE_REFUSED] = "refused", [VALIDATE_SKIPPED] = "skipped"};
    const char *paradigm = row->experiment.world_size > 0 ? paradigm_name(row->experiment.paradigm) : "";
    struct cJSON *object =
        dt_json_object("%s: %d, paradigm: %s, model: %s, gpus: %d, batch_per_gpu: %g, status: %s", is_record ? "record" : "line", row->line,
                       paradigm, row->model, row->experiment.world_size, row->batch_per_gpu, outcomes[row->outcome]);
    if (is_record)
        dt_json_add(&object, "config_hash: %s", row->recorded_hash);
    if (row->outcome == VALIDATE_PREDICTED || row->outcome == VALIDATE_OUT_OF_MEMORY)
        add_shape(&object, &row->experiment);
    if (row->outcome == VALIDATE_SKIPPED || row->outcome == VALIDATE_REFUSED)
        dt_json_add(&object, "reason: %s", row->reason);
    if (*row->note)
        dt_json_add(&object, "note: %s", row->note);
    dt_json_add(&object, "measured_step_s: %g, predicted_step_s: %g, measured_peak_bytes: %g, predicted_peak_bytes: %g, step_error: %g",
                row->measured_s, row->predicted_s, row->measured_bytes, row->predicted_bytes, row->step_error);
    return object;
}

dt_status validate_print_json(const struct validate_rows *rows, const struct validate_summary *summary, FILE *to)
{
    const struct validate_winners *w = &summary->winners;
    const struct validate_choices *c = &summary->choices;
    const struct validate_fits *f = &summary->fits;
    struct cJSON *groups = dt_json_array(), *array = dt_json_array(), *contradictions = dt_json_array();
    for (int i = 0; i < summary->contradiction_count; i++)
        dt_json_append(&contradictions, dt_json_object("first: %d, second: %d", rows->rows[summary->contradictions[i].first].line,
                                                       rows->rows[summary->contradictions[i].second].line));
    for (int i = 0; i < summary->group_count; i++) {
        const struct validate_group *group = &summary->groups[i];
        dt_json_append(&groups,
                       dt_json_object("key: %s, value: %s, rows: %d, out_of_memory: %d, skipped: %d, step_time: %p, peak_memory: %p",
                                      group->key, group->value, group->rows, group->out_of_memory, group->skipped,
                                      error_as_json(&group->time), error_as_json(&group->memory)));
    }
    for (int i = 0; i < rows->count; i++)
        dt_json_append(&array, row_as_json(&rows->rows[i], rows->records));
    return dt_json_write(
        dt_json_object(
            "groups: %p, fastest_paradigm: {cells: %d, right: %d, clear_margin: %g, clear_cells: %d, clear_right: %d}, "
            "fastest_configuration: {cells: %d, right: %d, near: %g}, memory_suffices: {measured_yes_predicted_yes: %d, "
            "measured_yes_predicted_no: %d, measured_no_predicted_yes: %d, measured_no_predicted_no: %d, undecided: %d, "
            "sharing_open: %d, recompute_open: %d, fp8_open: %d, reduction_open: %d}, within_error_of_eight: {rows: %d, within: %d}, "
            "columns_not_used: %s, contradictions: %p, rows: "
            "%p",
            groups, w->cells, w->right, VALIDATE_CLEAR, w->clear_cells, w->clear_right, c->cells, c->right, VALIDATE_NEAR, f->rows[0][0],
            f->rows[0][1], f->rows[1][0], f->rows[1][1], f->undecided, f->sharing_open, f->recompute_open, f->fp8_open, f->reduction_open,
            summary->intervals.rows, summary->intervals.within, rows->unused, contradictions, array),
        to);
}
