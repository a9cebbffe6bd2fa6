/* The config parser's answers, for test_schema.py. Without arguments: a config a line on standard
 * input, a line each on standard output, "ok N" (experiments) or the error. "table": the table of
 * fields as JSON. "records": a few records. "resolved": like the first, but a line for each
 * experiment with its resolved config. */
#include "lib/config/json.h"
#include "lib/record/record.h"
#include "schedules/config/parse.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int judge(bool resolved)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t length;
    while ((length = getline(&line, &size, stdin)) > 0) {
        struct experiment *all = NULL;
        int count = 0;
        if (experiments_parse(line, (size_t)length, "t", NULL, 0, &all, &count) < 0)
            printf("%.*s\n", (int)strcspn(dt_error_message(), "\n"), dt_error_message()); /* the first of several */
        else if (!resolved)
            printf("ok %d\n", count);
        for (int i = 0; resolved && i < count; i++) {
            char *text;
            if (experiment_to_json(&all[i], DT_JSON_COMPACT, &text) < 0)
                return 1;
            puts(text);
            free(text);
        }
        free(all);
    }
    free(line);
    return 0;
}

static int print_table(void)
{
    const struct dt_table *table = experiment_table();
    static const char *const kinds[] = {[DT_FIELD_BOOL] = "boolean",  [DT_FIELD_INT] = "integer",  [DT_FIELD_U64] = "integer",
                                        [DT_FIELD_NUMBER] = "number", [DT_FIELD_FLOAT] = "number", [DT_FIELD_STRING] = "string",
                                        [DT_FIELD_TEXT] = "string",   [DT_FIELD_ENUM] = "string",  [DT_FIELD_SETTINGS] = "object"};
    cJSON *all = cJSON_CreateObject();
    for (int i = 0; i < table->count; i++) {
        const struct dt_field *f = &table->fields[i];
        cJSON *field = cJSON_AddObjectToObject(all, f->path);
        cJSON_AddStringToObject(field, "type", kinds[f->kind]);
        cJSON_AddNumberToObject(field, "min", f->min);
        cJSON_AddNumberToObject(field, "max", f->max);
        cJSON_AddBoolToObject(field, "above", f->above);
        cJSON_AddBoolToObject(field, "below", f->below);
        cJSON_AddStringToObject(field, "description", f->description);
        if (f->list)
            cJSON_AddTrueToObject(field, "list");
        if (f->booleans)
            cJSON_AddTrueToObject(field, "booleans");
        if (f->words)
            cJSON_AddNumberToObject(field, "words", f->words);
        if (f->prefix)
            cJSON_AddStringToObject(field, "prefix", f->prefix);
        if (f->initial)
            cJSON_AddItemToObject(field, "default", cJSON_Parse(f->initial));
        cJSON *choices = dt_field_has_choices(f) ? cJSON_AddArrayToObject(field, "choices") : NULL;
        for (int c = 0; choices && dt_field_choice(f, c); c++)
            cJSON_AddItemToArray(choices, cJSON_CreateString(dt_field_choice(f, c)));
        cJSON *refused = f->refused ? cJSON_AddArrayToObject(field, "refused") : NULL;
        if (f->word)
            cJSON_AddStringToObject(field, "word", f->word);
        if (f->most_numbers > 0)
            cJSON_AddNumberToObject(field, "most_numbers", f->most_numbers);
        if (f->file_ending)
            cJSON_AddStringToObject(field, "file_ending", f->file_ending);
        for (const struct dt_refused_choice *r = f->refused; r && r->name; r++)
            cJSON_AddItemToArray(refused, cJSON_CreateString(r->name));
    }
    char *text;
    if (dt_json_print(all, DT_JSON_COMPACT, &text) < 0)
        return 1;
    puts(text);
    free(text);
    cJSON_Delete(all);
    return 0;
}

/* Every number that the table knows of. */
static void fill_numbers(struct dt_metrics *metrics)
{
    for (int i = 0; dt_metric_at(i); i++) {
        const struct dt_metric *m = dt_metric_at(i);
        if (m->kind == DT_METRIC_NUMBER)
            *(double *)((char *)metrics + m->offset) = dt_unit_is_whole(m->unit) ? 2 : 1.25;
    }
}

static int print_record(struct dt_record *record)
{
    char *line;
    if (dt_record_format(record, &line) < 0)
        return 1;
    puts(line);
    free(line);
    return 0;
}

/* Print a record with all members, and one of a run that never began. */
static int print_records(void)
{
    static const char config[] = "{\"model\":{\"preset\":\"GPTSmall\"},\"world_"
                                 "size\":2,\"paradigm\":\"ddp\"}";
    const double losses[] = {10.9, 10.8, NAN}, steps[] = {1.5, 1.6};
    const struct dt_rank_memory ranks[2] = {{.memory.device.peak_total_bytes = 7, .rss_peak_bytes = 123},
                                            {.memory.device.peak_total_bytes = 9}};
    const struct dt_provenance_facts facts = {.device = "cpu",
                                              .gpus = "GPU-1\nGPU-2",
                                              .device_name = "x",
                                              .threads_per_rank = 1,
                                              .launcher = "none",
                                              .versions = "oneDNN 2.6.3",
                                              .driver = "1.0",
                                              .started_s = 1e9},
                                     nothing = {.started_s = NAN};
    struct experiment *experiment = NULL;
    struct cJSON *full = NULL, *empty = NULL;
    struct dt_record record;
    char *resolved = NULL;
    int count, failed = 1;
    if (experiments_parse(config, strlen(config), "t", NULL, 0, &experiment, &count) < 0 ||
        experiment_to_json(experiment, DT_JSON_COMPACT, &resolved) < 0 || dt_provenance_collect(&facts, &full) < 0 ||
        dt_provenance_collect(&nothing, &empty) < 0)
        goto done;
    dt_record_init(&record);
    record.config_json = resolved;
    record.config_hash = experiment->hash;
    record.error = "rank 1: killed by signal 9";
    record.provenance = empty;
    failed = print_record(&record);
    record.status = "ok";
    record.error = NULL;
    record.losses = losses;
    record.loss_count = 3;
    record.step_s = steps;
    record.step_count = 2;
    fill_numbers(&record.metrics);
    record.metrics.flops_formula = "6 N";
    dt_metrics_set_peaks(&record.metrics, ranks, 2);
    if (dt_metrics_set_steps(&record.metrics, steps, 2) < 0)
        goto done;
    record.sweep_id = "00ff00ff00ff00ff";
    record.sweep_count = 3;
    record.ranks = ranks;
    record.rank_count = 2;
    record.verification = "passed";
    record.verification_error = 1e-7;
    record.provenance = full;
    failed |= print_record(&record);
done:
    dt_json_destroy(full);
    dt_json_destroy(empty);
    free(resolved);
    free(experiment);
    return failed;
}

int main(int count, char **arguments)
{
    const char *what = count > 1 ? arguments[1] : "";
    return strcmp(what, "table") == 0     ? print_table()
           : strcmp(what, "records") == 0 ? print_records()
                                          : judge(strcmp(what, "resolved") == 0);
}
