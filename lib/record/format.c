#include "lib/config/json.h"
#include "lib/record/record.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void dt_record_init(struct dt_record *record)
{
    *record = (struct dt_record){.status = "failed"};
    dt_metrics_init(&record->metrics);
    record->verification_error = NAN;
}

/* All of these return false when memory is out. The printer turns a number that is not finite into null. */
static bool add_text(cJSON *object, const char *key, const char *text)
{
    return text ? cJSON_AddStringToObject(object, key, text) : cJSON_AddNullToObject(object, key);
}

static bool add_number(cJSON *object, const char *key, double value)
{
    return cJSON_AddNumberToObject(object, key, value);
}

static bool add_numbers(cJSON *object, const char *key, const double *values, int count)
{
    cJSON *array = cJSON_AddArrayToObject(object, key);
    for (int i = 0; array && i < count; i++) {
        cJSON *number = cJSON_CreateNumber(values[i]);
        if (!number)
            return false;
        cJSON_AddItemToArray(array, number);
    }
    return array;
}

static bool add_steps(cJSON *metrics, const char *key, const struct dt_record *record)
{
    cJSON *steps = cJSON_AddObjectToObject(metrics, key);
    return steps && add_number(steps, "median", record->metrics.step_s.median) && add_number(steps, "p95", record->metrics.step_s.p95) &&
           add_number(steps, "cv", record->metrics.step_s.cv) && add_numbers(steps, "all", record->step_s, record->step_count);
}

/* One rank's peaks of one memory, on its own. */
static struct dt_peaks peaks_of(const struct dt_memory_bytes *memory)
{
    struct dt_peaks peaks = {.total = (double)memory->peak_total_bytes};
    for (int c = 0; c < DT_CATEGORY_COUNT; c++)
        peaks.category[c] = (double)memory->peak_bytes[c];
    return peaks;
}

static bool add_peak_bytes(cJSON *object, const struct dt_peaks *peaks)
{
    bool done = add_number(object, "total", peaks->total);
    for (int c = 0; c < DT_CATEGORY_COUNT; c++)
        done = done && add_number(object, dt_category_name((enum dt_category)c), peaks->category[c]);
    return done;
}

/* Of one memory, whether two ranks have the same peaks. */
static bool are_alike(const struct dt_rank_memory *a, const struct dt_rank_memory *b, bool on_host)
{
    const struct dt_memory_bytes *left = on_host ? &a->memory.host : &a->memory.device,
                                 *right = on_host ? &b->memory.host : &b->memory.device;
    return left->peak_total_bytes == right->peak_total_bytes && memcmp(left->peak_bytes, right->peak_bytes, sizeof left->peak_bytes) == 0;
}

static bool add_range(cJSON *ranges, int first, int last, int step)
{
    const int numbers[] = {first, last, step};
    cJSON *range = cJSON_CreateIntArray(numbers, 3);
    return range && cJSON_AddItemToArray(ranges, range);
}

/* The ranks that are like `first`, as ranges [first, last, step]; they are marked as told. */
static bool add_ranks_like(cJSON *ranges, const struct dt_record *record, int first, bool on_host, bool *told)
{
    int begin = first, last = first, step = 0;
    bool done = ranges;
    told[first] = true;
    for (int r = first + 1; r < record->rank_count && done; r++) {
        if (told[r] || !are_alike(&record->ranks[first], &record->ranks[r], on_host))
            continue;
        told[r] = true;
        if (step == 0 || r - last == step) {
            step = r - last;
        } else {
            done = add_range(ranges, begin, last, step);
            begin = r;
            step = 0;
        }
        last = r;
    }
    return done && add_range(ranges, begin, last, step ? step : 1);
}

/* Thousands of ranks mostly hold the same: those that do are told together. */
static bool add_by_ranks(cJSON *peaks, const struct dt_record *record, bool on_host)
{
    cJSON *groups = cJSON_AddArrayToObject(peaks, "by_ranks");
    bool *told = calloc((size_t)record->rank_count + 1, sizeof *told), done = groups && told;
    for (int r = 0; done && r < record->rank_count; r++) {
        if (told[r])
            continue;
        struct dt_peaks its = peaks_of(on_host ? &record->ranks[r].memory.host : &record->ranks[r].memory.device);
        cJSON *group = cJSON_CreateObject();
        done = group && cJSON_AddItemToArray(groups, group) &&
               add_ranks_like(cJSON_AddArrayToObject(group, "ranks"), record, r, on_host, told) && add_peak_bytes(group, &its);
    }
    free(told);
    return done;
}

/* Of all ranks, or of none where it is unknown of all. */
static bool add_process_sizes(cJSON *peaks, const struct dt_record *record)
{
    cJSON *sizes = cJSON_AddArrayToObject(peaks, "process_rss");
    bool known = false, done = sizes;
    for (int r = 0; r < record->rank_count; r++)
        known |= record->ranks[r].rss_peak_bytes > 0;
    for (int r = 0; done && known && r < record->rank_count; r++) {
        uint64_t bytes = record->ranks[r].rss_peak_bytes;
        done = cJSON_AddItemToArray(sizes, cJSON_CreateNumber(bytes > 0 ? (double)bytes : NAN));
    }
    return done;
}

/* The highest rank's of one memory, and each rank's. */
static bool add_peaks(cJSON *metrics, const char *key, const struct dt_peaks *highest, const struct dt_record *record, bool on_host)
{
    cJSON *peaks = cJSON_AddObjectToObject(metrics, key);
    return peaks && add_peak_bytes(peaks, highest) && add_by_ranks(peaks, record, on_host) && (on_host || add_process_sizes(peaks, record));
}

static bool add_metric(cJSON *metrics, const struct dt_metric *metric, const struct dt_record *record)
{
    const void *member = (const char *)&record->metrics + metric->offset;
    switch (metric->kind) {
    case DT_METRIC_NUMBER: return add_number(metrics, metric->key, dt_metric_value(metric, &record->metrics));
    case DT_METRIC_TEXT: return add_text(metrics, metric->key, *(const char *const *)member);
    case DT_METRIC_STEPS: return add_steps(metrics, metric->key, record);
    case DT_METRIC_DEVICE_PEAKS: return add_peaks(metrics, metric->key, member, record, false);
    case DT_METRIC_HOST_PEAKS: return add_peaks(metrics, metric->key, member, record, true);
    }
    return false;
}

static bool add_metrics(cJSON *root, const struct dt_record *record)
{
    cJSON *metrics = cJSON_AddObjectToObject(root, "metrics");
    bool done = metrics;
    for (int i = 0; done && dt_metric_at(i); i++)
        done = add_metric(metrics, dt_metric_at(i), record);
    return done;
}

static bool add_verification(cJSON *root, const struct dt_record *record)
{
    if (!record->verification)
        return cJSON_AddNullToObject(root, "verification");
    cJSON *verification = cJSON_AddObjectToObject(root, "verification");
    return verification && add_text(verification, "status", record->verification) &&
           add_number(verification, "largest_relative_difference", record->verification_error);
}

static bool add_sweep(cJSON *root, const struct dt_record *record)
{
    if (!record->sweep_id)
        return cJSON_AddNullToObject(root, "sweep");
    cJSON *sweep = cJSON_AddObjectToObject(root, "sweep");
    return sweep && add_text(sweep, "id", record->sweep_id) && add_number(sweep, "index", record->sweep_index) &&
           add_number(sweep, "count", record->sweep_count);
}

dt_status dt_record_format(const struct dt_record *record, char **out_line)
{
    cJSON *config = NULL, *provenance = record->provenance ? cJSON_Duplicate(record->provenance, true) : cJSON_CreateNull();
    cJSON *root = cJSON_CreateObject();
    dt_status status = DT_ERR_HOST_MEMORY;
    if (!root || !provenance)
        goto fail;
    status = dt_json_parse(record->config_json, strlen(record->config_json), "a record's config", &config);
    if (status < 0)
        goto fail;
    bool added = cJSON_AddItemToObject(root, "schema_version", cJSON_CreateNumber(DT_RECORD_SCHEMA_VERSION));
    added = added && cJSON_AddItemToObject(root, "config", config);
    if (added)
        config = NULL; /* the root's now */
    added = added && add_text(root, "config_hash", record->config_hash) && add_sweep(root, record) &&
            add_text(root, "status", record->status) && add_text(root, "error", record->error) &&
            add_numbers(root, "losses", record->losses, record->loss_count) && add_metrics(root, record) &&
            add_verification(root, record) && cJSON_AddItemToObject(root, "provenance", provenance);
    if (added)
        provenance = NULL;
    status = added ? dt_json_print(root, DT_JSON_COMPACT, out_line) : DT_ERR_HOST_MEMORY;
fail:
    cJSON_Delete(root);
    cJSON_Delete(config);
    cJSON_Delete(provenance);
    return status == DT_ERR_HOST_MEMORY ? dt_fail(status, "out of memory while making a record") : status;
}
