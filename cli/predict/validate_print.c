/* What validate found, as a table. */
#include "cli/predict/validate.h"
#include "cli/text/line.h"
#include "cli/text/table.h"

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
    fprintf(to, "\nfastest paradigm named right: %d of %d cells", w->right, w->cells);
    if (w->clear_cells)
        fprintf(to, "; %d of %d (%.1f %%) where the two best differ by more than %.0f %%", w->clear_right, w->clear_cells,
                100.0 * w->clear_right / w->clear_cells, 100 * VALIDATE_CLEAR);
    fprintf(to, "\n");
}

static void print_choices(const struct validate_choices *c, FILE *to)
{
    if (c->cells)
        fprintf(to, "fastest configuration: the predicted one within %.0f %% of the measured one in %d of %d cells (%.1f %%)\n",
                100 * VALIDATE_NEAR, c->right, c->cells, 100.0 * c->right / c->cells);
}

/* Where the table says of no run that it ran out of memory, there is nothing to tell apart. */
static void print_fits(const struct validate_fits *f, FILE *to)
{
    int right = f->rows[0][0] + f->rows[1][1], wrong = f->rows[0][1] + f->rows[1][0];
    if (f->rows[1][0] + f->rows[1][1])
        fprintf(to,
                "fits or not: predicted right for %d of %d (%.1f %%); of %d that ran %d predicted not to, of %d that did not %d "
                "predicted to\n",
                right, right + wrong, 100.0 * right / (right + wrong), f->rows[0][0] + f->rows[0][1], f->rows[0][1],
                f->rows[1][0] + f->rows[1][1], f->rows[1][0]);
}

/* Rows that came to no prediction of time, a line for each reason. */
static void print_reasons(const struct validate_rows *rows, enum validate_outcome outcome, const char *title, FILE *to)
{
    for (int i = 0; i < rows->count; i++) {
        int same = 0;
        bool said = false;
        if (rows->rows[i].outcome != outcome)
            continue;
        const char *reason = rows->rows[i].reason;
        for (int j = 0; j < rows->count; j++) {
            bool equal = rows->rows[j].outcome == outcome && strcmp(reason, rows->rows[j].reason) == 0;
            same += equal;
            said |= equal && j < i;
        }
        if (!said)
            line_print(to, "%s: %d row%s from line %d on: %s", title, same, same > 1 ? "s" : "", rows->rows[i].line, reason);
    }
}

dt_status validate_print(const struct validate_rows *rows, const struct validate_summary *summary, FILE *to)
{
    static const char *const titles[] = {
        "rows",    "out of\nmemory", "skipped", "step time:\nmedian %", "\np90 %", "\nbias %", "peak memory:\nmedian %",
        "\np90 %", "\nbias %"};
    struct table *t = table_create();
    if (!t)
        return dt_fail(DT_ERR_HOST_MEMORY, "no memory for a table");
    table_column(t, TABLE_LEFT, "");
    table_column(t, TABLE_LEFT, "");
    for (size_t c = 0; c < sizeof titles / sizeof titles[0]; c++)
        table_column(t, TABLE_RIGHT | (c == 1 || c == 2 ? 0 : TABLE_STAYS), titles[c]);
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
    dt_status status = table_print(t, to);
    table_destroy(t);
    fprintf(to, "\nerrors are |predicted - measured| / measured; bias is the median with its sign; rows out of memory have no step time\n");
    print_winners(&summary->winners, to);
    print_choices(&summary->choices, to);
    print_fits(&summary->fits, to);
    print_reasons(rows, VALIDATE_REFUSED, "not run by the framework", to);
    print_reasons(rows, VALIDATE_SKIPPED, "skipped", to);
    if (*rows->unused)
        line_print(to, "columns not used: %s", rows->unused);
    return status;
}
