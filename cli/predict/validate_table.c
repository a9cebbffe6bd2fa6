#include "cli/predict/validate.h"

#include "lib/base/text.h"
#include "lib/config/json.h"
#include "predict/rates.h"
#include "schedules/config/families.h"
#include "schedules/plan/plan.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum relation { EQUAL, DIFFERENT, LESS, AT_MOST, MORE, AT_LEAST };

/* Longer operators before their prefixes. */
static const struct {
    const char *text;
    enum relation relation;
} relations[] = {{"!=", DIFFERENT}, {"<=", AT_MOST}, {">=", AT_LEAST}, {"=", EQUAL}, {"<", LESS}, {">", MORE}};

struct condition {
    int column;
    enum relation relation;
    const char *value;
    double number; /* NAN: the value is not a number */
};

/* NAN: not a number */
static double number_of(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    return *text && !*end ? value : NAN;
}

static bool is_order(enum relation relation)
{
    return relation != EQUAL && relation != DIFFERENT;
}

static dt_status read_condition(const struct dt_csv *csv, const char *path, const char *text, struct condition *out)
{
    char name[128];
    size_t length = strcspn(text, "=<>!"), i = 0, count = sizeof relations / sizeof *relations;
    while (i < count && strncmp(text + length, relations[i].text, strlen(relations[i].text)) != 0)
        i++;
    if (length == 0 || length >= sizeof name || i == count)
        return dt_fail(DT_ERR_INVALID, "--where %.64s: expected COLUMN=VALUE, or with !=, <, <=, >, >=", text);
    snprintf(name, sizeof name, "%.*s", (int)length, text);
    const char *value = text + length + strlen(relations[i].text);
    *out = (struct condition){dt_csv_column(csv, name), relations[i].relation, value, number_of(value)};
    if (out->column < 0)
        return dt_fail(DT_ERR_INVALID, "--where %.64s: %s has no column %s", text, path, name);
    if (is_order(out->relation) && isnan(out->number))
        return dt_fail(DT_ERR_INVALID, "--where %.64s: \"%.64s\" is not a number", text, value);
    return DT_OK;
}

static bool meets(const struct dt_csv *csv, int row, const struct condition *c)
{
    const char *field = dt_csv_field(csv, row, c->column);
    double number = number_of(field);
    bool numbers = !isnan(number) && !isnan(c->number), equal = numbers ? number == c->number : strcmp(field, c->value) == 0;
    switch (c->relation) {
    case EQUAL: return equal;
    case DIFFERENT: return !equal;
    case LESS: return numbers && number < c->number;
    case AT_MOST: return numbers && number <= c->number;
    case MORE: return numbers && number > c->number;
    case AT_LEAST: return numbers && number >= c->number;
    }
    return false;
}

static void keep(struct dt_csv *csv, const struct condition *c)
{
    size_t columns = (size_t)csv->column_count;
    int kept = 0;
    for (int row = 0; row < csv->row_count; row++) {
        if (!meets(csv, row, c))
            continue;
        memmove(csv->fields + (size_t)kept * columns, csv->fields + (size_t)row * columns, columns * sizeof *csv->fields);
        csv->counts[kept] = csv->counts[row];
        csv->lines[kept++] = csv->lines[row];
    }
    csv->row_count = kept;
}

dt_status validate_where(struct dt_csv *csv, const char *path, const char *const *conditions, int count)
{
    for (int i = 0; i < count; i++) {
        struct condition condition = {.column = -1};
        DT_TRY(read_condition(csv, path, conditions[i], &condition));
        keep(csv, &condition);
        if (csv->row_count == 0)
            return dt_fail(DT_ERR_INVALID, "--where %.64s: no row of %s is left", conditions[i], path);
    }
    return DT_OK;
}

/* ---- columns ---- */

enum { NAMES = 9, MISTYPED = 3, OF_STUDY = 1, OF_MESHES = 2 };

/* A table's columns, each with its possible names, compared by letters and digits alone
 * (dt_same_name). Counts go to a member of struct measured_run; the rest of this file reads the
 * columns with a name in enum measured_column. */
static const struct column {
    const char *names[NAMES];
    unsigned needed;   /* the kinds of tables that need the column: OF_STUDY, OF_MESHES */
    unsigned counts;   /* the kinds of tables in which it is a count, at least 1, */
    size_t to;         /* stored in this int member; */
    int where_missing; /* the member's value where the field is empty; 0: unchanged */
    bool of_model;     /* the name of a published model gives it, too */
    bool of_local;     /* the local batch gives it, too */
    bool accumulated;  /* the number of accumulated micro-batches gives it, too */
    const char *unit;  /* unit of amounts */
} columns[] = {
#define COUNT(member) .to = offsetof(struct measured_run, member)
    [COLUMN_GPUS] = {.names = {"gpus", "num_gpus", "n_gpus", "world_size"},
                     .needed = OF_STUDY,
                     .counts = OF_STUDY | OF_MESHES,
                     COUNT(gpus)},
    [COLUMN_GPU] = {.names = {"gpu", "gpu_type", "gpu model", "accelerator"}},
    [COLUMN_EXPERT_RANKS] = {.names = {"ep", "expert_parallel", "expert_parallel_size", "expert_model_parallel_size"}},
    [COLUMN_MODEL] = {.names = {"model"}, .needed = OF_STUDY},
    [COLUMN_STEP_S] = {.names = {"step_s", "step time (s)", "iteration time (s)", "seconds per step", "train_step_timing in s",
                                 "iter time (s)", "iter_time_s", "step_time"},
                       .unit = "s"},
    [COLUMN_STEP_MS] = {.names = {"step_ms", "step time (ms)", "iteration time (ms)", "elapsed time per iteration (ms)", "iter time (ms)"},
                        .unit = "ms"},
    [COLUMN_TOKENS] = {.names = {"tokens_per_s_per_gpu", "tokens/s/gpu", "tok/s/gpu", "tps/gpu", "tgs"}, .unit = "tokens/s"},
    [COLUMN_PEAK_MB] = {.names = {"peak_mb"}, .unit = "MB"},
    [COLUMN_PEAK_GB] = {.names = {"peak_gb", "peak memory (GB)", "peak mem (GB)", "max memory (GB)", "memory (GB)", "peak_memory",
                                  "peak_mem", "max_memory", "memory"},
                        .unit = "GB"},
    [COLUMN_PEAK_GIB] = {.names = {"peak_mem_gib", "peak_memory_gib", "peak_gib", "memory (GiB)", "max_reserved (GiB)"}, .unit = "GiB"},
    [COLUMN_STATUS] = {.names = {"status", "result", "outcome", "state"}},
    [COLUMN_NOTES] = {.names = {"notes"}},
    [COLUMN_ACTIVATION] = {.names = {"activation"}},
    [COLUMN_PARADIGM] = {.names = {"paradigm"}, .needed = OF_STUDY},
    [COLUMN_FSDP_WRAP] = {.names = {"fsdp_wrap"}},
    [COLUMN_FSDP_GATHER] = {.names = {"fsdp_gather"}},
    [COLUMN_PARAMETER_OFFLOAD] = {.names = {"parameter_offload"}},
    [COLUMN_VOCAB] = {.names = {"vocab", "vocab_size"}},
    [COLUMN_DTYPE] = {.names = {"dtype", "precision"}},
    [COLUMN_TIED] = {.names = {"tied", "tied_emb", "tied_embeddings"}},
    [COLUMN_CONTEXT_COMM] = {.names = {"cp_comm_type"}},
    [COLUMN_ZERO] = {.names = {"zero/fsdp", "zero", "fsdp", "zero_stage"}},
    [COLUMN_ORDER] = {.names = {"schedule"}},
    [COLUMN_RECOMPUTE] = {.names = {"recompute", "recomputation", "activation_checkpointing", "activation_checkpoint",
                                    "gradient_checkpointing", "recompute_granularity", "ac"}},
    [COLUMN_SEQUENCE_PARALLEL] = {.names = {"seq_parallel", "sequence_parallel", "sequence parallelism"}},
    [COLUMN_GLOBAL_BATCH] = {.names = {"global_batch", "global_batch_size", "gbs", "train_batch_size"},
                             .needed = OF_MESHES,
                             .counts = OF_MESHES,
                             COUNT(global_batch),
                             .of_local = true,
                             .accumulated = true},
    [COLUMN_ACCUMULATED] = {.names = {"grad_acc", "gradient_accumulation_steps", "gradient_accumulation", "grad_accum", "gas"}},
    [COLUMN_LOCAL_BATCH] = {.names = {"local_batch_size", "local_batch"}, .counts = OF_MESHES, COUNT(local_batch)},
    {.names = {"gpus_per_node", "gpus/node"}, .counts = OF_STUDY | OF_MESHES, COUNT(gpus_per_node)},
    {.names = {"shard_size", "dp_shard"}, .counts = OF_STUDY | OF_MESHES, COUNT(shard_size)},
    {.names = {"batch_per_replica"}, .needed = OF_STUDY, .counts = OF_STUDY, COUNT(samples)},
    {.names = {"stages"}, .counts = OF_STUDY, COUNT(stages), .where_missing = 1},
    {.names = {"chunks"}, .counts = OF_STUDY, COUNT(chunks), .where_missing = 1},
    {.names = {"tp", "tensor_parallel", "tensor parallelism", "tensor_parallel_size", "tensor_model_parallel_size",
               "tensor_parallel_degree", "tp_size"},
     .counts = OF_MESHES,
     COUNT(tensor),
     .where_missing = 1},
    {.names = {"pp", "pipeline_parallel", "pipeline parallelism", "pipeline_parallel_size", "pipeline_model_parallel_size",
               "pipeline_parallel_degree", "pp_size"},
     .counts = OF_MESHES,
     COUNT(stages),
     .where_missing = 1},
    {.names = {"cp", "context", "context_parallel", "context parallelism", "context_parallel_size", "context_parallel_degree", "cp_size"},
     .counts = OF_MESHES,
     COUNT(contexts),
     .where_missing = 1},
    {.names = {"dp", "data_parallel", "data parallelism", "data_parallel_size", "dp_size"}, .counts = OF_MESHES, COUNT(data)},
    {.names = {"vpp", "virtual_stages"}, .counts = OF_MESHES, COUNT(virtual_stages), .where_missing = 1},
    {.names = {"layers", "num_layers", "n_layers", "n_layer", "num_hidden_layers"},
     .needed = OF_MESHES,
     .counts = OF_MESHES,
     COUNT(layers),
     .of_model = true},
    {.names = {"hidden", "hidden_size", "hidden_dim", "d_model", "n_embd"},
     .needed = OF_MESHES,
     .counts = OF_MESHES,
     COUNT(hidden),
     .of_model = true},
    {.names = {"heads", "attention_heads", "num_heads", "num_attention_heads", "n_heads", "n_head"},
     .needed = OF_MESHES,
     .counts = OF_MESHES,
     COUNT(heads),
     .of_model = true},
    {.names = {"seq", "seq_len", "seq_length", "sequence_length", "encoder_seq_length", "context_length", "block_size"},
     .needed = OF_MESHES,
     .counts = OF_MESHES,
     COUNT(sequence)},
    {.names = {"ffn", "ffn_hidden_size", "intermediate_size"}, .counts = OF_MESHES, COUNT(ffn)},
    {.names = {"kv_heads", "num_key_value_heads", "num_query_groups"}, .counts = OF_MESHES, COUNT(kv_heads)},
    {.names = {"micro_batch", "micro_batch_size", "mbs", "train_micro_batch_size_per_gpu", "pipeline_parallel_microbatch_size"},
     .needed = OF_MESHES,
     .counts = OF_MESHES,
     COUNT(micro_batch),
     .of_local = true},
#undef COUNT
};
enum { COLUMNS = sizeof columns / sizeof *columns };
_Static_assert(sizeof columns / sizeof *columns <= MEASURED_COLUMNS, "a table has room for all columns");

/* Columns for people, or that follow from others. */
static const char *const for_people[] = {"placement_known",     "step_s_stdev", "source_file", "source", "network",
                                         "tflops_per_gpu",      "mfu_pct",      "tflops/gpu",  "mfu",    "mfu (%)",
                                         "Parameters (billion)"};

static bool is_column(int column, const char *name)
{
    for (int i = 0; i < NAMES && columns[column].names[i]; i++)
        if (dt_same_name(columns[column].names[i], name))
            return true;
    return false;
}

static bool is_for_people(const char *name)
{
    for (size_t i = 0; i < sizeof for_people / sizeof *for_people; i++)
        if (dt_same_name(for_people[i], name))
            return true;
    return false;
}

static void find_columns(struct measured_table *t)
{
    for (int c = 0; c < COLUMNS; c++) {
        t->columns[c] = -1;
        for (int i = 0; i < t->csv.column_count && t->columns[c] < 0; i++)
            if (is_column(c, t->csv.names[i]))
                t->columns[c] = i;
    }
    t->is_study = t->columns[COLUMN_PARADIGM] >= 0;
}

/* Decimal commas, in a column of amounts where one cannot be anything else, are those of the whole
 * table. */
static void find_decimal_commas(struct measured_table *t)
{
    t->comma_is_decimal = t->csv.delimiter == ';';
    for (int c = 0; c < COLUMNS; c++)
        for (int row = 0; row < t->csv.row_count && columns[c].unit; row++)
            t->comma_is_decimal |= validate_has_decimal_comma(dt_csv_field(&t->csv, row, t->columns[c]));
}

/* The table's name of a column, or the first name that it is searched by. */
const char *measured_name(const struct measured_table *t, int column)
{
    return t->columns[column] >= 0 ? t->csv.names[t->columns[column]] : columns[column].names[0];
}

/* Does the column have a number of experts, or whether there are any? */
static bool is_of_experts(const char *name)
{
    return strcasestr(name, "expert") || strcasestr(name, "moe");
}

/* Is the column used, meant for people, or without a name? */
static bool is_known(const struct measured_table *t, int i)
{
    const char *name = t->csv.names[i];
    bool known = is_for_people(name) || is_of_experts(name) || !*name;
    for (int c = 0; c < COLUMNS; c++)
        known |= t->columns[c] == i;
    return known;
}

/* The column that is used instead of column i, which means the same; NULL: none. */
static const char *used_instead(const struct measured_table *t, int i)
{
    for (int c = 0; c < COLUMNS; c++)
        if (is_column(c, t->csv.names[i]))
            return t->csv.names[t->columns[c]];
    return NULL;
}

void measured_table_unused(const struct measured_table *t, char *text, size_t text_bytes)
{
    *text = 0;
    size_t used = 0;
    for (int i = 0; i < t->csv.column_count && used + 1 < text_bytes; i++) {
        const char *name = t->csv.names[i], *nearest = NULL, *other_name = used_instead(t, i);
        if (is_known(t, i))
            continue;
        for (int c = 0; c < COLUMNS; c++) {
            const char *other = columns[c].names[0];
            if (t->columns[c] < 0 && (!nearest || dt_edit_distance(name, other) < dt_edit_distance(name, nearest)))
                nearest = other;
        }
        bool near = !other_name && nearest && dt_edit_distance(name, nearest) <= MISTYPED;
        snprintf(text + used, text_bytes - used, "%s%.64s%s%.64s%s", used ? ", " : "", name,
                 other_name ? " (there is "
                 : near     ? " (did you mean "
                            : "",
                 other_name ? other_name
                 : near     ? nearest
                            : "",
                 other_name ? ")"
                 : near     ? "?)"
                            : "");
        used = strlen(text);
    }
}

static unsigned kind_of(const struct measured_table *t)
{
    return t->is_study ? OF_STUDY : OF_MESHES;
}

/* A column of the count that goes to this member of struct measured_run. */
static bool has_count(const struct measured_table *t, size_t to)
{
    bool has = false;
    for (int c = 0; c < COLUMNS; c++)
        has |= t->columns[c] >= 0 && columns[c].counts && columns[c].to == to;
    return has;
}

/* A column of dp, tp, pp or cp. */
static bool has_degrees(const struct measured_table *t)
{
    return has_count(t, offsetof(struct measured_run, data)) || has_count(t, offsetof(struct measured_run, tensor)) ||
           has_count(t, offsetof(struct measured_run, stages)) || has_count(t, offsetof(struct measured_run, contexts));
}

static dt_status check_columns(const struct measured_table *t)
{
    char unused[512];
    measured_table_unused(t, unused, sizeof unused);
    for (int c = 0; c < COLUMNS; c++)
        if (columns[c].needed & kind_of(t) && t->columns[c] < 0 && !(columns[c].of_model && t->columns[COLUMN_MODEL] >= 0) &&
            !(columns[c].of_local && t->columns[COLUMN_LOCAL_BATCH] >= 0) &&
            !(columns[c].accumulated && t->columns[COLUMN_ACCUMULATED] >= 0))
            return dt_fail(DT_ERR_INVALID, "%s:1: there is no column %s%s%s", t->path, columns[c].names[0], *unused ? "; not used: " : "",
                           unused);
    for (int i = 0; i < t->csv.column_count && !has_degrees(t); i++)
        if (dt_same_name(t->csv.names[i], "parallelism") || dt_same_name(t->csv.names[i], "parallel strategy"))
            return dt_fail(DT_ERR_INVALID, "%s:1: %s: expected its numbers in separate columns: dp, tp, pp, cp", t->path, t->csv.names[i]);
    if (t->columns[COLUMN_GPUS] < 0 && !has_count(t, offsetof(struct measured_run, data)))
        return dt_fail(DT_ERR_INVALID, "%s:1: there is no column gpus, nor dp, from which tp, pp and cp would give it%s%s", t->path,
                       *unused ? "; not used: " : "", unused);
    return t->csv.row_count ? DT_OK : dt_fail(DT_ERR_INVALID, "%s: no rows", t->path);
}

/* A second line of the heading is none of the runs, and its units would be lost. */
static dt_status check_first_row(const struct measured_table *t)
{
    for (int c = 0; c < COLUMNS; c++) {
        char word[16];
        const char *text = t->csv.row_count ? dt_csv_field(&t->csv, 0, t->columns[c]) : "";
        text += strspn(text, "([ ");
        snprintf(word, sizeof word, "%.*s", (int)strcspn(text, ")] "), text);
        if (columns[c].unit && *word && validate_is_unit(word))
            return dt_fail(DT_ERR_INVALID, "%s:%d: a line of units, not of a run: write them into the first line, \"%s (%s)\"", t->path,
                           t->csv.lines[0], measured_name(t, c), word);
    }
    return DT_OK;
}

dt_status measured_table_read(const char *path, struct measured_table *out)
{
    *out = (struct measured_table){.path = path};
    DT_TRY(rates_csv_read(path, &out->csv));
    find_columns(out);
    find_decimal_commas(out);
    DT_TRY(check_columns(out));
    return check_first_row(out);
}

void measured_table_finish(struct measured_table *t)
{
    dt_csv_finish(&t->csv);
}

/* ---- fields ---- */

const char *measured_text(const struct measured_table *t, int row, int column)
{
    const char *text = dt_csv_field(&t->csv, row, t->columns[column]);
    return validate_is_missing(text) ? "" : text;
}

void validate_reason(const char *path, int line, char *text, size_t text_bytes)
{
    char where[512];
    int length = snprintf(where, sizeof where, "%.400s:%d: ", path, line);
    const char *error = dt_error_message();
    snprintf(text, text_bytes, "%s", strncmp(error, where, (size_t)length) == 0 ? error + length : error);
}

static dt_status measured_wrong(const struct measured_table *t, int row, int column, const char *expected)
{
    if (!*measured_text(t, row, column))
        return dt_fail(DT_ERR_INVALID, "%s:%d: %s: no value; expected %s", t->path, t->csv.lines[row], measured_name(t, column), expected);
    return dt_fail(DT_ERR_INVALID, "%s:%d: %s: \"%.64s\" is not %s", t->path, t->csv.lines[row], measured_name(t, column),
                   measured_text(t, row, column), expected);
}

/* NAN: not a number. */
static double measured_number(const struct measured_table *t, int row, int column)
{
    const char *unit = columns[column].unit;
    return validate_number(measured_text(t, row, column), unit ? unit : "", unit ? t->comma_is_decimal : t->csv.delimiter == ';');
}

static dt_status measured_count(const struct measured_table *t, int row, int column, int *out)
{
    const char *text = measured_text(t, row, column), *mark = strpbrk(text, ".,");
    double value = measured_number(t, row, column);
    bool thousands = mark && strlen(mark) == 4 && value < 1000; /* "2.000" */
    if (!(value >= 1) || value > 1 << 24 || value != floor(value) || thousands)
        return measured_wrong(t, row, column, "a whole number from 1");
    *out = (int)value;
    return DT_OK;
}

/* Read all counts of a row of this kind of table. */
static dt_status counts_in(const struct measured_table *t, int row, struct measured_run *run)
{
    for (int c = 0; c < COLUMNS; c++) {
        int *to = (int *)((char *)run + columns[c].to);
        if (!(columns[c].counts & kind_of(t)))
            continue;
        bool told_otherwise = columns[c].of_model || (columns[c].of_local && *measured_text(t, row, COLUMN_LOCAL_BATCH)) ||
                              (columns[c].accumulated && *measured_text(t, row, COLUMN_ACCUMULATED));
        if (*measured_text(t, row, c) || (columns[c].needed & kind_of(t) && !told_otherwise))
            DT_TRY(measured_count(t, row, c, to));
        else if (columns[c].where_missing)
            *to = columns[c].where_missing;
    }
    return DT_OK;
}

static bool begins_with(const char *text, const char *name)
{
    return name && strncasecmp(text, name, strlen(name)) == 0;
}

bool measured_is_oom(const struct measured_table *t, int row, enum measured_column column)
{
    const char *text = measured_text(t, row, column);
    return strcasestr(text, "oom") || strcasestr(text, "out of memory");
}

dt_status measured_amount(const struct measured_table *t, int row, enum measured_column column, double *out)
{
    const char *unit = columns[column].unit;
    char expected[64];
    double value = measured_number(t, row, column);
    *out = NAN;
    if (!*measured_text(t, row, column))
        return DT_OK;
    snprintf(expected, sizeof expected, "a number above 0, or one with a unit such as %s", unit);
    if (!isfinite(value) || value <= 0)
        return measured_wrong(t, row, column, expected);
    *out = value;
    return DT_OK;
}

/* The field's index among `names`, which are separated by commas; -1: the field is empty. */
static dt_status measured_choice(const struct measured_table *t, int row, enum measured_column column, const char *choices, int *out)
{
    const char *text = measured_text(t, row, column);
    size_t length = strlen(text);
    char expected[160];
    *out = 0;
    for (const char *name = choices; *text; name += strcspn(name, ",") + 1, ++*out) {
        size_t name_length = strcspn(name, ",");
        if (name_length == length && memcmp(name, text, length) == 0)
            return DT_OK;
        if (!name[name_length]) {
            snprintf(expected, sizeof expected, "one of %s", choices);
            return measured_wrong(t, row, column, expected);
        }
    }
    *out = -1;
    return DT_OK;
}

/* Read yes or no, perhaps with words after it. `told` is false where the field is empty. */
static dt_status measured_yes(const struct measured_table *t, int row, enum measured_column column, bool *told, bool *yes)
{
    static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
    const char *text = measured_text(t, row, column);
    *told = *yes = false;
    for (size_t i = 0; !*told && i < sizeof words / sizeof *words; i++) {
        *told = begins_with(text, words[i]) && strchr(" ", text[strlen(words[i])]);
        *yes = *told && i % 2;
    }
    return *text && !*told ? measured_wrong(t, row, column, "one of yes, no") : DT_OK;
}

/* Read what fsdp gathers at a time, and whether once a step or for each micro-batch. */
static dt_status units_in(const struct measured_table *t, int row, struct measured_run *run)
{
    DT_TRY(measured_choice(t, row, COLUMN_FSDP_WRAP, "block,linear,unknown", &run->wrap));
    return measured_choice(t, row, COLUMN_FSDP_GATHER, "micro_batch,step", &run->gather);
}

/* ---- rows of results/study/measured.csv ---- */

/* Read one of the study's paradigms, or hsdp, which newer measurements have. */
static dt_status paradigm_in(const struct measured_table *t, int row, enum paradigm_kind *out)
{
    static const enum paradigm_kind known[] = {PARADIGM_NONE, PARADIGM_DDP, PARADIGM_PDP, PARADIGM_FSDP, PARADIGM_HSDP};
    char expected[160] = "one of ";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *name = paradigm_name(known[i]);
        size_t used = strlen(expected);
        *out = known[i];
        if (strcmp(measured_text(t, row, COLUMN_PARADIGM), name) == 0)
            return DT_OK;
        snprintf(expected + used, sizeof expected - used, "%s%s", i ? "," : "", name);
    }
    return measured_wrong(t, row, COLUMN_PARADIGM, expected);
}

static dt_status preset_in(const struct measured_table *t, int row, struct measured_run *run)
{
    const char *text = measured_text(t, row, COLUMN_MODEL), *owner = strrchr(text, '/'), *nearest = model_preset(0, &run->family)->name;
    text = owner ? owner + 1 : text;
    for (int i = 0; (run->preset = model_preset(i, &run->family)); i++) {
        if (dt_same_name(run->preset->name, text))
            return DT_OK;
        if (dt_edit_distance(text, run->preset->name) < dt_edit_distance(text, nearest))
            nearest = run->preset->name;
    }
    return dt_fail(DT_ERR_INVALID, "%s:%d: model: there is no %.64s; did you mean %s?", t->path, t->csv.lines[row], text, nearest);
}

static bool has_stages(const struct measured_run *run)
{
    return paradigm_of(run->paradigm)->axes & MESH_ON_PIPELINE;
}

dt_status measured_run_of_study(const struct measured_table *t, int i, struct measured_run *run)
{
    int policy;
    *run = (struct measured_run){.dtype = "fp16",
                                 .attention = "unfused",
                                 .loss = "sum",
                                 .tensor = 1,
                                 .contexts = 1,
                                 .micro_batches = 1,
                                 .virtual_stages = 1,
                                 .split = SPLIT_BY_PARAMETERS};
    DT_TRY(paradigm_in(t, i, &run->paradigm));
    DT_TRY(preset_in(t, i, run));
    DT_TRY(counts_in(t, i, run));
    DT_TRY(measured_choice(t, i, COLUMN_ACTIVATION, "keep,checkpoint,offload", &policy));
    run->activation = policy < 0 ? ACTIVATION_KEEP : (enum activation_kind)policy;
    DT_TRY(units_in(t, i, run));
    DT_TRY(measured_choice(t, i, COLUMN_PARAMETER_OFFLOAD, "0,1", &run->offload));
    if (run->stages > 1 && !has_stages(run))
        return dt_fail(DT_ERR_INVALID, "%s:%d: stages: %d, but only pdp has stages", t->path, t->csv.lines[i], run->stages);
    if (run->samples % run->stages)
        snprintf(run->reason, sizeof run->reason, "batch_per_replica %d is not a multiple of %d stages", run->samples, run->stages);
    return DT_OK;
}

/* ---- rows of tables of meshes ---- */

/* Is `text` a name of the paradigm: ZeRO's stage, FSDP's version or sharding strategy, or dtbench's
 * own? */
static bool is_called(const struct paradigm *paradigm, const char *text)
{
    for (const char *const *name = paradigm->abroad; name && *name; name++)
        if (dt_same_name(*name, text))
            return true;
    return paradigm->axes & MESH_ON_SHARD && dt_same_name(paradigm->name, text);
}

/* "zero1 group=8", "HSDP (shard 8)": the number of ranks that share one copy follows the name. */
static dt_status group_in(const struct measured_table *t, int row, char name[64], struct measured_run *run)
{
    snprintf(name, 64, "%s", measured_text(t, row, COLUMN_ZERO));
    char *group = strpbrk(name, " (,;"), *end;
    if (!group || !strpbrk(group, "0123456789"))
        return DT_OK;
    long size = strtol(strpbrk(group, "0123456789"), &end, 10);
    if (end[strspn(end, " )")] || size < 1 || size > 1 << 20)
        return measured_wrong(t, row, COLUMN_ZERO, "a name and the ranks of a group, such as \"zero1 group=8\"");
    *group = '\0';
    run->shard_size = (int)size;
    return DT_OK;
}

static dt_status replicas_in(const struct measured_table *t, int row, struct measured_run *run)
{
    char name[64];
    int i = 0;
    DT_TRY(group_in(t, row, name, run));
    while (paradigm_of((enum paradigm_kind)i) && !is_called(paradigm_of((enum paradigm_kind)i), name))
        i++;
    if (!paradigm_of((enum paradigm_kind)i))
        return measured_wrong(t, row, COLUMN_ZERO,
                              "one of none, ddp, zero0 to zero3, fsdp, fsdp2, hsdp, NO_SHARD, SHARD_GRAD_OP, FULL_SHARD, HYBRID_SHARD");
    run->paradigm = (enum paradigm_kind)i;
    if (run->stages > 1 && run->paradigm == PARADIGM_DDP)
        run->paradigm = PARADIGM_PDP;
    else if (run->data == 1 && run->stages == 1 && run->tensor == 1 && run->contexts == 1)
        run->paradigm = PARADIGM_NONE;
    return DT_OK;
}

static void order_in(const struct measured_table *t, int row, struct measured_run *run)
{
    const char *text = measured_text(t, row, COLUMN_ORDER);
    const struct pipeline_order *order;
    const bool interleaved = strcasestr(text, "interleav") != NULL;
    run->order = *text && !interleaved ? NULL : interleaved || run->virtual_stages > 1 ? "interleaved" : "1f1b";
    for (int i = 0; !run->order && (order = pipeline_order_at(i)); i++)
        if (begins_with(text, order->name) || begins_with(text, order->abroad))
            run->order = order->name;
    for (int i = 0; run->order && run->virtual_stages < 2 && (order = pipeline_order_at(i)); i++)
        if (order->parts && strcmp(order->name, run->order) == 0)
            run->virtual_stages = order->parts; /* an order may have a number of its own */
    if (!run->order)
        snprintf(run->reason, sizeof run->reason, "schedule \"%.64s\" is not known", text);
    if (interleaved && run->virtual_stages < 2)
        snprintf(run->reason, sizeof run->reason, "schedule \"%.64s\": vpp has no number of parts a rank", text);
}

static void context_in(const struct measured_table *t, int row, struct measured_run *run)
{
    const char *text = measured_text(t, row, COLUMN_CONTEXT_COMM);
    for (int i = 0; *text && !run->comm_type && context_kind_name(i); i++)
        run->comm_type = strcmp(context_kind_name(i), text) == 0 ? context_kind_name(i) : NULL;
    if (*text && !run->comm_type)
        snprintf(run->reason, sizeof run->reason, "context parallelism by \"%.64s\"", text);
}

static void numbers_in(const struct measured_table *t, int row, struct measured_run *run)
{
    const char *text = measured_text(t, row, COLUMN_DTYPE);
    if (strcasestr(text, "fp8") || strcasestr(text, "float8")) {
        run->fp8 = DT_FP8_DELAYED; /* Transformer Engine's own */
        for (int i = DT_FP8_NONE + 1; i < DT_FP8_RECIPES; i++)
            if (strcasestr(text, dt_fp8_recipe((enum dt_fp8)i)->name))
                run->fp8 = (enum dt_fp8)i;
        run->fp8_gather = strcasestr(text, "gather");
    }
    static const char *const known[] = {"16", "32", "bf", "fp8", "half", "mixed", "amp", "float", "single"};
    bool is_known = !*text;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        is_known |= strcasestr(text, known[i]) != NULL;
    static const char *const others[] = {"tf32", "64", "fp4", "int", "4bit", "4-bit", "8bit", "8-bit"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        is_known &= strcasestr(text, others[i]) == NULL;
    if (!is_known)
        snprintf(run->reason, sizeof run->reason, "%s \"%.64s\" is not known", measured_name(t, COLUMN_DTYPE), text);
    run->dtype = strcasestr(text, "bf") || (run->fp8 && !strstr(text, "16")) ? "bf16"
                 : (strstr(text, "32") && !strstr(text, "16")) || strcasecmp(text, "float") == 0 || strcasecmp(text, "single") == 0
                     ? "fp32"
                     : "fp16";
    run->wide_gradients = strcasestr(text, "fp32 grad") && strcmp(run->dtype, "fp32") != 0;
}

static void recomputed_in(const struct measured_table *t, int row, struct measured_run *run)
{
    /* The first row matches whose words the text begins with. Korthikanti et al.'s "selective" is
     * Megatron-LM's. */
    static const struct {
        const char *begins;
        enum activation_kind activation;
    } words[] = {{"no", ACTIVATION_KEEP},
                 {"none", ACTIVATION_KEEP},
                 {"false", ACTIVATION_KEEP},
                 {"off", ACTIVATION_KEEP},
                 {"yes", ACTIVATION_CHECKPOINT},
                 {"true", ACTIVATION_CHECKPOINT},
                 {"on", ACTIVATION_CHECKPOINT},
                 {"full", ACTIVATION_CHECKPOINT},
                 {"checkpoint", ACTIVATION_CHECKPOINT},
                 {"checkpointing", ACTIVATION_CHECKPOINT},
                 {"selective op", ACTIVATION_SELECTIVE_OP},
                 {"selective_op", ACTIVATION_SELECTIVE_OP},
                 {"selective-op", ACTIVATION_SELECTIVE_OP},
                 {"op", ACTIVATION_SELECTIVE_OP},
                 {"per op", ACTIVATION_SELECTIVE_OP},
                 {"selective", ACTIVATION_CORE_ATTENTION},
                 {"core", ACTIVATION_CORE_ATTENTION}};
    const char *text = measured_text(t, row, COLUMN_RECOMPUTE);
    bool known = !*text;
    for (size_t i = 0; !known && i < sizeof words / sizeof *words; i++)
        if (begins_with(text, words[i].begins) && !isalpha((unsigned char)text[strlen(words[i].begins)])) {
            run->activation = words[i].activation;
            known = true;
        }
    const char *number = strpbrk(text, "0123456789");
    if (known && run->activation == ACTIVATION_CORE_ATTENTION && number) { /* every n-th block */
        run->activation = ACTIVATION_CHECKPOINT;
        run->activation_every = atoi(number);
    }
    if (!known || (number && run->activation_every < 1))
        snprintf(run->reason, sizeof run->reason, "%s \"%.64s\" is not known", measured_name(t, COLUMN_RECOMPUTE), text);
}

/* Read a vocabulary size, or a rounded one in thousands ("250k"). */
static dt_status vocabulary_in(const struct measured_table *t, int row, struct measured_run *run)
{
    const char *text = measured_text(t, row, COLUMN_VOCAB);
    char *end;
    double thousands = strtod(text, &end);
    if (end == text || strcasecmp(end, "k") != 0 || !(thousands > 0) || thousands > 1 << 14)
        return measured_count(t, row, COLUMN_VOCAB, &run->vocab);
    run->vocab = (int)lround(1000 * thousands);
    snprintf(run->note, sizeof run->note, "%s %.32s is taken as %d", measured_name(t, COLUMN_VOCAB), text, run->vocab);
    return DT_OK;
}

/* Take the sizes of a published model by its name. */
static dt_status sizes_of_preset(const struct measured_table *t, int row, struct measured_run *run)
{
    DT_TRY(preset_in(t, row, run));
    if (run->family != model_family(0))
        return measured_wrong(t, row, COLUMN_MODEL, "a model that is trained on tokens");
    const struct dt_model model = model_of_preset(run->preset, run->family);
    run->layers = dt_model_blocks(&model);
    return DT_OK;
}

static dt_status model_in(const struct measured_table *t, int row, struct measured_run *run)
{
    bool told;
    run->family = model_family(0);
    if (!run->layers && !run->hidden && !run->heads && *measured_text(t, row, COLUMN_MODEL))
        DT_TRY(sizes_of_preset(t, row, run));
    for (int c = 0; c < COLUMNS && !run->preset; c++)
        if (columns[c].of_model && !*(int *)((char *)run + columns[c].to))
            return measured_wrong(t, row, c, "a whole number from 1");
    run->ffn = run->ffn ? run->ffn : 4 * run->hidden;
    run->kv_heads = run->kv_heads ? run->kv_heads : run->heads;
    DT_TRY(measured_yes(t, row, COLUMN_TIED, &told, &run->tied));
    return *measured_text(t, row, COLUMN_VOCAB) ? vocabulary_in(t, row, run) : DT_OK;
}

/* Stages have equal numbers of blocks in Megatron-LM (megatron/model/transformer.py, --num-layers)
 * and DeepSpeed (pipe/module.py, type:transformer). Where the number of blocks is not divisible,
 * but would be with two more, embedding and head count as one block each (Qi et al., arXiv
 * 2401.10241, section 5.1). Else DeepSpeed fills one stage after the other: of 78 blocks on 12
 * stages the last has one (bigscience-workshop/bigscience,
 * train/tr11-176B-ml/chronicles-prequel.md, "Re-do"). */
static void split_in(const struct measured_table *t, int row, struct measured_run *run)
{
    int parts = run->stages * run->virtual_stages, filled = (run->layers + parts - 1) / parts;
    bool deepspeed = strcasestr(measured_text(t, row, COLUMN_ORDER), "deepspeed") && (parts - 1) * filled < run->layers;
    run->split = run->layers % parts == 0         ? SPLIT_EQUAL_BLOCKS
                 : (run->layers + 2) % parts == 0 ? SPLIT_EQUAL_BUT_ENDS
                 : deepspeed                      ? SPLIT_FILLED
                                                  : SPLIT_BALANCED;
}

/* What the table says of a replica's batch before it is accumulated. Without pipelines it is the
 * micro-batch; with them torchtitan cuts it into micro-batches of one sample, and the global batch
 * is that of all replicas, unless more is said (torchtitan/config/job_config.py, local_batch_size,
 * global_batch_size, pipeline_parallel_microbatch_size). */
static void local_batch_in(struct measured_run *run)
{
    if (!run->micro_batch && run->stages > 1)
        snprintf(run->note, sizeof run->note, "micro-batches have one sample, torchtitan's default");
    run->micro_batch = run->micro_batch ? run->micro_batch : run->stages > 1 ? 1 : run->local_batch;
    run->global_batch = run->global_batch ? run->global_batch : run->local_batch * run->data;
    if (run->stages == 1 ? run->micro_batch != run->local_batch : run->local_batch % run->micro_batch)
        snprintf(run->reason, sizeof run->reason, "a local batch of %d, and micro-batches of %d", run->local_batch, run->micro_batch);
    else if (run->stages > 1 && run->global_batch != run->local_batch * run->data)
        snprintf(run->reason, sizeof run->reason, "global_batch is not dp times the local batch: pipelines that run several times a step");
}

/* Divide a replica's batch into micro-batches: chunks of a pipeline, or else gradient
 * accumulation. */
static void batch_in(struct measured_run *run)
{
    run->samples = run->global_batch / run->data;
    int parts = run->samples / run->micro_batch;
    run->chunks = run->stages > 1 ? parts : 1;
    run->micro_batches = run->stages > 1 ? 1 : parts;
    if (!*run->reason && (run->global_batch % run->data || run->samples % run->micro_batch || parts < 1))
        snprintf(run->reason, sizeof run->reason, "global_batch is not a multiple of dp times micro_batch");
}

/* Read kernels as in aleph_alpha_layouts.csv (results/validation): "kernel=torch" and
 * "kernel=fused", whose attention keeps all its weights in memory, and "+ RMS kernel". */
static void kernels_in(const struct measured_table *t, int i, struct measured_run *run)
{
    const char *notes = measured_text(t, i, COLUMN_NOTES);
    if (strstr(notes, "kernel="))
        run->norm = strstr(notes, "RMS kernel") ? NORM_IN_KERNEL : NORM_IN_OPERATIONS;
    run->first_flash_attention = strstr(notes, "kernel=flash_attentionv1") != NULL;
    if (strstr(notes, "kernel=torch"))
        run->norm = NORM_AND_SOFTMAX_IN_OPERATIONS;
    if (strstr(notes, "kernel=torch") || strstr(notes, "kernel=fused"))
        run->attention = "unfused";
}

/* "Mixtral", "GPT-MoE 1.3B", "8x7B" */
static bool names_experts(const char *model)
{
    bool has = strcasestr(model, "mixtral") || strcasestr(model, "moe");
    for (const char *x = model; !has && (x = strpbrk(x, "xX")); x++) {
        size_t digits = strspn(x + 1, "0123456789.");
        has = x > model && isdigit((unsigned char)x[-1]) && digits > 0 && strchr("bB", x[1 + digits]) && x[1 + digits];
    }
    return has;
}

/* Give rows with experts a reason: dtbench's models are dense. */
static void experts_in(const struct measured_table *t, int row, struct measured_run *run)
{
    static const char *const none[] = {"0", "1", "no", "none", "false"};
    const char *model = measured_text(t, row, COLUMN_MODEL);
    for (int i = 0; i < t->csv.column_count; i++) {
        const char *text = dt_csv_field(&t->csv, row, i);
        bool has = (is_of_experts(t->csv.names[i]) || i == t->columns[COLUMN_EXPERT_RANKS]) && !validate_is_missing(text);
        for (size_t n = 0; n < sizeof none / sizeof *none; n++)
            has &= strcasecmp(text, none[n]) != 0;
        if (has)
            snprintf(run->reason, sizeof run->reason, "%.64s %.64s: dtbench has no mixture of experts", t->csv.names[i], text);
    }
    if (names_experts(model))
        snprintf(run->reason, sizeof run->reason, "model %.64s: dtbench has no mixture of experts", model);
}

/* The micro-batches that are accumulated, of all replicas, are the global batch, whether the table
 * says that or not. */
static dt_status accumulated_in(const struct measured_table *t, int row, struct measured_run *run)
{
    int parts;
    const bool told = run->global_batch > 0;
    if (told && !(measured_number(t, row, COLUMN_ACCUMULATED) >= 1)) /* "16 (recipe)" and the like */
        return DT_OK;
    DT_TRY(measured_count(t, row, COLUMN_ACCUMULATED, &parts));
    const long long all = (long long)parts * run->micro_batch * run->data;
    if (!told && all > 1 << 24)
        return measured_wrong(t, row, COLUMN_ACCUMULATED, "a number of micro-batches for so many GPUs");
    run->global_batch = told ? run->global_batch : (int)all;
    if (all != run->global_batch)
        snprintf(run->reason, sizeof run->reason, "%s %d times dp times micro_batch is %lld, and global_batch is %d",
                 measured_name(t, COLUMN_ACCUMULATED), parts, all, run->global_batch);
    return DT_OK;
}

dt_status measured_run_of_mesh(const struct measured_table *t, int i, struct measured_run *run)
{
    *run = (struct measured_run){.attention = "fused", .loss = "cross_entropy", .optimizer = "adam"};
    DT_TRY(counts_in(t, i, run));
    DT_TRY(units_in(t, i, run));
    long long copy = (long long)run->tensor * run->stages * run->contexts;
    if (!run->gpus && (!run->data || copy * run->data > 1 << 24))
        return measured_wrong(t, i, COLUMN_GPUS, "a whole number from 1");
    if (!run->gpus)
        run->gpus = (int)(copy * run->data);
    if (!run->data)
        run->data = copy < run->gpus ? (int)(run->gpus / copy) : 1;
    DT_TRY(model_in(t, i, run));
    DT_TRY(replicas_in(t, i, run));
    if (run->local_batch)
        local_batch_in(run);
    DT_TRY(accumulated_in(t, i, run));
    batch_in(run);
    run->gpus_per_node = run->gpus_per_node > run->gpus
                             ? run->gpus
                             : run->gpus_per_node; /* the table's number is the GPUs that a node has, not those that are used */
    DT_TRY(measured_yes(t, i, COLUMN_SEQUENCE_PARALLEL, &run->sequence_parallel_told, &run->sequence_parallel));
    kernels_in(t, i, run);
    numbers_in(t, i, run);
    recomputed_in(t, i, run);
    if (run->stages > 1) {
        order_in(t, i, run);
        split_in(t, i, run);
    }
    context_in(t, i, run);
    experts_in(t, i, run);
    if (run->shard_size && run->shard_size < run->data && run->paradigm == PARADIGM_FSDP)
        run->paradigm = PARADIGM_HSDP;
    else if (run->shard_size && run->shard_size != run->data && run->paradigm != PARADIGM_HSDP)
        snprintf(run->reason, sizeof run->reason, "%s in groups of %d of %d replicas", paradigm_name(run->paradigm), run->shard_size,
                 run->data);
    if (run->data * copy != run->gpus)
        snprintf(run->reason, sizeof run->reason, "%d GPUs are not dp times tp times pp times cp", run->gpus);
    return DT_OK;
}
