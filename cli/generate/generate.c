#include "cli/generate/generate.h"

#include "cli/text/text.h"
#include "lib/base/text.h"
#include "lib/config/json.h"
#include "lib/record/metrics.h"
#include "lib/record/record.h"
#include "lib/sim/cluster.h"
#include "predict/profile.h"
#include "schedules/config/paradigm.h"
#include "schedules/config/parse.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- parts of the manual page, in mdoc(7) ---- */

/* Write text[length] as running text: options keep their dashes, and each sentence begins a
 * line. */
static void write_text(const char *text, size_t length, FILE *to)
{
    for (size_t i = 0; i < length; i++) {
        if (i == 0 && (text[i] == '.' || text[i] == '\''))
            fputs("\\&", to);
        if (text[i] == '\\')
            fputs("\\e", to);
        else if (text[i] == '-' && ((i + 1 < length && text[i + 1] == '-') || (i > 0 && text[i - 1] == '-')))
            fputs("\\-", to);
        else if (text[i] == ' ' && i > 0 && text[i - 1] == '.')
            fputc('\n', to);
        else
            fputc(text[i], to);
    }
    fputc('\n', to);
}

/* Write a description, whose lines are those of paragraph_print (cli/text/text.h). */
static void write_paragraphs(const char *text, FILE *to)
{
    bool literal = false;
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        if (literal && *line != ' ') {
            fputs(".Ed\n", to);
            literal = false;
        }
        if (!literal && *line == ' ') {
            fputs(".Bd -literal\n", to);
            literal = true;
        }
        const char *next = line + length + (line[length] == '\n');
        if (length == 0 && *next != ' ')
            fputs(".Pp\n", to);
        if (length > 0)
            write_text(line, length, to);
        line = next;
    }
    fputs(literal ? ".Ed\n" : "", to);
}

/* Make a sentence of a help text, which begins without a capital, unless with a name, and mostly
 * ends without a full stop. */
static void write_sentence(const char *text, FILE *to)
{
    char sentence[2048];
    bool name = strncmp(text, "dtbench", 7) == 0;
    bool ended = *text && text[strlen(text) - 1] == '.';
    snprintf(sentence, sizeof sentence, "%c%s%s", name ? *text : toupper((unsigned char)*text), text + 1, ended ? "" : ".");
    write_text(sentence, strlen(sentence), to);
}

/* One word of a usage: "[OPTION]...", "--data", "FILE". */
static void write_usage_word(const char *word, int length, FILE *to)
{
    if (*word == '[') {
        int name = (int)strcspn(word + 1, "]");
        fprintf(to, ".Op Ar %.*s%s\n", name, word + 1, length > name + 2 ? " ..." : "");
    } else if (strncmp(word, "--", 2) == 0) {
        fprintf(to, ".Fl %.*s\n", length - 1, word + 1);
    } else {
        fprintf(to, ".Ar %.*s\n", length, word);
    }
}

static void write_synopsis(const struct command *command, FILE *to)
{
    fprintf(to, ".Nm dtbench\n.Cm %s\n", command->name);
    for (const char *word = command->usage; *word; word += strspn(word, " ")) {
        int length = (int)strcspn(word, " ");
        write_usage_word(word, length, to);
        word += length;
    }
}

static void write_option(const struct option_row *row, FILE *to)
{
    char help[1024];
    fputs(".It Fl ", to);
    if (row->letter)
        fprintf(to, "%c , ", row->letter);
    fprintf(to, "-%s", row->name);
    if (row->argument)
        fprintf(to, " Ar %s", row->argument);
    fputc('\n', to);
    options_describe(row, help, sizeof help);
    write_sentence(help, to);
}

static void write_options(const struct option_row *options, FILE *to)
{
    fputs(".Sh OPTIONS\n.Bl -tag -width Ds\n", to);
    for (const struct option_row *row = options; row->name; row++)
        write_option(row, to);
    fputs(".El\n", to);
}

/* List the commands with the names of their pages. */
static void manual_commands(const struct command *const *commands, FILE *to)
{
    fputs(".Bl -tag -width Ds\n", to);
    for (; *commands; commands++) {
        if ((*commands)->hidden)
            continue;
        fprintf(to, ".It Xr dtbench-%s 1\n", (*commands)->name);
        write_sentence((*commands)->summary, to);
    }
    fputs(".El\n", to);
}

static void manual_keys(const struct command *const *commands, FILE *to)
{
    const struct dt_table *table = experiment_table();
    char values[DT_FIELD_TEXT_BYTES];
    fputs(".Bl -tag -width Ds\n", to);
    for (int i = 0; i < table->count; i++) {
        const struct dt_field *field = &table->fields[i];
        fprintf(to, ".It Va %s\n", field->path);
        write_text(field->description, strlen(field->description), to);
        dt_field_describe(field, values);
        write_sentence(values, to);
        if (field->initial)
            fprintf(to, "Default: %s.\n", field->initial);
    }
    fputs(".El\n", to);
}

static void manual_exit_codes(const struct command *const *commands, FILE *to)
{
    fputs(".Bl -tag -width \"130\" -compact\n", to);
    for (const struct exit_code_row *row = exit_code_table(); row->meaning; row++) {
        fprintf(to, ".It %d\n", row->code);
        write_sentence(row->meaning, to);
    }
    fputs(".El\n", to);
}

/* Write the page of one command. The version takes the date's place, so that equal sources give
 * equal pages. mdoc's .Dd prints up to four words unchanged. */
static void write_page(const struct command *command, FILE *to)
{
    fprintf(to, ".Dd dtbench %s commit %s\n.Dt DTBENCH-", dt_version(), dt_git_commit());
    for (const char *letter = command->name; *letter; letter++)
        fputc(toupper((unsigned char)*letter), to);
    fprintf(to, " 1\n.Os\n.Sh NAME\n.Nm dtbench-%s\n.Nd %s\n.Sh SYNOPSIS\n", command->name, command->summary);
    write_synopsis(command, to);
    fputs(".Sh DESCRIPTION\n", to);
    write_paragraphs(command->description, to);
    if (command->options)
        write_options(command->options, to);
    if (command->exit_codes) {
        fputs(".Sh EXIT STATUS\n", to);
        manual_exit_codes(NULL, to);
    }
    fputs(".Sh SEE ALSO\n.Xr dtbench 1\n", to);
}

/* ---- tables of the pages in docs/ ---- */

/* Write text into a cell, in which a bar must be escaped. */
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
    for (int i = 0; dt_field_choice(field, i); i++)
        fprintf(to, "%s`%s`", i ? ", " : "", dt_field_choice(field, i));
    if (field->most_numbers > 0)
        fprintf(to, ", a list of integers from %.0f to %.0f", field->min, field->max);
    if (field->file_ending)
        fprintf(to, ", a file `*%s`", field->file_ending);
    if (dt_field_has_choices(field))
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

/* A heading and a table for each group of keys. */
static void markdown_keys(const struct command *const *commands, FILE *to)
{
    const struct dt_table *table = experiment_table();
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

static void markdown_metrics(const struct command *const *commands, FILE *to)
{
    fputs("| metric | unit | over ranks and steps | meaning |\n|---|---|---|---|\n", to);
    for (int i = 0; dt_metric_at(i); i++) {
        const struct dt_metric *metric = dt_metric_at(i);
        fprintf(to, "| `%s` | %s | ", metric->key, dt_unit_name(metric->unit));
        write_rule(metric, to);
        fprintf(to, " | %s |\n", metric->help);
    }
}

/* Write what each paradigm does and holds, and then the keys that only some paradigms read. */
static void markdown_paradigms(const struct command *const *commands, FILE *to)
{
    fputs("| `paradigm` | what it does | parameters | gradients | optimizer |\n|---|---|---|---|---|\n", to);
    const struct paradigm *p;
    for (int i = 0; (p = paradigm_of((enum paradigm_kind)i)); i++)
        fprintf(to, "| `%s` | %s | %s | %s | %s |\n", p->name, p->help, p->bytes.parameters, p->bytes.gradients, p->bytes.optimizer);
}

static void markdown_paradigm_keys(const struct command *const *commands, FILE *to)
{
    fputs("| key | read by |\n|---|---|\n", to);
    for (int k = 0; k < experiment_table()->count; k++) {
        const struct dt_field *field = &experiment_table()->fields[k];
        int readers = 0;
        const struct paradigm *p;
        for (int i = 0; (p = paradigm_of((enum paradigm_kind)i)); i++) {
            if (!(p->reads & field->readers))
                continue;
            if (readers++ == 0)
                fprintf(to, "| `%s` | ", field->path);
            fprintf(to, "%s`%s`", readers > 1 ? ", " : "", p->name);
        }
        fputs(readers ? " |\n" : "", to);
    }
}

static void markdown_exit_codes(const struct command *const *commands, FILE *to)
{
    fputs("| exit code | |\n|---|---|\n", to);
    for (const struct exit_code_row *row = exit_code_table(); row->meaning; row++) {
        fprintf(to, "| %d | ", row->code);
        write_cell(row->meaning, to);
        fputs(" |\n", to);
    }
}

/* ---- all of them ---- */

static const struct {
    const char *name;
    const struct dt_schema *(*schema)(void);                        /* either a schema, */
    dt_status (*tree)(struct cJSON **out);                          /* or JSON, which the caller owns, */
    void (*write)(const struct command *const *commands, FILE *to); /* or text */
} generated[] = {
    {"config-schema", .schema = experiment_schema}, {"cluster-schema", .schema = dt_sim_cluster_schema},
    {"profile-schema", .schema = profile_schema},   {"metrics-schema", .tree = dt_metrics_schema},
    {"metrics", .write = markdown_metrics},         {"configuration", .write = markdown_keys},
    {"exit-codes", .write = markdown_exit_codes},   {"manual-commands", .write = manual_commands},
    {"manual-keys", .write = manual_keys},          {"manual-exit-codes", .write = manual_exit_codes},
    {"paradigms", .write = markdown_paradigms},     {"paradigm-keys", .write = markdown_paradigm_keys},
};

enum { GENERATED = sizeof generated / sizeof generated[0] };

/* Print a tree, and destroy it. */
static dt_status write_tree(struct cJSON *tree, FILE *to)
{
    DT_FREED char *text = NULL;
    dt_status status = dt_json_print(tree, DT_JSON_FIT, &text);
    dt_json_destroy(tree);
    DT_TRY(status);
    fprintf(to, "%s\n", text);
    return DT_OK;
}

static dt_status unknown(const char *name)
{
    char known[512] = "";
    for (int i = 0; i < GENERATED; i++)
        dt_append(known, sizeof known, ", ", "%s", generated[i].name);
    return dt_fail(DT_ERR_INVALID, "'%s': expected one of %s", name, known);
}

dt_status generate(const char *name, const struct command *const *commands, FILE *to)
{
    struct cJSON *tree;
    int row = 0;
    while (row < GENERATED && strcmp(generated[row].name, name) != 0)
        row++;
    if (row == GENERATED)
        return unknown(name);
    if (generated[row].write) {
        generated[row].write(commands, to);
        return DT_OK;
    }
    if (generated[row].schema)
        DT_TRY(dt_schema_make(generated[row].schema(), &tree));
    else
        DT_TRY(generated[row].tree(&tree));
    return write_tree(tree, to);
}

static dt_status write_page_file(const struct command *command, const char *folder)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/dtbench-%s.1", folder, command->name);
    FILE *page = fopen(path, "w");
    if (!page)
        return dt_fail(DT_ERR_IO, "%s: %s", path, strerror(errno));
    write_page(command, page);
    return fclose(page) == 0 ? DT_OK : dt_fail(DT_ERR_IO, "%s: %s", path, strerror(errno));
}

dt_status generate_pages(const char *folder, const struct command *const *commands)
{
    for (; *commands; commands++)
        if (!(*commands)->hidden)
            DT_TRY(write_page_file(*commands, folder));
    return DT_OK;
}
