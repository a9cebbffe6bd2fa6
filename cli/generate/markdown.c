#include "cli/generate/markdown.h"

#include "cli/text/exit_code.h"
#include "lib/record/metrics.h"
#include "schedules/config/paradigm.h"

#include <string.h>

/* Text in a cell: a bar would end it. */
static void write_cell(const char *text, FILE *to)
{
    for (; *text; text++)
        fprintf(to, *text == '|' ? "\\%c" : "%c", *text);
}

/* "`fp32`, `fp16`, `bf16`", or "integer from 1 to 64". */
static void write_values(const struct dt_field *field, FILE *to)
{
    char text[DT_FIELD_TEXT_BYTES];
    if (field->words)
        fputs("list of ", to);
    for (int i = 0; field->choice && field->choice(i); i++)
        fprintf(to, "%s`%s`", i ? ", " : "", field->choice(i));
    if (field->most_numbers > 0)
        fprintf(to, ", a list of integers from %.0f to %.0f", field->min, field->max);
    if (field->file_ending)
        fprintf(to, ", a file `*%s`", field->file_ending);
    if (field->choice)
        return;
    dt_field_describe(field, text);
    size_t article = strncmp(text, "an ", 3) == 0 ? 3 : strncmp(text, "a ", 2) == 0 ? 2 : 0;
    write_cell(text + article, to);
}

static void write_key(const struct dt_field *field, FILE *to)
{
    fprintf(to, "| `%s` | ", field->path);
    write_values(field, to);
    fputs(" | ", to);
    if (field->initial)
        fprintf(to, "`%s`", field->initial);
    fputs(" | ", to);
    write_cell(field->description, to);
    fputs(" |\n", to);
}

void markdown_keys(const struct generate_tables *tables, FILE *to)
{
    const struct dt_table *table = tables->keys;
    for (int i = 0; i < table->count; i++) {
        if (table->fields[i].group)
            fprintf(to, "%s### %s\n\n| key | values | default | |\n|---|---|---|---|\n", i ? "\n" : "", table->fields[i].group);
        write_key(&table->fields[i], to);
    }
}

/* "mean of the ranks, median of the timed steps" */
static void write_rule(const struct dt_metric *metric, FILE *to)
{
    static const char *const over_ranks[] = {
        [DT_RANKS_ONE] = "", [DT_RANKS_MEAN] = "mean of the ranks", [DT_RANKS_SUM] = "sum of the ranks", [DT_RANKS_MAX] = "highest rank"};
    static const char *const over_steps[] = {[DT_STEPS_RUN] = "",
                                             [DT_STEPS_MEDIAN] = "median of the timed steps",
                                             [DT_STEPS_MIDDLE] = "of the median step",
                                             [DT_STEPS_SUM] = "sum of all steps"};
    const char *ranks = over_ranks[metric->ranks], *steps = over_steps[metric->steps];
    fprintf(to, "%s%s%s", ranks, *ranks && *steps ? ", " : "", steps);
}

void markdown_metrics(const struct generate_tables *tables, FILE *to)
{
    fputs("| metric | unit | over ranks and steps | meaning |\n|---|---|---|---|\n", to);
    for (int i = 0; dt_metric_at(i); i++) {
        const struct dt_metric *metric = dt_metric_at(i);
        fprintf(to, "| `%s` | %s | ", metric->key, dt_unit_name(metric->unit));
        write_rule(metric, to);
        fprintf(to, " | %s |\n", metric->help);
    }
}

void markdown_paradigms(const struct generate_tables *tables, FILE *to)
{
    fputs("| `paradigm` | what it does | parameters | gradients | optimizer |\n|---|---|---|---|---|\n", to);
    const struct paradigm *p;
    for (int i = 0; (p = paradigm_of((enum paradigm_kind)i)); i++)
        fprintf(to, "| `%s` | %s | %s | %s | %s |\n", p->name, p->help, p->bytes.parameters, p->bytes.gradients, p->bytes.optimizer);
}

void markdown_paradigm_keys(const struct generate_tables *tables, FILE *to)
{
    fputs("| key | read by |\n|---|---|\n", to);
    for (int k = 0; k < tables->keys->count; k++) {
        const char *path = tables->keys->fields[k].path;
        int readers = 0;
        const struct paradigm *p;
        for (int i = 0; (p = paradigm_of((enum paradigm_kind)i)); i++) {
            if (!paradigm_has_key(p, path))
                continue;
            if (readers++ == 0)
                fprintf(to, "| `%s` | ", path);
            fprintf(to, "%s`%s`", readers > 1 ? ", " : "", p->name);
        }
        fputs(readers ? " |\n" : "", to);
    }
}

void markdown_exit_codes(const struct generate_tables *tables, FILE *to)
{
    fputs("| exit code | |\n|---|---|\n", to);
    for (const struct exit_code_row *row = exit_code_table(); row->meaning; row++) {
        fprintf(to, "| %d | ", row->code);
        write_cell(row->meaning, to);
        fputs(" |\n", to);
    }
}
