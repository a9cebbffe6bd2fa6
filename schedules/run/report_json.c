/* A report's measurements as JSON: how they travel from rank 0 to the process that writes the record. */
#include "lib/config/json.h"
#include "schedules/run/report.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool add_numbers(cJSON *object, const char *key, const double *values, int count)
{
    cJSON *array = cJSON_AddArrayToObject(object, key);
    bool kept = array != NULL;
    for (int i = 0; kept && i < count; i++)
        kept = cJSON_AddItemToArray(array, cJSON_CreateNumber(values[i])); /* NaN becomes null when printed */
    return kept;
}

static bool add_memory(cJSON *object, const char *total, const char *peaks, const struct dt_memory_bytes *memory)
{
    double values[DT_CATEGORY_COUNT];
    for (int c = 0; c < DT_CATEGORY_COUNT; c++)
        values[c] = (double)memory->peak_bytes[c];
    return cJSON_AddNumberToObject(object, total, (double)memory->peak_total_bytes) &&
           add_numbers(object, peaks, values, DT_CATEGORY_COUNT);
}

static bool add_rank(cJSON *array, const struct measure_rank *rank)
{
    cJSON *object = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(array, object))
        return false;
    return add_memory(object, "total", "peaks", &rank->memory.device) &&
           add_memory(object, "host_total", "host_peaks", &rank->memory.host) &&
           cJSON_AddNumberToObject(object, "resident", (double)rank->rss_peak_bytes);
}

static cJSON *make_object(const struct report *report)
{
    const struct measure_result *result = &report->result;
    cJSON *object = cJSON_CreateObject(), *ranks = NULL;
    bool kept =
        object && add_numbers(object, "step_s", result->step_s, result->steps_done) &&
        add_numbers(object, "losses", result->losses, result->losses_done) &&
        add_numbers(object, "phase_s", result->phase_s, TIMELINE_PHASES) &&
        cJSON_AddNumberToObject(object, "startup_s", result->startup_s) && cJSON_AddStringToObject(object, "graph", result->graph) &&
        cJSON_AddNumberToObject(object, "overflow_steps", result->overflow_steps) &&
        cJSON_AddNumberToObject(object, "overflow_elements", result->overflow_elements) &&
        (ranks = cJSON_AddArrayToObject(object, "ranks")) && cJSON_AddStringToObject(object, "device", report->device) &&
        cJSON_AddStringToObject(object, "device_name", report->device_name) &&
        cJSON_AddStringToObject(object, "launcher", report->launcher) && cJSON_AddStringToObject(object, "versions", report->versions) &&
        cJSON_AddNumberToObject(object, "threads", report->threads) && cJSON_AddStringToObject(object, "driver", report->driver) &&
        cJSON_AddStringToObject(object, "gpus", report->gpus ? report->gpus : "") &&
        cJSON_AddStringToObject(object, "hosts", report->hosts ? report->hosts : "");
    for (int i = 0; kept && result->ranks && i < result->rank_count; i++)
        kept = add_rank(ranks, &result->ranks[i]);
    if (kept)
        return object;
    cJSON_Delete(object);
    return NULL;
}

dt_status report_write(const struct report *report, char **out)
{
    cJSON *object = make_object(report);
    if (!object)
        return dt_fail(DT_ERR_HOST_MEMORY, "no host memory for a result");
    dt_status status = dt_json_print(object, DT_JSON_COMPACT, out);
    cJSON_Delete(object);
    return status;
}

static double number_of(const cJSON *value)
{
    return cJSON_IsNumber(value) ? value->valuedouble : NAN;
}

static uint64_t bytes_of(const cJSON *value)
{
    return cJSON_IsNumber(value) && value->valuedouble > 0 ? (uint64_t)value->valuedouble : 0;
}

/* An array of numbers; NULL where there is none or no memory. The caller frees it. */
static double *read_numbers(const cJSON *object, const char *key, int *count)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(object, key), *item;
    if (!cJSON_IsArray(array))
        return NULL;
    double *values = calloc((size_t)cJSON_GetArraySize(array) + 1, sizeof *values);
    *count = 0;
    cJSON_ArrayForEach(item, array)
    {
        if (values)
            values[(*count)++] = number_of(item);
    }
    return values;
}

static void read_text(const cJSON *object, const char *key, char *out, size_t out_bytes)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    snprintf(out, out_bytes, "%s", text ? text : "");
}

/* NULL where there are none. */
static void read_lines(const cJSON *object, const char *key, char **out)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    free(*out);
    *out = text && *text ? strdup(text) : NULL;
}

static bool read_memory(const cJSON *object, const char *total, const char *peaks, struct dt_memory_bytes *out)
{
    int count = 0;
    double *values = read_numbers(object, peaks, &count);
    bool complete = values && count == DT_CATEGORY_COUNT;
    for (int c = 0; complete && c < count; c++)
        out->peak_bytes[c] = values[c] > 0 ? (uint64_t)values[c] : 0;
    free(values);
    out->peak_total_bytes = bytes_of(cJSON_GetObjectItemCaseSensitive(object, total));
    return complete;
}

static bool read_rank(const cJSON *object, struct measure_rank *out)
{
    out->rss_peak_bytes = bytes_of(cJSON_GetObjectItemCaseSensitive(object, "resident"));
    return read_memory(object, "total", "peaks", &out->memory.device) && read_memory(object, "host_total", "host_peaks", &out->memory.host);
}

static bool read_result(const cJSON *object, struct measure_result *out)
{
    int phases = 0, i = 0;
    const cJSON *ranks = cJSON_GetObjectItemCaseSensitive(object, "ranks"), *item;
    double *phase_s = read_numbers(object, "phase_s", &phases);
    bool complete = phases == TIMELINE_PHASES && phase_s && cJSON_IsArray(ranks);
    if (complete)
        memcpy(out->phase_s, phase_s, sizeof out->phase_s);
    free(phase_s);
    out->startup_s = number_of(cJSON_GetObjectItemCaseSensitive(object, "startup_s"));
    read_text(object, "graph", out->graph, sizeof out->graph);
    out->overflow_steps = number_of(cJSON_GetObjectItemCaseSensitive(object, "overflow_steps"));
    out->overflow_elements = number_of(cJSON_GetObjectItemCaseSensitive(object, "overflow_elements"));
    out->step_s = read_numbers(object, "step_s", &out->steps_done);
    out->losses = read_numbers(object, "losses", &out->losses_done);
    out->rank_count = complete ? cJSON_GetArraySize(ranks) : 0;
    out->ranks = calloc((size_t)out->rank_count + 1, sizeof *out->ranks);
    complete &= out->step_s && out->losses && out->ranks;
    cJSON_ArrayForEach(item, ranks)
    {
        complete = complete && read_rank(item, &out->ranks[i++]);
    }
    return complete;
}

dt_status report_read(struct report *report, const char *text)
{
    cJSON *object;
    struct measure_result result = {0};
    DT_TRY(dt_json_parse(text, strlen(text), "rank 0's result", &object));
    if (!read_result(object, &result)) {
        measure_result_finish(&result);
        dt_json_destroy(object);
        return dt_fail(DT_ERR_INVALID, "rank 0's result is not complete");
    }
    measure_result_finish(&report->result);
    report->result = result;
    read_text(object, "device", report->device, sizeof report->device);
    read_text(object, "device_name", report->device_name, sizeof report->device_name);
    read_text(object, "launcher", report->launcher, sizeof report->launcher);
    read_text(object, "versions", report->versions, sizeof report->versions);
    const cJSON *threads = cJSON_GetObjectItemCaseSensitive(object, "threads");
    report->threads = cJSON_IsNumber(threads) ? threads->valueint : 0;
    read_text(object, "driver", report->driver, sizeof report->driver);
    read_lines(object, "hosts", &report->hosts);
    read_lines(object, "gpus", &report->gpus);
    dt_json_destroy(object);
    return DT_OK;
}
