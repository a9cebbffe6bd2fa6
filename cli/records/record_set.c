#include "cli/records/records.h"

#include "cli/text/text.h"
#include "lib/base/grow.h"
#include "lib/config/json.h"
#include "lib/config/words.h"
#include "lib/record/record.h"
#include "schedules/config/parse.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- losses ---- */

/* If gradients are summed in a narrower type than the model's, they are rounded as often as those
 * of a model of that type; nothing else is. */
enum dt_dtype loss_rounded_to(const struct experiment *experiment)
{
    enum dt_dtype own = experiment->model.dtype, sent = experiment_reduce_dtype(experiment);
    return dt_dtype_bytes(sent) < dt_dtype_bytes(own) ? sent : own;
}

/* A loss is the mean over many tokens, so roundings of single products average out. For fp32 the
 * bound is the one that the tests require of all paradigms. For the 16-bit types it is about five
 * times the largest difference seen in 100 steps of two to four ranks, with learning rates up to 3
 * and with Adam: 2e-4 for bf16, 1.5e-5 for fp16 (GPTSmall's five steps in bf16: 3e-5). A wrong
 * seed, or a gradient that is not averaged, moves a loss by 1e-3 or more. */
double loss_tolerance(const struct experiment *experiment)
{
    static const double bound[DT_DTYPE_COUNT] = {[DT_FP32] = 1e-5, [DT_FP16] = 1e-4, [DT_BF16] = 1e-3};
    return experiment->model.family->loss_spread * bound[loss_rounded_to(experiment)];
}

/* ---- reading records ---- */

/* Read the config as this version understands it. A config that it does not understand is not a
 * failure. */
static dt_status read_experiment(const cJSON *config, struct experiment **out)
{
    DT_FREED char *text = NULL;
    int count;
    *out = NULL;
    DT_TRY(dt_json_print(config, DT_JSON_COMPACT, &text));
    dt_status status = experiments_parse(text, strlen(text), "a record's config", NULL, 0, out, &count);
    if (status < 0)
        *out = NULL;
    return status == DT_ERR_HOST_MEMORY ? status : DT_OK;
}

/* Does the config alone determine the experiment? The contents of order and tuning files are only
 * in the recorded hash. Older versions also left out pipeline.split if it had its default, and the
 * default's rule has changed, so the rule that was used is unknown. */
static bool says_all(const cJSON *config, const struct experiment *e)
{
    bool divided = e->strategy.stages > 1, told = dt_json_at(config, "pipeline.split");
    return !*e->tuning && !e->strategy.has_order_file && (!divided || told);
}

static bool is_record(const cJSON *json)
{
    return cJSON_IsObject(dt_json_at(json, "config")) && *dt_json_text_at(json, "config_hash") && *dt_json_text_at(json, "status");
}

void records_warn_of_left_out(const char *command, const char *file, int torn, int newer, double version)
{
    if (torn > 0)
        line_print(stderr, "dtbench %s: %s: %d line%s left out: half-written, or no record", command, file, torn, torn > 1 ? "s" : "");
    if (newer > 0)
        line_print(stderr, "dtbench %s: %s: %d record%s left out: schema_version %.17g, and this dtbench knows up to %d: use a newer one",
                   command, file, newer, newer > 1 ? "s" : "", version, DT_RECORD_SCHEMA_VERSION);
}

static dt_status read_record(const cJSON *json, const char *file, struct record_facts *r)
{
    const cJSON *metrics = dt_json_at(json, "metrics"), *sweep = dt_json_at(json, "sweep");
    *r = (struct record_facts){
        .json = json,
        .file = file,
        .hash = dt_json_text_at(json, "config_hash"),
        .status = dt_json_text_at(json, "status"),
        .error = dt_json_text_at(json, "error"),
        .started = dt_json_text_at(json, "provenance.started"),
        .sweep.id = dt_json_text_at(sweep, "id"),
    };
    double index = dt_json_number(sweep, "index", NAN), count = dt_json_number(sweep, "count", NAN);
    if (index >= 0 && count > index && count <= DT_SWEEP_MAX) {
        r->sweep.index = (int)index;
        r->sweep.count = (int)count;
    } else {
        r->sweep.id = "";
    }
    dt_metrics_read(&r->metrics, metrics);
    DT_TRY(dt_json_read_numbers(dt_json_at(metrics, "step_s.all"), &r->step_s, &r->step_count));
    DT_TRY(dt_json_read_numbers(dt_json_at(json, "losses"), &r->losses, &r->loss_count));
    DT_TRY(read_experiment(dt_json_at(json, "config"), &r->experiment));
    if (r->experiment && !says_all(dt_json_at(json, "config"), r->experiment))
        snprintf(r->experiment->hash, sizeof r->experiment->hash, "%.16s", r->hash);
    return DT_OK;
}

/* Reads the records of one file into a set. */
struct set_reader {
    struct record_set *set;
    const char *command;
    bool facts_alone;
    int torn, newer;
    double version; /* the latest version among newer records */
};

/* Add a file. */
static dt_status add_file(struct record_set *set, const char *name)
{
    DT_TRY(dt_allocated(DT_ONE_MORE(set->files, set->file_count), "no memory for the records of %s", name));
    struct record_file *file = &set->files[set->file_count];
    *file = (struct record_file){.name = strdup(name), .records = dt_json_array()};
    set->file_count++;
    return dt_allocated(file->name && file->records, "no memory for the records of %s", name);
}

/* Copy its texts, and drop steps and losses, so that the JSON can be freed. */
static dt_status keep_facts(struct record_facts *r)
{
    const char **const texts[] = {&r->hash, &r->status, &r->error, &r->started, &r->sweep.id};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        bytes += strlen(*texts[i]) + 1;
    char *to = r->texts = malloc(bytes);
    DT_TRY(dt_allocated(to, "no memory for a record"));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *begin = to;
        to = stpcpy(to, *texts[i]) + 1;
        *texts[i] = begin;
    }
    free(r->step_s);
    free(r->losses);
    r->step_s = r->losses = NULL;
    r->step_count = r->loss_count = 0;
    r->json = NULL;
    return DT_OK;
}

/* Add a record, which must stay valid. */
static dt_status add_record(struct set_reader *reader, const cJSON *json)
{
    struct record_set *set = reader->set;
    DT_TRY(dt_allocated(DT_ROOM(set->records, set->count, set->room), "no memory for %d records", set->count + 1));
    struct record_facts *r = &set->records[set->count++];
    DT_TRY(read_record(json, set->files[set->file_count - 1].name, r));
    return reader->facts_alone ? keep_facts(r) : DT_OK;
}

static dt_status read_line(void *context, char *line, size_t bytes, uint64_t offset)
{
    struct set_reader *reader = context;
    struct record_file *file = &reader->set->files[reader->set->file_count - 1];
    cJSON *json = NULL;
    (void)offset;
    if (strspn(line, " \t\r\n") == bytes)
        return DT_OK;
    dt_status status = dt_json_parse(line, bytes, file->name, &json);
    if (status == DT_ERR_HOST_MEMORY)
        return status;
    bool newer =
        status == DT_OK && dt_json_number(json, "schema_version", NAN) > DT_RECORD_SCHEMA_VERSION; /* its values may mean something else */
    bool torn = !newer && (status < 0 || !is_record(json));
    reader->torn += torn;
    reader->newer += newer;
    if (newer)
        reader->version = fmax(reader->version, dt_json_number(json, "schema_version", NAN));
    status = torn || newer ? DT_OK : add_record(reader, json);
    if (torn || newer || reader->facts_alone || status < 0)
        cJSON_Delete(json);
    else
        cJSON_AddItemToArray(file->records, json);
    return status;
}

struct file_visit {
    record_file_use *use;
    void *context;
};

/* Visit a file of records, and a draft that a killed run has left next to it. */
static dt_status visit_file(struct file_visit *visit, const char *path)
{
    bool standard = strcmp(path, "-") == 0;
    const char *opened = standard ? "/dev/stdin" : path;
    if (access(opened, R_OK) < 0)
        return dt_fail(DT_ERR_IO, "cannot read records from %s: %s", path, strerror(errno));
    DT_TRY(visit->use(visit->context, opened, standard ? "standard input" : path));
    return standard ? DT_OK : drafts_visit(path, visit->use, visit->context);
}

/* Visit all matches of the pattern, by name. */
static dt_status visit_pattern(struct file_visit *visit, const char *argument, const char *pattern)
{
    DT_ENDED(globfree) glob_t found = {0};
    dt_status status = DT_OK;
    int failed = glob(pattern, 0, NULL, &found);
    if (failed == GLOB_NOMATCH)
        status = dt_fail(DT_ERR_IO, "cannot read records from %s: there is no %s", argument,
                         strcmp(argument, pattern) == 0 ? "such file" : "*.jsonl in it");
    else if (failed)
        status =
            dt_fail(DT_ERR_IO, "cannot read records from %s: %s", argument, failed == GLOB_NOSPACE ? "out of memory" : strerror(errno));
    for (size_t i = 0; status == DT_OK && i < found.gl_pathc; i++)
        status = visit_file(visit, found.gl_pathv[i]);
    return status;
}

/* Visit all *.jsonl of a folder. */
static dt_status visit_folder(struct file_visit *visit, const char *folder)
{
    DT_FREED char *pattern = glob_pattern(folder, "/*.jsonl");
    DT_TRY(dt_allocated(pattern, "no memory for the records of %s", folder));
    return visit_pattern(visit, folder, pattern);
}

dt_status record_files_visit(const char *const *arguments, int argument_count, record_file_use *use, void *context)
{
    struct file_visit visit = {use, context};
    for (int i = 0; i < argument_count; i++) {
        struct stat facts;
        bool there = stat(arguments[i], &facts) == 0;
        if (there && S_ISDIR(facts.st_mode))
            DT_TRY(visit_folder(&visit, arguments[i]));
        else if (!there && strpbrk(arguments[i], "*?["))
            DT_TRY(visit_pattern(&visit, arguments[i], arguments[i]));
        else
            DT_TRY(visit_file(&visit, arguments[i]));
    }
    return DT_OK;
}

static dt_status read_into_set(void *context, const char *path, const char *name)
{
    struct set_reader *reader = context;
    reader->torn = reader->newer = 0;
    reader->version = 0;
    DT_TRY(add_file(reader->set, name));
    DT_TRY(dt_record_lines_visit(path, read_line, reader));
    reader->set->newer += reader->newer;
    records_warn_of_left_out(reader->command, name, reader->torn, reader->newer, reader->version);
    return DT_OK;
}

dt_status record_set_read(struct record_set *set, const char *command, const char *const *arguments, int argument_count)
{
    *set = (struct record_set){0};
    return record_files_visit(arguments, argument_count, read_into_set, &(struct set_reader){.set = set, .command = command});
}

int record_arguments_read(const char *command, const char *const *arguments, int count, bool facts_alone, struct record_set *out)
{
    struct set_reader reader = {.set = out, .command = command, .facts_alone = facts_alone};
    *out = (struct record_set){0};
    dt_status status = record_files_visit(arguments, count, read_into_set, &reader);
    return status == DT_OK ? EXIT_CODE_OK : report_wrong(command, status);
}

void record_set_finish(struct record_set *set)
{
    for (int i = 0; i < set->count; i++) {
        free(set->records[i].step_s);
        free(set->records[i].losses);
        free(set->records[i].experiment);
        free(set->records[i].texts);
    }
    for (int i = 0; i < set->file_count; i++) {
        dt_json_destroy(set->files[i].records);
        free(set->files[i].name);
    }
    free(set->records);
    free(set->files);
    *set = (struct record_set){0};
}

void record_describe_config(const struct record_facts *record, char *text, size_t text_bytes)
{
    const cJSON *bench = dt_json_at(record->json, "config.bench");
    snprintf(text, text_bytes, "config %.16s", record->hash);
    if (bench)
        snprintf(text, text_bytes, "%s of %.0f bytes, groups of %.0f, stride %.0f, beside %s", dt_json_text_at(bench, "collective"),
                 dt_json_number(bench, "bytes", NAN), dt_json_number(bench, "group", NAN), dt_json_number(bench, "stride", NAN),
                 dt_json_text_at(bench, "beside"));
}

bool record_is_ok(const struct record_facts *record)
{
    return strcmp(record->status, "ok") == 0;
}

/* Should `a` be kept rather than `b`, which comes before it? */
static bool is_better(const struct record_facts *a, const struct record_facts *b)
{
    if (record_is_ok(a) != record_is_ok(b))
        return record_is_ok(a);
    return strcmp(a->started, b->started) >= 0;
}

dt_status record_set_newest(const struct record_set *set, int *chosen, int *count)
{
    DT_FREED struct dt_place *places = malloc(((size_t)set->count + 1) * sizeof *places);
    DT_FREED int *best = malloc(((size_t)set->count + 1) * sizeof *best);
    *count = 0;
    DT_TRY(dt_allocated(places && best, "no memory for %d records", set->count));
    for (int i = 0; i < set->count; i++) {
        const struct record_facts *record = &set->records[i]; /* older versions had other hashes for the same experiment */
        const char *hash = record->experiment ? record->experiment->hash : record->hash;
        places[i] = (struct dt_place){dt_hash_fnv1a(hash, strlen(hash)), i};
        best[i] = -1;
    }
    dt_places_sort(places, set->count);
    /* best[] is stored at the first record of each hash. */
    for (int i = 0, first = 0; i < set->count; i++) {
        int at = places[i].at;
        if (i == 0 || places[i].key != places[i - 1].key)
            first = best[at] = at;
        else if (is_better(&set->records[at], &set->records[best[first]]))
            best[first] = at;
    }
    for (int i = 0; i < set->count; i++)
        if (best[i] >= 0)
            chosen[(*count)++] = best[i];
    return DT_OK;
}

const char *record_provenance(const struct record_facts *record, const char *key, char number[32])
{
    const cJSON *value = dt_json_at(dt_json_at(record->json, "provenance"), key);
    if (cJSON_IsNumber(value)) {
        dt_format_double(value->valuedouble, number, 32);
        return number;
    }
    return cJSON_IsObject(value) ? dt_json_text_at(value, "hash") : cJSON_IsString(value) ? value->valuestring : "";
}

const char *record_library(const struct record_facts *record, int index, const char **version)
{
    const cJSON *library = cJSON_GetArrayItem(dt_json_at(record->json, "provenance.versions"), index);
    *version = library && cJSON_IsString(library) ? library->valuestring : "";
    return library ? library->string : NULL;
}

int record_machines(const struct record_facts *record)
{
    return cJSON_GetArraySize(dt_json_at(record->json, "provenance.hosts"));
}
