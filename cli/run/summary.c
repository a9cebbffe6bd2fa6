#include "cli/run/run.h"

#include "cli/text/text.h"

#include <stdio.h>

/* ---- what would run ---- */

dt_status summary_print_planned(const struct sweep *s, FILE *to)
{
    struct table *t = table_create();
    static const char *const titles[] = {"#", "name", "paradigm", "ranks", "batch", "model", "steps"};
    for (size_t c = 0; c < sizeof titles / sizeof titles[0]; c++)
        table_column(t, c == 1 || c == 2 || c == 5 ? TABLE_LEFT : TABLE_RIGHT, "%s", titles[c]);
    for (int c = 0; c < s->columns.count; c++)
        table_column(t, TABLE_RIGHT, "%s", experiment_key_title(s->columns.fields[c]->path));
    table_columns(t, TABLE_LEFT, "config hash", "");
    for (int i = 0; i < s->count; i++) {
        const struct experiment *e = sweep_experiment(s, i);
        if (s->outcomes[i].elsewhere)
            continue;
        table_cell(t, "%d", i + 1);
        table_text(t, e->name);
        table_text(t, paradigm_name(e->paradigm));
        table_cell(t, "%d", e->world_size);
        table_cell(t, "%.4g", e->batch_size);
        if (*e->model.preset)
            table_text(t, e->model.preset);
        else
            table_text(t, dt_model_texts(&e->model).label);
        if (e->steps.warmup_s > 0)
            table_cell(t, "%d, %g s+%d", e->steps.warmup, e->steps.warmup_s, e->steps.timed);
        else
            table_cell(t, "%d+%d", e->steps.warmup, e->steps.timed);
        experiment_value_cells(t, e, &s->columns);
        table_text(t, e->hash);
        table_text(t, s->outcomes[i].skipped ? "skipped: has a record" : "");
    }
    return table_end(t, to);
}

/* ---- what has run ---- */

const struct show_options *summary_options(void)
{
    static const struct show_options options = {.sort = "sweep.index"};
    return &options;
}

/* All runs of the sweep are finished, in whatever order. */
static dt_status find_scaling(const struct sweep *s)
{
    int column = results_find(s->results, "scaling_efficiency");
    for (int i = 0; i < s->count && column >= 0; i++) {
        const struct outcome *o = &s->outcomes[i];
        double ranks = sweep_experiment(s, i)->world_size;
        if (o->run && o->row >= 0)
            DT_TRY(results_set(s->results, o->row, column, o->metrics.units_per_s / ranks / sweep_scaling_reference(s, i)));
    }
    return DT_OK;
}

dt_status summary_print(const struct sweep *s, FILE *to)
{
    struct show_options options = *summary_options();
    char parameters[FORMAT_BYTES], heading[512];
    const struct experiment *e = sweep_experiment(s, 0);
    format_count(dt_model_parameter_count(&e->model), parameters);
    snprintf(heading, sizeof heading, "%s: %s%s%s parameters, %s, %s", e->name, e->model.preset, *e->model.preset ? ", " : "", parameters,
             dt_dtype_name(e->model.dtype), dt_model_texts(&e->model).sample);
    options.heading = !s->columns.models_differ && !s->columns.names_differ ? heading : NULL;
    options.colour = !s->inside && terminal_has_colour(to); /* a launcher's terminal is not the user's */
    DT_TRY(find_scaling(s));
    return show_print(s->results, &options, to);
}
