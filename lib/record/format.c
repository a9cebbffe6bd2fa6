#include "lib/record/record.h"

#include "lib/config/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static cJSON *pair(double before, double after)
{
    return dt_json_numbers((const double[]){before, after}, 2);
}

static cJSON *known_switch(int value)
{
    return value < 0 ? cJSON_CreateNull() : dt_json_truth(value);
}

static cJSON *slowdowns(const struct dt_device_condition *c)
{
    cJSON *names = c->slowdown_known ? dt_json_array() : cJSON_CreateNull();
    for (int i = 0; c->slowdown_known && i < DT_SLOWDOWN_COUNT; i++)
        if (c->slowdown[i])
            dt_json_append(&names, dt_json_text(dt_slowdown_name((enum dt_slowdown)i)));
    return names;
}

/* null if the GPU reports nothing; an unknown number is NAN, printed as null. */
static cJSON *condition_as_json(const struct dt_device_condition *before, const struct dt_device_condition *after)
{
    if (!after->known)
        return cJSON_CreateNull();
    return dt_json_object(
        "clock_mhz: %p, clock_limit_mhz: %g, memory_clock_mhz: %p, temperature_c: %p, power_w: %p, power_limit_w: %g, "
        "energy_j: %g, slowed_by: %p, power_slow_s: %g, heat_slow_s: %g, ecc: %p, mig: %p, persistence: %p, processes: %g",
        pair(before->clock_mhz, after->clock_mhz), after->clock_limit_mhz, pair(before->memory_clock_mhz, after->memory_clock_mhz),
        pair(before->temperature_c, after->temperature_c), pair(before->power_w, after->power_w), after->power_limit_w,
        after->energy_j - before->energy_j, slowdowns(after), after->power_slow_s - before->power_slow_s,
        after->heat_slow_s - before->heat_slow_s, known_switch(after->ecc), known_switch(after->mig), known_switch(after->persistence),
        after->processes < 0 ? NAN : after->processes);
}

dt_status dt_conditions_write(const struct dt_condition_pair *all, size_t stride, int count, char **out)
{
    DT_DESTROYED(dt_json_destroy) cJSON *array = dt_json_array();
    for (int i = 0; i < count; i++) {
        const struct dt_condition_pair *its = (const struct dt_condition_pair *)((const char *)all + (size_t)i * stride);
        dt_json_append(&array, condition_as_json(&its->before, &its->after));
    }
    return array ? dt_json_print(array, DT_JSON_COMPACT, out)
                 : dt_fail(DT_ERR_HOST_MEMORY, "no host memory for the conditions of %d GPUs", count);
}

/* ---- records ---- */

void dt_record_init(struct dt_record *record)
{
    *record = (struct dt_record){.status = "failed"};
    dt_metrics_init(&record->metrics);
    record->verification_error = NAN;
    record->verified_losses = -1;
}

/* One rank's peaks of one memory. */
static struct dt_peaks peaks_of(const struct dt_memory_bytes *memory)
{
    struct dt_peaks peaks = {.total = (double)memory->peak_total_bytes};
    for (int c = 0; c < DT_CATEGORY_COUNT; c++)
        peaks.category[c] = (double)memory->peak_bytes[c];
    return peaks;
}

static void add_peak_bytes(cJSON **object, const struct dt_peaks *peaks)
{
    dt_json_add(object, "total: %g", peaks->total);
    for (int c = 0; c < DT_CATEGORY_COUNT; c++)
        dt_json_add(object, "%s: %g", dt_category_name((enum dt_category)c), peaks->category[c]);
}

/* Do two ranks have the same peaks of one memory? */
static bool are_alike(const struct dt_rank_memory *a, const struct dt_rank_memory *b, bool on_host)
{
    const struct dt_memory_bytes *left = on_host ? &a->memory.host : &a->memory.device,
                                 *right = on_host ? &b->memory.host : &b->memory.device;
    return left->peak_total_bytes == right->peak_total_bytes && memcmp(left->peak_bytes, right->peak_bytes, sizeof left->peak_bytes) == 0;
}

static void add_range(cJSON **ranges, int first, int last, int step)
{
    dt_json_append(ranges, dt_json_numbers((const double[]){first, last, step}, 3));
}

/* The ranks that equal `first`, as ranges [first, last, step]; they are marked as written. */
static cJSON *ranks_like(const struct dt_record *record, int first, bool on_host, bool *told)
{
    cJSON *ranges = dt_json_array();
    int begin = first, last = first, step = 0;
    told[first] = true;
    for (int r = first + 1; r < record->rank_count; r++) {
        if (told[r] || !are_alike(&record->ranks[first], &record->ranks[r], on_host))
            continue;
        told[r] = true;
        if (step == 0 || r - last == step) {
            step = r - last;
        } else {
            add_range(&ranges, begin, last, step);
            begin = r;
            step = 0;
        }
        last = r;
    }
    add_range(&ranges, begin, last, step ? step : 1);
    return ranges;
}

/* Most ranks of a large run hold the same: equal ranks are written together. NULL: out of
 * memory. */
static cJSON *peaks_by_ranks(const struct dt_record *record, bool on_host)
{
    DT_FREED bool *told = calloc((size_t)record->rank_count + 1, sizeof *told);
    cJSON *groups = told ? dt_json_array() : NULL;
    for (int r = 0; groups && r < record->rank_count; r++) {
        if (told[r])
            continue;
        struct dt_peaks its = peaks_of(on_host ? &record->ranks[r].memory.host : &record->ranks[r].memory.device);
        cJSON *group = dt_json_object("ranks: %p", ranks_like(record, r, on_host, told));
        add_peak_bytes(&group, &its);
        dt_json_append(&groups, group);
    }
    return groups;
}

/* Sizes of all ranks' processes, or none if all are unknown. */
static cJSON *process_sizes(const struct dt_record *record)
{
    cJSON *sizes = cJSON_CreateArray();
    bool known = false;
    for (int r = 0; r < record->rank_count; r++)
        known |= record->ranks[r].rss_peak_bytes > 0;
    for (int r = 0; known && r < record->rank_count; r++) {
        uint64_t bytes = record->ranks[r].rss_peak_bytes;
        dt_json_append(&sizes, cJSON_CreateNumber(bytes > 0 ? (double)bytes : NAN));
    }
    return sizes;
}

/* The highest rank's peaks of one memory, and each rank's. */
static cJSON *peaks_as_json(const struct dt_peaks *highest, const struct dt_record *record, bool on_host)
{
    cJSON *peaks = dt_json_object("");
    add_peak_bytes(&peaks, highest);
    dt_json_add(&peaks, "by_ranks: %p", peaks_by_ranks(record, on_host));
    if (!on_host)
        dt_json_add(&peaks, "process_rss: %p", process_sizes(record));
    return peaks;
}

static cJSON *metric_as_json(const struct dt_metric *metric, const struct dt_record *record)
{
    const void *member = (const char *)&record->metrics + metric->offset;
    const struct dt_metrics *m = &record->metrics;
    switch (metric->kind) {
    case DT_METRIC_NUMBER: return cJSON_CreateNumber(dt_metric_value(metric, m));
    case DT_METRIC_TEXT: return dt_json_text(*(const char *const *)member);
    case DT_METRIC_STEPS:
        return dt_json_object("median: %g, p95: %g, cv: %g, all: %p", m->step_s.median, m->step_s.p95, m->step_s.cv,
                              dt_json_numbers(record->step_s, record->step_count));
    case DT_METRIC_DEVICE_PEAKS: return peaks_as_json(member, record, false);
    case DT_METRIC_HOST_PEAKS: return peaks_as_json(member, record, true);
    }
    return NULL;
}

/* Numbers that are not finite are printed as null. */
dt_status dt_record_format(const struct dt_record *r, char **out_line)
{
    cJSON *config;
    char key[DT_RATE_KEY_BYTES];
    DT_TRY(dt_json_parse(r->config_json, strlen(r->config_json), "a record's config", &config));
    cJSON *metrics = dt_json_object("");
    for (int i = 0; dt_metric_at(i); i++)
        dt_json_add(&metrics, "%s: %p", dt_metric_key(dt_metric_at(i), &r->metrics, key), metric_as_json(dt_metric_at(i), r));
    cJSON *sweep =
        r->sweep_id ? dt_json_object("id: %s, index: %d, count: %d", r->sweep_id, r->sweep_index, r->sweep_count) : cJSON_CreateNull();
    cJSON *verification = r->verification
                              ? dt_json_object("status: %s, largest_relative_difference: %g", r->verification, r->verification_error)
                              : cJSON_CreateNull();
    if (r->verification && r->verified_losses >= 0)
        dt_json_add(&verification, "compared_losses: %d", r->verified_losses);
    DT_DESTROYED(dt_json_destroy)
    cJSON *root =
        dt_json_object("schema_version: %d, config: %p, config_hash: %p, sweep: %p, status: %p, error: %p, losses: %p, metrics: %p, "
                       "verification: %p, provenance: %p",
                       DT_RECORD_SCHEMA_VERSION, config, dt_json_text(r->config_hash), sweep, dt_json_text(r->status),
                       dt_json_text(r->error), dt_json_numbers(r->losses, r->loss_count), metrics, verification,
                       r->provenance ? cJSON_Duplicate(r->provenance, true) : cJSON_CreateNull());
    if (r->learning_rates)
        dt_json_add(&root, "learning_rates: %p", dt_json_numbers(r->learning_rates, r->loss_count));
    if (r->losses_depend_on)
        dt_json_add(&root, "losses_depend_on: %s", r->losses_depend_on);
    if (r->gradient_norms)
        dt_json_add(&root, "gradient_norms: %p", dt_json_numbers(r->gradient_norms, r->loss_count));
    if (r->loss_scales)
        dt_json_add(&root, "loss_scales: %p", dt_json_numbers(r->loss_scales, r->loss_count));
    return root ? dt_json_print(root, DT_JSON_COMPACT, out_line) : dt_fail(DT_ERR_HOST_MEMORY, "out of memory while making a record");
}
