/* A comparison as JSON. */
#include "cli/records/compare.h"
#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>

static bool add_text(cJSON *object, const char *key, const char *text)
{
    return text ? cJSON_AddStringToObject(object, key, text) : cJSON_AddNullToObject(object, key);
}

/* One side of a pair; null where there is none. */
static bool add_side(cJSON *object, const char *key, const struct record_facts *record, const struct compare_steps *steps)
{
    if (!record)
        return cJSON_AddNullToObject(object, key);
    cJSON *side = cJSON_AddObjectToObject(object, key);
    return side && add_text(side, "config_hash", record->hash) && add_text(side, "file", record->file) &&
           add_text(side, "status", record->status) && add_text(side, "started", *record->started ? record->started : NULL) &&
           cJSON_AddNumberToObject(side, "tokens_per_s", steps->tokens_per_s) &&
           cJSON_AddNumberToObject(side, "step_s", record->metrics.step_s.median) && cJSON_AddNumberToObject(side, "steps", steps->count) &&
           cJSON_AddNumberToObject(side, "runs", steps->runs) &&
           cJSON_AddNumberToObject(side, "peak_bytes", record->metrics.peak_bytes.total);
}

static bool add_gates(cJSON *object, const char *key, unsigned gates)
{
    cJSON *array = cJSON_AddArrayToObject(object, key);
    for (unsigned gate = 1; array && gate < GATE_ALL; gate <<= 1) {
        cJSON *name = gates & gate ? cJSON_CreateString(compare_gate_name((enum compare_gate)gate)) : NULL;
        if (gates & gate && !name)
            return false;
        if (name)
            cJSON_AddItemToArray(array, name);
    }
    return array;
}

static bool add_row(cJSON *array, const struct comparison *row)
{
    const struct record_facts *record = row->new ? row->new : row->base;
    cJSON *object = cJSON_CreateObject(), *interval, *low, *high;
    if (!object)
        return false;
    cJSON_AddItemToArray(array, object);
    bool done = add_text(object, "experiment", row->label) && add_text(object, "config_hash", record->hash) &&
                add_text(object, "verdict", compare_verdict_name(row->verdict)) && add_gates(object, "regressions", row->regressions) &&
                add_text(object, "reason", *row->reason ? row->reason : NULL) &&
                cJSON_AddNumberToObject(object, "throughput_ratio", row->ratio.ratio);
    interval = done ? cJSON_AddArrayToObject(object, "interval") : NULL;
    low = cJSON_CreateNumber(row->ratio.low);
    high = cJSON_CreateNumber(row->ratio.high);
    if (!interval || !low || !high) {
        cJSON_Delete(low);
        cJSON_Delete(high);
        return false;
    }
    cJSON_AddItemToArray(interval, low);
    cJSON_AddItemToArray(interval, high);
    done = cJSON_AddNumberToObject(object, "interval_widened", row->ratio.widened) &&
           (isnan(row->ratio.ratio) ? cJSON_AddNullToObject(object, "slowdown_excluded")
                                    : cJSON_AddBoolToObject(object, "slowdown_excluded", row->no_slowdown)) &&
           cJSON_AddNumberToObject(object, "peak_bytes_change", row->memory_bytes) &&
           add_text(object, "losses", compare_losses_name(row->losses));
    done = done && (row->loss_step >= 0 ? cJSON_AddNumberToObject(object, "first_step_with_other_loss", row->loss_step + 1)
                                        : cJSON_AddNullToObject(object, "first_step_with_other_loss"));
    return done && add_side(object, "base", row->base, &row->base_steps) && add_side(object, "new", row->new, &row->new_steps);
}

static bool add_counts(cJSON *object, const struct compare *c)
{
    cJSON *counts = cJSON_AddObjectToObject(object, "verdicts");
    for (int v = 0; counts && v < COMPARE_VERDICTS; v++)
        if (!cJSON_AddNumberToObject(counts, compare_verdict_name((enum compare_verdict)v), c->counts[v]))
            return false;
    return counts;
}

dt_status compare_print_json(const struct compare *c, const struct compare_options *o, FILE *to)
{
    cJSON *root = cJSON_CreateObject();
    char *text = NULL;
    bool done = root && cJSON_AddNumberToObject(root, "threshold", o->threshold) && add_gates(root, "gates", o->gates) &&
                cJSON_AddNumberToObject(root, "confidence", DT_RATIO_CONFIDENCE) &&
                add_text(root, "method", "Hodges-Lehmann ratio of throughput over all pairs of timed steps, Mann-Whitney interval") &&
                add_text(root, "different", *c->different ? c->different : NULL) && add_text(root, "noted", *c->noted ? c->noted : NULL) &&
                add_text(root, "predicted", *c->predicted ? c->predicted : NULL) && add_text(root, "by", o->by ? o->by->keys : NULL) &&
                cJSON_AddNumberToObject(root, "alone", c->alone) && cJSON_AddNumberToObject(root, "regressions", c->regressions) &&
                add_counts(root, c);
    cJSON *rows = done ? cJSON_AddArrayToObject(root, "experiments") : NULL;
    done = rows;
    for (int i = 0; done && i < c->count; i++)
        done = add_row(rows, &c->rows[i]);
    dt_status status =
        done ? dt_json_print(root, DT_JSON_INDENT, &text) : dt_fail(DT_ERR_HOST_MEMORY, "no memory for the comparison as JSON");
    cJSON_Delete(root);
    DT_TRY(status);
    fprintf(to, "%s\n", text);
    free(text);
    return DT_OK;
}
