#include "cli/predict/validate.h"

#include "cli/text/text.h"
#include "lib/base/text.h"
#include "predict/rates.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Whether a field meets a condition. Two numbers are compared as numbers. */
static bool meets(const char *field, const struct option_condition *c)
{
    char *end;
    double number = strtod(field, &end);
    if (*field && !*end && !isnan(c->number) && !isnan(number))
        return option_condition_holds(c, number);
    return !option_condition_orders(c) && (strcmp(field, c->value) == 0) == (c->relation == RELATION_IS);
}

static void keep(struct dt_csv *csv, int column, const struct option_condition *c)
{
    size_t columns = (size_t)csv->column_count;
    int kept = 0;
    for (int row = 0; row < csv->row_count; row++) {
        if (!meets(dt_csv_field(csv, row, column), c))
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
        struct option_condition c;
        const char *text = conditions[i];
        if (!option_condition_read(text, &c))
            return dt_fail(DT_ERR_INVALID, "--where %.64s: expected COLUMN=VALUE, or with !=, <, <=, >, >=", text);
        int column = dt_csv_column(csv, c.key);
        if (column < 0)
            return dt_fail(DT_ERR_INVALID, "--where %.64s: %s has no column %s", text, path, c.key);
        if (option_condition_orders(&c) && isnan(c.number))
            return dt_fail(DT_ERR_INVALID, "--where %.64s: \"%.64s\" is not a number", text, c.value);
        keep(csv, column, &c);
        if (csv->row_count == 0)
            return dt_fail(DT_ERR_INVALID, "--where %.64s: no row of %s is left", text, path);
    }
    return DT_OK;
}

/* ---- columns ---- */

enum { NAMES = 10, OF_STUDY = 1, OF_MESHES = 2 };

/* A table's columns, each with its possible names, compared by their words (is_called). Counts go to a member of struct measured_run; validate_rows.c reads the columns
 * with a name in enum measured_column. */
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
    [COLUMN_GPUS] = {.names = {"gpus", "world_size"}, .needed = OF_STUDY, .counts = OF_STUDY | OF_MESHES, COUNT(gpus)},
    [COLUMN_GPU] = {.names = {"gpu", "gpu_type", "gpu model", "accelerator", "system", "hardware"}},
    [COLUMN_EXPERT_RANKS] = {.names = {"ep", "ep_size", "expert_parallel", "expert_model_parallel"}},
    [COLUMN_MODEL] = {.names = {"model"}, .needed = OF_STUDY},
    [COLUMN_STEP_S] = {.names = {"step_s", "seconds per step", "step_time", "time per step", "time per global step",
                                 "elapsed time per step", "training step time", "train_step_timing"},
                       .unit = "s"},
    [COLUMN_STEP_MS] = {.names = {"step_ms", "ms per step"}, .unit = "ms"},
    [COLUMN_TOKENS] = {.names = {"tokens_per_s_per_gpu", "tokens per gpu per second", "throughput (tokens/s/gpu)", "tps/gpu", "tgs",
                                 "throughput(tps)" /* torchtitan */, "throughput/device/tokens_per_sec" /* Composer */},
                       .unit = "tokens/s/gpu"},
    [COLUMN_ALL_TOKENS] = {.names = {"total_tokens_per_s", "tokens/s (all GPUs)", "global tokens/s", "cluster tokens/s"},
                           .unit = "tokens/s"},
    [COLUMN_SAMPLES] = {.names = {"samples_per_s", "throughput (samples/s)", "SamplesPerSec", "RunningAvgSamplesPerSec"},
                        .unit = "samples/s"},
    [COLUMN_PEAK_MB] = {.names = {"peak_mb"}, .unit = "MB"},
    [COLUMN_PEAK_GB] = {.names = {"peak_gb", "memory", "memory/gpu", "gpu memory", "max_memory", "max gpu memory", "max memory/gpu",
                                  "max_reserved", "memory/max_reserved", "memory/peak_reserved_mem"},
                        .unit = "GB"},
    [COLUMN_PEAK_GIB] = {.names = {"peak_mem_gib", "peak_gib"}, .unit = "GiB"},
    [COLUMN_STATUS] = {.names = {"status", "result", "outcome", "state"}},
    [COLUMN_NOTES] = {.names = {"notes"}},
    [COLUMN_ACTIVATION] = {.names = {"activation"}},
    [COLUMN_PARADIGM] = {.names = {"paradigm"}, .needed = OF_STUDY},
    [COLUMN_FSDP_WRAP] = {.names = {"fsdp_wrap"}},
    [COLUMN_FSDP_GATHER] = {.names = {"fsdp_gather"}},
    [COLUMN_PARAMETER_OFFLOAD] = {.names = {"parameter_offload"}},
    [COLUMN_VOCAB] = {.names = {"vocab", "vocabulary"}},
    [COLUMN_DTYPE] = {.names = {"dtype", "precision", "datatype"}},
    [COLUMN_TIED] = {.names = {"tied", "tied_emb", "tied_embeddings"}},
    [COLUMN_CONTEXT_COMM] = {.names = {"cp_comm_type"}},
    [COLUMN_ZERO] = {.names = {"zero/fsdp", "zero", "fsdp", "zero_stage", "sharding_strategy", "sharding", "strategy", "dp_strategy",
                               "parallel strategy", "parallelism"}},
    [COLUMN_ORDER] = {.names = {"schedule"}},
    [COLUMN_RECOMPUTE] = {.names = {"recompute", "recomputation", "activation_checkpointing", "activation_checkpoint",
                                    "gradient_checkpointing", "recompute_granularity", "activation_recompute", "ac"}},
    [COLUMN_SEQUENCE_PARALLEL] = {.names = {"seq_parallel"}},
    [COLUMN_GLOBAL_BATCH] = {.names = {"global_batch", "gbs", "train_batch_size"},
                             .needed = OF_MESHES,
                             .counts = OF_MESHES,
                             COUNT(global_batch),
                             .of_local = true,
                             .accumulated = true},
    [COLUMN_ACCUMULATED] = {.names = {"grad_acc", "gradient_accumulation_steps", "gradient_accumulation", "grad_accum", "gas", "ga",
                                      "grad_accum_steps", "batch_accumulation_per_replica"}},
    [COLUMN_LOCAL_BATCH] = {.names = {"local_batch", "local_bs", "per_device_train_batch_size", "per_device_batch_size",
                                      "batch size per gpu", "batch size per dp"},
                            .counts = OF_MESHES,
                            COUNT(local_batch)},
    [COLUMN_DISTRIBUTED_OPTIMIZER] = {.names = {"use_distributed_optimizer", "distributed_optimizer", "dist_optimizer"}},
    [COLUMN_BF16] = {.names = {"bf16"}},
    [COLUMN_SEQUENCE] = {.names = {"seq", "seq_length", "seqlen", "encoder_seq_length", "context_length", "block_size", "max_seq_len"},
                         .needed = OF_MESHES,
                         .counts = OF_MESHES,
                         COUNT(sequence),
                         .of_model = true},
    {.names = {"nodes"}, .counts = OF_MESHES, COUNT(nodes)},
    {.names = {"gpus_per_node"}, .counts = OF_STUDY | OF_MESHES, COUNT(gpus_per_node)},
    {.names = {"shard_size", "dp_shard", "data_parallel_shard_degree"}, .counts = OF_STUDY | OF_MESHES, COUNT(shard_size)},
    {.names = {"batch_per_replica"}, .needed = OF_STUDY, .counts = OF_STUDY, COUNT(samples)},
    {.names = {"stages"}, .counts = OF_STUDY, COUNT(stages), .where_missing = 1},
    {.names = {"chunks"}, .counts = OF_STUDY, COUNT(chunks), .where_missing = 1},
    {.names = {"tp", "tensor_parallel", "tensor_model_parallel", "tensor"}, .counts = OF_MESHES, COUNT(tensor), .where_missing = 1},
    {.names = {"pp", "pipeline_parallel", "pipeline_model_parallel", "pipeline"}, .counts = OF_MESHES, COUNT(stages), .where_missing = 1},
    {.names = {"cp", "context", "context_parallel"}, .counts = OF_MESHES, COUNT(contexts), .where_missing = 1},
    {.names = {"dp", "data_parallel"}, .counts = OF_MESHES, COUNT(data)},
    {.names = {"vpp", "vp", "virtual_stages", "virtual_pipeline", "virtual_pipeline_parallel", "virtual_pipeline_model_parallel"},
     .counts = OF_MESHES,
     COUNT(virtual_stages),
     .where_missing = 1},
    {.names = {"layers", "n_layer", "num_hidden_layers"}, .needed = OF_MESHES, .counts = OF_MESHES, COUNT(layers), .of_model = true},
    {.names = {"hidden", "hidden_dim", "d_model", "n_embd", "dim"},
     .needed = OF_MESHES,
     .counts = OF_MESHES,
     COUNT(hidden),
     .of_model = true},
    {.names = {"heads", "attention_heads", "n_head"}, .needed = OF_MESHES, .counts = OF_MESHES, COUNT(heads), .of_model = true},
    {.names = {"ffn", "ffn_hidden_size", "intermediate_size"}, .counts = OF_MESHES, COUNT(ffn)},
    {.names = {"kv_heads", "num_key_value_heads", "num_query_groups"}, .counts = OF_MESHES, COUNT(kv_heads)},
    {.names = {"micro_batch", "mbs", "train_micro_batch_size_per_gpu", "pipeline_parallel_microbatch_size"},
     .needed = OF_MESHES,
     .counts = OF_MESHES,
     COUNT(micro_batch),
     .of_local = true},
#undef COUNT
};
enum { COLUMNS = sizeof columns / sizeof *columns };
_Static_assert(sizeof columns / sizeof *columns <= MEASURED_COLUMNS, "a table has room for all columns");

/* Columns for people, or that follow from others. */
static const char *const for_people[] = {"placement_known", "step_s_stdev", "source_file",       "source",  "network",
                                         "tflops_per_gpu",  "tflops",       "tflop/s/gpu",       "mfu",     "mfu (%)",
                                         "mfu_pct",         "hfu",          "model tflop/s/gpu", "tflop/s", "Parameters (billion)"};

/* Append a word of a column's name: the one that stands for all words of this meaning, or nothing
 * for one that adds none. */
static void append_word(const char *word, char *plain, size_t bytes)
{
    static const char *const alike[][2] = {{"s", "sec second seconds"},
                                           {"ms", "millisecond milliseconds"},
                                           {"step", "iter iteration it"},
                                           {"memory", "mem"},
                                           {"max", "peak maximum"},
                                           {"tokens", "tok token"},
                                           {"length", "len"},
                                           {"seq", "sequence"},
                                           {"samples", "sequences images imgs img samp"},
                                           {"parallel", "parallelism"},
                                           {"gpu", "device"},
                                           {"gpus", "devices accelerators"},
                                           {"", "size degree num number n of per the avg average mean"}};
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        if (dt_is_one_of(word, alike[i][1]))
            word = alike[i][0];
    dt_append(plain, bytes, "", "%s", word);
}

/* "Tokens / sec (per device)" is "tokenssgpu": a name's words without what separates them. */
static void plain_name(const char *name, char *plain, size_t bytes)
{
    char word[64];
    for (*plain = 0; *name; name += *name != 0) {
        size_t length = 0;
        for (; isalnum((unsigned char)*name); name++)
            if (length + 1 < sizeof word)
                word[length++] = (char)tolower((unsigned char)*name);
        word[length] = 0;
        append_word(word, plain, bytes);
    }
}

static bool is_called(const char *name, const char *other)
{
    char plain[128], plain_other[128];
    plain_name(name, plain, sizeof plain);
    plain_name(other, plain_other, sizeof plain_other);
    return *plain && strcmp(plain, plain_other) == 0;
}

/* MLflow and Weights & Biases put these before the names that a run gave. */
static const char *without_prefix(const char *name)
{
    static const char *const prefixes[] = {"params.", "metrics.", "config.", "config/"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return name + strlen(prefixes[i]);
    return name;
}

static bool has_name(int column, const char *name)
{
    char plain[128], own[128];
    plain_name(name, plain, sizeof plain);
    for (int i = 0; i < NAMES && columns[column].names[i] && *plain; i++) {
        plain_name(columns[column].names[i], own, sizeof own);
        if (strcmp(own, plain) == 0)
            return true;
    }
    return false;
}

static bool is_named(const char *name)
{
    bool is = false;
    for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
        is |= has_name((int)c, name);
    return is;
}

/* Whether `name` is one of the column's names, or has a unit of the same kind among its words:
 * "step time (ms)". Columns of throughputs have the same words, and the unit alone tells them apart. */
static bool is_column(int column, const char *name)
{
    char unit[32], rest[128];
    const char *own = columns[column].unit;
    name = without_prefix(name);
    if (has_name(column, name))
        return true;
    if (!own || !validate_unit_in(name, unit, sizeof unit, rest, sizeof rest) || !validate_is_unit_of(unit, own))
        return false;
    return (has_name(column, rest) || is_called(rest, "throughput")) && !is_named(name);
}

/* Whether column i is a throughput, and the first of its fields with a unit has this column's. */
static bool is_throughput(const struct measured_table *t, int i, int column)
{
    const char *own = columns[column].unit, *unit = "";
    for (int row = 0; own && row < t->csv.row_count && is_called(t->csv.names[i], "throughput") && !validate_is_unit(unit); row++)
        unit = validate_unit_after(dt_csv_field(&t->csv, row, i));
    return own && validate_is_unit_of(unit, own);
}

static bool is_for_people(const char *name)
{
    for (size_t i = 0; i < sizeof for_people / sizeof *for_people; i++)
        if (is_called(for_people[i], name))
            return true;
    return false;
}

static void find_columns(struct measured_table *t)
{
    for (int c = 0; c < COLUMNS; c++) {
        t->columns[c] = -1;
        for (int i = 0; i < t->csv.column_count && t->columns[c] < 0; i++)
            if (is_column(c, t->csv.names[i]) || is_throughput(t, i, c))
                t->columns[c] = i;
    }
    t->is_study = t->columns[COLUMN_PARADIGM] >= 0;
}

/* A decimal comma, in a column of amounts where it cannot be anything else, tells how the whole
 * table is written. */
static void find_decimal_commas(struct measured_table *t)
{
    for (int c = 0; c < COLUMNS; c++)
        for (int row = 0; row < t->csv.row_count && columns[c].unit; row++)
            t->has_decimal_comma |= validate_has_decimal_comma(dt_csv_field(&t->csv, row, t->columns[c]));
}

/* The table's name of a column, or the first name that it is searched by. */
const char *measured_name(const struct measured_table *t, int column)
{
    return t->columns[column] >= 0 ? t->csv.names[t->columns[column]] : columns[column].names[0];
}

bool measured_is_of_experts(const char *name)
{
    return strcasestr(name, "expert") || strcasestr(name, "moe");
}

/* Is the column used, meant for people, or without a name? */
static bool is_known(const struct measured_table *t, int i)
{
    const char *name = t->csv.names[i];
    bool known = is_for_people(name) || measured_is_of_experts(name) || !*name;
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

/* What names ask that nothing in a table answers; NULL: they are clear, or not known. */
static const char *question_about(const char *name)
{
    static const char *const asked[][2] = {
        {"batch_size", "of a micro-batch: micro_batch; of a data-parallel rank: local_batch; of all GPUs: global_batch"},
        {"tokens/s", "of each GPU: tokens_per_s_per_gpu; of all: total_tokens_per_s"},
        {"tps", "of each GPU: tokens_per_s_per_gpu; of all: total_tokens_per_s"},
        {"throughput", "of each GPU: tokens_per_s_per_gpu; of all: total_tokens_per_s, samples_per_s"}};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        if (is_called(asked[i][0], name))
            return asked[i][1];
    return NULL;
}

void measured_table_unused(const struct measured_table *t, char *text, size_t text_bytes)
{
    *text = 0;
    size_t used = 0;
    for (int i = 0; i < t->csv.column_count && used + 1 < text_bytes; i++) {
        if (is_known(t, i))
            continue;
        const char *name = t->csv.names[i], *nearest = NULL, *other_name = used_instead(t, i);
        for (int c = 0; c < COLUMNS; c++) {
            const char *other = columns[c].names[0];
            if (t->columns[c] < 0 && (!nearest || dt_edit_distance(name, other) < dt_edit_distance(name, nearest)))
                nearest = other;
        }
        const char *question = question_about(name);
        bool near = !other_name && !question && nearest && dt_looks_like(name, nearest);
        const char *before = other_name ? " (there is " : question ? " (if " : near ? " (did you mean " : "";
        snprintf(text + used, text_bytes - used, "%s%.64s%s%.128s%s", used ? ", " : "", name, before,
                 other_name ? other_name
                 : question ? question
                 : near     ? nearest
                            : "",
                 near      ? "?)"
                 : *before ? ")"
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

bool measured_has_degrees(const struct measured_table *t)
{
    return has_count(t, offsetof(struct measured_run, data)) || has_count(t, offsetof(struct measured_run, tensor)) ||
           has_count(t, offsetof(struct measured_run, stages)) || has_count(t, offsetof(struct measured_run, contexts));
}

static dt_status check_columns(const struct measured_table *t)
{
    char unused[512];
    bool any = false;
    measured_table_unused(t, unused, sizeof unused);
    for (int c = 0; c < COLUMNS; c++)
        any |= t->columns[c] >= 0;
    for (int row = 0; row < t->csv.row_count && !any; row++)
        for (int c = 0; c < COLUMNS; c++)
            if (is_column(c, dt_csv_field(&t->csv, row, 0)) && isdigit((unsigned char)*dt_csv_field(&t->csv, row, t->csv.column_count > 1)))
                return dt_fail(DT_ERR_INVALID, "%s:%d: %.64s begins a line: here each run is a line, and its first line names the columns",
                               t->path, t->csv.lines[row], dt_csv_field(&t->csv, row, 0));
    if (!any)
        return dt_fail(DT_ERR_INVALID,
                       "%s:1: names no column that is known; expected a first line such as "
                       "gpus,layers,hidden,heads,seq,tp,pp,micro_batch,global_batch,step_s: delete what is above it; found: %s",
                       t->path, unused);
    for (int c = 0; c < COLUMNS; c++)
        if (columns[c].needed & kind_of(t) && t->columns[c] < 0 && !(columns[c].of_model && t->columns[COLUMN_MODEL] >= 0) &&
            !(columns[c].of_local && t->columns[COLUMN_LOCAL_BATCH] >= 0) &&
            !(columns[c].accumulated && t->columns[COLUMN_ACCUMULATED] >= 0))
            return dt_fail(DT_ERR_INVALID, "%s:1: there is no column %s%s%s%s", t->path, columns[c].names[0],
                           columns[c].of_model && c != COLUMN_SEQUENCE ? ", nor model with the name of a published one" : "",
                           *unused ? "; not used: " : "", unused);
    bool has_nodes = has_count(t, offsetof(struct measured_run, nodes)) && has_count(t, offsetof(struct measured_run, gpus_per_node));
    if (t->columns[COLUMN_GPUS] < 0 && !has_nodes && !has_count(t, offsetof(struct measured_run, data)))
        return dt_fail(DT_ERR_INVALID,
                       "%s:1: there is no column gpus, nor nodes and gpus_per_node, nor dp, from which tp, pp and cp would give it%s%s",
                       t->path, *unused ? "; not used: " : "", unused);
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
    for (int i = 0; i < out->csv.row_count * out->csv.column_count; i++)
        validate_plain(out->csv.fields[i]);
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

dt_status measured_wrong(const struct measured_table *t, int row, int column, const char *expected)
{
    if (!*measured_text(t, row, column))
        return dt_fail(DT_ERR_INVALID, "%s:%d: %s: no value; expected %s", t->path, t->csv.lines[row], measured_name(t, column), expected);
    return dt_fail(DT_ERR_INVALID, "%s:%d: %s: \"%.64s\" is not %s", t->path, t->csv.lines[row], measured_name(t, column),
                   measured_text(t, row, column), expected);
}

double measured_number(const struct measured_table *t, int row, int column)
{
    char of_name[32], rest[128], number[128];
    const char *unit = columns[column].unit, *text = measured_text(t, row, column);
    const bool rate = column == COLUMN_TOKENS || column == COLUMN_ALL_TOKENS; /* "15,200" has thousands; nobody measures 15.2 */
    bool told = unit && !*validate_unit_after(text) &&
                validate_unit_in(measured_name(t, column), of_name, sizeof of_name, rest, sizeof rest) &&
                validate_is_unit_of(of_name, unit);
    snprintf(number, sizeof number, "%s%s%s", text, told ? " " : "", told ? of_name : "");
    if (unit && t->has_decimal_comma)
        validate_drop_points(number);
    return validate_number(number, unit ? unit : "", (unit && t->has_decimal_comma) || (t->csv.delimiter == ';' && !rate));
}

dt_status measured_count(const struct measured_table *t, int row, int column, int *out)
{
    const char *text = measured_text(t, row, column), *mark = strpbrk(text, ".,");
    double value = measured_number(t, row, column);
    bool thousands = mark && strlen(mark) == 4 && value < 1000; /* "2.000" */
    if (!(value >= 1) || value > 1 << 24 || value != floor(value) || thousands)
        return measured_wrong(t, row, column, "a whole number from 1");
    *out = (int)value;
    return DT_OK;
}

/* "8k" tokens of a sample: powers of two, as people give the lengths of contexts. False: not such a
 * length. */
static bool length_in_k(const struct measured_table *t, int row, int column, struct measured_run *run)
{
    enum { K = 1024, MOST = 16384 };
    char *end;
    const char *text = measured_text(t, row, column);
    long thousands = strtol(text, &end, 10);
    bool is_length = isdigit((unsigned char)*text) && strcasecmp(end, "k") == 0 && thousands >= 1 && thousands <= MOST;
    if (!is_length || columns[column].to != offsetof(struct measured_run, sequence))
        return false;
    run->sequence = (int)thousands * K;
    dt_append(run->note, sizeof run->note, "; ", "%.24s %.16s is taken for %d", measured_name(t, column), text, run->sequence);
    return true;
}

/* "2x8 H100", "8x H100", "16 H100": the GPUs of nodes, or of one kind. False: it is neither. */
static bool gpus_of_kind(const struct measured_table *t, int row, int column, struct measured_run *run)
{
    enum { MOST = 1 << 12 };
    int first, second = 1, used = 0;
    char x[2], kind[3];
    const char *text = column == COLUMN_GPUS ? measured_text(t, row, column) : "";
    bool of_nodes = sscanf(text, "%d %1[xX] %d %n", &first, x, &second, &used) == 3 && used > 0;
    bool of_kind = !of_nodes &&
                   (sscanf(text, "%d %1[xX] %2[A-Za-z]", &first, x, kind) == 3 || sscanf(text, "%d%1[ ]%2[A-Za-z]", &first, x, kind) == 3);
    of_kind = of_kind && strcasecmp(kind, "no") != 0; /* "2 nodes" */
    if (!(of_kind || (of_nodes && (!text[used] || isalpha((unsigned char)text[used])))) || first < 1 || second < 1 || first > MOST ||
        second > MOST)
        return false;
    run->gpus = of_nodes ? first * second : first;
    run->gpus_per_node = of_nodes ? second : run->gpus_per_node;
    dt_append(run->note, sizeof run->note, "; ", "%.24s %.24s is taken for %d", measured_name(t, column), text, run->gpus);
    return true;
}

dt_status measured_counts(const struct measured_table *t, int row, struct measured_run *run)
{
    for (int c = 0; c < COLUMNS; c++) {
        int *to = (int *)((char *)run + columns[c].to);
        if (!(columns[c].counts & kind_of(t)) || length_in_k(t, row, c, run) || gpus_of_kind(t, row, c, run))
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

dt_status measured_has_sizes(const struct measured_table *t, int row, const struct measured_run *run)
{
    for (int c = 0; c < COLUMNS; c++)
        if (columns[c].of_model && !*(const int *)((const char *)run + columns[c].to))
            return measured_wrong(t, row, c, "a whole number from 1");
    return DT_OK;
}

bool measured_begins_with(const char *text, const char *name)
{
    return name && strncasecmp(text, name, strlen(name)) == 0;
}

bool measured_is_oom(const struct measured_table *t, int row, enum measured_column column)
{
    char letters[64] = "";
    const char *text = measured_text(t, row, column);
    for (size_t used = 0; *text && used + 1 < sizeof letters; text++)
        if (isalpha((unsigned char)*text))
            letters[used++] = *text;
    return strcasestr(measured_text(t, row, column), "oom") || strcasecmp(letters, "oom") == 0 || strcasestr(letters, "outofmemory");
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

dt_status measured_choice(const struct measured_table *t, int row, enum measured_column column, const char *choices, int *out)
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

dt_status measured_yes(const struct measured_table *t, int row, enum measured_column column, bool *told, bool *yes)
{
    static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
    const char *text = measured_text(t, row, column);
    *told = *yes = false;
    for (size_t i = 0; !*told && i < sizeof words / sizeof *words; i++) {
        *told = measured_begins_with(text, words[i]) && strchr(" ", text[strlen(words[i])]);
        *yes = *told && i % 2;
    }
    return *text && !*told ? measured_wrong(t, row, column, "one of yes, no") : DT_OK;
}
