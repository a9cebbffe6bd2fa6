/* `dtbench run --dry-run`: what would run. */
#include "cli/run/sweep.h"
#include "cli/text/table.h"

dt_status dry_run_print(const struct sweep *s, FILE *to)
{
    struct table *t = table_create();
    char value[VALUE_BYTES];
    static const char *const titles[] = {"#", "name", "paradigm", "ranks", "batch", "model", "steps"};
    for (size_t c = 0; c < sizeof titles / sizeof titles[0]; c++)
        table_column(t, c == 1 || c == 2 || c == 5 ? TABLE_LEFT : TABLE_RIGHT, titles[c]);
    for (int c = 0; c < s->columns.count; c++)
        table_column(t, TABLE_RIGHT, experiment_column_title(s->columns.fields[c]));
    table_column(t, TABLE_LEFT, "config hash");
    table_column(t, TABLE_LEFT, "");
    for (int i = 0; i < s->count; i++) {
        const struct experiment *e = &s->experiments[i];
        if (s->outcomes[i].elsewhere)
            continue;
        table_cell(t, "%d", i + 1);
        table_cell(t, "%s", e->name);
        table_cell(t, "%s", paradigm_name(e->paradigm));
        table_cell(t, "%d", e->world_size);
        table_cell(t, "%d", e->batch_size);
        if (*e->model.preset)
            table_cell(t, "%s", e->model.preset);
        else
            table_cell(t, "%dx%d", e->model.layers, e->model.hidden);
        table_cell(t, "%d+%d", e->steps.warmup, e->steps.timed);
        for (int c = 0; c < s->columns.count; c++) {
            experiment_value(e, s->columns.fields[c], value);
            table_cell(t, "%s", value);
        }
        table_cell(t, "%s", e->hash);
        table_cell(t, "%s", s->outcomes[i].skipped ? "skipped: has an ok record" : "");
    }
    dt_status status = table_print(t, to);
    table_destroy(t);
    return status;
}
