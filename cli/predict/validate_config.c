#include "cli/predict/validate.h"
#include "predict/profile.h"

#include "cli/records/records.h"
#include "cli/text/text.h"
#include "lib/base/text.h"
#include "lib/config/data_file.h"
#include "lib/config/json.h"
#include "lib/sim/cluster.h"
#include "schedules/config/families.h"
#include "schedules/config/parse.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void validate_row_skip(struct validate_row *row, const char *reason)
{
    row->outcome = VALIDATE_SKIPPED;
    snprintf(row->reason, sizeof row->reason, "%.255s", reason);
}

/* Make the row's experiment from the text of a config and the system's changes to it. A row whose
 * config this version refuses is skipped with the reason. `where` names the row in errors. Errors:
 * DT_ERR_INVALID if the changes make several experiments from it; DT_ERR_IO, DT_ERR_HOST_MEMORY. */
static dt_status validate_row_experiment(const char *text, const char *where, const struct validate_system *system,
                                         struct validate_row *row)
{
    struct experiment *experiments;
    int count;
    size_t length = strlen(where);
    dt_status status = experiments_parse(text, strlen(text), where, system->sets, system->set_count, &experiments, &count);
    if (status == DT_ERR_INVALID) { /* without the place in the file, equal reasons of rows are equal texts */
        const char *error = dt_error_message();
        validate_row_skip(row, strncmp(error, where, length) == 0 && strlen(error) > length + 2 ? error + length + 2 : error);
        return DT_OK;
    }
    DT_TRY(status);
    row->experiment = experiments[0];
    free(experiments);
    return count == 1 ? DT_OK : dt_fail(DT_ERR_INVALID, "--set: makes %d experiments of a row; expected one", count);
}

/* ---- dtbench's own records: configs come from the records, cluster and profile from the command
 * line ---- */

bool validate_is_records(const char *path)
{
    struct stat facts;
    if (strcmp(path, "-") == 0 || stat(path, &facts) < 0)
        return false;
    FILE *file = S_ISREG(facts.st_mode) ? fopen(path, "r") : NULL;
    if (!file)
        return S_ISDIR(facts.st_mode);
    int first = fgetc(file);
    while (isspace(first))
        first = fgetc(file);
    fclose(file);
    return first == '{';
}

/* The record's config on device sim. Owner of the text: the caller, free; NULL: no memory. */
static char *simulated_text(const struct record_facts *record, const struct validate_system *system)
{
    const struct {
        const char *key, *value;
    } changes[] = {{"device", "sim"}, {"cluster", system->cluster}, {"profile", system->profile}};
    char *text = NULL;
    DT_DESTROYED(dt_json_destroy) cJSON *config = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(record->json, "config"), true);
    bool complete = config != NULL;
    for (size_t i = 0; complete && i < sizeof changes / sizeof *changes; i++) {
        cJSON_DeleteItemFromObjectCaseSensitive(config, changes[i].key);
        complete = cJSON_AddStringToObject(config, changes[i].key, changes[i].value) != NULL;
    }
    return complete && dt_json_print(config, DT_JSON_COMPACT, &text) == DT_OK ? text : NULL;
}

/* Why a record is not a measured run; "": it is one. A run out of memory is a result. */
static void reason_to_skip(const struct record_facts *record, char *text, size_t text_bytes)
{
    *text = '\0';
    if (experiment_is_simulated(record->experiment))
        snprintf(text, text_bytes, "the record is a prediction itself (device sim)");
    else if (!record_is_ok(record) && strcmp(record->status, "oom") != 0)
        snprintf(text, text_bytes, "the record's status is \"%.32s\"", record->status);
}

static dt_status row_of_record(const struct record_facts *record, const struct validate_system *system, int number,
                               struct validate_row *row)
{
    char where[512], reason[128];
    const struct experiment *e = record->experiment;
    bool ok = record_is_ok(record);
    *row = (struct validate_row){.line = number,
                                 .experiment = *e,
                                 .stages = e->strategy.stages,
                                 .tensor = e->tensor.size,
                                 .measured_s = ok ? record->metrics.step_s.median : NAN,
                                 .measured_bytes = ok ? record->metrics.peak_bytes.total : NAN,
                                 .measured_fit = ok ? VALIDATE_FIT : VALIDATE_FIT_NOT,
                                 .predicted_s = NAN,
                                 .predicted_bytes = NAN,
                                 .step_error = NAN,
                                 .batch_per_gpu = e->batch_size};
    snprintf(row->recorded_hash, sizeof row->recorded_hash, "%.16s", record->hash);
    if (*e->model.preset)
        snprintf(row->model, sizeof row->model, "%.31s", e->model.preset);
    else
        snprintf(row->model, sizeof row->model, "%s", dt_model_texts(&e->model).label);
    reason_to_skip(record, reason, sizeof reason);
    if (*reason) {
        validate_row_skip(row, reason);
        return DT_OK;
    }
    DT_FREED char *text = simulated_text(record, system);
    DT_TRY(dt_allocated(text, "no memory for the config of a record"));
    snprintf(where, sizeof where, "%.400s: record %d", record->file, number);
    return validate_row_experiment(text, where, system, row);
}

static dt_status rows_of_records(const struct record_set *set, const char *path, const struct validate_system *system,
                                 struct validate_rows *out)
{
    out->rows = calloc((size_t)set->count + 1, sizeof *out->rows);
    DT_TRY(dt_allocated(out->rows, "%s: no memory for %d records", path, set->count));
    for (int i = 0; i < set->count; i++)
        if (set->records[i].experiment)
            DT_TRY(row_of_record(&set->records[i], system, i + 1, &out->rows[out->count++]));
    if (out->count < set->count)
        line_print(stderr, "dtbench validate: %s: %d of %d records left out: this version cannot read their configs", path,
                   set->count - out->count, set->count);
    return out->count ? DT_OK : dt_fail(DT_ERR_INVALID, "%s: no records", path);
}

/* Read the rows of all records of a file or folder. Errors: DT_ERR_IO, DT_ERR_INVALID,
 * DT_ERR_HOST_MEMORY. */
static dt_status validate_records_read(const char *path, const struct validate_system *system, struct validate_rows *out)
{
    DT_ENDED(record_set_finish) struct record_set set = {0};
    if (!system->cluster || !system->profile)
        return dt_fail(DT_ERR_INVALID,
                       "%s has records: expected --cluster FILE and --profile FILE, with which they are predicted; dtbench calibrate "
                       "writes those of this machine",
                       path);
    if (system->where_count > 0)
        return dt_fail(DT_ERR_INVALID, "--where %.64s: conditions are on the columns of a table, and %s has records", system->where[0],
                       path);
    DT_TRY(record_set_read(&set, "validate", &path, 1));
    return rows_of_records(&set, path, system, out);
}

/* ---- rows of tables become experiments of device sim ---- */

/* The study's files do not say whether parameters were offloaded, but the memory shows it: a rank's
 * share of parameters and gradients is always on the device unless it is offloaded. */
static bool parameters_offloaded(const struct measured_run *run, double peak_bytes)
{
    enum { FP16_PARAMETER_AND_GRADIENT_BYTES = 4 };
    if (run->offload >= 0)
        return run->offload == 1;
    struct dt_model model = model_of_preset(run->preset, run->family);
    return paradigm_of(run->paradigm)->reads & READS_UNITS &&
           peak_bytes < FP16_PARAMETER_AND_GRADIENT_BYTES * (double)dt_model_parameter_count(&model) / run->gpus;
}

static cJSON *model_as_json(const struct measured_run *run)
{
    if (run->of_images)
        return dt_json_object("preset: %s, dtype: %s", run->preset->name, run->dtype);
    cJSON *model = run->preset ? dt_json_object("preset: %s", run->preset->name)
                               : dt_json_object("layers: %d, hidden: %d, heads: %d", run->layers, run->hidden, run->heads);
    const struct measured_architecture *a = run->architecture;
    if (a)
        dt_json_add(&model, "mlp: %s, norm: %s, position: %s, bias: %s, dropout: %d", a->mlp, a->norm, a->position, a->bias, 0);
    if (!run->preset && run->ffn != 4 * run->hidden)
        dt_json_add(&model, "ffn: %d", run->ffn);
    if (!run->preset && run->kv_heads != run->heads)
        dt_json_add(&model, "kv_heads: %d", run->kv_heads);
    if (!run->preset && run->tied)
        dt_json_add(&model, "tied: %hhd", run->tied);
    if (run->vocab)
        dt_json_add(&model, "vocab_size: %d", run->vocab);
    if (run->sequence)
        dt_json_add(&model, "block_size: %d", run->sequence);
    dt_json_add(&model, "dtype: %s, attention: %s", run->dtype, run->attention);
    return model;
}

/* Add which blocks each stage has, or each part where ranks have several. */
static void add_split(cJSON **pipeline, const struct measured_run *run)
{
    int parts = run->stages * run->virtual_stages, of_ends = run->split == SPLIT_EQUAL_BUT_ENDS ? 1 : 0;
    if (run->split == SPLIT_BY_PARAMETERS)
        dt_json_add(pipeline, "split: %s", "parameters");
    if (run->split == SPLIT_BALANCED || run->split == SPLIT_BY_PARAMETERS)
        return;
    int filled = (run->layers + parts - 1) / parts;
    cJSON *first_blocks = dt_json_array();
    for (int part = 1; part < parts; part++)
        dt_json_append(
            &first_blocks,
            cJSON_CreateNumber(run->split == SPLIT_FILLED ? part * filled : part * (run->layers + 2 * of_ends) / parts - of_ends));
    dt_json_add(pipeline, "split: %p", first_blocks);
}

static void add_mesh(cJSON **config, const struct measured_run *run)
{
    if (run->stages > 1 || paradigm_of(run->paradigm)->axes & MESH_ON_PIPELINE) {
        cJSON *pipeline = dt_json_object("stages: %d, chunks: %d", run->stages, run->chunks);
        if (run->order)
            dt_json_add(&pipeline, "order: %s", run->order);
        add_split(&pipeline, run);
        if (run->virtual_stages > 1)
            dt_json_add(&pipeline, "virtual_stages: %d", run->virtual_stages);
        dt_json_add(config, "pipeline: %p", pipeline);
    }
    if (run->tensor > 1) {
        cJSON *tensor = dt_json_object("size: %d", run->tensor);
        if (run->sequence_parallel_told)
            dt_json_add(&tensor, "sequence_parallel: %hhd", run->sequence_parallel);
        dt_json_add(config, "tensor: %p", tensor);
    }
    if (run->contexts > 1)
        dt_json_add(config, "context: {size: %d, comm_type: %s}", run->contexts, run->comm_type ? run->comm_type : context_kind_name(0));
    if (run->micro_batches > 1)
        dt_json_add(config, "micro_batches: %d", run->micro_batches);
    if (run->shard_size && paradigm_of(run->paradigm)->reads & READS_SHARD_GROUPS)
        dt_json_add(config, "hsdp: {shard_size: %d}", run->shard_size * run->contexts);
}

static int replica_gpus(const struct measured_run *run)
{
    return run->stages * run->tensor;
}

/* The workload with the row's values. straddle_nodes, more_nodes: allowed, since the run took place.
 * Owner: the caller, free. */
static char *config_text(const struct validate_system *system, const struct measured_run *run, double peak_bytes)
{
    char *text = NULL;
    DT_DESTROYED(dt_json_destroy)
    cJSON *config = dt_json_object("name: %s, device: %s, cluster: %s, world_size: %d, paradigm: %s, batch_size: %g, "
                                   "straddle_nodes: %hhd, more_nodes: %hhd, loss: %s, activation: %s, model: %p",
                                   "measured", "sim", system->cluster, run->gpus, paradigm_name(run->paradigm),
                                   (double)run->samples / replica_gpus(run), (bool)true, (bool)true, run->loss,
                                   activation_name(run->activation), model_as_json(run));
    if (system->profile)
        dt_json_add(&config, "profile: %s", system->profile);
    if (run->gpus_per_node)
        dt_json_add(&config, "gpus_per_node: %d", run->gpus_per_node);
    if (run->fp8)
        dt_json_add(&config, "fp8: {recipe: %s, gather: %hhd}", dt_fp8_recipe(run->fp8)->name, run->fp8_gather);
    if (run->activation_every > 0)
        dt_json_add(&config, "activation_every: %d", run->activation_every);
    if (run->optimizer)
        dt_json_add(&config, "optimizer: {name: %s}", run->optimizer);
    if (run->of_images) /* frameworks keep the outputs of norms (results/vision/README.md) */
        dt_json_add(&config, "keep_cheap: %s", "norms");
    if (run->wide_gradients)
        dt_json_add(&config, "gradient_dtype: %s", "fp32");
    add_mesh(&config, run);
    if (run->wrap == 0 || run->wrap == 1 || run->gather == 1)
        dt_json_add(&config, "fsdp: {unit: %s, gather: %s}",
                    run->wrap == 0   ? "block"
                    : run->wrap == 1 ? "linear"
                                     : "auto",
                    run->gather == 1 ? "step" : "micro_batch");
    if (parameters_offloaded(run, peak_bytes))
        dt_json_add(&config, "parameter_offload: %hhd", (bool)true);
    return config && dt_json_print(config, DT_JSON_COMPACT, &text) == DT_OK ? text : NULL;
}

static const char paradigm_key[] = "paradigm=";

/* The last --set of how replicas share a model. It decides with the row's stages what a row's
 * paradigm is, as the table's column would: changing the finished config would leave the batch that
 * another paradigm has. */
static const char *paradigm_set(const struct validate_system *system)
{
    const char *name = NULL;
    for (int i = 0; i < system->set_count; i++)
        if (strncmp(system->sets[i], paradigm_key, strlen(paradigm_key)) == 0)
            name = system->sets[i] + strlen(paradigm_key);
    return name && measured_is_sharding(name) ? name : NULL;
}

/* Take the changes of --set. tensor.sequence_parallel is only set for runs whose table does not
 * have it, fp8 for runs in FP8, and a paradigm that the row has been read with is not set again. */
static void take_sets(const struct measured_table *table, const struct validate_system *system, const struct measured_run *run,
                      struct validate_row *row, const char *sets[OPTION_LIST_MAX], struct validate_system *out)
{
    static const char key[] = "tensor.sequence_parallel=", fp8[] = "fp8.";
    row->sequence_parallel_open = run->tensor > 1 && !run->sequence_parallel_told;
    out->sets = sets;
    out->set_count = 0;
    for (int i = 0; i < system->set_count; i++) {
        bool tells = strncmp(system->sets[i], key, strlen(key)) == 0;
        bool read = table->paradigm && strncmp(system->sets[i], paradigm_key, strlen(paradigm_key)) == 0;
        bool matters = run->fp8 || strncmp(system->sets[i], fp8, strlen(fp8)) != 0;
        row->sequence_parallel_open &= !tells;
        row->recompute_open &= strncmp(system->sets[i], "activation=", strlen("activation=")) != 0;
        row->reduction_open &= strncmp(system->sets[i], "gradient_reduction=", strlen("gradient_reduction=")) != 0;
        row->fp8_open &= strncmp(system->sets[i], "fp8.gather=", strlen("fp8.gather=")) != 0;
        if (!read && matters && (!tells || !run->sequence_parallel_told))
            sets[out->set_count++] = system->sets[i];
    }
}

/* Make the row an experiment. A row that this version's configs refuse is skipped; this is not an
 * error. */
static dt_status make_experiment(const struct measured_table *t, const struct validate_system *system, const struct measured_run *run,
                                 struct validate_row *row)
{
    char where[512];
    snprintf(where, sizeof where, "%.400s:%d", t->path, row->line);
    if (*run->reason) {
        validate_row_skip(row, run->reason);
        return DT_OK;
    }
    char *text = config_text(system, run, row->measured_bytes);
    DT_TRY(dt_allocated(text, "%s: no memory for its experiment", where));
    const char *sets[OPTION_LIST_MAX];
    struct validate_system of_row = *system;
    take_sets(t, system, run, row, sets, &of_row);
    dt_status status = validate_row_experiment(text, where, &of_row, row);
    free(text);
    DT_TRY(status);
    if (row->outcome == VALIDATE_SKIPPED)
        return DT_OK;
    if (run->family->divide_evenly)
        run->family->divide_evenly(&row->experiment.model, run->tensor); /* no framework in these tables divides unequally */
    return DT_OK;
}

/* The first of values [count] that is not NAN, or else NAN. */
static double first_known(const double *values, int count)
{
    for (int i = 0; i < count; i++)
        if (!isnan(values[i]))
            return values[i];
    return NAN;
}

/* A microsecond is less than the launch of one kernel; a million seconds are 12 days. */
static const double SHORTEST_STEP_S = 1e-6, LONGEST_STEP_S = 1e6;

/* Check that the values of one amount [count], from columns in several units, agree. */
static dt_status agree(const char *path, int line, const char *what, const char *unit, const double *amounts, int count)
{
    static const double rounded = 0.1;
    double least = INFINITY, most = 0;
    for (int i = 0; i < count; i++) {
        least = fmin(least, amounts[i]);
        most = fmax(most, amounts[i]);
    }
    return most <= least * (1 + rounded)
               ? DT_OK
               : dt_fail(DT_ERR_INVALID, "%s:%d: its columns give a %s of %g and of %g %s", path, line, what, least, most, unit);
}

/* Note how an ambiguous number was read. False: it is not used. */
static bool note_reading(const struct measured_table *t, int i, enum measured_column column, double value, struct measured_run *run)
{
    char unit[32], rest[128];
    const char *text = measured_text(t, i, column), *name = measured_name(t, column);
    bool time = column == COLUMN_STEP_S, memory = column == COLUMN_PEAK_GB;
    if (isnan(value))
        return true;
    bool unknown = (time || memory) && !*validate_unit_after(text) && !validate_unit_in(name, unit, sizeof unit, rest, sizeof rest);
    if (unknown)
        dt_append(run->note, sizeof run->note, "; ", "%.24s has no unit: %s", name, time ? "seconds" : "not used");
    bool rate = (column == COLUMN_TOKENS || column == COLUMN_ALL_TOKENS) && t->csv.delimiter != ';';
    if (!t->has_decimal_comma && validate_is_ambiguous(text) && !rate)
        dt_append(run->note, sizeof run->note, "; ", "%.24s %.16s is taken for %g", name, text, value);
    return time || !unknown;
}

/* Read a row's outcome: a time; or out of memory, which may stand in place of a time or a peak; or
 * neither. */
static dt_status read_outcome(const struct measured_table *t, int i, struct measured_run *run, struct validate_row *row)
{
    enum { STEP_S, STEP_MS, TOKENS, ALL_TOKENS, SAMPLES, PEAK_MB, PEAK_GB, PEAK_GIB, COUNT };
    static const enum measured_column columns[COUNT] = {COLUMN_STEP_S,  COLUMN_STEP_MS, COLUMN_TOKENS,  COLUMN_ALL_TOKENS,
                                                        COLUMN_SAMPLES, COLUMN_PEAK_MB, COLUMN_PEAK_GB, COLUMN_PEAK_GIB};
    double amounts[COUNT];
    const char *status = measured_text(t, i, COLUMN_STATUS);
    bool oom = measured_is_oom(t, i, COLUMN_STATUS), ok = dt_is_one_of(status, "ok success successful done completed finished passed");
    if (*status && !oom && !ok)
        return dt_fail(DT_ERR_INVALID, "%s:%d: %s: \"%.64s\" is neither ok nor oom", t->path, row->line, measured_name(t, COLUMN_STATUS),
                       status);
    for (int c = 0; c < COUNT; c++)
        if (measured_is_oom(t, i, columns[c])) {
            amounts[c] = NAN;
            oom = true;
        } else {
            DT_TRY(measured_amount(t, i, columns[c], &amounts[c]));
            if (!note_reading(t, i, columns[c], amounts[c], run))
                amounts[c] = NAN;
        }
    const bool decimal = strstr(measured_text(t, i, COLUMN_NOTES), "peak_mem printed as GB") != NULL;
    const double samples = (double)run->samples * run->gpus / (replica_gpus(run) * run->contexts);
    const double tokens = run->sequence ? samples * run->sequence : NAN;
    const double times[] = {amounts[STEP_S], amounts[STEP_MS] / 1e3, tokens / run->gpus / amounts[TOKENS], tokens / amounts[ALL_TOKENS],
                            samples / amounts[SAMPLES]};
    const double peaks[] = {amounts[PEAK_MB] * 1e6, amounts[PEAK_GB] * 1e9, amounts[PEAK_GIB] * (decimal ? 1e9 : 0x1p30)};
    row->measured_s = first_known(times, sizeof times / sizeof *times);
    row->measured_bytes = first_known(peaks, sizeof peaks / sizeof *peaks);
    row->measured_fit = oom ? VALIDATE_FIT_NOT : ok || !isnan(row->measured_s) ? VALIDATE_FIT : VALIDATE_FIT_UNKNOWN;
    if (row->measured_s < SHORTEST_STEP_S || row->measured_s > LONGEST_STEP_S)
        return dt_fail(DT_ERR_INVALID, "%s:%d: its step takes %g s, and no step does: from %g to %g s", t->path, row->line, row->measured_s,
                       SHORTEST_STEP_S, LONGEST_STEP_S);
    DT_TRY(agree(t->path, row->line, "step", "s", times, sizeof times / sizeof *times));
    return agree(t->path, row->line, "peak", "bytes", peaks, sizeof peaks / sizeof *peaks);
}

/* Read a row's fields. Errors, "FILE:LINE: ...": DT_ERR_INVALID. */
static dt_status read_fields(const struct measured_table *t, int i, struct measured_run *run, struct validate_row *row)
{
    int count = t->csv.counts[i], columns = t->csv.column_count;
    if (count != columns)
        return dt_fail(DT_ERR_INVALID, "%s:%d: %d fields, and the first line names %d columns", t->path, row->line, count, columns);
    DT_TRY(t->is_study ? measured_run_of_study(t, i, run) : measured_run_of_mesh(t, i, run));
    DT_TRY(read_outcome(t, i, run, row));
    return run->gpus_per_node <= run->gpus
               ? DT_OK
               : dt_fail(DT_ERR_INVALID, "%s:%d: gpus_per_node: %d of %d gpus", t->path, row->line, run->gpus_per_node, run->gpus);
}

static dt_status read_row(const struct measured_table *t, const struct validate_system *system, int i, struct validate_row *row)
{
    struct measured_run run = {0};
    *row = (struct validate_row){
        .line = t->csv.lines[i], .measured_s = NAN, .measured_bytes = NAN, .predicted_s = NAN, .predicted_bytes = NAN, .step_error = NAN};
    if (read_fields(t, i, &run, row) < 0) {
        row->outcome = VALIDATE_SKIPPED;
        validate_reason(t->path, row->line, row->reason, sizeof row->reason);
        snprintf(row->model, sizeof row->model, "%.31s", measured_text(t, i, COLUMN_MODEL));
        return DT_OK;
    }
    snprintf(row->note, sizeof row->note, "%s", run.note);
    row->batch_per_gpu = (double)run.samples / (replica_gpus(&run) * run.contexts);
    row->gpus_per_node = run.gpus_per_node;
    row->stages = run.stages;
    row->tensor = run.tensor;
    row->kernels = run.kernels;
    row->attention_rate = run.attention_rate;
    row->recompute_open = !t->is_study && !*measured_text(t, i, COLUMN_RECOMPUTE);
    row->fp8_open = run.fp8 && !run.fp8_gather;
    row->reduction_open = run.micro_batches > 1 && run.paradigm != PARADIGM_ZERO1 && paradigm_of(run.paradigm)->axes & MESH_ON_SHARD;
    row->sharing_open = !t->is_study && !run.sharing_told && run.data > 1;
    row->whole_gpu = strstr(measured_text(t, i, COLUMN_NOTES), "nvidia-smi") != NULL;
    const char *name = run.preset ? run.preset->name : measured_text(t, i, COLUMN_MODEL);
    if (*name)
        snprintf(row->model, sizeof row->model, "%s", name);
    else
        snprintf(row->model, sizeof row->model, "%d x %d", run.layers, run.hidden);
    row->experiment.paradigm = run.paradigm;
    row->experiment.world_size = run.gpus;
    row->experiment.activation = run.activation;
    return make_experiment(t, system, &run, row);
}

/* Order of models: presets as in their table; then other names in the order of rows. */
static int model_order(const struct validate_rows *rows, int i)
{
    const struct dt_model_preset *preset;
    const struct dt_model_family *family;
    int order = 0, first = 0;
    for (; (preset = model_preset(order, &family)); order++)
        if (strcmp(preset->name, rows->rows[i].model) == 0)
            return order;
    while (strcmp(rows->rows[first].model, rows->rows[i].model) != 0)
        first++;
    return order + first;
}

static dt_status read_rows(const struct measured_table *t, const struct validate_system *system, struct validate_rows *out)
{
    out->rows = calloc((size_t)t->csv.row_count, sizeof *out->rows);
    DT_TRY(dt_allocated(out->rows, "%s: no memory for %d rows", t->path, t->csv.row_count));
    out->count = t->csv.row_count;
    measured_table_unused(t, out->unused, sizeof out->unused);
    for (int i = 0; i < out->count; i++)
        DT_TRY(read_row(t, system, i, &out->rows[i]));
    return DT_OK;
}

/* The word of a GPU's name that is its model, a letter and digits: "A100" of "NVIDIA
 * A100-SXM4-40GB"; "": none. */
static void gpu_model(const char *name, char out[16])
{
    *out = '\0';
    for (const char *word = name; *word && !*out; word += strcspn(word, " -("), word += strspn(word, " -("))
        if (isalpha((unsigned char)*word) && strcspn(word, "0123456789") < strcspn(word, " -("))
            snprintf(out, 16, "%.*s", (int)strcspn(word, " -("), word);
}

/* Note rows whose GPU is not the cluster's. A cluster that cannot be read is not an error yet: the
 * prediction reports it. */
static dt_status note_other_gpus(const struct measured_table *t, const char *cluster, struct validate_rows *rows)
{
    char name[256], path[4096], model[16];
    DT_FREED struct dt_sim_cluster *machines = calloc(1, sizeof *machines);
    DT_TRY(dt_allocated(machines, "no host memory for a cluster"));
    dt_data_file_name("clusters", cluster, name, sizeof name);
    if (dt_find_data_file(name, NULL, path, sizeof path) == DT_OK && dt_sim_cluster_load(path, machines) == DT_OK)
        gpu_model(machines->gpu.name, model);
    else
        *model = '\0';
    for (int i = 0; *model && i < rows->count; i++) {
        char *note = rows->rows[i].note;
        size_t used = strlen(note), room = sizeof rows->rows[i].note;
        const char *told = measured_text(t, i, COLUMN_GPU);
        if (*told && !strcasestr(told, model))
            snprintf(note + used, room - used, "%sgpu \"%.32s\" is predicted as %.48s, the cluster's", used ? "; " : "", told,
                     machines->gpu.name);
    }
    return DT_OK;
}

/* A profile that says how many bytes its framework keeps of a gradient was fitted with what these
 * cost in its constants. */
static bool sums_gradients(const char *profile)
{
    char name[256], path[4096];
    struct dt_profile p;
    dt_data_file_name("profiles", profile, name, sizeof name);
    return dt_find_data_file(name, NULL, path, sizeof path) == DT_OK && profile_read(path, &p) == DT_OK && p.memory.gradient_bytes > 0;
}

static dt_status read_table(const char *path, const struct validate_system *system, struct validate_rows *out)
{
    DT_ENDED(measured_table_finish) struct measured_table table = {0};
    DT_TRY(measured_table_read(path, &table));
    DT_TRY(validate_where(&table.csv, path, system->where, system->where_count));
    table.profile_sums = system->profile && sums_gradients(system->profile);
    table.paradigm = table.is_study ? NULL : paradigm_set(system);
    DT_TRY(read_rows(&table, system, out));
    return note_other_gpus(&table, system->cluster, out);
}

dt_status validate_rows_read(const char *path, const struct validate_system *system, struct validate_rows *out)
{
    *out = (struct validate_rows){.records = validate_is_records(path)};
    DT_TRY(out->records ? validate_records_read(path, system, out) : read_table(path, system, out));
    for (int i = 0; i < out->count; i++)
        out->rows[i].model_order = model_order(out, i);
    return DT_OK;
}

void validate_rows_finish(struct validate_rows *rows)
{
    free(rows->rows);
    *rows = (struct validate_rows){0};
}
