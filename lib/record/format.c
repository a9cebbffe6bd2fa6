#include "lib/base/statistics.h"
#include "lib/config/json.h"
#include "lib/record/record.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void dt_record_init(struct dt_record *record)
{
    *record = (struct dt_record){.status = "failed"};
    double *const unknown[] = {&record->tokens_per_s,      &record->samples_per_s,    &record->tflops_per_gpu, &record->mfu,
                               &record->forward_s,         &record->backward_s,       &record->optimizer_s,    &record->exposed_comm_s,
                               &record->aco_ms_per_sample, &record->startup_s,        &record->wall_s,         &record->verification_error,
                               &record->overflow_steps,    &record->overflow_elements};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        *unknown[i] = NAN;
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

static bool add_steps(cJSON *metrics, const struct dt_record *record)
{
    struct dt_statistics s;
    cJSON *steps = cJSON_AddObjectToObject(metrics, "step_s");
    return steps && dt_statistics_compute(record->step_s, record->step_count, &s) == DT_OK && add_number(steps, "median", s.median) &&
           add_number(steps, "p95", s.p95) && add_number(steps, "cv", s.cv) &&
           add_numbers(steps, "all", record->step_s, record->step_count);
}

/* One rank's peaks: the total and each category. */
static bool add_usage(cJSON *object, const struct dt_memory_bytes *usage)
{
    bool done = add_number(object, "total", usage ? (double)usage->peak_total_bytes : NAN);
    for (int c = 0; c < DT_CATEGORY_COUNT; c++)
        done = done && add_number(object, dt_category_name((enum dt_category)c), usage ? (double)usage->peak_bytes[c] : NAN);
    return done;
}

static const struct dt_memory_bytes *memory_of(const struct dt_record *record, int rank, bool on_host)
{
    return on_host ? &record->ranks[rank].host : &record->ranks[rank].device;
}

/* One memory's peaks, the highest rank's and each rank's. */
static bool add_peaks(cJSON *metrics, const char *key, const struct dt_record *record, bool on_host)
{
    struct dt_memory_bytes highest = {0};
    for (int r = 0; r < record->rank_count; r++) {
        const struct dt_memory_bytes *rank = memory_of(record, r, on_host);
        if (rank->peak_total_bytes > highest.peak_total_bytes)
            highest.peak_total_bytes = rank->peak_total_bytes;
        for (int c = 0; c < DT_CATEGORY_COUNT; c++)
            if (rank->peak_bytes[c] > highest.peak_bytes[c])
                highest.peak_bytes[c] = rank->peak_bytes[c];
    }
    cJSON *peaks = cJSON_AddObjectToObject(metrics, key);
    if (!peaks || !add_usage(peaks, record->rank_count > 0 ? &highest : NULL))
        return false;
    cJSON *ranks = cJSON_AddArrayToObject(peaks, "per_rank");
    for (int r = 0; ranks && r < record->rank_count; r++) {
        double rss = record->rss_peak_bytes && record->rss_peak_bytes[r] > 0 ? (double)record->rss_peak_bytes[r] : NAN;
        cJSON *rank = cJSON_CreateObject();
        if (!rank)
            return false;
        cJSON_AddItemToArray(ranks, rank);
        if (!add_number(rank, "rank", r) || !add_usage(rank, memory_of(record, r, on_host)) ||
            !(on_host || add_number(rank, "process_rss", rss)))
            return false;
    }
    return ranks;
}

static bool add_metrics(cJSON *root, const struct dt_record *record)
{
    cJSON *m = cJSON_AddObjectToObject(root, "metrics");
    return m && add_number(m, "tokens_per_s", record->tokens_per_s) && add_number(m, "samples_per_s", record->samples_per_s) &&
           add_steps(m, record) && add_number(m, "tflops_per_gpu", record->tflops_per_gpu) && add_number(m, "mfu", record->mfu) &&
           add_text(m, "flops_formula", record->flops_formula) && add_number(m, "forward_s", record->forward_s) &&
           add_number(m, "backward_s", record->backward_s) && add_number(m, "optimizer_s", record->optimizer_s) &&
           add_number(m, "exposed_comm_s", record->exposed_comm_s) && add_number(m, "aco_ms_per_sample", record->aco_ms_per_sample) &&
           add_number(m, "overflow_steps", record->overflow_steps) && add_number(m, "overflow_elements", record->overflow_elements) &&
           add_number(m, "startup_s", record->startup_s) && add_number(m, "wall_s", record->wall_s) &&
           add_peaks(m, "peak_bytes", record, false) && add_peaks(m, "host_peak_bytes", record, true);
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
